"""The graph of one question: the few rows that it needs, and the walk that all graphs have.

Some 150 rows rank as the whole corpus does: the best by vector and by words, passages of the names
in the question, passages of the names that bridging reached from there, and those titled by names
in the first text hits. Finding and reading them takes three rounds; the small graph is assembled
from the names stored in the rows, and from then on everything is what it is in memory.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, cast

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
from wye.backends.dataset.columns import (
    MENTIONED,
    TITLED,
    Row,
    UInt64,
    hashed,
    spelling,
    spellings,
)
from wye.backends.dataset.version import DatasetVersion
from wye.backends.dataset.words import LINKED, NAME, PHRASE, Word
from wye.backends.dense import DenseRetriever, DenseSettings
from wye.backends.errors import BackendError
from wye.backends.store.corpus import Corpus, Mentions
from wye.backends.trigraph.explanation import Explanation
from wye.backends.trigraph.graph import FilteredGraph, MentionGraph, PlainLists, TriGraph
from wye.backends.trigraph.names import DisplayNames, Link, NameTrie
from wye.backends.trigraph.retriever import TriGraphBatch, TriGraphRetriever
from wye.backends.trigraph.seeds import Seed, SeedFinder
from wye.backends.trigraph.settings import TriGraphSettings
from wye.backends.trigraph.walk import MOST_NAMING
from wye.backends.types import Int64, Mask, NameCoverage, Query, Ranking, Scores, bits

NEAR, WORDED, SEEDED, REACHED, TITLES = 50, 50, 50, 50, 10
"""Rows by vector, by words, of the seeds' names, of names that bridging reached, and of titles."""
_FIRST = 10
"""How many of the first hits by vector and by words have names whose passages are read."""
_KEYED = 300
"""Rows with some of the names that are looked at, to choose the best of them."""
MOST_KEYS = 200
"""Names whose passages are looked for at a time."""
COUNTED = 2_000
"""Under a filter a name's passages are counted up to here."""


class _Names(DisplayNames):
    """The names in some rows as the keys of a graph and their spellings, read when needed."""

    def __init__(self, hashes: UInt64, rows: Sequence[Row], owners: Int64, places: Int64) -> None:
        """Number names.

        Args:
            hashes: (e,) hashes of their keys, ascending.
            owners: (e,) position of a row with each name.
            places: (e,) position of the name in it.
        """
        self.hashes, self._rows, self._size = hashes, rows, len(hashes)
        self._places: list[tuple[int, int]] = [*zip(owners.tolist(), places.tolist(), strict=True)]

    def of(self, entity: int) -> str:
        """See `DisplayNames`."""
        row, place = self._places[entity]
        return self._rows[row].name(place).shown

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, entity: int) -> str:
        row, place = self._places[entity]
        return self._rows[row].name(place).key

    def __iter__(self) -> Iterator[str]:
        return map(self.__getitem__, range(self._size))

    def find(self, key: str) -> int:
        """The name with a key, -1 if there is none."""
        hash_ = np.uint64(hashed(key))
        at = int(np.searchsorted(self.hashes, hash_))
        return at if at < self._size and self.hashes[at] == hash_ else -1


class _Tagged(Mentions):
    """The named entities of sentences as they are written."""

    def __init__(self, rows: Sequence[Row], starts: Int64) -> None:
        self._rows, self._starts = rows, starts

    def of(self, sentence: int) -> list[str]:
        """See `Mentions`."""
        row = int(np.searchsorted(self._starts, sentence, side="right")) - 1
        return self._rows[row].tagged(sentence - int(self._starts[row]))


class _Texts(Sequence[str]):
    """The texts of rows, each read when it is needed."""

    def __init__(self, version: DatasetVersion, rows: Sequence[Row]) -> None:
        self._version, self._rows = version, rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, row: Any) -> Any:  # noqa: ANN401 - a slice would be a list
        return self._version.passages([self._rows[row].id])[0].text


