"""Reads request logs: decisions as columns, why other lines do not count, and feedback."""

import hashlib
import json
import math
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import AwareDatetime, BaseModel, Field, TypeAdapter, ValidationError

from wye.backends.types import Float32, Float64
from wye.router.model_files import RouterInfo
from wye.router.request_log import FEEDBACK, read_texts
from wye.router.types import Route
from wye.training.errors import LogError

Codes = NDArray[np.int8]
ROUTES: tuple[Route, ...] = tuple(Route)
"""Routes by their codes in a column."""
_BESIDE = ("queue", "total", "explaining")
"""Times that are not part of a route."""
RequestKey = tuple[str, str]
"""The API key that asked, and the request's id, which a client may choose as others do."""


@dataclass(frozen=True, slots=True)
class DecisionLog:
    """One collection's n requests whose route a router chose by thresholds alone, as columns.

    Attributes:
        scores: (n,) the scores that chose the routes, from 0 to 1.
        routes: (n,) int8, codes of the routes that were taken; see `ROUTES`.
        times_ms: (n, len(ROUTES)) float32, milliseconds of work by each route; NaN where unknown.
        period: Time of the first and of the last of these requests.
        marked: Id of a question -> a request that asked it, and passages that feedback marks as
            its answers, whichever router decided its route.
        exclusions: Reason that a line or feedback does not count -> how many there are.
    """

    router: RouterInfo
    collection: str
    scores: Float64
    routes: Codes
    times_ms: Float32
    period: tuple[str, str]
    marked: Mapping[str, tuple["Retrieval", set[str]]]
    exclusions: Mapping[str, int]

    def __len__(self) -> int:
        return len(self.scores)


class _Line(BaseModel, strict=True):
    request_id: str
    key: str = ""
    time: AwareDatetime

    @property
    def request(self) -> RequestKey:
        return self.key, self.request_id


class _Decision(BaseModel, strict=True):
    score: Annotated[float, Field(ge=0, le=1)] | None
    model: str


class Retrieval(_Line):
    """The logged fields of an answered question that are used here."""

    kind: Literal["retrieval"]
    question: str
    filter: Any
    collection: str
    asked: str
    route: Route
    max_latency_ms: float | None
    decision: _Decision | None
    seconds: dict[str, Annotated[float, Field(ge=0, allow_inf_nan=False)]]

    @property
    def question_id(self) -> str:
        """An id of the question with its collection and filter."""
        content = json.dumps([self.collection, self.question, self.filter], sort_keys=True)
        return hashlib.blake2b(content.encode(), digest_size=8).hexdigest()

    def uncounted(self, router: str, collection: str) -> str:
        """Why the request does not count; "" if it does."""
        if self.collection != collection:
            return "asked of another collection"
        if self.asked != Route.AUTO:
            return "route named by the caller"
        if self.decision is None or self.decision.score is None:
            return "no decision: the router failed, was late, or had no passages"
        if self.decision.model != router:
            return f"decided by another router: {self.decision.model}"
        return "max_latency_ms may overrule thresholds" if self.max_latency_ms is not None else ""


class Feedback(_Line):
    """Passages that a client marked as answers."""

    kind: Literal["feedback"]
    passages: list[str]


LINE: TypeAdapter[Retrieval | Feedback] = TypeAdapter(
    Annotated[Retrieval | Feedback, Field(discriminator="kind")]
)


def times_of_routes(line: Retrieval) -> list[float]:
    """Milliseconds of work by each of `ROUTES`; NaN for those of which a request says nothing.

    Fusion does all that the graph's route does, so it says how long that would have taken.
    """
    stages = {stage: time for stage, time in line.seconds.items() if stage not in _BESIDE}
    times = dict.fromkeys(ROUTES, math.nan)
    times[line.route] = whole = sum(stages.values())
    if line.route == Route.FUSION:
        times[Route.GRAPH] = whole - stages.get("fusing", 0.0)
    return [1000 * time for time in times.values()]


