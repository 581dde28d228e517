"""The columns that Lance searches by: words, names, labels, and all that ranking needs of a row.

An index has these columns once `wye index --engine dataset` made them; before that it is searched
in memory. They are computed from the rows and, for names, from the whole corpus: which names occur
where, and in how many passages. A row that was written later is given the names that were known.

Names are stored as hashes of 64 bits, since Lance splits texts at blanks and names have some.
"""

import json
from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wye.backends.lexical import LexicalSettings
from wye.backends.notations import notations
from wye.backends.store.schema import GRAPH, KEYS, LABELS, SEARCHED, TOKENS
from wye.backends.text import singular, starts_like_a_name, terms, tokenise
from wye.backends.trigraph.names import MAX_WORDS
from wye.backends.types import Float16, Int32, Int64, Metadata, Passage

UInt64 = NDArray[np.uint64]

LENGTHS = "  "
"""Separates words from notations in the tokens, which Lance ignores: these add no length."""
MENTIONED, TITLED = "k", "t"
"""Last letters of a key's words: the passage mentions the name, or is titled by it."""
_INT, _HASH, _HALF = "<i4", "<u8", "<f2"


def engine_fields() -> list[pa.Field]:
    """The columns of the dataset engine, null in a row that was written without it."""
    types = pa.string(), pa.string(), pa.list_(pa.string()), pa.large_binary()
    return [pa.field(name, type_) for name, type_ in zip(SEARCHED, types, strict=True)]


def hashed(text: str) -> int:
    """64 bits of a text."""
    return int.from_bytes(blake2b(text.encode(errors="replace"), digest_size=8).digest(), "big")


def key_word(kind: str, hash_: int) -> str:
    """The word that stands for a name in the column of keys, of 48 bits: Lance keeps all words."""
    return urlsafe_b64encode((hash_ >> 16).to_bytes(6, "big")).decode() + kind


def spelling(key: str) -> str:
    """The words of a name's key, as they are compared with those of a question."""
    return " ".join(token.casefold() for token in tokenise(key))


def spellings(tokens: Sequence[str], *, named: bool = False) -> Iterator[str]:
    """All that may be a name in some words: up to `MAX_WORDS` in a row.

    Args:
        named: Only what begins as names are written, with a capital letter or a digit.
    """
    folded = [token.casefold() for token in tokens]
    for start, token in enumerate(tokens):
        if not named or starts_like_a_name(token):
            ends = range(start + 1, min(start + MAX_WORDS, len(tokens)) + 1)
            yield from (" ".join(folded[start:end]) for end in ends)


