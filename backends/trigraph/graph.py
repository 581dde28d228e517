"""The Tri-Graph of a corpus: passages, sentences, entities, and the mentions between them.

A graph that is assembled depends on one version's content alone, not on the order of the corpus
file: entities are numbered by key, passages by id. In one with a tail (`tail`) the numbers of
entities also depend on its base.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wye.backends.numerics import distinct, first_of_each, ranges, without
from wye.backends.store.corpus import Corpus
from wye.backends.store.derived import (
    Arrays,
    pack_strings,
    unpack_strings,
)
from wye.backends.strings import Strings, Words, ascending, find_all
from wye.backends.trigraph.names import (
    DisplayNames,
    NameTrie,
    NameWords,
    NormalisedCorpus,
    normalise,
)
from wye.backends.trigraph.settings import AssemblySettings
from wye.backends.types import Int32, Int64, Mask

# A noun phrase links passages if it recurs, and says nothing if it is everywhere.
MIN_PHRASE_PASSAGES = 2
MAX_PHRASE_PASSAGES = 20
MAX_PHRASE_SHARE = 0.02

# "auto" includes noun phrases below this ratio of named entities to noun phrases.
FEW_ENTITIES = 0.25

Numbers = Int32 | Int64


class Lists(Protocol):
    """m lists of numbers. Rows in a list are ascending."""

    def __len__(self) -> int:
        """Number of lists."""
        ...

    def one(self, which: int) -> Numbers:
        """The items of one list."""
        ...

    def pairs(self, chosen: Int64) -> tuple[Int64, Numbers]:
        """Of each item in the chosen lists, end to end: its list's position in `chosen`, and it."""
        ...


class RowLists(Lists, Protocol):
    """The entities of rows, such as sentences."""

    def spans(self, begin: Int64, end: Int64) -> tuple[Int64, Numbers]:
        """The items of the lists begin[i] to end[i], for each i.

        The rows of a span, such as the sentences of a passage, are all of one layer.

        Returns:
            Of each item its span, and the item; where there is a tail, in any order.
        """
        ...


@dataclass(frozen=True, slots=True)
class PlainLists:
    """Lists as two arrays.

    Attributes:
        starts: (m + 1,) offsets: list i is at starts[i]:starts[i + 1].
        items: Items of all lists, end to end.
    """

    starts: Numbers
    items: Numbers

    @classmethod
    def from_lengths(cls, lengths: Numbers, items: Numbers) -> "PlainLists":
        """Lists from their lengths and all items, end to end."""
        return cls(np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]), items)

    @classmethod
    def from_owners(cls, owners: Numbers, items: Numbers, size: int) -> "PlainLists":
        """`size` lists from the list of each item, ascending, and the items."""
        return cls.from_lengths(np.bincount(owners, minlength=size), items.astype(np.int32))

    def __len__(self) -> int:
        """See `Lists`."""
        return len(self.starts) - 1

    def one(self, which: int) -> Numbers:
        """See `Lists`."""
        return self.items[self.starts[which] : self.starts[which + 1]]

    def pairs(self, chosen: Int64) -> tuple[Int64, Numbers]:
        """See `Lists`."""
        return self.spans(chosen, chosen + 1)

    def spans(self, begin: Int64, end: Int64) -> tuple[Int64, Numbers]:
        """See `RowLists`."""
        first, last = self.starts[begin], self.starts[end]
        return np.arange(len(begin)).repeat(last - first), self.items[ranges(first, last)]


def plain(lists: Lists) -> PlainLists:
    """Lists that are known to be plain.

    Raises:
        TypeError: They have a tail.
    """
    if not isinstance(lists, PlainLists):
        raise TypeError("A graph with a tail is neither stored nor a base")
    return lists


class Keys(Protocol):
    """The keys of e entities."""

    def __len__(self) -> int: ...
    def __getitem__(self, entity: int) -> str: ...
    def __iter__(self) -> Iterator[str]: ...

    def find(self, key: str) -> int:
        """The entity with a key, -1 if there is none."""
        ...


class Vocabulary(Protocol):
    """Names that are known without the passages that mention them."""

    @property
    def keys(self) -> Keys:
        """The keys of e entities."""
        ...

    @property
    def names(self) -> NameTrie:
        """Finds those that count wherever they occur word for word."""
        ...