def read_log(paths: Sequence[Path], router: RouterInfo, collection: str = "") -> DecisionLog:
    """Read request logs, such as a log and the files it was rotated to.

    Files are read twice and line by line, since feedback may stand in another file than its
    question; only columns and questions with feedback are kept in memory.

    Args:
        paths: Files as `wye.router.request_log` writes them.
        collection: The collection to read; "" if the log has only one.

    Raises:
        RequestLogError: A file cannot be read.
        LogError: There is nothing to read, or several collections and none is named.
    """
    paths = [*dict.fromkeys(path.resolve() for path in paths)]
    marks: dict[RequestKey, Feedback] = {}
    for line in _lines(paths, Counter(), f'"{FEEDBACK}"'):
        if isinstance(line, Feedback) and (
            line.request not in marks or marks[line.request].time <= line.time
        ):
            marks[line.request] = line
    rated: dict[RequestKey, dict[str, Retrieval]] = {}
    exclusions, collections = Counter[str](), Counter[str]()
    scores, routes, times_ms = array("d"), array("b"), array("f")
    first = last = None
    for line in _lines(paths, exclusions):
        if isinstance(line, Feedback):
            continue
        collections[line.collection] += 1
        if line.request in marks:
            rated.setdefault(line.request, {})[line.question_id] = line
        if why := line.uncounted(router.name, collection or line.collection):
            exclusions[why] += 1
        elif line.decision is not None and line.decision.score is not None:
            scores.append(line.decision.score)
            routes.append(ROUTES.index(line.route))
            times_ms.extend(times_of_routes(line))
            first, last = min(first or line.time, line.time), max(last or line.time, line.time)
    collection = _only(collection, collections, exclusions)
    if first is None or last is None:
        raise LogError(
            f"None of the {collections[collection]} questions asked of '{collection}' was decided "
            f"by router {router.name} ({_listed(exclusions)}); name the router that decided with "
            "--router, or ask without naming a route."
        )
    return DecisionLog(
        router=router,
        collection=collection,
        scores=np.frombuffer(scores, np.float64),
        routes=np.frombuffer(routes, np.int8),
        times_ms=np.frombuffer(times_ms, np.float32).reshape(len(scores), -1),
        period=(first.isoformat(" ", "minutes"), last.isoformat(" ", "minutes")),
        marked=_marked(marks, rated, collection, exclusions),
        exclusions=exclusions,
    )


def _lines(
    paths: Sequence[Path], exclusions: Counter[str], containing: str = ""
) -> Iterator[Retrieval | Feedback]:
    """Yield the lines with a text; counts those that the service does not write as left out."""
    for path in paths:
        for text in read_texts(path):
            if containing not in text or text == "\n":  # an empty one follows a torn line
                continue
            try:
                line = LINE.validate_json(text)
            except ValidationError:
                exclusions[f"no whole line of a request log, in {path}"] += 1
            else:
                yield line


def _only(named: str, collections: Mapping[str, int], exclusions: Mapping[str, int]) -> str:
    """The collection that is named, or else the only one."""
    if not collections:
        raise LogError(
            f"No question was answered in the log ({_listed(exclusions) or 'it is empty'}); give "
            "the file of WYE_SERVE__REQUEST_LOG, after questions were asked."
        )
    if named in collections or (not named and len(collections) == 1):
        return named or next(iter(collections))
    raise LogError(
        f"The log has questions to the collections {_listed(collections)}; name one with "
        "--collection."
    )


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} ({count})" for name, count in [*counts.items()][:5])


def _marked(
    marks: Mapping[RequestKey, Feedback],
    rated: Mapping[RequestKey, Mapping[str, Retrieval]],
    collection: str,
    exclusions: Counter[str],
) -> dict[str, tuple[Retrieval, set[str]]]:
    """Join feedback with its questions; requests with the same question become one.

    Args:
        rated: Request -> its questions by id, in the order of the log.
    """
    marked: dict[str, tuple[Retrieval, set[str]]] = {}
    for request, lines in rated.items():
        line, *others = lines.values()
        counts = line.collection == collection and line.asked == Route.AUTO
        if others or not counts or not marks[request].passages:
            exclusions["feedback that names no passage, or not of one question that counts"] += 1
        else:
            marked.setdefault(line.question_id, (line, set()))[1].update(marks[request].passages)
    if unknown := len(marks) - len(rated):
        exclusions["feedback on an unknown request, or on that of another key"] += unknown
    return marked
