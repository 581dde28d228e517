"""spaCy's decisions from word vectors, for many words or documents at once.

- Tags: `Tags` takes the best one of each word.
- Names: at each word spaCy takes the GIL for each of the 36 moves that may begin a name. `Names`
  scores all words at once, and goes from word to word only within names.
- Heads: spaCy parses one document, or four, at a time, and takes the GIL at each move.
  `Dependencies` parses all given documents in parallel.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wye.featurizer.spacy.layers import (
    TILE,
    LinearLayer,
    in_tiles,
    linear,
    parts,
    tiles,
    weights_of,
)
from wye.featurizer.threads import OneThread
from wye.featurizer.types import Float32

if TYPE_CHECKING:
    from spacy.tokens import Doc


# Tokens of the documents that are processed at once; each takes 4 kB meanwhile.
SIDE_BY_SIDE = 2_048


class Faster(ABC):
    """Replaces a pipeline component, which still handles documents with existing annotations."""

    def __init__(self, component: Any, marks: str) -> None:  # noqa: ANN401 - spaCy names no type
        """Replace a component that sets the attribute `marks` of tokens."""
        self._component, self._marks = component, marks
        self._one_thread = OneThread()

    def pipe(self, docs: Iterable["Doc"], batch_size: int) -> Iterator["Doc"]:
        """Annotate documents, in order."""
        rest = iter(docs)
        while batch := [*islice(rest, batch_size)]:
            words = [doc for doc in batch if len(doc)]
            if any(doc.has_annotation(self._marks) for doc in words):
                # Existing annotations restrict the moves, and the model may depend on them.
                yield from self._component.pipe(batch, batch_size=batch_size)
                continue
            for part in parts(words, SIDE_BY_SIDE):
                with self._one_thread():
                    self._mark(part)
            yield from batch

    def __call__(self, doc: "Doc") -> "Doc":
        """Annotate one document."""
        return next(self.pipe([doc], 1))

    @abstractmethod
    def _mark(self, docs: Sequence["Doc"]) -> None:
        """Annotate documents that have words."""


class Tags(Faster):
    """Replaces a `Tagger`."""

    @staticmethod
    def fits(tagger: Any) -> bool:  # noqa: ANN401
        """Whether a tagger is one layer over the pipeline's vectors."""
        return hasattr(tagger, "labels") and LinearLayer.fits(tagger.model)

    def __init__(self, tagger: Any) -> None:  # noqa: ANN401
        super().__init__(tagger, "TAG")
        self._scores = LinearLayer(tagger.model)
        self._tags = np.array([tagger.vocab.strings[label] for label in tagger.labels], np.uint64)

    def _mark(self, docs: Sequence["Doc"]) -> None:
        tags: Any = self._tags[self._scores(docs).argmax(axis=1)]
        end = 0
        for doc in docs:
            begin, end = end, end + len(doc)
            doc.from_array(["TAG"], tags[begin:end])


class Names(Faster):
    """Replaces a greedy `EntityRecognizer`, whose moves begin, continue, end, make or skip a name.

    The property test compares it with `spacy.pipeline._parser_internals.ner`.
    """

    @staticmethod
    def fits(recogniser: Any) -> bool:  # noqa: ANN401 - spaCy says nothing of its kind
        """Whether moves depend on three words: the next, the name's first, and the previous."""
        if not _is_greedy(recogniser):
            return False
        lower = recogniser.model.get_ref("lower")
        return (lower.get_dim("nF"), lower.get_dim("nP")) == (3, 2)

    def __init__(self, recogniser: Any) -> None:  # noqa: ANN401
        super().__init__(recogniser, "ENT_IOB")
        model = recogniser.model
        lower, upper = model.get_ref("lower"), model.get_ref("upper")
        self._vectors = linear(model.get_ref("tok2vec"))
        weight = weights_of(lower, "W").transpose(3, 0, 2, 1)  # (inputs, places, pieces, hidden)
        self._shape = weight.shape[1:]
        self._lower = np.ascontiguousarray(weight.reshape(len(weight), -1))
        self._bias = weights_of(lower, "b").T
        # If no name is open, only the next word counts, and the other two are padding.
        self._outside = self._bias + weights_of(lower, "pad")[0, 1:].sum(axis=0).T
        self._upper, self._shift = weights_of(upper, "W"), weights_of(upper, "b")
        moves = [recogniser.moves.get_class_name(row) for row in range(len(self._upper))]
        kinds = np.array([move[0] for move in moves])
        self._begin, self._unit, self._skip = kinds == "B", kinds == "U", kinds == "O"
        # "U-" is only for existing annotations.
        self._closed = np.isin(kinds, ("I", "L")) | (np.array(moves) == "U-")
        self._labels = [move[2:] for move in moves]
        rows = {
            label: [moves.index(f"I-{label}"), moves.index(f"L-{label}")]
            for label in {move[2:] for move in moves if move[0] == "B"}
        }
        self._open = {label: (self._upper[row], self._shift[row]) for label, row in rows.items()}

    def _mark(self, docs: Sequence["Doc"]) -> None:
        places = in_tiles(self._vectors(docs), self._lower).reshape(-1, *self._shape)
        hidden = (places[:, 0] + self._outside).max(axis=1)
        scores = in_tiles(hidden, self._upper.T) + self._shift
        marks = np.concatenate([doc.to_array(["SENT_START", "IS_SPACE"]) for doc in docs]) == 1
        ends = np.cumsum([len(doc) for doc in docs])
        # Names stay within their sentence, and do not begin with whitespace.
        last = np.append(marks[1:, 0], True)
        last[ends - 1] = True
        space = marks[:, 1]
        scores[:, self._closed] = -np.inf
        scores[np.ix_(last | space, self._begin)] = -np.inf
        scores[np.ix_(space, self._unit)] = -np.inf
        moves = scores.argmax(axis=1)
        named = np.flatnonzero(~self._skip[moves])
        begin = 0
        for doc, end in zip(docs, ends.tolist(), strict=True):
            words = named[slice(*np.searchsorted(named, (begin, end)))].tolist()
            from spacy.tokens import Span  # noqa: PLC0415 - as in `load_pipeline`

            spans = self._names(words, moves, places, last)
            doc.set_ents([Span(doc, a - begin, b - begin, label=name) for a, b, name in spans])
            begin = end

    def _names(
        self,
        words: Sequence[int],
        moves: NDArray[np.int64],
        places: Float32,
        last: NDArray[np.bool],
    ) -> Iterator[tuple[int, int, str]]:
        """Start, end and label of the names in a document, given the words where they may begin."""
        done = 0
        for first in words:
            if first < done:
                continue
            move = int(moves[first])
            label, done = self._labels[move], first + 1
            if self._begin[move]:
                while not last[done] and self._goes_on(label, places, first, done):
                    done += 1
                done += 1
            yield first, done, label

    def _goes_on(self, label: str, places: Float32, first: int, word: int) -> bool:
        """Whether an open name continues beyond a word."""
        summed = places[word, 0] + places[first, 1] + places[word - 1, 2] + self._bias
        upper, shift = self._open[label]
        within, end = upper.dot(summed.max(axis=0)) + shift
        return bool(within >= end)


