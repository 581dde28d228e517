"""Metadata filters, written as in OpenAI's vector stores, or as text: year<1850 and topic=bridges.

As text, a comparison has one of the signs =, !=, <, <=, > and >=, and a word or a value as in JSON,
so that "1850" is text and 1850 a number. With = and != the value may be a list, and several
comparisons are joined by "and".

In JSON, a comparison is `{"type": "eq", "key": "year", "value": 1999}`; the types are eq, ne, gt,
gte, lt, lte, in and nin, the last two with a list as value. A combination is `{"type": "and",
"filters": [...]}`, or with "or". Where the type alone leaves the meaning open:

- A passage without the key, or with null as its value, satisfies only ne and nin.
- A list satisfies a comparison if one of its elements does. ne and nin are the exact opposites of
  eq and in: no element may satisfy these.
- Values of different kinds (string, number, boolean) are never equal, greater or less: `"1"`, `1`
  and `true` all differ. `1` and `1.0` are equal.
- Strings are ordered by code point. Booleans have no order: comparing their order is an error.

A key that no passage has is usually misspelt, and a value of a kind that none of the key's values
has is usually misquoted. `check` refuses both where that would go unnoticed: in a search, where the
comparison would let nothing through; in a deletion, where ne and nin would let everything through.
Elsewhere they are allowed: a search for what is not "archived" is right before anything was
archived, and a deletion can be repeated. An empty list with nin is refused in a deletion too.
"""

import json
import math
import re
import unicodedata
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import compress
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from wye.backends.errors import FilterError, suggestion
from wye.backends.types import Int32, Int64, Mask, Metadata, Scalar

MAX_DEPTH = 8
MAX_COMPARISONS = 256
MAX_VALUES = 1_000
SHOWN_KEYS = 20

Value = str | int | float | bool
_Entries = tuple["array[int]", list[Scalar]]

