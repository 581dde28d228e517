import numpy as np
import pytest

from benchmarks.min_feedback import as_feedback, changes
from router.fusion import FusionSettings
from router.model import RoutingModel
from router.policy import Policy
from router.types import Route, Thresholds
from tests.training.made import one_feature, replay_of, replayed
from training.data.evaluation_set import EvaluationSet
from training.thresholds.tuning import Tuning

D, L, G = Route.DENSE, Route.LEXICAL, Route.GRAPH


@pytest.fixture
def tuning() -> Tuning:
    """Above a logit of 0 only the graph finds a, and dense shows b at least; z nobody finds."""
    logits = np.linspace(-3, 3, 40)
    questions = [
        replayed(
            f"q{at}",
            "ab" if logit > 0 else "az",
            {D: "bcdef" if logit > 0 else "ab", L: "b", G: "ab" if logit > 0 else "bcdef"},
        )
        for at, logit in enumerate(logits.tolist())
    ]
    model = RoutingModel("hand/v1", one_feature(), Policy(Thresholds(0.9, 1)), None)
    return Tuning(EvaluationSet((replay_of(*questions),), logits[:, None]), model, FusionSettings())


def test_only_what_was_shown_is_judged(tuning: Tuning) -> None:
    judged, kept = as_feedback(tuning)
    assert len(kept) == 40
    # Of b alone dense makes the best of it; of a and z, where it shows a alone, likewise.
    assert judged.quality[0, 0] == judged.quality[-10, 0] == 1
    assert tuning.outcomes.quality[0, 0] < 1
    assert tuning.outcomes.quality[-10, 2] == 1 > judged.quality[-10, 2]


def test_what_is_solved_is_compared_with_what_there_was(tuning: Tuning) -> None:
    judged, kept = as_feedback(tuning)
    true = changes(tuning, tuning.outcomes, 20, cautious=False, draws=5, seed=0)
    biased = changes(tuning, judged.only(kept), 20, cautious=False, draws=5, seed=0)
    assert true.shape == biased.shape == (5,)
    assert (true > 0).all()
    assert (biased <= true).all()
