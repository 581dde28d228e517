"""A dataset as a source of the graph of a question; see `trigraph.question`.

The rows that a question needs are found and read in two rounds, and what ranking needs of them is
stored in them. Names are looked up by what may be one in a question's words.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Self, cast

import numpy as np

from wye.backends.dataset.arms import (
    DEPTH,
    POOL,
    CountedLexical,
    DatasetDense,
    DatasetLexical,
    Match,
    Narrowed,
    narrowed,
)
from wye.backends.dataset.columns import MENTIONED, TITLED, Name, Row, hashed, spelling, spellings
from wye.backends.dataset.version import DatasetVersion
from wye.backends.dataset.words import LINKED, NAME, PHRASE, Word
from wye.backends.errors import BackendError
from wye.backends.numerics import distinct, located, products_of, ranges, top_rows
from wye.backends.store.corpus import Corpus
from wye.backends.trigraph.explanation import Trace
from wye.backends.trigraph.graph import FilteredGraph, TriGraph
from wye.backends.trigraph.names import Link, NameTrie
from wye.backends.trigraph.question import (
    MOST_NAMING,
    Edges,
    PassageSource,
    Scale,
    Sentences,
    consecutive,
    union,
)
from wye.backends.trigraph.retriever import TriGraphBatch, TriGraphRetriever, reason_of
from wye.backends.trigraph.seeds import SeedFinder
from wye.backends.trigraph.settings import TriGraphSettings
from wye.backends.trigraph.walk import Promoted
from wye.backends.types import (
    Float32,
    Int32,
    Int64,
    Mask,
    NameCoverage,
    Query,
    RankedHit,
    Ranking,
    Scores,
    WordCoverage,
    bits,
)

_KEYED = 300
"""Rows with some of the names that are looked at, to choose the best of them."""
MOST_KEYS = 200
"""Names whose passages are looked for at a time."""
COUNTED = 2_000
"""Under a filter a name's passages are counted up to here."""


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


