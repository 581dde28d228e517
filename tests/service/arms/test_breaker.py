"""When a breaker lets calls through."""

import pytest

from wye.service.arms.arm import Breaker, BreakerState


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def call(breaker: Breaker, *, failed: bool) -> None:
    is_trial = breaker.enter()
    breaker.fail() if failed else breaker.succeed()
    breaker.leave(is_trial=is_trial)


def test_it_opens_after_failures_in_a_row_and_tries_once() -> None:
    clock = Clock()
    breaker = Breaker(3, 10.0, clock)
    for failed in (True, True, False, True, True):
        call(breaker, failed=failed)
    assert breaker.admits()
    breaker.fail()
    assert (breaker.state, breaker.admits(), breaker.failures) == (BreakerState.OPEN, False, 3)
    clock.now = 10.0
    assert (breaker.state, breaker.admits()) == (BreakerState.HALF_OPEN, True)
    is_trial = breaker.enter()
    assert (is_trial, breaker.admits()) == (True, False)
    breaker.fail()
    breaker.leave(is_trial=is_trial)
    assert breaker.state == BreakerState.OPEN
    clock.now = 20.0
    assert breaker.admits()
    call(breaker, failed=False)
    assert (breaker.state, breaker.failures) == (BreakerState.CLOSED, 0)


def test_a_try_that_was_given_up_leaves_room_for_another() -> None:
    clock = Clock()
    breaker = Breaker(1, 1.0, clock)
    breaker.fail()
    clock.now = 1.0
    breaker.leave(is_trial=breaker.enter())
    assert breaker.admits()


@pytest.mark.parametrize("fails", [False, True])
def test_a_call_that_began_earlier_ends_no_trial(fails: bool) -> None:
    clock = Clock()
    breaker = Breaker(1, 1.0, clock)
    earlier = breaker.enter()
    call(breaker, failed=True)
    clock.now = 1.0
    trial = breaker.enter()
    if fails:
        breaker.fail()
    breaker.leave(is_trial=earlier)
    clock.now = 2.0
    assert (breaker.state, breaker.admits()) == (BreakerState.HALF_OPEN, False)
    breaker.leave(is_trial=trial)
    assert breaker.admits()
