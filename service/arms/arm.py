"""A remote arm: a kind, wrapped in limits, retries and a circuit breaker."""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from time import monotonic, perf_counter

from wye.backends.errors import FilterError
from wye.backends.filters import Columns, parse_filter
from wye.router.remote import RemoteHit
from wye.router.types import Route
from wye.service.arms.kind import ArmError, Kind
from wye.service.logs import LOG

RESERVE = 0.15
"""Share of a request's time that arms may not take, so that it can be answered without them."""
MOST_RESERVE = 0.75
"""Most seconds of that share."""

_FIRST_WAIT = 0.05
_EXACT = 1e-9  # tolerance for sums of prices
_BY_GRAPH = frozenset({Route.AUTO, Route.FUSION, Route.GRAPH, Route.STEPS})
_BY_LIST = _BY_GRAPH - {Route.GRAPH}


class BreakerState(StrEnum):
    """State of a breaker: it admits all calls, none, or a single one as a trial."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


class Breaker:
    """Counts failures in a row; used by one event loop."""

    def __init__(self, limit: int, seconds: float, clock: Callable[[], float] = monotonic) -> None:
        """Begin closed: open after `limit` failures in a row, and stay open for some seconds."""
        self.failures = 0
        self._limit = limit
        self._seconds = seconds
        self._clock = clock
        self._opened: float | None = None

    @property
    def state(self) -> BreakerState:
        """The present state."""
        if self._opened is None:
            return BreakerState.CLOSED
        waited = self._clock() - self._opened >= self._seconds
        return BreakerState.HALF_OPEN if waited else BreakerState.OPEN

    def begin(self) -> None:
        """Note that a call begins; if it is a trial, no other is admitted for the same time."""
        if self.state == BreakerState.HALF_OPEN:
            self._opened = self._clock()

    def succeed(self) -> None:
        """Note that a call was answered."""
        self.failures, self._opened = 0, None

    def fail(self) -> None:
        """Note that a call failed through the service's fault."""
        self.failures += 1
        if self.failures >= self._limit:
            self._opened = self._clock()


@dataclass(frozen=True, slots=True)
class ArmCall:
    """The outcome of an arm for one question.

    Attributes:
        state: State of its breaker afterwards.
        reason: Why it gave nothing, for clients; "" if it answered.
        outcome: A word for metrics: ok, open, budget, timeout and so on.
        note: What it had to do without, or "".
        calls: How many calls were made that have to be paid for.
        seconds: How long the calls took, with pauses between them.
    """

    name: str
    kind: str
    state: BreakerState
    hits: tuple[RemoteHit, ...] = ()
    reason: str = ""
    outcome: str = "ok"
    note: str = ""
    calls: int = 0
    seconds: float = 0.0
    spent: float = 0.0


@dataclass(frozen=True, slots=True)
class RemoteOutcome:
    """The part of remote arms in an answer.

    Attributes:
        calls: By name, the outcome of each arm that the route takes, whether it was called or not.
        saved_by: What the arms that the router avoided would have cost, by name.
    """

    calls: Mapping[str, ArmCall] = field(default_factory=dict)
    saved_by: Mapping[str, float] = field(default_factory=dict)

    @property
    def saved(self) -> float:
        """Sum of what avoided calls would have cost."""
        return sum(self.saved_by.values())

    @property
    def spent(self) -> float:
        """What the calls cost."""
        return sum(call.spent for call in self.calls.values())

    @property
    def answered(self) -> bool:
        """Whether an arm gave an answer."""
        return any(not call.reason for call in self.calls.values())

    @property
    def missing(self) -> dict[str, str]:
        """Why arms of the route gave nothing, by name."""
        return {name: call.reason for name, call in self.calls.items() if call.reason}

    @property
    def degraded(self) -> str:
        """Why this is not what was asked for, or ""; an arm that a limit kept out is missing."""
        failed = [
            f"the arm '{name}' {call.reason}"
            for name, call in self.calls.items()
            if call.reason and call.outcome != "budget"
        ]
        return f"degraded: {'; '.join(failed)}; answered without" if failed else ""

    def log_values(self) -> dict[str, object]:
        """What the request log says of it."""
        return {
            "arms": {
                name: {"outcome": call.outcome, "calls": call.calls, "seconds": call.seconds}
                for name, call in self.calls.items()
            },
            "missing": self.missing,
            "spent": self.spent,
            "saved": self.saved,
        }


