"""The graph of one question: the few rows that it needs, and the walk that all graphs have.

Some 150 rows rank as the whole corpus does: the best by vector and by words, passages of the names
in the question, passages of the names that bridging reached from there, and those titled by names
in the first text hits. Reading them takes three looks at the dataset; the small graph is assembled
from the names stored in the rows, and from then on everything is what it is in memory.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wye.backends.dataset.arms import (
    CountedLexical,
    DatasetDense,
    DatasetLexical,
    Narrowed,
    narrowed,
)
from wye.backends.dataset.columns import (
    MENTIONED,
    TITLED,
    HashedKeys,
    Packed,
    StoredMentions,
    StoredSpellings,
    UInt64,
    end_to_end,
    hashed,
    key_word,
    spelling,
    spellings,
)
from wye.backends.dataset.version import MOST_KEYS, DatasetVersion, Matches, Row, titles_in
from wye.backends.dataset.words import LINKED, PHRASE, Word
from wye.backends.dense import DenseRetriever, DenseSettings
from wye.backends.errors import BackendError
from wye.backends.lexical import LexicalSettings
from wye.backends.store.corpus import Corpus
from wye.backends.text import entity_key, tokenise
from wye.backends.trigraph.explanation import Explanation
from wye.backends.trigraph.graph import FilteredGraph, MentionGraph, PlainLists, TriGraph
from wye.backends.trigraph.names import NameTrie
from wye.backends.trigraph.promotion import MOST
from wye.backends.trigraph.retriever import TriGraphBatch, TriGraphRetriever
from wye.backends.trigraph.seeds import Seed, SeedStats
from wye.backends.trigraph.settings import TriGraphSettings
from wye.backends.types import Int64, Mask, NameCoverage, Query, Ranking, Scores, bits

NEAR, WORDED, SEEDED, REACHED, TITLES = 50, 50, 50, 50, 10
"""Rows by vector, by words, of the seeds' names, of names that bridging reached, and of titles."""
_FIRST = 10
"""How many of the first hits by vector and by words have names whose passages are read."""
_KEYED = 300
"""Rows with some of the names that are looked at, to choose the best of them."""
COUNTED = 2_000
"""Under a filter a name's passages are counted up to here."""


@dataclass(frozen=True)
class CountedGraph(TriGraph):
    """A graph of few rows with the counts of the whole corpus.

    Attributes:
        keys: The names' keys, by hash.
        title_counts: (e,) how many passages of the corpus have each name as their title.
        with_phrases: Whether noun phrases are names in the corpus.
    """

    keys: HashedKeys
    title_counts: Int64
    with_phrases: bool

    @cached_property
    def has_phrases(self) -> bool:
        """Whether noun phrases are entities."""
        return self.with_phrases


