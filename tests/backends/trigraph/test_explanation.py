"""Explanations repeat the numbers and the texts that made a ranking, and invent none."""

import numpy as np
import pytest

from tests.backends.conftest import CorpusOf, trace_of
from wye.backends.text import entity_key
from wye.backends.trigraph.explanation import BridgeNote, Explanation, SeedNote
from wye.backends.trigraph.retriever import NO_SEED, TriGraphRetriever
from wye.backends.trigraph.settings import AssemblySettings, TriGraphSettings
from wye.backends.types import Mask, Mention, Passage, Query, RankedHit, Ranking

PASSAGES = [
    Passage("a", "Ada Lind", "Among painters [Ada Lind] married [Bo Ek].\nShe liked {warm salt}."),
    Passage("b", "Bo Ek", "[Bo Ek] was born in [Como].\n[Bo Ek] sang with [Dee]."),
    Passage("c", "Como (town)", "[Como] lies on a lake with {warm salt}."),
    Passage("d", "Dee", "[Dee] likes [Eve].\nBo Ek saw [Eve]."),
    Passage("e", "", "[Eve] is alone."),
]
VECTORS = {
    "a": [0.6, 0.8, 0, 0],
    "b": [0.8, 0.6, 0, 0],
    "c": [0, 1, 0, 0],
    "d": [0, 0, 1, 0],
    "e": [0, 0, 0, 1],
    "Among painters Ada Lind married Bo Ek.": [0.75, 0, 0, 0],
    "Bo Ek was born in Como.": [0.875, 0, 0, 0],
}
SETTINGS = TriGraphSettings(
    assembly=AssemblySettings(noun_phrases="on"), lexical_weight=0, lexical_weight_titled=0
)
QUERY = Query(
    "Where was the husband of Ada Lind born?",
    np.array([1, 0, 0, 0], np.float32),
    mentions=(Mention("Ada Lind’s", "entity"), Mention("warm salt", "phrase")),  # noqa: RUF001
)


@pytest.fixture
def retriever(corpus_of: CorpusOf) -> TriGraphRetriever:
    return TriGraphRetriever(corpus_of(*PASSAGES, vectors=VECTORS), SETTINGS)


def explained(
    retriever: TriGraphRetriever, query: Query = QUERY, allowed: Mask | None = None
) -> tuple[Ranking, Explanation]:
    """The ranking of the graph itself, and how it came about."""
    batch = retriever.batch([query], allowed)
    (ranking,) = batch.search([0], 5)
    explanation = batch.explain(0, ranking)
    assert [note.id for note in explanation.passages] == [hit.id for hit in ranking.hits]
    return ranking, explanation


def shares_of(ranking: Ranking) -> list[float]:
    scores = np.array([hit.score for hit in ranking.hits])
    shares: list[float] = (scores / scores.sum()).tolist()
    return shares


def test_seeds_by_the_questions_words_and_by_name(retriever: TriGraphRetriever) -> None:
    assert explained(retriever)[1].seeds == (
        SeedNote("Ada Lind’s", "Ada Lind", 1.0, "name"),  # noqa: RUF001
        SeedNote("warm salt", "warm salt", SETTINGS.seeds.noun_phrase, "phrase"),
    )


def test_every_bridge_is_a_sentence_of_the_corpus_that_names_both_its_ends(
    retriever: TriGraphRetriever,
) -> None:
    _, explanation = explained(retriever)
    notes = {note.entity: note for note in explanation.entities}
    assert set(notes) >= {"Ada Lind", "Bo Ek", "Como", "warm salt"}
    texts = dict(zip(retriever.corpus.ids, retriever.corpus.texts(range(5)), strict=True))
    for note in explanation.entities:
        if note.bridge is None:
            assert note.level == 1
            continue
        assert note.bridge.sentence in texts[note.bridge.passage].splitlines()
        assert notes[note.bridge.source].level == note.level - 1
    first = BridgeNote("Ada Lind", "a", "Among painters Ada Lind married Bo Ek.", 0.75)
    assert notes["Bo Ek"].bridge == first
    assert notes["Como"].bridge == BridgeNote("Bo Ek", "b", "Bo Ek was born in Como.", 0.875)


