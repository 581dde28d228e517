import numpy as np
import pytest

from wye.training.data.examples import Examples
from wye.training.errors import FitError


def test_examples_that_do_not_fit_are_refused() -> None:
    features, labels, groups = np.zeros((2, 3)), np.array([0, 1]), np.array(["a", "b"])
    assert not Examples(features, labels, groups).one_sided
    assert Examples(features[1:], labels[1:], groups[1:]).one_sided
    with pytest.raises(FitError, match="do not match"):
        Examples(features[:1], labels, groups)
    with pytest.raises(FitError, match="neither 0 nor 1"):
        Examples(features, labels + 1, groups)
    features[1, 2] = np.inf
    with pytest.raises(FitError, match="Feature 2 of question 1 is inf"):
        Examples(features, labels, groups)
