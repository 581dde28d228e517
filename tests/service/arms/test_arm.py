"""One arm: what becomes of a call, whatever the service behind it does."""

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.service.arms.fakes import SECRET, Remote, arms_file, table
from wye.router.remote import RemoteHit
from wye.service.arms.arm import (
    ArmCall,
    ArmError,
    Breaker,
    BreakerState,
    Kind,
    RemoteArm,
    remote_hit,
    usable,
)
from wye.service.arms.file import read_arms

BEFORE_1600 = {"type": "lt", "key": "y", "value": 1600}
Open = Callable[..., RemoteArm]


@pytest.fixture
def opened(remote: Remote, tmp_path: Path) -> Open:
    def one(**changes: Any) -> RemoteArm:  # noqa: ANN401
        path = arms_file(tmp_path, table(remote.url, **changes))
        return read_arms(path, ["docs"], 5.0)["docs"][0]

    return one


async def ask(arm: RemoteArm, seconds: float = 5.0, **options: Any) -> ArmCall:  # noqa: ANN401
    try:
        return await arm.search("Which river?", 5, options.pop("filter", None), seconds, **options)
    finally:
        await arm.close()


UNREADABLE = "sent an unreadable reply: it is"
FAILURES: dict[str | int, tuple[str, str, float]] = {
    "hang": ("timeout", "gave no answer within 2500 ms", 0.02),
    "garbled": ("garbled", f"{UNREADABLE} not JSON", 0.02),
    "huge": ("garbled", f"{UNREADABLE} longer than 8 MiB", 0.02),
    "drop": ("broken", "broke off", 0.02),
    "redirect": ("failed", "redirects (302), which is not followed", 0.0),
    429: ("refused", "is busy (429)", 0.0),
    503: ("refused", "is busy (503)", 0.0),
    401: ("refused", "rejects our key (401)", 0.0),
    422: ("refused", "rejects the request (422)", 0.0),
    500: ("failed", "answered 500", 0.02),
}


@pytest.mark.parametrize("mode", FAILURES)
async def test_a_failure_is_told_without_what_came(
    opened: Open, remote: Remote, mode: str | int
) -> None:
    remote.mode = mode
    call = await ask(opened(retries=0))
    assert (call.outcome, call.reason, call.spent) == FAILURES[mode]
    assert not call.hits
    assert len(remote.asked) == 1
    assert set(remote.paths) == {"/"}


async def test_nobody_there_costs_nothing(tmp_path: Path) -> None:
    closed = Remote()
    closed.close()
    path = arms_file(tmp_path, table(closed.url))
    call = await ask(read_arms(path, ["docs"], 5.0)["docs"][0])
    assert (call.outcome, call.reason, call.spent) == ("unreachable", "cannot be reached", 0.0)


