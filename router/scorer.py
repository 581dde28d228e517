"""The scorer of questions: z-scores into networks, lines or trees; their mean logit is calibrated.

The attention-MLP runs without autograd: one question's logit, and gradients in closed form. Source:
EA-GraphRAG, section 3.3: feature-level attention on the input, hidden layers of 256, 128 and 64
with residual connections where dimensions match, output attention, logit. It leaves the rest open.
Here, with x the z-scored features:

    u   = x ⊙ sigmoid(W_f x + b_f)              feature attention: one weight in (0, 1) a feature
    h_1 = silu(W_1 u + b_1)  (+ u when as wide)
    h_i = silu(W_i h_{i-1} + b_i)  (+ h_{i-1} when as wide)
    v   = h ⊙ sigmoid(W_o h + b_o)              output attention: the same over hidden units
    logit = w · v + b

Attention is a gate and not a softmax, so that a feature's weight does not fall because others
matter too. The activation is silu(a) = a sigmoid(a) (Elfwing et al. 2018), which is smooth: the
gradient exists everywhere, and a few points suffice to integrate it.

Arrays of several networks of one shape have an axis more in front, here written (…). NumPy then
works on all of them in one call, which is what most of the time of small networks goes into.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.numerics import logistic
from backends.types import Float64, Mask
from router.errors import FeatureError

Floats = NDArray[Any]
Kind = type[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class Layer:
    """An affine map.

    Attributes:
        weight: (…, outputs, inputs), C-contiguous.
        bias: (…, outputs).
    """

    weight: Floats
    bias: Floats

    @classmethod
    def of(cls, tensors: Mapping[str, Floats], name: str, dtype: Kind) -> "Layer":
        """The layer of that name.

        Raises:
            KeyError: A tensor is missing.
        """
        weight, bias = tensors[f"{name}.weight"], tensors[f"{name}.bias"]
        return cls(np.ascontiguousarray(weight, dtype), np.ascontiguousarray(bias, dtype))

    def of_one(self, x: Floats) -> Floats:
        """(…, inputs) to (…, outputs): a dot product each, whose bits depend on nothing else."""
        result: Floats = np.vecdot(self.weight, x[..., None, :])
        result += self.bias
        return result

    def of_rows(self, rows: Floats) -> Floats:
        """(…, p, inputs) to (…, p, outputs) at the speed of BLAS."""
        result: Floats = rows @ self.weight.swapaxes(-1, -2)
        result += self.bias[..., None, :]
        return result


@dataclass(frozen=True, slots=True)
class Weights:
    """All layers of one network or of several side by side, in one precision.

    Attributes:
        features: (…, d, d) attention over features.
        hidden: Hidden layers, in order.
        output: (…, h, h) attention over the last hidden layer.
        head: (…, 1, h) to the logit.
    """

    features: Layer
    hidden: tuple[Layer, ...]
    output: Layer
    head: Layer

    @classmethod
    def of(cls, tensors: Mapping[str, Floats], dtype: Kind) -> "Weights":
        """All layers by their names.

        Raises:
            KeyError: A tensor is missing.
            ValueError: Shapes that do not follow from each other.
        """
        count = sum(name.startswith("hidden.") and name.endswith(".weight") for name in tensors)
        found = cls(
            features=Layer.of(tensors, "features", dtype),
            hidden=tuple(Layer.of(tensors, f"hidden.{place}", dtype) for place in range(count)),
            output=Layer.of(tensors, "output", dtype),
            head=Layer.of(tensors, "head", dtype),
        )
        found._check()
        return found

    def logits(self, x: Float64) -> Floats:
        """(d,) z-scores to (…) logits, by the equations at the head of this file."""
        hidden = x * sigmoid(self.features.of_one(x))
        for layer in self.hidden:
            sums = layer.of_one(hidden)
            made = sums * sigmoid(sums)
            hidden = made + hidden if made.shape == hidden.shape else made
        attended = hidden * sigmoid(self.output.of_one(hidden))
        result: Floats = self.head.of_one(attended)[..., 0]
        return result

    def gradients(self, points: Floats) -> Floats:
        """(…, p, d) of ∂logit/∂x at (p, d) points, by the chain rule written out."""
        gate = sigmoid(self.features.of_rows(points))
        hidden = points * gate
        slopes: list[Floats] = []
        for layer in self.hidden:
            sums = layer.of_rows(hidden)
            squashed = sigmoid(sums)
            slopes.append(squashed * (1 + sums * (1 - squashed)))
            made = sums * squashed
            hidden = made + hidden if made.shape == hidden.shape else made
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
            *((f"hidden.{place}", layer, None) for place, layer in enumerate(self.hidden)),
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
    """Gradient of y = x ⊙ gate times `back`, with gate = sigmoid(W x + b)."""
    kept = back * gate
    result: Floats = (kept * x * (1 - gate)) @ weight
    result += kept
    return result


def sigmoid(x: Floats) -> Floats:
    """1 / (1 + exp(-x)), without overflow."""
    result: Floats = np.tanh(x * 0.5)
    result += 1
    result *= 0.5
    return result


class AttentionMlp:
    """One trained network.

    Attributes:
        tensors: "features.weight", "features.bias", "hidden.0.weight", …, "output.weight",
            "head.weight" and so on, as `training.fit.network` names them.
    """

    kind = "attention-mlp"

    def __init__(self, tensors: Mapping[str, Floats]) -> None:
        """Take over weights.

        Raises:
            KeyError: A tensor is missing.
            ValueError: Shapes that do not follow from each other.
        """
        self.tensors = dict(tensors)
        self._single = Weights.of(self.tensors, np.float32)

    @property
    def width(self) -> int:
        """How many features it takes."""
        return int(self._single.features.weight.shape[-1])

    @cached_property
    def _double(self) -> Weights:
        return Weights.of(self.tensors, np.float64)

    def logit(self, x: Float64) -> float:
        """The logit of (d,) z-scored features, the same bits whatever else is scored."""
        return float(self._double.logits(x))

    def gradients(self, points: Floats) -> Floats:
        """(p, d) of ∂logit/∂x at (p, d) points, float64 or float32, in that precision."""
        return (self._double if points.dtype == np.float64 else self._single).gradients(points)


class Stack:
    """Networks of one shape, run side by side: the same values, in fewer and larger steps."""

    def __init__(self, members: Sequence[AttentionMlp]) -> None:
        """Copy the members' weights.

        Raises:
            ValueError: Members of different shapes.
        """
        tensors = {
            name: np.stack([member.tensors[name] for member in members])
            for name in members[0].tensors
        }
        self._double = Weights.of(tensors, np.float64)
        self._single = Weights.of(tensors, np.float32)

    def logits(self, x: Float64) -> Floats:
        """(d,) z-scores to (m,) logits, to the bit those of each member."""
        return self._double.logits(x)

    def gradients(self, points: Floats) -> Floats:
        """Sum over members of ∂logit/∂x at (p, d) points, in their precision."""
        weights = self._double if points.dtype == np.float64 else self._single
        result: Floats = weights.gradients(points).sum(axis=0)
        return result


class Linear:
    """Logistic regression on the same features: logit = w · x + b."""

    kind = "linear"

    def __init__(self, tensors: Mapping[str, Floats]) -> None:
        """Take over "head.weight" (1, d) and "head.bias" (1,).

        Raises:
            KeyError: A tensor is missing.
            ValueError: Shapes that do not follow from each other.
        """
        self.tensors = dict(tensors)
        self._head = Layer.of(tensors, "head", np.float64)
        if self._head.weight.shape[:1] != (1,) or self._head.bias.shape != (1,):
            raise ValueError("head.weight and head.bias do not have one output")

    @property
    def width(self) -> int:
        """How many features it takes."""
        return int(self._head.weight.shape[1])

    def logit(self, x: Float64) -> float:
        """The logit of (d,) z-scored features, the same bits whatever else is scored."""
        return float(self._head.of_one(x)[0])

    def logits(self, x: Float64) -> Float64:
        """The same as an array (1,)."""
        return np.array([self.logit(x)])

    def gradients(self, points: Floats) -> Floats:
        """The weights, once for each of the (p, d) points."""
        return np.repeat(self._head.weight.astype(points.dtype), len(points), axis=0)


class Trees:
    """Extremely randomised trees: the mean, over trees, of the share of label 1 in a leaf.

    Source: Geurts, Ernst and Wehenkel (Machine Learning 2006). Trees look at single features, so
    one odd value moves a few of them only, and where training has nothing alike their mean stays in
    the middle.

    Attributes:
        tensors: (t, m) arrays, a row each tree and a column each node, the root first: "feature"
            and "threshold" of its split, "left" (up to the threshold) and "right" child, and
            "value", the share of label 1. A leaf is its own child. Threshold and value are float32.
    """

    kind = "extra-trees"

    def __init__(self, tensors: Mapping[str, Floats]) -> None:
        """Take over trees.

        Raises:
            KeyError: A tensor is missing.
            ValueError: Shapes or children that do not fit.
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
            raise ValueError("a tree has a feature or a child that is not there")
        self._roots = np.arange(count) * nodes
        self._feature = feature.ravel().astype(np.intp)
        self._threshold = np.ascontiguousarray(tensors["threshold"], np.float32).ravel()
        # The right and the left child of node i at 2 i and 2 i + 1.
        self._children = np.stack(
            [(side + self._roots[:, None]).ravel().astype(np.intp) for side in (right, left)],
            axis=1,
        ).ravel()
        self._value = tensors["value"].ravel().astype(np.float64)
        self._depth = self._deepest()

    def _deepest(self) -> int:
        """Steps after which every walk has come to a leaf."""
        level, depth = np.unique(self._roots), 0
        while True:
            below = np.unique(self._children.reshape(-1, 2)[level])
            inner = below[self._children[2 * below] != below]
            depth += 1
            if not len(inner):
                return depth
            if depth > len(self._value):
                raise ValueError("the children of a tree go round in a circle")
            level = inner

    @property
    def width(self) -> int:
        """How many features it takes at least."""
        return int(self._feature.max()) + 1

    @property
    def baseline(self) -> float:
        """Logit of the mean of the roots: of a question of which nothing is known."""
        return _logit_of(float(self._value[self._roots].mean()))

    def logit(self, x: Float64) -> float:
        """The logit of (d,) z-scored features, the same bits whatever else is scored."""
        return float(self.logits(x)[0])

    def logits(self, x: Float64) -> Float64:
        """The same as an array (1,)."""
        single, node = x.astype(np.float32), self._roots
        for _ in range(self._depth):
            node = self._step(single, node)
        return np.array([_logit_of(float(self._value[node].mean()))])

    def contributions(self, x: Float64) -> Float64:
        """(d,) what each feature adds to the logit on the way from the roots to the leaves.

        At each split, the share of label 1 moves; the feature that is asked there moved it. The
        shares' sum is turned into logits by the slope of the line between both ends.

        Source: Saabas (2014), interpreting random forests.
        """
        single, node = x.astype(np.float32), self._roots
        moved = np.zeros(len(x))
        for _ in range(self._depth):
            below = self._step(single, node)
            np.add.at(moved, self._feature[node], self._value[below] - self._value[node])
            node = below
        moved /= len(self._roots)
        way = float(moved.sum())
        rise = _logit_of(float(self._value[node].mean())) - self.baseline
        return moved * (rise / way) if way else moved

    def _step(self, x: Floats, node: NDArray[np.intp]) -> NDArray[np.intp]:
        goes_left = x.take(self._feature.take(node)) <= self._threshold.take(node)
        return self._children.take(2 * node + goes_left)


