"""What spaCy computes for each word by itself, faster and with the same result.

- Vectors: thinc runs sixty small layers to compute them, each prepared for a gradient.
  `WindowEncoder` computes the same sums with the same weights in ten array operations per layer,
  each row independently, and caches the first layer's output for each word.
- Parts of speech and lemmas: spaCy applies rules to every word again. `WordForms` caches their
  results by word, tag and relation, on which alone they depend.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from wye.featurizer.errors import ModelError
from wye.featurizer.types import Float32

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.pipeline import AttributeRuler, Lemmatizer
    from spacy.tokens import Doc
    from spacy.vocab import Vocab
    from thinc.api import Model

_EMBEDDING = frozenset(
    {
        *("extract_features", "list2ragged", "ints-getitem", "hashembed"),
        *("maxout", "layernorm", "dropout", "ragged2list"),
    }
)
_VECTORS = ("tok2vec-listener", "window_encoder")
_CONVOLUTION = frozenset({"expand_window", "maxout", "layernorm", "dropout"})
# Tokens encoded at once, few enough to stay in the processor's cache; a longer document is encoded
# by itself.
TOKENS_AT_ONCE = 256
# Words whose first layer is cached, 600 bytes each; when it is exceeded, the cache is cleared.
REMEMBERED = 10_000


# Attributes that rules may test; anything else does not follow from word, tag and relation.
_LOOKED_AT = frozenset({"TAG", "DEP", "LOWER", "ORTH", "IS_SPACE"})
# Words with tags and relations whose form is cached; when it is exceeded, the cache is cleared.
REMEMBERED_FORMS = 50_000
_TEXTS = ("LOWER", "ORTH")
# The attributes of a word that rules depend on, and those that they set.
_FORM: list[int | str] = ["ORTH", "TAG", "DEP"]
_RULED: list[int | str] = ["TAG", "POS", "DEP", "MORPH", "LEMMA"]
_FORM_RESULTS: list[int | str] = ["TAG", "POS", "DEP", "LEMMA"]


class OneThread:
    """A factory of context managers within which BLAS computes in the calling thread alone.

    The products here are small. A second thread would busy-wait for a processor that others use,
    which on a busy machine takes many times as long as the product.
    """

    def __init__(self) -> None:
        """Find the loaded BLAS libraries, and whether any has more than one thread."""
        self._blas = ThreadpoolController().select(user_api="blas")
        self._is_given = all(each.num_threads == 1 for each in self._blas.lib_controllers)

    def __call__(self) -> AbstractContextManager[Any]:
        """A context manager; on exit the former number of threads is restored."""
        # Setting the limit takes the GIL a dozen times, for which the encoder waits too.
        return nullcontext() if self._is_given else self._blas.limit(limits=1)


def _tile() -> int:
    """The most rows of a matrix product in which a row has the same bits in any place.

    BLAS sums in an order that depends on the number of rows, and on some processors also on a row's
    place among them: OpenBLAS for AVX2 computes eight rows of twelve in another way than the last
    four. With more than twelve rows it first copies the matrix on processors with AVX-512.
    """
    generator = np.random.default_rng(0)
    row, weight = (generator.normal(size=(n, 288)).astype(np.float32) for n in (1, 288))
    with OneThread()():
        for rows in (12, 8, 4):
            product = np.repeat(row, rows, axis=0) @ weight
            if (product == product[0]).all():
                return rows
    return 1


TILE = _tile()
"""Rows in every matrix product, so that a word's vector does not depend on the other words."""


