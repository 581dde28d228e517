import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from service.batching import Batcher, Entry, unless_gone
from service.http.problems import Problem

Result = str


class Desk:
    """Works on batches as slowly as told, and notes them."""

    def __init__(self) -> None:
        self.batches: list[tuple[str, list[str]]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.begun = threading.Event()
        self.seconds = 0.0

    def work(self, key: str, entries: Sequence[Entry[str]]) -> list[str | Exception]:
        self.begun.set()
        self.gate.wait(10)
        time.sleep(self.seconds)
        self.batches.append((key, [entry.item for entry in entries]))
        if key == "broken":
            raise RuntimeError("all of it")
        return [
            ValueError(entry.item) if entry.item.startswith("bad") else entry.item.upper()
            for entry in entries
        ]


Play = Callable[[Batcher[str, str, str], Desk], Coroutine[Any, Any, None]]


def play(scene: Play, *, batch: int = 8, queue: int = 16) -> Desk:
    """Run a scene with a batcher that is closed afterwards."""
    desk = Desk()

    async def run() -> None:
        batcher: Batcher[str, str, str] = Batcher(desk.work, batch=batch, queue=queue)
        try:
            await scene(batcher, desk)
        finally:
            desk.gate.set()
            await batcher.close()

    asyncio.run(run())
    return desk


async def occupy(batcher: Batcher[str, str, str], desk: Desk) -> "asyncio.Task[Any]":
    """Have the thread work on something until the gate opens."""
    desk.gate.clear()
    desk.begun.clear()
    task = asyncio.create_task(batcher.submit("k", "first", 60))
    await asyncio.to_thread(desk.begun.wait, 10)
    return task


def test_one_alone_goes_at_once_and_alone() -> None:
    async def scene(batcher: Batcher[str, str, str], desk: Desk) -> None:
        result, entry = await batcher.submit("k", "one", 60)
        assert (result, entry.size) == ("ONE", 1)
        assert entry.entered <= entry.started

    assert play(scene).batches == [("k", ["one"])]


def test_what_comes_while_it_is_busy_goes_together() -> None:
    async def scene(batcher: Batcher[str, str, str], desk: Desk) -> None:
        first = await occupy(batcher, desk)
        rest = [asyncio.create_task(batcher.submit("k", name, 60)) for name in "abc"]
        await asyncio.sleep(0)
        assert batcher.depth == 3
        desk.gate.set()
        results = await asyncio.gather(first, *rest)
        assert [result for result, _ in results] == ["FIRST", "A", "B", "C"]
        assert [entry.size for _, entry in results] == [1, 3, 3, 3]

    assert play(scene).batches == [("k", ["first"]), ("k", ["a", "b", "c"])]


def test_only_what_has_one_key_goes_together_and_the_oldest_first() -> None:
    async def scene(batcher: Batcher[str, str, str], desk: Desk) -> None:
        first = await occupy(batcher, desk)
        pairs = [("x", "1"), ("y", "2"), ("x", "3"), ("x", "4")]
        rest = [asyncio.create_task(batcher.submit(key, item, 60)) for key, item in pairs]
        await asyncio.sleep(0)
        desk.gate.set()
        await asyncio.gather(first, *rest)

    batches = play(scene, batch=2).batches
    assert batches[1:] == [("x", ["1", "3"]), ("y", ["2"]), ("x", ["4"])]


def test_a_full_queue_refuses_at_once_and_says_when_to_come_back() -> None:
    async def scene(batcher: Batcher[str, str, str], desk: Desk) -> None:
        await batcher.submit("k", "known", 60)  # so that it knows how long one takes
        first = await occupy(batcher, desk)
        rest = [asyncio.create_task(batcher.submit("k", name, 60)) for name in "ab"]
        await asyncio.sleep(0)
        with pytest.raises(Problem, match="2 questions are waiting") as refused:
            await batcher.submit("k", "c", 60)
        assert refused.value.status == 503
        assert int(refused.value.headers["retry-after"]) >= 1
        desk.gate.set()
        await asyncio.gather(first, *rest)

    play(scene, queue=2)


def test_what_could_not_be_done_in_time_is_refused_when_it_comes() -> None:
    async def scene(batcher: Batcher[str, str, str], desk: Desk) -> None:
        desk.seconds = 0.2
        await batcher.submit("k", "known", 60)
        first = await occupy(batcher, desk)
        with pytest.raises(Problem, match=r"and this one has 0\.1 s"):
            await batcher.submit("k", "hasty", 0.1)
        desk.gate.set()
        await first

    assert play(scene).batches == [("k", ["known"]), ("k", ["first"])]


def test_time_that_runs_out_is_told_and_the_work_is_dropped() -> None:
    async def scene(batcher: Batcher[str, str, str], desk: Desk) -> None:
        first = await occupy(batcher, desk)
        with pytest.raises(Problem, match="within 30 ms") as late:
            await batcher.submit("k", "late", 0.03)
        assert late.value.status == 504
        desk.gate.set()
        await first

    assert play(scene).batches == [("k", ["first"])]


def test_what_nobody_waits_for_leaves_the_queue() -> None:
    async def scene(batcher: Batcher[str, str, str], desk: Desk) -> None:
        first = await occupy(batcher, desk)
        left, kept = (asyncio.create_task(batcher.submit("k", name, 60)) for name in ("l", "kept"))
        await asyncio.sleep(0)
        left.cancel()
        await asyncio.sleep(0)
        desk.gate.set()
        await asyncio.gather(first, kept)

    assert play(scene).batches == [("k", ["first"]), ("k", ["kept"])]


def test_an_error_reaches_whoever_it_is_about() -> None:
    async def scene(batcher: Batcher[str, str, str], desk: Desk) -> None:
        first = await occupy(batcher, desk)
        good, bad = (asyncio.create_task(batcher.submit("k", n, 60)) for n in ("good", "bad"))
        await asyncio.sleep(0)
        desk.gate.set()
        assert (await good)[0] == "GOOD"
        with pytest.raises(ValueError, match="bad"):
            await bad
        await first
        with pytest.raises(RuntimeError, match="all of it"):
            await batcher.submit("broken", "x", 60)
        assert (await batcher.submit("k", "after", 60))[0] == "AFTER"

    play(scene)


def test_closing_finishes_what_was_accepted_and_takes_nothing_more() -> None:
    async def scene(batcher: Batcher[str, str, str], desk: Desk) -> None:
        first = await occupy(batcher, desk)
        second = asyncio.create_task(batcher.submit("k", "second", 60))
        await asyncio.sleep(0)
        closing = asyncio.create_task(batcher.close())
        await asyncio.sleep(0)
        with pytest.raises(Problem, match="stopping"):
            await batcher.submit("k", "third", 60)
        desk.gate.set()
        assert [(await task)[0] for task in (first, second)] == ["FIRST", "SECOND"]
        await closing

    assert [items for _, items in play(scene).batches] == [["first"], ["second"]]


def test_nothing_is_lost_or_mixed_up_under_load() -> None:
    async def scene(batcher: Batcher[str, str, str], desk: Desk) -> None:
        names = [f"n{number}" for number in range(200)]
        waiting = [batcher.submit("ab"[n % 2], name, 60) for n, name in enumerate(names)]
        results = await asyncio.gather(*waiting)
        assert [result for result, _ in results] == [name.upper() for name in names]

    desk = play(scene, queue=500)
    assert sum(len(items) for _, items in desk.batches) == 200
    assert max(len(items) for _, items in desk.batches) <= 8


def test_leaving_cancels_the_work() -> None:
    async def scene() -> bool:
        started = asyncio.Event()
        cancelled = False

        async def work() -> str:
            nonlocal cancelled
            started.set()
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                cancelled = True
                raise
            return "never"

        with pytest.raises(Problem, match="went away"):
            await unless_gone(started.wait(), work())
        await asyncio.sleep(0)
        return cancelled

    assert asyncio.run(scene())


def test_who_stays_gets_the_result() -> None:
    async def scene() -> str:
        async def work() -> str:
            return "done"

        return await unless_gone(asyncio.Event().wait(), work())

    assert asyncio.run(scene()) == "done"


def test_one_slow_batch_is_no_reason_to_refuse() -> None:
    async def scene(batcher: Batcher[str, str, str], desk: Desk) -> None:
        for seconds in (0.0, 0.0, 0.3, 0.0):
            desk.seconds = seconds
            await batcher.submit("k", "known", 60)
        first = await occupy(batcher, desk)
        second = asyncio.create_task(batcher.submit("k", "second", 0.5))
        await asyncio.sleep(0)
        assert batcher.expected_wait < 0.3
        desk.gate.set()
        await asyncio.gather(first, second)

    play(scene)


def test_where_more_than_a_batch_waits_the_next_one_will_be_full() -> None:
    async def scene(batcher: Batcher[str, str, str], desk: Desk) -> None:
        desk.seconds = 0.1
        await batcher.submit("k", "known", 60)
        running = await occupy(batcher, desk)
        waiting = []
        waits = [batcher.expected_wait]
        for number in range(5):
            waiting.append(asyncio.create_task(batcher.submit("k", f"{number}", 60)))
            await asyncio.sleep(0)
            waits.append(batcher.expected_wait)
        each = waits[0]  # of the one that runs
        assert [round(wait / each) for wait in waits] == [1, 2, 3, 4, 9, 9]
        desk.gate.set()
        await asyncio.gather(running, *waiting)

    play(scene, batch=4)


def test_a_batch_waits_for_one_call_at_most() -> None:
    async def scene(batcher: Batcher[str, str, str], desk: Desk) -> None:
        running = await occupy(batcher, desk)

        def note(number: int) -> None:
            desk.batches.append(("call", [f"{number}"]))

        calls = [
            asyncio.create_task(batcher.call(lambda number=number: note(number)))  # type: ignore[misc]
            for number in range(3)
        ]
        await asyncio.sleep(0)
        asked = asyncio.create_task(batcher.submit("k", "asked", 60))
        await asyncio.sleep(0)
        desk.gate.set()
        await asyncio.gather(running, asked, *calls)

    desk = play(scene)
    assert [key for key, _ in desk.batches] == ["k", "call", "k", "call", "call"]