def test_entities_come_by_level_then_weight_as_in_the_trace(retriever: TriGraphRetriever) -> None:
    active = trace_of(retriever.batch([QUERY]), 0).activation
    _, explanation = explained(retriever)
    numbers = (active.level.tolist(), active.value.tolist(), active.weight.tolist())
    names = [retriever.graph.display_names.of(e) for e in active.entities.tolist()]
    expected = dict(zip(names, zip(*numbers, strict=True), strict=True))
    assert {n.entity: (n.level, n.value, n.weight) for n in explanation.entities} == expected
    places = [(note.level, -note.weight, note.entity) for note in explanation.entities]
    assert places == sorted(places)
    passages = {note.entity: note.passages for note in explanation.entities}
    assert (passages["Bo Ek"], passages["warm salt"]) == (3, 2)


@pytest.mark.parametrize("mask", [None, [True, True, True, False, True]])
def test_shares_match_the_scores_and_add_up_to_no_more_than_one(
    retriever: TriGraphRetriever, mask: list[bool] | None
) -> None:
    allowed = None if mask is None else np.array(mask)
    ranking, explanation = explained(retriever, allowed=allowed)
    assert [note.pagerank for note in explanation.passages] == pytest.approx(shares_of(ranking))
    trace = trace_of(retriever.batch([QUERY], allowed), 0)
    total = trace.prior.sum() + trace.restart.sum()
    priors = {note.id: note.prior for note in explanation.passages}
    assert sum(priors.values()) <= 1
    for row, prior in zip(trace.passages.tolist(), trace.prior.tolist(), strict=True):
        assert priors.get(retriever.corpus.ids[row], 0) == pytest.approx(prior / total)


def test_passages_name_the_active_entities_strongest_first(retriever: TriGraphRetriever) -> None:
    _, explanation = explained(retriever)
    weight = {note.entity: note.weight for note in explanation.entities}
    named = {note.id: note.entities for note in explanation.passages}
    assert set(named["a"]) == {"Ada Lind", "Bo Ek", "warm salt"}
    assert set(named["b"]) >= {"Bo Ek", "Como"}
    assert set(named["d"]) >= {"Bo Ek"}
    for entities in named.values():
        strength = [weight[entity] for entity in entities]
        assert strength == sorted(strength, reverse=True)


def test_only_the_passages_of_the_ranking_are_explained_and_unknown_ones_left_out(
    retriever: TriGraphRetriever,
) -> None:
    hits = tuple(RankedHit(id_, 1 / rank, rank) for rank, id_ in enumerate(("c", "gone", "a"), 1))
    batch = retriever.batch([QUERY])
    batch.search([0], 5)
    some = batch.explain(0, Ranking("dense", hits))
    notes = {note.id: note for note in explained(retriever)[1].passages}
    assert some.passages == (notes["c"], notes["a"])
    assert sum(note.pagerank for note in some.passages) < 1
    assert batch.explain(0, Ranking("graph", ())).passages == ()


def test_a_question_without_seeds_is_explained_by_its_prior(retriever: TriGraphRetriever) -> None:
    ranking, explanation = explained(retriever, Query("who?", QUERY.vector))
    assert ranking.degraded == NO_SEED
    assert (explanation.seeds, explanation.entities) == ((), ())
    assert [note.prior for note in explanation.passages] == pytest.approx(shares_of(ranking))
    assert {note.entities for note in explanation.passages} == {()}


def test_what_a_filter_leaves_out_is_neither_told_nor_counted(retriever: TriGraphRetriever) -> None:
    allowed = np.array([False, True, True, True, True])
    _, explanation = explained(retriever, allowed=allowed)
    assert "a" not in {note.id for note in explanation.passages}
    graph, hidden = retriever.graph, 0
    for note in explanation.entities:
        assert note.bridge is None or note.bridge.passage != "a"
        entity = np.array([graph.keys.find(entity_key(note.entity))])
        _, mentioned = graph.passages.pairs(entity)
        assert note.passages == allowed[mentioned].sum()
        hidden += len(mentioned) - note.passages
    assert hidden
