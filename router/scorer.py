"""Scores questions: z-scores go through networks, linear models or trees, whose mean is calibrated.

The attention MLP runs without autograd: it computes a logit per question, and gradients in closed
form. Source: EA-GraphRAG, section 3.3: feature-level attention on the input, hidden layers of 256,
128 and 64 units with residual connections where dimensions match, output attention, logit. The
paper leaves the rest open. Here, with x the z-scored features:

    u   = x ⊙ sigmoid(W_f x + b_f)              feature attention: a weight in (0, 1) per feature
    h_1 = silu(W_1 u + b_1)  (+ u if equally wide)
    h_i = silu(W_i h_{i-1} + b_i)  (+ h_{i-1} if equally wide)
    v   = h ⊙ sigmoid(W_o h + b_o)              output attention: a weight per hidden unit
    logit = w · v + b

Attention is a gate and not a softmax, so that a feature's weight does not fall because others
matter too. The activation is silu(a) = a sigmoid(a) (Elfwing et al. 2018). It is smooth: the
gradient exists everywhere, and a few points suffice to integrate it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wye.backends.numerics import logistic
from wye.backends.types import Float64, Mask
from wye.router.errors import FeatureError

Floats = NDArray[Any]
Kind = type[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class Layer:
    """An affine map.

    Attributes:
        weight: (outputs, inputs), C-contiguous.
        bias: (outputs,).
    """

    weight: Floats
    bias: Floats

    @classmethod
    def of(cls, tensors: Mapping[str, Floats], name: str, dtype: Kind) -> "Layer":
        """The layer with a name.

        Raises:
            KeyError: A tensor is missing.
        """
        weight, bias = tensors[f"{name}.weight"], tensors[f"{name}.bias"]
        return cls(np.ascontiguousarray(weight, dtype), np.ascontiguousarray(bias, dtype))

    def of_one(self, x: Floats) -> Floats:
        """(inputs,) to (outputs,), by a dot product each, so bits do not depend on a batch."""
        result: Floats = np.vecdot(self.weight, x)
        result += self.bias
        return result

    def of_rows(self, rows: Floats) -> Floats:
        """(p, inputs) to (p, outputs) at the speed of BLAS."""
        result: Floats = rows @ self.weight.T
        result += self.bias
        return result


@dataclass(frozen=True, slots=True)
class Weights:
    """All layers of one network, or of several stacked, in one precision.

    Attributes:
        features: Attention over features, (d, d).
        hidden: Hidden layers, in order.
        output: Attention over the last hidden layer, (h, h).
        head: Last layer, (1, h), which gives the logit.
    """

    features: Layer
    hidden: tuple[Layer, ...]
    output: Layer
    head: Layer

    @classmethod
    def of(cls, tensors: Mapping[str, Floats], dtype: Kind) -> "Weights":
        """Assemble the layers from named tensors.

        Raises:
            KeyError: A tensor is missing.
            ValueError: The shapes do not fit together.
        """
        count = sum(name.startswith("hidden.") and name.endswith(".weight") for name in tensors)
        weights = cls(
            features=Layer.of(tensors, "features", dtype),
            hidden=tuple(Layer.of(tensors, f"hidden.{index}", dtype) for index in range(count)),
            output=Layer.of(tensors, "output", dtype),
            head=Layer.of(tensors, "head", dtype),
        )
        weights._check()
        return weights

    def logit(self, x: Float64) -> float:
        """The logit of (d,) z-scores, by the equations in the module's docstring."""
        hidden = x * sigmoid(self.features.of_one(x))
        for layer in self.hidden:
            sums = layer.of_one(hidden)
            outputs = sums * sigmoid(sums)
            hidden = outputs + hidden if outputs.shape == hidden.shape else outputs
        attended = hidden * sigmoid(self.output.of_one(hidden))
        return float(self.head.of_one(attended)[0])

    def gradients(self, points: Floats) -> Floats:
        """∂logit/∂x, (p, d), at points (p, d), by the chain rule."""
        gate = sigmoid(self.features.of_rows(points))
        hidden = points * gate
        slopes: list[Floats] = []
        for layer in self.hidden:
            sums = layer.of_rows(hidden)
            squashed = sigmoid(sums)
            slopes.append(squashed * (1 + sums * (1 - squashed)))
            outputs = sums * squashed
            hidden = outputs + hidden if outputs.shape == hidden.shape else outputs
        attention = sigmoid(self.output.of_rows(hidden))
        back = _through_gate(self.head.weight, hidden, attention, self.output.weight)
        for layer, slope in zip(reversed(self.hidden), reversed(slopes), strict=True):
            below: Floats = (back * slope) @ layer.weight
            back = below + back if below.shape == back.shape else below
        return _through_gate(back, points, gate, self.features.weight)

    def _check(self) -> None:
        width = self.features.weight.shape[-1]
        chain: Sequence[tuple[str, Layer, int | None]] = [
            ("features", self.features, width),
            *((f"hidden.{index}", layer, None) for index, layer in enumerate(self.hidden)),
        ]
        for name, layer, outputs in chain:
            width = _checked(name, layer, width, outputs)
        _checked("head", self.head, _checked("output", self.output, width, width), 1)


