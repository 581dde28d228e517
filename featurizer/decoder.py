"""Constituency trees from tagged words, in numpy.

The arithmetic of Stanza's in-order LSTM parser for one sentence at a time. Whatever depends on a
word or a transition alone is computed once in a batch (or once for good); a step then costs two
matrix-vector products. Trees are those of Stanza's own `parse_tagged_words`.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from featurizer.checkpoint import UNKNOWN, Checkpoint, Lstm
from featurizer.errors import ParseError
from featurizer.transitions import State
from featurizer.tree import Tree
from featurizer.types import Float32

# Stanza gives up after so many steps for each word or sentence boundary.
STEPS_A_WORD = 20


class Decoder:
    """A constituency model ready to parse; safe to share between threads."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        """Prepare the weights.

        Args:
            checkpoint: As read by `read_checkpoint`.
        """
        self._model = checkpoint
        self._nonlinear = _NONLINEAR[checkpoint.nonlinearity]
        self._hidden = checkpoint.constituent_lstm.recurrent.shape[0]
        self._forward = _halved(checkpoint.forward)
        self._backward = _halved(checkpoint.backward)
        self._recurrent = np.stack([self._forward.recurrent, self._backward.recurrent])
        self._transition = _Stepper(_halved(checkpoint.transition_lstm))
        self._constituent = _Stepper(_halved(checkpoint.constituent_lstm))
        self._transition_inputs = self._transition.inputs(checkpoint.transition_vectors)
        self._open_inputs = self._constituent.inputs(checkpoint.opens)
        self._first_transition = self._transition.start(checkpoint.transition_start)
        self._first_constituent = self._constituent.start(checkpoint.constituent_start)
        weights, self._first_bias = checkpoint.output[0]
        self._word_part = np.ascontiguousarray(weights[: self._hidden])
        self._state_part = np.ascontiguousarray(weights[self._hidden :])

    @property
    def digest(self) -> str:
        """Identity of the model: the hash of its files."""
        return self._model.digest

    def parse(self, words: Sequence[tuple[str, str]]) -> Tree:
        """The tree of one sentence.

        Args:
            words: (word, tag) pairs, at least one.

        Raises:
            ParseError: There are no words, or the model runs into a dead end.
        """
        if not words:
            raise ParseError("A sentence without words has no tree.")
        model, nonlinear = self._model, self._nonlinear
        encoded = self._encode(words)
        word_scores = nonlinear(encoded) @ self._word_part + self._first_bias
        word_inputs = self._constituent.inputs(encoded)
        state = State(words, model.roots, model.unary_limit)
        # Beside the state's stack: what each tree looks like, and the LSTM's state after it.
        vectors: list[Float32] = []
        stack = [self._first_constituent]
        history = self._first_transition
        for _ in range((len(words) + 2) * STEPS_A_WORD):
            visible = nonlinear(np.concatenate((history[0], stack[-1][0])))
            # Position p is row p + 1: row 0 belongs to the boundary before the first word.
            scores = self._scores(visible @ self._state_part + word_scores[state.position + 1])
            best = self._best(scores, state)
            transition = model.transitions[best]
            row = state.position + 1
            joined = state.apply(transition)
            if transition.kind == "shift":
                vector, gates = encoded[row], word_inputs[row]
            elif transition.kind == "open":
                number = model.open_rows[transition.labels]
                vector, gates = model.opens[number], self._open_inputs[number]
            else:
                vector = self._join(vectors, joined)
                del stack[-joined - 1 :]
                gates = self._constituent.inputs(vector)
                if (tree := state.tree) is not None:
                    return tree
            vectors.append(vector)
            stack.append(self._constituent.step(gates, stack[-1]))
            history = self._transition.step(self._transition_inputs[best], history)
        raise ParseError(f"No tree after {STEPS_A_WORD} steps a word for '{_shown(words)}'.")

    def _encode(self, words: Sequence[tuple[str, str]]) -> Float32:
        """(n + 2, h) states of the words and of both boundaries."""
        model = self._model
        inputs = np.concatenate(
            [
                model.vectors[[self._vector_row(word) for word, _ in words]],
                model.deltas[[model.delta_rows.get(word, UNKNOWN) for word, _ in words]],
                model.tags[[model.tag_rows.get(tag, UNKNOWN) for _, tag in words]],
            ],
            axis=1,
        )
        inputs = np.concatenate([model.boundaries[:1], inputs, model.boundaries[1:]])
        length = len(inputs)
        gates = np.empty((length, 2, 1, 4 * self._hidden), np.float32)
        # Both directions advance in one step: the second reads the sentence from its end.
        gates[:, 0, 0] = inputs @ self._forward.inputs + self._forward.bias
        gates[:, 1, 0] = (inputs @ self._backward.inputs + self._backward.bias)[::-1]
        states = np.empty((length, 2, 1, self._hidden), np.float32)
        hidden = np.zeros((2, 1, self._hidden), np.float32)
        cell = hidden
        for place in range(length):
            hidden, cell = _advance(gates[place] + hidden @ self._recurrent, cell)
            states[place] = hidden
        both = np.concatenate([states[:, 0, 0], states[::-1, 1, 0]], axis=1)
        weights, bias = model.to_constituent
        return self._nonlinear(both @ weights + bias)

    def _vector_row(self, word: str) -> int:
        rows = self._model.vector_rows
        unit = word.replace(" ", "\xa0")
        row = rows.get(unit.lower() if self._model.lower else unit, UNKNOWN)
        return row if row != UNKNOWN else rows.get(unit.lower(), UNKNOWN)

    def _scores(self, values: Float32) -> Float32:
        for weights, bias in self._model.output[1:]:
            values = self._nonlinear(values) @ weights + bias
        return values

    def _best(self, scores: Float32, state: State) -> int:
        """The legal transition with the highest score."""
        transitions = self._model.transitions
        best = int(scores.argmax())
        if state.is_legal(transitions[best]):
            return best
        for candidate in np.argsort(-scores, kind="stable"):
            if state.is_legal(transitions[candidate]):
                return int(candidate)
        raise ParseError("The constituency model ran into a dead end.")

    def _join(self, vectors: list[Float32], number: int) -> Float32:
        """The parent's vector; takes its children and the mark of its opening off the list."""
        weights, bias = self._model.compose
        # From the top: all children but the first, the mark, the first child.
        children = [*vectors[len(vectors) - number + 1 :], vectors[-number - 1]]
        del vectors[-number - 1 :]
        largest = children[0] if number == 1 else np.maximum.reduce(children)
        return self._nonlinear(largest @ weights + bias)


