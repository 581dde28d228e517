"""Commands that documents and messages name are taken by the parsers of what they run.

Those of the container's files are looked at in test_container.py.
"""

import argparse
import ast
import re
import sys
import tomllib
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from runpy import run_module
from typing import Any

import pytest

from tests.docs.examples import DOCUMENTS, ROOT, Command, mentioned, parse

PACKAGES = ("backends", "benchmarks", "featurizer", "router", "service", "training")


def in_documents() -> Iterator[Command]:
    """In all but the changelog, which names what is gone."""
    for path in (path for path in DOCUMENTS if path.name != "CHANGELOG.md"):
        name = str(path.relative_to(ROOT))
        yield from mentioned(name, path.read_text(encoding="utf-8"))


def in_strings() -> Iterator[Command]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield from mentioned(f"{path.relative_to(ROOT)}:{node.lineno}", node.value)


def of(program: str) -> list[Command]:
    commands = (*in_documents(), *in_strings())
    return list({c.text: c for c in commands if c.words[0] == program}.values())


def test_there_are_some_everywhere() -> None:
    assert len([*in_documents()]) > 60
    assert len([*in_strings()]) > 60


@pytest.mark.parametrize("command", of("wye"), ids=lambda command: command.text)
def test_commands_of_wye_parse(command: Command) -> None:
    parse(command.words)


@pytest.mark.parametrize("text", ["wye nope", "wye keys nope", "wye train --nope", "wye serve x"])
def test_others_do_not(text: str) -> None:
    with pytest.raises(Exception, match=r"(?i)no (such|command)|unexpected"):
        parse(text.split())


class Parsed(Exception):  # noqa: N818 - how a program is stopped before it does anything
    """The arguments were taken."""


@pytest.fixture
def _parses_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs end once argparse or Typer has taken their arguments."""
    parse_args = argparse.ArgumentParser.parse_args

    def stop(*given: Any, **_: object) -> None:  # noqa: ANN401 - of two kinds
        if isinstance(given[0], argparse.ArgumentParser):
            parse_args(*given)
        raise Parsed

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", stop)
    monkeypatch.setattr("typer.core.TyperCommand.invoke", stop)


@pytest.mark.usefixtures("_parses_only")
@pytest.mark.filterwarnings("ignore:.*found in sys.modules after import:RuntimeWarning")
@pytest.mark.parametrize("command", of("python"), ids=lambda command: command.text)
def test_programs_take_their_arguments(
    command: Command, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name, arguments = command.words[2], command.words[3:]
    if not arguments or "[" in command.text or "..." in command.text:
        # Its name alone, or a summary of what may follow.
        assert find_spec(name) is not None
        return
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    with pytest.raises((Parsed, SystemExit)) as ended:
        run_module(name, run_name="__main__", alter_sys=True)
    # One without a parser says that its folders are not there, which is no mistake of usage. And a
    # sentence may leave out what every use of a program takes.
    said = capsys.readouterr().err
    is_help = isinstance(ended.value, SystemExit) and ended.value.code == 0
    assert "There is no benchmark" not in said
    assert is_help or "usage" not in said.lower() or "arguments are required" in said


@pytest.mark.usefixtures("_parses_only")
@pytest.mark.parametrize("name", ["benchmarks load", "wye.training.constituency"])
def test_programs_take_no_others(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module, *arguments = name.split()
    monkeypatch.setattr(sys, "argv", [module, *arguments, "--nope"])
    with pytest.raises(SystemExit), warnings.catch_warnings(action="ignore"):
        run_module(module, run_name="__main__", alter_sys=True)
    assert "usage" in capsys.readouterr().err.lower()


@pytest.mark.parametrize("command", of("pip"), ids=lambda command: command.text)
def test_extras_exist(command: Command) -> None:
    if "--no-deps" in command.text:  # the encoder
        assert command.text.split()[-1] in (ROOT / "constraints.txt").read_text(encoding="utf-8")
        return
    found = re.search(r"(wye|\./client)(?:\[([\w-]+)\])?(?=['\s]|$)", command.text)
    assert found
    package, extra = found.groups()
    folder = ROOT if package == "wye" else ROOT / "client"
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert extra in {*project["optional-dependencies"], None}
