"""What the model thread does with a batch: search, degrade where it must, fetch the passages."""

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic, perf_counter
from typing import TYPE_CHECKING

from backends.errors import FilterError
from backends.filters import Fixed
from backends.types import Passage
from router.errors import QuestionError
from router.session import Session
from router.types import Decision, Reply, Route
from service.batching import Entry
from service.collections import Collection
from service.logs import LOG

if TYPE_CHECKING:
    from service.arms.gate import RemoteOutcome

# How fast what was learned about a route's speed loses its say, so that a route that was left out
# for being slow is tried again.
_HALF_LIFE = 10.0
_NEWEST = 0.3


@dataclass(frozen=True, slots=True)
class SearchParams:
    """How to search; questions with equal parameters are worked on together.

    Attributes:
        filter: Metadata filter as parsed JSON.
        max_cost: Most that calls of remote arms may cost, if it says so.
        text_only: Whether dense and lexical search stand in for what the graph takes part in.
        canonical: The filter as text. It is this that is compared: to `==`, 1 and true are one.
    """

    collection: str
    route: Route
    k: int
    filter: object | None = field(default=None, compare=False)
    explain: bool = False
    max_latency_ms: float | None = None
    min_relevance: float = 0.0
    point: str = ""
    max_cost: float | None = field(default=None, compare=False)
    text_only: bool = False
    canonical: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "canonical", _canonical(self.filter))


@dataclass(frozen=True, slots=True)
class RouteParams:
    """The same where only the route is wanted."""

    collection: str
    max_latency_ms: float | None = None
    explain: bool = False
    filter: object | None = field(default=None, compare=False)
    point: str = ""
    canonical: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "canonical", _canonical(self.filter))


def _canonical(filter_: object | None) -> str:
    # One that a key brings with it is no other's, although the same might be asked for.
    kind = "fixed " if isinstance(filter_, Fixed) else ""
    return "" if filter_ is None else kind + json.dumps(filter_, sort_keys=True)


