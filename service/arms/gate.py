"""Decides whether a question takes remote arms, by what a key may spend, and merges their lists."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar, cast

from wye.backends.types import Passage
from wye.router.remote import RemoteList, fuse_remote, remote_ranking
from wye.router.types import Reply, Route
from wye.service.arms.arm import ArmCall, RemoteArm, RemoteOutcome, usable
from wye.service.batching import Batcher, Entry
from wye.service.collections import Collection, QueuedQuestion, SearchParams, SearchResult
from wye.service.errors import ServiceError
from wye.service.http.edge import Key
from wye.service.http.problems import Problem
from wye.service.logs import LOG
from wye.service.settings import ServiceSettings

T = TypeVar("T")

SUFFIX = ".spent"  # suffix of the default file of what keys spend, beside the arms file
_PATIENCE_SECONDS = 0.5  # to wait for another process that writes
_EXACT = 9  # decimals that sums of prices are rounded to
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS spent (key TEXT, day TEXT, amount REAL, PRIMARY KEY (key, day))"
)
_AMOUNT = "SELECT COALESCE(SUM(amount), 0.0) FROM spent WHERE key = ? AND day = ?"
_ADD = (
    "INSERT INTO spent VALUES (?, ?, ?) "
    "ON CONFLICT (key, day) DO UPDATE SET amount = amount + excluded.amount"
)
COSTLY = frozenset({Route.FUSION, Route.GRAPH, Route.STEPS})  # routes that take remote arms
PER_DAY = "max_cost_per_day"
_SHALLOWEST = 20
_GRAPH_SHARE = 0.7

Submit = Callable[[SearchParams, QueuedQuestion, float], Awaitable[SearchResult]]
"""Searches our arms for a question within so many seconds."""


class Ledger:
    """Sums spent by key and day (UTC), in a file that processes share; for any thread.

    An amount is on the disk before it is spent, so even if a process crashes, no more is spent than
    a day's limit. Every method but `check` raises an `sqlite3.Error` if the file fails.
    """

    def __init__(self, path: Path, day: Callable[[], date] | None = None) -> None:
        self.path = path
        self._day = day or (lambda: datetime.now(UTC).date())

    def check(self) -> None:
        """Raise a `ServiceError` if the file cannot be written."""
        try:
            self.spent("")
        except sqlite3.Error as error:
            raise ServiceError(
                f"{self.path}, which records what API keys spend in a day, cannot be written "
                f"({error}). Name another file with WYE_SERVE__SPENT_FILE."
            ) from None

    def spent(self, key: str) -> float:
        """Amount that a key has spent today."""
        with self._database() as database:
            return float(database.execute(_AMOUNT, (key, str(self._day()))).fetchone()[0])

    def take(self, key: str, amount: float, limit: float) -> tuple[float, date]:
        """Record an amount, or what remains of the day's `limit`, as spent; with the day."""
        with self._database() as database:
            database.execute("BEGIN IMMEDIATE")
            day = self._day()
            (spent,) = database.execute(_AMOUNT, (key, str(day))).fetchone()
            advance = max(0.0, min(amount, round(limit - spent, _EXACT)))
            database.execute("DELETE FROM spent WHERE day < ?", (str(day),))
            database.execute(_ADD, (key, str(day), advance))
        return advance, day

    def give_back(self, key: str, amount: float, day: date) -> None:
        """Return an amount that was taken but not spent; it is negative if more was spent."""
        with self._database() as database:
            database.execute(_ADD, (key, str(day), -amount))

    @contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        database = sqlite3.connect(self.path, timeout=_PATIENCE_SECONDS, isolation_level=None)
        with closing(database), database:
            database.execute("PRAGMA synchronous = FULL")
            database.execute(_SCHEMA)
            yield database


def open_ledger(settings: ServiceSettings, keys: Iterable[Key]) -> Ledger | None:
    """The ledger; None without arms. A `ServiceError` if a key has a limit that it cannot keep."""
    if settings.arms is None:
        return None
    ledger = Ledger(settings.serve.spent_file or settings.arms.with_suffix(SUFFIX))
    limits = (settings.serve.max_cost_per_day, *(key.max_cost_per_day for key in keys))
    if any(limit is not None for limit in limits):
        ledger.check()
    return ledger


