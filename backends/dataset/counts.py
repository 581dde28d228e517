"""How often names, words and labels occur, in memory or, for a whole index, mostly on the disk."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any

from wye.backends.dataset.columns import LENGTHS, NewRow, Row, label, pairs_of, spelling
from wye.backends.dataset.words import (
    LABEL,
    LINKED,
    NAME,
    PARTS,
    TERM,
    Pair,
    Word,
    entry_of_name,
    part_of,
)
from wye.backends.files import canonical_json
from wye.backends.text import entity_key, mention_key
from wye.backends.trigraph.graph import recurring, wants_phrases
from wye.backends.trigraph.settings import AssemblySettings

_NUMBERS = ("passages", "terms", "tagged", "untagged")
_COUNTED = ("names", "titles", "proper", "shown", "tokens", "labels", "phrases")


@dataclass(slots=True)
class Counts:
    """How often names, words and labels occur in some rows.

    Attributes:
        proper: Names that are not only known as noun phrases.
        shown: Name and a spelling -> how often it is tagged so; 0 for one of a title.
        phrases: Noun phrase -> how many passages have it.
    """

    passages: int = 0
    terms: int = 0
    names: Counter[str] = field(default_factory=Counter)
    titles: Counter[str] = field(default_factory=Counter)
    proper: Counter[str] = field(default_factory=Counter)
    shown: Counter[Pair] = field(default_factory=Counter)
    tokens: Counter[str] = field(default_factory=Counter)
    labels: Counter[str] = field(default_factory=Counter)
    phrases: Counter[str] = field(default_factory=Counter)
    tagged: int = 0  # number of mentions of named entities
    untagged: int = 0  # number of mentions of noun phrases

    @classmethod
    def of(cls, rows: Iterable[NewRow]) -> "Counts":
        """Count rows that are to be stored."""
        counts = cls()
        for row in rows:
            counts.add(row)
        return counts

    @classmethod
    def sum(cls, several: Iterable["Counts"]) -> "Counts":
        """All counts together."""
        total = cls()
        for counts in several:
            total.add_numbers(counts)
            for name in _COUNTED:
                getattr(total, name).update(getattr(counts, name))
        return total

    def add_numbers(self, counts: "Counts") -> None:
        """Add the numbers of all rows of other counts."""
        for name in _NUMBERS:
            setattr(self, name, getattr(self, name) + getattr(counts, name))

    def add(self, row: NewRow | Row) -> None:
        """Count a row."""
        tokens = row.tokens
        self.passages += 1
        self.terms += len(tokens.partition(LENGTHS)[0].split())
        names = row.names
        self.names.update(name.key for name in names)
        self.titles.update({names[position].key for position in row.titles})
        self.proper.update(name.key for name in names if not name.is_phrase)
        if isinstance(row, NewRow):
            spelt = [(name.key, name.shown) for name in names if name.shown != name.key]
            self.shown.update(dict.fromkeys(spelt, 0))
            tagged = chain.from_iterable(row.tagged)
            self.shown.update((mention_key(surface), surface.strip()) for surface in tagged)
        self.tokens.update({*tokens.split()})
        self.labels.update({canonical_json([*pair]) for pair in pairs_of(row.metadata)})

    def words(self, sign: int = 1) -> Iterator[tuple[Pair, Word]]:
        """The entries of the table of words; of equally spelt names the one to be found is first.

        Args:
            sign: -1 to have them subtracted.
        """
        # The most frequent one is last, of several the first in code point order.
        spelt = sorted(sorted(self.shown.items(), reverse=True), key=itemgetter(1))
        shown = {key: text for (key, text), _ in spelt}
        names = []
        for key, count in sorted(self.names.items()):
            counts, is_phrase = (sign * count, sign * self.titles[key]), key not in self.proper
            names.append(entry_of_name(key, *counts, is_phrase=is_phrase, shown=shown.get(key, "")))
        yield from sorted(names, key=lambda entry: -(entry[1].bits & LINKED))
        yield from (((TERM, term), Word(term, sign * n)) for term, n in self.tokens.items())
        for text, count in self.labels.items():
            yield (LABEL, label(*json.loads(text))), Word(text, sign * count)

    def to_json(self) -> str:
        """What is looked up, on one line; the numbers of all rows are left out."""
        return json.dumps({name: [*getattr(self, name).items()] for name in _COUNTED})

    @classmethod
    def from_json(cls, line: str) -> "Counts":
        """The counts of `to_json`."""
        counts = cls()
        for name, items in json.loads(line).items():
            is_pair = name == "shown"
            getattr(counts, name).update({tuple(k) if is_pair else k: n for k, n in items})
        return counts

    def split(self) -> "dict[int, Counts]":
        """These counts by `part_of` what is looked up; the numbers of all rows are left out."""
        parts: defaultdict[int, Counts] = defaultdict(Counts)
        of_name = cache(lambda key: part_of((NAME, spelling(key))))
        part_by: Mapping[str, Callable[[Any], int]] = {
            **dict.fromkeys(("names", "titles", "proper"), of_name),
            "shown": lambda pair: of_name(pair[0]),
            "tokens": lambda term: part_of((TERM, term)),
            "labels": lambda text: part_of((LABEL, label(*json.loads(text)))),
            "phrases": lambda phrase: part_of((NAME, phrase)),
        }
        for name, part in part_by.items():
            for key, count in getattr(self, name).items():
                getattr(parts[part(key)], name)[key] = count
        return parts


class SpilledCounts:
    """The sum of counts, kept in a folder: memory holds one of its parts at a time.

    Attributes:
        total: The numbers of all rows, without what is in the parts.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self.total = folder, Counts()
        folder.mkdir()

    def add(self, counts: Counts) -> None:
        """Add the counts of further rows."""
        self.total.add_numbers(counts)
        for part, few in counts.split().items():
            with (self._folder / str(part)).open("a") as file:
                file.write(few.to_json() + "\n")

    def __iter__(self) -> Iterator[Counts]:
        """The sum, in disjoint parts by `part_of`."""
        return (Counts.sum(self._read(part)) for part in range(PARTS))

    def _read(self, part: int) -> Iterator[Counts]:
        with suppress(FileNotFoundError), (self._folder / str(part)).open() as file:
            yield from map(Counts.from_json, file)

    def keep_phrases(self, settings: AssemblySettings) -> bool:
        """Take recurring noun phrases as names, where noun phrases are; returns whether."""
        if not wants_phrases(settings, self.total.tagged, self.total.untagged):
            return False
        least, most = recurring(self.total.passages)
        for part in self:
            phrases = (name for name, n in part.phrases.items() if least <= n <= most)
            self.add(Counts(names=Counter({*map(entity_key, phrases)})))
        return True
