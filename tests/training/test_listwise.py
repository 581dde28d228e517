from collections.abc import Callable

import numpy as np
import pytest

from benchmarks.listwise import fit_listwise, fuse_listwise
from router.types import Route
from training.data.replay import Replayed
from training.errors import FitError

MakeQuestion = Callable[..., Replayed]
D, L, G = Route.DENSE, Route.LEXICAL, Route.GRAPH


def test_the_arm_that_is_right_gets_the_weight(replayed: MakeQuestion) -> None:
    asked = [replayed(f"q{n}", "a", {D: "cba", L: "cab", G: "abc"}) for n in range(5)]
    weights = fit_listwise(asked)
    assert weights.shape == (6,)
    assert (weights >= 0).all()
    assert weights[4:].sum() > weights[:4].sum()
    found = fuse_listwise(asked[0].results, weights, 2)
    assert found.hits[0].id == "a"
    assert len(found.hits) == 2


def test_the_loss_is_least_where_it_stops(replayed: MakeQuestion) -> None:
    """Against a slow softmax over candidates, moved in every direction."""
    asked = [
        replayed("q1", "a", {D: "ba", L: "", G: "ab"}),
        replayed("q2", "bc", {D: "bac", L: "c", G: "ab"}),
        replayed("q3", "z", {D: "ba", L: "b", G: "ab"}),
    ]
    weights = fit_listwise(asked)

    def loss(trial: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
        total, counted = 0.0, 0
        for one in asked:
            found = fuse_listwise(one.results, trial, 100)
            scores = {hit.id: hit.score for hit in found.hits}
            gold = [id_ for id_ in scores if id_ in one.gold]
            if gold:
                counted += 1
                everything = sum(np.exp(score) for score in scores.values())
                total -= sum(np.log(np.exp(scores[g]) / everything) for g in gold) / len(gold)
        return float(total / counted + 1e-3 * trial @ trial)

    least = loss(weights)
    for place in range(6):
        for step in (-0.05, 0.05):
            moved = weights.copy()
            moved[place] = max(moved[place] + step, 0)
            assert loss(moved) >= least - 1e-9


def test_equal_scores_are_ordered_by_id(replayed: MakeQuestion) -> None:
    one = replayed("q", "a", {D: "ba", L: "ab", G: ""})
    found = fuse_listwise(one.results, np.zeros(6), 9)
    assert [hit.id for hit in found.hits] == ["a", "b"]


def test_nothing_relevant_was_found(replayed: MakeQuestion) -> None:
    with pytest.raises(FitError, match="No arm found a relevant passage"):
        fit_listwise([replayed("q", "z", {D: "a", L: "", G: "b"})])
