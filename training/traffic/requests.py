"""Decisions of a request log as columns, some 60 bytes each."""

import math
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.types import Float32, Float64
from training.traffic.stages import ROUTES, times_of_routes

Codes = NDArray[np.int8]
_CODES = {str(route): code for code, route in enumerate(ROUTES)}
_NOT_WORK = frozenset({"queue", "total"})


@dataclass(frozen=True, slots=True)
class Requests:
    """Questions whose route a router chose, one entry a request.

    Attributes:
        scores: (n,) as they were when the route was chosen, from 0 to 1.
        routes: (n,) int8, codes of the routes that were taken; see `ROUTES`.
        times_ms: (n, len(ROUTES)) float32, milliseconds of work by each route; NaN where the log
            does not tell; see `training.traffic.stages`.
        waited_ms: (n,) milliseconds from its arrival to its passages.
        budgets: (n,) `max_latency_ms` of the request; NaN without.
    """

    scores: Float64
    routes: Codes
    times_ms: Float32
    waited_ms: Float64
    budgets: Float64

    def __len__(self) -> int:
        """How many requests there are."""
        return len(self.scores)


@dataclass(frozen=True, slots=True)
class Line:
    """What counts of one line of kind retrieval.

    Attributes:
        question: As asked.
        filter: As asked, parsed JSON.
        collection: That was asked.
        asked: The route that was asked for.
        route: The route that was taken, by its code.
        shown: Ids of the passages that were returned.
        time: When, in UTC.
        version: Of the index.
        stages: Stage -> seconds, the request's share of its batch; no wait is among them.
        waited_ms: As in `Requests`.
        budget: As in `Requests`.
        score: Of the router; None where no router decided.
        model: That scored; "" where none did.
        thresholds: That the score was held against.
        budget_unknown: Whether a budget chose the route that the log does not tell.
    """

    question: str
    filter: object | None
    collection: str
    asked: str
    route: int
    shown: list[str]
    time: datetime
    version: int
    stages: Mapping[str, float]
    waited_ms: float
    budget: float
    score: float | None
    model: str
    thresholds: tuple[float, float] | None
    budget_unknown: bool

    @classmethod
    def of(cls, values: dict[str, Any]) -> "Line":
        """A line from what was logged.

        Raises:
            ValueError: Something is missing, or is not what the service writes.
        """
        try:
            return cls._of(values)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"no line as the service writes it: {error!r}") from None

    @classmethod
    def _of(cls, values: dict[str, Any]) -> "Line":
        seconds = values["seconds"]
        decision = values["decision"] or {}
        score, held = decision.get("score"), decision.get("thresholds")
        budget = values.get("max_latency_ms")
        if score is not None and not 0 <= score <= 1:
            raise ValueError("a score is a number from 0 to 1")
        return cls(
            question=_text(values["question"]),
            filter=values["filter"],
            collection=_text(values["collection"]),
            asked=_text(values["asked"]),
            route=_CODES[values["route"]],
            shown=list(values["passages"]),
            time=_in_utc(values["time"]),
            version=int(values["index_version"]),
            stages={at: _time(own) for at, own in seconds.items() if at not in _NOT_WORK},
            waited_ms=1000 * _time(seconds["total"]),
            budget=math.nan if budget is None else float(budget),
            score=None if score is None else float(score),
            model=_text(decision.get("model", "")),
            thresholds=None if held is None else (float(held["low"]), float(held["high"])),
            budget_unknown=budget is None and decision.get("reason", "").startswith("budget"),
        )


class Columns:
    """Requests that are being read."""

    def __init__(self, *, asks_corpus: bool) -> None:
        """None are read yet.

        Args:
            asks_corpus: As of `training.traffic.stages.times_of_routes`.
        """
        self._asks_corpus = asks_corpus
        self._floats = [array("d") for _ in range(3)]
        self._routes = array("b")
        self._times = array("f")

    def __len__(self) -> int:
        """How many there are so far."""
        return len(self._routes)

    def add(self, line: Line, score: float) -> None:
        """Take in a request that counts."""
        self._routes.append(line.route)
        taken = ROUTES[line.route]
        self._times.extend(times_of_routes(line.stages, taken, asks_corpus=self._asks_corpus))
        values = (score, line.waited_ms, line.budget)
        for column, value in zip(self._floats, values, strict=True):
            column.append(value)

    def done(self) -> Requests:
        """All of them."""
        scores, waited, budgets = (np.array(column, np.float64) for column in self._floats)
        times = np.array(self._times, np.float32).reshape(-1, len(ROUTES))
        return Requests(scores, np.array(self._routes, np.int8), times, waited, budgets)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _time(seconds: float) -> float:
    if not 0 <= seconds < math.inf:
        raise ValueError(f"{seconds!r} is no time")
    return seconds


def _in_utc(text: str) -> datetime:
    time = datetime.fromisoformat(text)
    return time if time.tzinfo else time.replace(tzinfo=UTC)