async def test_a_key_goes_along_and_nowhere_else(
    opened: Open, remote: Remote, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("ARM_KEY", SECRET)
    arm = opened(key_env="ARM_KEY")
    remote.mode = 403
    call = await ask(arm)
    assert remote.headers["authorization"] == f"Bearer {SECRET}"
    texts = f"{call} {arm.facts()} {caplog.text} {[record.__dict__ for record in caplog.records]}"
    assert SECRET not in texts
    assert remote.url not in texts
    remote.mode = "ok"
    await ask(opened(key_env="ARM_KEY", key_header="X-Api-Key"))
    assert remote.headers["x-api-key"] == SECRET
    assert "authorization" not in remote.headers


async def test_it_tries_again_where_that_is_safe_and_no_more(opened: Open, remote: Remote) -> None:
    remote.modes = [429, 503]
    call = await ask(opened(retries=2, timeout_ms=5_000))
    assert (call.outcome, call.calls, len(remote.asked)) == ("ok", 1, 3)
    remote.modes, remote.asked = [500], []
    call = await ask(opened(retries=2))
    assert (call.reason, len(remote.asked)) == ("answered 500", 1)
    remote.modes, remote.asked = ["drop"], []
    call = await ask(opened(retries=2))
    assert (call.reason, call.spent, len(remote.asked)) == ("broke off", 0.02, 1)
    remote.modes, remote.asked = ["drop"], []
    call = await ask(opened(retries=2, price=0))
    assert (call.outcome, call.spent, len(remote.asked)) == ("ok", 0.0, 2)


@pytest.mark.parametrize("wait", ["60", "9" * 400])
async def test_it_waits_no_longer_than_it_may(opened: Open, remote: Remote, wait: str) -> None:
    remote.mode, remote.wait = 429, wait
    call = await ask(opened(retries=2, timeout_ms=20_000))
    assert (call.reason, len(remote.asked)) == ("is busy (429)", 1)


async def test_what_a_client_does_opens_no_breaker(opened: Open, remote: Remote) -> None:
    arm = opened(open_after=1)
    remote.mode = 422
    await arm.search("?", 5, None, 5.0)
    remote.mode = "hang"
    call = await arm.search("?", 5, None, 0.01)
    assert (call.outcome, call.state) == ("timeout", BreakerState.CLOSED)
    asking = asyncio.ensure_future(arm.search("?", 5, None, 5.0))
    await asyncio.sleep(0.05)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert arm.breaker.state == BreakerState.CLOSED
    assert [(await ask(arm)).outcome for _ in range(2)] == ["timeout", "open"]


async def test_few_calls_are_under_way_at_once(opened: Open, remote: Remote) -> None:
    arm = opened(max_concurrency=2, timeout_ms=5_000)
    remote.mode = "slow"
    calls = await asyncio.gather(*(arm.search("?", 5, None, 5.0) for _ in range(6)))
    assert {call.outcome for call in calls} == {"ok"}
    assert remote.most == 2
    await arm.close()
    remote.mode, arm = "hang", opened(max_concurrency=1, open_after=9)
    calls = await asyncio.gather(*(arm.search("?", 5, None, given) for given in (0.3, 0.1)))
    assert sorted(call.outcome for call in calls) == ["busy", "timeout"]
    assert sum(call.spent for call in calls) == 0.02
    await arm.close()


async def test_what_a_filter_hides_is_dropped_whoever_sent_it(opened: Open, remote: Remote) -> None:
    call = await ask(opened(), filter=BEFORE_1600)
    assert [hit.id for hit in call.hits] == ["mostar"]
    assert call.note == "1 of its passages were left out by the filter"
    assert remote.asked == [{"q": "Which river?", "top": 5, "where": BEFORE_1600}]


class Made(Kind):
    _gives: Sequence[RemoteHit] | Exception

    def __init__(self, gives: Sequence[RemoteHit] | Exception) -> None:
        super().__init__(kind="made", role="graph")
        self._gives = gives

    @property
    def filter_fault(self) -> str:
        return ""

    async def search(self, question: str, k: int, filter_: object | None) -> Sequence[RemoteHit]:
        if isinstance(self._gives, Exception):
            raise self._gives
        return self._gives


async def test_a_passage_that_is_there_twice_counts_once() -> None:
    hits = (remote_hit("a", "first"), remote_hit("b", "other"), remote_hit("a", "again"))
    call = await RemoteArm("twice", Made(hits), 5.0).search("?", 5, None, 5.0)
    assert [hit.text for hit in call.hits] == ["first", "other"]


async def test_a_fault_of_a_library_is_a_failure_of_the_arm() -> None:
    arm = RemoteArm("odd", Made(KeyError(SECRET)), 5.0)
    call = await arm.search("?", 5, None, 5.0)
    assert (call.outcome, call.reason) == ("failed", "failed (KeyError)")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inside: (
        st.lists(inside, max_size=3)
        | st.dictionaries(
            st.sampled_from(["found", "hits", "key", "body", "name", "points", "facts"]),
            inside,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON | JSON.map(lambda hits: {"found": {"hits": [hits, hits]}}))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_whatever_comes_is_hits_or_a_failure(opened: Open, remote: Remote, reply: object) -> None:
    remote.reply = reply
    call = asyncio.run(ask(opened()))
    assert call.outcome in ("ok", "garbled")
    assert bool(call.reason) == (call.outcome == "garbled")
    json.dumps([(hit.text, hit.score, hit.metadata) for hit in call.hits], allow_nan=False)


@pytest.mark.parametrize(
    ("id_", "text", "score"),
    [
        *[(None, "t", 1), (True, "t", 1), ("", "t", 1), ("i" * 2_049, "t", 1), ("a", " ", 1)],
        *[("a", None, 1), ("a", "t", "1"), ("a", "t", float("nan")), ("a", "t", 10**400)],
    ],
)
def test_a_hit_without_what_it_needs_is_garbled(id_: object, text: object, score: object) -> None:
    with pytest.raises(ArmError, match="unreadable reply"):
        remote_hit(id_, text, "", score)


def test_a_hit_can_be_sent_on() -> None:
    hit = remote_hit(7, "\ud800 text", None, None, {"a": [1, "\ud800"], "b": {}, "c": None})
    assert (hit.id, hit.text, hit.title) == ("7", "? text", "")
    assert hit.metadata == {"a": [1, "?"]}


def state_of(breaker: Breaker) -> BreakerState:
    return breaker.state


def test_a_breaker_opens_after_failures_in_a_row_and_tries_once() -> None:
    now = [0.0]
    breaker = Breaker(3, 10.0, lambda: now[0])
    for failed in (True, True, False, True, True):
        breaker.begin()
        breaker.fail() if failed else breaker.succeed()
    assert state_of(breaker) == BreakerState.CLOSED
    breaker.fail()
    assert (state_of(breaker), breaker.failures) == (BreakerState.OPEN, 3)
    now[0] = 10.0
    assert state_of(breaker) == BreakerState.HALF_OPEN
    breaker.begin()
    assert state_of(breaker) == BreakerState.OPEN  # while the trial is under way
    now[0] = 11.0
    breaker.fail()
    now[0] = 20.0
    assert state_of(breaker) == BreakerState.OPEN
    now[0] = 21.0
    breaker.begin()
    breaker.succeed()
    assert (state_of(breaker), breaker.failures) == (BreakerState.CLOSED, 0)


def test_a_trial_that_was_given_up_is_followed_by_another_after_the_same_time() -> None:
    now = [0.0]
    breaker = Breaker(1, 1.0, lambda: now[0])
    breaker.fail()
    now[0] = 1.0
    breaker.begin()
    assert state_of(breaker) == BreakerState.OPEN
    now[0] = 2.0
    assert state_of(breaker) == BreakerState.HALF_OPEN


def test_a_part_of_the_time_is_left_for_the_reply() -> None:
    assert (usable(1.0), usable(60.0)) == (0.85, 59.25)
