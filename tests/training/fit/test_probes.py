import math

import numpy as np
import pytest

from training.data.examples import Pool
from training.fit.probes import ablation, learning_curve, probe
from training.fit.recipe import RouterRecipe

NAMES = ("words_text_1", "names_count", "depth_max")
RECIPE = RouterRecipe(kind="extra-trees", among=NAMES[:2], trees=10)


@pytest.fixture
def pool() -> Pool:
    """The graph is needed where few words stand in the first passage."""
    features = np.random.default_rng(0).normal(size=(300, len(NAMES)))
    labels = (features[:, 0] < 0).astype(np.int64)
    return Pool(features, labels, np.array(["here", "there"] * 150))


def test_a_probe_looks_at_what_is_known_and_at_each_dataset_alone() -> None:
    labels = np.array([0, 1, 0, 1, -1, 0, 1])
    logits = np.array([0.0, 1.0, 3.0, 2.0, 9.0, 5.0, np.nan])
    groups = np.array(["a", "a", "b", "b", "b", "c", "c"])
    found = probe("by hand", labels, logits, groups)
    assert found.auc == pytest.approx(2 / 6)
    assert found.within == {"a": 1.0, "b": 0.0}  # of the third, one label is left
    assert found.mean_within == 0.5
    assert math.isnan(probe("one-sided", np.zeros(7, np.int64), logits, groups).mean_within)


def test_what_the_label_hangs_on_is_missed_where_it_is_left_out(pool: Pool) -> None:
    found = {one.name: one for one in ablation(pool, NAMES, RECIPE)}
    assert list(found) == ["without words", "without names"]  # of syntax there is no column
    assert found["without words"].auc < 0.65
    assert found["without names"].auc > 0.9
    assert {*found["without names"].within} == {"here", "there"}


def test_more_questions_teach_more(pool: Pool) -> None:
    found = list(learning_curve(pool, NAMES, RECIPE))
    sizes = (50, 100, 200, 240)
    assert [one.name for one in found] == [f"{size} questions" for size in sizes]
    assert found[0].auc < found[-1].auc
