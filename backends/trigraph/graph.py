"""The Tri-Graph of a corpus: passages, sentences, entities, and the mentions between them.

Assembled, it depends on a version's content alone: entities are numbered by key, passages by id.
Late passages (`tail`) and their entities have the next numbers.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from wye.backends.arrays import (
    Strings,
    Words,
    ascending,
    distinct,
    find_all,
    first_of_each,
    joined,
    pack_strings,
    ranges,
    unpack_strings,
    without,
)
from wye.backends.store.corpus import Corpus
from wye.backends.text import entity_key, title_names, title_parts
from wye.backends.trigraph.names import NameTrie, NameWords, NormalisedCorpus, normalise
from wye.backends.trigraph.settings import AssemblySettings
from wye.backends.types import Arrays, Int32, Int64, Mask

# A noun phrase links passages if it recurs, and says nothing if it is everywhere.
MIN_PHRASE_PASSAGES = 2
MAX_PHRASE_PASSAGES = 20
MAX_PHRASE_SHARE = 0.02

# "auto" includes noun phrases below this ratio of named entities to noun phrases.
FEW_ENTITIES = 0.25

RowNumbers = NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True)
class Lists:
    """m lists of numbers, such as the entities that each sentence mentions, as two arrays."""

    starts: Int64  # (m + 1,) offsets: list i is at starts[i]:starts[i + 1]
    items: RowNumbers  # items of all lists, end to end
    late: "Lists | None" = None  # lists that go on with the items of these, and further ones

    @classmethod
    def from_owners(cls, owners: RowNumbers, items: RowNumbers, size: int) -> "Lists":
        """`size` lists from the list of each item, ascending, and the items."""
        starts = np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=size))])
        return cls(starts, items.astype(np.int32))

    def __len__(self) -> int:
        return len(self.starts) - 1 if self.late is None else len(self.late)

    def one(self, which: int) -> RowNumbers:
        """The items of one list."""
        return self.pairs(np.array([which]))[1]

    def pairs(self, chosen: Int64) -> tuple[Int64, RowNumbers]:
        """Of each item in the chosen lists, end to end: its list's position in `chosen`, and it."""
        mode: Literal["raise", "clip"] = "raise" if self.late is None else "clip"
        first, last = self.starts.take(chosen, mode=mode), self.starts.take(chosen + 1, mode=mode)
        owners = np.arange(len(chosen)).repeat(last - first)
        items = self.items[ranges(first, last)]
        if self.late is None:
            return owners, items
        late_owners, late_items = self.late.pairs(chosen)
        if not len(late_items):
            return owners, items
        owners = np.concatenate([owners, late_owners])
        by_owner = np.argsort(owners, kind="stable")
        return owners[by_owner], np.concatenate([items, late_items])[by_owner]


Keys = Strings | Words  # the keys of e entities


class Vocabulary(Protocol):
    """Names that are known without the passages that mention them."""

    @property
    def keys(self) -> Keys:
        """The keys of e entities."""

    @property
    def names(self) -> NameTrie:
        """Finds those that count wherever they occur word for word."""


class DisplayNames:
    """The most frequent spelling of each entity's name."""

    def __init__(self, corpus: Corpus, keys: Strings, surface: Int64, titles: Int64) -> None:
        """Find the most frequent surface and the first title of each entity.

        `surface` has the entity of each named-entity surface, or -1; `titles` (2, t) passage and
        entity of each title, ascending by passage.
        """
        self._keys: Keys = keys
        self._size, self._titles = len(keys), corpus.titles
        self._surfaces: Sequence[str] = corpus.entities.names
        frequency = np.bincount(corpus.entities.code, minlength=len(surface))
        # Ties in frequency go to the first in code point order.
        order = np.lexsort((np.arange(len(surface)), -frequency))
        order = order[surface[order] >= 0]
        entities, first = np.unique(surface[order], return_index=True)
        self._tagged = np.full(len(keys), -1, np.int64)
        self._tagged[entities] = order[first]
        passages, titled = titles
        entities, first = np.unique(titled, return_index=True)
        self._titled = np.full(len(keys), -1, np.int64)
        self._titled[entities] = passages[first]

    def to_arrays(self) -> Arrays:
        """The spellings as arrays, for `from_arrays`."""
        return {"display.tagged": self._tagged, "display.titled": self._titled}

    @classmethod
    def from_arrays(cls, corpus: Corpus, keys: Strings, arrays: Arrays) -> "DisplayNames":
        """The inverse of `to_arrays`, given the same corpus and keys."""
        self = cls.__new__(cls)
        self._keys, self._size = keys, len(keys)
        self._titles, self._surfaces = corpus.titles, corpus.entities.names
        self._tagged, self._titled = arrays["display.tagged"], arrays["display.titled"]
        return self

    def with_late(
        self, corpus: Corpus, keys: Words, late: "DisplayNames", entities: Int64, here: Mask
    ) -> "DisplayNames":
        """These names, and those of the entities that only late passages of a corpus mention.

        `here` says which of the entities of the late names, by their numbers, other passages
        mention.
        """
        names, is_new = copy(self), ~np.pad(here, (0, len(keys) - self._size))[entities]
        names._keys, names._size, names._titles = keys, len(keys), corpus.titles
        names._surfaces = joined(self._surfaces, late._surfaces)
        tagged = self._tagged, late._tagged, self._surfaces
        titled = self._titled, late._titled, self._titles
        both = []
        for base, added, strings in (tagged, titled):
            values = np.pad(base, (0, len(keys) - self._size), constant_values=-1)
            values[entities[is_new]] = np.where(added < 0, -1, added + len(strings))[is_new]
            both.append(values)
        names._tagged, names._titled = both
        return names

    def of(self, entity: int) -> str:
        """An entity's name: as most often tagged, else as its first title, else its key."""
        if self._tagged[entity] >= 0:
            return self._surfaces[int(self._tagged[entity])].strip()
        key = self._keys[entity]
        if self._titled[entity] >= 0:
            title = self._titles[self._titled[entity]]
            names = (*reversed(title_names(title)), *title_parts(title), *title.split())
            return next((name for name in names if entity_key(name) == key), key)
        return key

    def all(self) -> list[str]:
        """The names of all entities, by number."""
        return [self.of(entity) for entity in range(self._size)]


