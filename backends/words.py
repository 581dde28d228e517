"""Words of texts, keys under which names are the same entity, and compact lists of strings."""

import re
import unicodedata
from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain, islice
from typing import Literal, overload
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wye.backends.types import Int32, Int64, Mask, UInt32

_SHORT = 2**31 - 2**20
"""Bytes of strings beyond which Arrow needs 64-bit offsets."""
_PIECE = 65_536
"""Strings that are Python objects at a time in an iteration."""
_SPACES = re.compile(r"\s+")
_STRAIGHT = (
    ("\N{RIGHT SINGLE QUOTATION MARK}", "'"),
    ("\N{LEFT SINGLE QUOTATION MARK}", "'"),
    ("\N{LEFT DOUBLE QUOTATION MARK}", '"'),
    ("\N{RIGHT DOUBLE QUOTATION MARK}", '"'),
)
_EDGES = " \t\n\"'`.,;:!?()[]{}«»„"
PARENTHETICAL = re.compile(r"\s*\([^()]*\)\s*$")
# Words with inner apostrophes, full stops or hyphens stay whole, except for a possessive; any other
# sign is a token of its own. A combining accent belongs to its letter even where no precomposed
# character exists, as in the lower-case form of a dotted capital I.
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
    """The normalised form that surfaces of one entity share.

    Case, spaces, quotes, a possessive and a leading "the" do not count: "The Thames' " and
    "Thames" are one river. The article stays where nothing informative is left without it ("The
    Who"). The key is empty for a surface that has nothing else.
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
        tokens: The key's tokens, if they are known.
    """
    if len(key) < 2:
        return False
    return not FUNCTION_WORDS.issuperset(tokenise(key) if tokens is None else tokens)


HEADING_JOINT = " > "
"""Separates the headings in a chunk's title; the first is the document's title."""


def title_names(title: str) -> tuple[str, ...]:
    """The names in a title: the title itself, and without a final "(…)"; none if it is empty.

    Of a chunk's headings only the first is used, the document's title.
    """
    whole = title.partition(HEADING_JOINT)[0].strip()
    return tuple(name for name in dict.fromkeys((whole, PARENTHETICAL.sub("", whole))) if name)


def title_keys(title: str) -> tuple[str, ...]:
    """Entity keys of the names in a passage's title, each once."""
    keys = dict.fromkeys(entity_key(name) for name in title_names(title))
    return tuple(key for key in keys if key)


def tokenise(text: str) -> list[str]:
    """Tokens of a text, case kept."""
    plain = _plain(text)
    # Most names are letters and blanks alone: splitting at blanks is faster.
    if plain.isascii() and plain.replace(" ", "").isalnum():
        return plain.split()
    return _TOKEN.findall(plain)


def stretch(text: str, start: int, length: int) -> str:
    """The text of `length` tokens from token `start` on."""
    found = list(_TOKEN.finditer(_plain(text)))[start : start + length]
    return _plain(text)[found[0].start() : found[-1].end()]


def _plain(text: str) -> str:
    """The text with precomposed accented letters (NFC) and straight quotes."""
    if text.isascii():
        return text
    text = normalised(text, "NFC")
    for curly, straight in _STRAIGHT:
        text = text.replace(curly, straight)
    return text


def normalised(text: str, form: Literal["NFC", "NFKD"]) -> str:
    """A text in a normal form of Unicode; of a row of combining marks, the first 30 stay.

    Python's own function takes time that is quadratic in the length of such a row, seconds for
    32,000 marks. No language needs more than 30.

    Source: Unicode Standard Annex 15, "Stream-Safe Text Format".
    """
    if len(text) > _MARKS_IN_A_ROW:
        text = _row_of_marks().sub(_first_marks, text)
    return unicodedata.normalize(form, text)


_MARKS_IN_A_ROW = 30


@cache
def _row_of_marks() -> re.Pattern[str]:
    """Matches rows that may have too many marks.

    Only of the first 65,536 characters it knows which are marks: `re` is slow with sets of others.
    """
    marks = "".join(chr(code) for code in range(0x10000) if unicodedata.combining(chr(code)))
    return re.compile(f"[{marks}\U00010000-\U0010ffff]{{{_MARKS_IN_A_ROW + 1},}}")


def _first_marks(row: re.Match[str]) -> str:
    """A row without the marks that follow on 30 others."""
    kept, marks = [], 0
    for character in row[0]:
        marks = marks + 1 if unicodedata.combining(character) else 0
        if marks <= _MARKS_IN_A_ROW:
            kept.append(character)
    return "".join(kept)


def starts_like_a_name(token: str) -> bool:
    """Whether a token begins with a capital letter or a digit."""
    return token[0].isupper() or token[0].isdigit()


