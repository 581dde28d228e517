"""The threshold of steps against a search that asks every question by itself."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.training.made import replay_of, replayed
from wye.router.evidence import COLUMNS, NAMES_SIGNAL, SIDES_SIGNAL
from wye.router.fusion import FusionSettings
from wye.router.types import Route
from wye.training.data.evaluation_set import EvaluationSet
from wye.training.thresholds.solve import STEPS, solve_steps

D, L, G, S = Route.DENSE, Route.LEXICAL, Route.GRAPH, Route.STEPS
WORSE, SAME, BETTER = (
    {D: "c", L: "c", G: "c", S: "ab"},
    {D: "ab"},
    {D: "ab", L: "a", G: "b", S: "c"},
)


def asked(found: Sequence[tuple[dict[Route, str], float]]) -> EvaluationSet:
    """Questions from what each arm found and how many of their names are found; `c` is gold."""
    features = np.zeros((len(found), len(COLUMNS)))
    features[:, COLUMNS.index(NAMES_SIGNAL)] = [named for _, named in found]
    features[:, COLUMNS.index(SIDES_SIGNAL)] = 1
    questions = [replayed(f"q{place}", "c", one) for place, (one, _) in enumerate(found)]
    return EvaluationSet((replay_of(*questions),), features)


def solved(found: EvaluationSet, weight: float, low: float = 0.2, score: float = 0.5) -> float:
    scores = np.full(len(found), score)
    return solve_steps(found, scores, low, weight, fusion=FusionSettings(), measure="nDCG@10")


def test_what_gains_is_taken_and_what_loses_is_not() -> None:
    found = asked([(BETTER, 0.3), (WORSE, 0.6), (SAME, 0.0)])
    assert solved(found, 0.0) == 0.55
    assert solved(found, 1.0) == 0.0  # a question is not worth 30
    assert solved(found, 0.0, score=0.2) == 0.55  # unsure
    assert solved(found, 0.0, score=0.05) == 0.0  # what is surely simple is not parsed


def test_a_few_questions_leave_out_none() -> None:
    found = asked([(BETTER, 0.3), (WORSE, 0.9), (SAME, 0.0), (WORSE, 0.8)])
    scores = np.full(4, 0.5)

    def solved_with(enough: int) -> float:
        fusion = FusionSettings()
        return solve_steps(found, scores, 0.2, 0.0, fusion=fusion, measure="nDCG@10", enough=enough)

    assert [solved_with(enough) for enough in (0, 2, 3)] == [0.7, 0.7, 0.0]


@given(
    st.lists(
        st.tuples(st.sampled_from([WORSE, SAME, BETTER]), st.sampled_from([0.0, 0.3, 0.5, 0.9])),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from([0.0, 0.01, 0.02]),
)
def test_no_other_place_is_worth_more(
    questions: list[tuple[dict[Route, str], float]], weight: float
) -> None:
    gain = {id(WORSE): -1.0, id(SAME): 0.0, id(BETTER): 1.0}

    def worth(place: float) -> float:
        return sum(
            gain[id(one)] - 30 * weight for one, named in questions if S in one and named < place
        )

    found = solved(asked(questions), weight)
    assert worth(found) == pytest.approx(max(map(worth, STEPS)))
