"""Constituency trees from tagged words: Stanza's in-order LSTM parser, in numpy.

The trees are those of Stanza's own `parse_tagged_words`. Each transition multiplies vectors with
matrices that fill the processor's cache, so its time is that of reading the matrices. Whatever
depends on a word or a transition alone is therefore computed once. So is the contribution of a
stack state to the item on top of it, since a phrase takes the place of its first child.

Each sentence is derived by itself. BLAS sums the products of a row in another order if the row is
one of several, so this way no tree depends on what is parsed beside it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from wye.featurizer.constituency.checkpoint import VECTORS, StanzaFiles, read_safetensors
from wye.featurizer.constituency.tree import CLOSE, SHIFT, ParserState, Transition, Tree
from wye.featurizer.errors import ModelError
from wye.featurizer.spacy.layers import OneThread
from wye.featurizer.types import Float32

TaggedWords = Sequence[tuple[str, str]]
# A stack item: its vector, the LSTM's cell below it, and that state's contribution to the gates.
Item = tuple[Float32, Float32, Float32]
Tensors = Mapping[str, NDArray[Any]]

UNKNOWN = 1  # Stanza's vocabularies begin with a padding entry and the unknown word
_OFFSET = 2


class Decoder:
    """A constituency model ready to parse; safe to share between threads."""

    # Stanza gives up after this many transitions per word or sentence boundary.
    steps_a_word = 20

    @classmethod
    def read(cls, model: Path) -> Self:
        """Load a model of a safetensors file; a `ModelError` if it is of another kind."""
        try:
            files = read_safetensors(model)
            files.require_supported(model)
            return cls(files)
        except (KeyError, TypeError, AttributeError) as error:
            raise ModelError(
                f"{model} is not a constituency model with its word vectors: {error!r} is missing "
                "or has the wrong type."
            ) from error

    def __init__(self, files: StanzaFiles) -> None:
        params, tensors = files.content["params"], files.tensors
        self.digest, self._lower = files.digest, files.lower
        self._moves = moves = tuple(map(Transition.from_repr, params["transitions"]))
        self._roots, self._unary_limit = frozenset(params["root_labels"]), params["unary_limit"]
        # Word vectors, those of the training vocabulary, which were trained along, and tags.
        self._vector_rows = {word: row for row, word in enumerate(files.words)}
        self._delta_rows, self._tag_rows = (
            {unit: row + _OFFSET for row, unit in enumerate(params[name])}
            for name in ("words", "tags")
        )
        self._vectors = tensors[VECTORS]
        self._deltas, self._tags = (
            tensors[f"{name}_embedding.weight"] for name in ("delta", "tag")
        )
        boundaries = [tensors["word_start_embedding"], tensors["word_end_embedding"]]
        both = Gates(tensors, "word_lstm"), Gates(tensors, "word_lstm", "_reverse")
        self._reader = Reader(*both, np.stack(boundaries))
        # The LSTMs over the transitions taken and over the stack. They advance together: state and
        # gates of the first come before those of the second.
        self._transitions = transitions = Gates(tensors, "transition_stack.lstm")
        self._stack = stack = Gates(tensors, "constituent_stack.lstm")
        stacks = "transition", "constituent"
        starts = (tensors[f"{name}_stack.start_embedding"][None] for name in stacks)
        self._units = LstmUnits(transitions.size + stack.size)
        self._start = self._units.start(self._gates_of(*starts))
        # The vector that each transition pushes, if it is constant, and its contribution to the
        # gates.
        self._shift, self._close = moves.index(SHIFT), moves.index(CLOSE)
        self._marks = np.zeros((len(moves), stack.size), np.float32)
        opens = [tuple(labels) for labels in params["constituent_opens"]]
        for move, transition in enumerate(moves):
            if transition.kind == "open":
                row = opens.index(transition.labels)
                self._marks[move] = tensors["dummy_embedding.weight"][row]
        self._move_gates = self._gates_of(tensors["transition_embedding.weight"], self._marks)
        self._to_constituent = _linear(tensors, "word_to_constituent")
        self._compose = _linear(tensors, "reduce_linear")
        # Layers from the states of (word, transitions, stack) to scores.
        layers = range(params["config"]["num_output_layers"])
        (weights, self._first_bias), *self._output = (
            _linear(tensors, f"output_layers.{layer}") for layer in layers
        )
        self._word_weights = np.ascontiguousarray(weights[: stack.size])
        self._state_weights = np.ascontiguousarray(weights[stack.size :])
        self._one_thread = OneThread()

    def _gates_of(self, transitions: Float32, items: Float32) -> Float32:
        """What inputs of the two LSTMs contribute to their gates, side by side."""
        pairs = (self._transitions, transitions), (self._stack, items)
        return np.concatenate([values @ lstm.inputs + lstm.bias for lstm, values in pairs], axis=1)

    def parse(self, words: TaggedWords) -> Tree | None:
        """The tree of a sentence of (word, tag) pairs; None without words, and at a dead end."""
        # Several threads would wait for each other at each of the many small products.
        with self._one_thread():
            return self._derive(words) if words else None

    def _derive(self, words: TaggedWords) -> Tree | None:
        vectors, word_gates, shares = self._read(words)
        state, items = ParserState(words, self._roots, self._unary_limit), list[Item]()
        split, moves, move = self._transitions.size, self._moves, self._shift  # always the first
        hidden, cell = self._start
        for _ in range((len(words) + 2) * self.steps_a_word - 1):
            transition = moves[move]
            if transition.labels and transition.labels[0] in self._roots:
                state.apply(transition)
                state.apply(CLOSE)  # nothing else is legal
                break
            is_shift, row = move == self._shift, [state.position]
            gates = word_gates[row] if is_shift else self._move_gates[[move]]
            gates[:, : 4 * split] += np.dot(hidden[:, :split], self._transitions.recurrent)
            of_stack, joined = gates[:, 4 * split :], state.apply(transition)
            if joined:
                weights, bias = self._compose
                children, below, product = _popped(items, joined)
                vector = _relu(np.dot(children, weights) + bias)
                of_stack += np.dot(vector, self._stack.inputs) + product
                cell[:, split:] = below
            else:
                vector, below = vectors[row] if is_shift else self._marks[[move]], cell[:, split:]
                product = np.dot(hidden[:, split:], self._stack.recurrent)
                of_stack += product
            items.append((vector, below, product))
            hidden, cell = self._units.advance(gates, cell)
            scores = np.dot(_relu(hidden), self._state_weights)
            scores += shares[state.position]
            for weights, bias in self._output:
                scores = np.dot(_relu(scores), weights)
                scores += bias
            best = np.argsort(-scores[0], kind="stable").tolist()
            move = next((each for each in best if state.is_legal(moves[each])), -1)
            if move < 0:
                break
        return state.tree

    def _read(self, words: TaggedWords) -> tuple[Float32, Float32, Float32]:
        """Compute everything that depends on a word alone.

        Returns vectors (n, h) of the words and the end boundary, what each contributes to the gates
        (n, 4 h), and to the first output layer, (n, h).
        """
        weights, bias = self._to_constituent
        vectors = _relu(self._reader.read(self._inputs(words)) @ weights + bias)
        gates = self._move_gates[[self._shift] * len(vectors)]
        gates[:, 4 * self._transitions.size :] += vectors @ self._stack.inputs
        return vectors, gates, _relu(vectors) @ self._word_weights + self._first_bias

    def _inputs(self, words: TaggedWords) -> Float32:
        return np.concatenate(
            [
                self._vectors[[self._vector_row(word) for word, _ in words]],
                self._deltas[[self._delta_rows.get(word, UNKNOWN) for word, _ in words]],
                self._tags[[self._tag_rows.get(tag, UNKNOWN) for _, tag in words]],
            ],
            axis=1,
        )

    def _vector_row(self, word: str) -> int:
        rows = self._vector_rows
        unit = word.replace(" ", "\xa0")
        row = rows.get(unit.lower() if self._lower else unit, UNKNOWN)
        return row if row != UNKNOWN else rows.get(unit.lower(), UNKNOWN)


def _popped(items: list[Item], joined: int) -> Item:
    """Pop a phrase's children; returns their maximum, with the state below the first child."""
    # The mark of the open phrase is between the first child and the others.
    (vector, below, product), _, *others = items[-joined - 1 :]
    for other, _, _ in others:
        vector = np.maximum(vector, other)
    del items[-joined - 1 :]
    return vector, below, product


