"""Names in running text: the longest that fits, from left to right."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from backends.linking import is_telling, tokenise
from backends.ragged import ragged
from backends.types import Int32, Int64, Mask
from backends.words import SentenceWords, Words

MAX_WORDS = 8
# A capital letter at the start of a sentence proves nothing for a shorter single word.
MIN_SINGLE_WORD = 4
# Words of running text that are looked at together, to bound memory.
_BLOCK = 2_000_000
# Bits of a word's number in an edge.
_SHIFT = 32


@dataclass(frozen=True, slots=True)
class Link:
    """A stretch of tokens that names an entity.

    Attributes:
        entity: Which.
        start: First token.
        length: Number of tokens.
    """

    entity: int
    start: int
    length: int


@dataclass(frozen=True, slots=True)
class Names:
    """The names of e entities in words.

    Attributes:
        words: (m,) int32 numbers of words, name after name.
        lengths: (e,) int32 how many words each has.
        telling: (e,) whether a name says enough to be looked for; see `linking.is_telling`.
        linked: (e,) whether it also says enough to be linked wherever it stands.
    """

    words: Int32
    lengths: Int32
    telling: Mask
    linked: Mask

    @classmethod
    def of(cls, keys: Iterable[str], words: Words) -> "Names":
        """From entity keys; words that are new get numbers."""
        numbers: list[int] = []
        lengths: list[int] = []
        telling: list[bool] = []
        linked: list[bool] = []
        for key in keys:
            row = [words.number(token.casefold()) for token in tokenise(key)]
            numbers += row
            lengths.append(len(row))
            telling.append(is_telling(key))
            linked.append(len(key) >= MIN_SINGLE_WORD or " " in key)
        return cls(
            np.array(numbers, np.int32),
            np.array(lengths, np.int32),
            np.array(telling, bool),
            np.array(linked, bool),
        )

    def joined(self, more: "Names", source: Int64) -> "Names":
        """Some of these and of more, by their place in both laid end to end."""
        lengths = np.concatenate([self.lengths, more.lengths])
        words = np.concatenate([self.words, more.words])
        return Names(
            words[ragged(lengths, source)],
            lengths[source],
            np.concatenate([self.telling, more.telling])[source],
            np.concatenate([self.linked, more.linked])[source],
        )


class NameTrie:
    """Finds names in token sequences, longest first from left to right.

    The trie is two sorted arrays, so whole corpora are matched with a few array operations: a
    state and the next word form one number, looked up by binary search.
    """

    def __init__(self, words: Words, names: Names, entities: Int64) -> None:
        """Build it level by level.

        Args:
            words: The numbers of words.
            names: Of all entities.
            entities: Those to find, ascending; of two names with the same words the first counts.
        """
        self._words = words
        lengths = names.lengths[entities]
        usable = (lengths > 0) & (lengths <= MAX_WORDS)
        entities, lengths = entities[usable], lengths[usable].astype(np.int64)
        flat = names.words[ragged(names.lengths, entities)].astype(np.int64)
        starts = np.cumsum(lengths) - lengths
        state = np.zeros(len(entities), np.int64)
        edges: list[Int64] = []
        states = 1
        for depth in range(MAX_WORDS):
            alive = np.flatnonzero(lengths > depth)
            steps = (state[alive] << _SHIFT) | flat[starts[alive] + depth]
            known, place = np.unique(steps, return_inverse=True)
            state[alive] = states + place
            states += len(known)
            # States are numbered level by level, so the edges come out ascending.
            edges.append(known)
        self._edges: Int64 = np.concatenate(edges)
        self._ends: Int64 = np.full(states, -1, np.int64)
        final, first = np.unique(state, return_index=True)
        self._ends[final] = entities[first]
        # From the start, where most words lead nowhere, a table is quicker than a search.
        self._first: Int64 = np.full(int(edges[0][-1]) + 1 if len(edges[0]) else 0, -1, np.int64)
        self._first[edges[0]] = 1 + np.arange(len(edges[0]), dtype=np.int64)

    @classmethod
    def of(cls, names: Sequence[tuple[str, int]], words: Words | None = None) -> "NameTrie":
        """From (name, entity) pairs, ascending by entity."""
        words = Words() if words is None else words
        rows = Names.of((name for name, _ in names), words)
        trie = cls(words, rows, np.arange(len(names), dtype=np.int64))
        number = np.array([entity for _, entity in names], np.int64)
        found = trie._ends >= 0
        trie._ends[found] = number[trie._ends[found]]
        return trie

    def find(self, tokens: Sequence[str], starts: Sequence[bool] | None = None) -> list[Link]:
        """Names in one sequence, none overlapping.

        Args:
            tokens: In any case.
            starts: Where a name may start; everywhere if None.
        """
        codes = np.array([self._words.find(token.casefold()) for token in tokens], np.int64)
        allowed = np.ones(len(tokens), bool) if starts is None else np.asarray(starts, bool)
        found = _leftmost(*self._longest(codes, np.flatnonzero(allowed)))
        return [Link(*link) for link in zip(*(part.tolist() for part in found), strict=True)]

    def find_all(self, sentences: SentenceWords) -> tuple[Int32, Int32]:
        """Names in many sentences that start like a name: with a capital letter or a digit.

        Returns:
            Places of the sentences, ascending, and the entities found there; repeats kept.
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
            entity, place, _ = _leftmost(*self._longest(packed >> 1, np.flatnonzero(packed & 1)))
            owners.append(np.searchsorted(ends, start + place, side="right").astype(np.int32))
            entities.append(entity.astype(np.int32))
            first = last
        return np.concatenate(owners), np.concatenate(entities)

    def _longest(self, codes: Int64, starts: Int64) -> tuple[Int64, Int64, Int64]:
        """Longest name from each start: entity, place, number of tokens, where there is one."""
        first = codes[starts]
        known = (first >= 0) & (first < len(self._first))
        starts, first = starts[known], first[known]
        state = self._first[first]
        starts, state = starts[state >= 0], state[state >= 0]
        entity = self._ends[state]
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
            # An edge leads to the state of its own number, after the one that all begin in.
            alive, state = alive[hit], edge[hit] + 1
            ends = self._ends[state]
            complete = ends >= 0
            entity[alive[complete]] = ends[complete]
            length[alive[complete]] = depth + 1
        named = entity >= 0
        return entity[named], starts[named], length[named]


def _leftmost(entity: Int64, start: Int64, length: Int64) -> tuple[Int64, Int64, Int64]:
    """Matches without those that overlap an earlier one that is kept.

    Args:
        entity: (m,) of each match.
        start: (m,) ascending.
        length: (m,) at least 1.
    """
    if not len(start):
        return entity, start, length
    end = start + length
    reach = np.maximum.accumulate(end)
    # Where nothing from before reaches, a new cluster begins; most have one match.
    begins = np.concatenate([[True], start[1:] >= reach[:-1]])
    kept = begins.copy()
    crowded = np.flatnonzero(~begins)
    free_from = 0
    cluster = -1
    owner = np.cumsum(begins)[crowded]
    heads = end[np.flatnonzero(begins)]
    for place, which in zip(crowded.tolist(), owner.tolist(), strict=True):
        if which != cluster:
            cluster, free_from = which, int(heads[which - 1])
        if start[place] >= free_from:
            kept[place] = True
            free_from = int(end[place])
    return entity[kept], start[kept], length[kept]
