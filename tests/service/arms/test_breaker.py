"""When a breaker lets calls through."""

from wye.service.arms.arm import Breaker, BreakerState


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def state_of(breaker: Breaker) -> BreakerState:
    return breaker.state


def call(breaker: Breaker, *, failed: bool) -> None:
    breaker.begin()
    breaker.fail() if failed else breaker.succeed()


def test_it_opens_after_failures_in_a_row_and_tries_once() -> None:
    clock = Clock()
    breaker = Breaker(3, 10.0, clock)
    for failed in (True, True, False, True, True):
        call(breaker, failed=failed)
    assert state_of(breaker) == BreakerState.CLOSED
    breaker.fail()
    assert (state_of(breaker), breaker.failures) == (BreakerState.OPEN, 3)
    clock.now = 10.0
    assert state_of(breaker) == BreakerState.HALF_OPEN
    breaker.begin()
    assert state_of(breaker) == BreakerState.OPEN  # while the trial is under way
    clock.now = 11.0
    breaker.fail()
    clock.now = 20.0
    assert state_of(breaker) == BreakerState.OPEN
    clock.now = 21.0
    call(breaker, failed=False)
    assert (state_of(breaker), breaker.failures) == (BreakerState.CLOSED, 0)


def test_a_trial_that_was_given_up_is_followed_by_another_after_the_same_time() -> None:
    clock = Clock()
    breaker = Breaker(1, 1.0, clock)
    breaker.fail()
    clock.now = 1.0
    breaker.begin()
    assert state_of(breaker) == BreakerState.OPEN
    clock.now = 2.0
    assert state_of(breaker) == BreakerState.HALF_OPEN
