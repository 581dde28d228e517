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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import compress
from typing import Any

import numpy as np

from wye.backends.errors import FilterError, suggestion
from wye.backends.types import Int32, Mask, Scalar

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
_NULL = 0  # the kind of null, which a key may have instead of a value
_SIGNS = {"=": "eq", "!=": "ne", "<": "lt", "<=": "lte", ">": "gt", ">=": "gte"}
_LISTS = {"eq": "in", "ne": "nin"}
_COMPARED = re.compile(r"\s*([^{}\[\]\"<>=!]*[^{}\[\]\"<>=!\s])\s*(!=|<=|>=|=|<|>)\s*(.+?)\s*")
_AND = re.compile(r"\s+and\s+")
_AS_IN = 'Write a filter as in {"type": "gte", "key": "year", "value": 1999}.'


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of one key with one value or several."""

    type: str  # eq, ne, gt, gte, lt, lte, in or nin
    key: str
    values: tuple[Value, ...]  # one value; for in and nin any number

    def mask(self, columns: "Columns") -> Mask:
        """(n,) mask of the passages that satisfy it."""
        return columns.mask(self)


@dataclass(frozen=True, slots=True)
class Combination:
    """Several filters, of which all or any must hold."""

    type: str  # "and" or "or"
    filters: "tuple[Filter, ...]"  # at least one
    is_fixed: bool = False  # whether it was imposed on the caller; see `Fixed`

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
    """A filter as parsed JSON; a `FilterError` for a text that is neither comparisons nor JSON."""
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

    A `FilterError` names the path of what is no filter, as in `filters[1].key`. Depth, comparisons
    and values of lists are limited.
    """
    return _Parser().parse(value, "filter", MAX_DEPTH)


def check(filter_: Filter, columns: "Columns", *, deletes: bool = False) -> None:
    """Refuse comparisons that would let nothing through, or in a deletion everything.

    A `FilterError` if one has a key that no passage has, or only values of kinds that none of the
    key's values has.
    """
    for each in _comparisons(filter_):
        if (each.type in ("ne", "nin")) != deletes:
            continue
        if deletes and not each.values:
            raise FilterError(
                f"What is not in an empty list is everything: this would delete all passages. "
                f"Give {each.key!r:.60} values that are to stay."
            )
        kinds = columns.kinds(each.key)
        if not kinds:
            others = ", ".join(sorted(names := columns.keys())[:SHOWN_KEYS])
            raise FilterError(
                f"No passage has the key {each.key!r:.60}."
                + (
                    suggestion(each.key, names)
                    or (f" The keys are {others}." if others else " No passage has metadata.")
                )
            )
        stored = kinds - {_NULL}
        if stored and each.values and not any(_kind(value) in stored for value in each.values):
            what, value = _KINDS[_kind(each.values[0])][0], json.dumps(each.values[0])
            _, several, write = zip(*(_KINDS[kind] for kind in sorted(stored)), strict=True)
            raise FilterError(
                f"{value:.60} is {what}, but the values of {each.key!r:.60} are "
                f"{' and '.join(several)}. Write {', or '.join(write)}."
            )


