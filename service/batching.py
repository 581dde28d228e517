"""Batching without a timer.

A question that arrives while nothing runs is processed at once, alone. Questions that arrive while
a batch runs wait, and those with equal keys form the next batch, so batches grow only under load.
The queue is bounded, and a question that could not be answered in time is refused on arrival.
Owners (API keys) take turns, so one that sends much delays only itself.

Source: the queue of Hugging Face's text-embeddings-inference.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from time import monotonic
from typing import Any, Generic, TypeVar

from wye.service.http.problems import Problem, closing

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")
Result = TypeVar("Result")
T = TypeVar("T")

# The time of an entry is estimated by the median of so many batches, and not before there are as
# many, so that one that was delayed, as the first of a server is, causes no refusals.
_RECENT_BATCHES = 5
# An entry is accepted if it is expected to wait at most this share of its time. The rest is a
# margin, so that accepted entries meet their deadlines.
_WAIT_SHARE = 0.6
# Half-life, in seconds, of the estimate of a route's speed; it decays so that a route that was
# skipped for being slow is tried again.
_HALF_LIFE = 10.0
_NEWEST = 0.3


@dataclass(eq=False, slots=True)
class Entry(Generic[Item]):
    """An item in the queue; times are `monotonic` seconds."""

    item: Item
    deadline: float  # when the result is no longer of use
    waited: float = 0.0  # seconds spent in the queue
    size: int = 0  # size of its batch; of the first one if it was in several
    key: Any = None  # entries with equal keys can share a batch
    owner: str = ""
    weight: int = 1
    since: float = field(default_factory=monotonic)  # when it was put into the queue, the last time
    future: "asyncio.Future[Any]" = field(init=False, repr=False)
    finish: "Callable[[Sequence[Entry[Any]]], Sequence[Any]] | None" = None
    cost: list[float] | None = None


@dataclass(frozen=True, slots=True)
class Later:
    """Returned instead of a result: the entry is queued again, ahead of its owner's others.

    `finish` processes it, together with others that have the same function.
    """

    finish: Callable[[Sequence[Entry[Any]]], Sequence[Any]]
    weight: int


# Processes a batch off the event loop, and returns a result or an error for each entry, in order.
Work = Callable[[Key, Sequence[Entry[Item]]], Sequence[Result | Later | Exception]]


@dataclass(eq=False)
class Batcher(Generic[Key, Item, Result]):
    """A bounded queue and one thread that processes batches of entries with equal keys.

    Attributes:
        weight: Greatest weight of a batch, which one entry may exceed.
        begin: Called in the thread before each batch with the entries that will probably make the
            next one. It must not raise.
    """

    work: Work[Key, Item, Result]
    batch: int = field(kw_only=True)  # most entries of a batch
    queue: int = field(kw_only=True)  # most entries that wait
    weight: int = field(kw_only=True)
    begin: Callable[[Key, Sequence[Entry[Item]]], None] | None = field(default=None, kw_only=True)
    _queue: deque[Entry[Item]] = field(default_factory=deque)
    _thread: ThreadPoolExecutor = field(default_factory=partial(ThreadPoolExecutor, 1, "wye-model"))
    _calling: asyncio.Lock = field(default_factory=asyncio.Lock)
    _runner: asyncio.Task[None] | None = None
    _closing: bool = False
    _running: int = 0
    # Seconds and entries of each recent batch; the seconds include what was left for `Later`.
    _recent: deque[list[float]] = field(default_factory=partial(deque, maxlen=_RECENT_BATCHES))
    _batches: int = 0
    _served: dict[str, int] = field(default_factory=dict)
    _since: float | None = None

    @property
    def depth(self) -> int:
        """How many entries wait."""
        return len(self._queue)

    @property
    def busy_seconds(self) -> float:
        """Seconds since the thread began its present work; 0 when it is idle."""
        since = self._since
        return 0.0 if since is None else monotonic() - since

    def expected_wait(self, owner: str = "") -> float:
        """Seconds until an entry that arrives now would be done, estimated from recent batches.

        It is done when its whole batch is; if more than a batch waits, that will be a full one.
        """
        counts = Counter(entry.owner for entry in self._queue)
        # Owners take turns: of each, at most as many go first as this owner has waiting, plus one.
        ahead = sum(min(count, counts[owner] + 1) for count in counts.values())
        if ahead >= self.batch:
            ahead = (ahead // self.batch + 1) * self.batch
        seconds_each = [seconds / entries for seconds, entries in self._recent]
        known = len(seconds_each) == _RECENT_BATCHES
        return (ahead + self._running) * (median(seconds_each) if known else 0.0)

    async def submit(
        self, key: Key, item: Item, seconds: float, *, owner: str = "", weight: int = 1
    ) -> tuple[Result, Entry[Item]]:
        """Queue an item and wait for its result; cancelling this takes it out of the queue.

        Returns the result and the entry, which says how long it waited. A `Problem` 503 if the
        queue is full, would take too long or is closing, 504 if time ran out.
        """
        self._admit(owner, seconds)
        entry = Entry(item, monotonic() + seconds, key=key, owner=owner, weight=weight)
        entry.future = asyncio.get_running_loop().create_future()
        self._queue.append(entry)
        if self._runner is None or self._runner.done():
            self._runner = asyncio.create_task(self._run(), name="wye-batches")
        async with self._deadline(owner, seconds):
            return await entry.future, entry

    @asynccontextmanager
    async def _deadline(self, owner: str, seconds: float | None) -> AsyncIterator[None]:
        """Raise a `Problem` 504 if the block takes longer."""
        try:
            async with asyncio.timeout(seconds) as timer:
                yield
        except TimeoutError:
            if not timer.expired():  # it is the work's own
                raise
            raise Problem(
                504,
                "deadline",
                f"No passages were found within {1000 * (seconds or 0):.0f} ms. Give more time "
                "with deadline_ms, or use a cheaper route such as dense.",
                retry_after=self.expected_wait(owner),
            ) from None

    async def call(self, function: Callable[[], T], seconds: float | None = None) -> T:
        """Run a function in the thread, one between batches; a `Problem` 504 if it is late."""
        loop = asyncio.get_running_loop()
        async with self._deadline("", seconds), self._calling:
            return await loop.run_in_executor(self._thread, self._timed, function)

    async def close(self) -> None:
        """Accept nothing more, finish what was accepted, and end the thread."""
        self._closing = True
        if self._runner is not None:
            await asyncio.wait([self._runner])
        self._thread.shutdown()

    def _timed(self, function: Callable[[], T]) -> T:
        """Run a function and let `busy_seconds` see since when; in the thread."""
        self._since = monotonic()
        try:
            return function()
        finally:
            self._since = None

    def _admit(self, owner: str, seconds: float) -> None:
        """Refuse an entry that could not be processed in time."""
        if self._closing:
            raise closing()
        wait = self.expected_wait(owner)
        if len(self._queue) >= self.queue:
            self._make_room(owner)
        if wait > _WAIT_SHARE * seconds:
            raise Problem(
                503,
                "overloaded",
                f"The waiting questions take about {wait:.1f} s, but this one has {seconds:.1f} s. "
                "Try again after the seconds in Retry-After.",
                retry_after=wait - _WAIT_SHARE * seconds,
            )

    def _make_room(self, owner: str) -> None:
        """Refuse (503) the newest entry of the busiest owner, which may be the arriving one."""
        counts = Counter(entry.owner for entry in self._queue)
        busiest, count = counts.most_common(1)[0]
        full = Problem(
            503,
            "overloaded",
            f"{len(self._queue)} questions are waiting, which is the limit. Try again after the "
            "seconds in Retry-After, or start more servers.",
            retry_after=self.expected_wait(busiest),
        )
        if count <= counts[owner] + 1:
            raise full
        newest = next(entry for entry in reversed(self._queue) if entry.owner == busiest)
        self._queue.remove(newest)
        if not newest.future.done():
            newest.future.set_exception(full)

    async def _run(self) -> None:
        """Process batches until the queue is empty."""
        loop = asyncio.get_running_loop()
        while batch := self._next():
            first = batch[0]
            self._batches += 1
            self._served |= dict.fromkeys((entry.owner for entry in batch), self._batches)
            members = set(map(id, batch))
            self._queue = deque(entry for entry in self._queue if id(entry) not in members)
            started = monotonic()
            for entry in batch:
                entry.waited += started - entry.since
                entry.size = entry.size or len(batch)
            self._running = len(batch)
            following = self._next() if self.begin is not None else []
            if self.begin is not None and following and following[0].finish is None:
                loop.run_in_executor(self._thread, self.begin, following[0].key, following)
            work = first.finish or partial(self.work, first.key)
            results: Sequence[Result | Later | Exception]
            try:
                results = await loop.run_in_executor(
                    self._thread, self._timed, partial(work, batch)
                )
            except Exception as error:  # noqa: BLE001 - passed on to those who wait
                results = [error] * len(batch)
            self._running = 0
            if first.cost is None:
                first.cost = [0.0, len(batch)]
                self._recent.append(first.cost)
            now = monotonic()
            first.cost[0] += now - started
            later = []
            for entry, result in zip(batch, results, strict=True):
                if entry.future.done():  # cancelled meanwhile
                    continue
                if isinstance(result, Exception):
                    entry.future.set_exception(result)
                elif isinstance(result, Later):
                    entry.finish, entry.weight = result.finish, result.weight
                    entry.since, entry.cost = now, first.cost
                    later.append(entry)
                else:
                    entry.future.set_result(result)
            self._queue.extendleft(reversed(later))

    def _next(self) -> list[Entry[Item]]:
        """The next batch: the entry whose turn it is and others with its key.

        Turns go first to the oldest entry of each owner, in the order in which owners were served
        longest ago; then to the second of each, and so on. Abandoned entries are dropped.
        """
        now = monotonic()
        alive = [e for e in self._queue if not e.future.done() and e.deadline > now]
        self._queue = deque(alive)
        if not alive:
            return []
        counts: Counter[str] = Counter()
        turns = []
        for entry in alive:
            turns.append((counts[entry.owner], self._served.get(entry.owner, 0), entry))
            counts[entry.owner] += 1
        turns.sort(key=lambda turn: turn[:2])  # stable, so ties go by arrival
        first = turns[0][2]
        batch: list[Entry[Item]] = []
        room = self.weight
        for _, _, entry in turns:
            fits = entry.weight <= room or not batch
            is_alike = entry.key == first.key and entry.finish == first.finish
            if is_alike and fits and len(batch) < self.batch:
                batch.append(entry)
                room -= entry.weight
        return batch


@dataclass(slots=True)
class Pace:
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


@dataclass(slots=True)
class Room:
    """A limit on how much of something may be under way at once; more is refused, with `full`."""

    free: int
    full: str
    retry_after: float

    @contextmanager
    def reserve(self, amount: int = 1) -> Iterator[None]:
        """Take an amount for the time of the context, or raise a `Problem` 503 if less is left."""
        if amount > self.free:
            raise Problem(503, "overloaded", self.full, retry_after=self.retry_after)
        self.free -= amount
        try:
            yield
        finally:
            self.free += amount


async def unless_gone(departure: Awaitable[object], work: Awaitable[Result]) -> Result:
    """Wait for work; a `Problem` 499, and it is cancelled, if `departure` ends before it."""
    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(departure)
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise Problem(499, "gone", "The client went away before there was an answer.")
    finally:
        working.cancel()
        leaving.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)
