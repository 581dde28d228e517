"""Reads request logs into columns: requests that count, why others do not, and feedback.

Each line is parsed by itself, since a log has broken and unfinished lines, and filters of any
shape. `pyarrow.json` refuses such a file as a whole, and takes twice the memory.
"""

import hashlib
import json
import math
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field

from backends.types import Float32, Float64
from router.fusion import FusionSettings, lists_of, stages_of
from router.model_files import RouterInfo
from router.request_log import FEEDBACK, RETRIEVAL, parse_line, read_texts
from router.types import Route
from training.errors import LogError

Codes = NDArray[np.int8]
ROUTES: tuple[Route, ...] = tuple(Route)
"""Routes by their codes in a column."""
_BESIDE = ("queue", "total", "explaining")
"""Times that are not part of a route."""
_STAGES = stages_of(Route.FUSION)
"""Stages that only some routes run."""
_CORPUS = ("dense", "seeds")
"""Stages that a router which uses the corpus always runs before it decides."""
Asked = tuple[str, str]
"""The API key that asked, and the request's id, which a client may choose as others do."""
_FEEDBACK_SIGN = f'"{FEEDBACK}"'


@dataclass(frozen=True, slots=True)
class Requests:
    """The n requests whose route a router chose, as columns.

    Attributes:
        scores: (n,) the scores that chose the routes, from 0 to 1.
        routes: (n,) int8, codes of the routes that were taken; see `ROUTES`.
        times_ms: (n, len(ROUTES)) float32, milliseconds of work by each route; NaN where unknown;
            see `times_of_routes`.
        waited_ms: (n,) milliseconds from a request's arrival to its passages.
        budgets: (n,) `max_latency_ms` of the request; NaN for none.
    """

    scores: Float64
    routes: Codes
    times_ms: Float32
    waited_ms: Float64
    budgets: Float64

    def __len__(self) -> int:
        return len(self.scores)


@dataclass(slots=True)
class FeedbackQuestion:
    """A distinct question with the passages that feedback names.

    Attributes:
        passages: Ids of the named passages, in order.
        shown: Those of them that a reply to the question had.
        routes: Routes of the requests with feedback.
        scores: Router -> its last score of the question.
    """

    text: str
    filter: object | None
    passages: dict[str, None] = field(default_factory=dict)
    shown: set[str] = field(default_factory=set)
    routes: list[Route] = field(default_factory=list)
    scores: dict[str, float] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """An id of the question with its filter."""
        content = json.dumps([self.text, self.filter], sort_keys=True)
        return hashlib.blake2b(content.encode(), digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True)
class LoggedFeedback:
    """The feedback in a log.

    Attributes:
        questions: Questions with named passages, in the order of the log.
        requests: Number of requests with feedback of any kind.
        left_out: Reason that feedback does not count -> number of requests.
    """

    questions: tuple[FeedbackQuestion, ...]
    requests: int
    left_out: Mapping[str, int]

    @property
    def routes(self) -> Mapping[Route, int]:
        """Route -> number of requests that took it and whose feedback names passages."""
        return Counter(route for one in self.questions for route in one.routes)

    @property
    def shown(self) -> tuple[int, int]:
        """How many of the named passages had been shown, and the number of named passages."""
        return (
            sum(len(one.shown) for one in self.questions),
            sum(len(one.passages) for one in self.questions),
        )


