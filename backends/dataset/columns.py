"""The columns that Lance searches by: words, names, labels and packed sentences.

An index has these columns once `wye index --engine dataset` made them; before that it is searched
in memory. They are computed from the rows and, for names, from the whole corpus: which names occur
where, and in how many passages. A row that was written later is given the names that were known.

Names are stored as hashes of 64 bits, since Lance splits texts at blanks and names have some.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wye.backends.lexical import LexicalSettings
from wye.backends.notations import notations
from wye.backends.store.corpus import Mentions
from wye.backends.store.schema import GRAPH, KEYS, LABELS, TOKENS, engine_fields
from wye.backends.text import singular, starts_like_a_name, terms, tokenise
from wye.backends.trigraph.names import MAX_WORDS, DisplayNames
from wye.backends.types import Float16, Int32, Int64, Metadata

UInt64 = NDArray[np.uint64]
UInt16 = NDArray[np.uint16]

LENGTHS = "  "
"""Separates words from notations in the tokens, which Lance ignores: these add no length."""
MENTIONED, TITLED = "k", "t"
"""First letters of a key's words: the passage mentions the name, or is titled by it."""
_HEADER = np.dtype("<u4")
_MOST = 65_535
"""Sentences and names of a passage that are kept; a longer one is cut off there."""


def hashed(text: str) -> int:
    """64 bits of a text."""
    return int.from_bytes(blake2b(text.encode(errors="replace"), digest_size=8).digest(), "big")


def key_word(kind: str, number: int) -> str:
    """The word that stands for a name in the column of keys."""
    return f"{kind}{number:016x}"


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
    """A name that a passage mentions or has as its title.

    Attributes:
        key: Its key; see `text.entity_key`.
        shown: Its most frequent spelling.
        passages: How many passages mention it.
        titles: How many of these have it as their title.
        is_phrase: Whether it is only known as a noun phrase.
    """

    key: str
    shown: str
    passages: int
    titles: int
    is_phrase: bool = False


@dataclass(frozen=True, slots=True)
class PassageNames:
    """What the graph needs of one passage.

    Attributes:
        names: The names in it, by key.
        mentions: Sentence and name of each mention, as positions, ascending and distinct.
        titles: Positions of the names of its title.
        tagged: For each sentence the named entities as they are written there.
        vectors: (s, d) vectors of the sentences.
    """

    names: Sequence[Name]
    mentions: Sequence[tuple[int, int]]
    titles: Sequence[int]
    tagged: Sequence[Sequence[str]]
    vectors: Float16

    def words(self) -> str:
        """The words for the column of keys."""
        titles = {*self.titles}
        return " ".join(
            key_word(kind, hashed(name.key))
            for position, name in enumerate(self.names)
            for kind in (MENTIONED, TITLED)
            if kind == MENTIONED or position in titles
        )

    def packed(self) -> bytes:
        """All of it as bytes, for `Packed`."""
        names = self.names[:_MOST]
        mentions = [pair for pair in self.mentions if max(pair) < _MOST]
        sizes = [len(self.vectors), len(names), len(mentions), len(self.titles)]
        texts = [[n.key for n in names], [n.shown for n in names], [[*s] for s in self.tagged]]
        arrays = (
            np.array(sizes, _HEADER),
            np.array([hashed(name.key) for name in names], "<u8"),
            np.array([name.passages for name in names], "<i4"),
            np.array([name.titles for name in names], "<i4"),
            np.array([name.is_phrase for name in names], "<u4"),
            np.array(mentions, "<u2").reshape(-1, 2),
            np.array(self.titles, "<u2"),
            np.asarray(self.vectors, "<f2"),
        )
        return b"".join([array.tobytes() for array in arrays]) + json.dumps(texts).encode()


