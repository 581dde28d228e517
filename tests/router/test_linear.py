import numpy as np
import pytest

from router.scorer import Linear


def test_the_logit_and_its_gradient() -> None:
    member = Linear({"head.weight": np.array([[1.0, -2.0, 0.5]]), "head.bias": np.array([0.25])})
    assert member.width == 3
    assert member.logit(np.array([1.0, 1.0, 4.0])) == 1.25
    assert member.gradients(np.zeros((2, 3))).tolist() == [[1.0, -2.0, 0.5]] * 2


def test_weights_that_do_not_fit_are_refused() -> None:
    with pytest.raises(KeyError):
        Linear({"head.weight": np.zeros((1, 3))})
    for weight, bias in [((2, 3), (2,)), ((1, 3), (2,)), ((3,), (1,))]:
        with pytest.raises(ValueError, match="one output"):
            Linear({"head.weight": np.zeros(weight), "head.bias": np.zeros(bias)})
