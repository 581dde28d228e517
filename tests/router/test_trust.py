import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.trigraph.seeds import SeedStats
from backends.types import Hit, Query, Ranking
from router.errors import SettingsError
from router.trust import MOST_LOGIT, GraphWeightModel, bounded_logit, logistic, trust
from router.types import ArmResults, Route


def evidence(titles: int, fifth: float) -> ArmResults:
    masses = [1.0, fifth, fifth, fifth, fifth]
    hits = tuple(Hit(f"p{rank}", mass, rank) for rank, mass in enumerate(masses, start=1))
    seeds = (SeedStats("Ada", 1.0, "name", 9, titles),) if titles else ()
    query = Query("Who is Ada?", np.ones(2, np.float32))
    return ArmResults(query, seeds, {Route.GRAPH: Ranking("graph", hits, 9)})


def test_by_hand() -> None:
    weights = GraphWeightModel(-1.0, 2.0, 0.5)
    found = trust([evidence(2, 0.25)], weights, [None])
    assert found.tolist() == pytest.approx([1 / (1 + math.exp(1 - 1 - 0.5 * math.log(4)))])


@given(st.integers(1, 9), st.floats(0.01, 1), st.floats(0.02, 0.98))
def test_nothing_that_speaks_for_the_graph_lowers_it(
    titles: int, fifth: float, score: float
) -> None:
    weights = GraphWeightModel(score=0.7)
    cases = [
        (evidence(titles, fifth), score),
        (evidence(max(titles - 1, 1), fifth), score),
        (evidence(titles, fifth / 2), score),
        (evidence(titles, fifth), score + 0.01),
    ]
    base, *higher = trust([one for one, _ in cases], weights, [s for _, s in cases])
    assert 0 <= base <= min(higher)
    assert max(higher) <= 1


def test_without_seeds_and_with_a_flat_walk_the_text_arms_answer() -> None:
    assert trust([evidence(0, 0.9)], GraphWeightModel(), [None])[0] < 0.05
    assert trust([evidence(1, 0.02)], GraphWeightModel(), [None])[0] > 0.8


def test_a_score_counts_only_where_it_has_a_weight() -> None:
    one = [evidence(1, 0.1)] * 2
    alone = trust(one, GraphWeightModel(), [0.0, 1.0])
    assert alone[0] == alone[1]
    weighed = trust(one, GraphWeightModel(score=1.0), [None, 0.5])
    assert weighed[0] == weighed[1] == alone[0]


def test_certainty_is_bounded() -> None:
    assert bounded_logit(np.array([0.0, 0.5, 1.0])).tolist() == pytest.approx(
        [-MOST_LOGIT, 0.0, MOST_LOGIT]
    )
    assert logistic(np.array([-1e4, 0.0, 1e4])).tolist() == [0.0, 0.5, 1.0]


@pytest.mark.parametrize(
    ("weights", "says"),
    [
        ({"graph_margin_5": -0.1}, "WYE_FUSION__TRUST__GRAPH_MARGIN_5 is -0.1"),
        ({"bias": math.inf}, "WYE_FUSION__TRUST__BIAS is inf"),
        ({"score": -1.0}, "WYE_FUSION__TRUST__SCORE is -1.0"),
    ],
)
def test_weights_that_make_no_sense(weights: dict[str, float], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        GraphWeightModel(**weights)
