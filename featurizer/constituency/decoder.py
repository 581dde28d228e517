"""Constituency trees from tagged words: Stanza's in-order LSTM parser, in numpy.

The trees are those of Stanza's own `parse_tagged_words`. Each transition multiplies vectors with
matrices that fill the processor's cache, and so takes as long as reading them does. What depends on
a word or a transition alone is therefore computed once, and so is what a state of the stack gives
to what is put on it, since a phrase goes where its first child was. Of the phrases' own matrix only
the rows are read that their many zeros leave.

One sentence follows the other: a tree does not depend on what is parsed beside it.
"""

from collections.abc import Callable, Sequence

import numpy as np

from featurizer.constituency.checkpoint import UNKNOWN, Checkpoint, Lstm
from featurizer.constituency.transitions import CLOSE, SHIFT, ParserState, best_move
from featurizer.constituency.tree import Tree
from featurizer.errors import ParseError
from featurizer.types import Float32

Words = Sequence[tuple[str, str]]


class Decoder:
    """A constituency model ready to parse; safe to share between threads."""

    # Stanza gives up after so many transitions for each word or sentence boundary.
    steps_a_word = 20

    def __init__(self, checkpoint: Checkpoint) -> None:
        """Prepare the weights."""
        self.model = checkpoint
        self.digest = checkpoint.digest
        self._nonlinear = _NONLINEAR[checkpoint.nonlinearity]
        self._reader = Reader(checkpoint.forward, checkpoint.backward, checkpoint.boundaries)
        # Of the transitions taken, and of the stack.
        self._pair = pair = Pair(
            (checkpoint.transition_lstm, checkpoint.constituent_lstm),
            (checkpoint.transition_start, checkpoint.constituent_start),
        )
        self._shift = checkpoint.transitions.index(SHIFT)
        # What each transition gives to the gates, with the mark that an "open" puts on the stack.
        self._marks = {
            move: checkpoint.opens[checkpoint.open_rows[transition.labels]]
            for move, transition in enumerate(checkpoint.transitions)
            if transition.kind == "open"
        }
        on_stack = np.tile(pair.second.bias, (len(checkpoint.transitions), 1))
        for move, mark in self._marks.items():
            on_stack[move] += mark @ pair.second.inputs
        taken = checkpoint.transition_vectors @ pair.first.inputs + pair.first.bias
        self._move_gates = np.concatenate([taken, on_stack], axis=1)
        weights, self._first_bias = checkpoint.output[0]
        self._word_part = np.ascontiguousarray(weights[: pair.second.size])
        self._state_part = np.ascontiguousarray(weights[pair.second.size :])

    def parse(self, words: Words) -> Tree:
        """The tree of one sentence of (word, tag) pairs.

        Raises:
            ParseError: There are no words, or the model runs into a dead end or in circles.
        """
        if not words:
            raise ParseError("A sentence without words has no tree.")
        tree = self._derive(words)
        if tree is None:
            shown = " ".join(word for word, _ in words)[:80]
            raise ParseError(f"The constituency model finds no tree for '{shown}'.")
        return tree

    def parse_many(self, sentences: Sequence[Words]) -> list[Tree | None]:
        """The trees of sentences, in order; None where `parse` raises."""
        return [self._derive(words) if words else None for words in sentences]

    def _derive(self, words: Words) -> Tree | None:
        model, pair = self.model, self._pair
        split, gate_split = pair.split, 4 * pair.split
        vectors, shares, word_gates = self._read(words)
        state = ParserState(words, model.roots, model.unary_limit)
        # Of each item its vector, and of the stack's LSTM below it the cell and what its hidden
        # state gives to the gates.
        items: list[tuple[Float32, Float32, Float32]] = []
        hidden, cell = pair.hidden, pair.cell
        # Nothing else can come first.
        move = self._shift
        # Less one, for the end of the root.
        for _ in range((len(words) + 2) * self.steps_a_word - 1):
            transition = model.transitions[move]
            word = state.position
            joined = state.apply(transition)
            gates = self._move_gates[move].copy()
            gates[:gate_split] += np.dot(hidden[:split], pair.first.recurrent)
            own = gates[gate_split:]
            if transition.kind == "close":
                # The mark stands between the first child and the others.
                first = len(items) - joined - 1
                vector, below, product = items[first]
                for other, _, _ in items[first + 2 :]:
                    vector = np.maximum(vector, other)
                del items[first:]
                weights, bias = model.compose
                vector = self._nonlinear(np.dot(vector, weights) + bias)
                own += _times(vector, pair.second.inputs)
                cell = np.concatenate((cell[:split], below))
            else:
                below = cell[split:]
                product = np.dot(hidden[split:], pair.second.recurrent)
                if transition.kind == "shift":
                    vector = vectors[word]
                    own += word_gates[word]
                elif transition.labels[0] in model.roots:
                    # Nothing but its end can follow.
                    state.apply(CLOSE)
                    return state.tree
                else:
                    vector = self._marks[move]
            own += product
            items.append((vector, below, product))
            hidden, cell = pair.advance(gates, cell)
            move = self._choose(state, hidden, shares[state.position])
            if move < 0:
                return None
        return None

    def _choose(self, state: ParserState, hidden: Float32, share: Float32) -> int:
        """The best legal transition; -1 in a dead end."""
        scores = np.dot(self._nonlinear(hidden), self._state_part)
        scores += share
        for weights, bias in self.model.output[1:]:
            scores = np.dot(self._nonlinear(scores), weights)
            scores += bias
        return best_move(state, self.model.transitions, scores, int(scores.argmax()))

    def _read(self, words: Words) -> tuple[Float32, Float32, Float32]:
        """What depends on the words alone.

        Returns:
            (n + 1, h) vectors of the words and the boundary after them, what each gives to the
            first output layer, and what the words give to the gates.
        """
        weights, bias = self.model.to_constituent
        vectors = self._nonlinear(self._reader.read(self._inputs(words)) @ weights + bias)
        shares = self._nonlinear(vectors) @ self._word_part + self._first_bias
        return vectors, shares, vectors[:-1] @ self._pair.second.inputs

    def _inputs(self, words: Words) -> Float32:
        model = self.model
        return np.concatenate(
            [
                model.vectors[[self._vector_row(word) for word, _ in words]],
                model.deltas[[model.delta_rows.get(word, UNKNOWN) for word, _ in words]],
                model.tags[[model.tag_rows.get(tag, UNKNOWN) for _, tag in words]],
            ],
            axis=1,
        )

    def _vector_row(self, word: str) -> int:
        rows = self.model.vector_rows
        unit = word.replace(" ", "\xa0")
        row = rows.get(unit.lower() if self.model.lower else unit, UNKNOWN)
        return row if row != UNKNOWN else rows.get(unit.lower(), UNKNOWN)


