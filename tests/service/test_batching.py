import asyncio
import threading
import time
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any

import pytest

from wye.service.batching import Batcher, Entry, Later, unless_gone
from wye.service.http.problems import Problem


class Desk:
    """Works on batches as slowly as told, and notes them."""

    def __init__(self) -> None:
        self.batches: list[tuple[str, list[str]]] = []
        self.told: list[tuple[str, list[str]]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.begun = threading.Event()
        self.seconds = 0.0
        self.open()

    def open(self, *, batch: int = 8, queue: int = 16, weight: int = 1000) -> None:
        self.batcher: Batcher[str, str, str] = Batcher(
            self.work, batch=batch, queue=queue, weight=weight, begin=self.begin
        )

    async def wait(
        self, *items: str, key: str = "k", owner: str = "", weight: int = 1
    ) -> "list[asyncio.Task[Any]]":
        waiting = (self.batcher.submit(key, item, 60, owner=owner, weight=weight) for item in items)
        tasks = [asyncio.create_task(each) for each in waiting]
        await asyncio.sleep(0)
        return tasks

    async def occupy(self) -> "asyncio.Task[Any]":
        """Have the thread work on something until the gate opens."""
        self.gate.clear()
        self.begun.clear()
        (task,) = await self.wait("first")
        await asyncio.to_thread(self.begun.wait, 10)
        return task

    async def learn(self, seconds: float) -> None:
        """Have it know how long a batch takes."""
        self.seconds = seconds
        for _ in range(5):
            await self.batcher.submit("k", "known", 60)

    async def served(self, *waiting: "asyncio.Task[Any]") -> list[tuple[str, list[str]]]:
        """Let it work, and say which batches came after the first."""
        self.gate.set()
        await asyncio.gather(*waiting)
        await self.close()
        return self.batches[1:]

    async def close(self) -> None:
        self.gate.set()
        await self.batcher.close()

    def begin(self, key: str, entries: Sequence[Entry[str]]) -> None:
        assert threading.current_thread() is not threading.main_thread()
        self.told.append((key, [entry.item for entry in entries]))

    def work(self, key: str, entries: Sequence[Entry[str]]) -> Sequence[str | Later | Exception]:
        self.begun.set()
        self.gate.wait(10)
        time.sleep(self.seconds)
        self.batches.append((key, [entry.item for entry in entries]))
        if key == "broken":
            raise RuntimeError("all of it")
        if not key.startswith("rest of ") and any(e.item.startswith("later") for e in entries):
            finish = partial(self.work, f"rest of {key}")
            return [
                Later(finish, 2) if e.item.startswith("later") else e.item.upper() for e in entries
            ]
        return [
            ValueError(entry.item) if entry.item.startswith("bad") else entry.item.upper()
            for entry in entries
        ]


@pytest.fixture
async def desk(anyio_backend: str) -> AsyncIterator[Desk]:
    made = Desk()
    yield made
    await made.close()


async def test_what_comes_while_it_is_busy_goes_together(desk: Desk) -> None:
    first = await desk.occupy()
    rest = await desk.wait(*"abc")
    assert desk.batcher.depth == 3
    desk.gate.set()
    results = await asyncio.gather(first, *rest)
    assert [result for result, _ in results] == ["FIRST", "A", "B", "C"]
    assert [entry.size for _, entry in results] == [1, 3, 3, 3]
    await desk.close()
    assert desk.batches == [("k", ["first"]), ("k", ["a", "b", "c"])]


async def test_only_what_has_one_key_goes_together_and_the_oldest_first(desk: Desk) -> None:
    desk.open(batch=2)
    first = await desk.occupy()
    pairs = [("x", "1"), ("y", "2"), ("x", "3"), ("x", "4")]
    rest = [asyncio.create_task(desk.batcher.submit(key, item, 60)) for key, item in pairs]
    await asyncio.sleep(0)
    assert await desk.served(first, *rest) == [("x", ["1", "3"]), ("y", ["2"]), ("x", ["4"])]


async def test_what_is_for_later_goes_before_others_of_its_owner_and_by_weight(desk: Desk) -> None:
    desk.open(batch=4, weight=4)
    first = await desk.occupy()
    of_ada = await desk.wait("later1", "2", "later3", "later4", "5", key="x", owner="ada")
    other = await desk.wait("6", key="x", owner="ben")
    desk.gate.set()
    results = await asyncio.gather(first, *of_ada, *other)
    assert [result for result, _ in results[1:]] == ["LATER1", "2", "LATER3", "LATER4", "5", "6"]
    assert [entry.size for _, entry in results[1:]] == [4, 4, 4, 2, 2, 4]
    await desk.close()
    # A batch of both; the rest of it in two parts, as each of it weighs 2.
    assert desk.batches[1:] == [
        ("x", ["later1", "6", "2", "later3"]),
        ("rest of x", ["later1", "later3"]),
        ("x", ["later4", "5"]),
        ("rest of x", ["later4"]),
    ]


async def test_what_follows_is_told_before_a_batch_is_worked_on(desk: Desk) -> None:
    desk.open(batch=2)
    first = await desk.occupy()
    rest = [*await desk.wait("1", "2", "3", key="x"), *await desk.wait("4", key="y")]
    assert desk.told == []
    await desk.served(first, *rest)
    assert desk.told == [("x", ["3"]), ("y", ["4"])]


async def test_a_full_queue_refuses_at_once_and_says_when_to_come_back(desk: Desk) -> None:
    desk.open(queue=2)
    await desk.batcher.submit("k", "known", 60)  # so that it knows how long one takes
    first = await desk.occupy()
    rest = await desk.wait(*"ab")
    with pytest.raises(Problem, match="2 questions are waiting") as refused:
        await desk.batcher.submit("k", "c", 60)
    assert refused.value.status == 503
    assert int(refused.value.headers["retry-after"]) >= 1
    desk.gate.set()
    await asyncio.gather(first, *rest)


async def test_what_could_not_be_done_in_time_is_refused_when_it_comes(desk: Desk) -> None:
    await desk.learn(0.2)
    first = await desk.occupy()
    with pytest.raises(Problem, match=r"but this one has 0\.1 s"):
        await desk.batcher.submit("k", "hasty", 0.1)
    assert (await desk.served(first))[4:] == [("k", ["first"])]


async def test_a_server_that_has_just_started_refuses_nobody(desk: Desk) -> None:
    desk.open(queue=64)
    desk.seconds = 0.2
    await desk.batcher.submit("k", "slow, since it is the first", 60)
    desk.seconds = 0
    waiting = [desk.batcher.submit("k", f"{number}", 1) for number in range(64)]
    assert len(await asyncio.gather(*waiting)) == 64


async def test_time_that_runs_out_is_told_and_the_work_is_dropped(desk: Desk) -> None:
    first = await desk.occupy()
    with pytest.raises(Problem, match="within 30 ms") as late:
        await desk.batcher.submit("k", "late", 0.03)
    assert late.value.status == 504
    assert await desk.served(first) == []


async def test_what_nobody_waits_for_leaves_the_queue(desk: Desk) -> None:
    first = await desk.occupy()
    abandoned, answered = await desk.wait("left", "kept")
    abandoned.cancel()
    await asyncio.sleep(0)
    assert await desk.served(first, answered) == [("k", ["kept"])]


async def test_an_error_reaches_whoever_it_is_about(desk: Desk) -> None:
    first = await desk.occupy()
    good, bad = await desk.wait("good", "bad")
    desk.gate.set()
    assert (await good)[0] == "GOOD"
    with pytest.raises(ValueError, match="bad"):
        await bad
    await first
    with pytest.raises(RuntimeError, match="all of it"):
        await desk.batcher.submit("broken", "x", 60)
    assert (await desk.batcher.submit("k", "after", 60))[0] == "AFTER"


async def test_closing_finishes_what_was_accepted_and_takes_nothing_more(desk: Desk) -> None:
    first = await desk.occupy()
    (second,) = await desk.wait("second")
    closing = asyncio.create_task(desk.batcher.close())
    await asyncio.sleep(0)
    with pytest.raises(Problem, match="stopping"):
        await desk.batcher.submit("k", "third", 60)
    desk.gate.set()
    assert [(await task)[0] for task in (first, second)] == ["FIRST", "SECOND"]
    await closing
    assert [items for _, items in desk.batches] == [["first"], ["second"]]


async def test_leaving_cancels_the_work() -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def work() -> str:
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.set()
        return "never"

    with pytest.raises(Problem, match="went away"):
        await unless_gone(started.wait(), work())
    await asyncio.wait_for(cancelled.wait(), 10)


async def test_who_leaves_as_the_result_comes_is_not_cancelled_later() -> None:
    leaving = asyncio.Event()

    async def work() -> str:
        leaving.set()
        return "done"

    assert await unless_gone(leaving.wait(), work()) == "done"
    for _ in range(5):
        await asyncio.sleep(0)


async def test_one_slow_batch_is_no_reason_to_refuse(desk: Desk) -> None:
    for seconds in (0.0, 0.0, 0.3, 0.0):
        desk.seconds = seconds
        await desk.batcher.submit("k", "known", 60)
    first = await desk.occupy()
    second = asyncio.create_task(desk.batcher.submit("k", "second", 0.5))
    await asyncio.sleep(0)
    assert desk.batcher.expected_wait() < 0.3
    desk.gate.set()
    await asyncio.gather(first, second)


async def test_where_more_than_a_batch_waits_the_next_one_will_be_full(desk: Desk) -> None:
    desk.open(batch=4)
    await desk.learn(0.1)
    running = await desk.occupy()
    waiting = []
    waits = [desk.batcher.expected_wait()]
    for number in range(5):
        waiting += await desk.wait(f"{number}")
        waits.append(desk.batcher.expected_wait())
    each = waits[0]  # of the one that runs
    assert [round(wait / each) for wait in waits] == [1, 2, 3, 4, 9, 9]
    desk.gate.set()
    await asyncio.gather(running, *waiting)


async def test_a_batch_waits_for_one_call_at_most(desk: Desk) -> None:
    running = await desk.occupy()

    def note(number: int) -> None:
        desk.batches.append(("call", [f"{number}"]))

    calls = [
        asyncio.create_task(desk.batcher.call(lambda number=number: note(number)))  # type: ignore[misc]
        for number in range(3)
    ]
    await asyncio.sleep(0)
    (answer,) = await desk.wait("asked")
    desk.gate.set()
    await asyncio.gather(running, answer, *calls)
    await desk.close()
    assert [key for key, _ in desk.batches] == ["k", "call", "k", "call", "call"]


async def test_a_call_may_have_a_deadline_and_its_own_errors_pass(desk: Desk) -> None:
    running = await desk.occupy()
    with pytest.raises(Problem, match="within 30 ms") as late:
        await desk.batcher.call(lambda: None, 0.03)
    assert late.value.status == 504
    desk.gate.set()
    await running

    def fail() -> None:
        raise TimeoutError("of a disk")

    with pytest.raises(TimeoutError, match="of a disk"):
        await desk.batcher.call(fail)


@pytest.mark.parametrize("keys", ["kkk", "xyz"])
async def test_owners_take_turns_whatever_they_ask_for(desk: Desk, keys: str) -> None:
    desk.open(batch=1)
    first = await desk.occupy()
    much = await desk.wait("a1", "a2", "a3", "a4", owner="ada", key=keys[0])
    few = await desk.wait("b1", "b2", owner="bob", key=keys[1])
    one = await desk.wait("c1", owner="cy", key=keys[2])
    order = [item for _, items in await desk.served(first, *much, *few, *one) for item in items]
    assert order == ["a1", "b1", "c1", "a2", "b2", "a3", "a4"]


async def test_who_was_served_longest_ago_goes_first(desk: Desk) -> None:
    desk.open(batch=1)
    first = await desk.occupy()
    much = await desk.wait("a1", "a2", owner="ada")
    desk.gate.set()
    await asyncio.gather(first, *much)
    again = await desk.occupy()
    late = await desk.wait("a3", owner="ada"), await desk.wait("b1", owner="bob")
    order = [item for _, items in await desk.served(again, *late[0], *late[1]) for item in items]
    assert order.index("b1") < order.index("a3")


async def test_what_another_owner_has_waiting_delays_nobody_for_long(desk: Desk) -> None:
    desk.open(batch=4)
    await desk.learn(0.1)
    running = await desk.occupy()
    waiting = await desk.wait(*"abcdefgh", owner="ada")
    more, other = (desk.batcher.expected_wait(owner) for owner in ("ada", "bob"))
    assert round(more / other, 1) == round((12 + 1) / (1 + 1), 1)
    desk.gate.set()
    await asyncio.gather(running, *waiting)


async def test_in_a_full_queue_there_is_room_for_who_has_less(desk: Desk) -> None:
    desk.open(batch=1, queue=3)
    first = await desk.occupy()
    much = await desk.wait("a1", "a2", "a3", owner="ada")
    with pytest.raises(Problem, match="3 questions are waiting"):
        await desk.batcher.submit("k", "a4", 60, owner="ada")
    few = await desk.wait("b1", owner="bob")
    with pytest.raises(Problem, match="3 questions are waiting") as refused:
        await much[2]
    assert refused.value.status == 503
    with pytest.raises(Problem, match="3 questions are waiting"):
        await desk.batcher.submit("k", "b2", 60, owner="bob")
    order = [items for _, items in await desk.served(first, *much[:2], *few)]
    assert order == [["a1"], ["b1"], ["a2"]]


async def test_a_batch_weighs_no_more_than_it_may(desk: Desk) -> None:
    desk.open(weight=10)
    first = await desk.occupy()
    light = await desk.wait("a", "b", "c", weight=4)
    heavy = await desk.wait("heavy", weight=50)
    small = await desk.wait("d", weight=2)
    batches = await desk.served(first, *light, *heavy, *small)
    assert [items for _, items in batches] == [["a", "b", "d"], ["c"], ["heavy"]]


async def test_it_says_how_long_it_has_been_at_what_it_does(desk: Desk) -> None:
    assert desk.batcher.busy_seconds == 0
    first = await desk.occupy()
    await asyncio.sleep(0.05)
    assert desk.batcher.busy_seconds >= 0.05
    desk.gate.set()
    await first
    called = asyncio.create_task(desk.batcher.call(lambda: desk.batcher.busy_seconds))
    assert 0 < await called < 10
    assert desk.batcher.busy_seconds == 0
