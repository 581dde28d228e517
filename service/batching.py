"""Batching without a timer.

A question that arrives while nothing runs is worked on at once, alone. While one batch runs, others
wait, and all of them that can go together go as the next batch: batches grow only when it is busy.
The queue is bounded, and what could not be done in time is refused when it arrives.

Source: the queue of Hugging Face's text-embeddings-inference.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from statistics import median
from time import monotonic
from typing import Generic, TypeVar

from service.http.problems import Problem

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")
Result = TypeVar("Result")
T = TypeVar("T")

# Batches whose median says how long an entry takes; one that was held up by something else, such as
# a busy machine, does not make it refuse what could be done.
_LATELY = 5
# Share of its time that an entry may be expected to wait; the rest is for what nobody expects, so
# that what is accepted keeps its deadline.
_SURE = 0.6


@dataclass(eq=False, slots=True)
class Entry(Generic[Item]):
    """Something to be worked on; times are `monotonic` seconds.

    Attributes:
        deadline: When its result is of no more use.
        entered: When it was queued.
        started: When its batch began.
        size: How many were in its batch.
    """

    item: Item
    deadline: float
    entered: float
    started: float = 0.0
    size: int = 0


# Works on one batch, off the event loop: a result or an error for each entry, in order.
Work = Callable[[Key, Sequence[Entry[Item]]], Sequence[Result | Exception]]


@dataclass(eq=False, slots=True)
class _Waiting(Generic[Key, Item, Result]):
    key: Key
    entry: Entry[Item]
    future: "asyncio.Future[Result]" = field(repr=False)


class Batcher(Generic[Key, Item, Result]):
    """A bounded queue in front of one thread that works on batches of entries with one key."""

    def __init__(self, work: Work[Key, Item, Result], *, batch: int, queue: int) -> None:
        """Start nothing yet; at most `batch` entries make a batch, and `queue` entries may wait."""
        self._work = work
        self._batch = batch
        self._capacity = queue
        self._queue: deque[_Waiting[Key, Item, Result]] = deque()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="wye-model")
        self._calling = asyncio.Lock()
        self._runner: asyncio.Task[None] | None = None
        self._closing = False
        self._running = 0
        self._lately: deque[float] = deque(maxlen=_LATELY)

    @property
    def depth(self) -> int:
        """How many entries wait."""
        return len(self._queue)

    @property
    def expected_wait(self) -> float:
        """Seconds until an entry that came now would be done, by how long others took lately.

        It is done when its batch is, and where more than a batch waits, that will be a full one.
        """
        waiting = len(self._queue)
        if waiting >= self._batch:
            waiting = (waiting // self._batch + 1) * self._batch
        return (waiting + self._running) * median(self._lately or [0.0])

    async def submit(self, key: Key, item: Item, seconds: float) -> tuple[Result, Entry[Item]]:
        """Queue something and wait for its result.

        Cancelling this takes it out of the queue again. Items of equal keys can be worked on
        together; after so many seconds the result is of no more use.

        Returns:
            The result, and when it was queued and begun.

        Raises:
            Problem: 503 when the queue is full, would take too long or is closing; 504 when time
                ran out.
        """
        self._admit(seconds)
        now = monotonic()
        entry = Entry(item, now + seconds, now)
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._queue.append(_Waiting(key, entry, future))
        if self._runner is None or self._runner.done():
            self._runner = asyncio.create_task(self._run(), name="wye-batches")
        try:
            async with asyncio.timeout(seconds):
                return await future, entry
        except TimeoutError:
            raise _out_of_time(seconds, self.expected_wait) from None

    async def call(self, function: Callable[[], T]) -> T:
        """Run something else in the thread, between batches.

        One at a time, so that no batch waits for more than one.
        """
        async with self._calling:
            return await asyncio.get_running_loop().run_in_executor(self._thread, function)

    async def close(self) -> None:
        """Take nothing more, finish what was taken, and end the thread."""
        self._closing = True
        if self._runner is not None:
            await asyncio.wait([self._runner])
        self._thread.shutdown()

    def _admit(self, seconds: float) -> None:
        """Refuse at once what would be refused later.

        Raises:
            Problem: Says when to try again.
        """
        if self._closing:
            raise Problem(
                503, "closing", "This server is stopping; ask again or another.", retry_after=1
            )
        wait = self.expected_wait
        if len(self._queue) >= self._capacity:
            raise Problem(
                503,
                "overloaded",
                f"{len(self._queue)} questions are waiting, which is as many as may. Try again in "
                "the seconds that Retry-After gives, or add workers or replicas.",
                retry_after=wait,
            )
        if wait > _SURE * seconds:
            raise Problem(
                503,
                "overloaded",
                f"The questions that are waiting take about {wait:.1f} s, and this one has "
                f"{seconds:.1f} s. Try again in the seconds that Retry-After gives.",
                retry_after=wait - _SURE * seconds,
            )

    async def _run(self) -> None:
        """Work until nothing waits."""
        loop = asyncio.get_running_loop()
        while batch := self._next():
            started = monotonic()
            for waiting in batch:
                waiting.entry.started = started
                waiting.entry.size = len(batch)
            self._running = len(batch)
            entries = [waiting.entry for waiting in batch]
            results: Sequence[Result | Exception]
            try:
                results = await loop.run_in_executor(
                    self._thread, self._work, batch[0].key, entries
                )
            except Exception as error:  # noqa: BLE001 - whoever waits has to be told
                results = [error] * len(batch)
            self._running = 0
            self._lately.append((monotonic() - started) / len(batch))
            for waiting, result in zip(batch, results, strict=True):
                if waiting.future.done():  # given up on meanwhile
                    continue
                if isinstance(result, Exception):
                    waiting.future.set_exception(result)
                else:
                    waiting.future.set_result(result)

    def _next(self) -> list[_Waiting[Key, Item, Result]]:
        """Take the oldest entry and those that go with it; drop those that nobody waits for."""
        now = monotonic()
        alive = [w for w in self._queue if not w.future.done() and w.entry.deadline > now]
        if not alive:
            self._queue.clear()
            return []
        key = alive[0].key
        batch = [waiting for waiting in alive if waiting.key == key][: self._batch]
        taken = set(map(id, batch))
        self._queue = deque(waiting for waiting in alive if id(waiting) not in taken)
        return batch


def _out_of_time(seconds: float, wait: float) -> Problem:
    return Problem(
        504,
        "deadline",
        f"No passages were found within {1000 * seconds:.0f} ms. Give more time with deadline_ms, "
        "or ask a cheaper route such as dense.",
        retry_after=wait,
    )


async def unless_gone(gone: Awaitable[object], wanted: Awaitable[Result]) -> Result:
    """Wait for a result, but cancel it when `gone` ends: whoever wants it went away.

    Raises:
        Problem: They went away.
    """
    work = asyncio.ensure_future(wanted)
    leaving = asyncio.ensure_future(gone)
    try:
        await asyncio.wait({work, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            return work.result()
        raise Problem(499, "gone", "The client went away before there was an answer.")
    finally:
        leaving.cancel()
        if not work.done():
            work.cancel()