class WindowEncoder:
    """Computes word vectors as spaCy's `MultiHashEmbed` and `MaxoutWindowEncoder` do.

    The property test compares it with `spacy.ml.models.tok2vec`.
    """

    @staticmethod
    def fits(model: "Model[Any, Any]") -> bool:
        """Whether a model consists of exactly these two parts."""
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
        weights = [weights_of(table, "E") for table in tables]
        self._rows = np.array([len(rows) for rows in weights], np.uint32)
        self._starts = np.cumsum(self._rows, dtype=np.uint32) - self._rows
        self._table = np.concatenate(weights)
        (self._mix,) = _maxouts(embed)
        self._layers = _maxouts(encode)
        self._known: dict[bytes, bytes] = {}
        self._one_thread = OneThread()
        self._window = _named(encode, "expand_window")[0].attrs["window_size"]

    def as_layer(self) -> "Model[Any, Any]":
        """A thinc layer that replaces the model."""
        from thinc.api import Model  # noqa: PLC0415 - as in `load_pipeline`

        def forward(
            _: "Model[Any, Any]", docs: Sequence["Doc"], *, is_train: bool
        ) -> tuple[list[Float32], Callable[..., None]]:
            if is_train:
                raise ModelError(
                    "This pipeline is optimised for inference and cannot be trained; load it again."
                )
            return self(docs), lambda *_: None

        dims, attributes = {"nO": self._table.shape[1]}, {"encoder": self}
        return Model("window_encoder", forward, dims=dims, attrs=attributes)

    def __call__(self, docs: Sequence["Doc"]) -> list[Float32]:
        """Vectors (tokens, width) of each document."""
        with self._one_thread():
            return [
                vectors for part in parts(docs, TOKENS_AT_ONCE) for vectors in self._encode(part)
            ]

    def _encode(self, docs: Sequence["Doc"]) -> list[Float32]:
        lengths = np.array([len(doc) for doc in docs], np.int64)
        words = int(lengths.sum())
        # Rows of zeros between documents, so that no word's window reaches another document.
        reach = self._window * len(self._layers)
        positions = np.arange(words) + np.repeat(reach * np.arange(1, 1 + len(docs)), lengths)
        high = tiled(words + reach * (len(docs) + 1))
        rows = np.zeros((high + 2 * self._window, self._table.shape[1]), np.float32)
        inner = rows[self._window : self._window + high]
        inner[positions] = self._first(docs)
        for layer in self._layers:
            sides = [rows[start : start + high] for start in range(2 * self._window + 1)]
            inner += layer(np.concatenate(sides, axis=1))
        return np.split(inner[positions], np.cumsum(lengths[:-1]))

    def _first(self, docs: Sequence["Doc"]) -> Float32:
        """(n, width) output of the first layer, which depends on each word alone."""
        attributes = np.concatenate([doc.to_array(self._attributes) for doc in docs])
        # Words are identified by their attributes.
        words = rows_as_bytes(attributes)
        if len(self._known) > REMEMBERED:
            self._known.clear()
        if new := [*{word: None for word in words if word not in self._known}]:
            rows = self._mix(self._embed(np.frombuffer(b"".join(new), attributes.dtype)))
            self._known.update(zip(new, (row.tobytes() for row in rows), strict=False))
        joined = b"".join([self._known[word] for word in words])
        return np.frombuffer(joined, np.float32).reshape(len(words), -1)

    def _embed(self, attributes: NDArray[np.uint64]) -> Float32:
        """(tiled n, tables * width) sums of the rows that each attribute's hash selects."""
        columns = attributes.reshape(-1, len(self._attributes))
        hashes = np.stack(
            [
                self._ops.hash(np.ascontiguousarray(columns[:, column]), seed)
                for column, seed in zip(self._columns, self._seeds, strict=True)
            ],
            axis=1,
        )
        rows = hashes % self._rows[:, None] + self._starts[:, None]
        summed = self._ops.gather_add(self._table, rows.reshape(-1, rows.shape[2]))
        return tiles(summed.reshape(len(columns), -1)).reshape(-1, rows.shape[1] * summed.shape[1])


class LinearLayer:
    """One linear layer over word vectors, without the dozen calls that thinc makes for it."""

    @staticmethod
    def fits(model: "Model[Any, Any]") -> bool:
        """Whether a model is a linear layer over the pipeline's or a `WindowEncoder`'s vectors."""
        names = [leaf.name for leaf in _leaves(model) if leaf.name != "list2array"]
        return len(names) == 2 and names[0] in _VECTORS and names[1] in ("linear", "softmax")

    def __init__(self, model: "Model[Any, Any]") -> None:
        first, *_, last = _leaves(model)
        self._encoder: WindowEncoder | None = first.attrs.get("encoder")
        self._weight, self._bias = weights_of(last, "W").T.copy(), weights_of(last, "b")

    def __call__(self, docs: Sequence["Doc"]) -> Float32:
        """(n, outputs) for the n words of documents; with the same maximum as a softmax of it."""
        vectors: list[Any] = [doc.tensor for doc in docs]
        if self._encoder is not None:
            vectors = [*self._encoder(docs)]
        elif not all(map(len, vectors)):
            # Like spaCy: zeros for documents without vectors.
            shapes = [(len(doc), len(self._weight)) for doc in docs]
            vectors = [
                own if len(own) else np.zeros(shape, np.float32)
                for own, shape in zip(vectors, shapes, strict=True)
            ]
        return in_tiles(np.concatenate(vectors), self._weight) + self._bias


def linear(model: "Model[Any, Any]") -> Callable[[Sequence["Doc"]], Float32]:
    """A function that computes a model: a `LinearLayer` if it fits, else thinc's."""
    return LinearLayer(model) if LinearLayer.fits(model) else model.predict


def parts(docs: Sequence["Doc"], tokens: int) -> Iterator[list["Doc"]]:
    """Documents in order, in parts of at most `tokens` tokens, or of one document."""
    part: list[Doc] = []
    room = tokens
    for doc in docs:
        room -= len(doc)
        if part and room < 0:
            yield part
            part, room = [], tokens - len(doc)
        part.append(doc)
    if part:
        yield part