class SmallIndex:
    """Some rows as a corpus of their own, with arms whose counts are those of the whole corpus."""

    def __init__(
        self,
        version: DatasetVersion,
        rows: Sequence[Row],
        lexical: CountedLexical,
        *,
        is_filtered: bool = False,
    ) -> None:
        """Take rows, ascending by id.

        Args:
            lexical: The lexical arm over these rows.
            is_filtered: Whether the rows are only those that a filter lets through, which then are
                all that counts.
        """
        self.version, self.rows, self.lexical = version, rows, lexical
        self._is_filtered = is_filtered

    def retriever(self, settings: TriGraphSettings) -> TriGraphRetriever:
        """The graph arm over the rows."""
        corpus, lexical = self.corpus, self.lexical.score if settings.weighs_lexical else None
        dense = DenseRetriever(corpus.ids, corpus.vectors, DenseSettings(kind="exact"))
        return TriGraphRetriever(corpus, settings, lexical, self.graph, near=dense.scores)

    @cached_property
    def corpus(self) -> Corpus:
        """The rows as a corpus, without metadata."""
        rows, version = self.rows, self.version
        nothing = np.empty((0, version.dimension), np.float16)
        return Corpus(
            version=version.index.version,
            ids=[row.id for row in rows],
            titles=[row.title for row in rows],
            documents=[row.document for row in rows],
            chunks=np.array([row.chunk for row in rows], np.int32),
            vectors=np.concatenate([nothing, *(row.vector[None] for row in rows)], dtype="f4"),
            sentence_vectors=np.concatenate([nothing, *(row.sentences for row in rows)]),
            sentence_passage=np.repeat(np.arange(len(rows), dtype=np.int32), np.diff(self._starts)),
            entities=_Tagged(rows, self._starts),
            phrases=_Tagged([], self._starts),
            hashes=[],
            two=None,
            metadata=[],
            _texts=_Texts(version, rows),
            addresses=np.array([row.address for row in rows], np.int64),
            _fragments={},
            _dataset=version.dataset,
            _index=version.index,
        )

    @cached_property
    def _starts(self) -> Int64:
        """(n + 1,) where the sentences of each row begin, and where those of the last end."""
        return np.cumsum([0, *(len(row.sentences) for row in self.rows)], dtype=np.int64)

    @cached_property
    def graph(self) -> TriGraph:
        """The graph of the rows, assembled from the names that are stored in them."""
        rows = self.rows
        sizes = [len(row.hashes) for row in rows]
        titled = [len(row.titles) for row in rows]
        several = [len(row.mentions) for row in rows]
        starts = np.cumsum([0, *sizes], dtype=np.int64)
        owners = np.repeat(np.arange(len(rows)), sizes)
        stored = np.concatenate([np.empty(0, np.uint64), *(row.hashes for row in rows)])
        hashes, first, entities = np.unique(stored, return_index=True, return_inverse=True)
        e, names = len(hashes), _Names(hashes, rows, owners[first], first - starts[owners[first]])
        counts = np.zeros((e, 3), np.int32)  # the highest of several is the newest
        stated = np.concatenate([np.empty((0, 3), np.int32), *(row.counts for row in rows)])
        np.maximum.at(counts, entities, stated)
        pairs = np.concatenate([np.empty((0, 2), np.int32), *(row.mentions for row in rows)])
        sentence = pairs[:, 0] + np.repeat(self._starts[:-1], several)
        entity = entities[pairs[:, 1] + np.repeat(starts[:-1], several)]
        places = np.concatenate([np.empty(0, np.int32), *(row.titles for row in rows)])
        titles = entities[places + np.repeat(starts[:-1], titled)]
        passage = np.repeat(np.arange(len(rows), dtype=np.int32), titled)
        order = np.lexsort((passage, titles))
        degrees = np.bincount(entities, minlength=e) if self._is_filtered else counts[:, 0]
        return TriGraph(
            keys=names,
            is_phrase=counts[:, 2] > 0,
            degrees=degrees.astype(np.int32),
            mentions=MentionGraph.of(sentence, entity, (int(self._starts[-1]), e)),
            titled=PlainLists.from_owners(titles[order], passage[order], e),
            titles=PlainLists.from_lengths(np.array(titled, np.int64), titles.astype(np.int32)),
            owners=self.corpus.sentence_passage,
            names=NameTrie.of([]),  # seeds are found among all names of the corpus
            display_names=names,
        )


class NameNumbers:
    """The names of the whole corpus that questions may have, numbered when they are met.

    Attributes:
        words: What is known of each name.
    """

    def __init__(self, version: DatasetVersion) -> None:
        self.version = version
        self.words: list[Word] = []
        self._numbers: dict[str, int] = {}

    def of(self, word: Word) -> int:
        """The number of a name; a new one gets the next."""
        if word.text not in self._numbers:
            self._numbers[word.text] = len(self.words)
            self.words.append(word)
        return self._numbers[word.text]

    def find(self, key: str) -> int:
        """The number of the name with a key, -1 if no passage mentions it."""
        word = self.version.words(NAME, [spelling(key)]).get(spelling(key))
        return self.of(word) if word and word.text == key else -1