_ORDERS = ("gt", "gte", "lt", "lte")
_COMPARISONS = ("eq", "ne", *_ORDERS, "in", "nin")
_COMBINATIONS: Mapping[str, Callable[[Mask, Mask], Mask]] = {
    "and": np.logical_and,
    "or": np.logical_or,
}
# By `_kind`: what a value is, what several are, and how to write one.
_KINDS = {
    1: ("a boolean", "booleans", "true or false, without quotes"),
    2: ("a number", "numbers", "a number, without quotes"),
    3: ("text", "text", "text, in double quotes"),
}
_EXACT = 2**53
"""Integers up to here are exact as float64."""
_SIGNS = {"=": "eq", "!=": "ne", "<": "lt", "<=": "lte", ">": "gt", ">=": "gte"}
_LISTS = {"eq": "in", "ne": "nin"}
_COMPARED = re.compile(r"\s*([^{}\[\]\"<>=!]*[^{}\[\]\"<>=!\s])\s*(!=|<=|>=|=|<|>)\s*(.+?)\s*")
_AND = re.compile(r"\s+and\s+")
_AS_IN = 'Write a filter as in {"type": "gte", "key": "year", "value": 1999}.'


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of one key with one value or several.

    Attributes:
        type: eq, ne, gt, gte, lt, lte, in or nin.
        values: One value; for in and nin any number.
    """

    type: str
    key: str
    values: tuple[Value, ...]

    def mask(self, columns: "Columns") -> Mask:
        """(n,) mask of the passages that satisfy it."""
        return columns.mask(self)


@dataclass(frozen=True, slots=True)
class Combination:
    """Several filters, of which all or any must hold.

    Attributes:
        type: "and" or "or".
        filters: At least one.
        is_fixed: Whether it was imposed on the caller; see `Fixed`.
    """

    type: str
    filters: "tuple[Filter, ...]"
    is_fixed: bool = False

    def mask(self, columns: "Columns") -> Mask:
        """(n,) mask of the passages that satisfy it."""
        return reduce(_COMBINATIONS[self.type], (node.mask(columns) for node in self.filters))


Filter = Comparison | Combination


class Fixed(dict[str, object]):
    """An "and", as parsed JSON, that is imposed on a caller in addition to the caller's own filter.

    Its keys are not checked against the metadata: an error would reveal passages that it hides.
    """

    def __init__(self, *filters: object) -> None:
        super().__init__(type="and", filters=filters)


def as_json(value: object) -> object:
    """A filter as parsed JSON, from that or from text.

    Raises:
        FilterError: A text is neither comparisons nor JSON.
    """
    if not isinstance(value, str):
        return value
    # An "and" may also be part of a value: "country=Trinidad and Tobago" is one comparison.
    for texts in (_AND.split(value), [value]):
        comparisons = [*map(_compared, texts)]
        if all(comparisons):
            filters = {"type": "and", "filters": comparisons}
            return comparisons[0] if len(comparisons) == 1 else filters
    reason = "It is no object"
    try:
        parsed: object = json.loads(value)
        if isinstance(parsed, dict):
            return parsed
    except (ValueError, RecursionError) as error:
        reason = str(error)
    raise FilterError(
        f"The filter {value!r:.60} is neither a comparison, like year<1850, nor JSON, like "
        f'{{"type": "lt", "key": "year", "value": 1850}} ({reason}).'
    )


def _compared(text: str) -> dict[str, object] | None:
    """A comparison in text as parsed JSON; None if it is none."""
    match = _COMPARED.fullmatch(text)
    if match is None:
        return None
    key, sign, word = match.groups()
    kind, value = _SIGNS[sign], word
    try:
        value = json.loads(word)
    except (ValueError, RecursionError):  # a word needs no quotes
        if word[0] in '"[{':
            return None
    kind = _LISTS.get(kind, kind) if isinstance(value, list) else kind
    return {"type": kind, "key": key, "value": value}


def parse_filter(value: object) -> Filter:
    """The filter that text or parsed JSON describes.

    Raises:
        FilterError: It describes none (names the offending path, as in `filters[1].key`), is nested
            deeper than `MAX_DEPTH`, has more than `MAX_COMPARISONS` comparisons, or has more than
            `MAX_VALUES` values in its lists.
    """
    return _Parser().parse(value, "filter", MAX_DEPTH)


def keys_of(filter_: Filter) -> set[str]:
    """The keys that a filter compares, without those of imposed parts."""
    return {each.key for each in _comparisons(filter_)}


def check(
    filter_: Filter,
    kinds: Mapping[str, Collection[int]],
    keys: Callable[[], Collection[str]],
    *,
    deletes: bool = False,
) -> None:
    """Refuse comparisons that would let nothing through, or in a deletion everything.

    Args:
        kinds: `Columns.kinds` of the filter's keys.
        keys: Finds all keys, for the message.
        deletes: Whether what passes is to be deleted.

    Raises:
        FilterError: A comparison has a key that no passage has, or only values of kinds that none
            of the key's values has.
    """
    for each in _comparisons(filter_):
        if (each.type in ("ne", "nin")) != deletes:
            continue
        if deletes and not each.values:
            raise FilterError(
                f"What is not in an empty list is everything: this would delete all passages. "
                f"Give {each.key!r:.60} values that are to stay."
            )
        if each.key not in kinds:
            others = ", ".join(sorted(names := keys())[:SHOWN_KEYS])
            raise FilterError(
                f"No passage has the key {each.key!r:.60}."
                + (
                    suggestion(each.key, names)
                    or (f" The keys are {others}." if others else " No passage has metadata.")
                )
            )
        stored = kinds[each.key]
        if stored and each.values and not any(_kind(value) in stored for value in each.values):
            what, value = _KINDS[_kind(each.values[0])][0], json.dumps(each.values[0])
            _, several, write = zip(*(_KINDS[kind] for kind in sorted(stored)), strict=True)
            raise FilterError(
                f"{value:.60} is {what}, but the values of {each.key!r:.60} are "
                f"{' and '.join(several)}. Write {', or '.join(write)}."
            )


class Columns:
    """Metadata of n passages in columns, for filters; built on first use."""

    def __init__(self, metadata: Sequence[Mapping[str, Any]] | Sequence[str]) -> None:
        """Use the metadata of n passages, in row order, which must not change afterwards.

        Args:
            metadata: Mappings, or their JSON, which takes a tenth of the memory.
        """
        self._metadata = metadata
        self._columns: dict[str, Column] = {}

    def __len__(self) -> int:
        """Number of passages."""
        return len(self._metadata)

    def passing(self, filter_: Filter, *, deletes: bool = False) -> Mask:
        """(n,) mask of the passages that satisfy a filter.

        Args:
            deletes: Whether these passages are to be deleted.

        Raises:
            FilterError: See `check`.
        """
        if len(self):
            kinds = self.kinds(keys_of(filter_))
            check(filter_, kinds, self.keys, deletes=deletes)
        return filter_.mask(self)

    def mask(self, comparison: Comparison) -> Mask:
        """(n,) mask of the passages that satisfy a comparison."""
        negated = comparison.type in ("ne", "nin")
        order = comparison.type if comparison.type in _ORDERS else "eq"
        satisfied = np.zeros(len(self), np.bool_)
        if comparison.values:
            satisfied[self.column(comparison.key).rows(order, *comparison.values)] = True
        return ~satisfied if negated else satisfied

    def keys(self) -> set[str]:
        """Keys that some passage has."""
        return {*self._entries}

    def kinds(self, keys: Iterable[str]) -> dict[str, set[int]]:
        """Key -> the kinds of its values, as `_kind` numbers them, for those that are known."""
        stored = self.keys()
        return {key: self._kinds_of(key) for key in keys if key in stored}

    def _kinds_of(self, key: str) -> set[int]:
        return self.column(key).kinds()

    def keys_without(self, rows: Int64) -> set[str]:
        """Keys that some passage outside the given rows has."""
        chosen = {*rows.tolist()}
        passages_in_rows = Counter(key for row in chosen for key in _parsed(self._metadata[row]))
        return {key for key in self._entries if self._passages[key] > passages_in_rows[key]}

    def column(self, key: str) -> "Column":
        """All values of a key; empty for a key that no passage has."""
        if key not in self._entries:
            return Column([], [])
        # Read before the check: another thread lets them go only once the column is there.
        entries = self._entries[key]
        if key not in self._columns:
            self._columns[key] = Column(*entries)
            self._entries[key] = array("i"), []  # nobody asks for them again
        return self._columns[key]

    @property
    def _passages(self) -> Counter[str]:
        """Number of passages with each key."""
        return self._read[0]

    @property
    def _entries(self) -> dict[str, "_Entries"]:
        """Rows and values of every key's entries."""
        return self._read[1]

    @cached_property
    def _read(self) -> tuple[Counter[str], dict[str, "_Entries"]]:
        """`_passages` and `_entries`, in one pass over all metadata; lists are flattened."""
        passages: Counter[str] = Counter()
        entries: dict[str, _Entries] = {}
        for row, metadata in enumerate(map(_parsed, self._metadata)):
            passages.update(metadata.keys())
            for key, value in metadata.items():
                rows, values = entries.setdefault(key, (array("i"), []))
                several = value if isinstance(value, list | tuple) else [cast(Scalar, value)]
                rows.extend([row] * len(several))
                values += several
        return passages, entries


