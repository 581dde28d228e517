"""What the model thread does with a batch: search, degrade where it must, fetch the passages."""

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, islice
from time import monotonic, perf_counter
from typing import TYPE_CHECKING

from backends.errors import FilterError
from backends.filters import Fixed
from backends.types import Passage
from featurizer.spacy_parser import token_count
from router.errors import QuestionError
from router.gateway import Begun
from router.session import Session
from router.types import Decision, Reply, Route
from service.batching import Entry, Later
from service.collections import Collection
from service.logs import LOG

if TYPE_CHECKING:
    from service.arms.gate import RemoteOutcome

# How fast what was learned about a route's speed loses its say, so that a route that was left out
# for being slow is tried again.
_HALF_LIFE = 10.0
_NEWEST = 0.3
STEPS_WEIGHT = 3
"""Of a token of a question that goes in steps: fewer of them go into a batch."""


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


@dataclass(eq=False, slots=True)
class Rest:
    """What is left of a batch of questions whose routes were chosen: those that go in steps.

    Attributes:
        session: That the batch began with.
        seconds: Spent on the batch so far.
        batch: How many it had.
        left: Of each that is left, what it was begun with, and its place there.
    """

    params: SearchParams
    session: Session
    seconds: float
    batch: int
    left: dict[Entry[QueuedQuestion], tuple[Begun, int]]


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
        self, params: SearchParams | RouteParams | Rest, entries: Sequence[Entry[QueuedQuestion]]
    ) -> Sequence[SearchResult | Decision | Later[Rest] | Exception]:
        """One result or error for each entry, in order.

        Entries whose time will not suffice for their route, as far as one can tell, go first and
        over the dense route. All of a batch see one version of the index and one of the thresholds.
        Where the router sends questions in steps, these are for later.
        """
        if isinstance(params, Rest):
            return self._finish(params, entries)
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
        self, params: SearchParams | RouteParams | Rest, entries: Sequence[Entry[QueuedQuestion]]
    ) -> None:
        """Have questions encoded that will be worked on next, while others are."""
        if isinstance(params, Rest):
            return
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
    ) -> list[SearchResult | Later[Rest] | Exception]:
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
            begun = session.gateway.begin(
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
            replies: dict[Entry[QueuedQuestion], Reply] = {}
            left: dict[Entry[QueuedQuestion], tuple[Begun, int]] = {}
            waiting = iter(entries)
            for part in begun:
                own = dict(enumerate(islice(waiting, len(part.replies) + len(part.left))))
                # Those of the route of steps are no more than go together, and one alone holds up
                # none of its batch.
                found = {**part.replies}
                if route != Route.AUTO or len(entries) == 1:
                    found |= part.finish(part.left)
                else:
                    left.update((own[place], (part, place)) for place in part.left)
                replies.update((own[place], reply) for place, reply in found.items())
            results = self._results(session, params, replies, fallback)
        except Exception as error:  # noqa: BLE001 - a fault in an arm must not end the thread
            return self._search_apart(session, params, entries, fallback, error)
        seconds = perf_counter() - started
        if not left:
            self._paces[params.collection, route].learn(seconds / len(entries), self._clock())
            return [results[entry] for entry in entries]
        rest = Rest(params, session, seconds, len(entries), left)
        return [
            results[entry]
            if entry in results
            else Later(rest, STEPS_WEIGHT * token_count(entry.item.text))
            for entry in entries
        ]

    def _finish(
        self, rest: Rest, entries: Sequence[Entry[QueuedQuestion]]
    ) -> list[SearchResult | Later[Rest] | Exception]:
        """Answer some of the questions that go in steps."""
        started = perf_counter()
        own = [(entry, *rest.left.pop(entry)) for entry in entries]
        try:
            replies: dict[Entry[QueuedQuestion], Reply] = {}
            for part in dict.fromkeys(part for _, part, _ in own):
                of_part = {place: entry for entry, begun, place in own if begun is part}
                found = part.finish([*of_part])
                replies.update((of_part[place], reply) for place, reply in found.items())
            results = self._results(rest.session, rest.params, replies)
        except Exception as error:  # noqa: BLE001 - a fault in an arm must not end the thread
            return self._search_apart(rest.session, rest.params, entries, "", error)
        rest.seconds += perf_counter() - started
        if not rest.left:
            pace = self._paces[rest.params.collection, rest.params.route]
            pace.learn(rest.seconds / rest.batch, self._clock())
        return [results[entry] for entry in entries]

    def _results(
        self,
        session: Session,
        params: SearchParams,
        replies: Mapping[Entry[QueuedQuestion], Reply],
        fallback: str = "",
    ) -> dict[Entry[QueuedQuestion], SearchResult]:
        """Replies with their passages, and those of each arm's first hits where that is told."""
        started = perf_counter()
        shown = {}
        for entry, reply in replies.items():
            arms = reply.arms.values() if params.explain else ()
            hits = chain(reply.ranking.hits, *(arm.hits[: params.k] for arm in arms))
            shown[entry] = {hit.id for hit in hits}
        passages = session.passages(sorted(set().union(*shown.values())))
        fetching, lost = (perf_counter() - started) / max(len(replies), 1), session.lost()
        return {
            entry: SearchResult(
                params,
                entry,
                reply,
                {id_: passages[id_] for id_ in shown[entry]},
                fallback,
                {"queue": max(0.0, entry.waited), **reply.seconds, "fetching": fetching},
                lost=lost,
            )
            for entry, reply in replies.items()
        }

    def _search_apart(
        self,
        session: Session,
        params: SearchParams,
        entries: Sequence[Entry[QueuedQuestion]],
        fallback: str,
        error: Exception,
    ) -> list[SearchResult | Later[Rest] | Exception]:
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