class _Stepper:
    """One LSTM that advances by one input at a time."""

    def __init__(self, lstm: Lstm) -> None:
        self._lstm = lstm

    def inputs(self, values: Float32) -> Float32:
        """(…, 4 h) gates as far as the inputs decide them, of (…, x) inputs."""
        return values @ self._lstm.inputs + self._lstm.bias

    def start(self, value: Float32) -> tuple[Float32, Float32]:
        """State after the first input."""
        zeros = np.zeros(self._lstm.recurrent.shape[0], np.float32)
        return self.step(self.inputs(value), (zeros, zeros))

    def step(self, gates: Float32, before: tuple[Float32, Float32]) -> tuple[Float32, Float32]:
        """State after one more input, given its `inputs`."""
        hidden, cell = before
        return _advance(hidden @ self._lstm.recurrent + gates, cell)


def _advance(gates: Float32, cell: Float32) -> tuple[Float32, Float32]:
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


def _halved(lstm: Lstm) -> Lstm:
    """The same LSTM with its three sigmoid gates computed at half their argument."""
    size = lstm.recurrent.shape[0]
    scale = np.repeat(np.array([0.5, 1], np.float32), [3 * size, size])
    return Lstm(lstm.inputs * scale, lstm.recurrent * scale, lstm.bias * scale)


def _relu(values: Float32) -> Float32:
    return np.maximum(values, np.float32(0))


def _tanh(values: Float32) -> Float32:
    result: NDArray[np.float32] = np.tanh(values)
    return result


_NONLINEAR: dict[str, Callable[[Float32], Float32]] = {"relu": _relu, "tanh": _tanh}


def _shown(words: Sequence[tuple[str, str]]) -> str:
    return " ".join(word for word, _ in words)[:80]
