"""When a breaker lets calls through."""

from service.arms.breaker import Breaker, BreakerState


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_it_opens_after_failures_in_a_row_and_tries_once() -> None:
    clock = Clock()
    breaker = Breaker(3, 10.0, clock)
    for failed in (True, True, False, True, True):
        breaker.enter()
        breaker.fail() if failed else breaker.succeed()
    assert breaker.admits()
    breaker.fail()
    assert (breaker.state, breaker.admits(), breaker.failures) == (BreakerState.OPEN, False, 3)
    clock.now = 10.0
    assert (breaker.state, breaker.admits()) == (BreakerState.HALF_OPEN, True)
    breaker.enter()
    assert not breaker.admits()
    breaker.fail()
    assert breaker.state == BreakerState.OPEN
    clock.now = 20.0
    breaker.enter()
    breaker.succeed()
    assert (breaker.state, breaker.failures) == (BreakerState.CLOSED, 0)


def test_a_try_that_was_given_up_leaves_room_for_another() -> None:
    clock = Clock()
    breaker = Breaker(1, 1.0, clock)
    breaker.fail()
    clock.now = 1.0
    breaker.enter()
    breaker.leave()
    assert breaker.admits()
