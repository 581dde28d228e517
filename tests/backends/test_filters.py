"""Filters agree with one obvious loop, and say where they are malformed."""

import operator
import re
import time
from contextlib import suppress
from threading import Thread
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from wye.backends.errors import FilterError
from wye.backends.filters import MAX_DEPTH, Column, Columns, Fixed, parse_filter
from wye.backends.types import Metadata

Json = Any
COMPARE = {"gte": operator.ge, "lte": operator.le}
COMPARE |= {name: getattr(operator, name) for name in ("eq", "gt", "lt")}


def kind(value: object) -> str:
    return {bool: "b", int: "n", float: "n", str: "s", type(None): ""}[type(value)]


def holds(order: str, ours: Json, theirs: Json) -> bool:
    return kind(ours) == kind(theirs) and bool(COMPARE[order](ours, theirs))


def satisfies(node: Json, metadata: Json) -> bool:
    """The meaning of a filter, one passage at a time."""
    if node["type"] == "and":
        return all(satisfies(part, metadata) for part in node["filters"])
    if node["type"] == "or":
        return any(satisfies(part, metadata) for part in node["filters"])
    stored = metadata.get(node["key"])
    entries = stored if isinstance(stored, list) else [stored]
    match node["type"]:
        case "ne" | "nin" as order:
            positive = {**node, "type": {"ne": "eq", "nin": "in"}[order]}
            return not satisfies(positive, metadata)
        case "in":
            return any(holds("eq", entry, value) for entry in entries for value in node["value"])
        case order:
            return any(holds(order, entry, node["value"]) for entry in entries)


keys = st.sampled_from(["year", "tag"])
numbers = st.sampled_from([0, 1, 1.0, -1, 0.5, 2**53, 2**53 + 1, -(2**70), 1e300, 2.0**53])
strings = st.sampled_from(["", "1", "a", "b", "ab", "é", "😀", "\uffff"])
ordered = numbers | strings
values = ordered | st.booleans()
stored = values | st.none() | st.lists(values | st.none(), max_size=3)
rows = st.lists(st.dictionaries(keys, stored), max_size=8)
comparisons = (
    st.fixed_dictionaries({"type": st.sampled_from(["eq", "ne"]), "key": keys, "value": values})
    | st.fixed_dictionaries(
        {"type": st.sampled_from(["gt", "gte", "lt", "lte"]), "key": keys, "value": ordered}
    )
    | st.fixed_dictionaries(
        {"type": st.sampled_from(["in", "nin"]), "key": keys, "value": st.lists(values, max_size=3)}
    )
)
filters = st.recursive(
    comparisons,
    lambda inner: st.fixed_dictionaries(
        {"type": st.sampled_from(["and", "or"]), "filters": st.lists(inner, min_size=1, max_size=3)}
    ),
    max_leaves=5,
)


@settings(max_examples=300)
@given(st.lists(filters, min_size=1, max_size=3), rows)
@example([{"type": "eq", "key": "year", "value": 2**53 + 1}], [{"year": 2.0**53}])
@example([{"type": "eq", "key": "year", "value": 2.0**53}], [{"year": 2**53 + 1}])
@example([{"type": "in", "key": "year", "value": [True, 1]}], [{"year": 1}, {"year": True}])
def test_masks_agree_with_the_slow_meaning(nodes: list[Json], metadata: list[Metadata]) -> None:
    columns = Columns(metadata)  # read once, used again
    for node in nodes:
        mask = parse_filter(node).mask(columns)
        assert mask.dtype == np.bool_
        assert mask.tolist() == [satisfies(node, row) for row in metadata]


def compared(node: Json) -> list[tuple[bool, str, list[Json]]]:
    """Whether a key is asked not to be something, which key, and the values, by comparison."""
    if "filters" in node:
        return [found for part in node["filters"] for found in compared(part)]
    values = node["value"] if isinstance(node["value"], list) else [node["value"]]
    return [(node["type"] in ("ne", "nin"), node["key"], values)]


def foreign(values: list[Json], stored: list[Json]) -> bool:
    """Whether no value is of a kind that is stored."""
    flat = [entry for value in stored for entry in (value if isinstance(value, list) else [value])]
    kinds = {kind(entry) for entry in flat} - {""}
    return bool(kinds and values) and not kinds & {*map(kind, values)}


