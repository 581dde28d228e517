"""Batching without a timer.

A question that arrives while nothing runs is worked on at once, alone. While one batch runs, others
wait, and all of them that can go together go as the next batch: batches grow only when it is busy.
The queue is bounded, and what could not be done in time is refused when it arrives. Owners, which
are API keys, take turns: one that sends much delays itself.

Source: the queue of Hugging Face's text-embeddings-inference.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from time import monotonic
from typing import Generic, TypeVar

from service.http.problems import Problem, closing

Key = TypeVar("Key", bound=Hashable)
Key_co = TypeVar("Key_co", bound=Hashable, covariant=True)
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
        waited: Seconds that it was in the queue.
        size: How many were in its batch, the first if there were several.
    """

    item: Item
    deadline: float
    entered: float
    waited: float = 0.0
    size: int = 0


@dataclass(frozen=True, slots=True)
class Later(Generic[Key_co]):
    """In the place of a result: the entry is to be worked on again, before others of its owner.

    Attributes:
        key: Under which.
        weight: Which it has then.
    """

    key: Key_co
    weight: int


# Works on one batch, off the event loop: a result or an error for each entry, in order.
Work = Callable[[Key, Sequence[Entry[Item]]], Sequence[Result | Later[Key] | Exception]]


@dataclass(eq=False, slots=True)
class _Waiting(Generic[Key, Item, Result]):
    key: Key
    owner: str
    weight: int
    entry: Entry[Item]
    since: float
    future: "asyncio.Future[Result]" = field(repr=False)
    spent: list[float] | None = None


