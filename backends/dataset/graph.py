"""The graph arm over a dataset that Lance searches.

It is the walk of `trigraph.retriever` on `InDataset`. Names are looked up by what may be one in a
question's words.
"""

from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Self, cast

import numpy as np

from wye.backends.dataset.arms import (
    DEPTH,
    CountedLexical,
    DatasetDense,
    DatasetLexical,
    Narrowed,
    narrowed,
)
from wye.backends.dataset.columns import MENTIONED, TITLED, Row, hashed, spelling, spellings
from wye.backends.dataset.question import InDataset, entities_of, entity_of
from wye.backends.dataset.version import DatasetVersion
from wye.backends.dataset.words import LINKED, NAME, PHRASE, Word
from wye.backends.errors import BackendError
from wye.backends.numerics import top_rows
from wye.backends.store.corpus import Corpus
from wye.backends.trigraph.explanation import Trace
from wye.backends.trigraph.graph import FilteredGraph, TriGraph
from wye.backends.trigraph.names import Link, NameTrie
from wye.backends.trigraph.question import PassageSource
from wye.backends.trigraph.retriever import TriGraphBatch, TriGraphRetriever, reason_of
from wye.backends.trigraph.seeds import SeedFinder
from wye.backends.trigraph.settings import TriGraphSettings
from wye.backends.trigraph.walk import Promoted
from wye.backends.types import Int64, Mask, NameCoverage, Query, RankedHit, Ranking, Scores, bits

COUNTED = 2_000  # under a filter a name's passages are counted up to here


class NamesInWords(NameTrie):
    """Finds the names of the whole corpus in words; an entity is the hash of its key.

    Attributes:
        known: What is known of the names that were met.
    """

    def __init__(self, version: DatasetVersion) -> None:
        self.version = version
        self.known: dict[int, Word] = {}

    def entity(self, word: Word) -> int:
        """The entity of a name."""
        entity = entity_of(word.text)
        self.known[entity] = word
        return entity

    def without(self, entities: Collection[int]) -> "NamesInWords":
        """See `NameTrie`."""
        trie = copy(self)
        trie._lost = self._lost.union(entities)
        return trie

    def find(self, tokens: Sequence[str]) -> list[Link]:
        """See `NameTrie`."""
        words = self.version.words(NAME, spellings(tokens))
        linked = [(t, self.entity(w)) for t, w in words.items() if w.bits & LINKED]
        shown = [(spelt, entity) for spelt, entity in linked if entity not in self._lost]
        links = NameTrie.of([(spelt, n) for n, (spelt, _) in enumerate(shown)]).find(tokens)
        return [replace(link, entity=shown[link.entity][1]) for link in links]


@dataclass(frozen=True)
class _Vocabulary:
    """What `SeedFinder` needs of a graph, for the names of the whole corpus."""

    names: NamesInWords
    has_phrases: bool

    @property
    def keys(self) -> Self:
        """The names, by their keys."""
        return self

    def find(self, key: str) -> int:
        """The entity with a key, -1 if no passage mentions it."""
        word = self.names.version.words(NAME, [spelling(key)]).get(spelling(key))
        return self.names.entity(word) if word and word.text == key else -1

    @property
    def is_phrase(self) -> Mapping[int, bool]:
        """Whether each name is only known as a noun phrase."""
        return {entity: bool(word.bits & PHRASE) for entity, word in self.names.known.items()}


class _Counts(FilteredGraph):
    """How many allowed passages mention a name or have it as their title."""

    def __init__(self, names: NamesInWords, predicate: str | None) -> None:
        self._names, self._predicate = names, predicate
        self._counts: dict[int, tuple[int, int]] = {}

    def degree(self, entities: Int64) -> Int64:
        """See `FilteredGraph`."""
        return np.array([self._of(entity)[0] for entity in entities.tolist()], np.int64)

    def titles(self, entities: Int64) -> tuple[Int64, Int64]:
        """As in `FilteredGraph`, without rows."""
        counts = [self._of(entity)[1] for entity in entities.tolist()]
        return np.empty(0, np.int64), np.array(counts, np.int64)

    def _of(self, entity: int) -> tuple[int, int]:
        word, predicate = self._names.known[entity], self._predicate
        if predicate is None:
            return word.passages, word.titles
        if entity not in self._counts:
            find = partial(self._names.version.with_keys, [hashed(word.text)])
            mentioned, titled = (find([kind], COUNTED, predicate) for kind in (MENTIONED, TITLED))
            self._counts[entity] = len(mentioned), len(titled)
        return self._counts[entity]