class Reader:
    """An LSTM in both directions over a whole sentence."""

    def __init__(self, forward: "Gates", backward: "Gates", boundaries: Float32) -> None:
        """Prepare the weights; boundaries (2, x) are the inputs before and after each sentence."""
        before, self._after = boundaries[:1], boundaries[1:]
        both = forward, backward
        self._inputs = np.concatenate([gates.inputs for gates in both], axis=1)
        self._bias = np.concatenate([gates.bias for gates in both])
        self._recurrent = np.stack([gates.recurrent for gates in both])
        self._units = LstmUnits(forward.size)
        # The backward LSTM reads nothing before the end boundary.
        start = self._units.start(before @ forward.inputs + forward.bias)
        self._start = [np.stack([values, np.zeros_like(values)]) for values in start]

    def read(self, words: Float32) -> Float32:
        """(n + 1, 2 h) forward beside backward states of words (n, x) and the end boundary."""
        inputs = np.concatenate([words, self._after]) @ self._inputs + self._bias
        ahead, back = np.split(inputs, 2, axis=1)
        gates, states = np.stack([ahead, back[::-1]]), list[Float32]()
        hidden, cell = self._start
        for step in range(len(inputs)):
            now = gates[:, step : step + 1]
            now += np.matmul(hidden, self._recurrent)
            hidden, cell = self._units.advance(now, cell)
            states.append(hidden)
        ahead, back = np.concatenate(states, axis=1)
        return np.concatenate([ahead, back[::-1]], axis=1)