@dataclass(frozen=True, slots=True)
class QueuedQuestion:
    """One question of one request; the id is for logs."""

    text: str
    request_id: str


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The answer to one question.

    Attributes:
        params: How it was searched for. `params.route` is the route that was asked for.
        entry: When it waited and began, and how many were in its batch.
        reply: What the gateway says.
        passages: Id -> passage, of every hit, and of each arm's first k where they are explained.
        fallback: Why dense search answered in place of the route that was asked for, or "".
        seconds: By stage, waiting first. Questions of one batch share its time equally.
        total: Seconds from queueing to the answer.
        remote: What remote arms had to do with it; None where the collection has none.
        lost: Shards that did not answer, and why.
    """

    params: SearchParams
    entry: Entry[QueuedQuestion]
    reply: Reply
    passages: Mapping[str, Passage]
    fallback: str
    seconds: Mapping[str, float]
    total: float = 0.0
    remote: "RemoteOutcome | None" = None
    lost: Mapping[str, str] = field(default_factory=dict)

    @property
    def degraded(self) -> str:
        """Why this is not what was asked for, or ""."""
        remote = self.remote.degraded if self.remote else ""
        shards = [f"the shard {name} {reason}" for name, reason in self.lost.items()]
        lost = f"degraded: {'; '.join(shards)}; answered without" if shards else ""
        return self.fallback or remote or lost or self.reply.ranking.degraded

    @property
    def missing(self) -> dict[str, str] | None:
        """Why shards or remote arms gave nothing, by name; None where there are no such."""
        if self.remote is None and not self.lost:
            return None
        return {**self.lost, **(self.remote.missing if self.remote else {})}

    @property
    def degradation(self) -> str:
        """The kind of it: failed, late, arm or ""."""
        if not self.fallback:
            return "arm" if self.degraded else ""
        return "failed" if " failed (" in self.fallback else "late"


class Searcher:
    """Answers batches of questions; used by one thread at a time."""

    def __init__(
        self, collections: Mapping[str, Collection], clock: Callable[[], float] = monotonic
    ) -> None:
        self._collections = collections
        self._clock = clock
        self._paces: defaultdict[tuple[str, Route], _Pace] = defaultdict(_Pace)

    def work(
        self, params: SearchParams | RouteParams, entries: Sequence[Entry[QueuedQuestion]]
    ) -> Sequence[SearchResult | Decision | Exception]:
        """One result or error for each entry, in order.

        Entries whose time will not suffice for their route, as far as one can tell, go first and
        over the dense route. All of a batch see one version of the index and one of the thresholds.
        """
        session = self._collections[params.collection].session
        if isinstance(params, RouteParams):
            return self._decide(session, params, [entry.item.text for entry in entries])
        late, why = self._late(params, entries)
        if not late:
            return self._search(session, params, entries)
        patient = [entry for entry in entries if entry not in late]
        found = [*self._search(session, params, late, why), *self._search(session, params, patient)]
        results = dict(zip([*late, *patient], found, strict=True))
        return [results[entry] for entry in entries]

    def begin(
        self, params: SearchParams | RouteParams, entries: Sequence[Entry[QueuedQuestion]]
    ) -> None:
        """Have questions encoded that will be worked on next, while others are."""
        if isinstance(params, RouteParams) or params.route != Route.LEXICAL:
            # What is wrong with them is told when they are worked on.
            with suppress(Exception):
                session = self._collections[params.collection].session
                session.analyser.encode_ahead([entry.item.text for entry in entries])

    def _decide(
        self, session: Session, params: RouteParams, questions: Sequence[str]
    ) -> list[Decision | Exception]:
        try:
            return list(
                session.gateway.decide(
                    questions,
                    filter=params.filter,
                    max_latency_ms=params.max_latency_ms,
                    explain=params.explain,
                    point=params.point,
                )
            )
        except Exception as error:  # noqa: BLE001 - one bad question must not fail the others
            if len(questions) == 1:
                return [error]
        return [found for one in questions for found in self._decide(session, params, [one])]

    def _time_for_steps(
        self, most: float | None, entries: Sequence[Entry[QueuedQuestion]]
    ) -> float:
        """Milliseconds after which steps take no further one.

        Half of what is left to the deadline, so that what they found by then is answered before it.

        Args:
            most: That the request allows, if it says so.
        """
        left = 500 * max(min(entry.deadline for entry in entries) - self._clock(), 0.0)
        return left if most is None else min(left, most)

    def _late(
        self, params: SearchParams, entries: Sequence[Entry[QueuedQuestion]]
    ) -> tuple[list[Entry[QueuedQuestion]], str]:
        """Entries for which the route takes too long at the moment, and that in words."""
        # Steps stop in time by themselves, once they have what fusion gives.
        needed = Route.FUSION if params.route == Route.STEPS else params.route
        pace = self._paces.get((params.collection, needed))
        if pace is None or params.route == Route.DENSE:
            return [], ""
        now = self._clock()
        expected = pace.seconds(now) * len(entries)
        return [entry for entry in entries if entry.deadline - now < expected], (
            f"degraded: {needed} takes about {1000 * expected:.0f} ms at the moment, more "
            "than the deadline leaves; dense instead"
        )

    def _search(
        self,
        session: Session,
        params: SearchParams,
        entries: Sequence[Entry[QueuedQuestion]],
        fallback: str = "",
    ) -> list[SearchResult | Exception]:
        """Search over the route that was asked for, or over dense where `fallback` says why.

        A question that fails does not take its neighbours with it, and dense search answers it
        where it can.
        """
        if not entries:
            return []
        route = Route.DENSE if fallback else params.route
        most = params.max_latency_ms
        if route == Route.STEPS:
            most = self._time_for_steps(most, entries)
        started = perf_counter()
        try:
            replies = session.gateway.search(
                [entry.item.text for entry in entries],
                route,
                params.k,
                params.filter,
                max_latency_ms=most,
                min_relevance=params.min_relevance,
                explain=params.explain,
                point=params.point,
                text_only=params.text_only,
            )
            searched = perf_counter()
            shown = [_shown(reply, params) for reply in replies]
            passages = session.passages(sorted(set().union(*shown)))
        except Exception as error:  # noqa: BLE001 - a fault in an arm must not end the thread
            return self._search_apart(session, params, entries, fallback, error)
        ended, lost = perf_counter(), session.lost()
        pace = self._paces[params.collection, route]
        pace.learn((ended - started) / len(entries), self._clock())
        return [
            SearchResult(
                params,
                entry,
                reply,
                {id_: passages[id_] for id_ in ids},
                fallback,
                {
                    "queue": max(0.0, entry.started - entry.entered),
                    **reply.seconds,
                    "fetching": (ended - searched) / len(entries),
                },
                lost=lost,
            )
            for entry, reply, ids in zip(entries, replies, shown, strict=True)
        ]

    def _search_apart(
        self,
        session: Session,
        params: SearchParams,
        entries: Sequence[Entry[QueuedQuestion]],
        fallback: str,
        error: Exception,
    ) -> list[SearchResult | Exception]:
        """After an error: each half by itself, and a single question over dense."""
        route = Route.DENSE if fallback else params.route
        mistaken = isinstance(error, FilterError | QuestionError)
        if not mistaken:
            LOG.error(
                "arm failed",
                exc_info=error,
                extra={
                    "route": str(route),
                    "collection": params.collection,
                    "request_ids": [entry.item.request_id for entry in entries],
                },
            )
        if len(entries) == 1 and (mistaken or route == Route.DENSE):
            return [error]
        if len(entries) == 1:
            fallback = f"degraded: {route} failed ({type(error).__name__}); dense instead"
            return self._search(session, params, entries, fallback)
        half = len(entries) // 2
        return [
            *self._search(session, params, entries[:half], fallback),
            *self._search(session, params, entries[half:], fallback),
        ]


def _shown(reply: Reply, params: SearchParams) -> set[str]:
    """Ids of the passages that a reply needs: its own, and what each arm had where that is told."""
    own = {hit.id for hit in reply.ranking.hits}
    if not params.explain:
        return own
    return own.union(hit.id for arm in reply.arms.values() for hit in arm.hits[: params.k])


@dataclass(slots=True)
class _Pace:
    """Seconds that a question takes over one route, lately."""

    mean: float = 0.0
    learned: float = 0.0

    def learn(self, seconds: float, now: float) -> None:
        """Take in how long a question took."""
        known = self.seconds(now)
        self.mean = (1 - _NEWEST) * known + _NEWEST * seconds if known else seconds
        self.learned = now

    def seconds(self, now: float) -> float:
        """What to expect of the next."""
        return float(self.mean * 0.5 ** ((now - self.learned) / _HALF_LIFE))