@dataclass(frozen=True, slots=True)
class DecisionLog:
    """One collection's requests that one router decided.

    Attributes:
        requests: The requests whose route the router chose.
        questions: Number of distinct questions; one with another filter is another question.
        versions: Lowest and highest index version that answered.
        thresholds: (low, high) in use -> number of requests.
        left_out: Reason that a line does not count -> number of lines.
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
    feedback: LoggedFeedback


def read_log(paths: Sequence[Path], router: RouterInfo, collection: str = "") -> DecisionLog:
    """Read request logs, such as a log and the files it was rotated to.

    Memory is some 120 bytes for each request that counts, and the text of questions with feedback.

    Args:
        paths: Files as `router.request_log` writes them, each once.
        collection: The collection to read; "" if the log has only one.

    Raises:
        RequestLogError: A file cannot be read.
        LogError: A file is named twice, there is no question, there are several collections and
            none is named, or the router decided nothing.
    """
    if not paths:
        raise LogError("No request log is given; name the file of WYE_SERVE__REQUEST_LOG.")
    for path, times in Counter(path.resolve() for path in paths).items():
        if times > 1:
            raise LogError(f"'{path}' is named {times} times; name each log once.")
    reader = _Reader(router, collection, read_feedback(paths))
    for path in paths:
        for number, text in read_texts(path):
            reader.take(text, path, number)
    return reader.done(paths)


def read_feedback(paths: Sequence[Path]) -> dict[Asked, dict[str, None]]:
    """Request -> ids of passages that its newest feedback names, in order and without duplicates.

    Feedback counts only for a request of the same key. It comes later than the request, perhaps
    after the log was rotated, so it is read first; then requests can be read line by line. A
    request that was only rated has no ids.

    Raises:
        RequestLogError: A file cannot be read.
    """
    found: dict[Asked, dict[str, None]] = {}
    newest: dict[Asked, str] = {}
    for path in paths:
        for _, text in read_texts(path):
            # Most lines lack the word, and need not be parsed.
            if _FEEDBACK_SIGN not in text or not text.endswith("\n"):
                continue
            line = parse_line(text)
            if line is None or line["kind"] != FEEDBACK:
                continue
            asked, time = asked_by(line), str(line.get("time", ""))
            if time < newest.get(asked, ""):
                continue
            newest[asked] = time
            named = line.get("passages")
            found[asked] = {
                one: None
                for one in (named if isinstance(named, list) else [])
                if isinstance(one, str)
            }
    return found


def _with_total(seconds: dict[str, float]) -> dict[str, float]:
    if "total" not in seconds:
        raise ValueError("the total time is missing")
    return seconds


_Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Pair(BaseModel, strict=True):
    low: float
    high: float


class _Decision(BaseModel, strict=True):
    score: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None = None
    model: str = ""
    thresholds: _Pair | None = None


class Line(BaseModel, strict=True):
    """The logged fields of an answered question that are used here, strictly validated."""

    question: str
    filter: Any
    collection: str
    asked: str
    route: Annotated[Route, Field(strict=False)]
    passages: list[str]
    time: Annotated[
        datetime,
        Field(strict=False),
        AfterValidator(lambda time: time if time.tzinfo else time.replace(tzinfo=UTC)),
    ]
    index_version: int
    seconds: Annotated[dict[str, _Seconds], AfterValidator(_with_total)]
    decision: Annotated[_Decision, BeforeValidator(lambda found: found or {})]
    max_latency_ms: float | None = None

    @property
    def stages(self) -> dict[str, float]:
        """Stage -> seconds of work, the request's share of its batch; without waiting."""
        return {stage: own for stage, own in self.seconds.items() if stage not in _BESIDE}


def times_of_routes(stages: Float64, whole: Float64, taken: Codes, *, asks_corpus: bool) -> Float32:
    """Times of all routes, derived from the stages of the one that was taken.

    Fusion runs every arm, so its stages tell how long each arm alone would have taken. A router
    that uses the corpus has the dense list and the seeds before it decides.

    Args:
        stages: (n, len(_STAGES)) seconds of `_STAGES`; NaN for stages that did not run.
        whole: (n,) seconds of all stages.
        taken: (n,) codes of the routes taken.
        asks_corpus: Whether the router uses the corpus.

    Returns:
        (n, len(ROUTES)) milliseconds of work by each route; NaN if not all of its arms ran.
    """
    times = np.full((len(whole), len(ROUTES)), np.nan, np.float32)
    ran = dict(zip(_STAGES, np.nan_to_num(stages).T, strict=True))
    for route in (Route.DENSE, Route.LEXICAL, Route.HYBRID, Route.GRAPH):
        arms = lists_of(route, FusionSettings())
        kept = {*stages_of(route), *(_CORPUS if asks_corpus else ())}
        spared = sum(time for stage, time in ran.items() if stage not in kept)
        known = ~np.isnan(stages[:, [_STAGES.index(arm) for arm in arms]]).any(axis=1)
        times[:, ROUTES.index(route)] = np.where(known, 1000 * (whole - spared), np.nan)
    times[np.arange(len(whole)), taken] = 1000 * whole
    return times


