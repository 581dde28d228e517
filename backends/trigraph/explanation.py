"""Explanations of the graph arm's rankings, by the numbers that produced them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from backends.store.snapshot import Corpus
from backends.trigraph.bridging import Activation, Bridge
from backends.trigraph.graph import TriGraph
from backends.trigraph.seeds import Seed
from backends.types import Float64


@dataclass(frozen=True, slots=True)
class SeedNote:
    """A span of the question and the entity that it was linked to.

    Attributes:
        mention: The question's words.
        entity: Name of the entity.
        value: In (0, 1]; 1 for the same name, less where spelling or similarity leaves a doubt.
        origin: How it was found: name, nearest, vocabulary or phrase.
    """

    mention: str
    entity: str
    value: float
    origin: str


@dataclass(frozen=True, slots=True)
class BridgeNote:
    """The sentence that led from one entity to another.

    Attributes:
        source: Name of the entity it was reached from; empty for the question itself.
        passage: Id of the sentence's passage.
        sentence: Text of the sentence.
        similarity: Similarity of the sentence to the question.
    """

    source: str
    passage: str
    sentence: str
    similarity: float


@dataclass(frozen=True, slots=True)
class EntityNote:
    """An active entity.

    Attributes:
        entity: Its name.
        level: Step at which it was first reached; 1 for a seed.
        value: Largest value with which it was reached.
        weight: Sum of the values with which it was reached.
        passages: How many passages mention it.
        bridge: How it was first reached; None for a seed.
    """

    entity: str
    level: int
    value: float
    weight: float
    passages: int
    bridge: BridgeNote | None


@dataclass(frozen=True, slots=True)
class PassageNote:
    """The numbers behind a passage's rank.

    Attributes:
        id: Id of the passage.
        prior: Its share of the restart mass, before the walk.
        pagerank: Its share of the mass on passages after the walk.
        entities: Names of the active entities that it mentions, highest weight first.
    """

    id: str
    prior: float
    pagerank: float
    entities: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """How the graph arm came to its ranking, from the question's words to the passages.

    Attributes:
        seeds: Entities that the question names.
        entities: Active entities by level, then by descending weight.
        passages: The passages of the ranking, in its order.
    """

    seeds: tuple[SeedNote, ...]
    entities: tuple[EntityNote, ...]
    passages: tuple[PassageNote, ...]


def explain_seeds(graph: TriGraph, seeds: Sequence[Seed]) -> tuple[SeedNote, ...]:
    """Seeds with the names of their entities."""
    return tuple(
        SeedNote(s.mention, graph.display_names.of(s.entity), s.value, s.origin) for s in seeds
    )


def explain_entities(
    graph: TriGraph, corpus: Corpus, activation: Activation
) -> tuple[EntityNote, ...]:
    """Active entities by level, then by descending weight, with the sentences that led to them."""
    bridges = _explain_bridges(graph, corpus, list(activation.bridges.items()))
    passages_of = graph.passages.lengths(activation.entities)
    notes = [
        EntityNote(
            graph.display_names.of(entity),
            level,
            value,
            weight,
            passages,
            bridges.get(entity),
        )
        for entity, level, value, weight, passages in zip(
            activation.entities.tolist(),
            activation.level.tolist(),
            activation.value.tolist(),
            activation.weight.tolist(),
            passages_of.tolist(),
            strict=True,
        )
    ]
    return tuple(sorted(notes, key=lambda note: (note.level, -note.weight, note.entity)))


def explain_passages(
    graph: TriGraph, ids: Sequence[str], rows: Sequence[int], activation: Activation, mass: Float64
) -> tuple[PassageNote, ...]:
    """Notes on the ranked passages: their mass, and the active entities that they mention.

    Args:
        ids: Ids of all passages.
        rows: r rows of the ranked passages.
        mass: (2, r) their shares of the restart mass and of the mass after the walk.
    """
    order = np.lexsort((activation.entities, -activation.weight))
    active = activation.entities[order]
    passages = graph.passages.of(active)
    names = np.repeat(active, graph.passages.lengths(active))
    return tuple(
        PassageNote(
            ids[row],
            prior,
            pagerank,
            tuple(map(graph.display_names.of, names[passages == row].tolist())),
        )
        for row, prior, pagerank in zip(rows, *mass.tolist(), strict=True)
    )


def _explain_bridges(
    graph: TriGraph, corpus: Corpus, bridges: Sequence[tuple[int, Bridge]]
) -> dict[int, BridgeNote]:
    rows = np.array([bridge.sentence for _, bridge in bridges], np.int64)
    texts = corpus.sentence_texts(rows) if len(rows) else []
    return {
        entity: BridgeNote(
            graph.display_names.of(bridge.source) if bridge.source >= 0 else "",
            corpus.ids[int(corpus.sentence_passage[bridge.sentence])],
            text,
            bridge.similarity,
        )
        for (entity, bridge), text in zip(bridges, texts, strict=True)
    }
