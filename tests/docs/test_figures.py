"""Figures in documents are those that commands printed.

What takes minutes is compared with what was recorded: the cards of the models, and the files of
`benchmarks/recorded`, whose first line is a command, the second its commit, and the rest what it
printed. `python tests/docs/test_figures.py FILE ...` runs such commands again and writes the files,
from a folder with `data`, `index`, `papers` (indexes as `benchmarks papers` names them) and
`service`.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

from tests.docs.figures import CARD_OF_ROUTER, CLAIMS, FAMILIES, TAUGHT, Claim
from wye.service.cli import run

ROOT = Path(__file__).parents[2]
WRITTEN = [claim for claim in CLAIMS if not claim.source.startswith("wye ")]
_NUMBER = r"[-+]?(?:\d[\d,]*)?\.?\d+"
_SLOT = re.compile(r"\{([^{}]+)\}")


@dataclass(frozen=True)
class Printed:
    """What a command printed: a number for each name, such as "always fusion nDCG@10"."""

    command: str
    figures: Mapping[str, float] = field(repr=False)


def tables(text: str) -> Iterator[tuple[str, float]]:
    """Numbers of tables: "row column", and with an interval "row column low" and "… high".

    A table is in Markdown, or below a rule with two blanks between its columns.
    """
    header: list[str] = []
    before: list[str] = []
    for line in map(str.strip, text.splitlines()):
        marked = line.strip("|").split("|") if line.startswith("|") else re.split(r"\s{2,}", line)
        cells = [cell.strip() for cell in marked]
        if "--" in line.replace("─", "-") and not line.strip("|:- ─"):
            header = before
        elif header and len(cells) > 1:
            words = 1 + (header[1] == "family")
            for column, cell in zip(header[words:], cells[words:], strict=False):
                numbers = map(number_of, re.findall(_NUMBER, cell))
                for part, number in zip(("", " low", " high"), numbers, strict=False):
                    yield f"{' '.join(cells[:words])} {column}{part}", number
        else:
            header = []
        before = cells


def number_of(text: str) -> float:
    return float(text.replace(",", ""))


def leaves(content: object, name: str = "") -> Iterator[tuple[str, float]]:
    """Numbers of JSON, by the keys that lead to them."""
    if isinstance(content, dict):
        for key, value in content.items():
            yield from leaves(value, f"{name} {key}".strip())
    elif isinstance(content, int | float):
        yield name, float(content)


def sentences(text: str, *templates: str) -> Iterator[tuple[str, float]]:
    """Numbers of sentences, by the names in the slots of templates."""
    for template in templates:
        found = pattern(template).search(flat(text))
        assert found, f"Nothing like '{template}' was printed."
        yield from zip(_SLOT.findall(template), map(number_of, found.groups()), strict=True)


def pattern(template: str) -> re.Pattern[str]:
    literal = (re.escape(part) for part in _SLOT.split(flat(template))[::2])
    return re.compile(f"({_NUMBER})".join(literal))


def flat(text: str) -> str:
    """A text on one line, with ASCII's minus, and without the stars of differences."""
    text = re.sub(r"(?<=[\d\]])\*(?!\*)", "", text.replace("\N{MINUS SIGN}", "-"))
    return " ".join(text.split())


@cache
def printed(source: str) -> Printed:
    text = (ROOT / source).read_text("utf-8")
    if source.endswith(".json"):
        content = json.loads(text)
        training = content.get("training", {})
        command = training.get("command", f"python -m benchmarks quality … --write {source}")
        figures = dict(leaves(content))
        if "all" in content:
            steps = figures["all auto ms"] / figures["all steps ms"]
            figures["time of steps in percent"] = 100 * steps
            figures["skipped in percent"] = 100 * figures["all auto without graph"]
        return Printed(command, figures)
    figures = dict(tables(text))
    if not source.endswith("CARD.md"):
        return Printed(text.partition("\n")[0].removeprefix("$ "), figures)
    if "router" in source:
        figures |= sentences(text, *CARD_OF_ROUTER, *[TAUGHT] * ("taught it" in text))
    if "relevance" in source:
        for column in (f"ECE, {of}{at}" for of in ("passages", "answers") for at in ("", ", home")):
            values = [figures[f"fusion {family} {column}"] for family in FAMILIES]
            figures |= {f"least {column}": min(values), f"most {column}": max(values)}
    command = re.search(r"(?:^    |`)((?:wye train|python -m) [^`\n]+)", text, re.MULTILINE)
    assert command, f"{source} names no command."
    return Printed(command[1], figures)


def differences(claim: Claim, said: str, known: Printed) -> list[str]:
    """What a document says otherwise than the command, figure by figure."""
    found = pattern(claim.words).search(flat(said))
    if found is None:
        return [f"{claim.document} has no '{claim.words}'; mend it, or tests/docs/figures.py."]
    wrong = []
    for name, number in zip(_SLOT.findall(claim.words), found.groups(), strict=True):
        assert name in known.figures, f"{claim.source} has no '{name}'."
        digits, value = len(number.partition(".")[2]), known.figures[name]
        if abs(number_of(number) - value) > 0.5 * 10**-digits + 1e-9:
            wrong.append(
                f"{claim.document} says {number}, but '{name}' is {value:.{digits}f} "
                f"({claim.source}, by `{known.command}`): {found[0]}"
            )
    return wrong


@pytest.mark.parametrize("claim", WRITTEN, ids=lambda claim: f"{claim.document}-{claim.source}")
def test_documents_say_what_was_printed(claim: Claim) -> None:
    said = (ROOT / claim.document).read_text("utf-8")
    assert differences(claim, said, printed(claim.source)) == []


def test_documents_say_what_a_short_command_prints(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    for command in dict.fromkeys(one.source for one in CLAIMS if one not in WRITTEN):
        assert run(shlex.split(command)[1:]) == 0
        known = Printed(command, dict(tables(capsys.readouterr().out)))
        for claim in (one for one in CLAIMS if one.source == command):
            said = (ROOT / claim.document).read_text("utf-8")
            assert command in flat(said), f"{claim.document} does not name `{command}`."
            assert differences(claim, said, known) == []


def test_they_are_many() -> None:
    assert sum(len(_SLOT.findall(claim.words)) for claim in CLAIMS) > 200


def test_what_differs_is_told() -> None:
    claim = Claim("README.md", "card", "always fusion {fusion R@5} in {fusion ms} ms")
    known = Printed(
        "wye train", dict(tables("| x | R@5 | ms |\n|---|---|---|\n| fusion | .97 | 12 |"))
    )
    assert differences(claim, "It is always\nfusion .97 in 12 ms.", known) == []
    (wrong,) = differences(claim, "It is always fusion .98 in 12 ms.", known)
    assert wrong.startswith("README.md says .98, but 'fusion R@5' is 0.97 (card, by `wye train`)")
    (missing,) = differences(claim, "always graph .98 in 12 ms", known)
    assert missing.startswith("README.md has no 'always fusion")


def record(path: Path) -> None:
    """Run the command of a recorded file again, and write what it prints."""
    command = path.read_text("utf-8").partition("\n")[0].removeprefix("$ ")
    git = ("git", "-C", str(ROOT), "rev-parse", "--short", "HEAD")
    commit = subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
    own = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", command], stdout=subprocess.PIPE, text=True, check=True, env=own
    )
    lines = (line.rstrip() for line in done.stdout.splitlines())
    path.write_text("\n".join([f"$ {command}", f"at {commit}", *lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        record(Path(name))