class _Reader:
    """Collects the columns of a log line by line."""

    def __init__(
        self, router: RouterInfo, collection: str, feedback: Mapping[Asked, dict[str, None]]
    ) -> None:
        self._router = router
        self._named = collection
        self._collection = collection
        self._feedback = feedback
        self._with_feedback: dict[Asked, list[Line]] = {}
        self._routes = array("b")
        self._values = array("d")  # score, wait, budget, all stages, and each of _STAGES
        self._hashes = array("q")
        self._times: tuple[datetime, datetime] | None = None
        self._versions: set[int] = set()
        self._thresholds: Counter[tuple[float, float]] = Counter()
        self._collections: Counter[str] = Counter()
        self._models: Counter[str] = Counter()
        self._lines = 0
        self._left_out: Counter[str] = Counter()
        self._broken: list[str] = []

    def take(self, text: str, path: Path, number: int) -> None:
        if text == "\n":  # follows a torn line
            return
        self._lines += 1
        if not text.endswith("\n"):
            self._left_out["incomplete line, which was still being written"] += 1
            return
        values = parse_line(text)
        if values is not None and values["kind"] != RETRIEVAL:
            self._left_out["line of another kind"] += values["kind"] != FEEDBACK
            return
        try:
            line = Line.model_validate(values)
        except ValueError:
            self._broken.append(f"{path}:{number}")
        else:
            self._count(line, asked_by(values or {}))

    def _count(self, line: Line, asked: Asked) -> None:
        self._collections[line.collection] += 1
        self._collection = self._collection or line.collection
        if asked in self._feedback:
            self._with_feedback.setdefault(asked, []).append(line)
        if line.collection != self._collection:
            return
        found = line.decision
        if line.asked != Route.AUTO:
            self._left_out["route named by the caller"] += 1
        elif found.score is None or found.thresholds is None:
            self._left_out["no decision: the router failed, was late, or had no passages"] += 1
        elif found.model != self._router.name:
            self._models[found.model] += 1
        else:
            stages = line.stages
            own = [stages.get(stage, math.nan) for stage in _STAGES]
            budget = math.nan if line.max_latency_ms is None else line.max_latency_ms
            waited = 1000 * line.seconds["total"]
            self._values.extend((found.score, waited, budget, sum(stages.values()), *own))
            self._routes.append(ROUTES.index(line.route))
            self._thresholds[found.thresholds.low, found.thresholds.high] += 1
            # Python's 64-bit hash will do, since only the count depends on it.
            self._hashes.append(hash((line.question, canonical(line.filter))))
            self._versions.add(line.index_version)
            first, last = self._times or (line.time, line.time)
            self._times = (min(first, line.time), max(last, line.time))

    def done(self, paths: Sequence[Path]) -> DecisionLog:
        self._refuse_collections(paths)
        left_out = self._why()
        if self._times is None:
            why = "; ".join(f"{count} {reason}" for reason, count in left_out.items())
            raise LogError(
                f"None of the {self._collections[self._collection]} questions asked of "
                f"'{self._collection}' was decided by router {self._router.name} ({why}); name the "
                "router that decided with --router, or ask without naming a route."
            )
        return DecisionLog(
            files=len(paths),
            lines=self._lines,
            collection=self._collection,
            model=self._router.name,
            requests=self._requests(),
            questions=len(np.unique(np.frombuffer(self._hashes, np.int64))),
            first=self._times[0],
            last=self._times[1],
            versions=(min(self._versions), max(self._versions)),
            thresholds=dict(self._thresholds.most_common()),
            left_out=left_out,
            feedback=_joined(self._feedback, self._with_feedback, self._collection),
        )

    def _requests(self) -> Requests:
        routes = np.frombuffer(self._routes, np.int8)
        values = np.frombuffer(self._values, np.float64).reshape(len(routes), -1)
        times = times_of_routes(
            values[:, 4:], values[:, 3], routes, asks_corpus=self._router.asks_corpus
        )
        scores, waited, budgets = (values[:, column].copy() for column in range(3))
        return Requests(scores, routes, times, waited, budgets)

    def _refuse_collections(self, paths: Sequence[Path]) -> None:
        there = _listed(dict(sorted(self._collections.items())))
        if not there:
            wrong = ""
            if self._broken:
                count, first = len(self._broken), self._broken[0]
                wrong = f", and {count} lines are not from a request log (the first: {first})"
            raise LogError(
                f"No question was answered in {', '.join(map(str, paths))}{wrong}; give the file "
                "of WYE_SERVE__REQUEST_LOG, after questions were asked."
            )
        if self._named and self._named not in self._collections:
            raise LogError(
                f"The log has no question to collection '{self._named}'; its collections are "
                f"{there}."
            )
        if not self._named and len(self._collections) > 1:
            raise LogError(f"The log has several collections: {there}; name one with --collection.")

    def _why(self) -> dict[str, int]:
        """Reason that lines do not count -> number of lines."""
        others = self._collections - Counter({self._collection: self._collections.total()})
        found = {
            **self._left_out,
            f"asked of another collection: {_listed(others)}": others.total(),
            f"decided by another router: {_listed(self._models)}": self._models.total(),
            f"not a line of a request log, the first at {''.join(self._broken[:1])}": len(
                self._broken
            ),
        }
        return {why: count for why, count in found.items() if count}


