"""Constituency trees from tagged words: Stanza's in-order LSTM parser, in numpy.

The trees are those of Stanza's own `parse_tagged_words`. What depends on a word or a transition
alone is computed once. Sentences advance side by side, one transition each at a time, and share
what a transition costs beside its arithmetic.

Each sentence gets the tree that it gets alone. BLAS sums the products of a row in another order
when the row is one of several, and a close decision could then fall differently in a batch, so
rows are multiplied one by one (`times`).
"""

from collections.abc import Callable, Sequence

import numpy as np

from featurizer.constituency.stanza_checkpoint import UNKNOWN, Checkpoint, Lstm
from featurizer.constituency.transitions import ParserState, best_move
from featurizer.constituency.tree import Tree
from featurizer.errors import ParseError
from featurizer.types import Float32

Words = Sequence[tuple[str, str]]
LstmState = tuple[Float32, Float32]
"""Hidden and cell, (b, h) each."""

# More sentences side by side gain nothing, and would not fit the cache.
MOST_ABREAST = 32


class Decoder:
    """A constituency model ready to parse; safe to share between threads."""

    # Stanza gives up after so many transitions for each word or sentence boundary.
    steps_a_word = 20

    def __init__(self, checkpoint: Checkpoint) -> None:
        """Prepare the weights."""
        self.model = checkpoint
        self.digest = checkpoint.digest
        self._nonlinear = _NONLINEAR[checkpoint.nonlinearity]
        self._reader = Reader(checkpoint.forward, checkpoint.backward)
        self._history = Stepper(checkpoint.transition_lstm)
        self._stack = Stepper(checkpoint.constituent_lstm)
        self._move_gates = self._history.inputs(checkpoint.transition_vectors)
        self.open_gates = self._stack.inputs(checkpoint.opens)
        self._first_history = self._history.start(checkpoint.transition_start)
        self.first_stack = self._stack.start(checkpoint.constituent_start)
        weights, self._first_bias = checkpoint.output[0]
        hidden = checkpoint.constituent_lstm.recurrent.shape[0]
        self._word_part = np.ascontiguousarray(weights[:hidden])
        self._state_part = np.ascontiguousarray(weights[hidden:])

    def parse(self, words: Words) -> Tree:
        """The tree of one sentence of (word, tag) pairs.

        Raises:
            ParseError: There are no words, or the model runs into a dead end or in circles.
        """
        if not words:
            raise ParseError("A sentence without words has no tree.")
        (tree,) = self._parse([words])
        if tree is None:
            shown = " ".join(word for word, _ in words)[:80]
            raise ParseError(f"The constituency model finds no tree for '{shown}'.")
        return tree

    def parse_many(self, sentences: Sequence[Words]) -> list[Tree | None]:
        """The trees of sentences, in order; None where `parse` raises."""
        found: list[Tree | None] = [None] * len(sentences)
        rows = [row for row, words in enumerate(sentences) if words]
        rows.sort(key=lambda row: -len(sentences[row]))
        for start in range(0, len(rows), MOST_ABREAST):
            chosen = rows[start : start + MOST_ABREAST]
            trees = self._parse([sentences[row] for row in chosen])
            for row, tree in zip(chosen, trees, strict=True):
                found[row] = tree
        return found

    def _parse(self, sentences: Sequence[Words]) -> list[Tree | None]:
        """Trees of sentences with words, none longer than the one before it."""
        derivations = self._begin(sentences)
        live = derivations
        hidden, cell = self._first_history
        history = np.repeat(hidden, len(live), 0), np.repeat(cell, len(live), 0)
        while live:
            moves = self._choose(live, history[0])
            going = [
                place
                for place, (derivation, move) in enumerate(zip(live, moves, strict=True))
                if derivation.take(move)
            ]
            if len(going) < len(live):
                live, moves = [live[place] for place in going], [moves[place] for place in going]
                history = history[0][going], history[1][going]
            if live:
                self._push(live)
                gates = _rows([_row(self._move_gates, move) for move in moves])
                history = self._history.step(gates, history)
        return [derivation.tree for derivation in derivations]

    def _begin(self, sentences: Sequence[Words]) -> list["_Derivation"]:
        """Derivations with all that depends on the words alone, boundaries included."""
        weights, bias = self.model.to_constituent
        begun = []
        read = self._reader.read([self._inputs(words) for words in sentences])
        for words, states in zip(sentences, read, strict=True):
            vectors = self._nonlinear(states @ weights + bias)
            shares = self._nonlinear(vectors) @ self._word_part + self._first_bias
            gates = vectors @ self._stack.weights + self._stack.bias
            begun.append(_Derivation(self, words, vectors, shares, gates))
        return begun

    def _choose(self, live: Sequence["_Derivation"], history: Float32) -> list[int]:
        """The best legal transition of each sentence; -1 in a dead end."""
        visible = np.concatenate((history, _rows([d.hidden[-1] for d in live])), axis=1)
        shares = _rows([_row(d.shares, d.next_word) for d in live])
        scores = times(self._nonlinear(visible), self._state_part) + shares
        for weights, bias in self.model.output[1:]:
            scores = times(self._nonlinear(scores), weights) + bias
        best = scores.argmax(axis=1).tolist()
        return [
            best_move(d.state, self.model.transitions, scores[place], best[place])
            for place, d in enumerate(live)
        ]

    def _push(self, live: Sequence["_Derivation"]) -> None:
        """Advance the stacks' LSTM over what each sentence has just put on its stack."""
        closed = [d for d in live if d.largest is not None]
        if closed:
            weights, bias = self.model.compose
            largest = _rows([d.largest for d in closed if d.largest is not None])
            vectors = self._nonlinear(times(largest, weights) + bias)
            gates = self._stack.inputs(vectors)
            for place, d in enumerate(closed):
                d.put(_row(vectors, place), _row(gates, place))
        before = _rows([d.hidden[-1] for d in live]), _rows([d.cell[-1] for d in live])
        hidden, cell = self._stack.step(_rows([d.gates for d in live]), before)
        for place, d in enumerate(live):
            d.hidden.append(_row(hidden, place))
            d.cell.append(_row(cell, place))

    def _inputs(self, words: Words) -> Float32:
        model = self.model
        inputs = np.concatenate(
            [
                model.vectors[[self._vector_row(word) for word, _ in words]],
                model.deltas[[model.delta_rows.get(word, UNKNOWN) for word, _ in words]],
                model.tags[[model.tag_rows.get(tag, UNKNOWN) for _, tag in words]],
            ],
            axis=1,
        )
        return np.concatenate([model.boundaries[:1], inputs, model.boundaries[1:]])

    def _vector_row(self, word: str) -> int:
        rows = self.model.vector_rows
        unit = word.replace(" ", "\xa0")
        row = rows.get(unit.lower() if self.model.lower else unit, UNKNOWN)
        return row if row != UNKNOWN else rows.get(unit.lower(), UNKNOWN)