@dataclass(frozen=True, slots=True)
class MentionGraph:
    """Mentions between sentences and entities, in both directions.

    Attributes:
        sentences: For each of e entities, rows of the sentences that mention it, ascending.
        entities: For each of s sentences, the entities that it mentions, ascending.
    """

    sentences: Lists
    entities: RowLists

    @classmethod
    def of(cls, sentence: Int64, entity: Int64, sizes: tuple[int, int]) -> "MentionGraph":
        """From the pairs of a sentence and an entity, ascending by both.

        Args:
            sizes: s and e.
        """
        by_entity = np.argsort(entity, kind="stable")
        return cls(
            PlainLists.from_owners(entity[by_entity], sentence[by_entity], sizes[1]),
            PlainLists.from_owners(sentence, entity, sizes[0]),
        )

    def entities_of(self, sentence: int) -> list[int]:
        """Entities that a sentence mentions."""
        members: list[int] = self.entities.one(sentence).tolist()
        return members


@dataclass(frozen=True)
class TriGraph:
    """n passages, s sentences and e entities.

    A passage mentions the entities of its title and those of its sentences, all the more often the
    more of its sentences mention them.

    Attributes:
        keys: e entity keys, ascending.
        is_phrase: (e,) whether an entity is known only as a noun phrase.
        degrees: (e,) number of passages that mention an entity.
        mentions: Which sentence mentions which entity.
        titled: For each entity the passages whose title it is, ascending.
        titles: For each passage the entities of its title.
        owners: (s,) row of each sentence's passage, ascending.
    """

    keys: Keys
    is_phrase: Mask
    degrees: Int32
    mentions: MentionGraph
    titled: Lists
    titles: RowLists
    owners: Int32
    names: NameTrie
    display_names: DisplayNames

    def __len__(self) -> int:
        """Number of entities."""
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

    def passages_of(self, entities: Int64) -> tuple[Int64, Int64, Int64]:
        """Passages that mention each of some entities, end to end, ascending for each.

        Returns:
            Their rows, how often each mentions the entity, and (a,) the number for each entity.
        """
        in_text, sentences = self.mentions.sentences.pairs(entities)
        in_titles, titled = self.titled.pairs(entities)
        rows = np.concatenate([self.owners[sentences], titled], dtype=np.int64)
        owner = np.concatenate([in_text, in_titles])
        position, passages, counts = counted(owner, rows, len(self.titles))
        return passages, counts, np.bincount(position, minlength=len(entities))

    def entities_of(self, passages: Int64) -> tuple[Int64, Int64]:
        """Entities that some passages mention.

        Returns:
            For each mention its passage, as a position in `passages`, and the entity. A passage
            mentions an entity once for each sentence that does, and once for its title.
        """
        starts = self.sentence_starts
        in_sentences, entities = self.mentions.entities.spans(
            starts[passages], starts[passages + 1]
        )
        in_titles, titles = self.titles.pairs(passages)
        mentioned = np.concatenate([entities, titles], dtype=np.int64)
        return np.concatenate([in_sentences, in_titles]), mentioned

    def to_arrays(self) -> Arrays:
        """All fields as arrays, for `from_arrays`. A graph with a tail has none."""
        arrays: dict[str, NDArray[Any]] = {"is_phrase": self.is_phrase, "degrees": self.degrees}
        for name, lists in self._lists().items():
            arrays[f"{name}.starts"] = plain(lists).starts
            arrays[f"{name}.items"] = plain(lists).items
        arrays |= pack_strings("keys", self.keys)
        arrays |= pack_strings("words", self.names.words.strings)
        return {**arrays, **self.names.to_arrays(), **self.display_names.to_arrays()}

    @classmethod
    def from_arrays(cls, corpus: Corpus, arrays: Arrays) -> "TriGraph":
        """The inverse of `to_arrays`, for the same corpus."""
        keys = unpack_strings("keys", arrays)

        def lists(name: str) -> PlainLists:
            return PlainLists(arrays[f"{name}.starts"], arrays[f"{name}.items"])

        return cls(
            keys=keys,
            is_phrase=arrays["is_phrase"],
            degrees=arrays["degrees"],
            mentions=MentionGraph(lists("sentences"), lists("entities")),
            titled=lists("titled"),
            titles=lists("titles"),
            owners=corpus.sentence_passage,
            names=NameTrie.from_arrays(Words(unpack_strings("words", arrays)), arrays),
            display_names=DisplayNames.from_arrays(corpus, keys, arrays),
        )

    def _lists(self) -> dict[str, Lists]:
        return {
            "sentences": self.mentions.sentences,
            "entities": self.mentions.entities,
            "titled": self.titled,
            "titles": self.titles,
        }