def label(key: str, value: object) -> str:
    """The word that stands for a value of a key; 1 and 1.0 are equal, 1 and "1" are not."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return f"{hashed(json.dumps([key, value])):016x}"


def pairs_of(metadata: Metadata) -> Iterable[tuple[str, object]]:
    """Each key of some metadata with each of its values; null is no value."""
    for key, value in metadata.items():
        several = value if isinstance(value, list | tuple) else [value]
        yield from ((key, each) for each in several if each is not None)


def tokens_of(text: str, settings: LexicalSettings) -> str:
    """The terms of a text as the lexical arm counts them, then its notations."""
    stopwords = frozenset(settings.stopwords)
    further = (word for word in notations(text) if word not in stopwords)
    stemmed = [singular(word) if settings.stemmer == "s" else word for word in further]
    return LENGTHS.join((" ".join(terms(text, settings.stemmer, stopwords)), " ".join(stemmed)))


class Name(NamedTuple):
    """A name that a passage mentions or has as its title."""

    key: str  # its key; see `text.entity_key`
    shown: str  # its most frequent spelling
    passages: int  # how many passages mention it
    titles: int  # how many of these have it as their title
    is_phrase: bool = False  # whether it is only known as a noun phrase


@dataclass(frozen=True)
class NewRow:
    """A row to be stored; `Row` is what is read of it.

    Attributes:
        mentions: Sentence and name of each mention, as positions, ascending and distinct.
        tagged: For each sentence the named entities as they are written there.
    """

    id: str
    document: str
    chunk: int
    title: str
    text: str
    metadata: Metadata
    tokens: str  # see `tokens_of`
    names: Sequence[Name]  # the names in it, by the hash of their keys
    mentions: Sequence[tuple[int, int]]
    titles: Sequence[int]  # positions of the names of its title
    tagged: Sequence[Sequence[str]]
    vectors: Float16  # (1 + s, d) vector of the passage, then those of its sentences

    def keys(self) -> str:
        """The words for the column of keys."""
        hashes = [hashed(name.key) for name in self.names]
        titled = [key_word(TITLED, hashes[position]) for position in self.titles]
        return " ".join([*(key_word(MENTIONED, hash_) for hash_ in hashes), *titled])

    def labels(self) -> list[str]:
        """The words for the column of labels."""
        return [*dict.fromkeys(label(*pair) for pair in pairs_of(self.metadata))]

    def packed(self) -> bytes:
        """What ranking needs, as one value: each further column of a row is a read of its own."""
        head = json.dumps([self.id, self.document, self.chunk, self.title, self.tokens]).encode()
        names = [name.key for name in self.names], [name.shown for name in self.names]
        texts = *names, self.tagged, self.text, dict(self.metadata)
        counts = [(name.passages, name.titles, name.is_phrase) for name in self.names]
        sizes = [len(self.vectors), len(counts), len(self.mentions), len(self.titles), len(head)]
        arrays = (
            np.array(sizes, _INT),
            np.array([hashed(name.key) for name in self.names], _HASH),
            np.array(counts, _INT),
            np.array(self.mentions, _INT),
            np.array(self.titles, _INT),
            np.asarray(self.vectors, _HALF),
        )
        return b"".join([*(array.tobytes() for array in arrays), head, json.dumps(texts).encode()])


class Row:
    """What ranking needs of a stored row; see `NewRow`.

    Attributes:
        address: Where it is in the dataset.
        hashes: (e,) hashes of the names' keys, ascending.
        counts: (e, 3) passages and titles of each name, and whether it is only a noun phrase.
        mentions: (m, 2) sentence and name of each mention, as positions.
        titles: (t,) positions of the names of its title.
        vector: (d,) vector of the passage.
        sentences: (s, d) vectors of its sentences.
    """

    def __init__(self, address: int, packed: bytes, dimension: int) -> None:
        vectors, names, mentions, titles, head = np.frombuffer(packed, _INT, 5).tolist()
        self.address, self._packed, self._at = address, packed, 20
        self.hashes: UInt64 = self._next(_HASH, names)
        self.counts: Int32 = self._next(_INT, 3 * names).reshape(names, 3)
        self.mentions: Int32 = self._next(_INT, 2 * mentions).reshape(mentions, 2)
        self.titles: Int32 = self._next(_INT, titles)
        both: Float16 = self._next(_HALF, vectors * dimension).reshape(vectors, dimension)
        self.vector, self.sentences = both[0], both[1:]
        self._at += head
        fields: tuple[str, str, int, str, str] = json.loads(packed[self._at - head : self._at])
        self.id, self.document, self.chunk, self.title, self.tokens = fields

    def _next(self, kind: str, size: int) -> NDArray[Any]:
        array = np.frombuffer(self._packed, kind, size, self._at)
        self._at += array.nbytes
        return array

    @cached_property
    def _texts(self) -> tuple[list[str], list[str], list[list[str]], str, Metadata]:
        keys, shown, tagged, text, metadata = json.loads(self._packed[self._at :])
        return keys, shown, tagged, text, metadata

    @property
    def metadata(self) -> Metadata:
        """The passage's metadata."""
        return self._texts[4]

    @property
    def passage(self) -> Passage:
        """The passage, without statements."""
        text, metadata = self._texts[3:]
        return Passage(self.id, self.title, text, metadata, self.document, self.chunk)

    def name(self, position: int) -> Name:
        """A name in it."""
        keys, shown, *_ = self._texts
        passages, titles, is_phrase = self.counts[position].tolist()
        return Name(keys[position], shown[position], passages, titles, bool(is_phrase))

    @property
    def names(self) -> list[Name]:
        """The names in it, by the hash of their keys."""
        return [*map(self.name, range(len(self.hashes)))]

    def tagged(self, sentence: int) -> list[str]:
        """The named entities of a sentence, as they are written there."""
        return [*self._texts[2][sentence]]

    def with_vectors(self, vectors: Float16) -> NewRow:
        """The row to be stored anew, with other vectors."""
        _, _, tagged, text, metadata = self._texts
        of_passage = self.id, self.document, self.chunk, self.title, text, metadata, self.tokens
        numbers = self.mentions.tolist(), self.titles.tolist()
        return NewRow(*of_passage, self.names, *numbers, tagged, vectors)

    @cached_property
    def times(self) -> Int64:
        """(e,) in how many of its sentences each name is, and once more in its title."""
        in_sentences = np.bincount(self.mentions[:, 1], minlength=len(self.hashes))
        return in_sentences + np.bincount(self.titles, minlength=len(self.hashes))

    @cached_property
    def terms(self) -> Counter[str]:
        """How often each term occurs."""
        return Counter(self.tokens.split())

    @cached_property
    def length(self) -> int:
        """Number of its terms, without notations."""
        return len(self.tokens.partition(LENGTHS)[0].split())


def vectors_of(table: pa.Table) -> Iterator[Float16]:
    """Of each of some rows the vector and those of its sentences, as `NewRow` has them."""
    sentences = table["sentences"].combine_chunks()
    columns = table["vector"].combine_chunks(), sentences.flatten().field("vector")
    of_rows, of_sentences = (
        each.flatten().to_numpy().reshape(-1, each.type.list_size) for each in columns
    )
    ends = np.cumsum(sentences.value_lengths().to_numpy())
    for vector, several in zip(of_rows, np.split(of_sentences, ends[:-1]), strict=True):
        yield np.concatenate([vector[None], several])


def to_columns(rows: Sequence[NewRow]) -> pa.RecordBatch:
    """Rows as the engine's columns."""
    columns: Mapping[str, list[object]] = {
        TOKENS: [row.tokens for row in rows],
        KEYS: [row.keys() for row in rows],
        LABELS: [row.labels() for row in rows],
        GRAPH: [row.packed() for row in rows],
    }
    fields = engine_fields()
    arrays = [pa.array(columns[field.name], field.type) for field in fields]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
