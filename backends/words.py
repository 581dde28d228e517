"""Surfaces to entities: when two names are the same, and what the words of a text are."""

import re
import unicodedata
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from sys import getsizeof
from typing import overload
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from backends.types import Int32, Int64, Mask, UInt32

_SHORT = 2**31 - 2**20
"""Bytes from which on 32 bits do not count those of strings."""
_PIECE = 65_536
"""Strings that are objects at a time, where all of them are gone through."""
_SPACES = re.compile(r"\s+")
_STRAIGHT = (
    ("\N{RIGHT SINGLE QUOTATION MARK}", "'"),
    ("\N{LEFT SINGLE QUOTATION MARK}", "'"),
    ("\N{LEFT DOUBLE QUOTATION MARK}", '"'),
    ("\N{RIGHT DOUBLE QUOTATION MARK}", '"'),
)
_EDGES = " \t\n\"'`.,;:!?()[]{}«»„"
_PARENTHETICAL = re.compile(r"\s*\([^()]*\)\s*$")
# Words with inner apostrophes, full stops or hyphens stay whole, but for a possessive; any other
# sign stands alone. An accent belongs to its letter even where no single character holds both, as
# in the lower-case form of a dotted capital I.
_IN_WORD = r"[\w\u0300-\u036f]"
_WORD = rf"\w{_IN_WORD}*"
_POSSESSIVE = rf"'(?i:s)(?!{_IN_WORD})"
_TOKEN = re.compile(rf"{_POSSESSIVE}|{_WORD}(?:(?!{_POSSESSIVE})['.\-]{_WORD})*|[^\w\s]")
FUNCTION_WORDS = frozenset(
    """a about after all also an and any are as at be been before but by can could did do does for
    from had has have he her him his how i if in into is it its many me more most much my no not of
    off on one or other our out over 's she so some such than that the their them then there these
    they this those to under up us was we were what when where which while who whom whose why will
    with would you your""".split()  # noqa: SIM905 - words read better as words
)


def entity_key(surface: str) -> str:
    """The form under which two surfaces are one entity.

    Case, spaces, quotes, a possessive and a leading "the" do not count: "The Thames' " and
    "Thames" are one river. The article stays where nothing informative is left without it ("The
    Who"). Empty for a surface that has nothing else.
    """
    key = _SPACES.sub(" ", _plain(surface).casefold()).strip(_EDGES)
    key = key.removesuffix("'s").rstrip(_EDGES)
    if key.startswith("the "):
        bare = key.removeprefix("the ").lstrip(_EDGES)
        return bare if is_informative(bare) else key
    return key


def is_informative(key: str, tokens: Sequence[str] | None = None) -> bool:
    """Whether a key has more than one character and more than function words.

    Args:
        tokens: Of the key, where they are known.
    """
    if len(key) < 2:
        return False
    return not FUNCTION_WORDS.issuperset(tokenise(key) if tokens is None else tokens)


HEADING_JOINT = " > "
"""Between the headings in the title of a chunk, that of its document being the first."""


def title_names(title: str) -> tuple[str, ...]:
    """What a title names: itself, and itself without a final "(…)"; an empty one names nothing.

    Of the headings that a chunk stands under, only the first names something: the document.
    """
    whole = title.partition(HEADING_JOINT)[0].strip()
    return tuple(name for name in dict.fromkeys((whole, _PARENTHETICAL.sub("", whole))) if name)


def title_keys(title: str) -> tuple[str, ...]:
    """Entity keys that a passage's title gives, those of its names, each once."""
    keys = dict.fromkeys(entity_key(name) for name in title_names(title))
    return tuple(key for key in keys if key)


def tokenise(text: str) -> list[str]:
    """Tokens of a text in their own case."""
    plain = _plain(text)
    # Most names are of letters alone, where blanks say it all.
    if plain.isascii() and plain.replace(" ", "").isalnum():
        return plain.split()
    return _TOKEN.findall(plain)


def stretch(text: str, start: int, length: int) -> str:
    """The words of a text from its token `start` on, as they are written."""
    found = list(_TOKEN.finditer(_plain(text)))[start : start + length]
    return _plain(text)[found[0].start() : found[-1].end()]


def _plain(text: str) -> str:
    """Accented letters as one character where there is one, quotes as on a typewriter."""
    if text.isascii():
        return text
    text = unicodedata.normalize("NFC", text)
    for curly, straight in _STRAIGHT:
        text = text.replace(curly, straight)
    return text


