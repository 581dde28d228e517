"""One version of a dataset: what Lance's indices find in it, and a bounded cache of rows."""

import json
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import Any, cast

import numpy as np
import pyarrow as pa
from lance.query import MatchQuery

from wye.backends.dataset.columns import LENGTHS, TITLED, Packed, key_word, label
from wye.backends.dataset.words import TERM, Word, WordTable
from wye.backends.errors import IndexMismatchError
from wye.backends.filters import Columns, Combination, Comparison, Filter, check, keys_of
from wye.backends.filters import _comparisons as comparisons_of
from wye.backends.store.index import PassageStore
from wye.backends.store.schema import (
    GRAPH,
    KEYS,
    LABELS,
    TOKENS,
    any_of,
    dimension_of,
    has_columns,
)
from wye.backends.store.versions import reading
from wye.backends.types import Float32, Passage

_ROW = ["id", "document", "chunk", "title", "text", "metadata", "vector", TOKENS, GRAPH]
_PROBES = 80
"""Lists of the vector index that are compared with a question."""
_REFINED = 2
"""So many times the requested hits are fetched with their exact vectors."""
CACHED_ROWS = 20_000
"""Rows that are kept in memory, about 8 kB each."""
MOST_KEYS = 200
"""Names whose passages are looked for at a time."""
_NOTHING = np.zeros(4, "<u4").tobytes()
_NEGATED = ("ne", "nin")


@dataclass(frozen=True)
class Row:
    """A passage as it is stored.

    Attributes:
        address: Where it is in the dataset.
        vector: (d,) unit vector.
        tokens: See `columns.tokens_of`; empty if the row has none yet.
        graph: Its sentences and names.
    """

    address: int
    id: str
    document: str
    chunk: int
    title: str
    text: str
    metadata: str
    vector: Float32
    tokens: str
    graph: Packed

    def passage(self) -> Passage:
        """It as a passage, without its statements."""
        metadata = json.loads(self.metadata)
        return Passage(self.id, self.title, self.text, metadata, self.document, self.chunk)

    @cached_property
    def counts(self) -> Counter[str]:
        """How often each term occurs."""
        return Counter(self.tokens.split())

    @cached_property
    def length(self) -> int:
        """Number of its terms, without notations."""
        return length_of(self.tokens)


def length_of(tokens: str) -> int:
    """Number of the terms of a row's tokens, without notations."""
    return len(tokens.partition(LENGTHS)[0].split())


@dataclass(frozen=True, slots=True)
class Matches:
    """What an index found, best first.

    Attributes:
        addresses: Where each row is in the dataset.
        ids: Its id.
        scores: Its cosine or BM25 score.
        tokens: Its tokens, of a search by words.
    """

    addresses: Sequence[int] = ()
    ids: Sequence[str] = ()
    scores: Sequence[float] = ()
    tokens: Sequence[str] = ()


@dataclass(eq=False)
class TermTable:
    """How many passages have each term that was looked up; a term's number is its order."""

    table: WordTable
    numbers: dict[str, int] = field(default_factory=dict)
    passages: list[int] = field(default_factory=list)

    def learn(self, terms: Iterable[str]) -> None:
        """Look up terms in one query."""
        new = [term for term in dict.fromkeys(terms) if term not in self.numbers]
        if new:
            words = self.table.find(TERM, new)
            for term in new:
                known = term in words
                self.numbers[term] = len(self.passages) if known else -1
                if known:
                    self.passages.append(words[term].passages)

    def find(self, term: str) -> int:
        """A term's number, -1 for one that no passage has."""
        if term not in self.numbers:
            self.learn([term])
        return self.numbers[term]


