"""Names in a corpus: normalising them, linking them in running text, and what passages go by.

A corpus is normalised once: every name to its entity key, every sentence to the numbers of its
words. This is where assembling a Tri-Graph spends its time. `NameTrie` then links the names of
entities in sentences and questions.

Passages go by their titles, and by what `defining_names` finds. An encyclopaedia's titles are
names. A company's are "Runbook: Lynx", "DR-12 Shore power", a path, or the name of a row. Their
parts, codes, a person's first name, and the codes or days that tell the rows of a table apart, say
as well what a passage is about, if few passages have them.
"""

import re
from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from wye.backends.arrays import (
    GrowingArray,
    PackedWords,
    SentenceWords,
    Strings,
    Words,
    distinct,
    ranges,
)
from wye.backends.notations import IS_DAY, days_within, phrases
from wye.backends.store.corpus import Corpus
from wye.backends.text import (
    FUNCTION_WORDS,
    cells_of,
    entity_key,
    is_informative,
    mention_key,
    title_keys,
    title_parts,
    tokenise,
)
from wye.backends.types import Arrays, Int32, Int64, Mask

MAX_WORDS = 8

# A single word that is shorter is not linked: it may just be capitalised at a sentence's start.
MIN_SINGLE_WORD = 4

_BLOCK = 2_000_000  # words of running text that are processed together, to bound memory
_TRIE_ARRAYS = ("_edges", "_ends", "_first")

_SHIFT = 32  # bits of a word's number in an edge

MOST_DOCUMENTS = 3  # a part of titles that more documents share is a kind of text, not a name

_PERSON = re.compile(r"[^\W\d_][\w'\u2019-]+(?: [^\W\d_][\w'\u2019.-]*){1,2}")
_HONORIFIC = re.compile(r"(?:Dr|Frau|Herr|Mr|Mrs|Ms|Miss|Prof)\.? ")
_KEY = re.compile(r"(?!(?:19|20)\d\d$)(?=[\w./-]*\d)[\w./-]{2,20}")


@dataclass(frozen=True, slots=True)
class NormalisedCorpus:
    """The normalised names and sentences of one version of a corpus."""

    words: Words  # the vocabulary of the sentences
    sentences: SentenceWords  # tokenised; none where names in text are not linked
    surfaces: Strings  # the key of each named-entity surface
    phrases: Strings  # the key of each noun phrase; empty where they are no entities
    titles: Sequence[tuple[str, ...]]  # the keys of each passage's title


def normalise(
    corpus: Corpus, words: Words, *, sentences: bool, phrases: bool, room: Path | None = None
) -> NormalisedCorpus:
    """Normalise a corpus; new words are added to the vocabulary.

    Sentences are tokenised, in a folder with room or in memory, to link names in running text. With
    `phrases`, noun phrases are entities.
    """
    memo, packed, lengths = PackedWords(words), *(GrowingArray(room, np.int32) for _ in range(2))
    for texts in corpus.iter_sentence_texts() if sentences else ():
        read = SentenceWords.of(texts, memo)
        packed.extend(read.packed)
        lengths.extend(read.lengths)
    memo.clear()
    of_passages = (text for _, text in corpus.iter_texts())
    names = defining_names([*corpus.titles], [*corpus.documents], of_passages)
    return NormalisedCorpus(
        words,
        SentenceWords(packed.read(), lengths.read()),
        Strings(map(mention_key, corpus.entities.names)),
        Strings(map(entity_key, corpus.phrases.names if phrases else ())),
        [(*title_keys(title), *more) for title, more in zip(corpus.titles, names, strict=True)],
    )


def says_enough(key: str) -> bool:
    """Whether a name is long enough to be linked wherever it occurs in running text."""
    return len(key) >= MIN_SINGLE_WORD or " " in key


@dataclass(frozen=True, slots=True)
class NameWords:
    """The tokenised names of e entities."""

    words: Int32  # (m,) int32 word numbers, name after name
    lengths: Int32  # (e,) int32 number of words of each name
    informative: Mask  # (e,) whether to look for a name at all; see `is_informative`
    linked: Mask  # (e,) whether a name is linked in running text; see `says_enough`

    @classmethod
    def of(cls, keys: Iterable[str], words: Words) -> "NameWords":
        """From entity keys; new words are added to the vocabulary."""
        numbers, lengths = array("i"), array("i")
        informative, linked = bytearray(), bytearray()
        for key in keys:
            tokens = tokenise(key)
            numbers.extend(words.number(token.casefold()) for token in tokens)
            lengths.append(len(tokens))
            informative.append(is_informative(key, tokens))
            linked.append(says_enough(key))
        return cls(
            np.frombuffer(numbers, np.int32),
            np.frombuffer(lengths, np.int32),
            np.frombuffer(informative, bool),
            np.frombuffer(linked, bool),
        )


