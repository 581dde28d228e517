"""The names and sentences that a graph's entities come from, for updates by a few passages."""

from bisect import bisect_left
from dataclasses import dataclass, field

import numpy as np

from wye.backends.layers import LayeredStrings, Layers
from wye.backends.store.derived import (
    Arrays,
    pack_strings,
    pack_table,
    unpack_strings,
    unpack_table,
)
from wye.backends.strings import SentenceWords, Strings, Words
from wye.backends.types import Int32, Int64

_SPELLINGS = ("entity", "frequency", "order")
_STARTS = ("first", "places", "ends")
_AT_ONCE = 2**20

_PLACE_BITS = 33
"""Bits for a position, beside the 30 of a word's number."""


class LayeredKeys(LayeredStrings):
    """Keys of entities in two layers."""

    def __init__(self, layers: Layers, base: Strings, born: list[str]) -> None:
        """The keys of a base without the removed ones, and the new keys `born`."""
        super().__init__(layers, base, born)
        self._entities, self._known = layers, base
        self._born: dict[str, int] = dict(zip(born, layers.added.tolist(), strict=True))

    def find(self, key: str) -> int:
        """The entity with a key, -1 if there is none."""
        if key in self._born:
            return self._born[key]
        row = self._known.find(key)
        return self._entities.number(row) if row >= 0 else -1


Keys = Strings | LayeredKeys
"""The keys of e entities, ascending."""


@dataclass(frozen=True, slots=True)
class Spellings:
    """m names as written: named-entity surfaces or noun phrases.

    Attributes:
        keys: The key of each name.
        entity: (m,) int32 its entity, -1 if it is none.
        frequency: (m,) int32 number of mentions of a surface, or of passages with a noun phrase.
        order: (m,) int32 names sorted by key, then by number.
    """

    keys: Strings
    entity: Int32
    frequency: Int32
    order: Int32
    _found: dict[str, list[int]] = field(init=False, default_factory=dict, compare=False)

    def of(self, key: str) -> list[int]:
        """The names with a key, ascending; cached, since each version asks again."""
        if key not in self._found:
            self._found[key] = self._find(key)
        return self._found[key]

    def _find(self, key: str) -> list[int]:
        order, keys = self.order, self.keys
        position = bisect_left(order, key, key=keys.__getitem__)
        names: list[int] = []
        while position < len(order) and keys[order[position]] == key:
            names.append(int(order[position]))
            position += 1
        return names

    def to_arrays(self, name: str) -> Arrays:
        """All fields as arrays, for `from_arrays`."""
        parts = {f"{name}.{part}": getattr(self, part) for part in _SPELLINGS}
        return {**pack_strings(name, self.keys), **parts}

    @classmethod
    def from_arrays(cls, name: str, arrays: Arrays) -> "Spellings":
        """The inverse of `to_arrays`."""
        return cls(unpack_strings(name, arrays), *(arrays[f"{name}.{part}"] for part in _SPELLINGS))


@dataclass(frozen=True, slots=True)
class NameStarts:
    """Where each word occurs in a corpus's sentences, written like the beginning of a name.

    Attributes:
        first: (w + 1,) offsets: the positions of word i are at first[i]:first[i + 1].
        places: Positions in the packed words of the sentences, ascending within a word.
        ends: (s,) position at which each sentence ends.
    """

    first: Int64
    places: Int32 | Int64
    ends: Int64
    _found: dict[tuple[int, ...], Int64] = field(init=False, default_factory=dict, compare=False)

    @classmethod
    def of(cls, sentences: SentenceWords, words: int) -> "NameStarts":
        """From sentences over a vocabulary of `words` words."""
        packed, parts = sentences.packed, [np.empty(0, np.int64)]
        for at in range(0, len(packed), _AT_ONCE):
            part = packed[at : at + _AT_ONCE].astype(np.int64)
            starts = np.flatnonzero(part & 1)
            parts.append(part[starts] >> 1 << _PLACE_BITS | starts + at)
        packed_starts = np.concatenate(parts)
        parts.clear()
        packed_starts.sort()  # by word, and by place within a word
        positions = packed_starts & (1 << _PLACE_BITS) - 1
        packed_starts >>= _PLACE_BITS
        return cls(
            np.concatenate([[0], np.cumsum(np.bincount(packed_starts, minlength=words))]),
            positions.astype(np.int32) if len(packed) < 2**31 else positions,
            np.cumsum(sentences.lengths, dtype=np.int64),
        )

    def sentences_with(self, sentences: SentenceWords, name: tuple[int, ...]) -> Int64:
        """Rows of the sentences that contain a name, capitalised or a digit first, repeats kept.

        They are ascending, and cached, since each version asks again.

        Args:
            sentences: The sentences that this was built from.
            name: The name's word numbers, at least one.
        """
        if name not in self._found:
            self._found[name] = self._find(sentences, name)
        return self._found[name]

    def _find(self, sentences: SentenceWords, name: tuple[int, ...]) -> Int64:
        if max(name) >= len(self.first) - 1:
            return np.empty(0, np.int64)
        positions = self.places[self.first[name[0]] : self.first[name[0] + 1]]
        for after, word in enumerate(name[1:], 1):
            # In bounds: the last sentence ends with END, which is no word and thus matches none.
            positions = positions[sentences.packed[positions + after] >> 1 == word]
        return np.searchsorted(self.ends, positions.astype(np.int64), side="right")

    def to_arrays(self) -> Arrays:
        """All fields as arrays, for `from_arrays`."""
        return {f"starts.{part}": getattr(self, part) for part in _STARTS}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> "NameStarts":
        """The inverse of `to_arrays`."""
        return cls(*(arrays[f"starts.{part}"] for part in _STARTS))


@dataclass(frozen=True, slots=True)
class GraphSources:
    """The sources of a graph that an overlay on it needs.

    Attributes:
        keys: e entity keys, ascending.
        words: The vocabulary of sentences and names.
        sentences: s tokenised sentences; none where names in running text are not linked.
        starts: Where words occur in the sentences.
        surfaces: Named-entity surfaces.
        phrases: Noun phrases; none where they are no entities.
    """

    keys: Strings
    words: Words
    sentences: SentenceWords
    starts: NameStarts
    surfaces: Spellings
    phrases: Spellings
    _found: dict[str, int] = field(init=False, default_factory=dict, compare=False)

    def find(self, key: str) -> int:
        """The entity with a key, -1 if there is none; cached, since each version asks again."""
        if key not in self._found:
            self._found[key] = self.keys.find(key)
        return self._found[key]

    def to_arrays(self) -> Arrays:
        """All fields as arrays, for `from_arrays`."""
        return {
            **pack_strings("keys", self.keys),
            **pack_table("words", self.words.table),
            "sentences.packed": self.sentences.packed,
            "sentences.lengths": self.sentences.lengths,
            **self.starts.to_arrays(),
            **self.surfaces.to_arrays("surfaces"),
            **self.phrases.to_arrays("phrases"),
        }

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> "GraphSources":
        """The inverse of `to_arrays`."""
        return cls(
            unpack_strings("keys", arrays),
            Words(unpack_table("words", arrays)),
            SentenceWords(arrays["sentences.packed"], arrays["sentences.lengths"]),
            NameStarts.from_arrays(arrays),
            Spellings.from_arrays("surfaces", arrays),
            Spellings.from_arrays("phrases", arrays),
        )