def starts_like_a_name(token: str) -> bool:
    """Whether a token begins with a capital letter or a digit."""
    return token[0].isupper() or token[0].isdigit()


# Words as numbers, and sentences as rows of them.


# Closes a sentence: no name has it, so none crosses into the next.
END = -2


class Words:
    """The numbers of words; new words take the next ones."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        """Know some words, each once, by their place."""
        self.found: dict[str, int] = {}
        """Words that `FurtherWords` have found, remembered for the next."""
        self._known = known if isinstance(known, StringTable) else None
        self._made: dict[str, int] | None = None
        if self._known is None:
            self._made = {word: number for number, word in enumerate(known)}

    def __len__(self) -> int:
        """How many there are."""
        return len(self._known or self._numbers)

    def __iter__(self) -> Iterator[str]:
        return iter(self._known or self._numbers)

    @property
    def _numbers(self) -> dict[str, int]:
        """All of them in memory, from when the first is made or listed."""
        if self._made is None:
            self._made = {word: number for number, word in enumerate(self._known or ())}
            self._known = None
        return self._made

    @property
    def table(self) -> "StringTable":
        """All of them, to be kept."""
        return self._known or StringTable.of(Strings(self._numbers))

    @property
    def bytes(self) -> int:
        """Memory of the words and their table."""
        if self._known is not None:
            return self._known.bytes
        return getsizeof(self._numbers) + sum(map(getsizeof, self._numbers))

    def number(self, word: str) -> int:
        """The number of a word, which is made if there is none."""
        return self._numbers.setdefault(word, len(self._numbers))

    def find(self, word: str) -> int:
        """The number of a word; -1 if there is none."""
        known = self._known  # a later version may take it away meanwhile
        return self._numbers.get(word, -1) if known is None else known.find(word)


class FurtherWords(Words):
    """Words whose numbers follow those of others, which stay as they are."""

    def __init__(self, others: Words) -> None:
        super().__init__()
        self._others, self._first = others, len(others)

    def number(self, word: str) -> int:
        """The number of a word, which is made if there is none."""
        found = self._others.found.get(word, -1)
        if found < 0 and (found := self._others.find(word)) >= 0:
            self._others.found[word] = found
        # The others may have been given more since.
        return found if 0 <= found < self._first else self._first + super().number(word)

    def find(self, word: str) -> int:
        """The number of a word; -1 if there is none."""
        found = self._others.find(word)
        if 0 <= found < self._first:
            return found
        own = super().find(word)
        return self._first + own if own >= 0 else -1


@dataclass(frozen=True, slots=True)
class SentenceWords:
    """The words of s sentences, with their case folded, end to end.

    Attributes:
        packed: (m,) int32 of each word twice its number, and 1 more where the word is written like
            the beginning of a name; `END` after each sentence.
        lengths: (s,) int32 words of each sentence, its end among them.
    """

    packed: Int32
    lengths: Int32

    @classmethod
    def of(cls, texts: Iterable[str], words: "Words | PackedWords") -> "SentenceWords":
        """Read sentences; words that are new get numbers."""
        memo = PackedWords(words) if isinstance(words, Words) else words
        packed, lengths = array("i"), array("i")
        for text in texts:
            start = len(packed)
            packed.extend(map(memo.__getitem__, tokenise(text)))
            packed.append(END)
            lengths.append(len(packed) - start)
        return cls(np.frombuffer(packed, np.int32), np.frombuffer(lengths, np.int32))


class PackedWords(dict[str, int]):
    """Token -> how `SentenceWords` has it; filled on first use."""

    def __init__(self, words: Words) -> None:
        super().__init__()
        self._words = words

    def __missing__(self, token: str) -> int:
        packed = 2 * self._words.number(token.casefold()) + int(starts_like_a_name(token))
        self[token] = packed
        return packed


class Strings(Sequence[str]):
    """Many strings end to end in one Arrow array: a quarter of the room that a list takes."""

    def __init__(self, strings: Iterable[str] | pa.Array) -> None:
        if not isinstance(strings, pa.Array):
            left, pieces = iter(strings), [pa.array([], pa.string())]
            while piece := [*islice(left, _PIECE)]:
                pieces.append(pa.array(piece, pa.string()))
            strings = pa.concat_arrays(pieces)
        self.array = strings

    def __len__(self) -> int:
        return len(self.array)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> "Strings": ...
    def __getitem__(self, place: int | slice) -> "str | Strings":
        found = self.array[place]
        return Strings(found) if isinstance(place, slice) else found.as_py()

    def __iter__(self) -> Iterator[str]:
        starts = range(0, len(self), _PIECE)
        return chain.from_iterable(self.array[at : at + _PIECE].to_pylist() for at in starts)

    def where(self, mask: Mask) -> "Strings":
        """Those that a mask takes."""
        return Strings(self.array.filter(pa.array(mask)))

    def find(self, string: str) -> int:
        """Place of a string among ascending ones, -1 where it is not there."""
        place = self.place(string)
        return place if place < len(self) and self[place] == string else -1

    def place(self, string: str) -> int:
        """How many of ascending strings are before one: UTF-8 is in the order of code points."""
        (starts, text), wanted = self._views, string.encode(errors="surrogatepass")
        first, last = 0, len(self)
        while first < last:
            middle = (first + last) // 2
            if bytes(text[starts[middle] : starts[middle + 1]]) < wanted:
                first = middle + 1
            else:
                last = middle
        return first

    @cached_property
    def _views(self) -> tuple[memoryview, memoryview]:
        """Where each string starts, and all of them: comparing takes a third of Arrow's time."""
        _, starts, text = self.array.buffers()
        kind = np.int64 if pa.types.is_large_string(self.array.type) else np.int32
        places = np.frombuffer(starts, kind) if starts else np.zeros(1, kind)
        return places[self.array.offset :].data, memoryview(text or b"")


