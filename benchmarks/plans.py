"""Compares the plans of questions with plans written by a person.

Questions and plans are those of tests/featurizer/plans.jsonl, which marks each step as
{kind type: …}. A fixed half of them is for development; the other is held out, and never looked at
to change the code. Plans are read from the constituency tree and, for comparison, from a tree made
of the dependencies.
"""

import argparse
import hashlib
import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import harness
from benchmarks.harness import Table
from featurizer.constituency.parser import open_syntax_parser
from featurizer.plan import Plan, Step, plan_by_dependencies, plan_of, walk
from featurizer.types import Syntax
from router.settings import load_settings

PLANS = Path(__file__).parents[1] / "tests" / "featurizer" / "plans.jsonl"
HALVES = ("development", "held out")
_MARK = re.compile(r"\{(\w+) (\w+): |\}")

# Start, end, kind and type of a step.
Key = tuple[int, int, str, str]


@dataclass(frozen=True, slots=True)
class JudgedPlan:
    """A question with the plan that a person wrote."""

    group: str
    question: str
    steps: frozenset[Key]

    @property
    def half(self) -> str:
        """Development or held out, by a hash of the question."""
        return HALVES[hashlib.sha256(self.question.encode()).digest()[0] % 2]


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How well plans agree with those of a person.

    Attributes:
        groups: Group -> number of questions, and of those with exactly the same plan.
        precision: Share of the found steps with the right position, kind and type.
        recall: Share of the written steps that were found so.
        wrong: Questions with another plan.
    """

    groups: dict[str, tuple[int, int]]
    precision: float
    recall: float
    wrong: tuple[str, ...]

    @property
    def exact(self) -> float:
        """Share of the questions with exactly the same plan."""
        questions, right = map(sum, zip(*self.groups.values(), strict=True))
        return right / questions


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add an option to list the errors."""
    parser.add_argument(
        "--wrong", action="store_true", help="list the first half's questions with a wrong plan"
    )


def run(given: argparse.Namespace) -> None:
    """Print the table."""
    planned = read_planned()
    models = load_settings().analyser
    parser = open_syntax_parser(models.pipeline, models.constituency)
    syntaxes = parser.parse([one.question for one in planned])
    harness.print_header("Plans of questions", seed=None, data=f"{len(planned)} questions, by hand")
    plans = {"constituency": [*map(plan_of, syntaxes)], "dependencies": by_dependencies(syntaxes)}
    found = {
        (half, source): measure(planned, made, half)
        for half in HALVES
        for source, made in plans.items()
    }
    table = Table(["exactly right", *(f"{half}, {source}" for half, source in found)])
    for group in dict.fromkeys(one.group for one in planned):
        counts = (accuracy.groups.get(group, (0, 0)) for accuracy in found.values())
        table.row(group, *(f"{right} of {questions}" for questions, right in counts))
    for name in ("exact", "precision", "recall"):
        table.row(name, *(float(getattr(accuracy, name)) for accuracy in found.values()))
    if given.wrong:
        print("\n" + "\n".join(found[HALVES[0], "constituency"].wrong))


def read_planned(path: Path = PLANS) -> list[JudgedPlan]:
    """Read the questions of a file, in order."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [JudgedPlan(row["group"], *_unmarked(row["marked"])) for row in rows]


def by_dependencies(syntaxes: Sequence[Syntax]) -> list[Plan]:
    """Plans from the dependencies, as the route steps uses them."""
    return [plan_by_dependencies(syntax.tokens, syntax.sentences) for syntax in syntaxes]


def measure(planned: Sequence[JudgedPlan], plans: Sequence[Plan], half: str) -> Accuracy:
    """How well plans agree with a person's, over one half of the questions."""
    groups: dict[str, tuple[int, int]] = {}
    counts: Counter[str] = Counter()
    wrong = []
    for one, plan in zip(planned, plans, strict=True):
        if one.half != half:
            continue
        found = {_key(step) for step in walk(plan.steps)}
        counts.update(found=len(found), right=len(found & one.steps), all=len(one.steps))
        questions, right = groups.get(one.group, (0, 0))
        groups[one.group] = questions + 1, right + (found == one.steps)
        if found != one.steps:
            wrong.append(one.question)
    precision, recall = (counts["right"] / max(counts[of], 1) for of in ("found", "all"))
    return Accuracy(groups, precision, recall, tuple(wrong))


def _key(step: Step) -> Key:
    return (*step.span, step.kind, step.wanted)


def _unmarked(marked: str) -> tuple[str, frozenset[Key]]:
    """A question without its marks, and the steps that they mark."""
    text, place = "", 0
    open_steps: list[tuple[int, str, str]] = []
    steps: set[Key] = set()
    for mark in _MARK.finditer(marked):
        text += marked[place : mark.start()]
        place = mark.end()
        if mark[1]:
            open_steps.append((len(text), mark[1], mark[2]))
        else:
            start, kind, type_ = open_steps.pop()
            steps.add((start, len(text), kind, type_))
    return text + marked[place:], frozenset(steps)