@dataclass(frozen=True, slots=True)
class Link:
    """A span of tokens that names an entity."""

    entity: int
    start: int
    length: int


class NameTrie:
    """Finds names in token sequences, longest first from left to right.

    The trie is stored in arrays, so whole corpora are matched with a few array operations: a state
    and the next word form one number, looked up by binary search.

    Attributes:
        words: The vocabulary of the names.
        late: A trie of further names, whose vocabulary stands on this one; None if there is none.
    """

    late: "NameTrie | None" = None
    _lost: frozenset[int] = frozenset()

    def __init__(self, words: Words, names: NameWords, entities: Int64) -> None:
        """Build the trie of ascending entities by levels; of equal names the first counts."""
        self.words = words
        lengths = names.lengths[entities]
        usable = (lengths > 0) & (lengths <= MAX_WORDS)
        entities, lengths = entities[usable], lengths[usable].astype(np.int64)
        ends = np.cumsum(names.lengths, dtype=np.int64)[entities]
        flat = names.words[ranges(ends - lengths, ends)].astype(np.int64)
        starts = np.cumsum(lengths) - lengths
        state = np.zeros(len(entities), np.int64)
        edges: list[Int64] = []
        states = 1
        for depth in range(MAX_WORDS):
            alive = np.flatnonzero(lengths > depth)
            steps = (state[alive] << _SHIFT) | flat[starts[alive] + depth]
            new_edges, position = np.unique(steps, return_inverse=True)
            state[alive] = states + position
            states += len(new_edges)
            # States are numbered level by level, so the edges are ascending.
            edges.append(new_edges)
        self._edges: Int64 = np.concatenate(edges)
        self._ends: Int64 = np.full(states, -1, np.int64)
        final, first = np.unique(state, return_index=True)
        self._ends[final] = entities[first]
        # For the first word, most of which begin no name, a table is faster than a search.
        self._first: Int64 = np.full(int(edges[0][-1]) + 1 if len(edges[0]) else 0, -1, np.int64)
        self._first[edges[0]] = 1 + np.arange(len(edges[0]), dtype=np.int64)
        # Reading single numbers from memoryviews takes a third of the time.
        self._views = self._edges.data, self._ends.data

    @classmethod
    def of(cls, names: Sequence[tuple[str, int]], words: Words | None = None) -> "NameTrie":
        """From (name, entity) pairs, ascending by entity."""
        words = Words() if words is None else words
        rows = NameWords.of((name for name, _ in names), words)
        trie = cls(words, rows, np.arange(len(names), dtype=np.int64))
        number = np.array([entity for _, entity in names], np.int64)
        is_end = trie._ends >= 0
        trie._ends[is_end] = number[trie._ends[is_end]]
        return trie

    def to_arrays(self) -> Arrays:
        """The arrays of the trie, for `from_arrays`."""
        return {f"trie.{name}": getattr(self, name) for name in _TRIE_ARRAYS}

    @classmethod
    def from_arrays(cls, words: Words, arrays: Arrays) -> "NameTrie":
        """The inverse of `to_arrays`, given the same words."""
        trie = cls.__new__(cls)
        trie.words = words
        for name in _TRIE_ARRAYS:
            setattr(trie, name, arrays[f"trie.{name}"])
        trie._views = trie._edges.data, trie._ends.data
        return trie

    def without(self, entities: Collection[int]) -> "NameTrie":
        """A trie over the same arrays that does not find some entities either."""
        trie = copy(self)
        trie._lost = self._lost.union(entities)
        trie.late = self.late and self.late.without(entities)
        return trie

    def with_late(self, names: "NameTrie", entities: Int64) -> "NameTrie":
        """A trie that also finds late names, whose entities have these numbers here."""
        trie, late, ends = copy(self), copy(names), names._ends.copy()
        is_end = ends >= 0
        ends[is_end] = entities[ends[is_end]]
        late._ends, late._views = ends, (names._edges.data, ends.data)
        trie.words, trie.late = names.words, late
        return trie

    def find(self, tokens: Sequence[str]) -> list[Link]:
        """Names in one sequence of tokens, in upper or lower case, without overlaps."""
        codes = [self.words.find(token.casefold()) for token in tokens]
        links: list[Link] = []
        start = 0
        while start < len(codes):
            link = self._longest_from(codes, start)
            if link is not None:
                links.append(link)
            start += 1 if link is None else link.length
        return links

    def find_all(self, sentences: SentenceWords) -> tuple[Int32, Int32]:
        """Names with a capital or a digit first: positions of sentences, and their entities."""
        owners: list[Int32] = [np.empty(0, np.int32)]
        entities: list[Int32] = [np.empty(0, np.int32)]
        ends = np.cumsum(sentences.lengths, dtype=np.int64)
        first = 0
        while first < len(ends):
            start = int(ends[first] - sentences.lengths[first])
            last = max(first + 1, int(np.searchsorted(ends, start + _BLOCK, side="right")))
            packed = sentences.packed[start : ends[last - 1]].astype(np.int64)
            # END >> 1 is -1, the number of an unknown word.
            entity, position, _ = _leftmost(*self._longest(packed >> 1, np.flatnonzero(packed & 1)))
            owners.append(np.searchsorted(ends, start + position, side="right").astype(np.int32))
            entities.append(entity.astype(np.int32))
            first = last
        return np.concatenate(owners), np.concatenate(entities)

    def somewhere_in(self, sentences: SentenceWords) -> Int64:
        """Entities with the longest name at some position of sentences, overlapping or not."""
        packed = sentences.packed.astype(np.int64)
        return distinct(self._longest(packed >> 1, np.flatnonzero(packed & 1))[0])

    def _longest_from(self, codes: Sequence[int], start: int) -> Link | None:
        """The longest name that starts at a position; a loop is fastest for a few words."""
        edges, ends = self._views
        state = int(self._first[codes[start]]) if 0 <= codes[start] < len(self._first) else -1
        longest = None
        position = start
        while state >= 0:
            position += 1
            if ends[state] >= 0 and ends[state] not in self._lost:
                longest = Link(ends[state], start, position - start)
            if position == len(codes) or position - start == MAX_WORDS:
                break
            step = (state << _SHIFT) | codes[position]
            edge = bisect_left(edges, step) if codes[position] >= 0 else len(edges)
            state = edge + 1 if edge < len(edges) and edges[edge] == step else -1
        late = self.late._longest_from(codes, start) if self.late else None
        return late if late and (longest is None or late.length > longest.length) else longest

    def _longest(self, codes: Int64, starts: Int64) -> tuple[Int64, Int64, Int64]:
        """Longest name at each start that has one: entity, position, number of tokens."""
        first = codes[starts]
        is_first_word = (first >= 0) & (first < len(self._first))
        starts, first = starts[is_first_word], first[is_first_word]
        state = self._first[first]
        starts, state = starts[state >= 0], state[state >= 0]
        entity = self._named(state)
        length = (entity >= 0).astype(np.int64)
        alive = np.arange(len(starts), dtype=np.int64)
        for depth in range(1, MAX_WORDS):
            position = starts[alive] + depth
            inside = position < len(codes)
            alive, state, position = alive[inside], state[inside], position[inside]
            if not len(alive):
                break
            step = (state << _SHIFT) | codes[position]
            edge = np.searchsorted(self._edges, step)
            edge[edge == len(self._edges)] = 0
            hit = self._edges[edge] == step
            # Edge i leads to state i + 1, since state 0 is the root.
            alive, state = alive[hit], edge[hit] + 1
            ends = self._named(state)
            complete = ends >= 0
            entity[alive[complete]] = ends[complete]
            length[alive[complete]] = depth + 1
        named = entity >= 0
        return entity[named], starts[named], length[named]

    def _named(self, state: Int64) -> Int64:
        """The entity whose name ends in each state, -1 if none does."""
        ends = self._ends[state]
        if self._lost:
            ends[np.isin(ends, list(self._lost))] = -1
        return ends


