"""A dataset as a source of the graph of a question; see `trigraph.question`.

The rows that a question needs are found and read in two rounds, and what ranking needs of them is
stored in them.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np

from wye.backends.arrays import distinct, located, ranges
from wye.backends.dataset.arms import DEPTH, POOL, Match, Narrowed
from wye.backends.dataset.columns import MENTIONED, TITLED, Name, Row, hashed
from wye.backends.numerics import products_of
from wye.backends.trigraph.question import (
    HUB,
    MOST_NAMING,
    Edges,
    Scale,
    Sentences,
    consecutive,
    union,
)
from wye.backends.types import Float32, Int32, Int64, Mask, Query, WordCoverage

if TYPE_CHECKING:
    from wye.backends.dataset.graph import DatasetGraph

_KEYED = 300  # rows with some of the names that are looked at, to choose the best of them
MOST_KEYS = 200
"""Names whose passages are looked for at a time; each that is found takes three reads."""
_NAMES = 16  # names of the first passages whose mentions are looked for


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
        passages = {entity: arm.names.known[entity].passages for entity in named}
        telling = [entity for entity in named if passages[entity] <= HUB]
        self._seeded = self._begin(telling, [MENTIONED, TITLED])
        return self

    def _begin(self, names: Sequence[int], kinds: Sequence[str]) -> Future[dict[int, float]]:
        hashes = np.array(names[:MOST_KEYS], np.int64).view(np.uint64).tolist()
        return POOL.submit(self._arm.version.with_keys, hashes, kinds, _KEYED, self._predicate)

    def text_hits(self, most: int) -> Int64:
        """See `PassageSource`."""
        near, worded = self._near.result().read, self._worded.result().read
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
        degree, telling = self.degree(names), reached[self.degree(reached) <= HUB]
        rarest = names[np.lexsort((degree, degree < 2))]  # last what only these passages mention
        titles = rarest[self.title_counts(rarest) > 0].tolist()
        rarest = rarest[self.degree(rarest) <= HUB]
        begun = [
            self._begin(telling.tolist(), [MENTIONED, TITLED]),
            self._begin(rarest[:_NAMES].tolist(), [MENTIONED]),
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
        every = _joined(map(entities_of, rows))
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
            titles = _joined(entities_of(row)[row.titles] for row in rows)
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
            _joined(entities_of(row)[row.mentions[:, 1]] for row in rows),
            lambda positions: products_of(vectors, positions, query.vector),
        )

    def edges(self, passages: Int64) -> Edges:
        """See `PassageSource`."""
        rows = self._read(passages)
        position = np.arange(len(rows))
        return Edges(
            np.array([row.address for row in rows], np.int64),
            position.repeat([len(row.hashes) for row in rows]),
            _joined(map(entities_of, rows)),
            _joined(row.times for row in rows).astype(np.float64),
            position.repeat([len(row.titles) for row in rows]),
            _joined(entities_of(row)[row.titles] for row in rows),
        )

    def by_id(self, passages: Int64) -> Int64:
        """See `PassageSource`; of passages that were read."""
        ids = self.ids(passages)
        return np.array(sorted(range(len(ids)), key=ids.__getitem__), np.int64)

    def consecutive(self, passages: Int64) -> Int64:
        """See `PassageSource`; of passages that were read."""
        rows = [self._rows[address] for address in passages.tolist()]
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
        titled = _pairs(entities, [entities_of(row)[row.titles] for row in rows])
        mentioned = _pairs(entities[is_rare], [entities_of(row) for row in rows])
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


def entities_of(row: Row) -> Int64:
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
