"""Layers of spaCy's models, computed by few array operations, each row independently.

thinc runs sixty small layers to compute vectors of words, each prepared for a gradient.
`WindowEncoder` computes the same sums with the same weights in ten array operations per layer, and
caches the first layer's output for each word.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wye.featurizer.errors import ModelError
from wye.featurizer.threads import OneThread
from wye.featurizer.types import Float32

if TYPE_CHECKING:
    from spacy.tokens import Doc
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
