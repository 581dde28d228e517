"""A cache of an arm's answers."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from sys import getsizeof
from time import monotonic

from service.arms.types import RemoteHit, RemoteHits

Key = tuple[Hashable, ...]


class Cache:
    """Answers by question, dropped in the order of last use; used by one event loop.

    A key is a tuple of what makes an answer the same, such as the question and the filter.

    Attributes:
        bytes: Memory that they take, estimated.
    """

    def __init__(
        self,
        seconds: float,
        entries: int,
        most_bytes: int,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """Set how long and how much is kept; 0 seconds keeps nothing."""
        self._seconds = seconds
        self._entries = entries
        self._most_bytes = most_bytes
        self._clock = clock
        self._kept: OrderedDict[Key, tuple[float, int, RemoteHits]] = OrderedDict()
        self.bytes = 0

    def __len__(self) -> int:
        """How many answers are kept, including expired ones."""
        return len(self._kept)

    def get(self, key: Key) -> RemoteHits | None:
        """The answer kept for a key; None if there is none or it has expired."""
        found = self._kept.get(key)
        if found is None:
            return None
        ends, _, hits = found
        if ends <= self._clock():
            self._drop(key)
            return None
        self._kept.move_to_end(key)
        return hits

    def put(self, key: Key, hits: RemoteHits) -> None:
        """Keep an answer, unless it alone exceeds the limit of bytes."""
        if key in self._kept:
            self._drop(key)
        size = sum(map(getsizeof, (key, *key))) + sum(map(_size, hits.hits))
        if not self._seconds or size > self._most_bytes:
            return
        self._kept[key] = (self._clock() + self._seconds, size, hits)
        self.bytes += size
        while len(self._kept) > self._entries or self.bytes > self._most_bytes:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: Key) -> None:
        _, size, _ = self._kept.pop(key)
        self.bytes -= size


def _size(hit: RemoteHit) -> int:
    parts = [hit, hit.id, hit.text, hit.title, hit.metadata]
    for name, value in hit.metadata.items():
        parts += [name, value, *(value if isinstance(value, list) else ())]
    return sum(map(getsizeof, parts))