class SmallIndex:
    """Some rows as a corpus of their own, with arms whose counts are those of the whole corpus."""

    def __init__(
        self,
        version: DatasetVersion,
        rows: Sequence[Row],
        lexical: LexicalSettings,
        *,
        known: Mapping[str, Word] | None = None,
        is_filtered: bool = False,
    ) -> None:
        """Take rows, ascending by id.

        Args:
            known: Spelling -> name, of the names that a question may have.
            is_filtered: Whether the rows are only those that a filter lets through, which then are
                all that counts.
        """
        self.version, self.rows = version, rows
        self.lexical = CountedLexical(version, lexical, rows)
        self.corpus = self._corpus()
        self._known, self._is_filtered = known or {}, is_filtered

    @cached_property
    def dense(self) -> DenseRetriever:
        """The dense arm over the rows."""
        return DenseRetriever(self.corpus.ids, self.corpus.vectors, DenseSettings(kind="exact"))

    def retriever(self, settings: TriGraphSettings) -> TriGraphRetriever:
        """The graph arm over the rows."""
        lexical = self.lexical.score if settings.weighs_lexical else None
        return TriGraphRetriever(self.corpus, settings, lexical, self.graph, near=self.dense.scores)

    def _corpus(self) -> Corpus:
        rows, version = self.rows, self.version
        packed = [row.graph for row in rows]
        lengths = [len(each.vectors) for each in packed]
        sentences = [(each, n) for each in packed for n in range(len(each.vectors))]
        d = version.dimension
        return Corpus(
            version=version.index.version,
            ids=[row.id for row in rows],
            titles=[row.title for row in rows],
            documents=[row.document for row in rows],
            chunks=np.array([row.chunk for row in rows], np.int32),
            vectors=np.stack([row.vector for row in rows]) if rows else np.empty((0, d), "f4"),
            sentence_vectors=np.concatenate(
                [np.empty((0, d), np.float16), *(each.vectors for each in packed)]
            ),
            sentence_passage=np.repeat(np.arange(len(rows), dtype=np.int32), lengths),
            entities=StoredMentions(sentences),
            phrases=StoredMentions([]),
            hashes=[],
            two=None,
            metadata=[row.metadata for row in rows],
            _texts=[row.text for row in rows],
            _addresses=np.array([row.address for row in rows], np.int64),
            _fragments={},
            _dataset=version.dataset,
            _index=version.index,
        )

    @cached_property
    def graph(self) -> CountedGraph:
        """The graph of the rows, assembled from the names that are stored in them."""
        packed = [row.graph for row in self.rows]
        names = _Numbered.of(packed)
        e = len(names.hashes)
        sentence, entity = names.mentions(packed)
        of_titles = [
            names.entities[each.titles + start]
            for each, start in zip(packed, names.starts[:-1].tolist(), strict=True)
        ]
        lengths = np.array([len(each) for each in of_titles], np.int64)
        titles = np.concatenate([np.empty(0, np.int64), *of_titles])
        passage = np.repeat(np.arange(len(packed)), lengths)
        order = np.lexsort((passage, titles))
        if self._is_filtered:
            pairs = np.unique(names.entities * max(len(packed), 1) + names.owners)
            degrees = np.bincount(pairs // max(len(packed), 1), minlength=e)
            title_counts = np.bincount(titles, minlength=e)
        else:
            degrees = _most(names.entities, [each.passages for each in packed], e)
            title_counts = _most(names.entities, [each.titled for each in packed], e)
        is_phrase = _most(names.entities, [each.is_phrase for each in packed], e) > 0
        keys = HashedKeys(names.hashes, names.texts)
        known = self._known.items()
        links = [(keys.find(word.text), text) for text, word in known if word.bits & LINKED]
        return CountedGraph(
            keys=keys,
            is_phrase=is_phrase,
            degrees=degrees.astype(np.int32),
            mentions=MentionGraph.of(sentence, entity, (len(self.corpus.sentence_passage), e)),
            titled=PlainLists.from_owners(titles[order], passage[order].astype(np.int32), e),
            titles=PlainLists.from_lengths(lengths, titles.astype(np.int32)),
            owners=self.corpus.sentence_passage,
            names=NameTrie.of([(text, entity) for entity, text in sorted(links) if entity >= 0]),
            display_names=StoredSpellings(names.texts),
            title_counts=title_counts,
            with_phrases=self.version.words.about.has_phrases,
        )


@dataclass(frozen=True, slots=True)
class _Numbered:
    """The names of several passages, numbered by hash.

    Attributes:
        hashes: (e,) hash of each name's key, ascending.
        texts: (e,) where the texts of each name are stored.
        entities: (f,) the name at each position of the passages' lists, which are end to end.
        owners: (f,) the passage of each position.
        starts: Where each passage's list begins, and where the last ends.
    """

    hashes: UInt64
    texts: Sequence[tuple[Packed, int]]
    entities: Int64
    owners: Int64
    starts: Int64

    @classmethod
    def of(cls, packed: Sequence[Packed]) -> "_Numbered":
        """Number the names of passages."""
        flat = np.concatenate([np.empty(0, np.uint64), *(each.keys for each in packed)])
        hashes, first, entities = np.unique(flat, return_index=True, return_inverse=True)
        sizes = [len(each.keys) for each in packed]
        starts, owners = end_to_end(sizes), np.repeat(np.arange(len(packed)), sizes)
        rows = owners[first]
        places = zip(rows.tolist(), (first - starts[rows]).tolist(), strict=True)
        texts = [(packed[row], place) for row, place in places]
        return cls(hashes, texts, entities.astype(np.int64), owners, starts)

    def mentions(self, packed: Sequence[Packed]) -> tuple[Int64, Int64]:
        """Sentence and name of each mention, ascending by both."""
        counts = [len(each.mentions) for each in packed]
        pairs = [np.empty((0, 2), np.int64), *(each.mentions.astype(np.int64) for each in packed)]
        both, first = np.concatenate(pairs), end_to_end([len(each.vectors) for each in packed])
        sentence = both[:, 0] + np.repeat(first[:-1], counts)
        entity = self.entities[both[:, 1] + np.repeat(self.starts[:-1], counts)]
        order = np.lexsort((entity, sentence))
        return sentence[order], entity[order]


def _most(entities: Int64, counts: Sequence[NDArray[Any]], size: int) -> Int64:
    """(e,) the highest of what several rows state, since later rows know more."""
    most = np.zeros(size, np.int64)
    np.maximum.at(most, entities, np.concatenate([np.empty(0, np.int64), *counts]))
    return most


class _OneQuestion(TriGraphBatch):
    """A batch of one question over a graph."""

    def __init__(self, arm: TriGraphRetriever, query: Query, graph: CountedGraph) -> None:
        super().__init__(arm, [query], FilteredGraph(graph))
        self.graph = graph

    def stats(self) -> list[tuple[Seed, SeedStats]]:
        """The names in the question's words, with how specific they are."""
        seeds = self._seeds_in_words(0)
        return [*zip(seeds, self._stats(seeds), strict=True)]

    def seed_hashes(self) -> list[int]:
        """Hashes of the keys of all seeds."""
        return [int(self.graph.keys.hashes[seed.entity]) for seed in self._seeds_of(0)]

    def active(self) -> list[int]:
        """Hashes of the keys of the active names, the most active first."""
        (trace,) = self.traces([0])
        order = np.argsort(-trace.activation.value, kind="stable")
        hashes: list[int] = self.graph.keys.hashes[trace.activation.entities[order]].tolist()
        return hashes


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
        self.dense, self.lexical_arm = dense, lexical

    def needs_vector(self, mention: str) -> bool:
        """No name is looked for by its vector."""
        del mention
        return False

    def search(
        self, queries: Sequence[Query], k: int, allowed: Mask | None = None
    ) -> list[Ranking]:
        """At most k passages for each query, best first."""
        return self.batch(queries, allowed).search(range(len(queries)), k)

    def batch(self, queries: Sequence[Query], allowed: Mask | None = None) -> "DatasetGraphBatch":
        """A batch of questions, each with a graph of its own."""
        return DatasetGraphBatch(self, queries, narrowed(allowed))

    @cached_property
    def _empty(self) -> SmallIndex:
        return self.small([])

    def over(self, graph: TriGraph) -> TriGraphRetriever:
        """The arm over a graph without passages, which finds names."""
        empty, settings = self._empty, self.settings
        lexical = empty.lexical.score if settings.weighs_lexical else None
        return TriGraphRetriever(empty.corpus, settings, lexical, graph, near=empty.dense.scores)

    def of_names(
        self, known: Mapping[str, Word], count: Callable[[Word], tuple[int, int]]
    ) -> CountedGraph:
        """A graph that has names and how often they occur, but no passages.

        Args:
            known: Spelling -> name.
            count: How many passages mention a name, and how many are titled by it.
        """
        words = {hashed(word.text): word for word in known.values()}
        hashes = sorted(words)
        ordered = [words[hash_] for hash_ in hashes]
        numbers = {word.text: n for n, word in enumerate(ordered)}
        linked = [(numbers[w.text], text) for text, w in known.items() if w.bits & LINKED]
        counts = np.array([count(word) for word in ordered], np.int64).reshape(-1, 2)
        texts = [word.text for word in ordered]
        return replace(
            self._empty.graph,
            keys=HashedKeys(np.array(hashes, np.uint64), texts),
            is_phrase=np.array([bool(word.bits & PHRASE) for word in ordered], bool),
            degrees=counts[:, 0].astype(np.int32),
            # Which passages these are is not known yet, only how many.
            titled=PlainLists.from_lengths(
                counts[:, 1], np.zeros(int(counts[:, 1].sum()), np.int32)
            ),
            names=NameTrie.of([(text, number) for number, text in sorted(linked)]),
            display_names=StoredSpellings(texts),
            title_counts=counts[:, 1],
        )

    def question(
        self, rows: Sequence[Row], query: Query, known: Mapping[str, Word], allowed: Narrowed
    ) -> _OneQuestion:
        """A question over the graph of some rows."""
        small = self.small(rows, known=known, is_filtered=allowed.predicate is not None)
        return _OneQuestion(small.retriever(self.settings), query, small.graph)

    def small(
        self,
        rows: Sequence[Row],
        *,
        known: Mapping[str, Word] | None = None,
        is_filtered: bool = False,
    ) -> SmallIndex:
        """Rows as an index of their own."""
        settings = self.lexical_arm.settings
        return SmallIndex(self.version, rows, settings, known=known, is_filtered=is_filtered)


class DatasetGraphBatch(TriGraphBatch):
    """A batch of questions, identified by position; each has a graph of the rows that it needs."""

    def __init__(self, arm: DatasetGraph, queries: Sequence[Query], allowed: Narrowed) -> None:
        self._graph_arm, self._queries, self._allowed = arm, queries, allowed
        self._looked: dict[int, tuple[int, _OneQuestion]] = {}
        self._walks: dict[int, _OneQuestion] = {}
        self._degrees: dict[str, tuple[int, int]] = {}

    def needs_parse(self, position: int) -> bool:
        """Whether a question's seeds depend on its mentions, which a parse finds."""
        return self._in_words_of(position).needs_parse(0)

    def names(self, position: int) -> list[str]:
        """Names of entities in a question's words, of several words or spelt as names."""
        return self._in_words_of(position).names(0)

    def seeds(self, positions: Sequence[int]) -> list[tuple[SeedStats, ...]]:
        """The seeds of some questions, with how specific they are; needs no walk."""
        return [self._in_words_of(position).seeds([0])[0] for position in positions]

    def names_in(
        self, positions: Sequence[int], ids: Sequence[Sequence[str]]
    ) -> list[tuple[NameCoverage, ...]]:
        """Where the names in some questions' words occur in a few passages; needs no parse."""
        return [self._covered(*pair) for pair in zip(positions, ids, strict=True)]

    def search(
        self,
        positions: Sequence[int],
        k: int,
        similarities: Mapping[int, Scores] | None = None,
        lexical: Mapping[int, Scores] | None = None,
    ) -> list[Ranking]:
        """At most k passages for some of the questions; the text arms' scores are not needed."""
        del similarities, lexical
        rankings = []
        for position in positions:
            if position not in self._walks:
                self._walks[position] = self._walk(position)
            (ranking,) = self._walks[position].search([0], k)
            rankings.append(replace(ranking, candidates=self._graph_arm.version.count))
        return rankings

    def explain(self, position: int, ranking: Ranking) -> Explanation:
        """Explain the ranks of a ranking's passages, as far as they are in the question's graph."""
        return self._walks[position].explain(0, ranking)

    def _in_words_of(self, position: int) -> _OneQuestion:
        """A graph without passages that has the names of a question."""
        query = self._queries[position]
        key = len(query.mentions)
        if position not in self._looked or self._looked[position][0] != key:
            graph = self._graph_arm.of_names(self._known(query), self._count)
            self._looked[position] = key, _OneQuestion(self._graph_arm.over(graph), query, graph)
        return self._looked[position][1]

    def _known(self, query: Query) -> dict[str, Word]:
        """The names that a question's words or mentions may be."""
        mentioned = [spelling(entity_key(mention.text)) for mention in query.mentions]
        in_words = spellings(tokenise(query.text))
        return self._graph_arm.version.names([*in_words, *filter(None, mentioned)])

    def _count(self, word: Word) -> tuple[int, int]:
        """How many allowed passages mention a name, and how many of them have it as their title."""
        predicate, version = self._allowed.predicate, self._graph_arm.version
        if predicate is None:
            return word.passages, word.titles
        if word.text not in self._degrees:
            number = hashed(word.text)
            mentioned, titled = (
                len(version.with_keys([key_word(kind, number)], COUNTED, predicate))
                for kind in (MENTIONED, TITLED)
            )
            self._degrees[word.text] = mentioned, titled
        return self._degrees[word.text]

    def _covered(self, position: int, ids: Sequence[str]) -> tuple[NameCoverage, ...]:
        batch, version = self._in_words_of(position), self._graph_arm.version
        row_of = {row.id: row for row in version.rows(version.addresses(ids).values())}
        rows = [row_of[id_] for id_ in ids if id_ in row_of]
        coverages = []
        for seed, stats in batch.stats():
            hash_ = batch.graph.keys.hashes[seed.entity]
            at = [np.flatnonzero(row.graph.keys == hash_) for row in rows]
            in_titles = [
                bool(len(p)) and bool(np.isin(p, row.graph.titles).any())
                for row, p in zip(rows, at, strict=True)
            ]
            coverages.append(
                NameCoverage(
                    mention=seed.mention,
                    value=seed.value,
                    degree=stats.passages,
                    titled=stats.titles,
                    titles=bits(in_titles),
                    texts=bits(bool(len(p)) for p in at),
                )
            )
        return tuple(coverages)

    def _walk(self, position: int) -> _OneQuestion:
        """The graph of a question, of the rows that it needs."""
        arm, query, allowed = self._graph_arm, self._queries[position], self._allowed
        version, predicate = arm.version, allowed.predicate
        near = arm.dense.matches(query.vector, NEAR, allowed)
        worded = arm.lexical_arm.matches(query.text, WORDED, allowed)
        known, seeds = self._known(query), self._in_words_of(position).seed_hashes()
        closeness = _closeness(near, worded)
        addresses = [*near.addresses[:NEAR], *worded.addresses[:WORDED]]
        addresses += self._keyed(seeds, closeness, SEEDED)
        batch = arm.question(version.rows(addresses), query, known, allowed)
        active = batch.active()[:MOST_KEYS]
        first = {*near.addresses[:_FIRST], *worded.addresses[:_FIRST]}
        titles = titles_in([row.graph for row in version.rows(first)], MOST)
        more = self._keyed([hash_ for hash_ in active if hash_ not in seeds], closeness, REACHED)
        words = [key_word(TITLED, hash_) for hash_ in dict.fromkeys([*active, *titles])]
        more += version.with_keys(words[:MOST_KEYS], TITLES + len(active), predicate)
        return arm.question(version.rows([*addresses, *more]), query, known, allowed)

    def _keyed(self, hashes: Sequence[int], closeness: Mapping[int, float], most: int) -> list[int]:
        """Addresses of the passages with some names that are closest to the question."""
        words = [key_word(kind, hash_) for hash_ in hashes for kind in (MENTIONED, TITLED)]
        version, predicate = self._graph_arm.version, self._allowed.predicate
        rarity = version.with_keys(words, _KEYED, predicate)
        highest = max(rarity.values(), default=1.0) or 1.0
        order = sorted(
            rarity, key=lambda row: (-(closeness.get(row, 0.0) + rarity[row] / highest), row)
        )
        return order[:most]


def _closeness(near: Matches, worded: Matches) -> dict[int, float]:
    """Address -> similarity and BM25 of the proposed rows, each from 0 to 1, summed."""
    closeness: dict[int, float] = {}
    for matches in (near, worded):
        scores = np.asarray(matches.scores, np.float64)
        low, high = (scores.min(), scores.max()) if len(scores) else (0.0, 0.0)
        scaled = (scores - low) / (high - low) if high > low else scores * 0 + 1
        for address, value in zip(matches.addresses, scaled.tolist(), strict=True):
            closeness[address] = closeness.get(address, 0.0) + value
    return closeness
