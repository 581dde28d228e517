"""Collections: how one is opened, follows its newest version, and answers batches of questions."""

import ctypes
import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import chain, islice
from multiprocessing.process import BaseProcess
from time import monotonic, perf_counter
from typing import TypeVar

import pyarrow as pa

from wye.backends.errors import BackendError, FilterError
from wye.backends.filters import Fixed
from wye.backends.types import Passage
from wye.featurizer.analyser import token_count
from wye.featurizer.errors import FeaturizerError
from wye.router.errors import QuestionError, RouterError
from wye.router.gateway import BatchReplies
from wye.router.session import Session
from wye.router.snapshot import start_deriving
from wye.router.types import USUAL, Ask, Reply, Route
from wye.service.arms.arm import RemoteOutcome
from wye.service.batching import Entry, Later, Pace
from wye.service.errors import ServiceError
from wye.service.http.problems import Problem, reason_of
from wye.service.logs import LOG

T = TypeVar("T")

STEPS_WEIGHT = 3  # weight of a token on the route `steps`: fewer such questions fit into a batch


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


Queued = Entry[QueuedQuestion]  # a question in the queue


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The answer to one question."""

    params: SearchParams  # its parameters; `params.route` is the requested route
    entry: Queued  # its time in the queue and the size of its batch
    reply: Reply  # the gateway's reply
    passages: Mapping[str, Passage]  # of every hit; with `explain`, also of each arm's first k
    fallback: str  # why dense search answered instead of the requested route, or ""
    seconds: Mapping[str, float]  # by stage, waiting first; shared equally by a batch
    total: float = 0.0  # seconds from queueing to the answer
    remote: RemoteOutcome | None = None  # what remote arms did; None if the request wants none

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


BatchResults = list[SearchResult | Later | Exception]


@dataclass(eq=False, slots=True)
class _Search:
    """How a batch is searched, and which of its questions go in steps later; see `Later`.

    Attributes:
        rest: Of each question that is not answered yet, its part of the batch and its row there.
    """

    session: Session
    params: SearchParams
    fallback: str = ""  # why by dense instead of the requested route, or ""
    seconds: float = 0.0  # seconds spent on the batch so far
    size: int = 0  # size of the batch
    rest: dict[Queued, tuple[BatchReplies, int]] = field(default_factory=dict)

    @property
    def route(self) -> Route:
        """The route that answers."""
        return Route.DENSE if self.fallback else self.params.route


WARM_UP = "Who built the bridge between the two towns, and when was it opened?"
SUBJECTS = INDEX, THRESHOLDS, BASE = "index", "thresholds", "base"  # what can be at fault


@dataclass(eq=False)
class Collection:
    """A named index, with the version of it that is searched now; it follows the newest one.

    A replaced session is freed with the last batch that holds it. `load`, `work` and `begin` run in
    the thread of the models, `renew` in another one.

    Attributes:
        faults: Errors of `INDEX`, of `THRESHOLDS` and of `BASE`; "" for none.
        read_fault: Why the version that is searched can no longer be read; "" while it can.
    """

    name: str
    opener: Callable[[], Session]
    clock: Callable[[], float] = monotonic
    faults: dict[str, str] = field(default_factory=lambda: dict.fromkeys(SUBJECTS, ""))
    read_fault: str = ""
    unavailable: dict[Route, str] = field(default_factory=dict)  # routes that it lacks, and why
    _session: Session | None = None
    _deriving: BaseProcess | None = None
    _changed_at: float = field(default_factory=monotonic)  # when the version last changed
    _changes: int = 0  # of the base, when `_deriving` was started
    _paces: defaultdict[Route, Pace] = field(default_factory=lambda: defaultdict(Pace))

    @property
    def is_ready(self) -> bool:
        """Whether it is loaded."""
        return self._session is not None

    def require_ready(self) -> None:
        """Refuse (503) questions while it is not loaded, or its files can no longer be read."""
        _ = self.session
        if self.read_fault:
            raise Problem(503, "unavailable", reason_of(self.read_fault), retry_after=10)

    def require_route(self, route: Route) -> None:
        """Refuse (409) a route that the installation lacks."""
        if reason := self.unavailable.get(route):
            sentence = f"Route '{route}' is not available in '{self.name}': {reason_of(reason)}"
            raise Problem(409, "no-such-route", sentence)

    @property
    def session(self) -> Session:
        """The session that answers now; hold it for a batch. `Problem` 503 before it is loaded."""
        if self._session is None:
            why = f" ({self.error})" if self.error else ""
            sentence = f"Collection '{self.name}' is not loaded yet{why}. /ready says when it is."
            raise Problem(503, "loading", sentence, retry_after=1)
        return self._session

    @property
    def error(self) -> str:
        """All present faults in one text for readers; the log has their paths. "" for none."""
        faults = " ".join(filter(None, dict.fromkeys((self.read_fault, *self.faults.values()))))
        return faults and reason_of(faults)

    def facts(self) -> dict[str, object]:
        """Name, version, passages, router, thresholds and faults, as plain values."""
        session = self._session
        facts: dict[str, object] = {"collection": self.name, "ready": self.is_ready}
        if session is not None:
            facts |= {"index_version": session.version, "passages": session.count}
            if session.index.fault:
                facts["note"] = reason_of(session.index.fault)
            if session.policy is not None:
                thresholds = asdict(session.policy.thresholds)
                facts |= {"router": session.router_name, "thresholds": thresholds}
        if self.error:
            facts["error"] = self.error
        return facts

    def load(self) -> None:
        """Open the index and warm it up with one question over each route.

        A route that the installation lacks, such as for want of a router model, is noted in
        `unavailable` with the reason. Any other failure is kept in `error` and raised.
        """
        started = perf_counter()
        try:
            import scipy.sparse  # noqa: F401, PLC0415 - takes .1 s, of which the first write would wait

            session = self.opener()
            session.build()
            for route in USUAL:
                self._warm_up(session, route)
            # What was deleted meanwhile is in no reply.
            newer = self._attempt(INDEX, lambda: _build(session.reload()))
            session = newer or session
        except Exception as error:
            self.faults[INDEX] = str(error)
            raise
        self._session = session
        release_memory()
        self.faults[INDEX] = ""
        LOG.info("loaded", extra={**self.facts(), "seconds": round(perf_counter() - started, 3)})
        if fault := session.index.fault:
            LOG.error("index damaged", extra={"collection": self.name, "error": fault})

    def renew(self) -> bool:
        """Move to the newest thresholds and version, if there are any; returns whether there were.

        If either cannot be used, the error is logged, the present one stays, and the other is
        tried.
        """
        if self._session is None:
            return False
        has_thresholds = self._move(THRESHOLDS, self._session.reload_thresholds)
        if has_thresholds:  # they may be the first that can be used
            self.unavailable.pop(Route.AUTO, None)
        has_version = self._move(INDEX, self._session.reload)
        self._derive(self._session)
        self._check_files(self._session)
        return has_version or has_thresholds

    def close(self) -> None:
        """End the derivation, if one runs, and close the session."""
        if self._deriving is not None:
            self._deriving.kill()
            self._deriving.join()
        if self._session is not None:
            self._session.close()

    def _derive(self, session: Session) -> None:
        """Start to derive a newer base if the present one was outgrown, or after a quiet time."""
        if self._deriving is not None and self._deriving.is_alive():
            return
        changes = session.snapshot.due(monotonic() - self._changed_at)
        # A base that could not be kept is tried again once twice as many passages are on top.
        if changes > 2 * self._changes:
            process = self._attempt(BASE, lambda: _start_deriving(session))
            if process is not None:
                self._changes, self._deriving = changes, process
        elif not changes:
            self._changes, self.faults[BASE] = 0, ""

    def _check_files(self, session: Session) -> None:
        """Update `read_fault`: whether the texts of passages can still be read."""
        try:
            session.index.check_files()
            fault = ""
        except BackendError as error:
            fault = f"The index of '{self.name}' can no longer be read. {error}"
        if fault != self.read_fault:
            LOG.error(fault) if fault else LOG.info("readable again", extra=self.facts())
        self.read_fault = fault

    def _move(self, subject: str, reload: Callable[[], Session | None]) -> bool:
        """Switch to a newer session, if `reload` returns one; `subject` as in `_attempt`."""
        started = perf_counter()
        session = self._attempt(subject, lambda: _build(reload()))
        if session is None:
            return False
        self._session = session
        self._changed_at = monotonic() if subject == INDEX else self._changed_at
        release_memory()
        seconds = round(perf_counter() - started, 3)
        LOG.info("refreshed", extra={**self.facts(), "of": subject, "seconds": seconds})
        return True

    def _warm_up(self, session: Session, route: Route) -> None:
        try:
            session.gateway.search([WARM_UP], Ask(route, 1))
        except (RouterError, FeaturizerError) as error:
            # Only steps and some routers need trees; every other model is needed by all routes.
            if route not in (Route.AUTO, Route.STEPS) and isinstance(error, FeaturizerError):
                raise  # a model is missing that every route needs
            self.unavailable[route] = str(error)
            extra = {"collection": self.name, "route": str(route), "error": str(error)}
            LOG.warning("route unavailable", extra=extra)

    def _attempt(self, subject: str, function: Callable[[], T]) -> T | None:
        """The result of a function; None after an error, which is logged and put in `faults`."""
        try:
            result = function()
        except Exception as error:  # noqa: BLE001 - the present one stays in use
            if str(error) != self.faults[subject]:
                extra = {"collection": self.name, "of": subject, "error": str(error)}
                LOG.error("refresh failed", extra=extra)
            self.faults[subject] = str(error)
            return None
        self.faults[subject] = ""
        return result

    def work(self, params: SearchParams, entries: Sequence[Queued]) -> BatchResults:
        """Answer a batch, with one result or error for each entry, in order.

        Entries that would probably miss their deadline go first, and over the dense route. A batch
        uses one version of the index and of the thresholds. Questions that the router sends in
        steps are returned as `Later`.
        """
        search = _Search(self.session, params)
        urgent, reason = self._urgent(params, entries)
        others = [entry for entry in entries if entry not in urgent]
        results = self._search(replace(search, fallback=reason), urgent) if urgent else []
        results += self._search(search, others) if others else []
        result_by_entry = dict(zip([*urgent, *others], results, strict=True))
        return [result_by_entry[entry] for entry in entries]

    def begin(self, params: SearchParams, entries: Sequence[Queued]) -> None:
        """Start to encode the questions of the next batch while this one is processed."""
        if params.route != Route.LEXICAL:
            # Errors are reported when the batch itself is processed.
            with suppress(Exception):
                self.session.analyser.encode_ahead([entry.item.text for entry in entries])

    def _urgent(self, params: SearchParams, entries: Sequence[Queued]) -> tuple[list[Queued], str]:
        """Entries for which the route is too slow at the moment, and a message that says so."""
        # Steps stop in time by themselves once fusion, their first step, is done.
        needed = Route.FUSION if params.route == Route.STEPS else params.route
        pace = self._paces.get(needed)
        if pace is None or params.route == Route.DENSE:
            return [], ""
        now = self.clock()
        expected = pace.seconds(now) * len(entries)
        return [entry for entry in entries if entry.deadline - now < expected], (
            f"degraded: {needed} takes about {1000 * expected:.0f} ms at the moment, more "
            "than the deadline leaves; dense instead"
        )

    def _search(self, search: _Search, entries: Sequence[Queued]) -> BatchResults:
        """Search for some questions; one that fails is answered by dense search, if possible."""
        params, limit = search.params, None
        if search.route == Route.STEPS:
            # Half of the time left, so that a step that is under way ends before the deadline.
            limit = 500 * max(min(entry.deadline for entry in entries) - self.clock(), 0.0)
        # A batch of the route `steps` is small enough to finish at once, and a question that is
        # alone delays no other.
        at_once = search.route != Route.AUTO or len(entries) == 1
        replies: dict[Queued, Reply] = {}
        positions: dict[Queued, tuple[BatchReplies, int]] = {}
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
            results: dict[Queued, SearchResult | Later] = {**_results(search, replies)}
        except Exception as error:  # noqa: BLE001 - a fault in an arm must not end the thread
            return self._search_apart(search, entries, error)
        seconds = perf_counter() - started
        search = replace(search, seconds=seconds, size=len(entries), rest=positions)
        self._learn(search)
        finish = partial(self._finish, search)
        for entry in positions:
            results[entry] = Later(finish, STEPS_WEIGHT * token_count(entry.item.text))
        return [results[entry] for entry in entries]

    def _finish(self, search: _Search, entries: Sequence[Queued]) -> BatchResults:
        """Answer some of the questions of a batch that go in steps."""
        started = perf_counter()
        entries_by_part: dict[BatchReplies, dict[int, Queued]] = {}
        for entry in entries:
            part, row = search.rest.pop(entry)
            entries_by_part.setdefault(part, {})[row] = entry
        try:
            replies: dict[Queued, Reply] = {}
            for part, batch in entries_by_part.items():
                replies |= {batch[row]: reply for row, reply in part.finish([*batch]).items()}
            results = _results(search, replies)
        except Exception as error:  # noqa: BLE001 - a fault in an arm must not end the thread
            return self._search_apart(search, entries, error)
        search.seconds += perf_counter() - started
        self._learn(search)
        return [results[entry] for entry in entries]

    def _learn(self, search: _Search) -> None:
        """Learn how long a question takes, once the whole batch is answered."""
        if not search.rest:
            self._paces[search.route].learn(search.seconds / search.size, self.clock())

    def _search_apart(
        self, search: _Search, entries: Sequence[Queued], error: Exception
    ) -> BatchResults:
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


def _build(session: Session | None) -> Session | None:
    if session is not None:
        session.build()
    return session


def _start_deriving(session: Session) -> BaseProcess:
    try:
        return start_deriving(session.folder, session.settings)
    except OSError as error:
        raise ServiceError(
            f"The index has outgrown its base, and no process can be started to make a later one "
            f"({error}). Raise this server's limits of processes, memory or open files."
        ) from None


def release_memory() -> None:
    """Return freed memory to the system: a third of what opening an index allocates."""
    pa.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it
    if trim is not None:
        trim(0)


def _results(search: _Search, replies: Mapping[Queued, Reply]) -> dict[Queued, SearchResult]:
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