class _NamesInWords(NameTrie):
    """Finds the names of the whole corpus in words."""

    def __init__(self, numbers: NameNumbers, hidden: frozenset[int] = frozenset()) -> None:
        self._numbers, self._hidden = numbers, hidden

    def without(self, entities: Collection[int]) -> "_NamesInWords":
        """See `NameTrie`."""
        return _NamesInWords(self._numbers, self._hidden.union(entities))

    def find(self, tokens: Sequence[str]) -> list[Link]:
        """See `NameTrie`."""
        known = self._numbers.version.words(NAME, spellings(tokens))
        linked = [(t, self._numbers.of(w)) for t, w in known.items() if w.bits & LINKED]
        shown = [pair for pair in linked if pair[1] not in self._hidden]
        return NameTrie.of(sorted(shown, key=lambda pair: pair[1])).find(tokens)


@dataclass(frozen=True)
class _Vocabulary:
    """What `SeedFinder` needs of a graph, for the names of the whole corpus."""

    keys: NameNumbers
    names: _NamesInWords
    has_phrases: bool

    @property
    def is_phrase(self) -> list[bool]:
        """Whether each name is only known as a noun phrase."""
        return [bool(word.bits & PHRASE) for word in self.keys.words]


class _Counts(FilteredGraph):
    """How many allowed passages mention a name or have it as their title."""

    def __init__(self, numbers: NameNumbers, predicate: str | None) -> None:
        self._numbers, self._predicate = numbers, predicate
        self._counts: dict[int, tuple[int, int]] = {}

    def degree(self, entities: Int64) -> Int64:
        """See `FilteredGraph`."""
        return np.array([self._of(entity)[0] for entity in entities.tolist()], np.int64)

    def titles(self, entities: Int64) -> tuple[Int64, Int64]:
        """As in `FilteredGraph`, without rows."""
        counts = [self._of(entity)[1] for entity in entities.tolist()]
        return np.empty(0, np.int64), np.array(counts, np.int64)

    def _of(self, entity: int) -> tuple[int, int]:
        word, predicate = self._numbers.words[entity], self._predicate
        if predicate is None:
            return word.passages, word.titles
        if entity not in self._counts:
            find = partial(self._numbers.version.with_keys, [hashed(word.text)])
            mentioned, titled = (find([kind], COUNTED, predicate) for kind in (MENTIONED, TITLED))
            self._counts[entity] = len(mentioned), len(titled)
        return self._counts[entity]


class _OneQuestion(TriGraphBatch):
    """A batch of one question over the graph of a few rows, with seeds that are known already."""

    def __init__(
        self,
        small: SmallIndex,
        settings: TriGraphSettings,
        query: Query,
        seeds: Iterable[tuple[str, Seed]],
    ) -> None:
        super().__init__(small.retriever(settings), [query], FilteredGraph(small.graph))
        self._graph = small.graph
        in_rows = (replace(seed, entity=small.graph.keys.find(key)) for key, seed in seeds)
        self._seeds[0] = tuple(seed for seed in in_rows if seed.entity >= 0)

    def active(self) -> list[int]:
        """Hashes of the active names, the most active first."""
        (trace,) = self.traces([0])
        order = np.argsort(-trace.activation.value, kind="stable")
        names = cast("_Names", self._graph.keys)
        hashes: list[int] = names.hashes[trace.activation.entities[order]].tolist()
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
        self.numbers = NameNumbers(version)
        vocabulary = _Vocabulary(
            self.numbers, _NamesInWords(self.numbers), version.about.has_phrases
        )
        corpus = self.small([]).corpus
        self.finder = SeedFinder(cast("TriGraph", vocabulary), corpus, settings.seeds)

    def search(
        self, queries: Sequence[Query], k: int, allowed: Mask | None = None
    ) -> list[Ranking]:
        """At most k passages for each query, best first."""
        return self.batch(queries, allowed).search(range(len(queries)), k)

    def batch(self, queries: Sequence[Query], allowed: Mask | None = None) -> "DatasetGraphBatch":
        """A batch of questions, each with a graph of its own."""
        return DatasetGraphBatch(self, queries, narrowed(allowed))

    def small(self, rows: Sequence[Row], *, is_filtered: bool = False) -> SmallIndex:
        """Rows as an index of their own."""
        arm = self.lexical_arm
        lexical = CountedLexical(self.version, arm.settings, arm.terms, rows)
        return SmallIndex(self.version, rows, lexical, is_filtered=is_filtered)

    def titled_by_names_of(self, rows: Sequence[Row], predicate: str | None) -> list[int]:
        """Addresses of passages titled by names in some rows, at most three for a name."""
        hashes = titles_in(rows)[:MOST_KEYS]
        return [*self.version.with_keys(hashes, [TITLED], 3 * len(hashes), predicate)]


