"""Constituency trees from tagged words: Stanza's in-order LSTM parser, in numpy.

The trees are those of Stanza's own `parse_tagged_words`. Each transition multiplies vectors with
matrices that fill the processor's cache, so its time is that of reading the matrices. Whatever
depends on a word or a transition alone is therefore computed once. So is the contribution of a
stack state to the item on top of it, since a phrase takes the place of its first child.

Sentences are derived in parallel, one transition of each at a time, so that the matrices are read
once for all of them. BLAS sums the products of a row in another order if the row is one of several.
A sentence with a decision so close that this might change it is therefore derived again by itself:
a tree does not depend on the batch.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from wye.featurizer.constituency.checkpoint import VECTORS, StanzaFiles, read_safetensors
from wye.featurizer.constituency.tree import CLOSE, SHIFT, ParserState, Transition, Tree, best_move
from wye.featurizer.errors import ModelError
from wye.featurizer.spacy.layers import OneThread
from wye.featurizer.types import Float32

Words = Sequence[tuple[str, str]]
# A stack item: its vector, the LSTM's cell below it, and that state's contribution to the gates.
Item = tuple[Float32, Float32, Float32]
Tensors = Mapping[str, NDArray[Any]]

SIDE_BY_SIDE = 64
CLOSE_CALL = 0.01  # scores are up to 30. Their differences between batches are less than .00002.
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
        starts = (
            tensors[f"{name}_stack.start_embedding"] for name in ("transition", "constituent")
        )
        self._units = LstmUnits(transitions.size + stack.size)
        self._start = self._units.start(self._gates_of(*(start[None] for start in starts)))
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

    def parse_many(self, sentences: Sequence[Words]) -> list[Tree | None]:
        """The trees of sentences of (word, tag) pairs; None without words, and at a dead end."""
        trees: list[Tree | None] = [None] * len(sentences)
        # Sentences of similar length take about the same number of transitions.
        order = [row for row, words in enumerate(sentences) if words]
        order.sort(key=lambda row: -len(sentences[row]))
        # Several threads would wait for each other at each of the many small products.
        with self._one_thread():
            for begin in range(0, len(order), SIDE_BY_SIDE):
                rows = order[begin : begin + SIDE_BY_SIDE]
                derived = self._derive([sentences[row] for row in rows])
                for row, parse in zip(rows, derived, strict=True):
                    alone = self._derive([sentences[row]]) if parse.is_close else [parse]
                    trees[row] = alone[0].tree
        return trees

    def _derive(self, sentences: Sequence[Words]) -> "list[Derivation]":
        """Derivations of sentences, longest first; of several, one ends where it `is_close`."""
        vectors, gates, shares = self._read(sentences)
        everyone: list[Derivation] = []
        row = first = len(self._moves)
        for words in sentences:
            parse = Derivation(words, self._roots, self._unary_limit)
            parse.first, parse.steps = row, (len(words) + 2) * self.steps_a_word
            parse.move = self._shift  # always the first transition
            everyone.append(parse)
            row += len(words) + 1
        live = everyone
        hidden, cell = (values.repeat(len(live), axis=0) for values in self._start)
        while True:
            pushes, closes = self._sort(live)
            rows = pushes + closes
            if not rows:
                return everyone
            live = [live[row] for row in rows]
            hidden, cell = hidden.take(rows, axis=0), cell.take(rows, axis=0)
            indices = [parse.word if parse.move == self._shift else parse.move for parse in live]
            now = gates.take(indices, axis=0)
            pushed = [vectors[i] for i in indices[: len(pushes)]]
            self._apply(live, pushed, now, hidden, cell)
            hidden, cell = self._units.advance(now, cell)
            scores = np.dot(_relu(hidden), self._state_weights)
            scores += shares.take([parse.word - first for parse in live], axis=0)
            for weights, bias in self._output:
                scores = np.dot(_relu(scores), weights)
                scores += bias
            self._choose(live, scores, is_alone=len(sentences) == 1)

    def _sort(self, live: "Sequence[Derivation]") -> tuple[list[int], list[int]]:
        """Rows of the derivations that push an item, and of those that close a phrase."""
        pushes: list[int] = []
        closes: list[int] = []
        for row, parse in enumerate(live):
            if parse.goes_on(self._moves):
                (closes if parse.move == self._close else pushes).append(row)
        return pushes, closes

    def _apply(
        self,
        live: "Sequence[Derivation]",
        pushed: Sequence[Float32],
        gates: Float32,
        hidden: Float32,
        cell: Float32,
    ) -> None:
        """Apply the next transitions: the first derivations push these vectors, the others close.

        Adds the recurrent contributions to the (b, 4 h) gates, and resets the (b, h) cells of the
        closing derivations to the state below their phrase.
        """
        split, moves = self._transitions.size, self._moves
        transitions, stack, below = gates[:, : 4 * split], gates[:, 4 * split :], cell[:, split:]
        transitions += np.dot(hidden[:, :split], self._transitions.recurrent)
        end = len(pushed)
        if pushed:
            products = np.dot(hidden[:end, split:], self._stack.recurrent)
            stack[:end] += products
            for row, (parse, vector) in enumerate(zip(live, pushed, strict=False)):
                parse.apply(moves[parse.move])
                parse.items.append((vector, below[row], products[row]))
        if closing := live[end:]:
            children, cells, products = map(
                np.array, zip(*[parse.close() for parse in closing], strict=True)
            )
            weights, bias = self._compose
            phrases = _relu(np.dot(children, weights) + bias)
            stack[end:] += np.dot(phrases, self._stack.inputs) + products
            below[end:] = cells
            for row, parse in enumerate(closing):
                parse.items.append((phrases[row], cells[row], products[row]))

    def _choose(self, live: "Sequence[Derivation]", scores: Float32, *, is_alone: bool) -> None:
        """Set the next moves; -1, and `is_close`, where the batch might change the decision."""
        transitions = self._moves
        best = scores.argmax(axis=1).tolist()
        if is_alone:
            live[0].move = best_move(live[0], transitions, scores[0], best[0])
            return
        highest = np.partition(scores, -2, axis=1)
        gaps = (highest[:, -1] - highest[:, -2]).tolist()
        for parse, move, gap in zip(live, best, gaps, strict=True):
            # The best move is rarely illegal, and then the next ones may be close too.
            parse.is_close = gap < CLOSE_CALL or not parse.is_legal(transitions[move])
            parse.move = -1 if parse.is_close else move

    def _read(self, sentences: Sequence[Words]) -> tuple[Float32, Float32, Float32]:
        """Compute everything that depends on a transition or a word alone.

        Returns vectors (m + n, h) that the m transitions push, followed by those of the n words and
        end boundaries; the contribution of each to the gates, (m + n, 4 h); and the contribution of
        the words to the first output layer, (n, h).
        """
        read = self._reader.read([self._inputs(words) for words in sentences])
        weights, bias = self._to_constituent
        words = _relu(read @ weights + bias)
        gates = self._move_gates[[*range(len(self._marks)), *[self._shift] * len(words)]]
        gates[len(self._marks) :, 4 * self._transitions.size :] += words @ self._stack.inputs
        shares = _relu(words) @ self._word_weights + self._first_bias
        return np.concatenate([self._marks, words]), gates, shares

    def _inputs(self, words: Words) -> Float32:
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


class Derivation(ParserState):
    """The parse of one sentence's tree, with the vectors of what is on its stack.

    Attributes:
        first: The row of the sentence's first word.
        steps: Number of transitions left.
        move: The next transition; -1 if there is none.
        items: The stack of vectors.
        is_close: Whether a decision was so close that the batch might have changed it.
    """

    __slots__ = ("first", "is_close", "items", "move", "steps")

    def __init__(self, words: Words, roots: frozenset[str], unary_limit: int) -> None:
        """Start before the first word; see `ParserState`."""
        super().__init__(words, roots, unary_limit)
        self.first = self.steps = self.move = 0
        self.items: list[Item] = []
        self.is_close = False

    @property
    def word(self) -> int:
        """The row of the next word, or of the boundary after the last one."""
        return self.first + self.position

    def goes_on(self, moves: Sequence[Transition]) -> bool:
        """Count a step; returns whether there is a next transition that needs the LSTMs."""
        self.steps -= 1
        # The last step is for closing the root.
        if self.move < 0 or self.steps <= 0:
            return False
        transition = moves[self.move]
        if not transition.labels or transition.labels[0] not in self.roots:
            return True
        # After opening the root only closing it is legal.
        self.apply(transition)
        self.apply(CLOSE)
        return False

    def close(self) -> Item:
        """Pop a phrase's children; returns their maximum, with the state below the first child."""
        joined = self.apply(CLOSE)
        # The mark of the open phrase is between the first child and the others.
        first = len(self.items) - joined - 1
        vector, below, product = self.items[first]
        for other, _, _ in self.items[first + 2 :]:
            vector = np.maximum(vector, other)
        del self.items[first:]
        return vector, below, product