def _parsed(metadata: Metadata | str) -> Metadata:
    parsed: Metadata = json.loads(metadata) if isinstance(metadata, str) else metadata
    return parsed


class Column:
    """All values of one key, by kind."""

    def __init__(self, rows: Sequence[int], values: Sequence[Scalar]) -> None:
        """Split the m values, each with its row, by kind; nulls are dropped."""
        row_array: Int32 = np.asarray(rows, np.int32)
        kinds: NDArray[np.int8] = np.fromiter(map(_kind, values), np.int8, len(values))
        self._values = {
            kind: _Ordered(row_array[is_kind], [*compress(values, is_kind)])
            for kind in _KINDS
            for is_kind in [np.equal(kinds, kind)]
        }

    def kinds(self, deleted: Int64 | tuple[()] = ()) -> set[int]:
        """The kinds of the values, as `_kind` numbers them, outside the given rows."""
        return {
            kind
            for kind, values in self._values.items()
            # The first rows are usually enough to know.
            if any(
                np.isin(rows, deleted, invert=True).any()
                for rows in (values.rows[:1_000], values.rows)
            )
        }

    def rows(self, order: str, value: Value, *others: Value) -> Int32:
        """Rows with a value that is eq, gt, gte, lt or lte a given one; a row may repeat."""
        values_by_kind: dict[int, list[Value]] = {}
        for each in (value, *others):
            values_by_kind.setdefault(_kind(each), []).append(each)
        return np.concatenate(
            [self._values[kind].rows_with(order, values_by_kind[kind]) for kind in values_by_kind]
        )


class _Ordered:
    """Values of one kind, each as its index among the distinct ones in order.

    Python compares integers and floats exactly, whatever their size; NumPy rounds some.
    """

    def __init__(self, rows: Int32, values: Sequence[Any]) -> None:
        self.rows = rows
        self._distinct: list[Any]
        self._indices: Int32
        if all(isinstance(value, float) or _is_small(value) for value in values):
            # Sorting a million Python numbers holds up all threads for a second.
            distinct, positions = np.unique(np.array(values, np.float64), return_inverse=True)
            self._distinct, self._indices = distinct.tolist(), positions.astype(np.int32)
            return
        self._distinct = sorted({*values})
        position = {value: position for position, value in enumerate(self._distinct)}
        self._indices = np.fromiter((position[value] for value in values), np.int32, len(values))

    def rows_with(self, order: str, bounds: Sequence[Value]) -> Int32:
        """Rows with a value that is eq, gt, gte, lt or lte one of the given ones."""
        chosen = np.zeros(len(self._distinct), np.bool_)
        for value in bounds:
            below = bisect_left(self._distinct, value)
            above = bisect_right(self._distinct, value)
            ranges = {
                "eq": slice(below, above),
                "gt": slice(above, None),
                "gte": slice(below, None),
                "lt": slice(below),
                "lte": slice(above),
            }
            chosen[ranges[order]] = True
        return self.rows[chosen[self._indices]]


