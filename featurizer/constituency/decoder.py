"""LSTMs that advance for several sentences at once, and for each as if it were alone.

BLAS sums the products of a row in another order when the row is one of several. A close decision
of a parser could then fall differently in a batch, so rows are multiplied one by one (`times`);
what a batch saves is everything around that.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from featurizer.constituency.stanza_checkpoint import UNKNOWN, Checkpoint, Lstm
from featurizer.constituency.transitions import State, best_move
from featurizer.constituency.tree import Tree
from featurizer.errors import ParseError
from featurizer.types import Float32

LstmState = tuple[Float32, Float32]
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

    def start(self, value: Float32) -> LstmState:
        """State after the first input."""
        zeros = np.zeros(self._recurrent.shape[0], np.float32)
        return self.step(self.inputs(value), (zeros, zeros))

    def step(self, gates: Float32, before: LstmState) -> LstmState:
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


def advance(gates: Float32, cell: Float32) -> LstmState:
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


# Several sentences on their way to trees, side by side.
#
# What a transition costs beside its arithmetic is shared by all sentences that take one. Each ends
# with the tree that it gets alone: see `lstm.times`.


class Lockstep:
    """One transition of each sentence at a time.

    Each sentence has a stack in arrays of (sentence, place): what the item looks like, and the
    LSTM's state after it. Place 0 is the state before any item.
    """

    def __init__(self, decoder: "Decoder", sentences: "Sequence[Words]") -> None:
        """Nothing read yet.

        Args:
            decoder: Whose weights are used.
            sentences: At least one; none empty, and none longer than the one before it.
        """
        self._decoder = decoder
        model = decoder.model
        self._states = [State(words, model.roots, model.unary_limit) for words in sentences]
        self._limits = [(len(words) + 2) * decoder.steps_a_word for words in sentences]
        words, scores, gates = zip(*decoder.read(sentences), strict=True)
        self._words, self._word_scores = _padded(words), _padded(scores)
        self._word_gates = _padded(gates)
        # At most all words and, beyond the transition system's limit on them, all open phrases.
        shape = (len(sentences), 2 * len(sentences[0]) + 13, self._words.shape[2])
        self._vectors, self._hidden, self._cell = (np.empty(shape, np.float32) for _ in range(3))
        self._hidden[:, 0], self._cell[:, 0] = decoder.first_stack
        self._tops = [0] * len(sentences)
        self._trees: list[Tree | None] = [None] * len(sentences)

    def trees(self) -> list[Tree | None]:
        """The trees, in order; None where there is a dead end, or no end."""
        live = list(range(len(self._states)))
        hidden, cell = self._decoder.first_history
        history = np.tile(hidden, (len(live), 1)), np.tile(cell, (len(live), 1))
        step = 0
        while live:
            moves = self._choose(live, history[0])
            going = self._apply(live, moves, step := step + 1)
            live = [live[place] for place in going]
            taken = [moves[place] for place in going]
            before = history[0][going], history[1][going]
            history = self._decoder.history.step(self._decoder.move_gates[taken], before)
        return self._trees

    def _choose(self, live: list[int], history: Float32) -> list[int]:
        """The best legal transition of each sentence; -1 in a dead end."""
        tops = [self._tops[row] for row in live]
        words = [self._states[row].position + 1 for row in live]
        # Position p is row p + 1: row 0 belongs to the boundary before the first word.
        scores = self._decoder.scores(
            np.concatenate((history, self._hidden[live, tops]), axis=1),
            self._word_scores[live, words],
        )
        transitions, best = self._decoder.model.transitions, scores.argmax(axis=1).tolist()
        return [
            best_move(self._states[row], transitions, scores[place], best[place])
            for place, row in enumerate(live)
        ]

    def _apply(self, live: list[int], moves: list[int], step: int) -> list[int]:
        """Take the transitions; places in `live` of the sentences that go on."""
        model = self._decoder.model
        going: list[int] = []
        closing: list[int] = []
        largest: list[Float32] = []
        vectors = np.empty((len(live), self._words.shape[2]), np.float32)
        gates = np.empty((len(live), self._word_gates.shape[2]), np.float32)
        for place, (row, move) in enumerate(zip(live, moves, strict=True)):
            if move < 0 or step > self._limits[row]:
                continue
            state, transition = self._states[row], model.transitions[move]
            word = state.position + 1
            joined = state.apply(transition)
            if transition.kind == "shift":
                vectors[place], gates[place] = self._words[row, word], self._word_gates[row, word]
            elif transition.kind == "open":
                number = model.open_rows[transition.labels]
                vectors[place] = model.opens[number]
                gates[place] = self._decoder.open_gates[number]
            else:
                if (tree := state.tree) is not None:
                    self._trees[row] = tree
                    continue
                largest.append(self._pop(row, joined))
                closing.append(place)
            going.append(place)
        if closing:
            made = self._decoder.compose(np.stack(largest))
            vectors[closing], gates[closing] = made, self._decoder.stack.inputs(made)
        self._push([live[place] for place in going], vectors[going], gates[going])
        return going

    def _pop(self, row: int, number: int) -> Float32:
        """Take children and the mark of their opening off; the maximum of the children."""
        top = self._tops[row]
        first = top - number
        self._tops[row] = first - 1
        vectors = self._vectors[row]
        # The mark stands between the first child and the others.
        children = [vectors[first], *vectors[first + 2 : top + 1]]
        largest: Float32 = children[0] if number == 1 else np.maximum.reduce(children)
        return largest

    def _push(self, rows: list[int], vectors: Float32, gates: Float32) -> None:
        tops = [self._tops[row] for row in rows]
        before = self._hidden[rows, tops], self._cell[rows, tops]
        hidden, cell = self._decoder.stack.step(gates, before)
        new = [top + 1 for top in tops]
        self._vectors[rows, new] = vectors
        self._hidden[rows, new] = hidden
        self._cell[rows, new] = cell
        for row, top in zip(rows, new, strict=True):
            self._tops[row] = top


def _padded(rows: Sequence[Float32]) -> Float32:
    """Arrays of one width on top of each other; the first is the longest."""
    padded = np.zeros((len(rows), *rows[0].shape), np.float32)
    for place, row in enumerate(rows):
        padded[place, : len(row)] = row
    return padded


# Constituency trees from tagged words, in numpy.
#
# The arithmetic of Stanza's in-order LSTM parser. Whatever depends on a word or a transition
# alone is computed once; a transition then costs a few matrix-vector products. Trees are those of
# Stanza's own `parse_tagged_words`.


# Fewer sentences are faster one after the other; more gain nothing, and would not fit the cache.
LEAST_ABREAST, MOST_ABREAST = 3, 32

Words = Sequence[tuple[str, str]]


class Decoder:
    """A constituency model ready to parse; safe to share between threads."""

    # Stanza gives up after so many transitions for each word or sentence boundary.
    steps_a_word = 20

    def __init__(self, checkpoint: Checkpoint) -> None:
        """Prepare the weights.

        Args:
            checkpoint: As read by `read_checkpoint`.
        """
        self.model = checkpoint
        self.nonlinear = _NONLINEAR[checkpoint.nonlinearity]
        self._reader = Reader(checkpoint.forward, checkpoint.backward)
        self.history = Stepper(checkpoint.transition_lstm)
        self.stack = Stepper(checkpoint.constituent_lstm)
        self.move_gates = self.history.inputs(checkpoint.transition_vectors)
        self.open_gates = self.stack.inputs(checkpoint.opens)
        self.first_history = self.history.start(checkpoint.transition_start)
        self.first_stack = self.stack.start(checkpoint.constituent_start)
        weights, self._first_bias = checkpoint.output[0]
        hidden = checkpoint.constituent_lstm.recurrent.shape[0]
        self._word_part = np.ascontiguousarray(weights[:hidden])
        self._state_part = np.ascontiguousarray(weights[hidden:])

    @property
    def digest(self) -> str:
        """Identity of the model: the hash of its files."""
        return self.model.digest

    def parse(self, words: Words) -> Tree:
        """The tree of one sentence.

        Args:
            words: (word, tag) pairs, at least one.

        Raises:
            ParseError: There are no words, or the model runs into a dead end or in circles.
        """
        if not words:
            raise ParseError("A sentence without words has no tree.")
        tree = self._parse(words)
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
            words = [sentences[row] for row in chosen]
            alone = len(chosen) < LEAST_ABREAST
            trees = list(map(self._parse, words)) if alone else Lockstep(self, words).trees()
            for row, tree in zip(chosen, trees, strict=True):
                found[row] = tree
        return found

    def read(self, sentences: Sequence[Words]) -> list[tuple[Float32, Float32, Float32]]:
        """What depends on the words alone.

        Args:
            sentences: None longer than the one before it.

        Returns:
            For each, of its n words and both boundaries: (n + 2, h) vectors, (n + 2, x) shares in
            the first output layer, and (n + 2, 4 h) gates of the stack's LSTM.
        """
        weights, bias = self.model.to_constituent
        found = []
        for both in self._reader.read([self._inputs(words) for words in sentences]):
            vectors = self.nonlinear(both @ weights + bias)
            shares = self.nonlinear(vectors) @ self._word_part + self._first_bias
            found.append((vectors, shares, vectors @ self.stack.weights + self.stack.bias))
        return found

    def scores(self, visible: Float32, shares: Float32) -> Float32:
        """(…, transitions) scores.

        Args:
            visible: (…, y) states of transitions and stack side by side.
            shares: (…, x) of the word that each sentence has come to.
        """
        values = times(self.nonlinear(visible), self._state_part) + shares
        for weights, bias in self.model.output[1:]:
            values = times(self.nonlinear(values), weights) + bias
        return values

    def compose(self, largest: Float32) -> Float32:
        """(…, h) vectors of phrases, of the (…, h) maxima of their children's."""
        weights, bias = self.model.compose
        return self.nonlinear(times(largest, weights) + bias)

    def _parse(self, words: Words) -> Tree | None:
        """One sentence; what `Lockstep` does for several, without what that costs for one."""
        model = self.model
        ((encoded, shares, word_gates),) = self.read([words])
        state = State(words, model.roots, model.unary_limit)
        # Beside the state's stack: what each tree looks like, and the LSTM's state after it.
        vectors: list[Float32] = []
        stack = [self.first_stack]
        history = self.first_history
        for _ in range((len(words) + 2) * self.steps_a_word):
            # Position p is row p + 1: row 0 belongs to the boundary before the first word.
            row = state.position + 1
            scores = self.scores(np.concatenate((history[0], stack[-1][0])), shares[row])
            best = best_move(state, model.transitions, scores, int(scores.argmax()))
            if best < 0:
                return None
            transition = model.transitions[best]
            joined = state.apply(transition)
            if transition.kind == "shift":
                vector, gates = encoded[row], word_gates[row]
            elif transition.kind == "open":
                number = model.open_rows[transition.labels]
                vector, gates = model.opens[number], self.open_gates[number]
            else:
                if (tree := state.tree) is not None:
                    return tree
                # The mark stands between the first child and the others.
                children = [vectors[-joined - 1], *vectors[len(vectors) - joined + 1 :]]
                del vectors[-joined - 1 :], stack[-joined - 1 :]
                vector = self.compose(np.maximum.reduce(children) if joined > 1 else children[0])
                gates = self.stack.inputs(vector)
            vectors.append(vector)
            stack.append(self.stack.step(gates, stack[-1]))
            history = self.history.step(self.move_gates[best], history)
        return None

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


def _relu(values: Float32) -> Float32:
    return np.maximum(values, np.float32(0))


def _tanh(values: Float32) -> Float32:
    result: NDArray[np.float32] = np.tanh(values)
    return result


_NONLINEAR: dict[str, Callable[[Float32], Float32]] = {"relu": _relu, "tanh": _tanh}
