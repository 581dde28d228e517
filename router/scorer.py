"""Scores questions: z-scores go through networks, whose mean logit is calibrated.

The attention MLP runs without autograd: it computes a logit per question, and gradients in closed
form. Source: EA-GraphRAG, section 3.3: feature-level attention on the input, hidden layers of 256,
128 and 64 units with residual connections where dimensions match, output attention, logit. The
paper leaves the rest open. Here, with x the z-scored features and e(x_j) the encoding of one:

    g   = sigmoid(W_f x + b_f)                  feature attention: a weight in (0, 1) per feature
    u   = (e(x_1) g_1, …, e(x_d) g_d)
    h_1 = silu(W_1 u + b_1)  (+ u if equally wide)
    h_i = silu(W_i h_{i-1} + b_i)  (+ h_{i-1} if equally wide)
    v   = h ⊙ sigmoid(W_o h + b_o)              output attention: a weight per hidden unit
    logit = w · v + b

e(x_j) is x_j itself, or piecewise linear (Gorishniy, Rubachev and Babenko, NeurIPS 2022, section
3.2): piece t is clip((x_j - low_t) / width_t, 0, 1), how much of it lies below x_j. So a network
can bend at each quantile of a feature, as trees do, and one odd value moves it little.

Attention is a gate and not a softmax, so that a feature's weight does not fall because others
matter too. The activation is silu(a) = a sigmoid(a) (Elfwing et al. 2018). It is smooth: the
gradient exists everywhere, and a few points suffice to integrate it.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wye.backends.numerics import logistic
from wye.backends.types import Float64, Mask
from wye.router.errors import FeatureError

Floats = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Layer:
    """An affine map with weights (outputs, inputs), C-contiguous, and bias (outputs,)."""

    weight: Float64
    bias: Float64

    @classmethod
    def of(cls, tensors: Mapping[str, Floats], name: str) -> "Layer":
        """The layer with a name, or a `KeyError`."""
        weight, bias = tensors[f"{name}.weight"], tensors[f"{name}.bias"]
        return cls(np.ascontiguousarray(weight, np.float64), bias.astype(np.float64))

    def of_one(self, x: Float64) -> Float64:
        """(inputs,) to (outputs,), by a dot product each, so bits do not depend on a batch."""
        result: Float64 = np.vecdot(self.weight, x)
        result += self.bias
        return result

    def of_rows(self, rows: Float64) -> Float64:
        """(p, inputs) to (p, outputs) at the speed of BLAS."""
        result: Float64 = rows @ self.weight.T
        result += self.bias
        return result


class AttentionMlp:
    """One trained network.

    Attributes:
        tensors: "features.weight", "features.bias", "hidden.0.weight", …, "output.weight",
            "head.weight" and so on, as `wye.training.fit.scorers` names them; "pieces.low" and
            "pieces.scale", (d, t) lower ends and 1 / widths, if features are encoded.
    """

    kind = "attention-mlp"

    def __init__(self, tensors: Mapping[str, Floats]) -> None:
        self.tensors = dict(tensors)
        self._low, self._scale = (
            None if values is None else values.astype(np.float64)
            for values in (tensors.get("pieces.low"), tensors.get("pieces.scale"))
        )
        layers = sum(name.startswith("hidden.") and name.endswith(".weight") for name in tensors)
        self._features = Layer.of(tensors, "features")
        self._hidden = [Layer.of(tensors, f"hidden.{number}") for number in range(layers)]
        self._output, self._head = Layer.of(tensors, "output"), Layer.of(tensors, "head")

    def logit(self, x: Float64) -> float:
        """The logit of (d,) z-scores, by the equations in the module's docstring."""
        gate = sigmoid(self._features.of_one(x))
        hidden = (self._encoded(x) * gate[:, None]).ravel()
        for layer in self._hidden:
            sums = layer.of_one(hidden)
            outputs = sums * sigmoid(sums)
            hidden = outputs + hidden if outputs.shape == hidden.shape else outputs
        attended = hidden * sigmoid(self._output.of_one(hidden))
        return float(self._head.of_one(attended)[0])

    def gradients(self, points: Float64) -> Float64:
        """∂logit/∂x, (p, d), at points (p, d), by the chain rule."""
        gate = sigmoid(self._features.of_rows(points))
        encoded = self._encoded(points)
        hidden = (encoded * gate[:, :, None]).reshape(len(points), -1)
        slopes: list[Float64] = []
        for layer in self._hidden:
            sums = layer.of_rows(hidden)
            squashed = sigmoid(sums)
            slopes.append(squashed * (1 + sums * (1 - squashed)))
            outputs = sums * squashed
            hidden = outputs + hidden if outputs.shape == hidden.shape else outputs
        attention = sigmoid(self._output.of_rows(hidden))
        back = _through_gate(self._head.weight, hidden, attention, self._output.weight)
        for layer, slope in zip(reversed(self._hidden), reversed(slopes), strict=True):
            below: Float64 = (back * slope) @ layer.weight
            back = below + back if below.shape == back.shape else below
        back = back.reshape(encoded.shape)
        direct = (back * encoded).sum(axis=2) * gate * (1 - gate)
        through: Float64 = direct @ self._features.weight
        through += (back * self._slopes(points)).sum(axis=2) * gate
        return through

    def _encoded(self, x: Float64) -> Float64:
        """(…, d) z-scores to (…, d, t), t = 1 without pieces."""
        if self._low is None or self._scale is None:
            return x[..., None]
        result: Float64 = (x[..., None] - self._low) * self._scale
        return np.clip(result, 0, 1, out=result)

    def _slopes(self, x: Float64) -> Float64:
        """The derivative of `_encoded` by x, (…, d, t)."""
        if self._low is None or self._scale is None:
            return np.ones_like(x[..., None])
        inside = (x[..., None] - self._low) * self._scale
        return np.where((inside > 0) & (inside < 1), self._scale, 0)


