"""Where walks start: what seeds reach."""

from collections.abc import Callable

import numpy as np
import pytest

from backends.numerics import RequestError
from backends.store.snapshot import Corpus
from backends.trigraph.graph import AssemblySettings
from backends.trigraph.retriever import TriGraphRetriever, TriGraphSettings
from backends.types import Mask, Mention, Passage, Query

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
    found = graph.batch([asked("Does Ada sail on Como?", "Ada")]).seeds(0)
    assert [(s.mention, s.value, s.passages, s.titles) for s in found] == [
        ("Ada", 1.0, 2, 0),
        ("Como", 1.0, 2, 2),
    ]


def test_what_a_filter_leaves_out_is_not_counted(graph: TriGraphRetriever) -> None:
    query = asked("Does Ada sail on Como?", "Ada")
    found = graph.batch([query], only(1, 2)).seeds(0)
    assert [(s.mention, s.passages, s.titles) for s in found] == [("Ada", 1, 0), ("Como", 1, 1)]
    found = graph.batch([query], only(3)).seeds(0)
    assert found == ()
    with pytest.raises(RequestError, match="filter mask"):
        graph.batch([query], np.ones(2, bool))