class Gates:
    """One LSTM's weights, with the four gates of each unit side by side.

    Attributes:
        size: Number h of units.
        inputs: (x, 4 h).
        recurrent: (h, 4 h).
        bias: (4 h,).
    """

    def __init__(self, tensors: Tensors, name: str, suffix: str = "") -> None:
        """Lay out PyTorch's weights: input, forget, cell, output gate; may raise a `KeyError`."""
        inputs, recurrent, *biases = (
            tensors[f"{name}.{kind}_l0{suffix}"]
            for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        self.size = len(recurrent) // 4
        order = np.arange(4 * self.size).reshape(4, -1)[[0, 1, 3, 2]].T.ravel()
        # The sigmoid of x is (1 + tanh(x / 2)) / 2: with the three sigmoid gates at half their
        # argument, one tanh serves all four.
        half = np.tile(_SCALE, self.size)
        self.inputs = np.ascontiguousarray(inputs[order].T * half)
        self.recurrent = np.ascontiguousarray(recurrent[order].T * half)
        self.bias = (biases[0] + biases[1])[order] * half


class LstmUnits:
    """The units of one LSTM, or of several that advance together."""

    def __init__(self, size: int) -> None:
        """Lay out PyTorch's weights; its gates are input, forget, cell, output."""
        self.scale, self.shift = np.tile(_SCALE, size), np.tile(_SHIFT, size)

    def start(self, gates: Float32) -> tuple[Float32, Float32]:
        """Hidden state and cell after a first input; see `advance`."""
        return self.advance(gates, np.zeros((len(gates), gates.shape[1] // 4), np.float32))

    def advance(self, gates: Float32, cell: Float32) -> tuple[Float32, Float32]:
        """Hidden state and cell (..., h) after one more input, by gates (..., 4 h), overwritten."""
        np.tanh(gates, out=gates)
        gates *= self.scale
        gates += self.shift
        cell = gates[..., 1::4] * cell
        cell += gates[..., ::4] * gates[..., 3::4]
        hidden = np.tanh(cell)
        hidden *= gates[..., 2::4]
        return hidden, cell


def _linear(tensors: Tensors, name: str) -> tuple[Float32, Float32]:
    return np.ascontiguousarray(tensors[f"{name}.weight"].T), tensors[f"{name}.bias"]


def _relu(values: Float32) -> Float32:
    return np.maximum(values, _ZERO)


_ZERO = np.zeros((), np.float32)  # an array, since numpy would convert a number at each call
# Input, forget and output gates are sigmoids, the cell's is a tanh.
_SCALE, _SHIFT = np.array([[0.5, 0.5, 0.5, 1], [0.5, 0.5, 0.5, 0]], np.float32)
