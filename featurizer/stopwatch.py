"""Wall time by stage."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter


class Stopwatch:
    """Adds up the wall time of stages in `seconds`, failed ones included."""

    def __init__(self, *stages: str) -> None:
        self.seconds = dict.fromkeys(stages, 0.0)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time that the body takes to a stage."""
        start = perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + perf_counter() - start
