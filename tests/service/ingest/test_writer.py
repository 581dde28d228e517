import asyncio
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from backends.types import Passage
from benchmarks.hashing import HashAnalyser
from service.batching import Batcher
from service.ingest.writer import InterleavedAnalyser, StoppedError


class Noting(HashAnalyser):
    """Notes how much it was given at once, and in which thread."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[int] = []
        self.threads: set[str] = set()

    def analyse(self, passages: Any) -> Any:  # noqa: ANN401
        self.given.append(len(passages))
        self.threads.add(threading.current_thread().name)
        return super().analyse(passages)


def passages(*words: int) -> list[Passage]:
    return [Passage(f"p{n}", "", "Town " * count) for n, count in enumerate(words)]


def run(
    analyser: Noting, work: Callable[[InterleavedAnalyser], Any], is_stopped: Callable[[], bool]
) -> Any:  # noqa: ANN401
    """What work gives that is done in a thread of its own, as ingest is."""

    async def inside() -> Any:  # noqa: ANN401
        batcher: Batcher[int, int, int] = Batcher(lambda key, entries: [], batch=1, queue=1)
        slices = InterleavedAnalyser(analyser, batcher, words=10, is_stopped=is_stopped)
        try:
            return await asyncio.to_thread(work, slices)
        finally:
            await batcher.close()

    return asyncio.run(inside())


def test_slices_are_short_and_give_the_same_as_the_whole() -> None:
    analyser = Noting()
    given = passages(4, 4, 4, 25, 1, 10, 3)
    found = run(analyser, lambda slices: slices.analyse(given), lambda: False)
    assert analyser.given == [2, 1, 1, 1, 1, 1]
    assert {name.partition("_")[0] for name in analyser.threads} == {"wye-model"}
    for one, other in zip(found, HashAnalyser().analyse(given), strict=True):
        assert np.array_equal(one.vector, other.vector)
    names = [f"Town{n}" for n in range(150)]
    vectors = run(analyser, lambda slices: slices.encode_surfaces(names), lambda: False)
    assert np.array_equal(vectors, HashAnalyser().encode_surfaces(names))


def test_they_end_when_told_to() -> None:
    analyser = Noting()
    with pytest.raises(StoppedError):
        run(
            analyser,
            lambda slices: slices.analyse(passages(9, 9, 9)),
            lambda: len(analyser.given) == 2,
        )
    assert analyser.given == [1, 1]


def test_what_was_prepared_is_not_analysed_again() -> None:
    analyser = Noting()
    given = passages(4, 4, 4)

    async def inside() -> Any:  # noqa: ANN401
        batcher: Batcher[int, int, int] = Batcher(lambda key, entries: [], batch=1, queue=1)
        slices = InterleavedAnalyser(analyser, batcher, words=10, is_stopped=lambda: False)
        try:
            await slices.prepare(given[:2])
            assert analyser.given == [2]
            return await asyncio.to_thread(slices.analyse, given)
        finally:
            await batcher.close()

    found = asyncio.run(inside())
    assert analyser.given == [2, 1]
    for one, other in zip(found, HashAnalyser().analyse(given), strict=True):
        assert np.array_equal(one.vector, other.vector)
