import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.evaluation.measures import MEASURES, score

PASSAGES = [f"p{number}" for number in range(14)]
judged = st.dictionaries(st.sampled_from(PASSAGES), st.just(1), min_size=1, max_size=5)
ranked = st.lists(st.sampled_from(PASSAGES), unique=True)


def reference(judgements: dict[str, int], ids: list[str]) -> dict[str, float]:
    """The measures by their definitions, for binary relevance."""
    gold = {id_ for id_, relevance in judgements.items() if relevance > 0}

    def found(cutoff: int) -> int:
        return len([id_ for id_ in ids[:cutoff] if id_ in gold])

    gain = sum(1 / math.log2(rank + 1) for rank, id_ in enumerate(ids[:10], 1) if id_ in gold)
    ideal = sum(1 / math.log2(rank + 1) for rank in range(1, min(len(gold), 10) + 1))
    return {
        **{f"R@{cutoff}": found(cutoff) / len(gold) for cutoff in (1, 3, 5, 10)},
        "nDCG@10": gain / ideal,
        "Success@1": float(found(1) > 0),
        "Success@5": float(found(5) > 0),
        "all-evidence@5": float(found(5) == len(gold)),
    }


@given(st.lists(st.tuples(judged, ranked), min_size=1, max_size=5))
def test_agrees_with_the_definitions(questions: list[tuple[dict[str, int], list[str]]]) -> None:
    judgements = {f"q{place}": gold for place, (gold, _) in enumerate(questions)}
    run = {f"q{place}": ids for place, (_, ids) in enumerate(questions)}
    values = score(judgements, run)
    for row, (gold, ids) in zip(values, questions, strict=True):
        expected = reference(gold, ids)
        assert dict(zip(MEASURES, row, strict=True)) == pytest.approx(expected)


def test_an_unanswered_question_scores_nothing() -> None:
    values = score({"asked": {"p1": 1}, "unasked": {"p1": 1}}, {"asked": ["p1"]})
    assert np.array_equal(values, np.vstack([np.ones(len(MEASURES)), np.zeros(len(MEASURES))]))


def test_a_run_without_any_answer() -> None:
    assert not score({"q": {"p1": 1}}, {}).any()


def test_passages_judged_irrelevant_are_no_evidence() -> None:
    values = score({"q": {"p1": 1, "p2": 0}}, {"q": ["p2", "p1"]})
    measures = dict(zip(MEASURES, values[0], strict=True))
    assert measures["R@1"] == 0
    assert measures["all-evidence@5"] == 1
