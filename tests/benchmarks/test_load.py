import asyncio
import itertools
from collections.abc import Iterator
from contextlib import closing, nullcontext
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import harness, load
from benchmarks.__main__ import main
from tests.live import LocalServer, send


@pytest.fixture
def url() -> Iterator[str]:
    """Of a server that refuses every third request."""
    asked = itertools.count(1)

    def answer(to: BaseHTTPRequestHandler, _: bytes) -> None:
        send(to, 200 if next(asked) % 3 else 503, b"{}")

    with closing(LocalServer(answer, "HTTP/1.1")) as server:
        yield server.url


def test_a_sample_counts_what_came(url: str) -> None:
    async def scene() -> load.Sample:
        client = load.LoadClient(url)
        try:
            return await load.open_loop(client, [{"question": "x"}], 300, 0.1)
        finally:
            await client.close()

    sample = asyncio.run(scene())
    assert (len(sample.answered), len(sample.refused), sample.failed) == (20, 10, 0)


def test_every_table_is_printed(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(harness.Server, "of", lambda _: nullcontext(SimpleNamespace(url=url)))
    questions = tmp_path / "questions.txt"
    questions.write_text("one\n\ntwo\n", encoding="utf-8")
    options = ["--seconds", "0.1", "--clients", "1,4"]
    assert main(["load", str(questions), "--index", str(tmp_path), *options]) == 0
    printed = capsys.readouterr().out
    assert "Overload: 4 times" in printed
    assert "\n503 " in printed
