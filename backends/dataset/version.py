"""One version of a dataset: what Lance's indices find in it, and bounded caches of what is read."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from threading import Lock
from typing import Any, Generic, TypeVar

import pyarrow as pa
from lance.query import MatchQuery

from wye.backends.dataset.columns import Row, key_word, label, spellings
from wye.backends.dataset.words import NAME, TERM, Pair, Word, WordTable
from wye.backends.errors import IndexMismatchError
from wye.backends.filters import Columns, Combination, Filter, check
from wye.backends.filters import _comparisons as comparisons_of
from wye.backends.store.index import PassageStore, any_of, has_columns
from wye.backends.store.schema import GRAPH, KEYS, LABELS, TOKENS
from wye.backends.text import tokenise
from wye.backends.types import Float32, Passage

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_PROBES = 40  # lists of the vector index that are compared with a question
CACHED_ROWS = 2_000
"""Rows that are kept in memory, 8 kB each, and up to 16 with what was read of their words."""
_CACHED_WORDS = 20_000


class Cache(Generic[K, V]):
    """The values that were used last; threads may share it."""

    def __init__(self, most: int) -> None:
        self._most, self._lock = most, Lock()
        self._values: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def of(self, keys: Iterable[K], load: Callable[[list[K]], Mapping[K, V]]) -> dict[K, V]:
        """Key -> value, in the order of the keys, without those that `load` does not return.

        Args:
            load: Called with the missing keys, if there are any.
        """
        wanted = [*dict.fromkeys(keys)]
        with self._lock:
            known = {key: self._values[key] for key in wanted if key in self._values}
            for key in known:
                self._values.move_to_end(key)
        missing = [key for key in wanted if key not in known]
        if not missing:
            return known
        known.update(loaded := load(missing))
        self.keep(loaded)
        return {key: known[key] for key in wanted if key in known}

    def keep(self, values: Mapping[K, V]) -> None:
        """Add values that are known."""
        with self._lock:
            self._values.update(values)
            while len(self._values) > self._most:
                self._values.popitem(last=False)


class DatasetVersion:
    """A version of an index that Lance searches; see `build.make_searchable`."""

    def __init__(self, index: PassageStore, pins: str) -> None:
        """Open the version that an index has in view.

        Args:
            pins: `build.pins` of the settings in use.

        Raises:
            IndexMismatchError: It was not made searchable by Lance, or for other settings.
            IndexDamagedError: The table of words is missing or cannot be read.
        """
        self.index, self.dataset = index, index.snapshot()
        require_columns(index.path, self.dataset.schema)
        with index.reading(OSError, ValueError, KeyError):
            self.table = WordTable.of(index)
        self.about = self.table.about
        if self.about.settings != pins:
            raise IndexMismatchError(
                f"The columns of {index.path} were made for other settings of the lexical arm or "
                "of the graph's assembly, or by another Wye. Make them again with "
                f"`wye index --engine dataset --index {index.path}`, or use the settings of then."
            )
        self.dimension = index.dimension
        self._rows: Cache[int, Row] = Cache(CACHED_ROWS)
        self._addresses: Cache[str, int] = Cache(CACHED_ROWS)
        self._words: Cache[Pair, Word | None] = Cache(_CACHED_WORDS)

    @cached_property
    def count(self) -> int:
        """Number of passages."""
        return self.index.count()

    # Words

    def learn(self, texts: Iterable[str], terms: Iterable[str]) -> None:
        """Look up all that may be a name in some questions, and their terms, in one query."""
        names = (spelt for text in texts for spelt in spellings(tokenise(text)))
        self._find([*((NAME, name) for name in names), *((TERM, term) for term in terms)])

    def words(self, kind: str, texts: Iterable[str]) -> dict[str, Word]:
        """What is known of some names, by spelling, or terms, for those that some passage has."""
        known = self._find([(kind, text) for text in texts])
        return {text: word for (_, text), word in known if word}

    def _find(self, pairs: Sequence[Pair]) -> Iterable[tuple[Pair, Word | None]]:
        def load(missing: list[Pair]) -> dict[Pair, Word | None]:
            with self.index.reading():
                return {**dict.fromkeys(missing), **self.table.find(missing)}

        return self._words.of(pairs, load).items()

    # Searches by Lance

    def nearest(self, vector: Float32, k: int, predicate: str | None) -> list[int]:
        """Addresses of k passages with high inner products, as the vector index estimates them."""
        nearest = {"column": "vector", "q": vector, "k": k, "metric": "dot", "nprobes": _PROBES}
        return _addresses(self._search(predicate, ["_distance"], nearest=nearest))

    def with_terms(self, terms: Sequence[str], k: int, predicate: str | None) -> list[int]:
        """Addresses of the k passages with the best BM25 by Lance's weights."""
        if not terms:
            return []
        query = MatchQuery(" ".join(terms), TOKENS)
        return _addresses(self._search(predicate, ["_score"], full_text_query=query, limit=k))

    def with_keys(
        self, hashes: Iterable[int], kinds: Sequence[str], k: int, predicate: str | None
    ) -> dict[int, float]:
        """Address of each of k passages that have some of the names -> how rare these are, summed.

        Args:
            hashes: Hashes of the names' keys.
            kinds: `MENTIONED`, `TITLED`.
        """
        words = [key_word(kind, hash_) for hash_ in hashes for kind in kinds]
        if not words:
            return {}
        query = MatchQuery(" ".join(words), KEYS)
        rows = self._search(predicate, ["_score"], full_text_query=query, limit=k)
        return dict(zip(_addresses(rows), rows["_score"].to_pylist(), strict=True))

    def addresses(self, ids: Iterable[str], predicate: str | None = None) -> dict[str, int]:
        """Id -> address, for the ids that are stored, and pass a predicate."""

        def load(missing: list[str]) -> dict[str, int]:
            condition = any_of("id", missing)
            both = f"({condition}) AND ({predicate})" if predicate else condition
            rows = self._search(both, ["id"])
            return dict(zip(rows["id"].to_pylist(), _addresses(rows), strict=True))

        return load([*ids]) if predicate else self._addresses.of(ids, load)

    def _search(self, predicate: str | None, columns: list[str], **search: Any) -> pa.Table:  # noqa: ANN401 - arguments of Lance's
        with self.index.reading():
            return self.dataset.scanner(
                columns=columns, filter=predicate, prefilter=True, with_row_id=True, **search
            ).to_table()

    # Rows

    def rows(self, addresses: Iterable[int]) -> list[Row]:
        """Rows by address, each once, ascending by id."""

        def load(missing: list[int]) -> dict[int, Row]:
            packed = self._take(missing, [GRAPH])[GRAPH].to_pylist()
            pairs = zip(missing, packed, strict=True)
            rows = {address: Row(address, each, self.dimension) for address, each in pairs}
            self._addresses.keep({row.id: address for address, row in rows.items()})
            return rows

        return sorted(self._rows.of(addresses, load).values(), key=lambda row: row.id)

    def rows_of(self, ids: Iterable[str]) -> list[Row]:
        """Rows by id, ascending; unknown ids are left out."""
        return self.rows(self.addresses(ids).values())

    def passages(self, ids: Sequence[str]) -> list[Passage]:
        """Passages by id, in the given order, without statements; unknown ids are left out."""
        passages = {row.id: row.passage for row in self.rows_of(ids)}
        return [passages[id_] for id_ in ids if id_ in passages]

    def sentences(self, chosen: Sequence[tuple[int, int]]) -> list[str]:
        """Texts of sentences by the address of their row and their position in it."""
        if not chosen:
            return []
        rows = self._take([address for address, _ in chosen], ["sentences"])["sentences"]
        return [each[n]["text"].as_py() for each, (_, n) in zip(rows, chosen, strict=True)]

    def _take(self, addresses: Sequence[int], columns: list[str]) -> pa.Table:
        with self.index.reading():
            return self.dataset._take_rows(pa.array(addresses, pa.uint64()), columns)

    # Filters

    def predicate(self, filter_: Filter) -> str:
        """A metadata filter as a condition that Lance applies before a search.

        Raises:
            FilterError: See `filters.check`.
        """
        if self.count and any(comparisons_of(filter_)):
            check(filter_, Columns([{key: several} for key, several in self._values.items()]))
        return self._sql(filter_)

    @property
    def _values(self) -> Mapping[str, Sequence[Any]]:
        with self.index.reading():
            return self.table.labels

    def _sql(self, filter_: Filter) -> str:
        """A filter over the column of labels; a row without labels satisfies nothing."""
        if isinstance(filter_, Combination):
            return "(" + f" {filter_.type.upper()} ".join(map(self._sql, filter_.filters)) + ")"
        chosen: Sequence[object] = filter_.values
        if filter_.type not in ("eq", "ne", "in", "nin"):
            several = self._values.get(filter_.key, ())
            mask = Columns([{filter_.key: value} for value in several]).mask(filter_)
            chosen = [value for value, passes in zip(several, mask.tolist(), strict=True) if passes]
        words = ", ".join(f"'{label(filter_.key, value)}'" for value in chosen)
        has_any = f"array_has_any({LABELS}, make_array({words}))" if words else "FALSE"
        return f"NOT {has_any}" if filter_.type in ("ne", "nin") else has_any


def _addresses(rows: pa.Table) -> list[int]:
    addresses: list[int] = rows["_rowid"].to_pylist()
    return addresses


def require_columns(path: object, schema: pa.Schema) -> None:
    """Check that a dataset can be searched by Lance.

    Raises:
        IndexMismatchError: It has no columns for that.
    """
    if not has_columns(schema):
        raise IndexMismatchError(
            f"Index {path} has no columns that Lance could search by. Make them with "
            f"`wye index --engine dataset --index {path}`, or search it in memory with "
            "WYE_ENGINE=memory."
        )