def _checked(name: str, layer: Layer, inputs: int, outputs: int | None) -> int:
    shape = layer.weight.shape
    if len(shape) < 2 or shape[-1] != inputs or layer.bias.shape != shape[:-1]:
        raise ValueError(f"{name}.weight and {name}.bias do not fit {inputs} inputs")
    if outputs is not None and shape[-2] != outputs:
        raise ValueError(f"{name} has {shape[-2]} outputs instead of {outputs}")
    return int(shape[-2])


def _through_gate(back: Floats, x: Floats, gate: Floats, weight: Floats) -> Floats:
    """Propagate the gradient `back` through y = x ⊙ gate, with gate = sigmoid(W x + b)."""
    direct = back * gate
    result: Floats = (direct * x * (1 - gate)) @ weight
    result += direct
    return result


def sigmoid(x: Floats) -> Floats:
    """1 / (1 + exp(-x)), elementwise, without overflow."""
    result: Floats = np.tanh(x * 0.5)
    result += 1
    result *= 0.5
    return result


class AttentionMlp:
    """One trained network.

    Attributes:
        tensors: "features.weight", "features.bias", "hidden.0.weight", …, "output.weight",
            "head.weight" and so on, as `wye.training.fit.scorers` names them.
    """

    kind = "attention-mlp"

    def __init__(self, tensors: Mapping[str, Floats]) -> None:
        """Check the weights.

        Raises:
            KeyError: A tensor is missing.
            ValueError: The shapes do not fit together.
        """
        self.tensors = dict(tensors)
        self._single = Weights.of(self.tensors, np.float32)

    @property
    def width(self) -> int:
        """The number of features."""
        return int(self._single.features.weight.shape[-1])

    @cached_property
    def _double(self) -> Weights:
        return Weights.of(self.tensors, np.float64)

    def logit(self, x: Float64) -> float:
        """The logit of z-scored features (d,)."""
        return self._double.logit(x)

    def gradients(self, points: Floats) -> Floats:
        """∂logit/∂x, (p, d), at points (p, d), in the points' precision (float64 or float32)."""
        return (self._double if points.dtype == np.float64 else self._single).gradients(points)


class Linear:
    """Logistic regression on the same features: logit = w · x + b."""

    kind = "linear"

    def __init__(self, tensors: Mapping[str, Floats]) -> None:
        """Check "head.weight" (1, d) and "head.bias" (1,).

        Raises:
            KeyError: A tensor is missing.
            ValueError: The shapes do not fit together.
        """
        self.tensors = dict(tensors)
        self._head = Layer.of(tensors, "head", np.float64)
        if self._head.weight.shape[:1] != (1,) or self._head.bias.shape != (1,):
            raise ValueError("head.weight and head.bias do not have one output")

    @property
    def width(self) -> int:
        """The number of features."""
        return int(self._head.weight.shape[1])

    def logit(self, x: Float64) -> float:
        """The logit of z-scored features (d,)."""
        return float(self._head.of_one(x)[0])

    def gradients(self, points: Floats) -> Floats:
        """∂logit/∂x, (p, d), at points (p, d): the weights, repeated."""
        return np.repeat(self._head.weight.astype(points.dtype), len(points), axis=0)