LISTS = ("passages", "mentioned", "mentions", "titled", "titles")  # the fields that are lists

_COUNT_BITS = 16
_MOST_COUNTED = (1 << _COUNT_BITS) - 1


def counted_lists(owners: Int64, entities: Int64, counts: Int64, size: int) -> Lists:
    """`TriGraph.mentioned` of `size` passages, from ascending pairs of one and an entity."""
    items = entities << _COUNT_BITS | np.minimum(counts, _MOST_COUNTED)
    return Lists(Lists.from_owners(owners, owners, size).starts, items)


@dataclass(frozen=True)
class TriGraph:
    """n passages, s sentences and e entities.

    A passage mentions the entities of its title and those of its sentences, all the more often the
    more of its sentences mention them.

    Attributes:
        mentioned: For each passage the entities that it mentions, ascending, each with its count in
            the last 16 bits; see `mentioned_in`.
        present: (n,) which passages there are, though lists have others; None for all.
    """

    keys: Keys  # e entity keys, ascending
    is_phrase: Mask  # (e,) whether an entity is known only as a noun phrase
    degrees: Int32  # (e,) number of passages that mention an entity
    passages: Lists  # for each entity the passages that mention it, ascending
    mentioned: Lists
    mentions: Lists  # for each sentence the entities that it mentions
    titled: Lists  # for each entity the passages whose title it is, ascending
    titles: Lists  # for each passage the entities of its title
    owners: Int32  # (s,) row of each sentence's passage, ascending
    names: NameTrie
    display_names: DisplayNames
    present: Mask | None = None

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def has_phrases(self) -> bool:
        """Whether noun phrases are entities."""
        return bool(self.is_phrase.any())

    @cached_property
    def sentence_starts(self) -> Int64:
        """(n + 1,) row of each passage's first sentence."""
        counts = np.bincount(self.owners, minlength=len(self.titles))
        return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])

    def sentences_in(self, passages: Int64) -> Int64:
        """Rows of the sentences of some passages, end to end."""
        return ranges(self.sentence_starts[passages], self.sentence_starts[passages + 1])

    def mentioned_in(self, passages: Int64) -> tuple[Int64, Int64, Int64]:
        """What passages mention: their positions, the entities of each, ascending, and counts."""
        owners, items = self.mentioned.pairs(passages)
        return owners, items >> _COUNT_BITS, items & _MOST_COUNTED

    def sentences_with(self, entity: int) -> Int64:
        """Rows of the sentences that mention an entity, ascending."""
        sentences = self.sentences_in(self.passages.one(entity).astype(np.int64))
        position, mentioned = self.mentions.pairs(sentences)
        has_entity: Int64 = sentences[position[mentioned == entity]]
        return has_entity

    def to_arrays(self) -> Arrays:
        """All fields as arrays, for `from_arrays`; there must be no late passages."""
        arrays: dict[str, NDArray[Any]] = {"is_phrase": self.is_phrase}
        for name in LISTS:
            lists: Lists = getattr(self, name)
            arrays |= {f"{name}.starts": lists.starts, f"{name}.items": lists.items}
        arrays |= pack_strings("keys", self.keys)
        arrays |= pack_strings("words", self.names.words.strings)
        return {**arrays, **self.names.to_arrays(), **self.display_names.to_arrays()}

    @classmethod
    def from_arrays(cls, corpus: Corpus, arrays: Arrays) -> "TriGraph":
        """The inverse of `to_arrays`, for the same corpus."""
        keys = unpack_strings("keys", arrays)
        lists: dict[str, Any] = {
            name: Lists(arrays[f"{name}.starts"], arrays[f"{name}.items"]) for name in LISTS
        }
        return cls(
            keys=keys,
            is_phrase=arrays["is_phrase"],
            degrees=np.diff(lists["passages"].starts).astype(np.int32),
            owners=corpus.sentence_passage,
            names=NameTrie.from_arrays(Words(unpack_strings("words", arrays)), arrays),
            display_names=DisplayNames.from_arrays(corpus, keys, arrays),
            **lists,
        )


