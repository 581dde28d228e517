"""How a batch is answered in the models' thread, degraded if it must be."""

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from time import monotonic, perf_counter
from typing import TYPE_CHECKING

from wye.backends.errors import BackendError, FilterError
from wye.backends.filters import Fixed
from wye.backends.types import Passage
from wye.featurizer.analyser import token_count
from wye.router.errors import QuestionError
from wye.router.gateway import BatchReplies
from wye.router.session import Session
from wye.router.types import Ask, Reply, Route
from wye.service.arms.arm import RemoteOutcome
from wye.service.batching import Entry, Later
from wye.service.logs import LOG

if TYPE_CHECKING:
    from wye.service.collections import Collection

# Half-life, in seconds, of the estimate of a route's speed; it decays so that a route that was
# skipped for being slow is tried again.
_HALF_LIFE = 10.0
_NEWEST = 0.3
STEPS_WEIGHT = 3
"""Weight of a token on the route `steps`, so that fewer such questions fit into a batch."""


@dataclass(frozen=True, slots=True)
class SearchParams(Ask):
    """How to search a collection; questions with equal parameters can share a batch.

    Attributes:
        filter: See `Ask`; compared as text, since to `==`, 1 and true are equal.
        max_cost: Greatest cost of calls of remote arms, if bounded.
        min_version: Version of the index that must be searched, or a later one; 0 for any.
    """

    filter: object | None = field(default=None, compare=False)
    collection: str = field(kw_only=True)
    max_cost: float | None = field(default=None, compare=False, kw_only=True)
    min_version: int = field(default=0, compare=False, kw_only=True)
    _filter_text: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # A filter that comes with a key differs from an equal one in a request.
        kind = "fixed " if isinstance(self.filter, Fixed) else ""
        text = "" if self.filter is None else kind + json.dumps(self.filter, sort_keys=True)
        object.__setattr__(self, "_filter_text", text)


@dataclass(frozen=True, slots=True)
class QueuedQuestion:
    """One question of one request; the id is for logs."""

    text: str
    request_id: str


Question = Entry[QueuedQuestion]
"""A question in the queue."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The answer to one question.

    Attributes:
        params: Its parameters; `params.route` is the requested route.
        entry: Its time in the queue and the size of its batch.
        reply: The gateway's reply.
        passages: Id -> passage, of every hit; with `explain`, also of each arm's first k.
        fallback: Why dense search answered instead of the requested route, or "".
        seconds: Seconds by stage, waiting first. Questions of a batch share its time equally.
        total: Seconds from queueing to the answer.
        remote: What remote arms did; None if the request wants none.
    """

    params: SearchParams
    entry: Question
    reply: Reply
    passages: Mapping[str, Passage]
    fallback: str
    seconds: Mapping[str, float]
    total: float = 0.0
    remote: RemoteOutcome | None = None

    @property
    def degraded(self) -> str:
        """Why this is not what was asked for, or ""."""
        remote = self.remote.degraded if self.remote else ""
        return self.fallback or remote or self.reply.ranking.degraded

    @property
    def degradation(self) -> str:
        """The kind of degradation: failed, late, arm or ""."""
        if not self.fallback:
            return "arm" if self.degraded else ""
        return "failed" if " failed (" in self.fallback else "late"


Results = list[SearchResult | Later | Exception]


@dataclass(frozen=True, slots=True)
class _Search:
    """How a batch is searched; `fallback` says why by dense instead of the requested route."""

    session: Session
    params: SearchParams
    fallback: str = ""

    @property
    def route(self) -> Route:
        """The route that answers."""
        return Route.DENSE if self.fallback else self.params.route


@dataclass(eq=False, slots=True)
class _Rest:
    """The questions of a batch that go in steps and are not answered yet; see `Later`.

    Attributes:
        seconds: Seconds spent on the batch so far.
        batch: Size of the batch.
        positions: Of each such question, the part of the batch it belongs to and its row there.
    """

    search: _Search
    seconds: float
    batch: int
    positions: dict[Question, tuple[BatchReplies, int]]