class Dependencies(Faster):
    """Replaces a greedy `DependencyParser`: arrays choose the moves, and spaCy applies them.

    The property test compares it with `spacy.ml.parser_model`.
    """

    @staticmethod
    def fits(parser: Any) -> bool:  # noqa: ANN401 - spaCy says nothing of its kind
        """Whether moves depend on the words at some positions, with two maxout pieces per unit."""
        return _is_greedy(parser) and parser.model.get_ref("lower").get_dim("nP") == 2

    def __init__(self, parser: Any) -> None:  # noqa: ANN401
        super().__init__(parser, "DEP")
        model = parser.model
        lower, upper = model.get_ref("lower"), model.get_ref("upper")
        self._vectors = linear(model.get_ref("tok2vec"))
        weight = weights_of(lower, "W").transpose(0, 3, 2, 1)  # (places, inputs, pieces, hidden)
        places, inputs, _, self._hidden = weight.shape
        self._lower = np.ascontiguousarray(weight.reshape(places, 1, inputs, -1))
        self._bias = weights_of(lower, "b").T.reshape(-1)
        self._missing = weights_of(lower, "pad")[0].transpose(0, 2, 1).reshape(places, -1)
        self._upper, self._shift = weights_of(upper, "W").T.copy(), weights_of(upper, "b")
        # The only attribute of spaCy's step model that is used here is the number of positions.
        self._step = SimpleNamespace(state2vec=SimpleNamespace(nF=places))

    def _mark(self, docs: Sequence["Doc"]) -> None:
        self._component.set_annotations(docs, self._final_states(docs))

    def _final_states(self, docs: Sequence["Doc"]) -> list[Any]:
        """The state of each document after its last move."""
        from spacy.ml.parser_model import ParserStepModel  # noqa: PLC0415 - as in `load_pipeline`

        places_of, move = ParserStepModel.get_token_ids, self._component.transition_states
        rows, starts = self._rows(docs)
        every: list[Any] = self._component.moves.init_batch(docs)
        states = every
        while states:
            # A missing word is -1, which selects the row before the first word's.
            position_rows = rows.take(places_of(self._step, states).T + starts, axis=0)
            summed = np.add.reduce(position_rows, axis=0)
            hidden = np.maximum(summed[:, : self._hidden], summed[:, self._hidden :])
            states = move(states, hidden.dot(self._upper) + self._shift)
        return every

    def _rows(self, docs: Sequence["Doc"]) -> tuple[Float32, NDArray[np.int64]]:
        """What each word adds to the hidden units in each position, and the first word's rows."""
        vectors = tiles(self._vectors(docs))
        places, _, _, width = self._lower.shape
        high = 1 + len(vectors) * TILE
        rows = np.empty((places, high, width), np.float32)
        rows[:, 0] = self._missing
        np.matmul(vectors, self._lower, out=rows[:, 1:].reshape(places, -1, TILE, width))
        rows[0] += self._bias
        return rows.reshape(-1, width), 1 + high * np.arange(places)[:, None]


def _is_greedy(parser: Any) -> bool:  # noqa: ANN401
    """Whether a parser always takes the best move, by two layers over word vectors."""
    model = getattr(parser, "model", None)
    if model is None or model.name != "parser_model" or parser.cfg["beam_width"] != 1:
        return False
    return bool(model.attrs["has_upper"] and not model.attrs["unseen_classes"])
