"""A remote arm: what every kind of them has, wrapped in limits, retries and a circuit breaker."""

import asyncio
import math
import random
import sys
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from time import monotonic, perf_counter
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from wye.backends.errors import FilterError
from wye.backends.filters import Columns, parse_filter
from wye.backends.types import Metadata
from wye.router.remote import RemoteHit, ScoreKind
from wye.router.types import Route
from wye.service.errors import ServiceError
from wye.service.logs import LOG

RESERVE = 0.15  # share of a request's time that is left to answer it without arms
MOST_RESERVE = 0.75  # most seconds of that share

_FIRST_WAIT = 0.05
_EXACT = 1e-9  # tolerance for sums of prices
_LIST_ROUTES = frozenset({Route.AUTO, Route.FUSION, Route.STEPS})
LONGEST_TIMEOUT_MS = 60_000
LONGEST_ID = 2_048
Role = Literal["graph", "list"]
Encode = Callable[[str], Awaitable[Sequence[float]]]  # encodes a question as the collection does


@dataclass(eq=False)
class ArmError(ServiceError):
    """A failed call; the message is for clients, and names neither address nor secret."""

    reason: str
    outcome: str = field(default="failed", kw_only=True)  # a word for metrics
    retry: bool = field(default=False, kw_only=True)  # whether another attempt is safe and may help
    charged: bool = field(default=True, kw_only=True)  # whether the call has to be paid for
    fault: bool = field(default=True, kw_only=True)  # whether it is the arm's, not the question's
    wait: float | None = field(default=None, kw_only=True)  # seconds before another

    def __str__(self) -> str:
        return self.reason


class Garbled(ArmError):  # noqa: N818 - it describes the reply
    """A reply that cannot be read."""

    def __init__(self, fault: str) -> None:
        super().__init__(f"sent an unreadable reply: {fault}", outcome="garbled")


class Kind(BaseModel, ABC):
    """A table `[arms.NAME]`: the settings that arms of every kind have, and how one is called.

    A subclass is a kind; its first call connects. Making one raises a `ServiceError` if a variable
    or package that the table needs is missing.

    Attributes:
        kind: A name in `wye.service.arms.KINDS`.
        role: "graph" replaces the graph; "list" adds a list to fusion.
        collection: The collection it belongs to; by default the first.
        timeout_ms: Longest time for a call, including retries; a request's deadline may be nearer.
        price: Price of a call, in any currency; the greatest if calls differ.
        max_concurrency: Most concurrent calls of each worker.
        retries: Most further attempts after errors that make another one safe; a call that has
            its price is not repeated.
        scores: The kind of its scores: "cosine", "bm25" or "mass" are added to our own scores; with
            "rank" only the order counts.
        weight: Weight of its list in fusion; our own lists have 1.
        depth: Hits to ask for, unless a request wants more.
        same_ids: Whether it has the ids of the collection, so that equal ids are one passage.
        open_after: Failures in a row after which it is not called for a while.
        open_seconds: How long it is not called; then a single call tries again.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    kind: str
    role: Role
    collection: str = ""
    timeout_ms: Annotated[int, Field(ge=1, le=LONGEST_TIMEOUT_MS)] = 3_000
    price: Annotated[float, Field(ge=0)] = 0.0
    max_concurrency: Annotated[int, Field(ge=1, le=1_000)] = 8
    retries: Annotated[int, Field(ge=0, le=5)] = 1
    scores: ScoreKind = "rank"
    weight: Annotated[float, Field(gt=0, le=100)] = 1.0
    depth: Annotated[int, Field(ge=1, le=200)] = 20
    same_ids: bool = False
    open_after: Annotated[int, Field(ge=1)] = 5
    open_seconds: Annotated[float, Field(gt=0)] = 10.0
    _encode: Encode = PrivateAttr()  # set by `use` before the first call

    @property
    def filter_fault(self) -> str:
        """Why the service cannot apply filters; "" if it can."""
        return f"an arm of the kind '{self.kind}' cannot filter"

    @abstractmethod
    async def search(self, question: str, k: int, filter_: object | None) -> Sequence[RemoteHit]:
        """Find at most k hits, best first, or raise an `ArmError`; the caller filters too."""

    def use(self, encode: Encode) -> None:
        """Set the collection's encoder, which only kinds that compare vectors need."""
        self._encode = encode

    async def close(self) -> None:
        """Close its connections."""