class Searcher:
    """Answers batches of questions; used by one thread at a time."""

    def __init__(
        self, collections: "Mapping[str, Collection]", clock: Callable[[], float] = monotonic
    ) -> None:
        self._collections = collections
        self._clock = clock
        self._paces: defaultdict[tuple[str, Route], _Pace] = defaultdict(_Pace)

    def work(self, params: SearchParams, entries: Sequence[Question]) -> Results:
        """Answer a batch, with one result or error for each entry, in order.

        Entries that would probably miss their deadline go first, and over the dense route. A batch
        uses one version of the index and of the thresholds. Questions that the router sends in
        steps are returned as `Later`.
        """
        search = _Search(self._collections[params.collection].session, params)
        urgent, reason = self._urgent(params, entries)
        others = [entry for entry in entries if entry not in urgent]
        results = self._search(replace(search, fallback=reason), urgent) if urgent else []
        results += self._search(search, others) if others else []
        result_by_entry = dict(zip([*urgent, *others], results, strict=True))
        return [result_by_entry[entry] for entry in entries]

    def begin(self, params: SearchParams, entries: Sequence[Question]) -> None:
        """Start to encode the questions of the next batch while this one is processed."""
        if params.route != Route.LEXICAL:
            # Errors are reported when the batch itself is processed.
            with suppress(Exception):
                session = self._collections[params.collection].session
                session.analyser.encode_ahead([entry.item.text for entry in entries])

    def _urgent(
        self, params: SearchParams, entries: Sequence[Question]
    ) -> tuple[list[Question], str]:
        """Entries for which the route is too slow at the moment, and a message that says so."""
        # Steps stop in time by themselves once fusion, their first step, is done.
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

    def _search(self, search: _Search, entries: Sequence[Question]) -> Results:
        """Search for some questions.

        One that fails does not affect the others, and is answered by dense search if possible.
        """
        params, limit = search.params, None
        if search.route == Route.STEPS:
            # Half of the time left, so that a step that is under way ends before the deadline.
            limit = 500 * max(min(entry.deadline for entry in entries) - self._clock(), 0.0)
        # A batch of the route `steps` is small enough to finish at once, and a question that is
        # alone delays no other.
        at_once = search.route != Route.AUTO or len(entries) == 1
        replies: dict[Question, Reply] = {}
        positions: dict[Question, tuple[BatchReplies, int]] = {}
        iterator, started = iter(entries), perf_counter()
        try:
            texts = [entry.item.text for entry in entries]
            ask = replace(params, route=search.route, step_ms=limit)
            for part in search.session.gateway.begin(texts, ask):
                batch = [*islice(iterator, len(part.replies) + len(part.in_steps))]
                in_steps = part.finish(part.in_steps) if at_once else {}
                replies |= {batch[n]: reply for n, reply in {**part.replies, **in_steps}.items()}
                if not at_once:
                    positions |= {batch[row]: (part, row) for row in part.in_steps}
            results: dict[Question, SearchResult | Later] = {**_results(search, replies)}
        except Exception as error:  # noqa: BLE001 - a fault in an arm must not end the thread
            return self._search_apart(search, entries, error)
        rest = _Rest(search, perf_counter() - started, len(entries), positions)
        self._learn(rest)
        finish = partial(self._finish, rest)
        for entry in positions:
            results[entry] = Later(finish, STEPS_WEIGHT * token_count(entry.item.text))
        return [results[entry] for entry in entries]

    def _finish(self, rest: _Rest, entries: Sequence[Question]) -> Results:
        """Answer some of the questions of a batch that go in steps."""
        started = perf_counter()
        entries_by_part: dict[BatchReplies, dict[int, Question]] = {}
        for entry in entries:
            part, row = rest.positions.pop(entry)
            entries_by_part.setdefault(part, {})[row] = entry
        try:
            replies: dict[Question, Reply] = {}
            for part, batch in entries_by_part.items():
                replies |= {batch[row]: reply for row, reply in part.finish([*batch]).items()}
            results = _results(rest.search, replies)
        except Exception as error:  # noqa: BLE001 - a fault in an arm must not end the thread
            return self._search_apart(rest.search, entries, error)
        rest.seconds += perf_counter() - started
        self._learn(rest)
        return [results[entry] for entry in entries]

    def _learn(self, rest: _Rest) -> None:
        """Learn how long a question takes, once the whole batch is answered."""
        if not rest.positions:
            pace = self._paces[rest.search.params.collection, rest.search.route]
            pace.learn(rest.seconds / rest.batch, self._clock())

    def _search_apart(
        self, search: _Search, entries: Sequence[Question], error: Exception
    ) -> Results:
        """Retry after an error: each half by itself, and a single question over dense."""
        is_request_fault = isinstance(error, FilterError | QuestionError)
        if not is_request_fault:
            extra = {
                "route": str(search.route),
                "collection": search.params.collection,
                "request_ids": [entry.item.request_id for entry in entries],
                "error": str(error),
            }
            # What an arm refuses in words, as clue does for a dataset, needs no traceback.
            is_refusal = isinstance(error, BackendError)
            LOG.error("arm failed", exc_info=None if is_refusal else error, extra=extra)
        if len(entries) > 1:
            half = len(entries) // 2
            return [*self._search(search, entries[:half]), *self._search(search, entries[half:])]
        if is_request_fault or search.route == Route.DENSE:
            return [error]
        fallback = f"degraded: {search.route} failed ({type(error).__name__}); dense instead"
        return self._search(replace(search, fallback=fallback), entries)


def _results(search: _Search, replies: Mapping[Question, Reply]) -> dict[Question, SearchResult]:
    """Add the passages to the replies, with `explain` also those of each arm's first hits."""
    started, params = perf_counter(), search.params
    hit_ids = {}
    for entry, reply in replies.items():
        arms = reply.arms.values() if params.explain else ()
        hits = chain(reply.ranking.hits, *(arm.hits[: params.k] for arm in arms))
        hit_ids[entry] = {hit.id for hit in hits}
    passages = search.session.snapshot.passages(sorted(set().union(*hit_ids.values())))
    fetching = (perf_counter() - started) / max(len(replies), 1)
    return {
        entry: SearchResult(
            params,
            entry,
            reply,
            {id_: passages[id_] for id_ in hit_ids[entry]},
            search.fallback,
            {"queue": max(0.0, entry.waited), **reply.seconds, "fetching": fetching},
        )
        for entry, reply in replies.items()
    }


@dataclass(slots=True)
class _Pace:
    """A decaying mean of the seconds that a question takes over one route, and when it changed."""

    mean: float = 0.0
    time: float = 0.0

    def learn(self, seconds: float, now: float) -> None:
        """Update the mean with the time of a question."""
        mean = self.seconds(now)
        self.mean = (1 - _NEWEST) * mean + _NEWEST * seconds if mean else seconds
        self.time = now

    def seconds(self, now: float) -> float:
        """Expected seconds of the next question."""
        return float(self.mean * 0.5 ** ((now - self.time) / _HALF_LIFE))
