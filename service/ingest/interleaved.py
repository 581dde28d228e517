"""Analysing passages with the models that answer questions, a little at a time."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

import numpy as np

from backends.types import AnalysedPassage, Float32, Passage, PassageAnalyser

_SURFACES = 64


class StoppedError(Exception):
    """The work that this was part of is to end."""


class Call(Protocol):
    """Runs a function in the thread of the models; `Batcher.call` is the real one."""

    def __call__(self, function: Callable[[], Any]) -> Awaitable[Any]:
        """What the function returns."""
        ...


class InterleavedAnalyser:
    """An analyser that takes its turn between two batches of questions, slice by slice.

    The models are large and made for one thread. A second set of them in a process of its own would
    double the memory of each worker, so ingest borrows them: a question waits for one slice at
    most, and a slice is a few hundred words.
    """

    def __init__(
        self,
        reader: PassageAnalyser,
        call: Call,
        *,
        loop: asyncio.AbstractEventLoop,
        words: int,
        is_stopped: Callable[[], bool],
    ) -> None:
        """Wrap an analyser for use in a thread that is neither the models' nor the event loop's.

        Args:
            reader: With the models.
            call: Runs something in their thread.
            loop: To ask for that in.
            words: To a slice, except that a passage is never cut.
            is_stopped: Asked before each slice.
        """
        self._reader = reader
        self._call = call
        self._loop = loop
        self._words = words
        self._is_stopped = is_stopped

    @property
    def dimension(self) -> int:
        """Length d of every vector."""
        return self._reader.dimension

    @property
    def fingerprint(self) -> Mapping[str, str]:
        """What the stored rows depend on."""
        return self._reader.fingerprint

    def analyse(self, passages: Sequence[Passage]) -> list[AnalysedPassage]:
        """One result per passage, in order.

        Raises:
            StoppedError: It is to end.
        """
        found: list[AnalysedPassage] = []
        for part in self._cut(passages):
            found += self._between(lambda part=part: self._reader.analyse(part))  # type: ignore[misc]
        return found

    async def prepare(self, passages: Sequence[Passage]) -> "Prepared":
        """Analyse passages ahead of writing them, for use in the event loop's thread.

        Whoever holds the lock of an index then waits for a disk, not for the models.

        Raises:
            StoppedError: It is to end.
        """
        found: dict[str, AnalysedPassage] = {}
        for part in self._cut(passages):
            if self._is_stopped():
                raise StoppedError
            analysed = await self._call(lambda part=part: self._reader.analyse(part))  # type: ignore[misc]
            found.update(zip((passage.id for passage in part), analysed, strict=True))
        return Prepared(self, found)

    def encode_surfaces(self, surfaces: Sequence[str]) -> Float32:
        """(n, d) unit vectors of entity surfaces, in order.

        Raises:
            StoppedError: It is to end.
        """
        parts = [surfaces[n : n + _SURFACES] for n in range(0, len(surfaces), _SURFACES)]
        return np.concatenate(
            [self._between(lambda part=part: self._reader.encode_surfaces(part)) for part in parts]  # type: ignore[misc]
        )

    def _between(self, function: Callable[[], Any]) -> Any:  # noqa: ANN401 - what it returns
        if self._is_stopped():
            raise StoppedError
        done: Future[Any] = asyncio.run_coroutine_threadsafe(self._ask(function), self._loop)
        return done.result()

    async def _ask(self, function: Callable[[], Any]) -> Any:  # noqa: ANN401 - likewise
        return await self._call(function)

    def _cut(self, passages: Sequence[Passage]) -> Iterator[list[Passage]]:
        part: list[Passage] = []
        room = self._words
        for passage in passages:
            words = len(passage.text.split())
            if part and words > room:
                yield part
                part, room = [], self._words
            part.append(passage)
            room -= words
        if part:
            yield part


class Prepared:
    """An analyser that knows most of the passages it will be given."""

    def __init__(self, slices: InterleavedAnalyser, found: Mapping[str, AnalysedPassage]) -> None:
        """Take what was found; only `InterleavedAnalyser.prepare` makes one."""
        self._slices = slices
        self._found = found

    @property
    def dimension(self) -> int:
        """Length d of every vector."""
        return self._slices.dimension

    @property
    def fingerprint(self) -> Mapping[str, str]:
        """What the stored rows depend on."""
        return self._slices.fingerprint

    def analyse(self, passages: Sequence[Passage]) -> list[AnalysedPassage]:
        """One result per passage, in order; what was not prepared is analysed now.

        Raises:
            StoppedError: It is to end.
        """
        missing = [passage for passage in passages if passage.id not in self._found]
        late = zip(missing, self._slices.analyse(missing), strict=True)
        found = {**self._found, **{passage.id: analysed for passage, analysed in late}}
        return [found[passage.id] for passage in passages]

    def encode_surfaces(self, surfaces: Sequence[str]) -> Float32:
        """(n, d) unit vectors of entity surfaces, in order."""
        return self._slices.encode_surfaces(surfaces)