class DatasetVersion:
    """A version of an index that Lance searches; see `build.make_searchable`.

    Batches of questions share it; rows are read by one thread at a time.
    """

    def __init__(self, index: PassageStore, words: WordTable, pins: str) -> None:
        """Open the version that an index has in view.

        Args:
            words: The table of words beside it.
            pins: `build.pins` of the settings in use.

        Raises:
            IndexMismatchError: It was not made searchable by Lance, or for other settings.
        """
        self.index, self.words = index, words
        self.dataset = index.snapshot()
        require_columns(index.path, self.dataset.schema)
        if words.about.settings != pins:
            raise IndexMismatchError(
                f"The columns of {index.path} were made for other settings of the lexical arm or "
                "of the graph's assembly. Make them again with "
                f"`wye index --engine dataset --index {index.path}`, or use the settings of then."
            )
        self.dimension = dimension_of(self.dataset.schema)
        self.terms = TermTable(words)
        self._lock = Lock()
        self._rows: OrderedDict[int, Row] = OrderedDict()
        self._addresses: dict[str, int] = {}
        self._names: dict[str, Word | None] = {}

    @cached_property
    def count(self) -> int:
        """Number of passages."""
        return self.index.count()

    def names(self, spellings: Iterable[str]) -> dict[str, Word]:
        """Spelling -> the name that is spelt so, for those that some passage mentions."""
        wanted = [*dict.fromkeys(spellings)]
        new = [spelt for spelt in wanted if spelt not in self._names]
        if new:
            found = self.words.find("name", new)
            self._names.update((spelt, found.get(spelt)) for spelt in new)
        known = ((spelt, self._names[spelt]) for spelt in wanted)
        return {spelt: word for spelt, word in known if word is not None}

    def nearest(self, vector: Float32, k: int, predicate: str | None) -> Matches:
        """The k passages with the highest inner products."""
        nearest = {
            "column": "vector",
            "q": vector,
            "k": k,
            "metric": "dot",
            "nprobes": _PROBES,
            "refine_factor": _REFINED,
        }
        table = self._scan(["id", "_distance"], predicate, nearest=nearest)
        scores = (1 - table["_distance"].to_numpy()).tolist()
        return Matches(table["_rowid"].to_pylist(), table["id"].to_pylist(), scores)

    def with_terms(self, terms: Sequence[str], k: int, predicate: str | None) -> Matches:
        """The k passages with the best BM25 by Lance's weights."""
        if not terms:
            return Matches()
        query = MatchQuery(" ".join(terms), TOKENS)
        columns = ["id", TOKENS, "_score"]
        table = self._scan(columns, predicate, full_text_query=query, limit=k)
        tokens = table[TOKENS].to_pylist()
        scores = table["_score"].to_pylist()
        return Matches(table["_rowid"].to_pylist(), table["id"].to_pylist(), scores, tokens)

    def with_keys(self, words: Sequence[str], k: int, predicate: str | None) -> dict[int, float]:
        """Address of each of k passages that have some of the names -> how rare these are, summed.

        Args:
            words: See `columns.key_word`.
        """
        if not words:
            return {}
        query = MatchQuery(" ".join(words), KEYS)
        table = self._scan(["_score"], predicate, full_text_query=query, limit=k)
        return dict(zip(table["_rowid"].to_pylist(), table["_score"].to_pylist(), strict=True))

    def titled_by_names_of(
        self, packed: Sequence[Packed], most: int, predicate: str | None
    ) -> list[int]:
        """Addresses of passages titled by names in some passages, at most three for a name.

        Args:
            most: A name that more passages mention leads nowhere.
        """
        words = [key_word(TITLED, hash_) for hash_ in titles_in(packed, most)][:MOST_KEYS]
        return [*self.with_keys(words, 3 * len(words), predicate)]

    def addresses(self, ids: Iterable[str], predicate: str | None = None) -> dict[str, int]:
        """Id -> address, for the ids that are stored, and pass a predicate."""
        wanted = [*dict.fromkeys(ids)]
        missing = [id_ for id_ in wanted if predicate or id_ not in self._addresses]
        if missing:
            condition = any_of("id", missing)
            both = f"({condition}) AND ({predicate})" if predicate else condition
            table = self._scan(["id"], both)
            known = dict(zip(table["id"].to_pylist(), table["_rowid"].to_pylist(), strict=True))
            if predicate:
                return known
            self._addresses.update(known)
        return {id_: self._addresses[id_] for id_ in wanted if id_ in self._addresses}

    def note(self, matches: Matches) -> None:
        """Remember where passages are that will be read by id."""
        self._addresses.update(zip(matches.ids, matches.addresses, strict=True))

    def rows(self, addresses: Iterable[int]) -> list[Row]:
        """Rows by address, ascending by id; those that were read lately are in memory."""
        wanted = [*dict.fromkeys(addresses)]
        with self._lock:
            return self._read(wanted)

    def _read(self, wanted: Sequence[int]) -> list[Row]:
        missing = [address for address in wanted if address not in self._rows]
        if missing:
            with reading(self.index.path):
                table = self.dataset._take_rows(pa.array(missing, pa.uint64()), _ROW)
            for row in _to_rows(missing, table, self.dimension):
                self._rows[row.address] = row
                self._addresses[row.id] = row.address
        rows = sorted((self._rows[address] for address in wanted), key=lambda row: row.id)
        for address in wanted:
            self._rows.move_to_end(address)
        while len(self._rows) > CACHED_ROWS:
            self._rows.popitem(last=False)
        return rows

    def _scan(self, columns: Sequence[str], predicate: str | None, **search: Any) -> pa.Table:  # noqa: ANN401 - arguments of Lance's
        with reading(self.index.path):
            return self.dataset.scanner(
                columns=[*columns], filter=predicate, prefilter=True, with_row_id=True, **search
            ).to_table()

    # Filters

    def predicate(self, filter_: Filter) -> str:
        """A metadata filter as a condition that Lance applies before a search.

        Raises:
            FilterError: See `filters.check`.
        """
        values: dict[str, list[Any]] = {}
        if any(each.type not in ("eq", "ne", "in", "nin") for each in _every(filter_)) or any(
            comparisons_of(filter_)
        ):
            for key, value in self.words.labels:
                values.setdefault(key, []).append(value)
        if self.count:
            columns = Columns([{key: several} for key, several in values.items()])
            check(filter_, columns.kinds(keys_of(filter_)), lambda: {*values})
        return _sql(filter_, values)


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