class _Derivation:
    """One sentence on its way to a tree.

    Its rows are (1, ·) each, so that those of several sentences can stand on top of each other.

    Attributes:
        shares: (n + 2, x) of the words and both boundaries in the first output layer.
        hidden: The stack's LSTM, hidden, after each item; the first is before any.
        cell: The same LSTM's cells.
        gates: What the newest item decides of its next gates, (1, 4 h).
        largest: Maximum of the children that were just closed; their phrase is still to be `put`.
    """

    def __init__(
        self, decoder: Decoder, words: Words, vectors: Float32, shares: Float32, gates: Float32
    ) -> None:
        model = decoder.model
        self.tree: Tree | None = None
        self.state = ParserState(words, model.roots, model.unary_limit)
        self.shares = shares
        self.hidden, self.cell = ([row] for row in decoder.first_stack)
        self.gates: Float32
        self.largest: Float32 | None = None
        self._decoder = decoder
        self._words, self._word_gates = vectors, gates
        self._items: list[Float32] = []
        self._steps = (len(words) + 2) * decoder.steps_a_word

    @property
    def next_word(self) -> int:
        """Row of the word that comes next; row 0 is the boundary before the first."""
        return self.state.position + 1

    def take(self, move: int) -> bool:
        """Apply a transition; whether the sentence goes on."""
        if move < 0 or self._steps == 0:
            return False
        self._steps -= 1
        decoder, word = self._decoder, self.next_word
        transition = decoder.model.transitions[move]
        joined = self.state.apply(transition)
        if transition.kind == "shift":
            self.put(_row(self._words, word), _row(self._word_gates, word))
        elif transition.kind == "open":
            number = decoder.model.open_rows[transition.labels]
            self.put(_row(decoder.model.opens, number), _row(decoder.open_gates, number))
        else:
            self.tree = self.state.tree
            if self.tree is not None:
                return False
            # The mark stands between the first child and the others.
            first = len(self._items) - joined - 1
            children = [self._items[first], *self._items[first + 2 :]]
            del self._items[first:], self.hidden[first + 1 :], self.cell[first + 1 :]
            self.largest = np.maximum.reduce(children) if joined > 1 else children[0]
        return True

    def put(self, vector: Float32, gates: Float32) -> None:
        """Put an item on the stack."""
        self._items.append(vector)
        self.gates = gates
        self.largest = None