class DatasetGraphBatch(TriGraphBatch):
    """A batch of questions, identified by position; each has a graph of the rows that it needs."""

    def __init__(self, arm: DatasetGraph, queries: Sequence[Query], allowed: Narrowed) -> None:
        super().__init__(arm, queries, _Counts(arm.numbers, allowed.predicate))
        self._graph_arm, self._allowed = arm, allowed
        self._walks: dict[int, _OneQuestion] = {}

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
            name = np.uint64(hashed(self._key(seed)))
            in_titles = bits(name in row.hashes[row.titles] for row in rows)
            in_texts = bits(name in row.hashes for row in rows)
            counts = stats.passages, stats.titles
            coverages.append(NameCoverage(seed.mention, seed.value, *counts, in_titles, in_texts))
        return tuple(coverages)

    def _key(self, seed: Seed) -> str:
        return self._graph_arm.numbers.words[seed.entity].text

    def search(
        self,
        positions: Sequence[int],
        k: int,
        similarities: Mapping[int, Scores] | None = None,
        lexical: Mapping[int, Scores] | None = None,
    ) -> list[Ranking]:
        """At most k passages for some of the questions; the text arms' scores are not needed."""
        del similarities, lexical
        new = [position for position in positions if position not in self._walks]
        arm = self._graph_arm
        arm.lexical_arm.learn([self._queries[position].text for position in new])
        for query in (self._queries[position] for position in new):
            arm.dense.require(query.vector)
            arm.lexical_arm.begin(query.text, DEPTH, self._allowed)
            arm.dense.searches.begin(query, DEPTH, self._allowed)
        self._walks.update((position, self._walk(position)) for position in new)
        rankings = (self._walks[position].search([0], k)[0] for position in positions)
        return [replace(ranking, candidates=arm.version.count) for ranking in rankings]

    def explain(self, position: int, ranking: Ranking) -> Explanation:
        """Explain the ranks of a ranking's passages, as far as they are in the question's graph."""
        return self._walks[position].explain(0, ranking)

    def _walk(self, position: int) -> _OneQuestion:
        """The graph of a question, of the rows that it needs."""
        arm, query, predicate = self._graph_arm, self._queries[position], self._allowed.predicate
        find, both = arm.version.with_keys, [MENTIONED, TITLED]
        seeds = [(self._key(seed), seed) for seed in self._seeds_of(position)]
        known = [hashed(key) for key, _ in seeds]
        seeded = POOL.submit(find, known, both, _KEYED, predicate)
        worded = arm.lexical_arm.begin(query.text, DEPTH, self._allowed).result()
        near = arm.dense.searches.begin(query, DEPTH, self._allowed).result()
        closeness = _closeness(near, worded)
        addresses = [match.address for match in (*near[:NEAR], *worded[:WORDED])]
        addresses += _closest(seeded.result(), closeness, SEEDED)
        active = self._over(addresses, query, seeds).active()[:MOST_KEYS]
        first = [match.address for match in (*near[:_FIRST], *worded[:_FIRST])]
        titles = [*dict.fromkeys([*active, *titles_in(arm.version.rows(first))])][:MOST_KEYS]
        titled = POOL.submit(find, titles, [TITLED], TITLES + len(active), predicate)
        reached = find([name for name in active if name not in known], both, _KEYED, predicate)
        more = [*_closest(reached, closeness, REACHED), *titled.result()]
        return self._over([*addresses, *more], query, seeds)

    def _over(
        self, addresses: Sequence[int], query: Query, seeds: Sequence[tuple[str, Seed]]
    ) -> _OneQuestion:
        """A question over the graph of some rows."""
        arm = self._graph_arm
        is_filtered = self._allowed.predicate is not None
        small = arm.small(arm.version.rows(addresses), is_filtered=is_filtered)
        return _OneQuestion(small, arm.settings, query, seeds)


def titles_in(rows: Sequence[Row]) -> list[int]:
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


def _closest(rarity: Mapping[int, float], closeness: Mapping[int, float], most: int) -> list[int]:
    """Addresses of the rows with some names that are closest to the question; see `with_keys`."""
    highest = max(rarity.values(), default=1.0) or 1.0
    order = sorted(
        rarity, key=lambda row: (-(closeness.get(row, 0.0) + rarity[row] / highest), row)
    )
    return order[:most]


def _closeness(*several: Sequence[Match]) -> dict[int, float]:
    """Address -> similarity and BM25 of the proposed rows, each from 0 to 1, summed."""
    closeness: dict[int, float] = {}
    for matches in several:
        high, low = (-matches[0].below, -matches[-1].below) if matches else (0.0, 0.0)
        for match in matches:
            value = (-match.below - low) / (high - low) if high > low else 1.0
            closeness[match.address] = closeness.get(match.address, 0.0) + value
    return closeness