class Batcher(Generic[Key, Item, Result]):
    """A bounded queue in front of one thread that works on batches of entries with one key."""

    def __init__(
        self,
        work: Work[Key, Item, Result],
        *,
        batch: int,
        queue: int,
        weight: int,
        begin: Callable[[Key, Sequence[Entry[Item]]], None] | None = None,
    ) -> None:
        """Start nothing yet.

        At most `batch` entries make a batch, of no more than `weight` together unless one alone has
        more; and `queue` entries may wait.

        Args:
            begin: Told in the thread, before a batch is worked on, which entries are likely to make
                the next; raises nothing.
        """
        self._work = work
        self._begin = begin
        self._batch = batch
        self._capacity = queue
        self._weight = weight
        self._queue: deque[_Waiting[Key, Item, Result]] = deque()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="wye-model")
        self._calling = asyncio.Lock()
        self._runner: asyncio.Task[None] | None = None
        self._closing = False
        self._running = 0
        # Seconds that a batch took, with what was left of it for later, and entries of it.
        self._lately: deque[list[float]] = deque(maxlen=_LATELY)
        self._batches = 0
        self._served: dict[str, int] = {}
        self._since: float | None = None

    @property
    def depth(self) -> int:
        """How many entries wait."""
        return len(self._queue)

    @property
    def busy_seconds(self) -> float:
        """How long the thread has been at what it does now; 0 when it does nothing."""
        since = self._since
        return 0.0 if since is None else monotonic() - since

    def expected_wait(self, owner: str = "") -> float:
        """Seconds until an entry that came now would be done, by how long others took lately.

        It is done when its batch is, and where more than a batch waits, that will be a full one.
        """
        counts = Counter(waiting.owner for waiting in self._queue)
        # Of each owner, no more go first than the owner of this one has waiting.
        waiting = sum(min(count, counts[owner] + 1) for count in counts.values())
        if waiting >= self._batch:
            waiting = (waiting // self._batch + 1) * self._batch
        lately = [seconds / entries for seconds, entries in self._lately]
        return (waiting + self._running) * median(lately or [0.0])

    async def submit(
        self, key: Key, item: Item, seconds: float, *, owner: str = "", weight: int = 1
    ) -> tuple[Result, Entry[Item]]:
        """Queue something and wait for its result.

        Cancelling this takes it out of the queue again. Items of equal keys can be worked on
        together; after so many seconds the result is of no more use.

        Returns:
            The result, and when it was queued and begun.

        Raises:
            Problem: 503 when the queue is full, would take too long or is closing; 504 when time
                ran out.
        """
        self._admit(owner, seconds)
        now = monotonic()
        entry = Entry(item, now + seconds, now)
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._queue.append(_Waiting(key, owner, weight, entry, now, future))
        if self._runner is None or self._runner.done():
            self._runner = asyncio.create_task(self._run(), name="wye-batches")
        try:
            async with asyncio.timeout(seconds):
                return await future, entry
        except TimeoutError:
            raise _out_of_time(seconds, self.expected_wait(owner)) from None

    async def call(self, function: Callable[[], T]) -> T:
        """Run something else in the thread, between batches.

        One at a time, so that no batch waits for more than one.
        """
        async with self._calling:
            return await asyncio.get_running_loop().run_in_executor(
                self._thread, self._timed, function
            )

    async def close(self) -> None:
        """Take nothing more, finish what was taken, and end the thread."""
        self._closing = True
        if self._runner is not None:
            await asyncio.wait([self._runner])
        self._thread.shutdown()

    def _timed(self, function: Callable[[], T]) -> T:
        """Do something, in the thread."""
        self._since = monotonic()
        try:
            return function()
        finally:
            self._since = None

    def _admit(self, owner: str, seconds: float) -> None:
        """Refuse at once what would be refused later.

        Raises:
            Problem: Says when to try again.
        """
        if self._closing:
            raise closing()
        wait = self.expected_wait(owner)
        if len(self._queue) >= self._capacity:
            self._make_room(owner)
        if wait > _SURE * seconds:
            raise Problem(
                503,
                "overloaded",
                f"The questions that are waiting take about {wait:.1f} s, and this one has "
                f"{seconds:.1f} s. Try again in the seconds that Retry-After gives.",
                retry_after=wait - _SURE * seconds,
            )

    def _make_room(self, owner: str) -> None:
        """Refuse the newest entry of whoever has most, which may be this owner's.

        Raises:
            Problem: It is this owner's.
        """
        counts = Counter(waiting.owner for waiting in self._queue)
        most, count = counts.most_common(1)[0]
        full = Problem(
            503,
            "overloaded",
            f"{len(self._queue)} questions are waiting, which is as many as may. Try again in the "
            "seconds that Retry-After gives, or add workers or replicas.",
            retry_after=self.expected_wait(most),
        )
        if count <= counts[owner] + 1:
            raise full
        newest = next(waiting for waiting in reversed(self._queue) if waiting.owner == most)
        self._queue.remove(newest)
        if not newest.future.done():
            newest.future.set_exception(full)

    async def _run(self) -> None:
        """Work until nothing waits."""
        loop = asyncio.get_running_loop()
        while batch := self._next():
            self._batches += 1
            self._served |= dict.fromkeys((waiting.owner for waiting in batch), self._batches)
            taken = set(map(id, batch))
            self._queue = deque(waiting for waiting in self._queue if id(waiting) not in taken)
            started = monotonic()
            for waiting in batch:
                waiting.entry.waited += started - waiting.since
                waiting.entry.size = waiting.entry.size or len(batch)
            self._running = len(batch)
            entries = [waiting.entry for waiting in batch]
            results: Sequence[Result | Later[Key] | Exception]
            if self._begin is not None and (following := self._next()):
                next_entries = [waiting.entry for waiting in following]
                loop.run_in_executor(self._thread, self._begin, following[0].key, next_entries)
            try:
                results = await loop.run_in_executor(
                    self._thread, self._timed, partial(self._work, batch[0].key, entries)
                )
            except Exception as error:  # noqa: BLE001 - whoever waits has to be told
                results = [error] * len(batch)
            self._running = 0
            spent = batch[0].spent
            if spent is None:
                spent = [0.0, len(batch)]
                self._lately.append(spent)
            ended = monotonic()
            spent[0] += ended - started
            later: list[_Waiting[Key, Item, Result]] = []
            for waiting, result in zip(batch, results, strict=True):
                if waiting.future.done():  # given up on meanwhile
                    continue
                if isinstance(result, Exception):
                    waiting.future.set_exception(result)
                elif isinstance(result, Later):
                    waiting.key, waiting.weight = result.key, result.weight
                    waiting.since, waiting.spent = ended, spent
                    later.append(waiting)
                else:
                    waiting.future.set_result(result)
            self._queue.extendleft(reversed(later))

    def _next(self) -> list[_Waiting[Key, Item, Result]]:
        """The entry whose turn it is and those that go with it; drop what nobody waits for.

        First the oldest of each owner, those first whose owner was served longest ago; then the
        second of each, and so on.
        """
        now = monotonic()
        alive = [w for w in self._queue if not w.future.done() and w.entry.deadline > now]
        self._queue = deque(alive)
        if not alive:
            return []
        met: Counter[str] = Counter()
        turns = []
        for waiting in alive:
            turns.append((met[waiting.owner], self._served.get(waiting.owner, 0), waiting))
            met[waiting.owner] += 1
        turns.sort(key=lambda turn: turn[:2])  # and who came first, as sorting is stable
        key = turns[0][2].key
        batch: list[_Waiting[Key, Item, Result]] = []
        room = self._weight
        for _, _, waiting in turns:
            fits = waiting.weight <= room or not batch
            if waiting.key == key and fits and len(batch) < self._batch:
                batch.append(waiting)
                room -= waiting.weight
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
    task = asyncio.current_task()
    if task is None:
        raise ValueError("there is no task to cancel")
    before, is_over, has_left = task.cancelling(), False, False

    def leave(_: object) -> None:
        nonlocal has_left
        if not is_over:
            has_left = task.cancel()

    leaving = asyncio.ensure_future(gone)
    leaving.add_done_callback(leave)
    try:
        return await wanted
    except asyncio.CancelledError:
        if has_left and task.uncancel() <= before:
            raise Problem(499, "gone", "The client went away before there was an answer.") from None
        raise
    finally:
        is_over = True
        leaving.remove_done_callback(leave)
        leaving.cancel()
