"""What spaCy computes for each word by itself, faster and with the same result.

- Vectors: thinc runs sixty small layers to compute them, each prepared for a gradient.
  `WindowEncoder` computes the same sums with the same weights in ten array operations per layer,
  each row independently, and caches the first layer's output for each word.
- Parts of speech and lemmas: spaCy applies rules to every word again. `WordForms` caches their
  results by word, tag and relation, on which alone they depend.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

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
CACHED_WORDS = 10_000
# Attributes that rules may test; anything else does not follow from word, tag and relation.
_TESTABLE = frozenset({"TAG", "DEP", "LOWER", "ORTH", "IS_SPACE"})
# The attributes of a word that rules depend on, and those that they set.
_FORM: list[int | str] = ["ORTH", "TAG", "DEP"]
_RESULT: list[int | str] = ["TAG", "POS", "DEP", "LEMMA"]
# Cached words with tags and relations; when it is exceeded, the cache is cleared.
CACHED_FORMS = 50_000


class OneThread:
    """A factory of context managers within which BLAS computes in the calling thread alone.

    The products here are small. A second thread would busy-wait for a processor that others use,
    which on a busy machine takes many times as long as the product.
    """

    def __init__(self) -> None:
        """Find the loaded BLAS libraries, and whether any has more than one thread."""
        self._blas = ThreadpoolController().select(user_api="blas")
        self._is_single = all(each.num_threads == 1 for each in self._blas.lib_controllers)

    def __call__(self) -> AbstractContextManager[Any]:
        """A context manager; on exit the former number of threads is restored."""
        # Setting the limit takes the GIL a dozen times, for which the encoder waits too.
        return nullcontext() if self._is_single else self._blas.limit(limits=1)


def _tile() -> int:
    """The most rows of a matrix product in which a row has the same bits at any position.

    BLAS sums in an order that depends on the number of rows, and on some processors also on a row's
    position: OpenBLAS for AVX2 computes eight rows of twelve in another way than the last four.
    With more than twelve rows it first copies the matrix on processors with AVX-512.
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
        """Whether a model consists of exactly these two."""
        return all(
            model.has_ref(ref) and {leaf.name for leaf in _leaves(model.get_ref(ref))} == kinds
            for ref, kinds in (("embed", _EMBEDDING), ("encode", _CONVOLUTION))
        )

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
        self._outputs: dict[bytes, bytes] = {}
        self._window = _named(encode, "expand_window")[0].attrs["window_size"]

    def as_layer(self) -> "Model[Any, Any]":
        """A thinc layer that replaces the model, which cannot be trained any more."""
        from thinc.api import Model  # noqa: PLC0415 - as in `load_pipeline`

        def forward(
            _: "Model[Any, Any]", docs: Sequence["Doc"], **__: bool
        ) -> tuple[list[Float32], Callable[..., None]]:
            return self(docs), lambda *_: None

        dims, attributes = {"nO": self._table.shape[1]}, {"encoder": self}
        return Model("window_encoder", forward, dims=dims, attrs=attributes)

    def __call__(self, docs: Sequence["Doc"]) -> list[Float32]:
        """Vectors (tokens, width) of each document."""
        batches = map(self._encode, chunks(docs, TOKENS_AT_ONCE))
        return [vectors for batch in batches for vectors in batch]

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
        if len(self._outputs) > CACHED_WORDS:
            self._outputs.clear()
        if new := [*{word: None for word in words if word not in self._outputs}]:
            rows = self._mix(self._embed(np.frombuffer(b"".join(new), attributes.dtype)))
            self._outputs.update(zip(new, (row.tobytes() for row in rows), strict=False))
        joined = b"".join([self._outputs[word] for word in words])
        return np.frombuffer(joined, np.float32).reshape(len(words), self._table.shape[1])

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
        return len(names) == 2 and names[0] in _VECTORS and names[1] == "linear"

    def __init__(self, model: "Model[Any, Any]") -> None:
        first, *_, last = _leaves(model)
        self._encoder: WindowEncoder | None = first.attrs.get("encoder")
        self._weight, self._bias = weights_of(last, "W").T.copy(), weights_of(last, "b")

    def __call__(self, docs: Sequence["Doc"]) -> Float32:
        """(n, outputs) for the n words of documents."""
        encoder = self._encoder
        vectors: Any = encoder(docs) if encoder else [doc.tensor for doc in docs]
        return in_tiles(np.concatenate(vectors), self._weight) + self._bias


def chunks(docs: Sequence["Doc"], tokens: int) -> Iterator[list["Doc"]]:
    """Documents in order, in lists of at most `tokens` tokens, or of one document."""
    chunk: list[Doc] = []
    budget = tokens
    for doc in docs:
        budget -= len(doc)
        if chunk and budget < 0:
            yield chunk
            chunk, budget = [], tokens - len(doc)
        chunk.append(doc)
    if chunk:
        yield chunk


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
    """

    @staticmethod
    def fits(ruler: "AttributeRuler") -> bool:
        """Whether all rules test nothing but words, tags and relations of single tokens."""
        return all(set(token) <= _TESTABLE for pattern in _patterns(ruler) for token in pattern)

    def __init__(self, nlp: "Language", ruler: "AttributeRuler", lemmatizer: "Lemmatizer") -> None:
        from spacy.matcher import Matcher  # noqa: PLC0415 - as in `load_pipeline`

        self._rules = ruler, lemmatizer
        # By form; empty for words that may begin a rule for several.
        self._results: dict[bytes, bytes] = {}
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
        if len(self._results) > CACHED_FORMS:
            self._results.clear()
        if new := [*{form: None for form in forms if form not in self._results}]:
            self._learn(doc.vocab, new)
        rows = [self._results[form] for form in forms]
        for start, end in self._ranges_to_rule_together(rows):
            rows[start:end] = self._ruled(doc.vocab, forms[start:end])
        return _set(doc, _RESULT, rows)

    def _learn(self, vocab: "Vocab", new: Sequence[bytes]) -> None:
        longer = self._longer(_words(vocab, new), allow_missing=True)
        begins = {position for _, position, _ in longer}
        single = [form for position, form in enumerate(new) if position not in begins]
        self._results.update(dict.fromkeys(new, b""))
        self._results.update(zip(single, self._ruled(vocab, single), strict=True))

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

    def _ruled(self, vocab: "Vocab", forms: Sequence[bytes]) -> list[bytes]:
        """The results for words that stand side by side."""
        ruler, lemmatizer = self._rules
        return _rows(lemmatizer(ruler(_words(vocab, forms))), _RESULT)


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


def _patterns(ruler: "AttributeRuler") -> list[list[dict[str, Any]]]:
    rules: list[Any] = [*ruler.patterns]
    return [pattern for rule in rules for pattern in rule["patterns"]]
