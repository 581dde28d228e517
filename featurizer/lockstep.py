"""Several sentences on their way to trees, side by side.

What a transition costs beside its arithmetic is shared by all sentences that take one. Each ends
with the tree that it gets alone: see `lstm.times`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from featurizer.transitions import State, best_move
from featurizer.tree import Tree
from featurizer.types import Float32

if TYPE_CHECKING:
    from featurizer.decoder import Decoder, Words


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