class FilteredGraph:
    """A graph of which only the allowed passages (n,) count; None for all there are."""

    def __init__(self, graph: TriGraph, allowed: Mask | None = None) -> None:
        self.allowed = graph.present if allowed is None else allowed
        self._graph = graph

    def mentions(self, entities: Int64) -> tuple[RowNumbers, Int64]:
        """Passages that mention each entity, end to end: rows, and (a,) how many."""
        return self._allowed(*self._graph.passages.pairs(entities), len(entities))

    def titles(self, entities: Int64) -> tuple[RowNumbers, Int64]:
        """Passages that have each entity as their title, end to end: rows, and (a,) how many."""
        return self._allowed(*self._graph.titled.pairs(entities), len(entities))

    def degree(self, entities: Int64) -> Int64:
        """(a,) number of allowed passages that mention each entity."""
        if self.allowed is self._graph.present:
            return self._graph.degrees[entities].astype(np.int64)
        return self.mentions(entities)[1]

    def _allowed(self, owners: Int64, rows: RowNumbers, size: int) -> tuple[RowNumbers, Int64]:
        if self.allowed is not None:
            is_left = self.allowed[rows]
            owners, rows = owners[is_left], rows[is_left]
        return rows, np.bincount(owners, minlength=size)


def counted(owners: Int64, items: RowNumbers, size: int) -> tuple[Int64, Int64, Int64]:
    """Each pair of an owner and an item below `size` once, ascending, and how often it occurs."""
    bits = max(size - 1, 1).bit_length()  # shifting takes a tenth of the time of dividing
    pairs = owners << bits | items
    if int(owners.max(initial=0)) >> 31 - bits == 0:
        pairs = pairs.astype(np.int32)  # is sorted in half the time
    pairs.sort()
    first = first_of_each(pairs)
    counts = np.diff(first, append=len(pairs))
    pairs = pairs[first].astype(np.int64)
    return pairs >> bits, pairs & (1 << bits) - 1, counts


def assemble(
    corpus: Corpus,
    settings: AssemblySettings,
    room: Path | None = None,
    *,
    base: Vocabulary | None = None,
) -> TriGraph:
    """Build the Tri-Graph of a corpus, in a folder or in memory; a base's names count too."""
    mentions = len(corpus.entities.code), len(corpus.phrases.code)
    with_phrases = wants_phrases(settings, *mentions)
    words = Words(None if base is None else base.names.words)
    kinds = {"sentences": settings.link_text, "phrases": with_phrases}
    normalised = normalise(corpus, words, **kinds, room=room)
    recurs = _recurring(corpus) if with_phrases else np.empty(0, bool)
    names = Strings(())
    if base is not None:
        known = base.names.somewhere_in(normalised.sentences)
        names = Strings(map(base.keys.__getitem__, known.tolist()))
        recurs |= np.fromiter((base.keys.find(key) >= 0 for key in normalised.phrases), bool)
    keys, surface, phrase, titles = _number(corpus, settings, normalised, recurs, names)
    rows = NameWords.of(keys, normalised.words)
    size = len(keys)
    named = np.zeros(size, bool)
    named[surface[surface >= 0]] = True
    named[titles[1]] = True
    named[find_all(names, keys)] = True
    trie = NameTrie(normalised.words, rows, np.flatnonzero(named & rows.informative))
    tagged = _entries(corpus.entities.sentence, surface[corpus.entities.code])
    titled = np.concatenate([tagged, _title_entries(corpus, titles)], axis=1)
    tagged_pairs = _pairs(titled, size)
    del titled  # in a large corpus each of these takes a tenth of a gigabyte
    untagged = _entries(corpus.phrases.sentence, phrase[corpus.phrases.code])
    if settings.link_text:
        untagged = np.concatenate([untagged, _link(normalised, trie, rows)], axis=1)
    untagged_pairs = without(_pairs(untagged, size), tagged_pairs)
    del untagged
    pairs = np.sort(np.concatenate([tagged_pairs, untagged_pairs]), kind="stable")
    sentence, entity = np.divmod(pairs, max(size, 1))
    del pairs, tagged_pairs, untagged_pairs
    n = max(len(corpus), 1)
    titled_pairs = distinct(titles[1] * n + titles[0])
    title_entity, title_passage = np.divmod(titled_pairs, n)
    passage, mentioned, counts = counted(
        np.concatenate([corpus.sentence_passage[sentence].astype(np.int64), title_passage]),
        np.concatenate([entity, title_entity]),
        size,
    )
    by_entity = np.argsort(mentioned, kind="stable")
    passages = Lists.from_owners(mentioned[by_entity], passage[by_entity], size)
    by_title = np.argsort(title_passage, kind="stable")
    return TriGraph(
        keys=keys,
        is_phrase=~named,
        degrees=np.diff(passages.starts).astype(np.int32),
        passages=passages,
        mentioned=counted_lists(passage, mentioned, counts, len(corpus)),
        mentions=Lists.from_owners(sentence, entity, len(corpus.sentence_passage)),
        titled=Lists.from_owners(title_entity, title_passage, size),
        titles=Lists.from_owners(title_passage[by_title], title_entity[by_title], len(corpus)),
        owners=corpus.sentence_passage,
        names=trie,
        display_names=DisplayNames(corpus, keys, surface, titles),
    )