@dataclass(frozen=True, slots=True)
class Budget:
    """One key's daily budget; if the ledger's file fails, nothing is left, and the log says why."""

    ledger: Ledger
    key: str
    limit: float

    async def remaining(self) -> float:
        """Amount that may still be spent today."""
        spent = await self._logged(lambda: self.ledger.spent(self.key))
        return 0.0 if spent is None else max(0.0, round(self.limit - spent, _EXACT))

    async def take(self, amount: float) -> tuple[float, date]:
        """Record an amount, or what remains, as spent before it is; returns that and its day.

        If the calls are cut off, their cost is unknown; then it stays spent.
        """
        advance = await self._logged(lambda: self.ledger.take(self.key, amount, self.limit))
        return advance or (0.0, date.min)

    async def settle(self, advance: tuple[float, date], spent: float) -> None:
        """Return what `take` recorded but the calls did not cost."""
        amount, day = advance
        if spent != amount:
            await self._logged(lambda: self.ledger.give_back(self.key, amount - spent, day))

    async def _logged(self, use: Callable[[], T]) -> T | None:
        """Use the file in another thread; if it fails, log that and return None."""
        try:
            return await asyncio.to_thread(use)
        except sqlite3.Error as error:
            extra = {"file": str(self.ledger.path), "error": str(error)}
            LOG.error("spent file not usable", extra=extra)
            return None


@dataclass(slots=True)
class _Query:
    """A question in progress, with its limits."""

    params: SearchParams
    item: QueuedQuestion
    seconds: float  # time that the answer may take from `started`, in `monotonic` seconds
    budget: Budget | None
    version: int
    started: float = field(default_factory=monotonic)
    limits: dict[str, float] = field(default_factory=dict)  # what may be spent, by its name

    @property
    def remaining(self) -> float:
        """Seconds until it must be answered."""
        return self.started + self.seconds - monotonic()

    async def refusals(self, arms: Sequence[RemoteArm]) -> dict[str, ArmCall]:
        """The arms that may not be called, each with the outcome that says why."""
        if self.params.min_relevance > 0:
            reason = "relevance: that of its passages is unknown, and min_relevance is given"
            return {arm.name: arm.skipped(reason, "budget") for arm in arms}
        if self.params.max_cost is not None:
            self.limits["max_cost"] = self.params.max_cost
        if self.budget is not None and any(arm.config.price for arm in arms):
            self.limits[PER_DAY] = await self.budget.remaining()
        return {arm.name: call for arm in arms if (call := arm.refused(self.limits))}

    async def ask(self, arms: Sequence[RemoteArm], *, is_fused: bool = True) -> dict[str, ArmCall]:
        """Ask those arms side by side whose price the limits allow, for deeper lists if fused."""
        price = sum(arm.config.price for arm in arms)
        advance = await self.budget.take(price) if self.budget is not None and price else None
        if advance is not None:
            self.limits[PER_DAY] = advance[0]
        params, seconds = self.params, self.started + usable(self.seconds) - monotonic()
        skipped, searches = {}, []
        for arm in arms:
            call = arm.refused(self.limits)
            if call is None and seconds <= 0:
                call = arm.skipped("was not asked: no time was left", "budget")
            if call is not None:
                skipped[arm.name] = call
                continue
            self.limits = {name: left - arm.config.price for name, left in self.limits.items()}
            depth = max(params.k, arm.config.depth) if is_fused else params.k
            searches.append(arm.search(self.item.text, depth, params.filter, seconds))
        calls = {call.name: call for call in await asyncio.gather(*searches)}
        if self.budget is not None and advance is not None:
            await self.budget.settle(advance, sum(call.spent for call in calls.values()))
        return {arm.name: calls.get(arm.name) or skipped[arm.name] for arm in arms}