def _is_small(value: object) -> bool:
    """Whether a value is an integer that is exact as float64."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _EXACT


class _Parser:
    """Parses one filter, and stops as soon as it exceeds a limit, however long it is."""

    def __init__(self) -> None:
        self._comparisons = MAX_COMPARISONS
        self._values = MAX_VALUES

    def parse(self, value: object, path: str, depth: int) -> Filter:
        """One node of a filter."""
        value = as_json(value)
        if not isinstance(value, Mapping):
            raise FilterError(f"{path} must be an object with a type, not {value!r:.60}. {_AS_IN}")
        kind = value.get("type")
        if kind in _COMPARISONS:
            return self._comparison(value, path)
        if kind in tuple(_COMBINATIONS):  # not the mapping itself: kind may not be hashable
            return self._combination(value, path, depth)
        kinds = ", ".join([*_COMPARISONS, *_COMBINATIONS])
        raise FilterError(f"{path}.type must be one of {kinds}, not {kind!r:.60}. {_AS_IN}")

    def _combination(self, node: Mapping[str, object], path: str, depth: int) -> Combination:
        """An "and" or an "or"."""
        _check_fields(node, ("type", "filters"), path)
        filters = node["filters"]
        if not isinstance(filters, list | tuple) or not filters:
            raise FilterError(f"{path}.filters must be a list of at least one filter")
        if depth == 0:
            raise FilterError(f"{path} is nested deeper than {MAX_DEPTH} levels")
        nodes = enumerate(filters)
        is_fixed = isinstance(node, Fixed)
        depth -= not is_fixed
        parsed = (self.parse(each, f"{path}.filters[{i}]", depth) for i, each in nodes)
        return Combination(str(node["type"]), tuple(parsed), is_fixed)

    def _comparison(self, node: Mapping[str, object], path: str) -> Comparison:
        """A comparison of a key with one value or several."""
        _check_fields(node, ("type", "key", "value"), path)
        kind, key, value = str(node["type"]), node["key"], node["value"]
        self._comparisons -= 1
        if self._comparisons < 0:
            raise FilterError(f"filter has more than {MAX_COMPARISONS} comparisons")
        if not isinstance(key, str):
            raise FilterError(f"{path}.key must be a string, not {key!r:.60}")
        if kind not in ("in", "nin"):
            return Comparison(kind, _composed(key), (_parse_value(value, f"{path}.value", kind),))
        if not isinstance(value, list | tuple):
            raise FilterError(f"{path}.value must be a list of values for {kind}")
        self._values -= len(value)
        if self._values < 0:
            raise FilterError(f"the lists in filter have more than {MAX_VALUES} values in total")
        values = (_parse_value(entry, f"{path}.value[{i}]", kind) for i, entry in enumerate(value))
        return Comparison(kind, _composed(key), tuple(values))


def _parse_value(value: object, path: str, kind: str) -> Value:
    """A value to compare with."""
    if not isinstance(value, str | int | float) or not _finite(value):
        raise FilterError(f"{path} must be a string, a number or a boolean, not {value!r:.60}")
    if kind in _ORDERS and isinstance(value, bool):
        raise FilterError(f"{path} must be a string or a number: booleans have no order ({kind})")
    return _composed(value) if isinstance(value, str) else value


def _composed(text: str) -> str:
    """A text as metadata is stored, with letters and their accents as one character."""
    return unicodedata.normalize("NFC", text)


def _check_fields(node: Mapping[str, object], fields: tuple[str, ...], path: str) -> None:
    """Refuse missing and unknown fields: ignoring a misspelt one would let passages through."""
    for name in fields:
        if name not in node:
            raise FilterError(f"{path}.{name} is missing")
    for name in node:
        if name not in fields:
            raise FilterError(f"{path} has an unknown field {name!r:.60}; use {', '.join(fields)}")


def _comparisons(node: Filter) -> Iterator[Comparison]:
    """The comparisons of a filter that the caller chose, without imposed ones."""
    if isinstance(node, Comparison):
        yield node
    elif not node.is_fixed:
        for nested in node.filters:
            yield from _comparisons(nested)


def _finite(value: Value) -> bool:
    """Whether a value is neither NaN nor infinite."""
    return not isinstance(value, float) or math.isfinite(value)


def _kind(value: Scalar) -> int:
    """1 for a boolean, 2 for a number, 3 for a string, 0 for null."""
    if isinstance(value, bool):
        return 1
    return 2 if isinstance(value, int | float) else 3 * isinstance(value, str)
