"""Names in a corpus: normalising them, linking them in running text, and displaying them.

A corpus is normalised once: every name to its entity key, every sentence to the numbers of its
words. This is where assembling a Tri-Graph spends its time. `NameTrie` then links the names of
entities in sentences and questions, and `DisplayNames` turns entities back into names.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from wye.backends.numerics import distinct, ranges
from wye.backends.store.corpus import Corpus
from wye.backends.store.derived import Arrays, GrowingArray
from wye.backends.strings import PackedWords, SentenceWords, Strings, Words
from wye.backends.text import (
    entity_key,
    is_informative,
    mention_key,
    title_keys,
    title_names,
    tokenise,
)
from wye.backends.trigraph.definitions import defining_names, title_parts
from wye.backends.types import Int32, Int64, Mask

MAX_WORDS = 8

# A single word that is shorter is not linked: it may just be capitalised at a sentence's start.
MIN_SINGLE_WORD = 4

# Words of running text that are processed together, to bound memory.
_BLOCK = 2_000_000
_TRIE_ARRAYS = ("_edges", "_ends", "_first")

# Bits of a word's number in an edge.
_SHIFT = 32


@dataclass(frozen=True, slots=True)
class NormalisedCorpus:
    """The normalised names and sentences of one version of a corpus.

    Attributes:
        words: The vocabulary of the sentences.
        sentences: s tokenised sentences; none where names in running text are not linked.
        surfaces: The key of each named-entity surface.
        phrases: The key of each noun phrase; empty where they are no entities.
        titles: The keys of each passage's title.
    """

    words: Words
    sentences: SentenceWords
    surfaces: Strings
    phrases: Strings
    titles: Sequence[tuple[str, ...]]


def normalise(
    corpus: Corpus, words: Words, *, sentences: bool, phrases: bool, room: Path | None = None
) -> NormalisedCorpus:
    """Normalise a corpus.

    Args:
        words: A vocabulary, to which new words are added.
        sentences: Whether to tokenise sentences, for linking names in running text.
        phrases: Whether noun phrases are entities.
        room: Folder for the tokenised sentences; None to hold them in memory.
    """
    memo, packed, lengths = PackedWords(words), *(GrowingArray(room, np.int32) for _ in range(2))
    for texts in corpus.iter_sentence_texts() if sentences else ():
        read = SentenceWords.of(texts, memo)
        packed.extend(read.packed)
        lengths.extend(read.lengths)
    memo.clear()
    return NormalisedCorpus(
        words,
        SentenceWords(packed.read(), lengths.read()),
        Strings(map(mention_key, corpus.entities.names)),
        Strings(map(entity_key, corpus.phrases.names if phrases else ())),
        [
            (*title_keys(title), *names)
            for title, names in zip(corpus.titles, _defining(corpus), strict=True)
        ],
    )


def _defining(corpus: Corpus) -> list[tuple[str, ...]]:
    texts = (text for _, text in corpus.iter_texts())
    return defining_names([*corpus.titles], [*corpus.documents], texts)


def says_enough(key: str) -> bool:
    """Whether a name is long enough to be linked wherever it occurs in running text."""
    return len(key) >= MIN_SINGLE_WORD or " " in key


@dataclass(frozen=True, slots=True)
class NameWords:
    """The tokenised names of e entities.

    Attributes:
        words: (m,) int32 word numbers, name after name.
        lengths: (e,) int32 number of words of each name.
        informative: (e,) whether to look for a name at all; see `is_informative`.
        linked: (e,) whether a name is linked in running text; see `says_enough`.
    """

    words: Int32
    lengths: Int32
    informative: Mask
    linked: Mask

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
    """A span of tokens that names an entity.

    Attributes:
        start: Position of the first token.
        length: Number of tokens.
    """

    entity: int
    start: int
    length: int


class NameTrie:
    """Finds names in token sequences, longest first from left to right.

    The trie is stored in arrays, so whole corpora are matched with a few array operations: a state
    and the next word form one number, looked up by binary search.

    Attributes:
        words: The vocabulary of the names.
    """

    _lost: frozenset[int] = frozenset()

    def __init__(self, words: Words, names: NameWords, entities: Int64) -> None:
        """Build the trie level by level.

        Args:
            entities: Entities to find, ascending; among equal names the first entity is found.
        """
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
        """Names in many sentences that start like a name: with a capital letter or a digit.

        Returns:
            Positions of the sentences, ascending, and the entities found there; repeats kept.
        """
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
        return longest

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
    """Matches without those that overlap an earlier kept one.

    Args:
        entity: (m,) entity of each match.
        start: (m,) ascending.
        length: (m,) at least 1.
    """
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


class DisplayNames:
    """The most frequent spelling of each entity's name."""

    def __init__(self, corpus: Corpus, keys: Sequence[str], surface: Int64, titles: Int64) -> None:
        """Find the most frequent surface and the first title of each entity.

        Args:
            surface: Entity of each named-entity surface, -1 if it is none.
            titles: (2, t) passage and entity of each title, ascending by passage.
        """
        self._keys, self._size = keys, len(keys)
        self._titles = corpus.titles
        self._surfaces = corpus.entities.names
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
    def from_arrays(cls, corpus: Corpus, keys: Sequence[str], arrays: Arrays) -> "DisplayNames":
        """The inverse of `to_arrays`, given the same corpus and keys."""
        self = cls.__new__(cls)
        self._keys, self._size = keys, len(keys)
        self._titles, self._surfaces = corpus.titles, corpus.entities.names
        self._tagged, self._titled = arrays["display.tagged"], arrays["display.titled"]
        return self

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


Degree = Callable[[Int64], Int64]
"""From (a,) entities to (a,) numbers of passages that mention them."""


def allowed_names(
    names: NameTrie, find: Callable[[NameTrie], list[Link]], degree: Degree
) -> list[Link]:
    """Names of entities that allowed passages mention.

    A longer name that only other passages have does not hide a shorter one.

    Args:
        find: Finds names of a trie in some text.
    """
    while True:
        links = find(names)
        degrees = degree(np.array([link.entity for link in links], np.int64)).tolist()
        hidden = [link.entity for link, times in zip(links, degrees, strict=True) if not times]
        if not hidden:
            return links
        names = names.without(hidden)