class RemoteArm:
    """An arm that the arms file declares; used by one event loop.

    Attributes:
        prefix: Prefix of its ids in an answer; "" if they are the collection's own.
    """

    def __init__(self, name: str, config: Kind, deadline: float) -> None:
        """Wrap the table of an arm; `deadline` is the default of requests, in seconds."""
        self.name = name
        self.config = config
        self.breaker = Breaker(self.config.open_after, self.config.open_seconds)
        self._slots = asyncio.Semaphore(self.config.max_concurrency)
        # If a shorter time runs out, it was the request's own limit and is not the arm's fault.
        self._patience = min(self.config.timeout_ms / 1000, usable(deadline))
        self.prefix = "" if self.config.same_ids else f"{name}:"

    @property
    def takes_graph(self) -> bool:
        """Whether it replaces the graph."""
        return self.config.role == "graph"

    def facts(self) -> Mapping[str, object]:
        """What `/ready` says about it."""
        return {
            "arm": self.name,
            "kind": self.config.kind,
            "role": self.config.role,
            "state": str(self.breaker.state),
        }

    def suits(self, route: Route) -> bool:
        """Whether a route takes it."""
        return route in (_BY_GRAPH if self.takes_graph else _BY_LIST)

    def check_filter(self) -> None:
        """Raise a `FilterError`, with the routes that do without it, if it cannot filter."""
        if fault := self.config.filter_fault:
            raise FilterError(
                f"The remote arm '{self.name}' cannot apply this filter: {fault}. Use the route "
                "dense, lexical or hybrid, which do not ask it."
            )

    def over_budget(self, limits: Mapping[str, float]) -> str:
        """Why the amounts that are left, by the name of the limit, do not allow a call, or ""."""
        price = self.config.price
        for name, amount in limits.items():
            if price > amount + _EXACT:
                return f"budget: a call costs {price:g}, more than is left of {name}"
        return ""

    def refusal(self) -> str:
        """Why its breaker does not admit a call, or ""."""
        if self.breaker.state != BreakerState.OPEN:
            return ""
        return f"is not called for a while, after {self.breaker.failures} failures in a row"

    def skipped(self, reason: str, outcome: str) -> ArmCall:
        """The outcome of a call that was not made."""
        return ArmCall(
            self.name, self.config.kind, self.breaker.state, reason=reason, outcome=outcome
        )

    async def search(
        self, question: str, k: int, filter_: object | None, seconds: float
    ) -> ArmCall:
        """Call it within so many seconds; a failure is an outcome too, and raises nothing."""
        if reason := self.refusal():
            return self.skipped(reason, "open")
        seconds = min(seconds, self.config.timeout_ms / 1000)
        self.breaker.begin()
        started = perf_counter()
        calls = _CallBudget(started + seconds)
        reason, outcome, note = "", "ok", ""
        hits: tuple[RemoteHit, ...] = ()
        try:
            async with asyncio.timeout(seconds), self._slots:
                calls.is_begun = True
                hits, note = _filter_hits(await self._try(question, k, filter_, calls), filter_)
        except TimeoutError:
            limit = f"{1000 * seconds:.0f} ms"
            if calls.is_begun:
                reason, outcome = f"gave no answer within {limit}", "timeout"
            else:
                reason, outcome = f"had no free call for {limit}", "busy"
            if calls.is_begun and seconds >= self._patience:
                self.breaker.fail()
        except ArmError as error:
            reason, outcome = str(error), error.outcome
            if error.fault:
                self.breaker.fail()
        except Exception as error:  # noqa: BLE001 - a client library may raise anything
            reason, outcome = f"failed ({type(error).__name__})", "failed"
            self.breaker.fail()
        else:
            self.breaker.succeed()
        if reason:
            extra = {"arm": self.name, "reason": reason, "state": str(self.breaker.state)}
            LOG.warning("remote arm failed", extra=extra)
        return ArmCall(
            self.name,
            self.config.kind,
            self.breaker.state,
            hits,
            reason,
            outcome,
            note,
            calls.charged,
            perf_counter() - started,
            calls.charged * self.config.price,
        )

    async def _try(
        self, question: str, k: int, filter_: object | None, calls: "_CallBudget"
    ) -> Sequence[RemoteHit]:
        """Call it, with as many retries as are safe; what has its price is not paid for twice."""
        for attempt in range(self.config.retries + 1):
            calls.charged += 1
            try:
                return await self.config.search(question, k, filter_)
            except ArmError as error:
                calls.charged -= not error.charged
                wait = error.wait if error.wait is not None else _FIRST_WAIT * 2**attempt
                is_in_time = perf_counter() + wait < calls.end
                is_free = not (error.charged and self.config.price)
                if attempt == self.config.retries or not (error.retry and is_in_time and is_free):
                    raise
            await asyncio.sleep(wait * random.uniform(1.0, 1.5))
        raise ArmError("was not asked")  # pragma: no cover - there is at least one attempt

    async def close(self) -> None:
        """Close its connections."""
        await self.config.close()


@dataclass(slots=True)
class _CallBudget:
    """The calls for one question; `end` is in `perf_counter` seconds.

    Attributes:
        charged: Calls that were made and have to be paid for.
        is_begun: Whether there was a free slot.
    """

    end: float
    charged: int = 0
    is_begun: bool = False


def usable(seconds: float) -> float:
    """Seconds of a request's time that an arm may take."""
    return seconds - min(RESERVE * seconds, MOST_RESERVE)


def _filter_hits(
    hits: Sequence[RemoteHit], filter_: object | None
) -> tuple[tuple[RemoteHit, ...], str]:
    """The hits without duplicates and without those that the filter excludes; also a note."""
    first: dict[str, RemoteHit] = {}
    for hit in hits:
        first.setdefault(hit.id, hit)
    unique = tuple(first.values())
    if filter_ is None:
        return unique, ""
    mask = parse_filter(filter_).mask(Columns([hit.metadata for hit in unique])).tolist()
    passing = tuple(hit for hit, passes in zip(unique, mask, strict=True) if passes)
    removed = len(unique) - len(passing)
    return passing, f"{removed} of its passages were left out by the filter" if removed else ""
