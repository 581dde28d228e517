"""What the model thread does with a batch: search, degrade where it must, fetch the passages."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic, perf_counter

from backends.errors import FilterError
from backends.types import Passage
from router.errors import QuestionError
from router.session import Session
from router.types import Decision, Reply, Route
from service.batching import Entry
from service.collections import Collection
from service.logs import LOG

DEGRADED = "degraded: "

# How fast what was learned about a route's speed loses its say, so that a route that was left out
# for being slow is tried again.
_HALF_LIFE = 10.0
_NEWEST = 0.3


@dataclass(frozen=True, slots=True)
class SearchParams:
    """What requests have in common that are worked on together.

    Attributes:
        collection: Name.
        route: Asked for.
        k: Passages wanted.
        filter: Metadata filter as parsed JSON.
        explain: Whether to say how the router and the graph came to what they did.
        max_latency_ms: Most time for an answer, where the router chooses.
        canonical: The filter as text. It is this that is compared: to `==`, 1 and true are one.
    """

    collection: str
    route: Route
    k: int
    filter: object | None = field(default=None, compare=False)
    explain: bool = False
    max_latency_ms: float | None = None
    canonical: str = field(init=False)

    def __post_init__(self) -> None:
        text = "" if self.filter is None else json.dumps(self.filter, sort_keys=True)
        object.__setattr__(self, "canonical", text)


@dataclass(frozen=True, slots=True)
class RouteParams:
    """The same for requests that only want to know which route a question would take.

    Attributes:
        collection: Name.
        max_latency_ms: Most time for an answer.
        explain: Whether to say how the router came to its choice.
    """

    collection: str
    max_latency_ms: float | None = None
    explain: bool = False


@dataclass(frozen=True, slots=True)
class QueuedQuestion:
    """One question of one request.

    Attributes:
        text: As asked.
        request_id: For logs.
    """

    text: str
    request_id: str


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The answer to one question.

    Attributes:
        reply: Of the gateway.
        passages: Id -> passage, of every hit, and of each arm's first k where they are explained.
        degraded: Why another route answered than the one that was asked for, or "".
        fetching: Seconds that reading the passages took, shared by the batch.
    """

    reply: Reply
    passages: Mapping[str, Passage]
    degraded: str
    fetching: float


class Searcher:
    """Answers batches of questions; used by one thread at a time."""

    def __init__(
        self, collections: Mapping[str, Collection], clock: Callable[[], float] = monotonic
    ) -> None:
        """Take the collections.

        Args:
            collections: By name.
            clock: That deadlines are told in.
        """
        self._collections = collections
        self._clock = clock
        self._paces: dict[tuple[str, Route], _Pace] = {}

    def work(
        self, ask: SearchParams | RouteParams, entries: Sequence[Entry[QueuedQuestion]]
    ) -> Sequence[SearchResult | Decision | Exception]:
        """One result or error per entry, in order."""
        if isinstance(ask, RouteParams):
            engine = self._collections[ask.collection].engine
            return self._decide(engine, ask, [entry.item.text for entry in entries])
        return self.find(ask, entries)

    def find(
        self, ask: SearchParams, entries: Sequence[Entry[QueuedQuestion]]
    ) -> list[SearchResult | Exception]:
        """Passages or an error per entry, in order.

        Entries whose time will not suffice for their route, as far as one can tell, go first and
        over the dense route. All of a batch see one version of the index and one of the thresholds.
        """
        engine = self._collections[ask.collection].engine
        results: dict[int, SearchResult | Exception] = {}
        for why, places in self._by_haste(ask, entries).items():
            asked = replace(ask, route=Route.DENSE) if why else ask
            found = self._search(engine, asked, [entries[place].item for place in places], why)
            results.update(zip(places, found, strict=True))
        return [results[place] for place in range(len(entries))]

    def _decide(
        self, engine: Session, ask: RouteParams, questions: Sequence[str]
    ) -> list[Decision | Exception]:
        try:
            return list(
                engine.gateway.decide(
                    questions, max_latency_ms=ask.max_latency_ms, explain=ask.explain
                )
            )
        except Exception as error:  # noqa: BLE001 - one bad question must not fail the others
            if len(questions) == 1:
                return [error]
        return [found for question in questions for found in self._decide(engine, ask, [question])]

    def _by_haste(
        self, ask: SearchParams, entries: Sequence[Entry[QueuedQuestion]]
    ) -> dict[str, list[int]]:
        """Why some places cannot take the route asked for -> those places; "" -> the others."""
        pace = self._paces.get((ask.collection, ask.route))
        if pace is None or ask.route == Route.DENSE:
            return {"": list(range(len(entries)))}
        now = self._clock()
        expected = pace.seconds(now) * len(entries)
        late = [n for n, entry in enumerate(entries) if entry.deadline - now < expected]
        if not late:
            return {"": list(range(len(entries)))}
        why = (
            f"{ask.route} takes about {1000 * expected:.0f} ms at the moment, more than the "
            "deadline leaves; dense instead"
        )
        kept = [n for n in range(len(entries)) if n not in set(late)]
        return {why: late, "": kept} if kept else {why: late}

    def _search(
        self, engine: Session, ask: SearchParams, questions: Sequence[QueuedQuestion], why: str
    ) -> list[SearchResult | Exception]:
        """Search over one route.

        A question that fails does not take its neighbours with it, and dense search answers it
        where it can.
        """
        try:
            return list(self._ask(engine, ask, questions, why))
        except (FilterError, QuestionError) as error:
            if len(questions) == 1:
                return [error]
        except Exception as error:  # noqa: BLE001 - a fault in an arm must not end the thread
            ids = [question.request_id for question in questions]
            LOG.error(
                "arm failed",
                exc_info=error,
                extra={"route": str(ask.route), "collection": ask.collection, "request_ids": ids},
            )
            if len(questions) == 1:
                if ask.route == Route.DENSE:
                    return [error]
                why = f"{ask.route} failed ({type(error).__name__}); dense instead"
                return self._search(engine, replace(ask, route=Route.DENSE), questions, why)
        half = len(questions) // 2
        return [
            *self._search(engine, ask, questions[:half], why),
            *self._search(engine, ask, questions[half:], why),
        ]

    def _ask(
        self, engine: Session, ask: SearchParams, questions: Sequence[QueuedQuestion], why: str
    ) -> list[SearchResult]:
        started = perf_counter()
        replies = engine.gateway.search(
            [question.text for question in questions],
            ask.route,
            ask.k,
            ask.filter,
            max_latency_ms=ask.max_latency_ms,
            explain=ask.explain,
        )
        searched = perf_counter()
        shown = [_shown(reply, ask) for reply in replies]
        passages = engine.passages(sorted(set().union(*shown)))
        fetching = (perf_counter() - searched) / len(questions)
        pace = self._paces.setdefault((ask.collection, ask.route), _Pace())
        pace.learn((perf_counter() - started) / len(questions), self._clock())
        return [
            SearchResult(
                reply,
                {id_: passages[id_] for id_ in ids},
                DEGRADED + why if why else "",
                fetching,
            )
            for reply, ids in zip(replies, shown, strict=True)
        ]


def _shown(reply: Reply, ask: SearchParams) -> set[str]:
    """Ids of the passages that a reply needs: its own, and what each arm had where that is told."""
    own = {hit.id for hit in reply.ranking.hits}
    if not ask.explain:
        return own
    return own.union(hit.id for arm in reply.arms.values() for hit in arm.hits[: ask.k])


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
