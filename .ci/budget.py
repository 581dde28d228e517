"""Prints how much code there is beside what budget.toml allows, and fails above it.

    python .ci/budget.py [REPOSITORY]

Counted are the files that git has or would add. A base number must be no higher than in any former
commit of budget.toml, so this needs the whole history. What an addition is worth is said in `room`,
which is added to the base: `room = {lines = 300, files = 1, reason = "Slides are read"}`.
"""

import ast
import io
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

BUDGET = "budget.toml"
CONSOLE, OTHER = "console", "other"
FOLDERS = ("backends", "featurizer", "router", "service", "training", "client")
PARTS = (*FOLDERS, "wye", "benchmarks", "tests", OTHER, CONSOLE)
_SPACE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
_NAMES = {"files": "files", "lines": "lines", "code": "lines of code"}
_NO_CODE = _SPACE | {tokenize.ENCODING, tokenize.ENDMARKER}

BudgetTable = Mapping[str, Mapping[str, Any]]


def part_of(name: str) -> str | None:
    """The part that a file counts to; None if it is not counted."""
    top, _, _ = name.removeprefix("src/").replace("client/tests", "tests").partition("/")
    if name.endswith(".py"):
        return top if top in PARTS else OTHER
    is_console = name.startswith("service/ui/") and name.endswith((".js", ".css", ".html"))
    return CONSOLE if is_console else None


def code_lines(text: str) -> int:
    """Lines of Python that are neither docstring, comment nor blank."""
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            code |= {*range(token.start[0], token.end[0] + 1)}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            code -= {*range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    lines = text.splitlines()
    return sum(bool(lines[number - 1].strip()) for number in code)


def counts(root: Path) -> dict[str, Counter[str]]:
    """Part -> number of its files, lines and lines of code."""
    parts = {part: Counter[str](files=0, lines=0) for part in PARTS}
    for name in git(root, "ls-files", "-z", "-co", "--exclude-standard").split("\0"):
        part, path = part_of(name), root / name
        if part and path.is_file():
            text = path.read_text("utf-8")
            parts[part] += Counter(files=1, lines=len(text.splitlines()))
            if part != CONSOLE:
                parts[part]["code"] += code_lines(text)
    return parts


def git(root: Path, *words: str) -> str:
    """What git prints.

    Raises:
        CalledProcessError: It failed.
    """
    command = ["git", "-C", str(root), *words]
    return subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout


def former_budgets(root: Path) -> Iterator[tuple[str, BudgetTable]]:
    """Commit and content of every former budget.

    Raises:
        CalledProcessError, FileNotFoundError: There is no history.
    """
    for commit in git(root, "log", "--full-history", "--format=%H", "--", BUDGET).split():
        if git(root, "ls-tree", commit, BUDGET):  # the commit may have removed it
            yield commit[:8], tomllib.loads(git(root, "show", f"{commit}:{BUDGET}"))


def faults(root: Path, parts: Mapping[str, Counter[str]]) -> Iterator[str]:
    """What is over the budget or wrong about it, a sentence each."""
    budget: BudgetTable = tomllib.loads((root / BUDGET).read_text("utf-8"))
    for part in budget.keys() - parts.keys():
        yield f"{BUDGET} has an entry {part!r}, which is no part: {', '.join(PARTS)}."
    for part, facts in parts.items():
        entry = budget.get(part, {})
        room = entry.get("room", {})
        if room and not (str(room.get("reason", "")).strip() and room.get("lines", 0) > 0):
            yield f"{BUDGET}, {part}: the room says no `lines` above 0, or no `reason` for them."
        for unit, number in facts.items():
            if unit not in entry:
                yield f"{BUDGET} does not say how many {_NAMES[unit]} {part} may have."
            elif (over := number - allowed(entry, unit)) > 0:
                yield (
                    f"{part} has {number:,} {_NAMES[unit]}, {over:,} more than {BUDGET} allows. "
                    "Delete as much there, or give it `room` with a reason if an issue names it."
                )
    if git(root, "rev-parse", "--is-shallow-repository").strip() == "true":
        yield (
            f"This clone lacks the history of {BUDGET}, with which its numbers are compared. Run "
            "`git fetch --unshallow`."
        )
        return
    for commit, former in former_budgets(root):
        for part, entry in former.items():
            for unit in entry.keys() - {"room"}:
                was, now = entry[unit], budget.get(part, {}).get(unit)
                if now is not None and now > was:
                    yield (
                        f"{BUDGET} allows {part} {now:,} {_NAMES[unit]}, but {was:,} in commit "
                        f"{commit}. A base number only falls: set it to {was} or less, and say the "
                        "rest as `room`."
                    )


def allowed(entry: Mapping[str, Any], unit: str) -> int:
    """The base number of a unit with its room; what lines have room for, code has as well."""
    room = entry.get("room", {})
    return int(entry[unit]) + int(room.get("lines" if unit == "code" else unit, 0))


def table(root: Path, parts: Mapping[str, Counter[str]]) -> Iterator[str]:
    """Lines that show each number beside what is allowed."""
    budget: BudgetTable = tomllib.loads((root / BUDGET).read_text("utf-8"))
    yield "".join(
        [f"{'':12}", *(f"{unit + ' (allowed)':>20}" for unit in ("files", "lines", "code"))]
    )
    for part, facts in parts.items():
        entry = budget.get(part, {})
        cells = (
            f"{number:,} ({allowed(entry, unit):,})" if unit in entry else f"{number:,} (?)"
            for unit, number in facts.items()
        )
        yield "".join([f"{part:12}", *(f"{cell:>20}" for cell in cells)])
    product = [parts[part] for part in (*FOLDERS, "wye")]
    sums = (sum(facts[unit] for facts in product) for unit in ("files", "lines", "code"))
    yield "".join([f"{'product':12}", *(f"{number:>20,}" for number in sums)])


def main(root: Path) -> int:
    """Print the table and what is wrong; 0 if nothing is."""
    try:
        parts = counts(root)
        for line in table(root, parts):
            print(line)
        wrong = [*faults(root, parts)]
    except (subprocess.CalledProcessError, FileNotFoundError) as error:
        reason = str(getattr(error, "stderr", "") or error).strip()
        wrong = [
            f"The budget cannot be checked: {reason}. It takes {BUDGET} and a clone made by git "
            "with its history."
        ]
    for fault in wrong:
        print(fault)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(Path(*sys.argv[1:2])))
