"""Finds the examples in documents: blocks, and the commands in them and in sentences.

No example is copied into a test, so a new one is found and checked without further work.
"""

import inspect
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.main import get_command

from tests.fakes import Wye
from wye.service.cli import build

ROOT = Path(__file__).parents[2]
ADDRESS = "127.0.0.1:8000"  # where the examples expect a server
PARTS = ("backends", "benchmarks", "featurizer", "router", "service", "training")
FOLDERS = (*PARTS, "docs", "models", "tests")
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(p for f in FOLDERS for p in (ROOT / f).rglob("*.md"))])
# The documents for users: every block in them is run.
GUIDES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"^(?<=\n\n)(?: {4}.*\n)+", re.MULTILINE)
_SPAN = re.compile(r"`([^`]+)`")
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*=")


@dataclass(frozen=True)
class Block:
    """A fenced block of a document.

    Attributes:
        place: Document and line.
        language: Language of the fence.
        text: Content of the block.
    """

    place: str
    language: str
    text: str

    @property
    def commands(self) -> "list[Command]":
        """The commands after dollar signs; a backslash at the end of a line continues it."""
        found: list[tuple[list[str], list[str]]] = []
        goes_on = False
        for line in self.text.splitlines():
            if line.startswith("$ "):
                found.append(([line.removeprefix("$ ")], []))
            else:
                assert found, f"{self.place}: begin commands with '$ '"
                found[-1][0 if goes_on else 1].append(line)
            goes_on = line.endswith("\\") and not found[-1][1]
        return [Command(self.place, "\n".join(lines), tuple(out)) for lines, out in found]


@dataclass(frozen=True)
class Command:
    """A shell command.

    Attributes:
        place: Document and line.
        text: The command as typed.
        output: Lines that it prints according to the document; none if it does not say.
    """

    place: str
    text: str
    output: tuple[str, ...] = ()

    @property
    def variables(self) -> Mapping[str, str]:
        split = shlex.split(self._line)
        return dict(word.split("=", 1) for word in split[: len(split) - len(self.words)])

    @property
    def words(self) -> list[str]:
        words = shlex.split(self._line)
        while words and _VARIABLE.match(words[0]):
            words.pop(0)
        return words

    @property
    def _line(self) -> str:
        return self.text.replace("\\\n", " ")

    def expanded(self, folder: Path) -> list[str]:
        found: list[str] = []
        for word in self.words:
            matches = folder.glob(word) if "*" in word else ()
            found += sorted(str(path.relative_to(folder)) for path in matches) or [word]
        return found


def blocks(place: str, text: str) -> list[Block]:
    text = inspect.cleandoc(text) + "\n"
    return [
        Block(f"{place}:{text.count(chr(10), 0, found.start()) + 1}", found[1], found[2])
        for found in _FENCED.finditer(text)
    ]


def block_with(command: str) -> Block:
    """The only block with a command that begins so, except in first-hour.md, which repeats some."""
    guides = [path for path in GUIDES if path.name != "first-hour.md"]
    found = [block for path in guides for block in blocks(path.name, path.read_text("utf-8"))]
    (block,) = [block for block in found if f"$ {command}" in block.text]
    return block


def perform(block: Block, wye: Wye, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run every command of a block; each must succeed and print something.

    Args:
        block: A block of `wye` commands.
        wye: Runs a command in the working folder.
        monkeypatch: Sets a command's variables.
    """
    for command in block.commands:
        with monkeypatch.context() as patched:
            for name, value in command.variables.items():
                patched.setenv(name, value)
            assert command.words[0] == "wye", command
            code, out, err = wye(*command.expanded(Path.cwd())[1:])
        assert code == 0, (command, err)
        assert out, command


def mentioned(place: str, text: str) -> Iterator[Command]:
    """Commands of `wye`, Python, pip and make outside of a document's fenced blocks."""
    bare = _FENCED.sub("", text)
    spans = [found[1] for found in _SPAN.finditer(bare)]
    spans += [line for found in _INDENTED.finditer(bare) for line in found[0].splitlines()]
    for span in spans:
        words = " ".join(span.split())
        if re.match(r"([A-Z_]+=\S+ )*(wye|python -m|pip|make)( |$)", words):
            yield Command(place, words)


def parse(words: Sequence[str]) -> None:
    """Parse a `wye` command with the command line's own parser, without running it.

    A name without arguments, as in "`wye index` adds files", only has to be a command, and options
    without values only have to be the command's.

    Raises:
        AssertionError: There is no such command or option.
        click.UsageError: The arguments do not fit.
    """
    command, name, rest = get_command(build()[0]), words[0], list(words[1:])
    while rest and (inside := getattr(command, "commands", None)):
        name = rest.pop(0)
        assert name in inside, f"There is no command '{' '.join(words)}'"
        command = inside[name]
    if rest and all(word.startswith("--") for word in rest):
        known = {option for parameter in command.params for option in parameter.opts}
        assert {*rest} <= known, f"There is no such option: '{' '.join(words)}'"
    elif rest:
        command.make_context(name, rest)


def python(block: Block, url: str, folder: Path) -> str:
    """What a block of Python prints, with a server in place of the one that documents name."""
    program = block.text.replace(f"http://{ADDRESS}", url)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=folder,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, (block.place, done.stderr)
    return done.stdout