def places(strings: Strings, among: Strings) -> Int64:
    """(n,) where each string is among others, which are distinct; -1 where it is not."""
    strings, among = _alike(strings, among)
    found = pc.fill_null(pc.index_in(strings.array, value_set=among.array), -1)
    return np.asarray(found.to_numpy(zero_copy_only=False), np.int64)


def joined(some: Strings, more: Strings, source: Int64) -> Strings:
    """Some of the strings of two lists, by their place in both end to end."""
    arrays = [strings.array for strings in _alike(some, more)]
    return Strings(pa.concat_arrays(arrays).take(pa.array(source)))


def ascending(*several: Strings) -> Strings:
    """Each string of several lists once, in code point order; the empty one is left out."""
    found = pc.unique(pa.concat_arrays([strings.array for strings in _alike(*several)]))
    found = found.filter(pc.not_equal(found, ""))
    return Strings(found.take(pc.sort_indices(found)))


def _alike(*several: Strings) -> tuple[Strings, ...]:
    """The same, with room for all of them together."""
    size = sum(strings.array.nbytes for strings in several)
    kind = pa.large_string() if size > _SHORT else pa.string()
    return tuple(Strings(strings.array.cast(kind)) for strings in several)


def _hash(string: str) -> int:
    return crc32(string.encode(errors="surrogatepass"))


class StringTable(Sequence[str]):
    """Distinct strings that are found by what they are, without an object for each in memory.

    Attributes:
        hashes: CRC-32 of each, ascending.
        order: Their places in that order.
    """

    def __init__(self, strings: Strings, hashes: UInt32, order: Int32) -> None:
        self.strings, self.hashes, self.order = strings, hashes, order
        # To search these takes a third of the time.
        self._views = hashes.data, order.data

    @classmethod
    def of(cls, strings: Strings) -> "StringTable":
        """Of strings, each of which occurs once."""
        hashes = np.fromiter(map(_hash, strings), np.uint32, len(strings))
        order = np.argsort(hashes, kind="stable").astype(np.int32)
        return cls(strings, hashes[order], order)

    def __len__(self) -> int:
        return len(self.strings)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> Strings: ...
    def __getitem__(self, place: int | slice) -> str | Strings:
        return self.strings[place]

    def __iter__(self) -> Iterator[str]:
        return iter(self.strings)

    @property
    def bytes(self) -> int:
        """Memory of it, mapped or not."""
        return int(self.strings.array.nbytes + self.hashes.nbytes + self.order.nbytes)

    def find(self, string: str) -> int:
        """Place of a string; -1 where it is not there."""
        hashes, order = self._views
        wanted = _hash(string)
        at = bisect_left(hashes, wanted)
        while at < len(hashes) and hashes[at] == wanted:
            if self.strings[order[at]] == string:
                return int(order[at])
            at += 1
        return -1