class BreakerState(StrEnum):
    """State of a breaker: it admits all calls, none, or a single one as a trial."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


@dataclass(slots=True)
class Breaker:
    """Opens after `limit` failures in a row, for some seconds; used by one event loop."""

    limit: int
    seconds: float
    clock: Callable[[], float] = monotonic
    failures: int = 0
    _opened: float | None = None

    @property
    def state(self) -> BreakerState:
        """The present state."""
        if self._opened is None:
            return BreakerState.CLOSED
        waited = self.clock() - self._opened >= self.seconds
        return BreakerState.HALF_OPEN if waited else BreakerState.OPEN

    def begin(self) -> None:
        """Note that a call begins; if it is a trial, no other is admitted for the same time."""
        if self.state == BreakerState.HALF_OPEN:
            self._opened = self.clock()

    def succeed(self) -> None:
        """Note that a call was answered."""
        self.failures, self._opened = 0, None

    def fail(self) -> None:
        """Note that a call failed through the service's fault."""
        self.failures += 1
        if self.failures >= self.limit:
            self._opened = self.clock()


@dataclass(slots=True)
class ArmCall:
    """The outcome of an arm for one question."""

    name: str
    kind: str
    state: BreakerState  # state of its breaker afterwards
    hits: tuple[RemoteHit, ...] = ()
    reason: str = ""  # why it gave nothing, for clients; "" if it answered
    outcome: str = "ok"  # a word for metrics: ok, open, budget, timeout and so on
    note: str = ""  # what it had to do without, or ""
    calls: int = 0  # how many calls were made that have to be paid for
    seconds: float = 0.0  # how long the calls took, with pauses between them
    spent: float = 0.0


@dataclass(frozen=True, slots=True)
class RemoteOutcome:
    """The part of remote arms in an answer."""

    calls: Mapping[str, ArmCall] = field(default_factory=dict)  # by name, also of those not called
    saved_by: Mapping[str, float] = field(default_factory=dict)  # by name, of avoided calls

    @property
    def saved(self) -> float:
        """Sum of what avoided calls would have cost."""
        return sum(self.saved_by.values())

    @property
    def spent(self) -> float:
        """What the calls cost."""
        return sum(call.spent for call in self.calls.values())

    @property
    def missing(self) -> dict[str, str]:
        """Why arms of the route gave nothing, by name."""
        return {name: call.reason for name, call in self.calls.items() if call.reason}

    @property
    def answered(self) -> bool:
        """Whether an arm gave an answer."""
        return len(self.missing) < len(self.calls)

    @property
    def degraded(self) -> str:
        """Why this is not what was asked for, or ""; an arm that a limit kept out is missing."""
        failed = [
            f"the arm '{name}' {reason}"
            for name, reason in self.missing.items()
            if self.calls[name].outcome != "budget"
        ]
        return f"degraded: {'; '.join(failed)}; answered without" if failed else ""

    def log_values(self) -> dict[str, object]:
        """What the request log says of it."""
        names = ("outcome", "calls", "seconds")
        arms = {name: {k: getattr(call, k) for k in names} for name, call in self.calls.items()}
        return {"arms": arms, "missing": self.missing, "spent": self.spent, "saved": self.saved}


