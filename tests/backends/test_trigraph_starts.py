"""Where walks start: what seeds reach, and walks from passages instead of seeds."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from backends.numerics import RequestError
from backends.store.snapshot import Corpus
from backends.trigraph.graph import AssemblySettings
from backends.trigraph.pagerank import personalized_pagerank
from backends.trigraph.retriever import NO_START, TriGraphRetriever, TriGraphSettings
from backends.types import Float64, Mask, Mention, Passage, Query

CorpusOf = Callable[..., Corpus]
SETTINGS = TriGraphSettings(
    assembly=AssemblySettings(noun_phrases="on"),
    lexical_weight=0,
    lexical_weight_titled=0,
    walk="full",
)
PASSAGES = [
    Passage("a", "Como", "[Ada] sails on [Como]."),
    Passage("b", "Como", "[Bo] swims in [Como]."),
    Passage("c", "", "[Ada] met [Bo] and [Cy]."),
    Passage("d", "", "[Dee] is alone."),
]


@pytest.fixture
def graph(corpus_of: CorpusOf) -> TriGraphRetriever:
    return TriGraphRetriever(corpus_of(*PASSAGES), SETTINGS)


def asked(text: str, *mentions: str) -> Query:
    named = tuple(Mention(mention, "entity") for mention in mentions)
    return Query(text, np.array([1, 0, 0, 0], np.float32), mentions=named)


def only(*rows: int) -> Mask:
    mask = np.zeros(len(PASSAGES), bool)
    mask[list(rows)] = True
    return mask


def test_seeds_say_how_much_they_point_at(graph: TriGraphRetriever) -> None:
    (found,) = graph.seeds([asked("Does Ada sail on Como?", "Ada")])
    assert [(s.mention, s.value, s.passages, s.titles) for s in found] == [
        ("Ada", 1.0, 2, 0),
        ("Como", 1.0, 2, 2),
    ]


def test_what_a_filter_leaves_out_is_not_counted(graph: TriGraphRetriever) -> None:
    query = asked("Does Ada sail on Como?", "Ada")
    (found,) = graph.seeds([query], only(1, 2))
    assert [(s.mention, s.passages, s.titles) for s in found] == [("Ada", 1, 0), ("Como", 1, 1)]
    (found,) = graph.seeds([query], only(3))
    assert found == ()
    with pytest.raises(RequestError, match="filter mask"):
        graph.seeds([query], np.ones(2, bool))


def settled(graph: TriGraphRetriever, mass: Mapping[int, float]) -> Float64:
    prior = np.zeros((len(PASSAGES), 1))
    for row, value in mass.items():
        prior[row] = value
    walk = graph._view.walk
    none = sparse.csc_array((walk.entities, 1))
    return personalized_pagerank(walk, prior, none, damping=SETTINGS.damping).passages[:, 0]


def test_a_walk_from_passages_settles_where_pagerank_says(graph: TriGraphRetriever) -> None:
    (found,) = graph.spread([{"a": 3.0, "d": 1.0}], 10)
    expected = settled(graph, {0: 3.0, 3: 1.0})
    assert {hit.id: hit.score for hit in found.hits} == pytest.approx(
        dict(zip("abcd", expected.tolist(), strict=True))
    )
    assert found.hits[0].id == "a"
    assert found.degraded == ""


def test_only_what_the_walk_reached_is_returned(graph: TriGraphRetriever) -> None:
    found, cut = graph.spread([{"d": 1.0}, {"a": 1.0}], 1)
    assert [hit.id for hit in found.hits] == ["d"]
    assert found.candidates == 1
    assert [hit.id for hit in cut.hits] == ["a"]
    assert cut.candidates == 3


def test_a_filter_keeps_the_walk_out(graph: TriGraphRetriever) -> None:
    (found,) = graph.spread([{"a": 1.0}], 10, only(0, 3))
    assert [hit.id for hit in found.hits] == ["a"]
    (found,) = graph.spread([{"b": 1.0, "nowhere": 1.0}], 10, only(0, 3))
    assert found.hits == ()
    assert found.degraded == NO_START


def test_a_local_walk_from_passages_is_near_the_full_one(corpus_of: CorpusOf) -> None:
    near = TriGraphRetriever(corpus_of(*PASSAGES), replace(SETTINGS, walk="local"))
    (found,) = near.spread([{"a": 1.0}], 10)
    expected = dict(zip("abcd", settled(near, {0: 1.0}).tolist(), strict=True))
    for hit in found.hits:
        assert hit.score == pytest.approx(expected[hit.id], abs=2e-3)