# Words as numbers, and sentences as rows of them.


# Ends a sentence. No name contains it, so no match crosses into the next sentence.
END = -2
_REMEMBERED = 2**16
"""Words whose numbers are cached, since looking one up in a table takes some microseconds."""


class Words:
    """A vocabulary: words and their numbers. A new word takes the next number."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        """Number some distinct words by their position."""
        self._found: dict[str, int] = {}
        self._known = known if isinstance(known, StringTable) else None
        self._made: dict[str, int] | None = None
        if self._known is None:
            self._made = {word: number for number, word in enumerate(known)}

    def __len__(self) -> int:
        """Number of words."""
        return len(self._known or self._numbers)

    def __iter__(self) -> Iterator[str]:
        return iter(self._known or self._numbers)

    @property
    def _numbers(self) -> dict[str, int]:
        """All words as a dictionary, built when the first word is added or listed."""
        if self._made is None:
            self._made = {word: number for number, word in enumerate(self._known or ())}
            self._known = None
        return self._made

    @property
    def table(self) -> "StringTable":
        """All words as a table that can be stored."""
        return self._known or StringTable.of(Strings(self._numbers))

    def number(self, word: str) -> int:
        """The number of a word, which is added if it is new."""
        return self._numbers.setdefault(word, len(self._numbers))

    def find(self, word: str) -> int:
        """The number of a word; -1 if there is none."""
        known = self._known  # another thread may set it to None meanwhile
        if known is None:
            return self._numbers.get(word, -1)
        number = self._found.get(word, -1)
        if number < 0 and (number := known.find(word)) >= 0 and len(self._found) < _REMEMBERED:
            self._found[word] = number
        return number


class FurtherWords(Words):
    """A vocabulary on top of another one, which stays unchanged; its numbers follow that one's."""

    def __init__(self, others: Words) -> None:
        super().__init__()
        self._others, self._first = others, len(others)

    def number(self, word: str) -> int:
        """The number of a word, which is added if it is new."""
        found = self._others.find(word)
        # The other vocabulary may have grown since.
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


class Strings(Sequence[str]):
    """Many strings in one Arrow array, which takes a quarter of a list's memory."""

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
        """The strings that a mask selects."""
        return Strings(self.array.filter(pa.array(mask)))

    def find(self, string: str) -> int:
        """Position of a string; -1 if it is missing. The strings must be ascending."""
        place = self.place(string)
        return place if place < len(self) and self[place] == string else -1

    def place(self, string: str) -> int:
        """How many of the strings, which must be ascending, are less than the given one.

        UTF-8 bytes compare in code point order.
        """
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
        """Offsets and bytes of the strings. Comparing these takes a third of Arrow's time."""
        _, starts, text = self.array.buffers()
        kind = np.int64 if pa.types.is_large_string(self.array.type) else np.int32
        places = np.frombuffer(starts, kind) if starts else np.zeros(1, kind)
        return places[self.array.offset :].data, memoryview(text or b"")


def places(strings: Strings, among: Strings) -> Int64:
    """(n,) position of each string in a list of distinct strings; -1 if it is missing."""
    strings, among = _alike(strings, among)
    found = pc.fill_null(pc.index_in(strings.array, value_set=among.array), -1)
    return np.asarray(found.to_numpy(zero_copy_only=False), np.int64)


def joined(some: Strings, more: Strings, source: Int64) -> Strings:
    """Strings taken from two lists by their position in the concatenation of both."""
    arrays = [strings.array for strings in _alike(some, more)]
    return Strings(pa.concat_arrays(arrays).take(pa.array(source)))


def ascending(*several: Strings) -> Strings:
    """The distinct strings of several lists in code point order, without the empty string."""
    found = pc.unique(pa.concat_arrays([strings.array for strings in _alike(*several)]))
    found = found.filter(pc.not_equal(found, ""))
    return Strings(found.take(pc.sort_indices(found)))


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
        found = pc.is_in(strings.array, value_set=pa.array([*wanted], strings.array.type))
        return np.flatnonzero(found.to_numpy(zero_copy_only=False))
    return np.array([n for n, string in enumerate(strings) if string in wanted], np.int64)


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
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> Strings: ...
    def __getitem__(self, place: int | slice) -> str | Strings:
        return self.strings[place]

    def __iter__(self) -> Iterator[str]:
        return iter(self.strings)

    def find(self, string: str) -> int:
        """Position of a string; -1 if it is missing."""
        hashes, order = self._views
        wanted = _hash(string)
        at = bisect_left(hashes, wanted)
        while at < len(hashes) and hashes[at] == wanted:
            if self.strings[order[at]] == string:
                return int(order[at])
            at += 1
        return -1