class FilteredGraph:
    """The mentions of the allowed passages, counted on demand.

    Attributes:
        allowed: (n,) mask; None for all.
    """

    def __init__(self, graph: TriGraph, allowed: Mask | None = None) -> None:
        self.allowed = allowed
        self._graph = graph

    def mentions(self, entities: Int64) -> tuple[Int64, Int64, Int64]:
        """`TriGraph.passages_of`, among the allowed passages."""
        rows, counts, lengths = self._graph.passages_of(entities)
        if self.allowed is None:
            return rows, counts, lengths
        is_left = self.allowed[rows]
        return rows[is_left], counts[is_left], _left(lengths, is_left)

    def titles(self, entities: Int64) -> tuple[Numbers, Int64]:
        """Passages that have each entity as their title, end to end: rows, and (a,) how many."""
        owners, rows = self._graph.titled.pairs(entities)
        lengths = np.bincount(owners, minlength=len(entities))
        if self.allowed is None:
            return rows, lengths
        is_left = self.allowed[rows]
        return rows[is_left], _left(lengths, is_left)

    def degree(self, entities: Int64) -> Int64:
        """(a,) number of allowed passages that mention each entity."""
        if self.allowed is None:
            return self._graph.degrees[entities].astype(np.int64)
        return self.mentions(entities)[2]


def _left(lengths: Int64, is_left: Mask) -> Int64:
    """Lengths of lists, which are end to end, after a mask drops some items."""
    owners = np.repeat(np.arange(len(lengths)), lengths)[is_left]
    return np.bincount(owners, minlength=len(lengths))


def counted(owners: Int64, items: Int64, size: int) -> tuple[Int64, Int64, Int64]:
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


@dataclass(frozen=True, slots=True)
class _Numbers:
    """Entity numbers of the names in a corpus; -1 for a name that is no entity."""

    keys: Strings
    surface: Int64  # of each named-entity surface
    phrase: Int64  # of each noun phrase
    title_passage: Int64  # passage of each title
    title_entity: Int64  # its entity


def assemble(
    corpus: Corpus,
    settings: AssemblySettings,
    room: Path | None = None,
    *,
    base: Vocabulary | None = None,
) -> TriGraph:
    """Build the Tri-Graph of a corpus.

    Args:
        room: Folder for the tokenised sentences; None to hold them in memory.
        base: Names and recurring noun phrases of other passages, which count here too.
    """
    with_phrases = wants_phrases(settings, corpus)
    words = Words(None if base is None else base.names.words)
    normalised = normalise(
        corpus, words, sentences=settings.link_text, phrases=with_phrases, room=room
    )
    recurs = _recurring(corpus) if with_phrases else np.empty(0, bool)
    names = Strings(())
    if base is not None:
        known = base.names.somewhere_in(normalised.sentences)
        names = Strings(map(base.keys.__getitem__, known.tolist()))
        recurs |= np.fromiter((base.keys.find(key) >= 0 for key in normalised.phrases), bool)
    numbers = _number(corpus, settings, normalised, recurs, names)
    rows = NameWords.of(numbers.keys, normalised.words)
    size = len(numbers.keys)
    named = np.zeros(size, bool)
    named[numbers.surface[numbers.surface >= 0]] = True
    named[numbers.title_entity] = True
    named[find_all(names, numbers.keys)] = True
    trie = NameTrie(normalised.words, rows, np.flatnonzero(named & rows.informative))
    tagged = _entries(corpus.entities.sentence, numbers.surface[corpus.entities.code])
    titled = np.concatenate([tagged, _title_entries(corpus, numbers)], axis=1)
    tagged_pairs = _pairs(titled, size)
    del titled  # in a large corpus each of these takes a tenth of a gigabyte
    untagged = _entries(corpus.phrases.sentence, numbers.phrase[corpus.phrases.code])
    if settings.link_text:
        untagged = np.concatenate([untagged, _link(normalised, trie, rows)], axis=1)
    untagged_pairs = without(_pairs(untagged, size), tagged_pairs)
    del untagged
    pairs = np.sort(np.concatenate([tagged_pairs, untagged_pairs]), kind="stable")
    sentence, entity = np.divmod(pairs, max(size, 1))
    del pairs, tagged_pairs, untagged_pairs
    titled_pairs = distinct(numbers.title_entity * max(len(corpus), 1) + numbers.title_passage)
    title_entity, title_passage = np.divmod(titled_pairs, max(len(corpus), 1))
    mentioned = entity * max(len(corpus), 1) + corpus.sentence_passage[sentence]
    passages = distinct(np.concatenate([mentioned, titled_pairs])) // max(len(corpus), 1)
    titles = np.bincount(numbers.title_passage, minlength=len(corpus))
    return TriGraph(
        keys=numbers.keys,
        is_phrase=~named,
        degrees=np.bincount(passages, minlength=size).astype(np.int32),
        mentions=MentionGraph.of(sentence, entity, (len(corpus.sentence_passage), size)),
        titled=PlainLists.from_owners(title_entity, title_passage, size),
        titles=PlainLists.from_lengths(titles, numbers.title_entity.astype(np.int32)),
        owners=corpus.sentence_passage,
        names=trie,
        display_names=DisplayNames(
            corpus,
            numbers.keys,
            numbers.surface,
            np.stack([numbers.title_passage, numbers.title_entity]),
        ),
    )