@dataclass(frozen=True, slots=True)
class Gate:
    """The remote arms of a collection; `by_scores` says whether our fusion adds up scores."""

    collection: Collection
    arms: Sequence[RemoteArm]
    submit: Submit
    models: Batcher[Any, Any, Any]
    by_scores: bool

    def __post_init__(self) -> None:
        for arm in self.arms:
            arm.config.use(self._encode)

    async def _encode(self, question: str) -> Sequence[float]:
        analyser = self.collection.session.analyser
        vector = await self.models.call(lambda: analyser.encode_questions([question])[0])
        return cast("Sequence[float]", vector.tolist())

    def suitable(self, params: SearchParams) -> list[RemoteArm]:
        """The arms that may be taken; a `FilterError` if one of them cannot apply the filter."""
        arms = [arm for arm in self.arms if arm.suits(params.route)]
        for arm in arms if params.filter is not None else ():
            arm.check_filter()
        return arms

    async def search(
        self, params: SearchParams, item: QueuedQuestion, seconds: float, budget: Budget | None
    ) -> SearchResult:
        """Answer a question within so many seconds, with our arms and the remote arms of its route.

        The relevance of remote passages is unknown, so no arm is called if `min_relevance` is set.
        A `Problem` if our arms did not answer, a `FilterError` if an arm cannot apply the filter.
        """
        arms = self.suitable(params)
        query = _Query(params, item, seconds, budget, self.collection.session.version)
        skipped = await query.refusals(arms)
        if callable_arms := [arm for arm in arms if arm.name not in skipped]:
            result, remote = await self._search(callable_arms, query)
        else:
            result, remote = await self.submit(params, item, seconds), RemoteOutcome()
        if _is_costly(params.route, result):
            remote = replace(remote, calls={**skipped, **remote.calls})
        reply, k = result.reply, params.k
        ranking = replace(reply.ranking, hits=reply.ranking.hits[:k])
        reply = replace(reply, ranking=ranking, relevance=reply.relevance[:k])
        total = monotonic() - query.started
        return replace(result, params=params, reply=reply, remote=remote, total=total)

    async def _find(self, query: _Query, share: float = 1.0, **changes: Any) -> SearchResult:  # noqa: ANN401
        """Search our arms for a question, within a share of the time that is left."""
        params = replace(query.params, **changes)
        return await self.submit(params, query.item, share * query.remaining)

    async def _search(
        self, arms: Sequence[RemoteArm], query: _Query
    ) -> tuple[SearchResult, RemoteOutcome]:
        """Answer with arms that may be called, and say what their calls took."""
        route, depth = query.params.route, max(query.params.k, _SHALLOWEST)
        if route == Route.GRAPH:  # only the arm that replaces the graph
            calls = await query.ask(arms, is_fused=False)
            (call,) = calls.values()
            if not call.reason:
                return _list_as_answer(arms[0], call, query), RemoteOutcome(calls)
            return await self._find(query, route=Route.FUSION), RemoteOutcome(calls)
        replaces_graph = any(arm.takes_graph for arm in arms)
        if route == Route.AUTO:
            result = await self._find(query, k=depth, text_only=replaces_graph)
            if not _is_costly(route, result):
                # Without a decision something failed, so nothing was saved by choice.
                saved = {arm.name: arm.config.price for arm in arms if result.reply.decision}
                return result, RemoteOutcome(saved_by=saved)
            calls = await query.ask(arms)
        else:
            theirs = asyncio.ensure_future(query.ask(arms))
            try:
                ours = Route.HYBRID if replaces_graph else route
                result, calls = await self._find(query, k=depth, route=ours), await theirs
            finally:
                theirs.cancel()
        successful = [arm for arm in arms if not calls[arm.name].reason]
        if replaces_graph and not any(arm.takes_graph for arm in successful):
            result = await self._with_our_graph(result, query)
        merged = self._merge(successful, result, calls, query.params.k) if successful else result
        return merged, RemoteOutcome(calls)

    def _merge(
        self, arms: Sequence[RemoteArm], result: SearchResult, calls: Mapping[str, ArmCall], k: int
    ) -> SearchResult:
        """Fuse our ranking with the lists of the arms that answered."""
        lists: list[RemoteList] = []
        passages: dict[str, Passage] = {}
        for arm in arms:
            remote_list, texts = _ranking_of(arm, calls[arm.name])
            lists.append(remote_list)
            passages |= texts
        ranking = fuse_remote(result.reply.ranking, lists, k, by_scores=self.by_scores)
        reply = replace(
            result.reply,
            route=Route.FUSION,
            ranking=ranking,
            arms={**result.reply.arms, **{one.ranking.retriever: one.ranking for one in lists}},
            relevance=(),
            answerability=None,
        )
        seconds = {**result.seconds, **{name: call.seconds for name, call in calls.items()}}
        # Passages that are also in our index are shown as they are there.
        passages |= result.passages
        return replace(result, reply=reply, passages=passages, seconds=seconds)

    async def _with_our_graph(self, result: SearchResult, query: _Query) -> SearchResult:
        """Our fusion with the graph; the present answer if there is no time for that."""
        try:
            # Leave time to send the present answer if this takes too long.
            fused = await self._find(query, _GRAPH_SHARE, route=Route.FUSION, k=result.params.k)
        except Problem:
            return result
        return replace(fused, reply=replace(fused.reply, decision=result.reply.decision))


def _ranking_of(arm: RemoteArm, call: ArmCall) -> tuple[RemoteList, dict[str, Passage]]:
    """The list of an arm and its passages, by ids that are unique in the answer."""
    ranking = remote_ranking(arm.name, arm.prefix, call.hits, call.note)
    passages = {
        hit.id: Passage(hit.id, each.title, each.text, each.metadata)
        for hit, each in zip(ranking.hits, call.hits, strict=True)
    }
    return RemoteList(ranking, arm.config.scores, arm.config.weight), passages


def _list_as_answer(arm: RemoteArm, call: ArmCall, query: _Query) -> SearchResult:
    """The answer that is the list alone of the arm that replaces the graph."""
    remote_list, passages = _ranking_of(arm, call)
    ranking = remote_list.ranking
    entry = Entry(query.item, query.started + query.seconds, size=1)
    reply = Reply(query.item.text, Route.GRAPH, ranking, {arm.name: ranking}, {}, query.version)
    return SearchResult(query.params, entry, reply, passages, "", {arm.name: call.seconds})


def _is_costly(route: Route, result: SearchResult) -> bool:
    """Whether a question took, or was to take, a route with remote arms."""
    decision = result.reply.decision
    if decision is None:
        return route in COSTLY
    # Without a score nothing was found here, but a remote arm may have something.
    return decision.route in COSTLY or decision.score is None