class InDataset:
    """A dataset as a `PassageSource`. Entities are hashes of their keys, passages addresses.

    Rows are read in two rounds: the text hits with those of the seeds, and what these lead to.
    """

    def __init__(self, arm: "DatasetGraph", query: Query, allowed: Narrowed) -> None:
        """Search for nothing yet."""
        self._arm, self._query, self._predicate = arm, query, allowed.predicate
        self._rows: dict[int, Row] = {}
        self._sentences: list[tuple[Row, int]] = []
        self._closeness: dict[int, float] = {}
        self.scale = Scale(np.empty(0, np.float32), np.empty(0, np.float32))

    def begin(self, allowed: Narrowed, named: Sequence[int]) -> Self:
        """Begin to search for what a walk needs first; `named` are the question's entities."""
        arm, query = self._arm, self._query
        self._worded = arm.lexical_arm.begin(query.text, DEPTH, allowed)
        self._near = arm.dense.searches.begin(query, DEPTH, allowed)
        self._seeded = self._begin(named, [MENTIONED, TITLED])
        return self

    def _begin(self, names: Sequence[int], kinds: Sequence[str]) -> Future[dict[int, float]]:
        hashes = np.array(names[:MOST_KEYS], np.int64).view(np.uint64).tolist()
        return POOL.submit(self._arm.version.with_keys, hashes, kinds, _KEYED, self._predicate)

    def text_hits(self, most: int) -> Int64:
        """See `PassageSource`."""
        near, worded = self._near.result(), self._worded.result()
        self._closeness = _closeness(near, worded)
        addresses = [match.address for match in (*near[:most], *worded[:most])]
        hits = distinct(np.array(addresses, np.int64))
        self.scale = Scale(*self.scores(hits))
        return hits

    def mentioning(self, entities: Int64, most: int) -> Int64:
        """See `PassageSource`; these are what the question names."""
        del entities
        return self._closest(self._seeded, most)

    def led_to(self, reached: Int64, names: Int64, most: int) -> Int64:
        """See `PassageSource`."""
        rarest = names[np.argsort(self.degree(names), kind="stable")]
        titles = rarest[self.title_counts(rarest) > 0].tolist()
        both = [MENTIONED, TITLED]
        begun = [
            self._begin(reached.tolist(), both),
            self._begin(rarest.tolist(), both),
            self._begin(titles, [TITLED]),
        ]
        return union(*(self._closest(each, most) for each in begun))

    def _closest(self, begun: Future[dict[int, float]], most: int) -> Int64:
        """Of the rows with some names those closest to the question; see `with_keys`."""
        rarity, closeness = begun.result(), self._closeness
        highest = max(rarity.values(), default=1.0) or 1.0
        far = {row: -(closeness.get(row, 0.0) + rare / highest) for row, rare in rarity.items()}
        return np.array(sorted(far, key=lambda row: (far[row], row))[:most], np.int64)

    def _read(self, passages: Int64) -> list[Row]:
        """Some rows, ascending by id."""
        rows = self._arm.version.rows(passages.tolist())
        if any(row.address not in self._rows for row in rows):
            vars(self).pop("_table", None)
            self._rows |= {row.address: row for row in rows}
        return rows

    @cached_property
    def _table(self) -> tuple[Int64, Int64, Callable[[int], Name]]:
        """The names in all rows that were read, ascending; passages and titles of each; and each.

        The last takes the position of a name, and reads it from the first row that has it.
        """
        rows = sorted(self._rows.values(), key=lambda row: row.id)
        every = _joined(map(_entities, rows))
        names, first, position = np.unique(every, return_index=True, return_inverse=True)
        starts = np.cumsum([0, *(len(row.hashes) for row in rows)])

        def name(which: int) -> Name:
            row = int(np.searchsorted(starts, first[which], "right")) - 1
            return rows[row].name(int(first[which] - starts[row]))

        counts = np.zeros((len(names), 2), np.int64)
        if self._predicate is None:  # the highest of several is the newest
            stated = np.concatenate([counts[:0], *(row.counts[:, :2] for row in rows)])
            np.maximum.at(counts, position, stated)
        else:
            titles = _joined(_entities(row)[row.titles] for row in rows)
            counts[:, 0] = np.bincount(position, minlength=len(names))
            np.add.at(counts[:, 1], np.searchsorted(names, titles), 1)
        return names, counts, name

    def _counts(self, entities: Int64) -> Int64:
        """(a, 2) passages and titles of entities; under a filter, among the rows that were read."""
        names, counts, _ = self._table
        position, is_known = located(entities, names)
        known: Int64 = np.append(counts, [[0, 0]], axis=0)[np.where(is_known, position, -1)]
        return known

    def degree(self, entities: Int64) -> Int64:
        """See `PassageSource`."""
        return self._counts(entities)[:, 0]

    def title_counts(self, entities: Int64) -> Int64:
        """See `PassageSource`."""
        return self._counts(entities)[:, 1]

    def sentences(self, passages: Int64) -> Sentences:
        """See `PassageSource`."""
        rows, query = self._read(passages), self._query
        sizes = [len(row.sentences) for row in rows]
        starts = np.cumsum([0, *sizes], dtype=np.int64)
        first = len(self._sentences)
        self._sentences += [(row, n) for row in rows for n in range(len(row.sentences))]
        nothing = np.empty((0, self._arm.version.dimension), np.float16)
        vectors = np.concatenate([nothing, *(row.sentences for row in rows)])
        return Sentences(
            first + np.arange(starts[-1]),
            np.repeat(np.array([row.address for row in rows], np.int64), sizes),
            _joined(
                start + row.mentions[:, 0] for start, row in zip(starts[:-1], rows, strict=True)
            ),
            _joined(_entities(row)[row.mentions[:, 1]] for row in rows),
            lambda positions: products_of(vectors, positions, query.vector),
        )

    def edges(self, passages: Int64) -> Edges:
        """See `PassageSource`."""
        rows = self._read(passages)
        position = np.arange(len(rows))
        return Edges(
            np.array([row.address for row in rows], np.int64),
            position.repeat([len(row.hashes) for row in rows]),
            _joined(map(_entities, rows)),
            _joined(row.times for row in rows).astype(np.float64),
            _joined(row.counts[:, 0] for row in rows),
            position.repeat([len(row.titles) for row in rows]),
            _joined(_entities(row)[row.titles] for row in rows),
        )

    def consecutive(self, passages: Int64) -> Int64:
        """See `PassageSource`."""
        rows = self._read(passages)
        chunks = np.array([row.chunk for row in rows], np.int64)
        return consecutive((row.document for row in rows), chunks)

    def scores(self, passages: Int64) -> tuple[Float32, Float32]:
        """See `PassageSource`."""
        row_of = {row.address: row for row in self._read(passages)}
        rows = [row_of[address] for address in passages.tolist()]
        vectors = np.array([row.vector for row in rows], np.float32)
        similar = np.vecdot(vectors.reshape(len(rows), -1), self._query.vector) if rows else None
        lexical = np.zeros(len(rows), np.float32)
        if self._arm.settings.weighs_lexical:
            lexical = self._arm.lexical_arm.score(self._query, rows)
        return np.zeros(0, np.float32) if similar is None else similar, lexical

    def ids(self, passages: Int64) -> list[str]:
        """See `PassageSource`."""
        return [self._rows[address].id for address in passages.tolist()]

    def numbers(self, ids: Sequence[str]) -> Int64:
        """See `PassageSource`."""
        addresses = self._arm.version.addresses(ids)
        numbers = np.array([addresses[id_] for id_ in ids if id_ in addresses], np.int64)
        self._read(numbers)
        return numbers

    def name(self, entity: int) -> str:
        """See `PassageSource`."""
        names, _, name = self._table
        at = int(np.searchsorted(names, entity))
        is_read = at < len(names) and names[at] == entity
        return name(at).shown if is_read else self._arm.names.known[entity].text

    def entity(self, key: str) -> int:
        """See `PassageSource`; one that no passage mentions leads nowhere."""
        return entity_of(key)

    def key(self, entity: int) -> str:
        """See `PassageSource`; a row that was read must have it."""
        names, _, name = self._table
        return name(int(np.searchsorted(names, entity))).key

    def named(self, entities: Int64, rare: int) -> tuple[Int64, Int64, Mask]:
        """See `PassageSource`; of those that mention rare ones, those that were read."""
        hashes = titles_in(self._rows.values())[:MOST_KEYS]
        pages = self._arm.version.with_keys(hashes, [TITLED], 3 * len(hashes), self._predicate)
        self._read(np.array([*pages], np.int64))
        rows = sorted(self._rows.values(), key=lambda row: row.id)
        is_rare = np.flatnonzero(self.degree(entities) <= rare)
        titled = _pairs(entities, [_entities(row)[row.titles] for row in rows])
        mentioned = _pairs(entities[is_rare], [_entities(row) for row in rows])
        pair = np.concatenate([titled[0], is_rare[mentioned[0]]])
        addresses = np.array([row.address for row in rows], np.int64)
        passages = addresses[np.concatenate([titled[1], mentioned[1]])]
        return pair, passages, np.arange(len(pair)) < len(titled[0])

    def documents(self, passages: Int64) -> list[str]:
        """See `PassageSource`."""
        return [self._rows[address].document for address in passages.tolist()]

    def texts(self, passages: Int64) -> list[str]:
        """See `PassageSource`."""
        return [each.text for each in self._arm.version.passages(self.ids(passages))]

    def words(self, passages: Int64) -> tuple[WordCoverage, ...]:
        """Which of some passages have each content word of the question."""
        rows = self._read(passages)
        position = {row.address: n for n, row in enumerate(rows)}
        chosen = [position[address] for address in passages.tolist()]
        return self._arm.lexical_of(rows).words_in(self._query.text, chosen, ())

    def address(self, sentence: int) -> tuple[int, int]:
        """The passage of a sentence, and its position in it."""
        row, position = self._sentences[sentence]
        return row.address, position

    def statements(self, sentences: Int64) -> list[tuple[str, str]]:
        """See `PassageSource`."""
        several = [self._sentences[sentence] for sentence in sentences.tolist()]
        texts = self._arm.version.sentences([(row.address, n) for row, n in several])
        return [(row.id, text) for (row, _), text in zip(several, texts, strict=True)]


