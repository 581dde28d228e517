"""What the arms' data is made of: strings and words in little memory, rows, and their files."""

import json
import mmap
import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from io import BytesIO, FileIO
from itertools import chain, islice
from math import prod
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, overload
from weakref import finalize

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import DTypeLike, NDArray

from wye.backends.files import canonical_json, write_atomically
from wye.backends.notations import notations
from wye.backends.text import singular, starts_like_a_name, tokenise, words_before_stemming
from wye.backends.types import Arrays, Float64, Int32, Int64, Mask

_SHORT = 2**31 - 2**20  # bytes of strings beyond which Arrow needs 64-bit offsets

_PIECE = 65_536  # strings that are Python objects at a time in an iteration

# Words as numbers, and sentences as rows of them.
# Ends a sentence. No name contains it, so no match crosses into the next sentence.
END = -2

_REMEMBERED = 2**16  # words whose numbers are cached; to look one up takes microseconds

_MAGIC = b"WyeArray"  # of files of arrays
_ALIGNED = 64
_DIGEST = 16
_BLOCK = 32_768
_ROOM = 128 * _BLOCK


class Words:
    """A vocabulary: words and their numbers. A new word takes the next number.

    It may stand on strings with an order, or on another vocabulary, whose words have the first
    numbers. That one stays unchanged, and may grow by itself.
    """

    def __init__(self, base: "Strings | Words | None" = None) -> None:
        self._base, self._first = base, len(base or ())
        self._new: dict[str, int] = {}
        self._listed: list[str] = []  # the new words, as far as some were asked for by number
        self._cached: dict[str, int] = {}

    def __len__(self) -> int:
        return self._first + len(self._new)

    def __iter__(self) -> Iterator[str]:
        return chain(islice(self._base or (), self._first), self._new)

    def __getitem__(self, number: int) -> str:
        if self._base is not None and number < self._first:
            return self._base[number]
        if len(self._listed) < len(self._new):
            self._listed = [*self._new]
        return self._listed[number - self._first]

    @property
    def strings(self) -> "Strings":
        """All words, with their order."""
        if isinstance(self._base, Strings) and not self._new:
            return self._base
        return Strings(self).ordered()

    def number(self, word: str) -> int:
        """The number of a word, which is added if it is new."""
        number = self.find(word)
        return number if number >= 0 else self._new.setdefault(word, len(self))

    def find(self, word: str) -> int:
        """The number of a word; -1 if there is none."""
        if self._base is not None:
            number = self._cached.get(word, -1)
            if number < 0:
                number = self._base.find(word)
                if 0 <= number < self._first and len(self._cached) < _REMEMBERED:
                    self._cached[word] = number
            if 0 <= number < self._first:
                return number
        return self._new.get(word, -1)


@dataclass(frozen=True, slots=True)
class SentenceWords:
    """The case-folded words of s sentences, end to end.

    Attributes:
        packed: (m,) int32; twice the number of each word, plus 1 where the word is written like the
            beginning of a name; `END` after each sentence.
    """

    packed: Int32
    lengths: Int32  # (s,) int32 number of words of each sentence, `END` included

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
        """Numbers of terms, then of notations, end to end.

        Also how many of both each text has, and how many of these are notations.
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
    """Many strings in an Arrow array, which takes a quarter of a list's memory.

    If that is in chunks, they are only read by position.

    Attributes:
        order: Their positions in code point order; None if that is not known, or they are in it.
    """

    def __init__(
        self, strings: Iterable[str] | pa.Array | pa.ChunkedArray, order: Int32 | None = None
    ) -> None:
        if not isinstance(strings, pa.Array | pa.ChunkedArray):
            rest, pieces = iter(strings), [pa.array([], pa.string())]
            while piece := [*islice(rest, _PIECE)]:
                pieces.append(pa.array(piece, pa.string()))
            strings = pa.concat_arrays(pieces)
        self.array, self.order = strings, order

    def ordered(self) -> "Strings":
        """The same strings with their order, to find some among them."""
        return Strings(self.array, pc.sort_indices(self.array).to_numpy().astype(np.int32))

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
        """Position of a string; -1 if it is missing. They must be ascending, or have an order."""
        point = self.insertion_point(string)
        if point == len(self):
            return -1
        position = point if self.order is None else int(self.order[point])
        return position if self[position] == string else -1

    def insertion_point(self, string: str) -> int:
        """How many of the strings, ascending or with an order, are less, as their bytes are."""
        (starts, text, order), key = self._views, string.encode(errors="surrogatepass")
        first, last = 0, len(self)
        while first < last:
            middle = (first + last) // 2
            position = order[middle]
            if bytes(text[starts[position] : starts[position + 1]]) < key:
                first = middle + 1
            else:
                last = middle
        return first

    @cached_property
    def _views(self) -> tuple[memoryview, memoryview, Sequence[int]]:
        """Offsets, bytes and order of the strings, which takes a third of Arrow's time."""
        _, starts, text = self.array.buffers()
        kind = np.int64 if pa.types.is_large_string(self.array.type) else np.int32
        offsets = np.frombuffer(starts, kind) if starts else np.zeros(1, kind)
        order = range(len(self)) if self.order is None else self.order.data
        return offsets[self.array.offset :].data, memoryview(text or b""), order


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


