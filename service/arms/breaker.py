"""A circuit breaker: after repeated failures, no calls are made for a while."""

from collections.abc import Callable
from enum import StrEnum
from time import monotonic


class BreakerState(StrEnum):
    """State of a breaker: it admits all calls, none, or a single one as a trial."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


class Breaker:
    """Counts failures in a row; used by one event loop.

    Attributes:
        failures: Failures in a row until now.
    """

    def __init__(
        self, failures: int, seconds: float, clock: Callable[[], float] = monotonic
    ) -> None:
        """Begin closed.

        Args:
            failures: Failures in a row that open it.
            seconds: How long it stays open.
        """
        self.failures = 0
        self._limit = failures
        self._seconds = seconds
        self._clock = clock
        self._opened: float | None = None
        self._trying = False

    @property
    def state(self) -> BreakerState:
        """The present state."""
        if self._opened is None:
            return BreakerState.CLOSED
        waited = self._clock() - self._opened >= self._seconds
        return BreakerState.HALF_OPEN if waited else BreakerState.OPEN

    def admits(self) -> bool:
        """Whether a call may begin; `enter` begins it."""
        return self.state == BreakerState.CLOSED or (
            self.state == BreakerState.HALF_OPEN and not self._trying
        )

    def enter(self) -> bool:
        """Note that a call begins, and return whether it is the trial; `leave` ends it."""
        is_trial = self.state == BreakerState.HALF_OPEN
        self._trying = self._trying or is_trial
        return is_trial

    def succeed(self) -> None:
        """Note that a call was answered."""
        self.failures, self._opened = 0, None

    def fail(self) -> None:
        """Note that a call failed through the service's fault."""
        self.failures += 1
        if self.failures >= self._limit or self.state == BreakerState.HALF_OPEN:
            self._opened = self._clock()

    def leave(self, *, is_trial: bool) -> None:
        """Note that a call ended, whatever its outcome; one that began earlier ends no trial."""
        if is_trial:
            self._trying = False