_SUREST = 0.002
"""A share of trees is taken to be no nearer to 0 and 1: some hundred trees cannot tell."""


def _logit_of(share: float) -> float:
    share = min(max(share, _SUREST), 1 - _SUREST)
    return math.log(share) - math.log1p(-share)


Member = AttentionMlp | Linear | Trees
KINDS: Mapping[str, type[AttentionMlp] | type[Linear] | type[Trees]] = {
    kind.kind: kind for kind in (AttentionMlp, Linear, Trees)
}


@dataclass(frozen=True, slots=True)
class Standard:
    """z-scores, as the training data has them.

    Attributes:
        mean: (d,) of the training questions.
        scale: (d,) standard deviation of the training questions, above 0.
        clip: z-scores beyond ±clip are pulled back to it, so that one odd value of a question
            unlike any in training cannot decide by itself.
    """

    mean: Float64
    scale: Float64
    clip: float

    def __call__(self, rows: Float64) -> Float64:
        """(…, d) features to (…, d) z-scores."""
        scores: Float64 = np.clip((rows - self.mean) / self.scale, -self.clip, self.clip)
        return scores


UNKNOWN = 0.0
"""Logit of a question that the router knows nothing about: as likely as not."""


@dataclass(frozen=True, slots=True)
class Familiarity:
    """How unlike the training questions a question is: its Mahalanobis distance from their mean.

    Attributes:
        precision: (d, d) inverse of the z-scores' covariance, with a ridge.
        limit: Squared distance beyond which a question counts as unlike all of training.
    """

    precision: Float64
    limit: float

    def distances(self, inputs: Float64) -> Float64:
        """(n,) squared distances of (n, d) z-scores, each the same bits alone and among others."""
        rows = np.ascontiguousarray(inputs)
        # One dot product a row of the matrix: BLAS would sum in an order that depends on n.
        return np.array([np.vecdot(np.vecdot(self.precision, row), row) for row in rows])

    def knows(self, inputs: Float64) -> Mask:
        """(n,) which of (n, d) z-scores are like those of training."""
        found: Mask = self.distances(inputs) <= self.limit
        return found