def joined(first: Sequence[str], then: Sequence[str]) -> Sequence[str]:
    """The strings of both: in chunks, or as a list if the first are a list."""
    if isinstance(first, Strings):
        then = then if isinstance(then, Strings) else Strings(then)
        return Strings(pa.chunked_array([first.array, then.array.cast(first.array.type)]))
    return [*first, *then]


def taken(strings: Sequence[str], at: Int64) -> pa.StringArray:
    """Some of the strings, by position, as an Arrow array."""
    if isinstance(strings, Strings):
        return strings.array.take(pa.array(at)).cast(pa.string())
    return pa.array([strings[position] for position in at.tolist()], pa.string())


def pack_strings(name: str, strings: Iterable[str]) -> Arrays:
    """Strings as two arrays, and a third with their order if they have one."""
    strings = strings if isinstance(strings, Strings) else Strings(strings)
    array, order = strings.array, strings.order
    _, starts, text = array.buffers()
    dtype = np.int64 if pa.types.is_large_string(array.type) else np.int32
    offsets = np.frombuffer(starts, dtype) if starts else np.zeros(1, dtype)
    offsets = offsets[array.offset : array.offset + len(array) + 1]
    content = np.frombuffer(text, np.uint8) if text else np.zeros(0, np.uint8)
    first, last = int(offsets[0]), int(offsets[-1])
    arrays: Arrays = {f"{name}.starts": offsets - first, f"{name}.text": content[first:last]}
    return arrays if order is None else {**arrays, f"{name}.order": order}


def unpack_strings(name: str, arrays: Arrays) -> Strings:
    """The strings of `pack_strings`, without copying."""
    starts, text = arrays[f"{name}.starts"], arrays[f"{name}.text"]
    kind = pa.LargeStringArray if starts.dtype == np.int64 else pa.StringArray
    array = kind.from_buffers(len(starts) - 1, pa.py_buffer(starts), pa.py_buffer(text))
    return Strings(array, arrays.get(f"{name}.order"))


def ranges(first: Int32 | Int64, last: Int32 | Int64) -> Int64:
    """The integers of the half-open intervals [first, last), end to end."""
    lengths = last - first
    ends = lengths.cumsum(dtype=np.int64)
    numbers = np.arange(ends[-1] if len(ends) else 0)
    numbers += np.repeat(first - ends + lengths, lengths)
    return numbers


def sums(positions: Int32 | Int64, values: NDArray[np.floating], size: int) -> Float64:
    """(size,) sum of the values at each position, added in their order."""
    # Of no positions, NumPy's counts are integers, whatever the weights.
    return np.asarray(np.bincount(positions, weights=values, minlength=size), np.float64)


def distinct(values: Int64) -> Int64:
    """Each value once, ascending; `unique` hashes integers, 30 times slower than sorting."""
    ascending: Int64 = np.sort(values)
    return ascending[first_of_each(ascending)]


def first_of_each(groups: NDArray[np.integer]) -> Int64:
    """Position of the first of each run of equal values."""
    is_first = np.ones(len(groups), bool)
    np.not_equal(groups[1:], groups[:-1], out=is_first[1:])
    return is_first.nonzero()[0]


def located(values: Int32 | Int64, ascending: NDArray[np.integer]) -> tuple[Int64, Mask]:
    """Position of each value among ascending distinct ones, where it exists, and which exist."""
    if not len(ascending):
        return np.zeros(len(values), np.int64), np.zeros(len(values), bool)
    if ascending[0] == 0 and ascending[-1] == len(ascending) - 1:
        exists = (values >= 0) & (values < len(ascending))
        return np.where(exists, values, 0).astype(np.int64), exists
    # With another type, NumPy would copy the whole list.
    keys = values.astype(ascending.dtype, copy=False)
    position = np.searchsorted(ascending, keys)
    return position, ascending.take(position, mode="clip") == keys


