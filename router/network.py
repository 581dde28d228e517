"""The attention-MLP, run without autograd: one question's logit, and gradients in closed form.

Source: EA-GraphRAG, section 3.3: feature-level attention on the input, hidden layers of 256, 128
and 64 with residual connections where dimensions match, output attention, logit. It leaves the
rest open. Here, with x the z-scored features:

    u   = x ⊙ sigmoid(W_f x + b_f)              feature attention: one weight in (0, 1) a feature
    h_1 = silu(W_1 u + b_1)  (+ u when as wide)
    h_i = silu(W_i h_{i-1} + b_i)  (+ h_{i-1} when as wide)
    v   = h ⊙ sigmoid(W_o h + b_o)              output attention: the same over hidden units
    logit = w · v + b

Attention is a gate and not a softmax, so that a feature's weight does not fall because others
matter too. The activation is silu(a) = a sigmoid(a) (Elfwing et al. 2018), which is smooth: the
gradient exists everywhere, and a few points suffice to integrate it.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from router.layers import Float64, Floats, Weights, gradients, logits, weights_of


class AttentionMlp:
    """One trained network; see the head of this file."""

    kind = "attention-mlp"

    def __init__(self, tensors: Mapping[str, Floats]) -> None:
        """Take over weights.

        Args:
            tensors: "features.weight", "features.bias", "hidden.0.weight", …, "output.weight",
                "head.weight" and so on, as `training.network` names them.

        Raises:
            KeyError: A tensor is missing.
            ValueError: Shapes that do not follow from each other.
        """
        self.tensors = dict(tensors)
        self._single = weights_of(self.tensors, np.float32)

    @property
    def width(self) -> int:
        """How many features it takes."""
        return int(self._single.features.weight.shape[-1])

    @cached_property
    def _double(self) -> Weights:
        return weights_of(self.tensors, np.float64)

    def logit(self, x: Float64) -> float:
        """The logit of one question, the same bits whatever else is scored.

        Args:
            x: (d,) z-scored features.
        """
        return float(logits(self._double, x))

    def gradients(self, points: Floats) -> Floats:
        """∂logit/∂x at several points.

        Args:
            points: (p, d), float64 or float32; computed in that precision.

        Returns:
            (p, d) of the same precision.
        """
        return gradients(self._double if points.dtype == np.float64 else self._single, points)


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
        self._double = weights_of(tensors, np.float64)
        self._single = weights_of(tensors, np.float32)

    def logits(self, x: Float64) -> Floats:
        """(d,) z-scores to (m,) logits, to the bit those of each member."""
        return logits(self._double, x)

    def gradients(self, points: Floats) -> Floats:
        """Sum over members of ∂logit/∂x at (p, d) points, in their precision."""
        weights = self._double if points.dtype == np.float64 else self._single
        result: Floats = gradients(weights, points).sum(axis=0)
        return result
