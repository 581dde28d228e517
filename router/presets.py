"""Four published systems, each as one setting: `WYE_PRESET`, `--preset`, or `preset=` in Python.

A preset is a set of other settings; what is set explicitly goes on top of it. None of them needs a
language model where the paper has one: docs/guides/presets.md says what stands in for it.
"""

from collections.abc import Mapping
from typing import Any

EA_GRAPHRAG = "ea-graphrag"
PRESETS: Mapping[str, Mapping[str, Mapping[str, Any] | str]] = {
    # A network on the question's syntax, two thresholds, and dense, the graph, or both by rank with
    # weights 1 - s and s. The graph is entered by facts, and restarts at entities alone (equation
    # 6) over the whole corpus.
    EA_GRAPHRAG: {
        "router": {"model": "router-syntax-en/v1"},
        "fusion": {"method": "rrf", "lists": ("dense", "graph"), "rrf_k": 60.0},
        "graph": {
            "activation": "facts",
            "lexical_weight": 0.0,
            "lexical_weight_titled": 0.0,
            "passage_weight": 0.0,
            "title_weight": 0.0,
            "promotion": 0.0,
            "candidates": 0,
        },
        "duplicates": "keep",
    },
    # The walk of the paper: activation by equation 5, lambda .05, damping .85. Names and sentences
    # are the tagger's alone; a name that the graph lacks takes the one with the nearest vector,
    # which the index must have. Edges between neighbours in the file, which the public code adds,
    # are left out: in published corpora these are each other's evidence.
    "linearrag": {
        "router": {"route": "graph"},
        "analyser": {"sentence_vectors": "plain", "title_in_text": True},
        "ingest": {"entity_vectors": True},
        "graph": {
            "assembly": {"title_entities": False, "link_text": False, "noun_phrases": "off"},
            "seeds": {"vocabulary": False, "nearest": True, "similarity_floor": 0.0},
            "activation": "eq5",
            "threshold": 0.5,
            "similarity_weight": 0.05,
            "lexical_weight": 0.0,
            "lexical_weight_titled": 0.0,
            "degree_power": 0.0,
            "title_weight": 0.0,
            "promotion": 0.0,
            "damping": 0.85,
            "candidates": 0,
        },
        "duplicates": "keep",
    },
    # K 3, D 3, M 5; N is the number of hits in the reply.
    "clue-rag": {
        "router": {"route": "clue"},
        "clue": {"nearest": 3, "rounds": 3, "sets": 5},
        "duplicates": "keep",
    },
    # Edges from three deviations on, between passages too; answers read what Chunk-Zoom leaves.
    "zoom-rag": {
        "router": {"route": "zoom"},
        "zoom": {"deviations": 3.0, "neighbours": 64},
        "generator": {"pack": "zoom"},
        "duplicates": "keep",
    },
}
