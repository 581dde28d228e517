import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest

from router.scorer import AttentionMlp, Floats, Stack

Tensors = Callable[..., dict[str, Floats]]
SHAPES = [(3, (4, 2)), (5, (5, 5)), (7, (8, 8, 4)), (1, (1,))]


def sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value))


def affine(tensors: Mapping[str, Floats], name: str, x: Sequence[float]) -> list[float]:
    weight, bias = tensors[f"{name}.weight"].tolist(), tensors[f"{name}.bias"].tolist()
    return [
        math.fsum(w * v for w, v in zip(row, x, strict=True)) + b
        for row, b in zip(weight, bias, strict=True)
    ]


def reference(tensors: Mapping[str, Floats], depth: int, x: Sequence[float]) -> float:
    """The equations at the head of `router.scorer`, number by number."""
    hidden = [v * sigmoid(a) for v, a in zip(x, affine(tensors, "features", x), strict=True)]
    for layer in range(depth):
        made = [a * sigmoid(a) for a in affine(tensors, f"hidden.{layer}", hidden)]
        if len(made) == len(hidden):
            made = [m + h for m, h in zip(made, hidden, strict=True)]
        hidden = made
    gate = [sigmoid(a) for a in affine(tensors, "output", hidden)]
    return affine(tensors, "head", [h * g for h, g in zip(hidden, gate, strict=True)])[0]


@pytest.mark.parametrize(("inputs", "hidden"), SHAPES)
def test_the_logit_is_that_of_the_equations(
    tensors: Tensors, inputs: int, hidden: tuple[int, ...]
) -> None:
    for seed in range(5):
        weights = tensors(inputs, hidden, seed, 3.0)
        network = AttentionMlp(weights)
        assert network.width == inputs
        for row in np.random.default_rng(seed).normal(scale=2, size=(5, inputs)):
            expected = reference(weights, len(hidden), row.tolist())
            assert network.logit(row) == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(("inputs", "hidden"), SHAPES)
def test_the_gradient_is_the_slope_of_the_logit(
    tensors: Tensors, inputs: int, hidden: tuple[int, ...]
) -> None:
    network = AttentionMlp(tensors(inputs, hidden, 0, 3.0))
    points = np.random.default_rng(1).normal(size=(6, inputs))
    found = network.gradients(points)
    step = 1e-5
    for point, slopes in zip(points, found, strict=True):
        for column, slope in enumerate(slopes):
            moved = np.zeros(inputs)
            moved[column] = step
            rise = network.logit(point + moved) - network.logit(point - moved)
            assert slope == pytest.approx(rise / (2 * step), abs=1e-8)
    single = network.gradients(points.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, found, atol=1e-5)


def test_far_from_the_origin_nothing_overflows(tensors: Tensors) -> None:
    network = AttentionMlp(tensors(4, (4, 4), 0, 100.0))
    points = np.array([[1e6, -1e6, 1e6, -1e6]])
    assert math.isfinite(network.logit(points[0]))
    assert np.isfinite(network.gradients(points)).all()
    assert np.isfinite(network.gradients(points.astype(np.float32))).all()


def test_weights_that_do_not_fit_are_refused(tensors: Tensors) -> None:
    weights = tensors(3, (4, 2))
    with pytest.raises(KeyError, match="head"):
        AttentionMlp({name: value for name, value in weights.items() if name != "head.bias"})
    shapes = {
        "features.weight": (3, 4),
        "features.bias": (2,),
        "hidden.0.weight": (4, 2),
        "hidden.1.weight": (2, 3),
        "output.weight": (3, 2),
        "output.bias": (3,),
        "head.weight": (2, 2),
    }
    for name, shape in shapes.items():
        with pytest.raises(ValueError, match=name.split(".")[0]):
            AttentionMlp({**weights, name: np.zeros(shape, np.float32)})


def test_networks_side_by_side_give_the_same(tensors: Tensors) -> None:
    members = [AttentionMlp(tensors(7, (8, 8, 4), seed, 3.0)) for seed in range(3)]
    stack = Stack(members)
    points = np.random.default_rng(0).normal(size=(5, 7))
    for row in points:
        assert stack.logits(row).tolist() == [member.logit(row) for member in members]
    for rows in (points, points.astype(np.float32)):
        total = sum(member.gradients(rows) for member in members)
        found = stack.gradients(rows)
        assert found.dtype == rows.dtype
        np.testing.assert_allclose(found, total, rtol=1e-5, atol=1e-5)


def test_networks_of_other_shapes_do_not_stand_side_by_side(tensors: Tensors) -> None:
    with pytest.raises(ValueError, match="shape"):
        Stack([AttentionMlp(tensors(7, (8,))), AttentionMlp(tensors(7, (4,)))])