def without(values: Int64, others: Int64) -> Int64:
    """The values that are not among the others; both distinct and ascending."""
    return values[~located(values, others)[1]]


class GrowingArray:
    """Rows of numbers that are first written and then read."""

    def __init__(self, folder: Path | None, dtype: DTypeLike, row: tuple[int, ...] = ()) -> None:
        """Begin an empty array of rows in a folder with room, or in memory for None."""
        self._file: FileIO | BytesIO = (
            TemporaryFile(dir=folder, buffering=0) if folder else BytesIO()  # noqa: SIM115
        )
        self._dtype, self._row = np.dtype(dtype), row
        finalize(self, self._file.close)  # for an array that is never read

    def extend(self, rows: NDArray[Any]) -> None:
        """Add rows; an `OSError` if the disk is full."""
        rest = np.ascontiguousarray(rows, self._dtype).reshape(-1).view(np.uint8).data
        while rest:
            rest = rest[self._file.write(rest) :]

    def read(self) -> NDArray[Any]:
        """All rows, read-only; nothing can be added afterwards."""
        content: bytes | mmap.mmap = b""  # an empty file cannot be mapped
        with self._file as file:
            if isinstance(file, BytesIO):
                content = file.getvalue()
            elif file.tell():
                content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return np.frombuffer(content, self._dtype).reshape(-1, *self._row)


def write_arrays(path: Path, about: object, arrays: Arrays) -> None:
    """Write arrays for `map_arrays`, after a header with checksums; an `OSError` if it cannot."""
    entries: dict[str, object] = {}
    blocks: list[NDArray[np.uint8]] = []
    offset = 0
    for name, values in arrays.items():
        block = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        entries[name] = [values.dtype.str, list(values.shape), offset, _update_checksum(block, 0)]
        blocks.append(block)
        offset += block.nbytes + -block.nbytes % _ALIGNED
    header = canonical_json({"about": about, "arrays": entries, "bytes": offset}).encode()
    header += b" " * (-(len(_MAGIC) + 8 + _DIGEST + len(header)) % _ALIGNED)
    with write_atomically(path) as file:
        file.write(_MAGIC + len(header).to_bytes(8, "little"))
        file.write(blake2b(header, digest_size=_DIGEST).digest() + header)
        for block in blocks:
            file.write(block.data)
            file.write(bytes(-block.nbytes % _ALIGNED))


def map_arrays(path: Path, about: object) -> Arrays:
    """Map the arrays of a file; a `ValueError` if it is damaged, or about something else."""
    with path.open("rb", buffering=0) as file:
        pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        head = len(_MAGIC) + 8 + _DIGEST
        start = head + int.from_bytes(pages[len(_MAGIC) : len(_MAGIC) + 8], "little")
        digest = blake2b(pages[head:start], digest_size=_DIGEST).digest()
        if pages[: len(_MAGIC)] != _MAGIC or digest != pages[head - _DIGEST : head]:
            raise ValueError("its header is damaged")
        header = json.loads(pages[head:start])
        if header["about"] != about:
            raise ValueError("it belongs to other data or settings")
        if len(pages) != start + header["bytes"]:
            raise ValueError("it is truncated")
        for name, (kind, shape, offset, checksum) in header["arrays"].items():
            size = prod(shape) * np.dtype(kind).itemsize
            if _checksum_in(file, start + offset, size) != checksum:
                raise ValueError(f"its array '{name}' is damaged")
    return {
        name: np.frombuffer(pages, np.dtype(kind), prod(shape), start + offset).reshape(shape)
        for name, (kind, shape, offset, _) in header["arrays"].items()
    }


def _checksum_in(file: FileIO, start: int, size: int) -> int:
    """Checksum of bytes in a file, which are read, since that is faster than mapping each page."""
    checksum, buffer = 0, np.empty(min(size, _ROOM), np.uint8)
    file.seek(start)
    while size:
        block = buffer[:size]
        if file.readinto(block.data) < len(block):
            raise ValueError("it is truncated")
        checksum = _update_checksum(block, checksum)
        size -= len(block)
    return checksum


def _update_checksum(flat: NDArray[np.uint8], checksum: int) -> int:
    """Extend a CRC of the blocks' sums, which is as fast as reading; only the last may be short."""
    whole = len(flat) // _BLOCK * _BLOCK
    sums = flat[:whole].view(np.uint64).reshape(-1, _BLOCK // 8).sum(axis=1)
    return zlib.crc32(flat[whole:].data, zlib.crc32(sums.view(np.uint8).data, checksum))
