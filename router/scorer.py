"""How likely the graph is worth it: features in, calibrated score out, in float64 numpy."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from router.errors import FeatureError
from router.layers import Float64, Floats
from router.linear import Linear
from router.network import AttentionMlp, Stack

Member = AttentionMlp | Linear
KINDS: Mapping[str, type[AttentionMlp] | type[Linear]] = {
    kind.kind: kind for kind in (AttentionMlp, Linear)
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
    """

    names: tuple[str, ...]
    columns: NDArray[np.int64]
    width: int
    standard: Standard
    members: tuple[Member, ...]
    temperature: float = 1.0
    bias: float = 0.0
    _parts: tuple[Stack | Linear, ...] = field(init=False, repr=False, compare=False)

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
        bad = np.argwhere(~np.isfinite(chosen))
        if len(bad):
            row, column = bad[0]
            raise FeatureError(
                f"Feature '{self.names[column]}' of question {row + 1} is {chosen[row, column]}; "
                "features must be finite numbers, so mend the featurizer."
            )
        return self.standard(chosen)

    def logits(self, features: Float64) -> Float64:
        """(n, width) features to (n,) calibrated logits.

        Raises:
            FeatureError: See `inputs`.
        """
        return self.calibrated(self.raw(self.inputs(features)))

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

    def gradients(self, inputs: Floats) -> Floats:
        """∂(calibrated logit)/∂(z-score) at points (p, d), in their precision."""
        total = sum(part.gradients(inputs) for part in self._parts)
        result: Floats = np.asarray(total) / (len(self.members) * self.temperature)
        return result.astype(inputs.dtype, copy=False)

    def with_calibration(self, temperature: float, bias: float = 0.0) -> "Scorer":
        """The same networks, calibrated otherwise."""
        return replace(self, temperature=temperature, bias=bias)


def _parts(members: Sequence[Member]) -> tuple[Stack | Linear, ...]:
    """Networks of one shape together, everything else by itself."""
    stacks: dict[object, list[AttentionMlp]] = {}
    lines: list[Linear] = []
    for member in members:
        if isinstance(member, Linear):
            lines.append(member)
        else:
            shapes = tuple((name, values.shape) for name, values in sorted(member.tensors.items()))
            stacks.setdefault(shapes, []).append(member)
    return *map(Stack, stacks.values()), *lines


def to_scores(logits: Float64) -> Float64:
    """1 / (1 + exp(-logit)), elementwise."""
    scores: Float64 = expit(logits)
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
