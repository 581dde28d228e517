"""Many strings in little memory, vocabularies, and sentences as rows of word numbers."""

from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from typing import overload
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wye.backends.notations import notations
from wye.backends.text import singular, starts_like_a_name, tokenise, words_before_stemming
from wye.backends.types import Int32, Int64, Mask, UInt32

_SHORT = 2**31 - 2**20
"""Bytes of strings beyond which Arrow needs 64-bit offsets."""

_PIECE = 65_536
"""Strings that are Python objects at a time in an iteration."""

# Words as numbers, and sentences as rows of them.
# Ends a sentence. No name contains it, so no match crosses into the next sentence.
END = -2

_REMEMBERED = 2**16
"""Words whose numbers are cached, since looking one up in a table takes some microseconds."""


class Words:
    """A vocabulary: words and their numbers. A new word takes the next number."""

    def __init__(self, words: Iterable[str] = ()) -> None:
        """Number some distinct words by their position."""
        self._cached: dict[str, int] = {}
        self._stored = words if isinstance(words, StringTable) else None
        self._dictionary: dict[str, int] | None = None
        if self._stored is None:
            self._dictionary = {word: number for number, word in enumerate(words)}

    def __len__(self) -> int:
        """Number of words."""
        return len(self._stored or self._numbers)

    def __iter__(self) -> Iterator[str]:
        return iter(self._stored or self._numbers)

    @property
    def _numbers(self) -> dict[str, int]:
        """All words as a dictionary, built when the first word is added or listed."""
        if self._dictionary is None:
            self._dictionary = {word: number for number, word in enumerate(self._stored or ())}
            self._stored = None
        return self._dictionary

    @property
    def table(self) -> "StringTable":
        """All words as a table that can be stored."""
        return self._stored or StringTable.of(Strings(self._numbers))

    def number(self, word: str) -> int:
        """The number of a word, which is added if it is new."""
        return self._numbers.setdefault(word, len(self._numbers))

    def find(self, word: str) -> int:
        """The number of a word; -1 if there is none."""
        stored = self._stored  # another thread may set it to None meanwhile
        if stored is None:
            return self._numbers.get(word, -1)
        number = self._cached.get(word, -1)
        if number < 0 and (number := stored.find(word)) >= 0 and len(self._cached) < _REMEMBERED:
            self._cached[word] = number
        return number


class FurtherWords(Words):
    """A vocabulary on top of another one, which stays unchanged; its numbers follow that one's."""

    def __init__(self, others: Words) -> None:
        super().__init__()
        self._others, self._first = others, len(others)

    def number(self, word: str) -> int:
        """The number of a word, which is added if it is new."""
        number = self._others.find(word)
        # The other vocabulary may have grown since.
        return number if 0 <= number < self._first else self._first + super().number(word)

    def find(self, word: str) -> int:
        """The number of a word; -1 if there is none."""
        number = self._others.find(word)
        if 0 <= number < self._first:
            return number
        further = super().find(word)
        return self._first + further if further >= 0 else -1


@dataclass(frozen=True, slots=True)
class SentenceWords:
    """The case-folded words of s sentences, end to end.

    Attributes:
        packed: (m,) int32; twice the number of each word, plus 1 where the word is written like
            the beginning of a name; `END` after each sentence.
        lengths: (s,) int32 number of words of each sentence, `END` included.
    """

    packed: Int32
    lengths: Int32

    @classmethod
    def of(cls, texts: Iterable[str], words: "Words | PackedWords") -> "SentenceWords":
        """Tokenise sentences; new words are added to the vocabulary."""
        memo = PackedWords(words) if isinstance(words, Words) else words
        packed, lengths = array("i"), array("i")
        for text in texts:
            start = len(packed)
            packed.extend(map(memo.__getitem__, tokenise(text)))
            packed.append(END)
            lengths.append(len(packed) - start)
        return cls(np.frombuffer(packed, np.int32), np.frombuffer(lengths, np.int32))


class PackedWords(dict[str, int]):
    """Token -> its packed number in `SentenceWords`; filled on demand."""

    def __init__(self, words: Words) -> None:
        super().__init__()
        self._words = words

    def __missing__(self, token: str) -> int:
        packed = 2 * self._words.number(token.casefold()) + int(starts_like_a_name(token))
        self[token] = packed
        return packed


class TermNumbers(dict[str, int]):
    """Word or notation -> the number of its term, -1 for a stop word; filled on demand.

    New terms are added to a vocabulary.
    """

    def __init__(self, words: Words, stemmer: str, stopwords: frozenset[str]) -> None:
        super().__init__()
        self._words, self._stemmer, self._stopwords = words, stemmer, stopwords

    def __missing__(self, word: str) -> int:
        term = singular(word) if self._stemmer == "s" else word
        self[word] = number = -1 if word in self._stopwords else self._words.number(term)
        return number

    def read(self, texts: Iterable[str]) -> tuple[Int32, Int32, Int32]:
        """Numbers of terms and notations, end to end, and how many each text has.

        The third array has how many of these are notations, which come after the terms.
        """
        numbers, lengths, further = array("i"), array("i"), array("i")
        for text in texts:
            in_words = map(self.__getitem__, words_before_stemming(text))
            in_notations = sorted({*map(self.__getitem__, notations(text))} - {-1})
            start = len(numbers)
            numbers.extend([number for number in in_words if number >= 0])
            numbers.extend(in_notations)
            lengths.append(len(numbers) - start)
            further.append(len(in_notations))
        first, second, third = (np.array(each, np.int32) for each in (numbers, lengths, further))
        return first, second, third


