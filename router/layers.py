"""The maths of the attention-MLP, for one network or several of one shape side by side.

Arrays of several networks have an axis more in front, here written (…). NumPy then works on all of
them in one call, which is what most of the time of small networks goes into.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
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
    """All layers, in one precision.

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


def logits(weights: Weights, x: Float64) -> Floats:
    """(d,) z-scores to (…) logits; `router.network` has the equations."""
    hidden = x * _sigmoid(weights.features.of_one(x))
    for layer in weights.hidden:
        sums = layer.of_one(hidden)
        made = sums * _sigmoid(sums)
        hidden = made + hidden if made.shape == hidden.shape else made
    attended = hidden * _sigmoid(weights.output.of_one(hidden))
    result: Floats = weights.head.of_one(attended)[..., 0]
    return result


def gradients(weights: Weights, points: Floats) -> Floats:
    """(…, p, d) of ∂logit/∂x at (p, d) points, by the chain rule written out."""
    gate = _sigmoid(weights.features.of_rows(points))
    hidden = points * gate
    slopes: list[Floats] = []
    for layer in weights.hidden:
        sums = layer.of_rows(hidden)
        squashed = _sigmoid(sums)
        slopes.append(squashed * (1 + sums * (1 - squashed)))
        made = sums * squashed
        hidden = made + hidden if made.shape == hidden.shape else made
    attention = _sigmoid(weights.output.of_rows(hidden))
    back = _through_gate(weights.head.weight, hidden, attention, weights.output.weight)
    for layer, slope in zip(reversed(weights.hidden), reversed(slopes), strict=True):
        below: Floats = (back * slope) @ layer.weight
        back = below + back if below.shape == back.shape else below
    return _through_gate(back, points, gate, weights.features.weight)


def _through_gate(back: Floats, x: Floats, gate: Floats, weight: Floats) -> Floats:
    """Gradient of y = x ⊙ gate times `back`, with gate = sigmoid(W x + b)."""
    kept = back * gate
    result: Floats = (kept * x * (1 - gate)) @ weight
    result += kept
    return result


def _sigmoid(x: Floats) -> Floats:
    """1 / (1 + exp(-x)), without overflow."""
    result: Floats = np.tanh(x * 0.5)
    result += 1
    result *= 0.5
    return result


def weights_of(tensors: Mapping[str, Floats], dtype: Kind) -> Weights:
    """All layers by their names.

    Raises:
        KeyError: A tensor is missing.
        ValueError: Shapes that do not follow from each other.
    """
    count = sum(name.startswith("hidden.") and name.endswith(".weight") for name in tensors)
    found = Weights(
        features=layer_of(tensors, "features", dtype),
        hidden=tuple(layer_of(tensors, f"hidden.{place}", dtype) for place in range(count)),
        output=layer_of(tensors, "output", dtype),
        head=layer_of(tensors, "head", dtype),
    )
    _check(found)
    return found


def layer_of(tensors: Mapping[str, Floats], name: str, dtype: Kind) -> Layer:
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
    if len(shape) < 2 or shape[-1] != inputs or layer.bias.shape != shape[:-1]:
        raise ValueError(f"{name}.weight and {name}.bias do not fit {inputs} inputs")
    if outputs is not None and shape[-2] != outputs:
        raise ValueError(f"{name} has {shape[-2]} outputs instead of {outputs}")
    return int(shape[-2])
