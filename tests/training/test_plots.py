import matplotlib as mpl
import numpy as np

from router.types import Thresholds
from training.plots import as_svg, front_figure, histogram, importance_figure, score_figure
from training.thresholds.outcomes import Outcome
from training.thresholds.solve import Front

SCORES = np.array([0.1, 0.4, 0.62, 0.92, 1.0])
LABELS = np.array([0, -1, 1, 1, 1])


def test_scores_are_counted_by_outcome() -> None:
    counts = histogram(SCORES, LABELS)
    assert {name: found.sum() for name, found in counts.items()} == {
        "only the simple arm succeeds": 1,
        "both or neither": 1,
        "only the graph succeeds": 3,
    }
    assert counts["only the graph succeeds"][[12, 18, 19]].tolist() == [1, 1, 1]


def test_the_same_numbers_are_the_same_plot_and_no_setting_stays_changed() -> None:
    before = dict(mpl.rcParams)
    plots = [
        as_svg(score_figure({"all": histogram(SCORES, LABELS)}, Thresholds(low, 0.8)))
        for low in (0.2, 0.2, 0.3)
    ]
    assert plots[0] == plots[1] != plots[2]
    assert dict(mpl.rcParams) == before


def test_a_front_of_one_point() -> None:
    one = Outcome(0.5, 10.0, 12.0, (0.0, 0.0, 1.0))
    front = Front((Thresholds(0, 0),), np.array([0.5]), np.array([10.0]))
    assert "always dense" in as_svg(front_figure(front, one, {"dense": one}))


def test_only_the_most_important_features() -> None:
    svg = as_svg(importance_figure(["a_small", "a_large"], np.array([0.1, 0.9]), most=1))
    assert "a_large" in svg
    assert "a_small" not in svg