def _number(
    corpus: Corpus,
    settings: AssemblySettings,
    normalised: NormalisedCorpus,
    recurs: Mask,
    names: Strings,
) -> _Numbers:
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
    return _Numbers(
        keys,
        find_all(normalised.surfaces, keys),
        phrase,
        np.array(title_passage, np.int64),
        find_all(named, keys),
    )


def wants_phrases(settings: AssemblySettings, corpus: Corpus) -> bool:
    """Whether noun phrases are entities of a corpus."""
    if settings.noun_phrases == "auto":
        return len(corpus.entities.code) < FEW_ENTITIES * len(corpus.phrases.code)
    return settings.noun_phrases == "on"


def _recurring(corpus: Corpus) -> Mask:
    """Mask of the noun phrases that occur in more than one passage, and not in too many."""
    passages = corpus.sentence_passage[corpus.phrases.sentence].astype(np.int64)
    pairs = distinct(corpus.phrases.code.astype(np.int64) * max(len(corpus), 1) + passages)
    frequency = np.bincount(pairs // max(len(corpus), 1), minlength=len(corpus.phrases.names))
    most = max(MAX_PHRASE_PASSAGES, MAX_PHRASE_SHARE * len(corpus))
    recurs: Mask = (frequency >= MIN_PHRASE_PASSAGES) & (frequency <= most)
    return recurs


def _entries(sentence: Int32, entity: Int64) -> Int64:
    """(2, m) sentence and entity of the mentions whose name is an entity."""
    is_entity = entity >= 0
    return np.stack([sentence[is_entity].astype(np.int64), entity[is_entity]])


def _title_entries(corpus: Corpus, numbers: _Numbers) -> Int64:
    """(2, m) sentence and entity for titles: every sentence mentions its passage's title."""
    first = np.searchsorted(corpus.sentence_passage, numbers.title_passage)
    last = np.searchsorted(corpus.sentence_passage, numbers.title_passage, side="right")
    length = last - first
    start = np.repeat(first - np.cumsum(length) + length, length)
    return np.stack(
        [start + np.arange(len(start), dtype=np.int64), np.repeat(numbers.title_entity, length)]
    )


def _link(normalised: NormalisedCorpus, trie: NameTrie, rows: NameWords) -> Int64:
    """(2, m) sentence and entity of names that occur word for word, tagged or not."""
    sentence, entity = trie.find_all(normalised.sentences)
    linked = rows.linked[entity]
    return np.stack([sentence[linked].astype(np.int64), entity[linked].astype(np.int64)])


def _pairs(entries: Int64, size: int) -> Int64:
    """Distinct (sentence, entity) pairs, ascending, each as the number sentence * size + entity."""
    return distinct(entries[0] * size + entries[1])