def _leftmost(entity: Int64, start: Int64, length: Int64) -> tuple[Int64, Int64, Int64]:
    """Matches of entities (m,) from ascending starts without those that overlap an earlier one."""
    if not len(start):
        return entity, start, length
    end = start + length
    reach = np.maximum.accumulate(end)
    # A cluster begins where no earlier match reaches; most clusters have one match.
    begins = np.concatenate([[True], start[1:] >= reach[:-1]])
    is_left = begins.copy()
    crowded = np.flatnonzero(~begins)
    free_from = 0
    cluster = -1
    owner = np.cumsum(begins)[crowded]
    heads = end[np.flatnonzero(begins)]
    for position, which in zip(crowded.tolist(), owner.tolist(), strict=True):
        if which != cluster:
            cluster, free_from = which, int(heads[which - 1])
        if start[position] >= free_from:
            is_left[position] = True
            free_from = int(end[position])
    return entity[is_left], start[is_left], length[is_left]


def defining_names(
    titles: Sequence[str], documents: Sequence[str], texts: Iterable[str]
) -> list[tuple[str, ...]]:
    """Keys of the names of each passage that are no whole title."""
    whole = {key for title in titles for key in title_keys(title)}
    names = [_names_in_title(title, whole) for title in titles]
    shared: dict[str, set[str]] = defaultdict(set)
    people: dict[str, set[frozenset[str]]] = defaultdict(set)
    periods: dict[str, list[int]] = defaultdict(list)
    columns: dict[tuple[str, str], list[tuple[int, str]]] = defaultdict(list)
    for row, (title, document, text) in enumerate(zip(titles, documents, texts, strict=True)):
        for key in names[row]:
            shared[key].add(document)
        if not (cells := cells_of(text)):
            continue
        person = frozenset(_HONORIFIC.sub("", title).casefold().replace(",", "").split())
        for key in _names_in_table(title):
            names[row].append(key)
            people[key].add(person)
        row_text = f"{title}; {text}"
        for key in _on(days_within(row_text, [*phrases(row_text)])):
            periods[key].append(row)
        for label, value in (("", title), *cells):
            columns[document.rpartition(":")[0], label].append((row, value))
    for row, key in _keys_of_rows(columns):
        names[row].append(key)
        shared[key].add(documents[row])
    # A name that two people share is none; how many rows are about one person says nothing.
    defining = [
        {key: None for key in keys if len(shared[key]) <= MOST_DOCUMENTS and len(people[key]) <= 1}
        for keys in names
    ]
    for key, rows in periods.items():
        for row in rows if len(rows) <= MOST_DOCUMENTS else ():
            defining[row][key] = None
    return [*map(tuple, defining)]