@settings(max_examples=300)
@given(filters, rows, st.booleans(), st.integers(0, 8), st.sets(st.integers(0, 7)))
def test_what_nobody_would_notice_is_refused(
    node: Json, metadata: list[Metadata], deletes: bool, base: int, gone: set[int]
) -> None:
    parsed, lost = parse_filter(node), np.array(sorted(gone & {*range(len(metadata[:base]))}), int)
    left = [row for place, row in enumerate(metadata) if place not in lost]
    asked = [own[1:] for own in compared(node) if own[0] == deletes]
    unknown = {key for key, _ in asked} - {key for row in left for key in row}
    mistyped = [
        key for key, values in asked if foreign(values, [row[key] for row in left if key in row])
    ]
    everything = deletes and not all(values for _, values in asked)
    present = ~np.isin(np.arange(len(metadata)), lost)
    first = Columns(metadata[:base])
    both = Columns(metadata[base:], first, None if present.all() else present)
    for columns in (Columns(left), both):
        if left and (unknown or mistyped or everything):
            with pytest.raises(
                FilterError, match=r"No passage has the key|but the values of|delete all passages"
            ):
                columns.passing(parsed, deletes=deletes)
        else:
            mask = columns.passing(parsed, deletes=deletes)
            mask = mask[present] if columns is both else mask
            assert mask.tolist() == [satisfies(node, row) for row in left]


@pytest.mark.parametrize(
    ("stored", "value", "says"),
    [
        (1999, "1999", "\"1999\" is text, but the values of 'k' are numbers. Write a number, wi"),
        ("1999", 1999, "1999 is a number, but the values of 'k' are text. Write text, in double q"),
        (True, "true", "\"true\" is text, but the values of 'k' are booleans. Write true or false"),
        ([1, "a"], True, "true is a boolean, but the values of 'k' are numbers and text. Write"),
    ],
)
def test_a_value_of_a_kind_a_key_lacks_is_refused(stored: Json, value: Json, says: str) -> None:
    columns = Columns([{"k": stored}, {"k": None}, {}])
    with pytest.raises(FilterError, match=re.escape(says)):
        columns.passing(parse_filter({**EQ, "value": value}))
    known = stored[0] if stored == [1, "a"] else stored
    either = {"type": "in", "key": "k", "value": [value, known]}
    assert columns.passing(parse_filter(either)).tolist() == [True, False, False]
    assert columns.passing(parse_filter({**EQ, "type": "ne", "value": value})).all()
    fixed = Fixed({**EQ, "value": value})
    assert not columns.passing(parse_filter(fixed)).any()
    assert not columns.passing(parse_filter({**EQ, "value": value}), deletes=True).any()
    with pytest.raises(FilterError, match="but the values of"):
        columns.passing(parse_filter({**EQ, "type": "nin", "value": [value]}), deletes=True)


def test_a_misspelt_key_is_named_with_what_it_may_have_been_meant_for() -> None:
    columns = Columns([{"year": 1566, "topic": "bridges"}])
    for key, says in (("yeer", "'yeer'. Did you mean year?"), ("q", "'q'. The keys are topic, ye")):
        with pytest.raises(FilterError, match=re.escape(f"No passage has the key {says}")):
            columns.passing(parse_filter({**EQ, "key": key}))
    with pytest.raises(FilterError, match="No passage has metadata"):
        Columns([{}]).passing(parse_filter(EQ))


EQ = {"type": "eq", "key": "k", "value": 1}


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (None, "filter must be an object with a type, not None"),
        ([EQ], "filter must be an object"),
        ({"year": {"gt": 1999}}, 'not None. Write a filter as in {"type": "gte", "key": "year", '),
        ({}, "filter.type must be one of eq, ne, .*, and, or, not None"),
        ({"type": ["eq"]}, "filter.type must be one of"),
        ({"type": "like", "key": "k", "value": 1}, "not 'like'"),
        ({"type": "eq", "value": 1}, "filter.key is missing"),
        ({"type": "eq", "key": 3, "value": 1}, "filter.key must be a string, not 3"),
        ({"type": "eq", "key": "k"}, "filter.value is missing"),
        ({"type": "eq", "key": "k", "value": None}, "filter.value must be a string, a number or"),
        ({"type": "eq", "key": "k", "value": [1]}, "filter.value must be a string, a number or"),
        ({"type": "eq", "key": "k", "value": float("nan")}, "not nan"),
        ({"type": "gt", "key": "k", "value": True}, "filter.value .* booleans have no order"),
        ({"type": "in", "key": "k", "value": "a"}, "filter.value must be a list of values"),
        ({"type": "in", "key": "k", "value": [0] * 1001}, "more than 1000 values in total"),
        ({"type": "nin", "key": "k", "value": ["a", {}]}, r"filter.value\[1\] must be a string"),
        ({**EQ, "values": 1}, "filter has an unknown field 'values'; use type, key, value"),
        ({"type": "and"}, "filter.filters is missing"),
        ({"type": "or", "filters": []}, "filter.filters must be a list of at least one"),
        ({"type": "or", "filters": EQ}, "filter.filters must be a list of at least one"),
        (
            {"type": "and", "filters": [EQ, {"type": "or", "filters": [{"type": "eq"}]}]},
            r"filter.filters\[1\].filters\[0\].key is missing",
        ),
        (
            {"type": "or", "filters": [{"type": "in", "key": "k", "value": [0] * 501}] * 2},
            "more than 1000 values in total",
        ),
        ({"type": "and", "filters": [EQ] * 257}, "has more than 256 comparisons"),
    ],
)
def test_a_malformed_filter_is_refused_with_its_place(node: object, message: str) -> None:
    with pytest.raises(FilterError, match=message):
        parse_filter(node)