class Reader:
    """An LSTM in both directions over whole sentences."""

    def __init__(self, forward: Lstm, backward: Lstm) -> None:
        self._forward, self._backward = Stepper(forward), Stepper(backward)

    def read(self, sentences: Sequence[Float32]) -> list[Float32]:
        """(n, 2 h) states of each sentence, of (n, x) inputs; none is longer than the one before.

        The states from left to right stand beside those from right to left.
        """
        # One direction after the other: the weights of one fit the cache, those of both may not.
        ahead = _read(self._forward, sentences)
        back = _read(self._backward, [inputs[::-1] for inputs in sentences])
        return [
            np.concatenate([one, other[::-1]], axis=1)
            for one, other in zip(ahead, back, strict=True)
        ]


def _read(stepper: "Stepper", sentences: Sequence[Float32]) -> list[Float32]:
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


class Stepper:
    """One LSTM that advances by one input at a time, for b sentences side by side.

    Its `weights` of the inputs are (x, 4 h), its `bias` (4 h,).
    """

    def __init__(self, lstm: Lstm) -> None:
        # The sigmoid of x is (1 + tanh(x / 2)) / 2: with the three sigmoid gates computed at half
        # their argument, one tanh serves all four.
        size = lstm.recurrent.shape[0]
        scale = np.repeat(np.array([0.5, 1], np.float32), [3 * size, size])
        self.weights, self.bias = lstm.inputs * scale, lstm.bias * scale
        self._recurrent = lstm.recurrent * scale

    def inputs(self, values: Float32) -> Float32:
        """(b, 4 h) gates as far as the (b, x) inputs decide them."""
        return times(values, self.weights) + self.bias

    def start(self, value: Float32) -> LstmState:
        """(1, h) state after the first input, (x,)."""
        zeros = np.zeros((1, self._recurrent.shape[0]), np.float32)
        return self.step(self.inputs(value[None]), (zeros, zeros))

    def step(self, gates: Float32, before: LstmState) -> LstmState:
        """State after one more input, given the `inputs` of it."""
        hidden, cell = before
        size = cell.shape[1]
        # Input, forget, output and cell side by side.
        gates = times(hidden, self._recurrent) + gates
        np.tanh(gates, out=gates)
        open_gates = gates[:, : 3 * size]
        open_gates += 1
        open_gates *= 0.5
        new = gates[:, size : 2 * size] * cell
        new += gates[:, :size] * gates[:, 3 * size :]
        return gates[:, 2 * size : 3 * size] * np.tanh(new), new


def times(rows: Float32, matrix: Float32) -> Float32:
    """(b, y) products of (b, x) rows, each as if it were alone, and an (x, y) matrix."""
    if len(rows) == 1:
        return rows @ matrix
    product: Float32 = np.matmul(rows[:, None, :], matrix)[:, 0]
    return product


def _row(matrix: Float32, place: int) -> Float32:
    return matrix[place : place + 1]


def _rows(rows: list[Float32]) -> Float32:
    """(1, x) rows on top of each other."""
    return rows[0] if len(rows) == 1 else np.concatenate(rows)


def _relu(values: Float32) -> Float32:
    return np.maximum(values, np.float32(0))


_NONLINEAR: dict[str, Callable[[Float32], Float32]] = {"relu": _relu, "tanh": np.tanh}