def rows_as_bytes(rows: NDArray[np.uint64]) -> list[bytes]:
    """Each row of numbers as one key."""
    keys: list[bytes] = rows.view(f"V{rows.strides[0]}").ravel().tolist()
    return keys


def tiled(rows: int) -> int:
    """The number of rows, rounded up to whole tiles."""
    return -(-rows // TILE) * TILE


class _Maxout:
    """A maxout layer, each output the maximum of several linear maps, with layer normalisation."""

    def __init__(self, maxout: "Model[Any, Any]", norm: "Model[Any, Any]") -> None:
        weight = weights_of(maxout, "W")  # (outputs, pieces, inputs)
        self._pieces = weight.shape[1]
        self._weight = np.ascontiguousarray(weight.transpose(2, 1, 0).reshape(weight.shape[2], -1))
        self._bias = np.ascontiguousarray(weights_of(maxout, "b").T).reshape(-1)
        self._mean = np.full(weight.shape[0], 1 / weight.shape[0], np.float32)
        self._gain, self._shift = weights_of(norm, "G"), weights_of(norm, "b")

    def __call__(self, rows: Float32) -> Float32:
        """(tiled n, inputs) to (tiled n, outputs)."""
        values = np.matmul(rows.reshape(-1, TILE, rows.shape[1]), self._weight)
        values += self._bias
        pieces = values.reshape(len(rows), self._pieces, -1)
        best: Float32 = pieces[:, 0].copy()
        for piece in range(1, self._pieces):
            np.maximum(best, pieces[:, piece], out=best)
        best -= np.vecdot(best, self._mean)[:, None]
        best /= np.sqrt(np.vecdot(best, best) / best.shape[1] + 1e-8)[:, None]
        best *= self._gain
        best += self._shift
        return best


def in_tiles(rows: Float32, weight: Float32) -> Float32:
    """The matrix product, in which no row depends on the number of rows."""
    product: Float32 = np.matmul(tiles(rows), weight)
    return product.reshape(-1, product.shape[-1])[: len(rows)]


def tiles(rows: Float32) -> Float32:
    """Rows (n, width) as tiles (n', `TILE`, width), padded with zeros."""
    filled = np.zeros((tiled(len(rows)), rows.shape[1]), np.float32)
    filled[: len(rows)] = rows
    return filled.reshape(-1, TILE, rows.shape[1])


def _leaves(model: "Model[Any, Any]") -> Iterator["Model[Any, Any]"]:
    return (node for node in model.walk() if not node.layers)


def _named(model: "Model[Any, Any]", name: str) -> list["Model[Any, Any]"]:
    return [node for node in _leaves(model) if node.name == name]


def _maxouts(model: "Model[Any, Any]") -> list[_Maxout]:
    pairs = zip(_named(model, "maxout"), _named(model, "layernorm"), strict=True)
    return [_Maxout(*pair) for pair in pairs]


def weights_of(layer: "Model[Any, Any]", name: str) -> Float32:
    """A layer's weights by name."""
    weights: Any = layer.get_param(name)
    return np.asarray(weights, np.float32)


class WordForms:
    """Applies `attribute_ruler` and `lemmatizer` once per word, tag and relation, and caches that.

    Morphology is left out, since nothing reads it. New words are processed by themselves, except
    those that may begin a rule for several words, which are processed with the words that follow.
    For words that no rule names, the ruler is applied to one example of each tag and relation.
    """

    @staticmethod
    def fits(ruler: "AttributeRuler") -> bool:
        """Whether all rules test nothing but words, tags and relations of single tokens."""
        return all(set(token) <= _LOOKED_AT for pattern in _patterns(ruler) for token in pattern)

    def __init__(self, nlp: "Language", ruler: "AttributeRuler", lemmatizer: "Lemmatizer") -> None:
        from spacy.matcher import Matcher  # noqa: PLC0415 - as in `load_pipeline`

        self._rules = ruler, lemmatizer
        self._known: dict[bytes, bytes] = {}
        self._kinds: dict[bytes, bytes] = {}
        self._is_named = _test_of_words(_patterns(ruler))
        self._longer = Matcher(nlp.vocab)
        longer = [pattern for pattern in _patterns(ruler) if len(pattern) > 1]
        if longer:
            self._longer.add("longer", [pattern[:1] for pattern in longer])
        self._longest = max(map(len, longer), default=0)
        # Searching these as lists takes up to a tenth of a millisecond.
        table = lemmatizer.lookups.get_table("lemma_index", {})
        for kind in table:
            table[kind] = frozenset(table[kind])

    def __call__(self, doc: "Doc") -> "Doc":
        """Set each token's part of speech and lemma."""
        forms = _rows(doc, _FORM)
        if len(self._known) > REMEMBERED_FORMS:
            self._known.clear()
            self._kinds.clear()
        if new := [*{form: None for form in forms if form not in self._known}]:
            self._learn(doc.vocab, new)
        rows = [self._known[form] for form in forms]
        for start, end in self._ranges_to_rule_together(rows):
            rows[start:end] = _rows(self._ruled(_words(doc.vocab, forms[start:end])), _FORM_RESULTS)
        return _set(doc, _FORM_RESULTS, rows)

    def _learn(self, vocab: "Vocab", new: Sequence[bytes]) -> None:
        """Process new words: the ruler once for each kind, the lemmatizer for each word."""
        ruler, lemmatizer = self._rules
        kinds = [self._kind(vocab, form) for form in new]
        examples = {
            kind: form for kind, form in zip(kinds, new, strict=True) if kind not in self._kinds
        }
        if examples:
            longer = self._longer(_words(vocab, [*examples.values()]), allow_missing=True)
            begins = [[*examples][position] for _, position, _ in longer]
            self._kinds.update((kind, b"") for kind in begins)
            for kind in {*begins}:
                del examples[kind]
            ruled = _rows(ruler(_words(vocab, [*examples.values()])), _RULED)
            self._kinds.update(zip(examples, ruled, strict=True))
        # Empty for words that may begin a rule for several, whose result is never cached.
        self._known.update((form, b"") for form, kind in zip(new, kinds, strict=True))
        plain = [(form, kind) for form, kind in zip(new, kinds, strict=True) if self._kinds[kind]]
        words = _words(vocab, [form for form, _ in plain])
        _set(words, _RULED, [self._kinds[kind] for _, kind in plain])
        rows = _rows(lemmatizer(words), _FORM_RESULTS)
        self._known.update((form, row) for (form, _), row in zip(plain, rows, strict=True))

    def _kind(self, vocab: "Vocab", form: bytes) -> bytes:
        """What rules depend on: tag and relation, and the word itself if a rule names it."""
        text = vocab.strings[int(np.frombuffer(form, np.uint64)[0])]
        if self._is_named(text):
            return form
        return form[8:] + b" " * text.isspace()

    def _ranges_to_rule_together(self, rows: Sequence[bytes]) -> Iterator[tuple[int, int]]:
        """Ranges where rules for several words may apply, from words that may begin one."""
        start = end = 0
        for position in (position for position, row in enumerate(rows) if not row):
            if position >= end:
                if end:
                    yield start, end
                start = position
            end = position + self._longest
        if end:
            yield start, end

    def _ruled(self, doc: "Doc") -> "Doc":
        for rules in self._rules:
            doc = rules(doc)
        return doc


def _words(vocab: "Vocab", forms: Sequence[bytes]) -> "Doc":
    from spacy.tokens import Doc  # noqa: PLC0415 - as in `load_pipeline`

    rows: Any = np.frombuffer(b"".join(forms), np.uint64).reshape(-1, len(_FORM))
    doc = Doc(vocab, words=[vocab.strings[orth] for orth in rows[:, 0].tolist()])
    return doc.from_array(_FORM[1:], rows[:, 1:])


def _rows(doc: "Doc", attributes: list[int | str]) -> list[bytes]:
    rows: Any = doc.to_array(attributes)
    return rows_as_bytes(rows)


def _set(doc: "Doc", attributes: list[int | str], rows: Sequence[bytes]) -> "Doc":
    values: Any = np.frombuffer(b"".join(rows), np.uint64).reshape(-1, len(attributes))
    return doc.from_array(attributes, values)


def _test_of_words(patterns: Sequence[Sequence[Mapping[str, Any]]]) -> Callable[[str], bool]:
    """A test whether rules may treat a word differently from others with its tag and relation."""
    named: set[str] = set()
    tests: set[str] = set()
    wanted = [token.get(name) for pattern in patterns for token in pattern for name in _TEXTS]
    for text_test in wanted:
        if isinstance(text_test, str):
            named.add(text_test.lower())
        elif text_test is not None and set(text_test) <= {"IN", "REGEX"}:
            named.update(word.lower() for word in text_test.get("IN", ()))
            tests.update([text_test["REGEX"]] if "REGEX" in text_test else ())
        elif text_test is not None:
            # Any other test may hold for any word.
            tests.add("")
    expressions = [re.compile(test) for test in tests]
    return lambda text: (
        text.lower() in named
        or any(test.search(text) or test.search(text.lower()) for test in expressions)
    )


def _patterns(ruler: "AttributeRuler") -> list[list[dict[str, Any]]]:
    rules: list[Any] = [*ruler.patterns]
    return [pattern for rule in rules for pattern in rule["patterns"]]