def _joined(
    feedback: Mapping[Asked, dict[str, None]], lines: Mapping[Asked, list[Line]], collection: str
) -> LoggedFeedback:
    """Join feedback with its questions; requests with the same question become one.

    Args:
        lines: Request -> its lines, in the order of the log.
    """
    questions: dict[tuple[str, str], FeedbackQuestion] = {}
    why: Counter[str] = Counter()
    for asked, own in lines.items():
        passages = feedback[asked]
        keys = {(one.collection, one.question, canonical(one.filter)) for one in own}
        counts = [one for one in own if one.collection == collection and one.asked == Route.AUTO]
        if not passages:
            why["a rating that names no passage"] += 1
        elif len(keys) > 1:
            why["a request with several questions, of which it names none"] += 1
        elif not counts:
            why["a question that does not count here"] += 1
        for line in counts if passages and len(keys) == 1 else ():
            key = (line.question, canonical(line.filter))
            found = questions.setdefault(key, FeedbackQuestion(line.question, line.filter))
            found.passages |= passages
            found.shown |= passages.keys() & set(line.passages)
            found.routes.append(line.route)
            if line.decision.score is not None:
                found.scores[line.decision.model] = line.decision.score
    why["an unknown request, or that of another key"] = len(feedback) - len(lines)
    left_out = {reason: count for reason, count in why.items() if count}
    return LoggedFeedback(tuple(questions.values()), len(feedback), left_out)


def canonical(filter_: object | None) -> str:
    """A filter as text, equal for equal filters."""
    return "" if filter_ is None else json.dumps(filter_, sort_keys=True)


def asked_by(line: Mapping[str, Any]) -> Asked:
    """The request that a line of a log belongs to."""
    return str(line.get("key", "")), line["request_id"]


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} ({count})" for name, count in counts.items())