class Trees:
    """Extremely randomised trees: the mean over trees of the share of label 1 in the leaf.

    Source: Geurts, Ernst and Wehenkel (Machine Learning 2006). A split looks at one feature, so an
    odd value affects only some trees. For questions unlike any in training, the mean stays in the
    middle.

    Attributes:
        tensors: Arrays (t, m), a row per tree and a column per node, the root first: "feature" and
            "threshold" of the split, "left" child (up to the threshold), "right" child, and
            "value", the share of label 1. A leaf is its own child. Threshold and value are float32.
    """

    kind = "extra-trees"

    def __init__(self, tensors: Mapping[str, Floats]) -> None:
        """Check the trees.

        Raises:
            KeyError: A tensor is missing.
            ValueError: The shapes differ, or a feature or child is out of range or in a cycle.
        """
        self.tensors = dict(tensors)
        feature, left, right = (tensors[name] for name in ("feature", "left", "right"))
        count, nodes = feature.shape
        if any(tensors[name].shape != (count, nodes) for name in ("threshold", "value", "left")):
            raise ValueError("the tensors of trees differ in shape")
        inside = (feature.min() >= 0) and all(
            side.min() >= 0 and side.max() < nodes for side in (left, right)
        )
        if not inside:
            raise ValueError("a tree has a feature or a child that does not exist")
        self._roots = np.arange(count) * nodes
        self._feature = feature.ravel().astype(np.intp)
        self._threshold = np.ascontiguousarray(tensors["threshold"], np.float32).ravel()
        # The right child of node i is at 2 i, the left one at 2 i + 1.
        self._children = np.stack(
            [(side + self._roots[:, None]).ravel().astype(np.intp) for side in (right, left)],
            axis=1,
        ).ravel()
        self._value = tensors["value"].ravel().astype(np.float64)
        self._depth = self._deepest()

    def _deepest(self) -> int:
        """The number of steps after which every walk has reached a leaf."""
        level, depth = np.unique(self._roots), 0
        while True:
            below = np.unique(self._children.reshape(-1, 2)[level])
            inner = below[self._children[2 * below] != below]
            depth += 1
            if not len(inner):
                return depth
            if depth > len(self._value):
                raise ValueError("the children of a tree form a cycle")
            level = inner

    @property
    def width(self) -> int:
        """The least number of features that covers every split."""
        return int(self._feature.max()) + 1

    def logit(self, x: Float64) -> float:
        """The logit of z-scored features (d,)."""
        single, node = x.astype(np.float32), self._roots
        for _ in range(self._depth):
            node = self._step(single, node)
        return _logit_of(float(self._value[node].mean()))

    def contributions(self, x: Float64) -> Float64:
        """What each feature (d,) adds to the logit on the way from the roots to the leaves.

        Each split changes the share of label 1, which counts for the feature of the split. These
        changes are scaled so that they add up to the change of the logit.

        Source: Saabas (2014), interpreting random forests.
        """
        single, node = x.astype(np.float32), self._roots
        moved = np.zeros(len(x))
        for _ in range(self._depth):
            below = self._step(single, node)
            np.add.at(moved, self._feature[node], self._value[below] - self._value[node])
            node = below
        moved /= len(self._roots)
        change = float(moved.sum())
        roots, leaves = (_logit_of(float(self._value[each].mean())) for each in (self._roots, node))
        return moved * ((leaves - roots) / change) if change else moved

    def _step(self, x: Floats, node: NDArray[np.intp]) -> NDArray[np.intp]:
        goes_left = x.take(self._feature.take(node)) <= self._threshold.take(node)
        return self._children.take(2 * node + goes_left)


_SUREST = 0.002
"""Shares are moved this far from 0 and 1: some hundred trees cannot be surer."""


def _logit_of(share: float) -> float:
    share = min(max(share, _SUREST), 1 - _SUREST)
    return math.log(share) - math.log1p(-share)


Member = AttentionMlp | Linear | Trees
KINDS: Mapping[str, type[AttentionMlp] | type[Linear] | type[Trees]] = {
    kind.kind: kind for kind in (AttentionMlp, Linear, Trees)
}


@dataclass(frozen=True, slots=True)
class Standard:
    """Standardises features by the statistics of the training questions.

    Attributes:
        mean: Mean over the training questions, (d,).
        scale: Standard deviation over the training questions, (d,), above 0.
        clip: z-scores are clipped to ±clip, so that one odd value cannot decide by itself.
    """

    mean: Float64
    scale: Float64
    clip: float

    def __call__(self, rows: Float64) -> Float64:
        """(…, d) features to (…, d) z-scores."""
        scores: Float64 = np.clip((rows - self.mean) / self.scale, -self.clip, self.clip)
        return scores