@dataclass(frozen=True, slots=True)
class Scorer:
    """One or several networks whose mean logit is calibrated.

    Every question is scored by itself, so its score has the same bits alone and in a batch.

    Attributes:
        names: The d features it looks at, in order.
        columns: (d,) where these are in the feature matrix.
        width: How many columns that matrix has.
        standard: How they become z-scores.
        members: At least one.
        temperature: Above 0; the mean logit is divided by it.
        bias: Then added.
        familiarity: Tells which questions it may speak about; None where it speaks about all.
    """

    names: tuple[str, ...]
    columns: NDArray[np.int64]
    width: int
    standard: Standard
    members: tuple[Member, ...]
    temperature: float = 1.0
    bias: float = 0.0
    familiarity: Familiarity | None = None
    _parts: tuple[Stack | Linear | Trees, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_parts", _parts(self.members))

    def inputs(self, features: Float64) -> Float64:
        """The z-scores that the networks see.

        Args:
            features: (n, width), one row a question.

        Returns:
            (n, d).

        Raises:
            FeatureError: Another number of columns, or a value that is no finite number.
        """
        if features.ndim != 2 or features.shape[1] != self.width:
            raise FeatureError(
                f"The feature matrix has shape {features.shape}; this router was made for "
                f"(questions, {self.width}). Give it all features in the featurizer's order."
            )
        # C-contiguous, since a dot product of strided numbers is summed in another order.
        chosen = np.ascontiguousarray(features[:, self.columns], np.float64)
        finite = np.isfinite(chosen)
        if not finite.all():
            row, column = np.argwhere(~finite)[0]
            raise FeatureError(
                f"Feature '{self.names[column]}' of question {row + 1} is {chosen[row, column]}; "
                "features must be finite numbers, so mend the featurizer."
            )
        return self.standard(chosen)

    def logits(self, features: Float64) -> Float64:
        """(n, width) features to (n,) calibrated logits, 0 for questions unlike all of training.

        Raises:
            FeatureError: See `inputs`.
        """
        inputs = self.inputs(features)
        return np.where(self.knows(inputs), self.calibrated(self.raw(inputs)), UNKNOWN)

    def knows(self, inputs: Float64) -> Mask:
        """(n,) which of (n, d) z-scores are like those of training."""
        if self.familiarity is None:
            return np.ones(len(inputs), np.bool_)
        return self.familiarity.knows(inputs)

    def scores(self, features: Float64) -> Float64:
        """(n, width) features to (n,) scores s from 0 to 1.

        Raises:
            FeatureError: See `inputs`.
        """
        return to_scores(self.logits(features))

    def raw(self, inputs: Float64) -> Float64:
        """(n, d) z-scores to (n,) mean logits over the members, not calibrated."""
        rows = np.ascontiguousarray(inputs)
        # Rounded once, so that the order of the members changes no bit.
        sums = [math.fsum(x for part in self._parts for x in part.logits(row)) for row in rows]
        return np.array(sums, np.float64) / len(self.members)

    def calibrated(self, raw: Float64) -> Float64:
        """Mean logits of the members to calibrated ones.

        Source: Guo et al. (ICML 2017), temperature scaling, with an offset.
        """
        return raw / self.temperature + self.bias

    @property
    def trees(self) -> tuple[Trees, ...]:
        """Members that have no gradient."""
        return tuple(part for part in self._parts if isinstance(part, Trees))

    def gradients(self, inputs: Floats) -> Floats:
        """∂(calibrated logit)/∂(z-score) at points (p, d), in their precision, without trees."""
        smooth = (part for part in self._parts if not isinstance(part, Trees))
        total = sum((part.gradients(inputs) for part in smooth), start=np.zeros_like(inputs))
        result: Floats = np.asarray(total) / (len(self.members) * self.temperature)
        return result.astype(inputs.dtype, copy=False)

    def along_paths(self, inputs: Float64) -> Float64:
        """(d,) what each feature of (d,) z-scores adds to the calibrated logit in trees."""
        added = sum((one.contributions(inputs) for one in self.trees), start=np.zeros(len(inputs)))
        return added / (len(self.members) * self.temperature)

    def with_calibration(self, temperature: float, bias: float = 0.0) -> "Scorer":
        """The same networks, calibrated otherwise."""
        return replace(self, temperature=temperature, bias=bias)


def _parts(members: Sequence[Member]) -> tuple[Stack | Linear | Trees, ...]:
    """Networks of one shape together, everything else by itself."""
    stacks: dict[object, list[AttentionMlp]] = {}
    lines: list[Linear | Trees] = []
    for member in members:
        if not isinstance(member, AttentionMlp):
            lines.append(member)
        else:
            shapes = tuple((name, values.shape) for name, values in sorted(member.tensors.items()))
            stacks.setdefault(shapes, []).append(member)
    return *map(Stack, stacks.values()), *lines


def to_scores(logits: Float64) -> Float64:
    """1 / (1 + exp(-logit)), elementwise."""
    scores: Float64 = logistic(logits)
    return scores


def columns_of(names: Sequence[str], available: Sequence[str]) -> NDArray[np.int64]:
    """Where features are among those that a build computes.

    Raises:
        FeatureError: One is not there.
    """
    place = {name: column for column, name in enumerate(available)}
    missing = [name for name in names if name not in place]
    if missing:
        raise FeatureError(
            f"This build does not compute {', '.join(missing)}, which the router looks at. "
            "Retrain with `wye train`, or use the build that it was trained with."
        )
    return np.array([place[name] for name in names], np.int64)
