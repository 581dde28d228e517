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
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Floats = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Layer:
    """An affine map.

    Attributes:
        weight: (outputs, inputs), C-contiguous.
        bias: (outputs,).
    """

    weight: Floats
    bias: Floats

    def __call__(self, x: Floats) -> Floats:
        """(inputs,) to (outputs,): one dot product a row, whose bits depend on nothing else."""
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
    """All layers, in one precision.

    Attributes:
        features: (d, d) attention over features.
        hidden: Hidden layers, in order.
        output: (h, h) attention over the last hidden layer.
        head: (1, h) to the logit.
    """

    features: Layer
    hidden: tuple[Layer, ...]
    output: Layer
    head: Layer


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
        self._double = _weights(tensors, np.float64)
        self._single = _weights(tensors, np.float32)
        _check(self._double)

    @property
    def width(self) -> int:
        """How many features it takes."""
        return int(self._double.features.weight.shape[1])

    def logit(self, x: Float64) -> float:
        """The logit of one question, the same bits whatever else is scored.

        Args:
            x: (d,) z-scored features.
        """
        weights = self._double
        hidden = x * _sigmoid(weights.features(x))
        for layer in weights.hidden:
            sums = layer(hidden)
            made = sums * _sigmoid(sums)
            hidden = made + hidden if made.shape == hidden.shape else made
        attended = hidden * _sigmoid(weights.output(hidden))
        return float(weights.head(attended)[0])

    def gradients(self, points: Floats) -> Floats:
        """∂logit/∂x at several points, by the chain rule written out.

        Args:
            points: (p, d), float64 or float32; computed in that precision.

        Returns:
            (p, d) of the same precision.
        """
        weights = self._double if points.dtype == np.float64 else self._single
        gate = _sigmoid(weights.features.of_rows(points))
        hidden = points * gate
        slopes: list[Floats] = []
        for layer in weights.hidden:
            sums = layer.of_rows(hidden)
            squashed = _sigmoid(sums)
            slopes.append(squashed * (1 + sums * (1 - squashed)))
            made = sums * squashed
            hidden = made + hidden if made.shape == hidden.shape else made
        back = _back_through_gate(
            weights.head.weight[0],
            hidden,
            _sigmoid(weights.output.of_rows(hidden)),
            weights.output.weight,
        )
        for layer, slope in zip(reversed(weights.hidden), reversed(slopes), strict=True):
            below = (back * slope) @ layer.weight
            back = below + back if below.shape == back.shape else below
        return _back_through_gate(back, points, gate, weights.features.weight)


def _back_through_gate(back: Floats, x: Floats, gate: Floats, weight: Floats) -> Floats:
    """Gradient of y = x ⊙ gate times `back`, with gate = sigmoid(W x + b)."""
    result: Floats = (back * x * gate * (1 - gate)) @ weight
    result += back * gate
    return result


def _sigmoid(x: Floats) -> Floats:
    """1 / (1 + exp(-x)), without overflow."""
    result: Floats = np.tanh(x * 0.5)
    result += 1
    result *= 0.5
    return result


def _weights(tensors: Mapping[str, Floats], dtype: type[np.floating[Any]]) -> Weights:
    count = sum(name.startswith("hidden.") and name.endswith(".weight") for name in tensors)
    return Weights(
        features=layer_of(tensors, "features", dtype),
        hidden=tuple(layer_of(tensors, f"hidden.{place}", dtype) for place in range(count)),
        output=layer_of(tensors, "output", dtype),
        head=layer_of(tensors, "head", dtype),
    )


def layer_of(tensors: Mapping[str, Floats], name: str, dtype: type[np.floating[Any]]) -> Layer:
    """The layer of that name.

    Raises:
        KeyError: A tensor is missing.
    """
    weight, bias = tensors[f"{name}.weight"], tensors[f"{name}.bias"]
    return Layer(np.ascontiguousarray(weight, dtype), np.ascontiguousarray(bias, dtype))


def _check(weights: Weights) -> None:
    width = weights.features.weight.shape[-1]
    chain: Sequence[tuple[str, Layer, int | None]] = [
        ("features", weights.features, width),
        *((f"hidden.{place}", layer, None) for place, layer in enumerate(weights.hidden)),
    ]
    for name, layer, outputs in chain:
        width = _checked(name, layer, width, outputs)
    _checked("head", weights.head, _checked("output", weights.output, width, width), 1)


def _checked(name: str, layer: Layer, inputs: int, outputs: int | None) -> int:
    shape = layer.weight.shape
    if len(shape) != 2 or shape[1] != inputs or layer.bias.shape != shape[:1]:
        raise ValueError(f"{name}.weight and {name}.bias do not fit {inputs} inputs")
    if outputs is not None and shape[0] != outputs:
        raise ValueError(f"{name} has {shape[0]} outputs instead of {outputs}")
    return int(shape[0])
