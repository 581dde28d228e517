"""LSTMs that advance for several sentences at once, and for each as if it were alone.

BLAS sums the products of a row in another order when the row is one of several. A close decision
of a parser could then fall differently in a batch, so rows are multiplied one by one (`times`);
what a batch saves is everything around that.
"""

from collections.abc import Sequence

import numpy as np

from featurizer.checkpoint import Lstm
from featurizer.types import Float32

State = tuple[Float32, Float32]
"""Hidden and cell, (…, h) each."""


def times(rows: Float32, matrix: Float32) -> Float32:
    """(…, y) products of one (x,) row, or of each of (b, x) as if it were alone, and (x, y)."""
    if rows.ndim == 1:
        return rows @ matrix
    product: Float32 = np.matmul(rows[:, None, :], matrix)[:, 0]
    return product


class Stepper:
    """One LSTM that advances by one input at a time, for one sentence or for several.

    Attributes:
        weights: (x, 4 h) of the inputs.
        bias: (4 h,).
    """

    def __init__(self, lstm: Lstm) -> None:
        made = halved(lstm)
        self.weights, self.bias, self._recurrent = made.inputs, made.bias, made.recurrent

    def inputs(self, values: Float32) -> Float32:
        """(…, 4 h) gates as far as the (…, x) inputs decide them."""
        return times(values, self.weights) + self.bias

    def start(self, value: Float32) -> State:
        """State after the first input."""
        zeros = np.zeros(self._recurrent.shape[0], np.float32)
        return self.step(self.inputs(value), (zeros, zeros))

    def step(self, gates: Float32, before: State) -> State:
        """State after one more input, given the `inputs` of it."""
        hidden, cell = before
        return advance(times(hidden, self._recurrent) + gates, cell)


class Reader:
    """An LSTM in both directions over whole sentences."""

    def __init__(self, forward: Lstm, backward: Lstm) -> None:
        self._forward, self._backward = Stepper(forward), Stepper(backward)

    def read(self, sentences: Sequence[Float32]) -> list[Float32]:
        """(n, 2 h) states of each sentence, left to right beside right to left.

        Args:
            sentences: (n, x) inputs of each, none longer than the one before it.
        """
        # One direction after the other: the weights of one fit the cache, those of both may not.
        ahead = _read(self._forward, sentences)
        back = _read(self._backward, [inputs[::-1] for inputs in sentences])
        return [
            np.concatenate([one, other[::-1]], axis=1)
            for one, other in zip(ahead, back, strict=True)
        ]


def _read(stepper: Stepper, sentences: Sequence[Float32]) -> list[Float32]:
    """(n, h) states of each sentence."""
    lengths = [len(inputs) for inputs in sentences]
    size = len(stepper.bias) // 4
    gates = np.empty((lengths[0], len(sentences), 4 * size), np.float32)
    for row, inputs in enumerate(sentences):
        gates[: len(inputs), row] = inputs @ stepper.weights + stepper.bias
    states = np.empty((lengths[0], len(sentences), size), np.float32)
    zeros = np.zeros((len(sentences), size), np.float32)
    state = (zeros, zeros)
    live = len(sentences)
    for place in range(lengths[0]):
        while lengths[live - 1] <= place:
            live -= 1
        state = stepper.step(gates[place, :live], (state[0][:live], state[1][:live]))
        states[place, :live] = state[0]
    return [states[:length, row] for row, length in enumerate(lengths)]


def advance(gates: Float32, cell: Float32) -> State:
    """New (hidden, cell) from halved gates, input, forget, output, cell side by side.

    The sigmoid of x is (1 + tanh(x / 2)) / 2, so one tanh serves all four gates.
    """
    size = cell.shape[-1]
    np.tanh(gates, out=gates)
    open_gates = gates[..., : 3 * size]
    open_gates += 1
    open_gates *= 0.5
    new = gates[..., size : 2 * size] * cell
    new += gates[..., :size] * gates[..., 3 * size :]
    return gates[..., 2 * size : 3 * size] * np.tanh(new), new


def halved(lstm: Lstm) -> Lstm:
    """The same LSTM with its three sigmoid gates computed at half their argument."""
    size = lstm.recurrent.shape[0]
    scale = np.repeat(np.array([0.5, 1], np.float32), [3 * size, size])
    return Lstm(lstm.inputs * scale, lstm.recurrent * scale, lstm.bias * scale)
