import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from wye.backends.types import Float64
from wye.router.errors import FeatureError
from wye.router.scorer import AttentionMlp, Floats, Scorer

Tensors = Callable[..., dict[str, Floats]]
shapes = pytest.mark.parametrize(
    ("inputs", "hidden", "pieces"),
    [(3, (4, 2), 0), (5, (5, 5), 0), (7, (8, 8, 4), 3), (1, (1,), 0), (2, (6, 3), 3)],
)


def sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value))


def affine(tensors: Mapping[str, Floats], name: str, x: Sequence[float]) -> list[float]:
    weight, bias = tensors[f"{name}.weight"].tolist(), tensors[f"{name}.bias"].tolist()
    return [
        math.fsum(w * v for w, v in zip(row, x, strict=True)) + b
        for row, b in zip(weight, bias, strict=True)
    ]


def encode(tensors: Mapping[str, Floats], x: Sequence[float]) -> list[list[float]]:
    """The pieces of each feature, or the feature itself."""
    if "pieces.low" not in tensors:
        return [[v] for v in x]
    low, scale = tensors["pieces.low"].tolist(), tensors["pieces.scale"].tolist()
    return [
        [min(max((v - start) * by, 0.0), 1.0) for start, by in zip(starts, bys, strict=True)]
        for v, starts, bys in zip(x, low, scale, strict=True)
    ]


def reference(tensors: Mapping[str, Floats], depth: int, x: Sequence[float]) -> float:
    """The equations at the head of `wye.router.scorer`, number by number."""
    hidden = [
        part * sigmoid(a)
        for encoded, a in zip(encode(tensors, x), affine(tensors, "features", x), strict=True)
        for part in encoded
    ]
    for layer in range(depth):
        made = [a * sigmoid(a) for a in affine(tensors, f"hidden.{layer}", hidden)]
        if len(made) == len(hidden):
            made = [m + h for m, h in zip(made, hidden, strict=True)]
        hidden = made
    gate = [sigmoid(a) for a in affine(tensors, "output", hidden)]
    return affine(tensors, "head", [h * g for h, g in zip(hidden, gate, strict=True)])[0]


@shapes
def test_the_logit_is_that_of_the_equations(
    tensors: Tensors, inputs: int, hidden: tuple[int, ...], pieces: int
) -> None:
    for seed in range(5):
        weights = tensors(inputs, hidden, seed, 3.0, pieces)
        network = AttentionMlp(weights)
        for row in np.random.default_rng(seed).normal(scale=2, size=(5, inputs)):
            expected = reference(weights, len(hidden), row.tolist())
            assert network.logit(row) == pytest.approx(expected, rel=1e-12, abs=1e-12)


@shapes
def test_the_gradient_is_the_slope_of_the_logit(
    tensors: Tensors, inputs: int, hidden: tuple[int, ...], pieces: int
) -> None:
    network = AttentionMlp(tensors(inputs, hidden, 0, 3.0, pieces))
    points = np.random.default_rng(1).normal(size=(6, inputs))
    found = network.gradients(points)
    step = 1e-5
    for point, slopes in zip(points, found, strict=True):
        for column, slope in enumerate(slopes):
            moved = np.zeros(inputs)
            moved[column] = step
            rise = network.logit(point + moved) - network.logit(point - moved)
            assert slope == pytest.approx(rise / (2 * step), abs=1e-8)


def test_far_from_the_origin_nothing_overflows(tensors: Tensors) -> None:
    network = AttentionMlp(tensors(4, (4, 4), 0, 100.0))
    points = np.array([[1e6, -1e6, 1e6, -1e6]])
    assert math.isfinite(network.logit(points[0]))
    assert np.isfinite(network.gradients(points)).all()


def test_a_question_scores_the_same_bits_alone_and_in_any_batch(
    scorer: Scorer, features: Float64
) -> None:
    together = scorer.scores(features)
    for layout in (features, np.asfortranarray(features)):
        alone = [scorer.scores(layout[row : row + 1])[0] for row in range(len(features))]
        assert alone == together.tolist()
        assert (scorer.scores(layout[::-1])[::-1] == together).all()
        assert (scorer.scores(layout[3:7]) == together[3:7]).all()


def test_members_are_averaged_then_calibrated(scorer: Scorer, features: Float64) -> None:
    rows = features[:, scorer.columns]
    inputs = np.clip((rows - scorer.standard.mean) / scorer.standard.scale, -5, 5)
    raw = np.mean([[member.logit(row) for row in inputs] for member in scorer.members], axis=0)
    expected = 1 / (1 + np.exp(-(raw / 1.3 - 0.2)))
    np.testing.assert_allclose(scorer.scores(features), expected, rtol=1e-12)
    again = replace(scorer, temperature=2.0, bias=0.5)
    np.testing.assert_allclose(again.logits(features), raw / 2 + 0.5, rtol=1e-12)


def test_one_odd_value_is_pulled_back(scorer: Scorer, features: Float64) -> None:
    features[0, 1] = 1e12
    assert scorer.inputs(features).max() == 5
    assert np.isfinite(scorer.logits(features)).all()


def test_gradients_are_those_of_the_calibrated_logit(scorer: Scorer, features: Float64) -> None:
    inputs = scorer.inputs(features)
    found = scorer.gradients(inputs)
    step = 1e-5
    for column in range(inputs.shape[1]):
        moved = np.zeros(inputs.shape[1])
        moved[column] = step
        up, down = (scorer.calibrated(scorer.raw(inputs + sign * moved)) for sign in (1, -1))
        np.testing.assert_allclose(found[:, column], (up - down) / (2 * step), atol=1e-8)


def test_features_that_do_not_fit_are_refused(scorer: Scorer, features: Float64) -> None:
    with pytest.raises(FeatureError, match=r"\(23, 9\).*\(questions, 10\)"):
        scorer.scores(features[:, 1:])
    features[4, 9] = np.nan
    with pytest.raises(FeatureError, match="'f9' of question 5 is nan"):
        scorer.scores(features)


def test_a_feature_that_nobody_looks_at_may_be_anything(scorer: Scorer, features: Float64) -> None:
    before = scorer.scores(features)
    features[:, 0] = np.nan
    assert (scorer.scores(features) == before).all()


def test_the_order_and_shape_of_members_is_free(scorer: Scorer, features: Float64) -> None:
    turned = replace(scorer, members=scorer.members[::-1])
    assert (turned.scores(features) == scorer.scores(features)).all()
