import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

from backends.types import AnalysedPassage, Passage
from benchmarks.hashing import HashAnalyser
from service.batching import Batcher
from service.ingest.writer import InterleavedAnalyser, StoppedError

pytestmark = pytest.mark.anyio


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


@asynccontextmanager
async def slices(
    analyser: Noting, is_stopped: Callable[[], bool] = lambda: False
) -> AsyncIterator[InterleavedAnalyser]:
    batcher: Batcher[int, int, int] = Batcher(lambda key, entries: [], batch=1, queue=1)
    try:
        yield InterleavedAnalyser(analyser, batcher, words=10, is_stopped=is_stopped)
    finally:
        await batcher.close()


def assert_same(found: Sequence[AnalysedPassage], given: list[Passage]) -> None:
    for one, other in zip(found, HashAnalyser().analyse(given), strict=True):
        assert np.array_equal(one.vector, other.vector)


async def test_slices_are_short_and_give_the_same_as_the_whole() -> None:
    analyser = Noting()
    given = passages(4, 4, 4, 25, 1, 10, 3)
    names = [f"Town{n}" for n in range(150)]
    async with slices(analyser) as made:
        found = await asyncio.to_thread(made.analyse, given)
        vectors = await asyncio.to_thread(made.encode_surfaces, names)
    assert analyser.given == [2, 1, 1, 1, 1, 1]
    assert {name.partition("_")[0] for name in analyser.threads} == {"wye-model"}
    assert_same(found, given)
    assert np.array_equal(vectors, HashAnalyser().encode_surfaces(names))


async def test_they_end_when_told_to() -> None:
    analyser = Noting()
    async with slices(analyser, lambda: len(analyser.given) == 2) as made:
        with pytest.raises(StoppedError):
            await asyncio.to_thread(made.analyse, passages(9, 9, 9))
    assert analyser.given == [1, 1]


async def test_what_was_prepared_is_not_analysed_again() -> None:
    analyser = Noting()
    given = passages(4, 4, 4)
    async with slices(analyser) as made:
        await made.prepare(given[:2])
        assert analyser.given == [2]
        found = await asyncio.to_thread(made.analyse, given)
    assert analyser.given == [2, 1]
    assert_same(found, given)
