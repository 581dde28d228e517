"""Signals of the text arms against what they are said to be, on evidence made by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wye.backends.coverage import Coverage, NameCoverage, WordCoverage
from wye.backends.types import Query, RankedHit, Ranking
from wye.router.text_evidence import NAME_SIGNALS, QUESTION_SIGNALS, TEXT_SIGNALS, text_signals
from wye.router.types import ArmResults, Route

QUERY = Query("Where was the director of Reef, Ada Lind's mother born?", np.ones(2, np.float32))


def ranking(arm: Route, **hits: float) -> Ranking:
    pairs = enumerate(hits.items(), start=1)
    return Ranking(arm, tuple(RankedHit(id_, score, rank) for rank, (id_, score) in pairs), 100)


LISTS = {
    Route.DENSE: ranking(Route.DENSE, a=0.9, b=0.8, c=0.5),
    Route.LEXICAL: ranking(Route.LEXICAL, b=8.0, a=6.0),
}
COVERAGE = Coverage(
    scores=(1.0, 0.7),
    words=(
        WordCoverage("director", 2.0, 0b00, 0b01),
        WordCoverage("reef", 4.0, 0b10, 0b10),
        WordCoverage("mother", 2.0, 0b00, 0b00),
    ),
    names=(
        NameCoverage("Reef", 1.0, 7, 2, 0b10, 0b11),
        NameCoverage("Ada Lind", 0.5, 1, 0, 0b00, 0b01),
    ),
)


def of(evidence: ArmResults) -> dict[str, float]:
    return dict(zip(TEXT_SIGNALS, text_signals(evidence), strict=True))


def test_each_by_hand() -> None:
    found = of(ArmResults(QUERY, rankings=LISTS, coverage=COVERAGE))
    expected = {
        "text_dense_margin_3": 0.4,
        "text_lexical_best": 1.0,
        "text_lexical_margin_2": 0.25,
        "text_lexical_margin_10": 0.25,  # of two, the last
        "text_hybrid_margin_2": 0.3,
        "text_agreement_1": 0.0,
        "text_agreement_3": 2 / 3,
        "text_dense_in_lexical": 1 - math.log(2) / math.log(3),
        "text_lexical_in_dense": 1 - math.log(2) / math.log(4),
        "words_title_1": 0.0,
        "words_title_3": 0.5,
        "words_text_1": 0.25,
        "words_text_3": 0.75,
        "words_together": 0.5,
        "rest_share": 0.5,
        "rest_count": 2,
        "rest_text_5": 0.5,
        "question_words": 3,
        "question_of": 1,
        "question_possessives": 1,
        "question_commas": 1,
        "question_relatives": 0,
        "question_prepositions": 0,
        "question_articles": 1,
        "question_auxiliaries": 1,
        "names_count": math.log(3),
        "names_value_sum": 1.5,
        "names_lower_case": 0.0,
        "names_title_1": 0.0,
        "names_title_3": 2 / 3,
        "names_text_1": 1.0,
        "names_together": 1.0,
        "names_degree_least": math.log(2),
        "names_degree_most": math.log(8),
        "names_specificity": 0.5,
        "titled_uniqueness": 0.5,
        "titled_found_1": 0.0,
        "titled_found_2": 1.0,
        "titled_missing_1": 1.0,
        "titled_missing_2": 0.0,
        "untitled_sum": 0.5,
        "untitled_text_5": 1.0,
        "passages_titled_1": 0,
        "passages_titled_5": 1,
        "passages_naming_5": 2,
    }
    assert {name: found[name] for name in expected} == pytest.approx(expected)


def test_nothing_found_is_no_error_and_words_without_a_name_are_all_there() -> None:
    found = of(ArmResults(Query("", np.zeros(0, np.float32))))
    assert {name for name, value in found.items() if value} == {
        "rest_text_1",
        "rest_text_3",
        "rest_text_5",
    }


def test_entropy_is_1_where_all_are_alike() -> None:
    alike = ranking(Route.DENSE, **dict.fromkeys("abcde", 0.5))
    found = of(ArmResults(QUERY, rankings={Route.DENSE: alike}))
    assert found["text_dense_entropy"] == pytest.approx(1)


@given(st.lists(st.floats(0, 1, width=16), min_size=1, max_size=12), st.floats(0.25, 8))
def test_the_scale_of_the_lexical_arm_does_not_matter(scores: list[float], by: float) -> None:
    falling = sorted(scores, reverse=True)
    hits = {f"p{place}": score + 0.1 for place, score in enumerate(falling)}
    larger = {id_: score * by for id_, score in hits.items()}
    one, other = (
        of(ArmResults(QUERY, rankings={Route.LEXICAL: ranking(Route.LEXICAL, **each)}))
        for each in (hits, larger)
    )
    assert one == pytest.approx(other)


def test_groups_are_of_signals_that_there_are() -> None:
    assert set(TEXT_SIGNALS) > NAME_SIGNALS | QUESTION_SIGNALS
    assert not NAME_SIGNALS & QUESTION_SIGNALS
    assert len(set(TEXT_SIGNALS)) == len(TEXT_SIGNALS)