class DatasetGraph(TriGraphRetriever):
    """The graph arm over a dataset."""

    def __init__(
        self,
        version: DatasetVersion,
        settings: TriGraphSettings,
        dense: DatasetDense,
        lexical: DatasetLexical,
    ) -> None:
        """Search a version.

        Raises:
            BackendError: The settings need all passages or all vectors of names at once.
        """
        if settings.activation == "facts" or settings.seeds.nearest or not settings.candidates:
            raise BackendError(
                "The graph's activation by facts, seeds by nearest vector and walks over all "
                "passages need the whole corpus in memory. Set WYE_ENGINE=memory, or leave these "
                "settings out."
            )
        self.version, self.settings = version, settings
        self.dense, self.lexical_arm, self.units = dense, lexical, None
        self.names = NamesInWords(version)
        vocabulary = _Vocabulary(self.names, version.about.has_phrases)
        # The corpus is read for seeds by nearest vector alone.
        nothing = cast("Corpus", None)
        self.finder = SeedFinder(cast("TriGraph", vocabulary), nothing, settings.seeds)

    def search(
        self, queries: Sequence[Query], k: int, allowed: Mask | None = None
    ) -> list[Ranking]:
        """See `TriGraphRetriever`; no array has a row for each passage, so nothing is split."""
        return self.batch(queries, allowed).search(range(len(queries)), k)

    def batch(self, queries: Sequence[Query], allowed: Mask | None = None) -> "DatasetGraphBatch":
        """A batch of questions, each with a graph of its own."""
        return DatasetGraphBatch(self, queries, narrowed(allowed))

    def lexical_of(self, rows: Sequence[Row]) -> CountedLexical:
        """The lexical arm over some rows, ascending by id."""
        arm = self.lexical_arm
        return CountedLexical(self.version, arm.settings, arm.terms, rows)


class DatasetGraphBatch(TriGraphBatch):
    """A batch of questions, identified by position; each has a graph of the rows that it needs."""

    def __init__(self, arm: DatasetGraph, queries: Sequence[Query], allowed: Narrowed) -> None:
        super().__init__(arm, queries, _Counts(arm.names, allowed.predicate))
        self._graph_arm, self._allowed = arm, allowed

    def needs_parse(self, position: int) -> bool:
        """See `TriGraphBatch`. The encoder often runs now, so words are searched for meanwhile."""
        arm, query = self._graph_arm, self._queries[position]
        arm.lexical_arm.begin(query.text, DEPTH, self._allowed)
        return super().needs_parse(position)

    def names_in(
        self, positions: Sequence[int], ids: Sequence[Sequence[str]]
    ) -> list[tuple[NameCoverage, ...]]:
        """See `TriGraphBatch`."""
        return [self._coverages(*pair) for pair in zip(positions, ids, strict=True)]

    def _coverages(self, position: int, ids: Sequence[str]) -> tuple[NameCoverage, ...]:
        row_of = {row.id: row for row in self._graph_arm.version.rows_of(ids)}
        rows = [row_of[id_] for id_ in ids if id_ in row_of]
        seeds, coverages = self._seeds_in_words(position), []
        for seed, stats in zip(seeds, self._stats(seeds), strict=True):
            in_titles = bits(seed.entity in entities_of(row)[row.titles] for row in rows)
            in_texts = bits(seed.entity in entities_of(row) for row in rows)
            counts = stats.passages, stats.titles
            coverages.append(NameCoverage(seed.mention, seed.value, *counts, in_titles, in_texts))
        return tuple(coverages)

    def _rank(self, trace: Trace, promoted: Promoted, k: int) -> Ranking:
        best, count = top_rows(promoted.mass, k), self._graph_arm.version.count
        rows = self._graph_arm.version.rows(trace.passages[best].tolist())
        ids = {row.address: row.id for row in rows}
        pairs = zip(trace.passages[best].tolist(), promoted.mass[best].tolist(), strict=True)
        hits = (RankedHit(ids[row], score, n) for n, (row, score) in enumerate(pairs, start=1))
        return Ranking(self._arm.name, tuple(hits), count, reason_of(trace))

    def _sources(
        self,
        positions: Sequence[int],
        similarities: Mapping[int, Scores],
        lexical: Mapping[int, Scores],
    ) -> list[PassageSource]:
        """The dataset as each of some questions sees it; the text arms' scores are not needed."""
        del similarities, lexical
        arm, sources = self._graph_arm, list[PassageSource]()
        arm.lexical_arm.learn([self._queries[position].text for position in positions])
        for position in positions:
            named = sorted(seed.entity for seed in self._seeds_of(position))
            source = InDataset(arm, self._queries[position], self._allowed)
            sources.append(source.begin(self._allowed, named))
        return sources