def _number(
    corpus: Corpus,
    settings: AssemblySettings,
    normalised: NormalisedCorpus,
    recurs: Mask,
    names: Strings,
) -> tuple[Strings, Int64, Int64, Int64]:
    """Number the entities of a corpus by their keys.

    Returns keys; the number of each named-entity surface and of each noun phrase, -1 for one that
    is no entity; and (2, t) passage and entity of each title.
    """
    phrases = normalised.phrases
    recurring_phrases = phrases.where(recurs) if phrases else Strings(())
    title_passage: list[int] = []
    titles: list[str] = []
    if settings.title_entities:
        for passage, keys_of in enumerate(normalised.titles):
            for key in keys_of:
                title_passage.append(passage)
                titles.append(key)
    named = Strings(titles)
    keys = ascending(normalised.surfaces, named, recurring_phrases, names)
    phrase = np.full(len(corpus.phrases.names), -1, np.int64)
    if phrases:
        phrase[:] = np.where(find_all(phrases, recurring_phrases) >= 0, find_all(phrases, keys), -1)
    of_titles = np.stack([np.array(title_passage, np.int64), find_all(named, keys)])
    return keys, find_all(normalised.surfaces, keys), phrase, of_titles


def wants_phrases(settings: AssemblySettings, entities: int, phrases: int) -> bool:
    """Whether noun phrases are entities of a corpus with so many mentions of both."""
    if settings.noun_phrases == "auto":
        return entities < FEW_ENTITIES * phrases
    return settings.noun_phrases == "on"


def recurring(passages: int) -> tuple[int, float]:
    """In how many of so many passages a noun phrase recurs, at least and at most."""
    return MIN_PHRASE_PASSAGES, max(MAX_PHRASE_PASSAGES, MAX_PHRASE_SHARE * passages)


def _recurring(corpus: Corpus) -> Mask:
    """Mask of the noun phrases that occur in more than one passage, and not in too many."""
    passages = corpus.sentence_passage[corpus.phrases.sentence].astype(np.int64)
    pairs = distinct(corpus.phrases.code.astype(np.int64) * max(len(corpus), 1) + passages)
    frequency = np.bincount(pairs // max(len(corpus), 1), minlength=len(corpus.phrases.names))
    least, most = recurring(len(corpus))
    recurs: Mask = (frequency >= least) & (frequency <= most)
    return recurs


def _entries(sentence: Int32, entity: Int64) -> Int64:
    """(2, m) sentence and entity of the mentions whose name is an entity."""
    is_entity = entity >= 0
    return np.stack([sentence[is_entity].astype(np.int64), entity[is_entity]])


def _title_entries(corpus: Corpus, titles: Int64) -> Int64:
    """(2, m) sentence and entity for titles: every sentence mentions its passage's title."""
    first = np.searchsorted(corpus.sentence_passage, titles[0])
    last = np.searchsorted(corpus.sentence_passage, titles[0], side="right")
    return np.stack([ranges(first, last), np.repeat(titles[1], last - first)])


def _link(normalised: NormalisedCorpus, trie: NameTrie, rows: NameWords) -> Int64:
    """(2, m) sentence and entity of names that occur word for word, tagged or not."""
    sentence, entity = trie.find_all(normalised.sentences)
    linked = rows.linked[entity]
    return np.stack([sentence[linked].astype(np.int64), entity[linked].astype(np.int64)])


def _pairs(entries: Int64, size: int) -> Int64:
    """Distinct (sentence, entity) pairs, ascending, each as the number sentence * size + entity."""
    return distinct(entries[0] * size + entries[1])
