"""Constituency trees from tagged words, in numpy.

The arithmetic of Stanza's in-order LSTM parser. Whatever depends on a word or a transition alone is
computed once; a transition then costs a few matrix-vector products. Trees are those of Stanza's own
`parse_tagged_words`.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from featurizer.checkpoint import UNKNOWN, Checkpoint
from featurizer.errors import ParseError
from featurizer.lockstep import Lockstep
from featurizer.lstm import Reader, Stepper, times
from featurizer.transitions import State, best_move
from featurizer.tree import Tree
from featurizer.types import Float32

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