class RemoteArm:
    """An arm that the arms file declares; used by one event loop.

    Attributes:
        prefix: Prefix of its ids in an answer; "" if they are the collection's own.
        takes_graph: Whether it replaces the graph.
    """

    def __init__(self, name: str, config: Kind, deadline: float) -> None:
        """Wrap the table of an arm; `deadline` is the default of requests, in seconds."""
        self.name = name
        self.config = config
        self.prefix = "" if config.same_ids else f"{name}:"
        self.takes_graph = config.role == "graph"
        self.breaker = Breaker(config.open_after, config.open_seconds)
        self.close = config.close
        self._slots = asyncio.Semaphore(config.max_concurrency)
        # If a shorter time runs out, it was the request's own limit and is not the arm's fault.
        self._patience = min(config.timeout_ms / 1000, usable(deadline))

    def facts(self) -> Mapping[str, object]:
        """What `/ready` says about it."""
        kind, role = self.config.kind, self.config.role
        return {"arm": self.name, "kind": kind, "role": role, "state": str(self.breaker.state)}

    def suits(self, route: Route) -> bool:
        """Whether a route takes it."""
        return route in _LIST_ROUTES or (self.takes_graph and route == Route.GRAPH)

    def check_filter(self) -> None:
        """Raise a `FilterError`, with the routes that do without it, if it cannot filter."""
        if fault := self.config.filter_fault:
            raise FilterError(
                f"The remote arm '{self.name}' cannot apply this filter: {fault}. Use the route "
                "dense, lexical or hybrid, which do not ask it."
            )

    def refused(self, limits: Mapping[str, float]) -> ArmCall | None:
        """The outcome without a call, if its breaker or a limit on cost allows none; else None."""
        price = self.config.price
        for name, amount in limits.items():
            if price > amount + _EXACT:
                over = f"budget: a call costs {price:g}, more than is left of {name}"
                return self.skipped(over, "budget")
        return self.skipped(reason, "open") if (reason := self.refusal()) else None

    def refusal(self) -> str:
        """Why its breaker does not admit a call, or ""."""
        if self.breaker.state != BreakerState.OPEN:
            return ""
        return f"is not called for a while, after {self.breaker.failures} failures in a row"

    def skipped(self, reason: str, outcome: str) -> ArmCall:
        """The outcome of a call that was not made."""
        state = self.breaker.state
        return ArmCall(self.name, self.config.kind, state, reason=reason, outcome=outcome)

    async def search(
        self, question: str, k: int, filter_: object | None, seconds: float
    ) -> ArmCall:
        """Call it within so many seconds; a failure is an outcome too, and raises nothing."""
        if call_refused := self.refused({}):
            return call_refused
        seconds = min(seconds, self.config.timeout_ms / 1000)
        self.breaker.begin()
        started = perf_counter()
        call, is_fault = ArmCall(self.name, self.config.kind, self.breaker.state), False
        try:
            async with asyncio.timeout(seconds):
                # Without a free slot, nothing was asked.
                call.reason, call.outcome = f"had no free call for {1000 * seconds:.0f} ms", "busy"
                async with self._slots:
                    call.reason, call.outcome = "", "timeout"
                    hits = await self._try(call, question, k, filter_, started + seconds)
                    call.hits, call.note = _filter_hits(hits, filter_)
                    call.outcome = "ok"
        except TimeoutError:
            call.reason = call.reason or f"gave no answer within {1000 * seconds:.0f} ms"
            is_fault = call.outcome == "timeout" and seconds >= self._patience
        except ArmError as error:
            call.reason, call.outcome, is_fault = str(error), error.outcome, error.fault
        except Exception as error:  # noqa: BLE001 - a client library may raise anything
            call.reason, call.outcome = f"failed ({type(error).__name__})", "failed"
            is_fault = True
        else:
            self.breaker.succeed()
        if is_fault:
            self.breaker.fail()
        call.state = self.breaker.state
        call.seconds, call.spent = perf_counter() - started, call.calls * self.config.price
        if call.reason:
            extra = {"arm": self.name, "reason": call.reason, "state": str(call.state)}
            LOG.warning("remote arm failed", extra=extra)
        return call

    async def _try(
        self, call: ArmCall, question: str, k: int, filter_: object | None, end: float
    ) -> Sequence[RemoteHit]:
        """Call it, with as many retries as are safe; what has its price is not paid for twice."""
        attempt = 0
        while True:
            call.calls += 1
            try:
                return await self.config.search(question, k, filter_)
            except ArmError as error:
                call.calls -= not error.charged
                wait = error.wait if error.wait is not None else _FIRST_WAIT * 2**attempt
                is_in_time = perf_counter() + wait < end
                is_free = not (error.charged and self.config.price)
                if attempt == self.config.retries or not (error.retry and is_in_time and is_free):
                    raise
            attempt += 1
            await asyncio.sleep(wait * random.uniform(1.0, 1.5))


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


def remote_hit(
    id_: object, text: object, title: object = "", score: object = None, metadata: object = None
) -> RemoteHit:
    """Make a hit of parts of parsed JSON; `Garbled` if there is no usable id, text or score."""
    if isinstance(id_, bool) or not isinstance(id_, str | int) or id_ == "":
        raise Garbled("a passage has no id")
    if len(str(id_)) > LONGEST_ID:
        raise Garbled(f"an id has more than {LONGEST_ID} characters")
    if not isinstance(text, str) or not text.strip():
        raise Garbled("a passage has no text")
    score = 0.0 if score is None else score
    is_number = isinstance(score, int | float) and not isinstance(score, bool)
    if not is_number or not abs(score) <= sys.float_info.max:  # type: ignore[arg-type]
        raise Garbled("a score is not a finite number")
    title = title if isinstance(title, str) else ""
    return RemoteHit(_clean(str(id_)), _clean(text), _clean(title), float(score), flat(metadata))  # type: ignore[arg-type]


def flat(metadata: object) -> Metadata:
    """The entries of an object that filters and replies support: scalars and lists of them."""
    entries: dict[str, Any] = {}
    for key, value in metadata.items() if isinstance(metadata, Mapping) else ():
        scalars = value if isinstance(value, list) else [value]
        if all(map(_is_scalar, scalars)):
            cleaned = [_clean(each) if isinstance(each, str) else each for each in scalars]
            entries[_clean(str(key))] = cleaned if isinstance(value, list) else cleaned[0]
    return entries


def _is_scalar(value: object) -> bool:
    is_finite = not isinstance(value, float) or math.isfinite(value)
    return isinstance(value, str | int | float) and is_finite


def _clean(text: str) -> str:
    """Replace halves of surrogate pairs, which JSON may hold but UTF-8 cannot."""
    return text.encode("utf-8", "replace").decode("utf-8")
