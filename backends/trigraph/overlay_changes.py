"""The names that come and go with a few passages."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

import numpy as np

from wye.backends.layers import Layers
from wye.backends.numerics import ranges
from wye.backends.store.corpus import AnyMentions, TwoCorpora
from wye.backends.strings import Words
from wye.backends.text import entity_key, title_keys
from wye.backends.trigraph.assembly import most_passages, recurring, wants_phrases
from wye.backends.trigraph.graph import TriGraph
from wye.backends.trigraph.names import DisplayNames, Link, NameTrie
from wye.backends.trigraph.settings import AssemblySettings
from wye.backends.types import Int32, Int64


@dataclass(slots=True)
class ChangedName:
    """A key of some name in the added or removed passages.

    Attributes:
        entity: Its entity in the base; -1 if it has none.
        mentions: Change in the number of mentions of each surface.
        phrases: Change in the number of passages with each noun phrase.
        lost, titled: Passages that lose it as a title (rows of the base), and that gain it.
        was_named, is_named: Whether it is tagged or a title, before and after.
        was_phrase, is_phrase: Whether it is a recurring noun phrase, before and after.
    """

    entity: int
    mentions: Counter[str] = field(default_factory=Counter)
    phrases: Counter[str] = field(default_factory=Counter)
    lost: list[int] = field(default_factory=list)
    titled: list[int] = field(default_factory=list)
    was_named: bool = False
    is_named: bool = False
    was_phrase: bool = False
    is_phrase: bool = False

    @property
    def is_there(self) -> bool:
        """Whether it is an entity after the change."""
        return self.is_named or self.is_phrase


class NameChanges:
    """The names in the added and the removed passages, by key.

    Attributes:
        is_alike: Whether noun phrases are entities before the change if they are after it. If not,
            no names are read.
        with_phrases: Whether noun phrases are entities after the change.
        by_key: The changed names.
        surface_keys: Key of each named-entity surface of the added passages.
    """

    def __init__(self, two: TwoCorpora, graph: TriGraph, settings: AssemblySettings) -> None:
        """Count the names in what was added and removed.

        Args:
            graph: The graph of the base alone, with the same settings.
        """
        self._two, self._graph, self._settings = two, graph, settings
        self._sources = graph.sources
        base, added, gone = two.base, two.added, two.sentences.gone
        lost_entities, lost_phrases = (mentions_in(m, gone) for m in (base.entities, base.phrases))
        before = len(base.entities.code), len(base.phrases.code)
        after = (
            before[0] - len(lost_entities[1]) + len(added.entities.code),
            before[1] - len(lost_phrases[1]) + len(added.phrases.code),
        )
        self.with_phrases = wants_phrases(settings, *after)
        self.is_alike = wants_phrases(settings, *before) == self.with_phrases
        self.by_key: dict[str, ChangedName] = {}
        if not self.is_alike:
            return
        self._sizes = len(base), len(two.passages)
        self._count_mentions(lost_entities[1])
        if self.with_phrases:
            self._count_phrases(*lost_phrases)
        self._count_titles()
        self.by_key.pop("", None)
        for key, name in self.by_key.items():
            self._judge(key, name)

    def _name(self, key: str) -> ChangedName:
        if key not in self.by_key:
            self.by_key[key] = ChangedName(self._sources.find(key))
        return self.by_key[key]

    def _count_mentions(self, lost: Int32) -> None:
        base, added = self._two.base.entities.names, self._two.added.entities
        for code, times in Counter(lost.tolist()).items():
            key = self._sources.surfaces.keys[code]
            self._name(key).mentions[base[code]] -= times
        surfaces = [*added.names]
        self.surface_keys = [*map(entity_key, surfaces)]
        for code, times in Counter(added.code.tolist()).items():
            self._name(self.surface_keys[code]).mentions[surfaces[code]] += times

    def _count_phrases(self, place: Int64, lost: Int32) -> None:
        two, phrases = self._two, self._sources.phrases
        base, added = two.base, two.added
        owner = base.sentence_passage[two.sentences.gone[place]].tolist()
        for code, _ in {*zip(lost.tolist(), owner, strict=True)}:
            self._name(phrases.keys[code]).phrases[base.phrases.names[code]] -= 1
        owner = added.sentence_passage[added.phrases.sentence].tolist()
        for code, _ in {*zip(added.phrases.code.tolist(), owner, strict=True)}:
            phrase = added.phrases.names[code]
            self._name(entity_key(phrase)).phrases[phrase] += 1
        # The upper limit depends on the number of passages, so other phrases may exceed it.
        least, most = sorted(map(most_passages, self._sizes))
        between = (phrases.frequency > least) & (phrases.frequency <= most)
        for code in np.flatnonzero(between).tolist() if least < most else ():
            self._name(phrases.keys[code])

    def _count_titles(self) -> None:
        two, sources = self._two, self._sources
        if not self._settings.title_entities:
            return
        for row in two.passages.gone.tolist():
            for entity in self._graph.titles.one(row).tolist():
                self._name(sources.keys[entity]).lost.append(row)
        for row, title in zip(two.passages.added.tolist(), two.added.titles, strict=True):
            for key in title_keys(title):
                self._name(key).titled.append(row)

    def _judge(self, key: str, name: ChangedName) -> None:
        """Set whether a key is an entity before and after."""
        sources = self._sources
        tagged = sum(sources.surfaces.frequency[code] for code in sources.surfaces.of(key))
        titled = len(self._graph.titled.one(name.entity)) if name.entity >= 0 else 0
        name.was_named = bool(tagged or titled)
        tagged += sum(name.mentions.values())
        name.is_named = bool(tagged or titled - len(name.lost) + len(name.titled))
        if not self.with_phrases:
            return
        codes = sources.phrases.of(key)
        known = {self._two.base.phrases.names[c]: int(sources.phrases.frequency[c]) for c in codes}
        after = Counter(known)
        after.update(name.phrases)
        for frequency, passages, when in zip(
            (known, after), self._sizes, ("was_phrase", "is_phrase"), strict=True
        ):
            found = recurring(np.array([*frequency.values()], np.int64), passages)
            setattr(name, when, bool(found.any()))


class OverlaidTrie(NameTrie):
    """Finds the longest name of two tries: the base's, without some names, and one of new names."""

    def __init__(self, words: Words, base: NameTrie, added: NameTrie, entities: Layers) -> None:
        self._words = words
        self._both, self._entities = (base, added), entities

    def without(self, entities: Collection[int]) -> "OverlaidTrie":
        """One that does not find some entities either."""
        base, added = self._both
        of_base = {row for is_new, row in map(self._entities.place, entities) if not is_new}
        both = base.without(of_base), added.without(entities)
        return OverlaidTrie(self._words, *both, self._entities)

    def _longest_from(self, codes: Sequence[int], start: int) -> Link | None:
        known, new = (trie._longest_from(codes, start) for trie in self._both)
        if known is None or (new is not None and new.length > known.length):
            return new
        return Link(self._entities.number(known.entity), start, known.length)

    def _longest(self, codes: Int64, starts: Int64) -> tuple[Int64, Int64, Int64]:
        known, new = (trie._longest(codes, starts) for trie in self._both)
        entity = np.concatenate([self._entities.numbers(known[0]), new[0]])
        start, length = (np.concatenate(pair) for pair in zip(known[1:], new[1:], strict=True))
        order = np.lexsort([-length, start])
        first = order[np.diff(start[order], prepend=-1) > 0]
        return entity[first], start[first], length[first]


class OverlaidNames(DisplayNames):
    """Display names of which a few differ from those of the base."""

    def __init__(self, keys: Sequence[str], name_of: Callable[[int], str]) -> None:
        self._keys = keys
        self._name_of = name_of

    def of(self, entity: int) -> str:
        """An entity's name: as most often tagged, else as its first title, else its key."""
        return self._name_of(entity)


def mentions_in(mentions: AnyMentions, sentences: Int64) -> tuple[Int64, Int32]:
    """Mentions in some sentences: each one's position in `sentences`, and the code of its name."""
    of, wanted = mentions.sentence, sentences.astype(mentions.sentence.dtype)
    first, last = (np.searchsorted(of, wanted, side) for side in ("left", "right"))
    places = ranges(first, last)
    return np.repeat(np.arange(len(sentences)), last - first), mentions.code[places]
