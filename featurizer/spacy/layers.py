"""What a spaCy pipeline computes for each word, faster and with the same result.

- Vectors: thinc runs sixty small layers to compute them, each prepared for a gradient.
  `WindowEncoder` computes the same sums with the same weights in ten array operations per layer,
  each row independently, and caches the first layer's output for each word.
- Parts of speech and lemmas: spaCy applies rules to every word again. `WordForms` caches their
  results by word, tag and relation, on which alone they depend.
- Names: at each word spaCy takes the GIL for each of the 36 moves that may begin one. `Names`
  scores all words at once, and goes from word to word only within names.
- Heads: spaCy parses one document, or four, at a time, and takes the GIL at each move.
  `Dependencies` parses several documents in parallel.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
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

# Tokens encoded at once, few enough to stay in the processor's cache; a longer document is encoded
# by itself.
TOKENS_AT_ONCE = 256
# Words whose first layer is cached, 600 bytes each; when it is exceeded, the cache is cleared.
CACHED_WORDS = 10_000
# The attributes of a word that rules depend on, and those that they set.
_FORM: list[int | str] = ["ORTH", "TAG", "DEP"]
_RESULT: list[int | str] = ["TAG", "POS", "DEP", "LEMMA"]
# Cached words with tags and relations; when it is exceeded, the cache is cleared.
CACHED_FORMS = 50_000
# Tokens of the documents whose moves are found at once; each takes 4 kB meanwhile.
SIDE_BY_SIDE = 2_048


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


TILE = _tile()  # rows in each product, so that a vector does not depend on other words


class WindowEncoder:
    """Computes word vectors as spaCy's `MultiHashEmbed` and `MaxoutWindowEncoder` do.

    The property test compares it with `spacy.ml.models.tok2vec`.
    """

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
        pairs = zip(self._columns, self._seeds, strict=True)
        each = [self._ops.hash(np.ascontiguousarray(columns[:, c]), seed) for c, seed in pairs]
        rows = np.stack(each, axis=1) % self._rows[:, None] + self._starts[:, None]
        summed = self._ops.gather_add(self._table, rows.reshape(-1, rows.shape[2]))
        return tiles(summed.reshape(len(columns), -1)).reshape(-1, rows.shape[1] * summed.shape[1])


class LinearLayer:
    """One linear layer over word vectors, without the dozen calls that thinc makes for it."""

    def __init__(self, model: "Model[Any, Any]") -> None:
        first, *_, last = leaves(model)
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


def leaves(model: "Model[Any, Any]") -> Iterator["Model[Any, Any]"]:
    """The layers that have none inside."""
    return (node for node in model.walk() if not node.layers)


def _named(model: "Model[Any, Any]", name: str) -> list["Model[Any, Any]"]:
    return [node for node in leaves(model) if node.name == name]


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

    def __init__(self, nlp: "Language", ruler: "AttributeRuler", lemmatizer: "Lemmatizer") -> None:
        from spacy.matcher import Matcher  # noqa: PLC0415 - as in `load_pipeline`

        self._rules = ruler, lemmatizer
        # By form; empty for words that may begin a rule for several.
        self._results: dict[bytes, bytes] = {}
        self._longer = Matcher(nlp.vocab)
        longer = [pattern for pattern in patterns_of(ruler) if len(pattern) > 1]
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


def patterns_of(ruler: "AttributeRuler") -> list[list[dict[str, Any]]]:
    """What the rules test of each token, by rule."""
    rules: list[Any] = [*ruler.patterns]
    return [pattern for rule in rules for pattern in rule["patterns"]]


class _Moves(ABC):
    """Replaces a greedy transition model, which scores moves by the words at some positions.

    It annotates documents without annotations of its kind. Each word adds a vector to the hidden
    units, another one at each position. Each unit is the greater of two sums, and a linear layer
    over the units scores the moves.
    """

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
        """(positions, 1 + n, 2 units): what each of n words, or none, adds at each position."""
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
