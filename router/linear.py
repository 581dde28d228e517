"""Logistic regression: what the attention-MLP has to beat."""

from collections.abc import Mapping

import numpy as np

from router.layers import Float64, Floats, layer_of


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
        self._head = layer_of(tensors, "head", np.float64)
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