def _entities(row: Row) -> Int64:
    """The names in a row as entities, ascending as hashes are."""
    return row.hashes.view(np.int64)


def entity_of(key: str) -> int:
    """The entity with a key: its hash, as a signed number."""
    return int(np.uint64(hashed(key)).astype(np.int64))


def _pairs(entities: Int64, lists: Sequence[Int64]) -> tuple[Int64, Int64]:
    """Positions of entities and of the lists that have them, ascending."""
    items = _joined(lists)
    order = np.argsort(items, kind="stable")
    first, last = (np.searchsorted(items[order], entities, side) for side in ("left", "right"))
    owners = np.repeat(np.arange(len(lists)), [*map(len, lists)])
    return np.repeat(np.arange(len(entities)), last - first), owners[order[ranges(first, last)]]


def _joined(arrays: Iterable[Int32 | Int64]) -> Int64:
    return np.concatenate([np.empty(0, np.int64), *arrays], dtype=np.int64)


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
            in_titles = bits(seed.entity in _entities(row)[row.titles] for row in rows)
            in_texts = bits(seed.entity in _entities(row) for row in rows)
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
            arm.dense.require(self._queries[position].vector)
            named = sorted(seed.entity for seed in self._seeds_of(position))
            source = InDataset(arm, self._queries[position], self._allowed)
            sources.append(source.begin(self._allowed, named))
        return sources


def titles_in(rows: Collection[Row]) -> list[int]:
    """Hashes of the names in some rows that are titles of other ones, the rarest first.

    A name that more than `MOST_NAMING` passages mention leads nowhere.
    """
    degree: dict[int, int] = {}
    for row in rows:
        is_own = np.zeros(len(row.hashes), bool)
        is_own[row.titles] = True
        passages, titles = row.counts[:, 0], row.counts[:, 1]
        leads = (titles > is_own) & (passages <= MOST_NAMING)
        degree.update(zip(row.hashes[leads].tolist(), passages[leads].tolist(), strict=True))
    return sorted(degree, key=lambda hash_: (degree[hash_], hash_))


def _closeness(*several: Sequence[Match]) -> dict[int, float]:
    """Address -> similarity and BM25 of the proposed rows, each from 0 to 1, summed."""
    closeness: dict[int, float] = {}
    for matches in several:
        high, low = (-matches[0].below, -matches[-1].below) if matches else (0.0, 0.0)
        for match in matches:
            value = (-match.below - low) / (high - low) if high > low else 1.0
            closeness[match.address] = closeness.get(match.address, 0.0) + value
    return closeness
