"""Every sentence of ARCHITECTURE.md on what always holds has tests, which exist."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SKIPS = {"skip", "skipif", "importorskip", "xfail"}


def sentences(document: str) -> list[str]:
    section = document.partition("## What always holds\n")[2].partition("\n## ")[0]
    bullets = (" ".join(bullet.split()) for bullet in section.split("\n- ")[1:])
    return [each for bullet in bullets for each in re.split(r"(?<=\.) (?=[A-Z`])", bullet)]


def fault_of(name: str) -> str:
    """What is wrong with a test named as `path::test`; nothing if it exists and runs by default."""
    path, _, test = name.partition("::")
    if not (ROOT / path).is_file():
        return "there is no such file"
    module = ast.parse((ROOT / path).read_text("utf-8"))
    named = [
        node
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == test
    ]
    if not named:
        return "there is no such test in the file"
    # A skip below a condition is of machines without a tool; the others run the test.
    always = [*module.body, *named[0].decorator_list, *named[0].body]
    plain = (node for node in always if isinstance(node, ast.expr | ast.Expr | ast.Assign))
    if any(n.attr in SKIPS for s in plain for n in ast.walk(s) if isinstance(n, ast.Attribute)):
        return "it is skipped"
    checks = any(isinstance(node, ast.Assert | ast.Call) for node in ast.walk(named[0]))
    return "" if checks else "it asserts nothing"


@pytest.fixture(scope="module")
def guarded() -> dict[str, list[str]]:
    return tomllib.loads((ROOT / "tests" / "guarantees.toml").read_text("utf-8"))


def test_each_guarantee_has_tests_and_each_entry_a_guarantee(guarded: dict[str, list[str]]) -> None:
    stated = sentences((ROOT / "ARCHITECTURE.md").read_text("utf-8"))
    assert len(stated) > 30
    unguarded = [each for each in stated if not any(words in each for words in guarded)]
    assert unguarded == [], "Name the tests of these sentences in tests/guarantees.toml."
    left = [words for words in guarded if sum(words in each for each in stated) != 1]
    assert left == [], (
        "These entries of tests/guarantees.toml are words of no or several sentences."
    )


def test_every_named_test_exists_and_is_not_skipped(guarded: dict[str, list[str]]) -> None:
    assert all(guarded.values())
    faults = {name: fault_of(name) for names in guarded.values() for name in names}
    assert {name: fault for name, fault in faults.items() if fault} == {}


def test_what_is_no_guard_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    (tmp_path / "test_a.py").write_text(
        "def test_real():\n    assert one() == 1\n"
        "@pytest.mark.skip\ndef test_left():\n    assert one() == 1\n"
        "def test_empty():\n    pass\n"
    )
    names = ("test_b.py::test_x", "test_a.py::test_x", "test_a.py::test_left")
    assert fault_of("test_a.py::test_real") == ""
    assert [fault_of(name) for name in (*names, "test_a.py::test_empty")] == [
        "there is no such file",
        "there is no such test in the file",
        "it is skipped",
        "it asserts nothing",
    ]
    assert sentences(
        "# A\n\n## What always holds\n\n- One `a.b` is. Two\n  are.\n\n## B\n- C."
    ) == ["One `a.b` is.", "Two are."]
