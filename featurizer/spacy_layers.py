"""Layers of spaCy's models, computed by few array operations, each row by itself.

thinc walks sixty small layers to make vectors of words, each with room for a gradient.
`WindowEncoder` makes the same sums with the same weights in ten array operations a layer, and
remembers what the first layer makes of a word.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from featurizer.errors import ModelError
from featurizer.threads import OneThread
from featurizer.types import Float32

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
# Rows that are multiplied at once, always: how BLAS adds up depends on how many there are, and so
# would the last bits of a word's vector on the words beside it. So few are multiplied with the
# matrix as it lies, where the processor has AVX-512: of more, OpenBLAS makes a copy of it first.
TILE = 12
# Encoded at once, in memory that the processor keeps near it; or one document.
TOKENS_AT_ONCE = 256
# Words whose first layer is remembered, 600 bytes each; more are forgotten all together.
REMEMBERED = 10_000


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
        """To stand where the model stood."""
        from thinc.api import Model  # noqa: PLC0415 - as in `load_pipeline`

        def forward(
            _: "Model[Any, Any]", docs: Sequence["Doc"], *, is_train: bool
        ) -> tuple[list[Float32], Callable[..., None]]:
            if is_train:
                raise ModelError("A pipeline that was made faster cannot be trained; load it anew.")
            return self(docs), lambda *_: None

        dims, attributes = {"nO": self._table.shape[1]}, {"encoder": self}
        return Model("window_encoder", forward, dims=dims, attrs=attributes)

    def __call__(self, docs: Sequence["Doc"]) -> list[Float32]:
        """Of each document, (tokens, width)."""
        with self._one_thread():
            return [
                vectors for part in parts(docs, TOKENS_AT_ONCE) for vectors in self._encode(part)
            ]

    def _encode(self, docs: Sequence["Doc"]) -> list[Float32]:
        lengths = np.array([len(doc) for doc in docs], np.int64)
        words = int(lengths.sum())
        # No word sees another document: so many rows of zeros are between two of them.
        reach = self._window * len(self._layers)
        places = np.arange(words) + np.repeat(reach * np.arange(1, 1 + len(docs)), lengths)
        high = tiled(words + reach * (len(docs) + 1))
        rows = np.zeros((high + 2 * self._window, self._table.shape[1]), np.float32)
        inner = rows[self._window : self._window + high]
        inner[places] = self._first(docs)
        for layer in self._layers:
            sides = [rows[start : start + high] for start in range(2 * self._window + 1)]
            inner += layer(np.concatenate(sides, axis=1))
        return np.split(inner[places], np.cumsum(lengths[:-1]))

    def _first(self, docs: Sequence["Doc"]) -> Float32:
        """(n, width): the first layer, which looks at each word by itself."""
        found = np.concatenate([doc.to_array(self._attributes) for doc in docs])
        # A word is what its attributes are.
        words = rows_as_bytes(found)
        if len(self._known) > REMEMBERED:
            self._known.clear()
        if new := [*{word: None for word in words if word not in self._known}]:
            rows = self._mix(self._embed(np.frombuffer(b"".join(new), found.dtype)))
            self._known.update(zip(new, (row.tobytes() for row in rows), strict=False))
        joined = b"".join([self._known[word] for word in words])
        return np.frombuffer(joined, np.float32).reshape(len(words), -1)

    def _embed(self, attributes: NDArray[np.uint64]) -> Float32:
        """(tiled n, tables * width): of each attribute, the sum of the rows that its hash names."""
        found = attributes.reshape(-1, len(self._attributes))
        hashes = np.stack(
            [
                self._ops.hash(np.ascontiguousarray(found[:, column]), seed)
                for column, seed in zip(self._columns, self._seeds, strict=True)
            ],
            axis=1,
        )
        rows = hashes % self._rows[:, None] + self._starts[:, None]
        summed = self._ops.gather_add(self._table, rows.reshape(-1, rows.shape[2]))
        return tiles(summed.reshape(len(found), -1)).reshape(-1, rows.shape[1] * summed.shape[1])


class LinearLayer:
    """One linear layer over the vectors of words, which thinc reaches through a dozen calls."""

    @staticmethod
    def fits(model: "Model[Any, Any]") -> bool:
        """Whether a model is that layer over the pipeline's or a `WindowEncoder`'s vectors."""
        names = [leaf.name for leaf in _leaves(model) if leaf.name != "list2array"]
        return len(names) == 2 and names[0] in _VECTORS and names[1] in ("linear", "softmax")

    def __init__(self, model: "Model[Any, Any]") -> None:
        first, *_, last = _leaves(model)
        self._encoder: WindowEncoder | None = first.attrs.get("encoder")
        self._weight, self._bias = weights_of(last, "W").T.copy(), weights_of(last, "b")

    def __call__(self, docs: Sequence["Doc"]) -> Float32:
        """(n, outputs) of the n words of documents; largest where a softmax would be."""
        vectors: list[Any] = [doc.tensor for doc in docs]
        if self._encoder is not None:
            vectors = [*self._encoder(docs)]
        elif not all(map(len, vectors)):
            # As spaCy has it: zeros where there are none.
            shapes = [(len(doc), len(self._weight)) for doc in docs]
            vectors = [
                own if len(own) else np.zeros(shape, np.float32)
                for own, shape in zip(vectors, shapes, strict=True)
            ]
        return in_tiles(np.concatenate(vectors), self._weight) + self._bias


def linear(model: "Model[Any, Any]") -> Callable[[Sequence["Doc"]], Float32]:
    """What computes a model: `LinearLayer` if it fits, else thinc."""
    return LinearLayer(model) if LinearLayer.fits(model) else model.predict


def parts(docs: Sequence["Doc"], tokens: int) -> Iterator[list["Doc"]]:
    """Documents in order, as many at once as have so many tokens, or one."""
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
    found: list[bytes] = rows.view(f"V{rows.strides[0]}").ravel().tolist()
    return found


def tiled(rows: int) -> int:
    """So many rows in whole tiles."""
    return -(-rows // TILE) * TILE


class _Maxout:
    """A layer: of each output the largest of several linear maps, then normalised."""

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
    """The product, such that no row depends on how many there are."""
    product: Float32 = np.matmul(tiles(rows), weight)
    return product.reshape(-1, product.shape[-1])[: len(rows)]


def tiles(rows: Float32) -> Float32:
    """(n, width) as (tiles, `TILE`, width), with rows of zeros after the last."""
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
    """A layer's weights of that name."""
    found: Any = layer.get_param(name)
    return np.asarray(found, np.float32)