class Strings(Sequence[str]):
    """Many strings in one Arrow array, which takes a quarter of a list's memory."""

    def __init__(self, strings: Iterable[str] | pa.Array) -> None:
        if not isinstance(strings, pa.Array):
            rest, pieces = iter(strings), [pa.array([], pa.string())]
            while piece := [*islice(rest, _PIECE)]:
                pieces.append(pa.array(piece, pa.string()))
            strings = pa.concat_arrays(pieces)
        self.array = strings

    def __len__(self) -> int:
        return len(self.array)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> "Strings": ...
    def __getitem__(self, index: int | slice) -> "str | Strings":
        value = self.array[index]
        return Strings(value) if isinstance(index, slice) else value.as_py()

    def __iter__(self) -> Iterator[str]:
        starts = range(0, len(self), _PIECE)
        return chain.from_iterable(self.array[at : at + _PIECE].to_pylist() for at in starts)

    def where(self, mask: Mask) -> "Strings":
        """The strings that a mask selects."""
        return Strings(self.array.filter(pa.array(mask)))

    def find(self, string: str) -> int:
        """Position of a string; -1 if it is missing. The strings must be ascending."""
        position = self.insertion_point(string)
        return position if position < len(self) and self[position] == string else -1

    def insertion_point(self, string: str) -> int:
        """How many of the strings, which must be ascending, are less than the given one.

        UTF-8 bytes compare in code point order.
        """
        (starts, text), key = self._views, string.encode(errors="surrogatepass")
        first, last = 0, len(self)
        while first < last:
            middle = (first + last) // 2
            if bytes(text[starts[middle] : starts[middle + 1]]) < key:
                first = middle + 1
            else:
                last = middle
        return first

    @cached_property
    def _views(self) -> tuple[memoryview, memoryview]:
        """Offsets and bytes of the strings. Comparing these takes a third of Arrow's time."""
        _, starts, text = self.array.buffers()
        kind = np.int64 if pa.types.is_large_string(self.array.type) else np.int32
        offsets = np.frombuffer(starts, kind) if starts else np.zeros(1, kind)
        return offsets[self.array.offset :].data, memoryview(text or b"")


def find_all(strings: Strings, among: Strings) -> Int64:
    """(n,) position of each string in a list of distinct strings; -1 if it is missing."""
    strings, among = _alike(strings, among)
    indices = pc.fill_null(pc.index_in(strings.array, value_set=among.array), -1)
    return np.asarray(indices.to_numpy(zero_copy_only=False), np.int64)


def ascending(*several: Strings) -> Strings:
    """The distinct strings of several lists in code point order, without the empty string."""
    distinct = pc.unique(pa.concat_arrays([strings.array for strings in _alike(*several)]))
    distinct = distinct.filter(pc.not_equal(distinct, ""))
    return Strings(distinct.take(pc.sort_indices(distinct)))


def _alike(*several: Strings) -> tuple[Strings, ...]:
    """The lists with one Arrow type, whose offsets are large enough for all of them together."""
    size = sum(strings.array.nbytes for strings in several)
    kind = pa.large_string() if size > _SHORT else pa.string()
    return tuple(Strings(strings.array.cast(kind)) for strings in several)


def _hash(string: str) -> int:
    return crc32(string.encode(errors="surrogatepass"))


def positions(strings: Sequence[str], wanted: Collection[str]) -> Int64:
    """Positions of the wanted strings, ascending."""
    if isinstance(strings, Strings):
        is_wanted = pc.is_in(strings.array, value_set=pa.array([*wanted], strings.array.type))
        return np.flatnonzero(is_wanted.to_numpy(zero_copy_only=False))
    return np.array([n for n, string in enumerate(strings) if string in wanted], np.int64)


def taken(strings: Sequence[str], at: Int64) -> pa.StringArray:
    """Some of the strings, by position, as an Arrow array."""
    if isinstance(strings, StringTable):
        strings = strings.strings
    if isinstance(strings, Strings):
        return strings.array.take(pa.array(at)).cast(pa.string())
    return pa.array([strings[position] for position in at.tolist()], pa.string())


class StringTable(Sequence[str]):
    """A hash table of distinct strings, without a Python object for each.

    Attributes:
        hashes: CRC-32 of each string, ascending.
        order: Positions of the strings in that order.
    """

    def __init__(self, strings: Strings, hashes: UInt32, order: Int32) -> None:
        self.strings, self.hashes, self.order = strings, hashes, order
        # Searching memoryviews takes a third of the time.
        self._views = hashes.data, order.data

    @classmethod
    def of(cls, strings: Strings) -> "StringTable":
        """The table of distinct strings."""
        hashes = np.fromiter(map(_hash, strings), np.uint32, len(strings))
        order = np.argsort(hashes, kind="stable").astype(np.int32)
        return cls(strings, hashes[order], order)

    def __len__(self) -> int:
        return len(self.strings)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Strings: ...
    def __getitem__(self, index: int | slice) -> str | Strings:
        return self.strings[index]

    def __iter__(self) -> Iterator[str]:
        return iter(self.strings)

    def find(self, string: str) -> int:
        """Position of a string; -1 if it is missing."""
        hashes, order = self._views
        digest = _hash(string)
        at = bisect_left(hashes, digest)
        while at < len(hashes) and hashes[at] == digest:
            if self.strings[order[at]] == string:
                return int(order[at])
            at += 1
        return -1
