"""Request logs, read one line at a time: what counts, and what is left out and why."""

import json
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np

from router.model_files import Stated
from router.request_log import FEEDBACK, RETRIEVAL, parse_line, read_texts
from router.types import Route
from training.errors import LogError
from training.traffic.feedback import Said, read_feedback
from training.traffic.marked import Joining, Marked
from training.traffic.requests import Columns, Line, Requests


@dataclass(frozen=True, slots=True)
class Log:
    """What one collection was asked, as one router decided it.

    Attributes:
        files: How many were read.
        lines: How many they have.
        collection: Its name.
        model: Name and version of the router.
        requests: Those that count: the router chose their route.
        questions: How many different ones they asked; a question with another filter is another.
        first: When the first of them came.
        last: When the last of them came.
        versions: Of the index, the lowest and the highest that answered.
        thresholds: (low, high) that they were held against -> how many were.
        left_out: Why other lines do not count -> how many there are.
        marked: Questions with passages that people said answer them.
    """

    files: int
    lines: int
    collection: str
    model: str
    requests: Requests
    questions: int
    first: datetime
    last: datetime
    versions: tuple[int, int]
    thresholds: Mapping[tuple[float, float], int]
    left_out: Mapping[str, int]
    marked: Marked


def read_log(paths: Sequence[Path], router: Stated, collection: str = "") -> Log:
    """Read request logs, such as a log with those that it was rotated to.

    Memory is some 70 bytes for each request that counts, and the text of those questions alone
    that have feedback.

    Args:
        paths: Files as `router.request_log` writes them, each once.
        router: Whose decisions count.
        collection: To look at; may be left out where there is only one.

    Raises:
        JournalError: A file cannot be read.
        LogError: A file is named twice, nothing was asked, several collections were and none is
            named, or the router decided nothing.
    """
    _refuse_twice(paths)
    feedback = read_feedback(paths)
    reader = _Reader(router, collection, feedback)
    for path in paths:
        for number, text in read_texts(path):
            reader.take(text, path, number)
    return reader.done(paths)


class _Reader:
    """Counts line by line."""

    def __init__(self, router: Stated, collection: str, feedback: Mapping[str, Said]) -> None:
        self._model = router.name
        self._named = collection
        self._collection = collection
        self._columns = Columns(asks_corpus=router.asks_corpus)
        self._joining = Joining(feedback)
        self._hashes = array("q")
        self._times: tuple[datetime, datetime] | None = None
        self._versions: set[int] = set()
        self._thresholds: Counter[tuple[float, float]] = Counter()
        self._collections: Counter[str] = Counter()
        self._models: Counter[str] = Counter()
        self._lines = self._forced = self._undecided = self._budgets = 0
        self._unfinished = self._others = self._broken = 0
        self._first_broken = ""

    def take(self, text: str, path: Path, number: int) -> None:
        """One line."""
        self._lines += 1
        if not text.endswith("\n"):
            self._unfinished += 1
            return
        values = parse_line(text)
        kind = None if values is None else values["kind"]
        if values is not None and kind == RETRIEVAL:
            try:
                line = Line.of(values)
            except ValueError:
                values = None
            else:
                self._count(line, values["request_id"])
        elif kind != FEEDBACK:
            self._others += values is not None
        if values is None:
            self._broken += 1
            self._first_broken = self._first_broken or f"{path}:{number}"

    def _count(self, line: Line, request_id: str) -> None:
        self._collections[line.collection] += 1
        self._collection = self._collection or line.collection
        ours = line.collection == self._collection
        own = line.model == self._model
        self._joining.take(line, request_id, counts=ours and line.asked == Route.AUTO)
        if not ours:
            return
        if line.asked != Route.AUTO:
            self._forced += 1
        elif line.score is None or line.thresholds is None:
            self._undecided += 1
        elif not own:
            self._models[line.model] += 1
        elif line.budget_unknown:
            self._budgets += 1
        else:
            self._decided(line, line.score, line.thresholds)

    def _decided(self, line: Line, score: float, thresholds: tuple[float, float]) -> None:
        self._columns.add(line, score)
        self._thresholds[thresholds] += 1
        # Python's own hash: 64 bits, and nothing but the count depends on it.
        self._hashes.append(hash((line.question, canonical(line.filter))))
        self._versions.add(line.version)
        first, last = self._times or (line.time, line.time)
        self._times = (min(first, line.time), max(last, line.time))

    def done(self, paths: Sequence[Path]) -> Log:
        """What was read.

        Raises:
            LogError: See `read_log`.
        """
        self._refuse_collections(paths)
        if self._times is None:
            why = "; ".join(f"{count} {reason}" for reason, count in self._left_out().items())
            raise LogError(
                f"None of the {self._collections[self._collection]} questions asked of "
                f"'{self._collection}' was decided by router {self._model} ({why}); name the "
                "router that decided with --router, or ask without naming a route."
            )
        return Log(
            files=len(paths),
            lines=self._lines,
            collection=self._collection,
            model=self._model,
            requests=self._columns.done(),
            questions=len(np.unique(np.frombuffer(self._hashes, np.int64))),
            first=self._times[0],
            last=self._times[1],
            versions=(min(self._versions), max(self._versions)),
            thresholds=dict(self._thresholds.most_common()),
            left_out=self._left_out(),
            marked=self._joining.done(),
        )

    def _refuse_collections(self, paths: Sequence[Path]) -> None:
        there = _listed(dict(sorted(self._collections.items())))
        if not there:
            wrong = (
                f", and {self._broken} lines are none of a request log (the first: "
                f"{self._first_broken})"
                if self._broken
                else ""
            )
            raise LogError(
                f"No question was answered in {', '.join(map(str, paths))}{wrong}; give the file "
                "that WYE_SERVE__REQUEST_LOG names, once something was asked."
            )
        if self._named and self._named not in self._collections:
            raise LogError(f"Nothing was asked of collection '{self._named}'; there is {there}.")
        if not self._named and len(self._collections) > 1:
            raise LogError(f"Several collections were asked: {there}; name one with --collection.")

    def _left_out(self) -> dict[str, int]:
        others = Counter(self._collections)
        others.pop(self._collection, None)
        found = {
            f"asked of another collection: {_listed(others)}": others.total(),
            "route named by the caller": self._forced,
            "no decision: the router failed, was late, or had no passages": self._undecided,
            f"decided by another router: {_listed(self._models)}": self._models.total(),
            "a budget chose the route, and this older log does not tell it": self._budgets,
            "line of another kind": self._others,
            f"no line of a request log, the first at {self._first_broken}": self._broken,
            "line without an end, as it was being written": self._unfinished,
        }
        return {why: count for why, count in found.items() if count}


def canonical(filter_: object | None) -> str:
    """A filter as text; equal filters are equal texts."""
    return "" if filter_ is None else json.dumps(filter_, sort_keys=True)


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} ({count})" for name, count in counts.items())


def _refuse_twice(paths: Sequence[Path]) -> None:
    if not paths:
        raise LogError("No request log is given; name the file of WYE_SERVE__REQUEST_LOG.")
    seen = Counter(path.resolve() for path in paths)
    for path, times in seen.items():
        if times > 1:
            raise LogError(f"'{path}' is named {times} times; name each log once.")
