import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import httpx2 as httpx
import numpy as np
import pytest

import wye.service.ingest.writer
from tests.hashing import FakeAnalyser, HashAnalyser
from tests.live import PATIENCE, listening, until
from wye.backends.types import AnalysedPassage, Passage
from wye.featurizer.analyser import Analyser
from wye.router.session import Session
from wye.service.app import build
from wye.service.batching import Batcher
from wye.service.ingest.writer import InterleavedAnalyser, StoppedError
from wye.service.settings import ServiceSettings

pytestmark = pytest.mark.anyio


class Noting(HashAnalyser):
    """Notes how many passages were analysed in each slice, and in which thread."""

    def __init__(self, *, delay: float = 0.0) -> None:
        super().__init__(delay=delay)
        self.sizes: list[int] = []
        self.threads: set[str] = set()

    def analyse(self, passages: Any) -> Any:  # noqa: ANN401
        self.sizes[-1] += len(passages)
        self.threads.add(threading.current_thread().name)
        return super().analyse(passages)


def passages(*words: int) -> list[Passage]:
    return [Passage(f"p{n}", "", "Town " * count) for n, count in enumerate(words)]


@asynccontextmanager
async def slices(
    analyser: Noting, is_stopped: Callable[[], bool] = lambda: False
) -> AsyncIterator[InterleavedAnalyser]:
    batcher: Batcher[int, int, int] = Batcher(lambda key, entries: [], batch=1, queue=1, weight=1)

    def check() -> bool:
        if not is_stopped():
            analyser.sizes.append(0)
            return False
        return True

    try:
        yield InterleavedAnalyser(cast("Analyser", analyser), batcher, is_stopped=check)
    finally:
        await batcher.close()


def assert_same(analyses: Sequence[AnalysedPassage], batch: list[Passage]) -> None:
    for one, other in zip(analyses, HashAnalyser().analyse(batch), strict=True):
        assert np.array_equal(one.vector, other.vector)


async def test_slices_are_short_and_the_same_as_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wye.service.ingest.writer, "_SLICE_SECONDS", 0.05)
    analyser = Noting(delay=0.02)
    batch = passages(*range(1, 20))
    names = [f"Town{n}" for n in range(150)]
    async with slices(analyser) as interleaved:
        analyses = await asyncio.to_thread(interleaved.analyse, batch)
        assert sum(analyser.sizes) == len(batch)
        assert max(analyser.sizes) <= 3
        vectors = await asyncio.to_thread(interleaved.encode_surfaces, names)
        assert (await asyncio.to_thread(interleaved.encode_surfaces, [])).shape == (0, 8)
    assert {name.partition("_")[0] for name in analyser.threads} == {"wye-model"}
    assert_same(analyses, batch)
    assert np.array_equal(vectors, HashAnalyser().encode_surfaces(names))


async def test_they_end_when_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wye.service.ingest.writer, "_SLICE_SECONDS", 0)
    analyser = Noting()
    async with slices(analyser, lambda: len(analyser.sizes) == 4) as interleaved:
        with pytest.raises(StoppedError):
            await asyncio.to_thread(interleaved.analyse, passages(9, 9, 9, 9, 9))
    assert sum(analyser.sizes) == 3, "the first slice is up to the first pause"


async def test_what_was_prepared_is_not_analysed_again() -> None:
    analyser = Noting()
    batch = passages(4, 4, 4)
    async with slices(analyser) as interleaved:
        await interleaved.prepare(batch[:2])
        assert sum(analyser.sizes) == 2
        analyses = await asyncio.to_thread(interleaved.analyse, batch)
    assert sum(analyser.sizes) == 3
    assert_same(analyses, batch)


def test_an_upload_ends_when_its_client_leaves(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "wye")
    gate = threading.Event()
    begun: list[int] = []

    def hold(self: object, passages: Sequence[Passage]) -> Generator[None, None, list[Any]]:
        begun.append(len(passages))
        while not gate.wait(0.02):
            yield
        return HashAnalyser().analyse(passages)

    monkeypatch.setattr(FakeAnalyser, "analyse_in_steps", hold)
    settings = ServiceSettings()
    app = build(settings, {"default": partial(Session.open, settings, folder)})
    with listening(app) as url, httpx.Client(base_url=url, timeout=PATIENCE) as client:
        with pytest.raises(httpx.ReadTimeout):
            httpx.put(f"{url}/v1/documents/left", json={"text": "A bridge."}, timeout=0.3)
        assert begun == [1]

        def requests() -> list[dict[str, Any]]:
            return [vars(r) for r in caplog.records if r.getMessage() == "request"]

        (request,) = until(requests)
        assert (request["status"], request["problem"]) == (499, "gone")
        gate.set()
        assert client.put("/v1/documents/kept", json={"text": "A bridge."}).status_code == 201
        assert client.get("/v1/documents/left").status_code == 404
        counts = client.get("/metrics").text
    assert (
        'wye_http_requests_total{path="/v1/documents/{document:path}",status="499"} 1.0' in counts
    )