class Reader:
    """An LSTM in both directions over whole sentences."""

    def __init__(self, forward: Lstm, backward: Lstm, boundaries: Float32) -> None:
        """Prepare the weights; `boundaries` are the inputs before and after each sentence."""
        before, after = boundaries
        self._pair = pair = Pair((forward, backward), (before, after))
        self._inputs = np.concatenate([pair.first.inputs, pair.second.inputs], axis=1)
        self._bias = np.concatenate([pair.first.bias, pair.second.bias])
        self._end = after @ pair.first.inputs + pair.first.bias

    def read(self, inputs: Float32) -> Float32:
        """(n + 1, 2 h) states of (n, x) inputs and the boundary after them.

        The states from left to right stand beside those from right to left.
        """
        pair, length, size = self._pair, len(inputs), self._pair.split
        ahead, back = slice(4 * size), slice(4 * size, None)
        # Each step reads one input from the left and one from the right, the last only the
        # boundary from the left.
        gates = np.zeros((length + 1, 8 * size), np.float32)
        gates[:length] = inputs @ self._inputs + self._bias
        gates[:length, back] = gates[length - 1 :: -1, back].copy()
        gates[length, ahead] = self._end
        states = np.empty((length + 1, 2 * size), np.float32)
        hidden, cell = pair.hidden, pair.cell
        for place, now in enumerate(gates):
            now[ahead] += np.dot(hidden[:size], pair.first.recurrent)
            now[back] += np.dot(hidden[size:], pair.second.recurrent)
            hidden, cell = pair.advance(now, cell)
            states[place] = hidden
        states[:length, size:] = states[length - 1 :: -1, size:].copy()
        states[length, size:] = pair.hidden[size:]
        return states


class Gates:
    """One LSTM's weights, with the four gates of each unit side by side.

    Attributes:
        size: h.
        inputs: (x, 4 h).
        recurrent: (h, 4 h).
        bias: (4 h,).
    """

    def __init__(self, lstm: Lstm) -> None:
        # The sigmoid of x is (1 + tanh(x / 2)) / 2: with the three sigmoid gates at half their
        # argument, one tanh serves all four.
        self.size = lstm.recurrent.shape[0]
        order = np.arange(4 * self.size).reshape(4, -1).T.ravel()
        half = np.tile(_SCALE, self.size)
        self.inputs = np.ascontiguousarray(lstm.inputs[:, order] * half)
        self.recurrent = np.ascontiguousarray(lstm.recurrent[:, order] * half)
        self.bias = lstm.bias[order] * half


class Pair:
    """Two LSTMs that advance together, the state of one beside that of the other.

    Attributes:
        hidden: State of both after a first input each, (h,); `cell` likewise.
        split: Where the second one's state begins; its gates begin at four times that.
    """

    def __init__(self, lstms: tuple[Lstm, Lstm], starts: tuple[Float32, Float32]) -> None:
        """Prepare the weights; `starts` are the first inputs, (x,) each."""
        self.first, self.second = both = Gates(lstms[0]), Gates(lstms[1])
        self.split = self.first.size
        units = self.first.size + self.second.size
        self._scale, self._shift = np.tile(_SCALE, units), np.tile(_SHIFT, units)
        gates = [start @ one.inputs + one.bias for one, start in zip(both, starts, strict=True)]
        self.hidden, self.cell = self.advance(np.concatenate(gates), np.zeros(units, np.float32))

    def advance(self, gates: Float32, cell: Float32) -> tuple[Float32, Float32]:
        """Hidden state and cell after one more input, (h,) each.

        Args:
            gates: Of both, (4 h,); overwritten.
            cell: Of both, (h,).
        """
        np.tanh(gates, out=gates)
        gates *= self._scale
        gates += self._shift
        enter, forget, leave, new = gates.reshape(-1, 4).T
        cell = forget * cell
        cell += enter * new
        return leave * np.tanh(cell), cell


def _times(vector: Float32, matrix: Float32) -> Float32:
    """The product of an (x,) vector with many zeros and an (x, y) matrix."""
    (rows,) = vector.nonzero()
    product: Float32 = np.dot(vector[rows], matrix.take(rows, axis=0))
    return product


def _relu(values: Float32) -> Float32:
    return np.maximum(values, _ZERO)


# Input, forget and output gate are sigmoids, the cell's a tanh.
_SCALE, _SHIFT = np.array([[0.5, 0.5, 0.5, 1], [0.5, 0.5, 0.5, 0]], np.float32)
# As an array: numpy makes one of a number each time.
_ZERO = np.zeros((), np.float32)
_NONLINEAR: dict[str, Callable[[Float32], Float32]] = {"relu": _relu, "tanh": np.tanh}
