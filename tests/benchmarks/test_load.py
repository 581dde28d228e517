import asyncio
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import harness, load
from benchmarks.__main__ import main


class Answers(BaseHTTPRequestHandler):
    """Every third question is refused."""

    asked = 0
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        type(self).asked += 1
        self.send_response(200 if type(self).asked % 3 else 503)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    Answers.asked = 0
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


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
