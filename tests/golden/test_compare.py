"""The comparison finds what it is there to find."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests.golden.compare import EVERYTHING, Tolerance, differences, report
from tests.golden.store import read, rounded, write


@pytest.fixture
def frozen() -> dict[str, Any]:
    """Two passages of one score, and one of another."""
    scores = {"etna": 0.5, "tambora": 0.5, "krakatoa": 0.25}
    passages = [
        {"id": id_, "rank": rank, "score": score, "title": id_.title()}
        for rank, (id_, score) in enumerate(scores.items(), start=1)
    ]
    return {"q1": {"auto": {"passages": passages, "path": "fusion", "batch": 1, "degraded": ""}}}


def passages_of(answers: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = answers["q1"]["auto"]["passages"]
    return found


def test_the_same_is_the_same(frozen: dict[str, Any]) -> None:
    assert differences(frozen, deepcopy(frozen)) == []


def test_a_changed_score_is_shown_with_its_place(frozen: dict[str, Any]) -> None:
    now = deepcopy(frozen)
    passages_of(now)[2]["score"] = 0.2501
    assert differences(frozen, now) == [
        "q1 > auto > passages > 2 (krakatoa) > score: was 0.25, is 0.2501"
    ]


def test_a_score_may_differ_by_the_tolerance(frozen: dict[str, Any]) -> None:
    now = deepcopy(frozen)
    passages_of(now)[2]["score"] = 0.25001
    assert differences(frozen, now) == []
    assert len(differences(frozen, now, Tolerance(1e-6, 1e-9))) == 1
    assert differences({"near zero": 0.0}, {"near zero": 1e-5}) == []
    assert len(differences({"near zero": 0.0}, {"near zero": 1e-4})) == 1


def test_a_swapped_rank_is_a_difference(frozen: dict[str, Any]) -> None:
    now = deepcopy(frozen)
    rows = passages_of(now)
    rows[1], rows[2] = rows[2], rows[1]
    found = differences(frozen, now)
    assert "q1 > auto > passages > 1 (tambora) > id: was 'tambora', is 'krakatoa'" in found


def test_passages_of_one_score_may_change_places(frozen: dict[str, Any]) -> None:
    now = deepcopy(frozen)
    rows = passages_of(now)
    rows[0], rows[1] = {**rows[1], "rank": 1}, {**rows[0], "rank": 2}
    assert differences(frozen, now) == []
    rows[0]["title"] = "Other"
    assert differences(frozen, now) == [
        "q1 > auto > passages > 1 (tambora) > title: was 'Tambora', is 'Other'"
    ]


def test_passages_of_one_score_are_still_the_same_passages(frozen: dict[str, Any]) -> None:
    now = deepcopy(frozen)
    passages_of(now)[1]["id"] = "vesuvius"
    assert differences(frozen, now) == [
        "q1 > auto > passages > 1 (tambora) > id: was 'tambora', is 'vesuvius'"
    ]


def test_ranks_must_not_be_wrong_within_one_score(frozen: dict[str, Any]) -> None:
    now = deepcopy(frozen)
    passages_of(now)[0]["rank"] = 2
    assert differences(frozen, now) == ["q1 > auto > passages > 0 (etna) > rank: was 1, is 2"]


def test_what_is_missing_or_added_is_a_difference(frozen: dict[str, Any]) -> None:
    now = deepcopy(frozen)
    del now["q1"]["auto"]["degraded"]
    now["q1"]["auto"]["new"] = None
    now["q2"] = {}
    passages_of(now).pop()
    found = differences(frozen, now)
    assert "q1 > auto > degraded: was '', is (missing)" in found
    assert "q1 > auto > new: was (missing), is None" in found
    assert "q2: was (missing), is {}" in found
    assert "q1 > auto > passages > (length): was 3, is 2" in found
    assert differences([], [1]) == ["(length): was 0, is 1", "0: was (missing), is 1"]


def test_a_named_key_may_be_removed_wherever_it_is(frozen: dict[str, Any]) -> None:
    now = deepcopy(frozen)
    del now["q1"]["auto"]["degraded"]
    del passages_of(now)[0]["title"]
    assert differences(frozen, now, removed=("title", "degraded")) == []
    assert differences(frozen, now, removed=("title",)) == [
        "q1 > auto > degraded: was '', is (missing)"
    ]


def test_a_key_that_may_be_removed_must_not_change(frozen: dict[str, Any]) -> None:
    now = deepcopy(frozen)
    now["q1"]["auto"]["degraded"] = "Slow."
    assert differences(frozen, now, removed=("degraded",)) == [
        "q1 > auto > degraded: was '', is 'Slow.'"
    ]
    assert len(differences(now["q1"]["auto"]["passages"], [], removed=("degraded",))) == 4


_DESCRIBED: dict[str, Any] = {
    "paths": {"/search": {"tags": ["old", "new"]}, "/shard": {}},
    "parameters": [
        {"name": "k", "example": 5},
        {"name": "part"},
        {"name": "filter", "type": {"anyOf": ["number", "text", "null"]}},
    ],
}


def test_from_a_description_anything_may_be_removed() -> None:
    now = deepcopy(_DESCRIBED)
    del now["paths"]["/shard"]
    now["paths"]["/search"]["tags"] = ["new"]
    now["parameters"] = [{"name": "k"}, {"name": "filter", "type": {"anyOf": ["null"]}}]
    assert differences(_DESCRIBED, now, removed=EVERYTHING) == []
    assert differences(_DESCRIBED, {}, removed=EVERYTHING) == []


@pytest.mark.parametrize(
    "now",
    [
        {"paths": {"/search": {"tags": ["old", "new"]}, "/shards": {}}},
        {"paths": {"/search": {"tags": ["old", "new", "newest"]}}},
        {"paths": {"/search": {"tags": ["newest"]}}},
        {"paths": {"/search": {"tags": "old"}}},
        {"parameters": [{"name": "part"}, {"name": "k"}]},
        {"parameters": [{"name": "k", "example": 6}]},
        {"parameters": [{"name": "part", "required": True}]},
        {"parameters": [{"name": "filter", "type": {"anyOf": ["null", "number"]}}]},
    ],
)
def test_in_a_description_nothing_is_added_changed_or_moved(now: dict[str, Any]) -> None:
    assert differences(_DESCRIBED, now, removed=EVERYTHING)


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("dense", "lexical"),
        (1, 2),
        (1000000, 1000001),
        (1, 1.0),
        (1, True),
        (None, 0.0),
        (0.5, "0.5"),
        ([1], {"0": 1}),
        ({}, []),
        ("", None),
    ],
)
def test_everything_but_fractions_is_compared_exactly(was: object, now: object) -> None:
    assert len(differences(was, now)) == 1
    assert len(differences(now, was)) == 1


def test_a_report_says_how_many_differences_it_does_not_show() -> None:
    text = report("answers", differences(list(range(50)), list(range(1, 51))), most=3)
    assert text.splitlines() == [
        "answers differs from what was frozen in 50 places:",
        "0: was 0, is 1",
        "1: was 1, is 2",
        "2: was 2, is 3",
        "... and 47 more",
    ]


@pytest.mark.parametrize("name", ["small.json", "large.json.gz"])
def test_the_same_values_give_the_same_bytes(name: str, tmp_path: Path) -> None:
    write(name, {"b": [0.123456789, 1], "a": "Müntzer"}, tmp_path / "one")
    write(name, {"a": "Müntzer", "b": [0.123456789, 1]}, tmp_path / "two")
    assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    assert read(name, tmp_path / "one") == {"a": "Müntzer", "b": [0.1234568, 1]}


def test_rounding_is_far_below_the_tolerance() -> None:
    for value in (1 / 3, 2e-5 / 3, 98765.4321):
        assert differences(value, rounded(value), Tolerance(1e-6, 0.0)) == []
