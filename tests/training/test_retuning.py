import io
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from rich.console import Console

from router.fusion import FusionSettings
from router.model import RoutingModel
from router.policy import Policy
from router.scorer import Linear, Scorer, Standard
from router.types import Route, Thresholds
from training.data.evaluation_set import EvaluationSet
from training.errors import FitError
from training.thresholds.outcomes import ThresholdObjective
from training.thresholds.tuning import Tuning, retune, show_retuned

if TYPE_CHECKING:
    from collections.abc import Callable

    from training.data.replay import Replayed, TrainingReplay

D, G = Route.DENSE, Route.GRAPH
FOUND = {1: {D: "bcdefa", G: "ab"}, 0: {D: "ab", G: "bcdefa"}}


@pytest.fixture
def tuning(
    replayed: "Callable[..., Replayed]", replay_of: "Callable[..., TrainingReplay]"
) -> Tuning:
    """The graph is needed from a logit of 1 on; the router's own thresholds change at 0."""
    logits = np.linspace(-3, 3, 60)
    questions = [
        replayed(f"q{at}", "a", FOUND[int(logit > 1)], text=f"Is it [red]{at}[/]?")
        for at, logit in enumerate(logits.tolist())
    ]
    scorer = Scorer(
        names=("f0",),
        columns=np.array([0]),
        width=1,
        standard=Standard(np.zeros(1), np.ones(1), 5.0),
        members=(Linear({"head.weight": np.ones((1, 1)), "head.bias": np.zeros(1)}),),
    )
    model = RoutingModel("hand/v1", scorer, Policy(Thresholds(0.5, 0.5)), None)
    return Tuning(EvaluationSet((replay_of(*questions),), logits[:, None]), model, FusionSettings())


def test_new_thresholds_are_better_and_say_whom_they_move(tuning: Tuning) -> None:
    found = retune(tuning, ThresholdObjective(), elsewhere=False)
    assert found.solution.outcome.quality == 1 > found.before.quality
    rows = np.flatnonzero(
        (tuning.material.features[:, 0] > 0) & (tuning.material.features[:, 0] < 1)
    )
    assert found.moves.rows[found.moves.gain > 0].tolist() == rows.tolist()
    assert (found.moves.gain >= 0).all()
    notes = found.notes()
    low, high = notes["interval of low"]
    assert low <= found.solution.thresholds.low <= high
    assert notes["questions that change route"] == len(found.moves.rows)
    assert found.gain.mean == pytest.approx(found.solution.outcome.quality - found.before.quality)
    assert 0 < found.gain.low < found.gain.mean < found.gain.high
    assert notes["interval of the change in quality"] == [found.gain.low, found.gain.high]


def test_what_changes_is_shown_with_the_questions_that_gain_most(tuning: Tuning) -> None:
    console = Console(width=110, file=io.StringIO(), record=True)
    found = retune(tuning, ThresholdObjective(), elsewhere=False)
    show_retuned(console, tuning, found, most=2)
    text = console.export_text()
    assert "hand/v1 on 60 questions" in text
    assert f"{len(found.moves.rows)} questions change route" in text
    assert text.count("Is it [red]") == 2
    assert "1.0000" in text
    assert f"change in nDCG@10 {found.gain.mean:+.4f}" in " ".join(text.split())


def test_thresholds_that_have_to_hold_elsewhere_leave_fusion_later(tuning: Tuning) -> None:
    here, elsewhere = (
        retune(tuning, ThresholdObjective(), elsewhere=choice) for choice in (False, True)
    )
    assert elsewhere.solution.thresholds.high >= here.solution.thresholds.high
    assert elsewhere.solution.plateau > here.solution.plateau


def test_bounds_that_nothing_keeps(tuning: Tuning) -> None:
    with pytest.raises(FitError, match="No thresholds keep the bounds"):
        retune(tuning, ThresholdObjective(max_mean_ms=0.1))


def test_thresholds_in_use_stay_where_those_solved_are_no_better(tuning: Tuning) -> None:
    best = retune(tuning, ThresholdObjective(), elsewhere=False).solution.thresholds
    used = replace(tuning, model=tuning.model.with_policy(Policy(best)))
    found = retune(used, ThresholdObjective())
    assert found.stays
    assert found.solution.thresholds == best
    assert len(found.moves.rows) == found.gain.mean == 0
    assert found.notes()["stays as it was"]
    console = Console(width=110, file=io.StringIO(), record=True)
    show_retuned(console, used, found, most=2)
    assert "as good on these questions, so they stay" in console.export_text()


def test_thresholds_in_use_that_break_a_bound_do_not_stay(tuning: Tuning) -> None:
    best = retune(tuning, ThresholdObjective(), elsewhere=False).solution.thresholds
    used = replace(tuning, model=tuning.model.with_policy(Policy(best)))
    found = retune(used, ThresholdObjective(max_graph_share=0.1))
    assert not found.stays
    assert sum(found.solution.outcome.shares[1:]) <= 0.1
