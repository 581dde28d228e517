"""Limits on what one client can ask of the server: rate by key, and length of a body."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import monotonic

from starlette.exceptions import HTTPException
from starlette.types import Message, Receive

from service.problems import Problem


@dataclass(slots=True)
class _Bucket:
    tokens: float
    filled: float


class RateLimit:
    """A token bucket for each key: so many requests a second on average, so many at once."""

    def __init__(
        self, per_second: float, burst: int, clock: Callable[[], float] = monotonic
    ) -> None:
        """Fill every bucket.

        Args:
            per_second: Requests that a key may send on average; 0 sets no limit.
            burst: Requests that it may send at once.
            clock: Seconds that only go forward.
        """
        self._per_second = per_second
        self._burst = burst
        self._clock = clock
        self._buckets: dict[str, _Bucket] = {}

    def take(self, name: str) -> None:
        """Count one request.

        Args:
            name: Of the key; there are as many buckets as keys, not as many as clients please.

        Raises:
            Problem: 429 when the bucket is empty; says when it will not be.
        """
        if not self._per_second:
            return
        now = self._clock()
        bucket = self._buckets.setdefault(name, _Bucket(self._burst, now))
        grown = bucket.tokens + (now - bucket.filled) * self._per_second
        bucket.tokens, bucket.filled = min(float(self._burst), grown), now
        if bucket.tokens < 1:
            raise Problem(
                429,
                "rate-limit",
                f"The key '{name}' may send {self._per_second:g} requests a second. Try again in "
                "the seconds that Retry-After gives.",
                retry_after=(1 - bucket.tokens) / self._per_second,
            )
        bucket.tokens -= 1


class BodyLimit:
    """Refuses bodies that are too long, by what they say and by what they are."""

    def __init__(self, most: int, larger: Mapping[str, int] | None = None) -> None:
        """Set limits.

        Args:
            most: Bytes.
            larger: Beginnings of paths with limits of their own.
        """
        self._most = most
        self._larger = dict(larger or {})

    def of(self, path: str) -> int:
        """Most bytes of a body sent to a path."""
        return next(
            (limit for start, limit in self._larger.items() if path.startswith(start)), self._most
        )

    def check(self, path: str, content_length: str | None) -> None:
        """Refuse a body for what its head says.

        Raises:
            HTTPException: 413.
        """
        if content_length is not None and content_length.isdigit():
            self._refuse(path, int(content_length))

    def counting(self, path: str, receive: Receive) -> Receive:
        """The same stream of a body, but it ends with a problem when it grows too long."""
        seen = 0

        async def limited() -> Message:
            nonlocal seen
            message = await receive()
            if message["type"] == "http.request":
                seen += len(message.get("body", b""))
                self._refuse(path, seen)
            return message

        return limited

    def _refuse(self, path: str, length: int) -> None:
        most = self.of(path)
        if length > most:
            # Of this kind, since FastAPI takes others for JSON that it cannot read.
            raise HTTPException(413, f"A body may have {most:,} bytes here. Send less at a time.")