class Packed:
    """The arrays of a packed passage; see `PassageNames`. Texts are read when they are needed.

    Attributes:
        keys: (e,) hashes of the names' keys.
        passages: (e,) how many passages mention each name.
        titled: (e,) how many passages have it as their title.
        is_phrase: (e,) whether it is only known as a noun phrase.
        mentions: (m, 2) sentence and name of each mention, as positions.
        titles: (t,) positions of the names of the title.
        vectors: (s, d) vectors of the sentences.
    """

    def __init__(self, packed: bytes, dimension: int) -> None:
        sentences, names, mentions, titles = np.frombuffer(packed, _HEADER, 4).tolist()
        self._packed, self._at = packed, 16
        self.keys: UInt64 = self._next("<u8", names)
        self.passages: Int32 = self._next("<i4", names)
        self.titled: Int32 = self._next("<i4", names)
        self.is_phrase = self._next("<u4", names).astype(bool)
        self.mentions: UInt16 = self._next("<u2", 2 * mentions).reshape(-1, 2)
        self.titles: UInt16 = self._next("<u2", titles)
        flat = self._next("<f2", sentences * dimension)
        self.vectors: Float16 = flat.reshape(-1, dimension)

    def _next(self, kind: str, count: int) -> NDArray[Any]:
        array = np.frombuffer(self._packed, kind, count, self._at)
        self._at += array.nbytes
        return array

    @cached_property
    def _texts(self) -> list[list[str]]:
        return cast("list[list[str]]", json.loads(self._packed[self._at :]))

    def key(self, name: int) -> str:
        """The key of a name, by position."""
        return self._texts[0][name]

    def shown(self, name: int) -> str:
        """The spelling of a name, by position."""
        return self._texts[1][name]

    def tagged(self, sentence: int) -> list[str]:
        """The named entities of a sentence, as they are written there."""
        return [*self._texts[2][sentence]]


class HashedKeys:
    """The keys of e names, known by their hashes; a text is read from a row when it is needed."""

    def __init__(self, hashes: UInt64, texts: Sequence[tuple[Packed, int] | str]) -> None:
        self.hashes, self._texts = hashes, texts

    def __len__(self) -> int:
        return len(self.hashes)

    def __getitem__(self, entity: int) -> str:
        text = self._texts[entity]
        return text if isinstance(text, str) else text[0].key(text[1])

    def __iter__(self) -> Iterator[str]:
        return map(self.__getitem__, range(len(self)))

    def find(self, key: str) -> int:
        """The name with a key, -1 if there is none."""
        hash_ = np.uint64(hashed(key))
        at = int(np.searchsorted(self.hashes, hash_))
        return at if at < len(self.hashes) and self.hashes[at] == hash_ else -1


class StoredSpellings(DisplayNames):
    """The spellings that are stored with the names."""

    def __init__(self, texts: Sequence[tuple[Packed, int] | str]) -> None:
        self._texts = texts

    def of(self, entity: int) -> str:
        """See `DisplayNames`."""
        text = self._texts[entity]
        return text if isinstance(text, str) else text[0].shown(text[1])


class StoredMentions(Mentions):
    """The named entities of sentences as they are written."""

    def __init__(self, sentences: Sequence[tuple[Packed, int]]) -> None:
        self._sentences = sentences

    def of(self, sentence: int) -> list[str]:
        """See `Mentions`."""
        packed, position = self._sentences[sentence]
        return packed.tagged(position)


@dataclass(frozen=True, slots=True)
class EngineRow:
    """A row's values of the engine's columns."""

    tokens: str
    keys: str
    labels: list[str]
    graph: bytes

    @classmethod
    def of(
        cls,
        title: str,
        text: str,
        metadata: Metadata,
        names: PassageNames,
        lexical: LexicalSettings,
    ) -> "EngineRow":
        """Of a passage with its names."""
        labels = dict.fromkeys(label(*pair) for pair in pairs_of(metadata))
        return cls(tokens_of(f"{title}\n{text}", lexical), names.words(), [*labels], names.packed())


def to_columns(rows: Sequence[EngineRow]) -> pa.RecordBatch:
    """Rows as the engine's columns."""
    columns: Mapping[str, list[object]] = {
        TOKENS: [row.tokens for row in rows],
        KEYS: [row.keys for row in rows],
        LABELS: [row.labels for row in rows],
        GRAPH: [row.graph for row in rows],
    }
    fields = engine_fields()
    arrays = [pa.array(columns[field.name], field.type) for field in fields]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def end_to_end(lengths: Sequence[int]) -> Int64:
    """Where each of some lists begins if they are put end to end, and where the last ends."""
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)
