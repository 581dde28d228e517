import numpy as np
import pytest

from training.data.examples import Examples, balanced_weights
from training.errors import FitError


def test_labels_weigh_the_same_within_each_group() -> None:
    labels = np.array([0, 0, 0, 1, 1, 0])
    weights = balanced_weights(labels)
    assert weights.mean() == pytest.approx(1)
    assert weights[labels == 1].sum() == pytest.approx(weights[labels == 0].sum())
    groups = np.array(["a", "a", "a", "a", "b", "b"])
    weights = balanced_weights(labels, groups)
    assert weights[:3].sum() == pytest.approx(weights[3])
    assert weights[4] == pytest.approx(weights[5])
    assert weights[:4].sum() == pytest.approx(2 * weights[4:].sum())


def test_a_group_with_one_label_counts_half() -> None:
    weights = balanced_weights(np.array([1, 1, 1, 0]), np.array(["a", "a", "b", "b"]))
    assert weights[:2].sum() == pytest.approx(weights[2:].sum() / 2)


def test_examples_that_do_not_fit_are_refused() -> None:
    features, labels, groups = np.zeros((2, 3)), np.array([0, 1]), np.array(["a", "b"])
    assert not Examples(features, labels, groups).one_sided
    assert Examples(features, labels, groups).only(np.array([1])).one_sided
    with pytest.raises(FitError, match="do not fit"):
        Examples(features[:1], labels, groups)
    with pytest.raises(FitError, match="neither 0 nor 1"):
        Examples(features, labels + 1, groups)
    features[1, 2] = np.inf
    with pytest.raises(FitError, match="Feature 2 of question 1 is inf"):
        Examples(features, labels, groups)