def _names_in_title(title: str, whole: Collection[str]) -> list[str]:
    """Keys of the parts of a title that are no whole titles."""
    keys = dict.fromkeys(map(entity_key, title_parts(title)))
    return [key for key in keys if key and key not in whole and key not in FUNCTION_WORDS]


def _names_in_table(title: str) -> Iterator[str]:
    """Keys by which a person goes whose row in a table has this title."""
    for name in names_of_person(title):
        if len(key := entity_key(name)) > 2 and name[0].isupper():
            yield key


def _keys_of_rows(
    columns: Mapping[tuple[str, str], Sequence[tuple[int, str]]],
) -> Iterator[tuple[int, str]]:
    """Rows and keys, by the first column that tells a table's rows apart; titles have no label."""
    tables_with_keys = set()
    for (table, label), column in columns.items():
        values = [value if label else value.replace(" ", "") for _, value in column]
        if table in tables_with_keys or not are_keys(values):
            continue
        tables_with_keys.add(table)
        for row, value in column:
            if label:
                yield row, entity_key(value)
            for key in day_keys(value):
                yield row, key


def day_keys(text: str) -> list[str]:
    """Keys of the days in a text in whatever notation: "on 2031-05-07", and without the year."""
    return _on(key for phrase in phrases(text) for key in phrase.keys if IS_DAY.fullmatch(key))


def _on(days: Iterable[str]) -> list[str]:
    return [f"on {key.strip('-')}" for key in dict.fromkeys(days)]


def are_keys(values: Sequence[str]) -> bool:
    """Whether the values of a column are codes, numbers or dates that tell its rows apart.

    Numbers are keys if they have equally many digits, three or more, and are no years.
    """
    lengths = {len(value) for value in values}
    of_digits = all(value.isdecimal() for value in values)
    return (
        len(values) > 1
        and len({*values}) == len(values)
        and all(_KEY.fullmatch(value) for value in values)
        and not (of_digits and (len(lengths) > 1 or min(lengths) < 3))
    )


def names_of_person(title: str) -> Iterator[str]:
    """The names by which a person goes whose row has this title: "Zając, Piotr", "Piotr Zając"."""
    if honorific := _HONORIFIC.match(title):
        yield (title := title[honorific.end() :])
    last, comma, first = title.partition(", ")
    if comma and _PERSON.fullmatch(whole := f"{first} {last}"):
        yield whole
    elif not comma and _PERSON.fullmatch(title):
        first, *_, last = title.split()
    else:
        return
    yield from (first.split()[0], last, f"{first[0]}. {last}", f"{last} {first[0]}")
    if honorific:
        yield honorific[0] + last