def _every(filter_: Filter) -> list[Comparison]:
    if isinstance(filter_, Comparison):
        return [filter_]
    return [each for nested in filter_.filters for each in _every(nested)]


def _sql(filter_: Filter, values: Mapping[str, Sequence[Any]]) -> str:
    """A filter over the column of labels; a row without labels satisfies nothing.

    Args:
        values: Key -> its values in the corpus, from which those in a range are chosen.
    """
    if isinstance(filter_, Combination):
        joint = f" {filter_.type.upper()} "
        return "(" + joint.join(_sql(nested, values) for nested in filter_.filters) + ")"
    chosen: Sequence[object] = filter_.values
    if filter_.type not in ("eq", "ne", "in", "nin"):
        several = values.get(filter_.key, ())
        mask = Columns([{filter_.key: value} for value in several]).mask(filter_)
        chosen = [value for value, passes in zip(several, mask.tolist(), strict=True) if passes]
    words = ", ".join(f"'{label(filter_.key, value)}'" for value in chosen)
    has_any = f"array_has_any({LABELS}, make_array({words}))" if words else "FALSE"
    return f"NOT {has_any}" if filter_.type in _NEGATED else has_any


def _to_rows(addresses: Sequence[int], table: pa.Table, dimension: int) -> list[Row]:
    columns = {name: table[name].to_pylist() for name in _ROW if name not in ("vector", GRAPH)}
    flat = table["vector"].combine_chunks().flatten().to_numpy().astype(np.float32)
    vectors = flat.reshape(-1, dimension)
    graphs = table[GRAPH].to_pylist()
    return [
        Row(
            address,
            *cast("tuple[Any, Any, Any, Any, Any, Any]", fields[:6]),
            vector,
            fields[6] or "",
            Packed(packed or _NOTHING, dimension),
        )
        for address, vector, packed, *fields in zip(
            addresses, vectors, graphs, *columns.values(), strict=True
        )
    ]


def titles_in(packed: Sequence[Packed], most: int) -> list[int]:
    """Hashes of the names in some passages that are titles of other ones, the rarest first.

    Args:
        most: A name that more passages mention is left out.
    """
    degree: dict[int, int] = {}
    for each in packed:
        is_own = np.zeros(len(each.keys), bool)
        is_own[each.titles] = True
        leads = np.flatnonzero((each.titled > is_own) & (each.passages <= most))
        degree.update(zip(each.keys[leads].tolist(), each.passages[leads].tolist(), strict=True))
    return sorted(degree, key=lambda hash_: (degree[hash_], hash_))