class Columns:
    """Metadata of n passages in columns, for filters; built on first use."""

    def __init__(
        self,
        metadata: Sequence[Mapping[str, Any]] | Sequence[str],
        base: "Columns | None" = None,
        present: Mask | None = None,
    ) -> None:
        """Use the metadata of passages or, in a tenth of the memory, their JSON, in row order.

        A base's columns come first. Only keys and kinds of passages that are `present` (n,) are
        told.
        """
        self._metadata: Sequence[Any] = metadata
        self._base, self._present = base, present
        self._columns: dict[str, Column] = {}

    def __len__(self) -> int:
        return len(self._metadata) + (0 if self._base is None else len(self._base))

    def passing(self, filter_: Filter, *, deletes: bool = False) -> Mask:
        """(n,) mask of the passages that satisfy a filter; see `check` for deletions and errors."""
        if len(self) if self._present is None else self._present.any():
            check(filter_, self, deletes=deletes)
        return filter_.mask(self)

    def mask(self, comparison: Comparison) -> Mask:
        """(n,) mask of the passages that satisfy a comparison."""
        negated = comparison.type in ("ne", "nin")
        order = comparison.type if comparison.type in _ORDERS else "eq"
        satisfied = np.zeros(len(self._metadata), np.bool_)
        satisfied[self.column(comparison.key).rows_with(order, comparison.values)] = True
        late = ~satisfied if negated else satisfied
        return late if self._base is None else np.concatenate([self._base.mask(comparison), late])

    def keys(self) -> set[str]:
        """Keys that some passage has."""
        every = {*self._entries, *(() if self._base is None else self._base.keys())}
        return every if self._present is None else {key for key in every if self.kinds(key)}

    def kinds(self, key: str) -> set[int]:
        """The kinds of a key's values, as `_kind` numbers them; none if no passage has the key."""
        kinds = {*self.column(key).spans}
        if self._base is None:
            return kinds
        if self._present is None:
            return kinds | self._base.kinds(key)
        of_base = self._base.column(key)
        codes, spans = of_base.codes[self._present[of_base.rows]], of_base.spans.items()
        return kinds | {kind for kind, (a, b) in spans if ((codes >= a) & (codes < b)).any()}

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

    @cached_property
    def _entries(self) -> dict[str, "_Entries"]:
        """Rows and values of every key, in one pass; an empty list is like null."""
        entries: dict[str, _Entries] = {}
        for row, metadata in enumerate(self._metadata):
            parsed = json.loads(metadata) if isinstance(metadata, str) else metadata
            for key, value in parsed.items():
                rows, values = entries.setdefault(key, (array("i"), []))
                several = value if isinstance(value, list | tuple) else [value]
                rows.extend([row] * (len(several) or 1))
                values += several or [None]
        return entries


class Column:
    """All values of one key.

    Python compares integers and floats exactly, whatever their size; NumPy rounds some.

    Attributes:
        rows: (m,) int32 row of each value.
        codes: (m,) int32 position of each value among the distinct ones.
        distinct: These, ascending within a kind.
        spans: Kind, as `_kind` numbers it -> positions of its first distinct value and after its
            last one.
    """

    def __init__(self, rows: Sequence[int], values: Sequence[Scalar]) -> None:
        """Number m values, each with its row."""
        self.distinct: list[Any] = []
        self.spans: dict[int, tuple[int, int]] = {}
        kinds = [*map(_kind, values)]
        codes: dict[int, dict[Scalar, int]] = {}  # True and 1 are one key
        for kind in {*kinds}:
            of_kind: set[Any] = {*compress(values, map(kind.__eq__, kinds))}
            self.spans[kind] = len(self.distinct), len(self.distinct) + len(of_kind)
            self.distinct += sorted(of_kind)
            codes[kind] = {self.distinct[code]: code for code in range(*self.spans[kind])}
        pairs = zip(kinds, values, strict=True)
        self.rows: Int32 = np.asarray(rows, np.int32)
        self.codes: Int32 = np.fromiter((codes[k][v] for k, v in pairs), np.int32, len(values))

    def rows_with(self, order: str, bounds: Iterable[Value]) -> Int32:
        """Rows with a value that is eq, gt, gte, lt or lte one of some others; a row may repeat."""
        chosen = np.zeros(len(self.distinct), np.bool_)
        for value in bounds:
            first, last = self.spans.get(_kind(value), (0, 0))
            below = bisect_left(self.distinct, value, first, last)
            above = bisect_right(self.distinct, value, first, last)
            ranges = {
                "eq": slice(below, above),
                "gt": slice(above, last),
                "gte": slice(below, last),
                "lt": slice(first, below),
                "lte": slice(first, above),
            }
            chosen[ranges[order]] = True
        return self.rows[chosen[self.codes]]


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
    is_finite = not isinstance(value, float) or math.isfinite(value)
    if not isinstance(value, str | int | float) or not is_finite:
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


def _kind(value: Scalar) -> int:
    """1 for a boolean, 2 for a number, 3 for a string, 0 for null."""
    if isinstance(value, bool):
        return 1
    return 2 if isinstance(value, int | float) else 3 * isinstance(value, str)
