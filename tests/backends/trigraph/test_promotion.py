"""Promotion by itself; `test_retriever` compares whole rankings with a slow version."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wye.backends.store.corpus import Corpus
from wye.backends.trigraph import walk
from wye.backends.trigraph.graph import FilteredGraph
from wye.backends.trigraph.question import InMemory
from wye.backends.trigraph.retriever import NO_SEED, TriGraphRetriever
from wye.backends.trigraph.settings import TriGraphSettings
from wye.backends.trigraph.walk import Masses, Promoted, promote, promoted, reach
from wye.backends.types import Passage, Query

CorpusOf = Callable[..., Corpus]
# Each of the others mentions Ada; only the letter mentions Como.
PASSAGES = (
    Passage("ada", "Ada", "[[Ada]] wrote notes."),
    Passage("como", "Como", "[[Como]] is a lake."),
    Passage("letter", "Letter", "[[Ada]] wrote from [[Como]]."),
    Passage("notes", "Notes", "[[Ada]] wrote about engines."),
)


@pytest.fixture
def arm(corpus_of: CorpusOf) -> TriGraphRetriever:
    own = {passage.id: [1.0, 0.0] for passage in PASSAGES}
    texts = {
        line.replace("[[", "").replace("]]", ""): [1.0, 0.0] for p in PASSAGES for line in [p.text]
    }
    corpus = corpus_of(*PASSAGES, vectors=own | texts, dimension=2)
    settings = TriGraphSettings(lexical_weight=0, lexical_weight_titled=0)
    return TriGraphRetriever(corpus, settings)


def masses(arm: TriGraphRetriever, **given: float) -> Masses:
    rows = np.array(arm.corpus.rows(list(given)), np.int64)
    order = np.argsort(rows)
    return rows[order], np.array([*given.values()])[order]


def one(arm: TriGraphRetriever, settled: Masses, share: float) -> Promoted:
    rows, mass = settled
    source = InMemory(arm.corpus, arm.graph, FilteredGraph(arm.graph))
    return promote(source, source.edges(rows), mass, share)


def test_a_passage_moves_up_to_the_one_that_names_it(arm: TriGraphRetriever) -> None:
    before = masses(arm, ada=0.1, como=0.01, letter=0.64, notes=0.2)
    rows, unmoved = before
    assert one(arm, before, 0) == (unmoved, {})
    mass, named_in = one(arm, before, 0.5)
    found = dict(zip([arm.corpus.ids[row] for row in rows], mass.tolist(), strict=True))
    # Como is mentioned by one other passage, Ada by two.
    assert found["como"] == pytest.approx((0.01 * 0.64) ** 0.5)
    assert found["ada"] == pytest.approx(0.1 * 6.4 ** (0.5 / 2**0.5))
    assert (found["letter"], found["notes"]) == (0.64, 0.2)
    ids = arm.corpus.ids
    assert {ids[row]: ids[by] for row, by in named_in.items()} == {
        "como": "letter",
        "ada": "letter",
    }


def test_an_explanation_says_where_a_passage_was_named(arm: TriGraphRetriever) -> None:
    batch = arm.batch([Query("Who wrote from Ada?", np.array([1, 0], np.float32))])
    (ranking,) = batch.search([0], 4)
    notes = {note.id: note for note in batch.explain(0, ranking).passages}
    ids = arm.corpus.ids
    assert notes["como"].named_in == "letter"
    assert {one.named_in for one in notes.values()} <= {"", *ids}
    total = sum(note.pagerank for note in notes.values())
    assert total == pytest.approx(1)


def test_a_question_that_names_nothing_is_ranked_by_the_prior_alone(arm: TriGraphRetriever) -> None:
    batch = arm.batch([Query("who wrote?", np.array([1, 0], np.float32))])
    (ranking,) = batch.search([0], 4)
    assert ranking.degraded == NO_SEED
    assert {note.named_in for note in batch.explain(0, ranking).passages} == {""}


def test_a_title_that_very_many_passages_mention_promotes_none(
    arm: TriGraphRetriever, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = masses(arm, ada=0.1, como=0.01, letter=0.64, notes=0.2)
    monkeypatch.setattr(walk, "MOST_NAMING", 2)
    assert [arm.corpus.ids[row] for row in one(arm, before, 0.5).named_in] == ["como"]


@given(
    st.lists(st.floats(0, 1), min_size=2, max_size=8),
    st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7), st.integers(1, 9)), max_size=12),
    st.floats(0, 1),
)
def test_no_passage_falls_or_overtakes_the_one_that_names_it(
    mass: list[float], pairs: list[tuple[int, int, int]], share: float
) -> None:
    own = [(to % len(mass), by % len(mass), d) for to, by, d in pairs]
    before = np.array(mass)
    source = before[[by for _, by, _ in own]] if own else np.zeros(0)
    places = np.array([to for to, _, _ in own], np.int64)
    degree = np.array([d for _, _, d in own], np.int64)
    after, moved = promoted(before, places, source, reach(share, degree))
    assert (after >= before).all()
    assert {*places[moved].tolist()} == {*np.flatnonzero(after > before).tolist()}
    assert (after[places[moved]] <= source[moved] * (1 + 1e-9)).all()