class Reader:
    """An LSTM in both directions over whole sentences."""

    def __init__(self, forward: "Gates", backward: "Gates", boundaries: Float32) -> None:
        """Prepare the weights; boundaries (2, x) are the inputs before and after each sentence."""
        before, self._after = boundaries[:1], boundaries[1:]
        both = forward, backward
        self._size = both[0].size
        self._inputs = np.concatenate([gates.inputs for gates in both], axis=1)
        self._bias = np.concatenate([gates.bias for gates in both])
        self._recurrent = np.stack([gates.recurrent for gates in both])
        self._units = LstmUnits(self._size)
        # The backward LSTM reads nothing before the end boundary.
        start = self._units.start(before @ both[0].inputs + both[0].bias)
        self._start = [np.stack([values, np.zeros_like(values)]) for values in start]

    def read(self, sentences: Sequence[Float32]) -> Float32:
        """States of the words of sentences, longest first, each with its end boundary.

        Of inputs (n, x) of each sentence it makes (sum of all n + 1, 2 h), forward states beside
        backward states.
        """
        inputs = np.concatenate([block for rows in sentences for block in (rows, self._after)])
        lengths = np.array([len(rows) + 1 for rows in sentences])
        begins = lengths.cumsum() - lengths
        # The positions that each step reads of each sentence that is long enough, both ways.
        steps, those = (np.arange(lengths[0])[:, None] < lengths).nonzero()
        ahead, back = begins[those] + steps, begins[those] + lengths[those] - 1 - steps
        positions, sides = np.stack([ahead, back]), np.arange(2)[:, None]
        gates = (inputs @ self._inputs + self._bias).reshape(len(inputs), 2, -1)[positions, sides]
        states = np.empty((2, len(inputs), self._size), np.float32)
        hidden, cell = (values.repeat(len(sentences), axis=1) for values in self._start)
        end = 0
        for live in np.bincount(steps).tolist():
            begin, end = end, end + live
            now = gates[:, begin:end]
            now += np.matmul(hidden[:, :live], self._recurrent)
            hidden, cell = self._units.advance(now, cell[:, :live])
            states[:, begin:end] = hidden
        result = np.empty((len(inputs), 2, self._size), np.float32)
        result[positions, sides] = states
        return result.reshape(len(inputs), -1)


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