def nested(depth: int) -> dict[str, object]:
    return {"type": "and", "filters": [nested(depth - 1)]} if depth else dict(EQ)


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("year<1850", {"type": "lt", "key": "year", "value": 1850}),
        (' year >= "1850" ', {"type": "gte", "key": "year", "value": "1850"}),
        ("a = Trinidad and Tobago", {"type": "eq", "key": "a", "value": "Trinidad and Tobago"}),
        ('a="Rock and roll=noise"', {"type": "eq", "key": "a", "value": "Rock and roll=noise"}),
        ("topic!=[1, \"b\"]", {"type": "nin", "key": "topic", "value": [1, "b"]}),
        ('topic=["a"] and year>1 and is it=true', {"type": "and", "filters": [
            {"type": "in", "key": "topic", "value": ["a"]},
            {"type": "gt", "key": "year", "value": 1},
            {"type": "eq", "key": "is it", "value": True},
        ]}),
        ('{"type": "eq", "key": "a", "value": 1}', {"type": "eq", "key": "a", "value": 1}),
        ("cafe\u0301=de\u0301ja\u0300", {"type": "eq", "key": "café", "value": "déjà"}),
    ],
)  # fmt: skip
def test_a_filter_may_be_text(text: str, node: object) -> None:
    assert parse_filter(text) == parse_filter(node)
    nested = {"type": "and", "filters": [text]}
    assert parse_filter(nested) == parse_filter({"type": "and", "filters": [node]})


@pytest.mark.parametrize(
    "text",
    ["", "year", "<5", "year<", "near it", "{", "topic=[a", 'name="x', "[" * 9_999, "null", "5"],
)
def test_a_text_that_is_no_filter_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(FilterError, match="is neither a comparison, like year<1850, nor JSON"):
        parse_filter(text)


@given(st.text() | st.text('ab =<>!"[]{} and', max_size=60))
def test_any_text_is_a_filter_or_an_error(text: str) -> None:
    with suppress(FilterError):
        parse_filter(text)


def test_nesting_is_limited() -> None:
    assert parse_filter(nested(MAX_DEPTH)).mask(Columns([{"k": 1}, {}])).tolist() == [True, False]
    for depth in (MAX_DEPTH + 1, 500):
        with pytest.raises(FilterError, match="nested deeper than 8 levels"):
            parse_filter(nested(depth))


def test_a_filter_is_a_value() -> None:
    assert {parse_filter(nested(2)), parse_filter(nested(2))} == {parse_filter(nested(2))}


def test_two_threads_that_first_filter_by_one_key_read_the_same_values() -> None:
    columns = Columns([{"year": 1999}, {"year": 2000}])

    class Overtaken(dict[str, Column]):
        """The columns, of which another thread makes one as soon as it was missed here."""

        def __contains__(self, key: object) -> bool:
            is_there = super().__contains__(key)
            if not is_there and not others:
                others.append(Thread(target=columns.column, args=("year",)))
                others[0].start()
                others[0].join()
            return is_there

    others: list[Thread] = []
    columns._columns = Overtaken()
    assert columns.column("year").rows_with("gte", [1999]).tolist() == [0, 1]
    assert columns.column("year").rows_with("eq", [2000]).tolist() == [1]
    assert others


def test_a_hundred_thousand_rows_take_a_moment() -> None:
    rows = [{"year": n % 100, "tag": f"t{n % 1000}", "post": 2**60 + n} for n in range(100_000)]
    columns = Columns(rows)
    year = {"type": "gte", "key": "year", "value": 50}
    tags = {"type": "in", "key": "tag", "value": [f"t{n}" for n in range(0, 200, 2)]}
    posts = {"type": "nin", "key": "post", "value": [2**60 + n for n in range(50, 50_000, 100)]}
    parsed = parse_filter({"type": "and", "filters": [year, tags, posts]})
    assert parsed.mask(columns).sum() == 5_000 - 100
    took = []
    for _ in range(3):
        start = time.process_time()
        parsed.mask(columns)
        took.append(time.process_time() - start)
    assert min(took) < 0.25
