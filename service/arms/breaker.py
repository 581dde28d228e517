"""A circuit breaker: what failed again and again is left alone for a while."""

from collections.abc import Callable
from enum import StrEnum
from time import monotonic


class BreakerState(StrEnum):
    """Of a breaker: calls go through, none does, or a single one tries."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


class Breaker:
    """Counts failures in a row; used by one event loop."""

    def __init__(
        self, failures: int, seconds: float, clock: Callable[[], float] = monotonic
    ) -> None:
        """Begin closed; open for so many seconds after so many failures."""
        self._failures = failures
        self._seconds = seconds
        self._clock = clock
        self._count = 0
        self._opened: float | None = None
        self._trying = False

    @property
    def state(self) -> BreakerState:
        """As it is now."""
        if self._opened is None:
            return BreakerState.CLOSED
        waited = self._clock() - self._opened >= self._seconds
        return BreakerState.HALF_OPEN if waited else BreakerState.OPEN

    @property
    def failures(self) -> int:
        """In a row, until now."""
        return self._count

    def admits(self) -> bool:
        """Whether a call may go through; `enter` makes it."""
        return self.state == BreakerState.CLOSED or (
            self.state == BreakerState.HALF_OPEN and not self._trying
        )

    def enter(self) -> None:
        """A call begins."""
        self._trying = self.state == BreakerState.HALF_OPEN

    def succeed(self) -> None:
        """It answered."""
        self._count, self._opened, self._trying = 0, None, False

    def fail(self) -> None:
        """It failed, and that speaks against whoever was called."""
        self._count += 1
        if self._count >= self._failures or self.state == BreakerState.HALF_OPEN:
            self._opened = self._clock()
        self._trying = False

    def leave(self) -> None:
        """It ended without telling anything."""
        self._trying = False