UNKNOWN, UNFAMILIAR_SCORE = 0.0, 0.5
"""Logit and score of a question that the router knows nothing about."""


@dataclass(frozen=True, slots=True)
class Familiarity:
    """How unlike the training questions a question is: its Mahalanobis distance from their mean.

    Attributes:
        precision: Inverse of the z-scores' covariance with a ridge, (d, d).
        limit: Squared distance beyond which a question counts as unfamiliar.
    """

    precision: Float64
    limit: float

    def distances(self, inputs: Float64) -> Float64:
        """Squared distances (n,) of z-scores (n, d); a row's bits do not depend on the others."""
        rows = np.ascontiguousarray(inputs)
        # A dot product per row: BLAS would sum in an order that depends on n.
        return np.array([np.vecdot(np.vecdot(self.precision, row), row) for row in rows])

    def knows(self, inputs: Float64) -> Mask:
        """Mask (n,) of the z-scores (n, d) within the limit."""
        return np.less_equal(self.distances(inputs), self.limit)


@dataclass(frozen=True, slots=True)
class Scorer:
    """One or more models whose mean logit is calibrated.

    Every question is scored by itself, so its score has the same bits alone and in a batch.

    Attributes:
        names: The d features that the models use, in order.
        columns: Their columns (d,) in the feature matrix.
        width: Number of columns of the feature matrix.
        standard: Makes z-scores of the features.
        members: The models, at least one.
        temperature: Divides the mean logit; above 0.
        bias: Added after that.
        familiarity: Tells which questions are like those of training; None if all count as such.
    """

    names: tuple[str, ...]
    columns: NDArray[np.int64]
    width: int
    standard: Standard
    members: tuple[Member, ...]
    temperature: float = 1.0
    bias: float = 0.0
    familiarity: Familiarity | None = None

    def inputs(self, features: Float64) -> Float64:
        """The models' input.

        Args:
            features: (n, width), a row per question.

        Returns:
            z-scores (n, d).

        Raises:
            FeatureError: The number of columns is wrong, or a value is not finite.
        """
        if features.ndim != 2 or features.shape[1] != self.width:
            raise FeatureError(
                f"The feature matrix has shape {features.shape}; this router was made for "
                f"(questions, {self.width}). Give it all features in the featurizer's order."
            )
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
        """(n, width) features to (n,) calibrated logits, 0 for unfamiliar questions.

        Raises:
            FeatureError: See `inputs`.
        """
        inputs = self.inputs(features)
        return np.where(self.knows(inputs), self.calibrated(self.raw(inputs)), UNKNOWN)

    def knows(self, inputs: Float64) -> Mask:
        """Mask (n,) of the z-scores (n, d) that are familiar."""
        if self.familiarity is None:
            return np.ones(len(inputs), np.bool_)
        return self.familiarity.knows(inputs)

    def scores(self, features: Float64) -> Float64:
        """(n, width) features to (n,) scores s from 0 to 1.

        Raises:
            FeatureError: See `inputs`.
        """
        return logistic(self.logits(features))

    def raw(self, inputs: Float64) -> Float64:
        """(n, d) z-scores to the members' mean logits (n,), not calibrated."""
        rows = np.ascontiguousarray(inputs)
        # fsum rounds once, so the order of the members changes no bit.
        sums = [math.fsum(member.logit(row) for member in self.members) for row in rows]
        return np.array(sums, np.float64) / len(self.members)

    def calibrated(self, raw: Float64) -> Float64:
        """Calibrate the members' mean logits.

        Source: Guo et al. (ICML 2017), temperature scaling, with an offset.
        """
        return raw / self.temperature + self.bias

    def gradients(self, inputs: Floats) -> Floats:
        """∂(calibrated logit)/∂(z-score) at points (p, d), without trees, in their precision."""
        smooth = (member for member in self.members if not isinstance(member, Trees))
        total = sum((member.gradients(inputs) for member in smooth), start=np.zeros_like(inputs))
        result: Floats = np.asarray(total) / (len(self.members) * self.temperature)
        return result.astype(inputs.dtype, copy=False)

    def along_paths(self, inputs: Float64) -> Float64:
        """What each z-score (d,) adds to the calibrated logit by way of trees."""
        trees = [member for member in self.members if isinstance(member, Trees)]
        added = sum((tree.contributions(inputs) for tree in trees), start=np.zeros(len(inputs)))
        return added / (len(self.members) * self.temperature)