def _through_gate(back: Float64, x: Float64, gate: Float64, weight: Float64) -> Float64:
    """Propagate the gradient `back` through y = x ⊙ gate, with gate = sigmoid(W x + b)."""
    direct = back * gate
    result: Float64 = (direct * x * (1 - gate)) @ weight
    result += direct
    return result


def sigmoid(x: Float64) -> Float64:
    """1 / (1 + exp(-x)), elementwise, without overflow."""
    result: Float64 = np.tanh(x * 0.5)
    result += 1
    result *= 0.5
    return result


@dataclass(frozen=True, slots=True)
class Standard:
    """Standardises features by the statistics of the training questions."""

    mean: Float64  # mean over the training questions, (d,)
    scale: Float64  # standard deviation over the training questions, (d,), above 0
    clip: float  # z-scores are clipped to ±clip, so that one odd value cannot decide by itself

    def __call__(self, rows: Float64) -> Float64:
        """(…, d) features to (…, d) z-scores."""
        scores: Float64 = np.clip((rows - self.mean) / self.scale, -self.clip, self.clip)
        return scores


UNKNOWN, UNFAMILIAR_SCORE = 0.0, 0.5  # logit and score of unfamiliar questions


@dataclass(frozen=True, slots=True)
class Familiarity:
    """How unlike the training questions a question is: its Mahalanobis distance from their mean."""

    precision: Float64  # inverse of the z-scores' covariance with a ridge, (d, d)
    limit: float  # squared distance beyond which a question counts as unfamiliar

    def distances(self, inputs: Float64) -> Float64:
        """Squared distances (n,) of z-scores (n, d); a row's bits do not depend on the others."""
        rows = np.ascontiguousarray(inputs)
        # A dot product per row: BLAS would sum in an order that depends on n.
        return np.array([np.vecdot(np.vecdot(self.precision, row), row) for row in rows])


@dataclass(frozen=True, slots=True)
class Scorer:
    """One or more networks whose mean logit is calibrated.

    Every question is scored by itself, so its score has the same bits alone and in a batch.
    """

    names: tuple[str, ...]  # the d features that the networks use, in order
    columns: NDArray[np.int64]  # their columns (d,) in the feature matrix
    standard: Standard  # makes z-scores of the features
    members: tuple[AttentionMlp, ...]  # the networks, at least one
    temperature: float = 1.0  # divides the mean logit; above 0
    bias: float = 0.0  # added after that
    familiarity: Familiarity | None = None  # None if all questions count as familiar

    def inputs(self, features: Float64) -> Float64:
        """z-scores (n, d) of all features (n, w); a `FeatureError` if one is not finite."""
        # C-contiguous, since strided arrays are summed in another order.
        chosen = np.ascontiguousarray(features[:, self.columns], np.float64)
        finite = np.isfinite(chosen)
        if not finite.all():
            row, column = np.argwhere(~finite)[0]
            raise FeatureError(
                f"Feature '{self.names[column]}' of question {row + 1} is {chosen[row, column]}; "
                "features must be finite numbers, so correct the featurizer."
            )
        return self.standard(chosen)

    def logits(self, features: Float64) -> Float64:
        """(n, w) features to (n,) calibrated logits, 0 for unfamiliar ones; see `inputs`."""
        inputs = self.inputs(features)
        return np.where(self.knows(inputs), self.calibrated(self.raw(inputs)), UNKNOWN)

    def knows(self, inputs: Float64) -> Mask:
        """Mask (n,) of the z-scores (n, d) that are familiar."""
        if self.familiarity is None:
            return np.ones(len(inputs), np.bool_)
        return np.less_equal(self.familiarity.distances(inputs), self.familiarity.limit)

    def scores(self, features: Float64) -> Float64:
        """(n, w) features to (n,) scores s from 0 to 1; see `inputs`."""
        return logistic(self.logits(features))

    def raw(self, inputs: Float64) -> Float64:
        """(n, d) z-scores to the members' mean logits (n,), not calibrated."""
        rows = np.ascontiguousarray(inputs)
        # fsum rounds once, so the order of the members changes no bit.
        sums = [math.fsum(member.logit(row) for member in self.members) for row in rows]
        return np.array(sums, np.float64) / len(self.members)

    def calibrated(self, raw: Float64) -> Float64:
        """Temperature scaling, with an offset, of the members' mean: Guo et al. (ICML 2017)."""
        return raw / self.temperature + self.bias

    def gradients(self, inputs: Float64) -> Float64:
        """∂(calibrated logit)/∂(z-score) at points (p, d)."""
        total = sum((member.gradients(inputs) for member in self.members), start=np.zeros(()))
        return np.asarray(total / (len(self.members) * self.temperature))
