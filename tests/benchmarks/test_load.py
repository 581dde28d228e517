import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from benchmarks import load
from benchmarks.__main__ import main

METRICS = (
    'wye_stage_seconds_sum{{stage="dense"}} {0}\nwye_stage_seconds_count{{stage="dense"}} {1}\n'
)


class Answers(BaseHTTPRequestHandler):
    """Every third question is refused; a question takes 2 ms by the metrics."""

    asked = 0
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        type(self).asked += 1
        refused = type(self).asked % 3 == 0
        self.reply(503 if refused else 200, json.dumps({"batch": 4}))

    def do_GET(self) -> None:
        models = json.dumps({"data": [{"id": "wye-dense"}]})
        count = type(self).asked
        self.reply(200, models if "models" in self.path else METRICS.format(count * 0.002, count))

    def reply(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

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
    async def scene() -> tuple[load.Sample, dict[str, float]]:
        client = load.LoadClient(url)
        try:
            return await load.spent(client, load.open_loop(client, [{"question": "x"}], 300, 0.1))
        finally:
            await client.close()

    sample, stages = asyncio.run(scene())
    assert (len(sample.answered), len(sample.refused), sample.failed) == (20, 10, 0)
    assert sample.batch == [4] * 20
    assert stages == {"dense": pytest.approx(2.0)}


def test_every_table_is_printed(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    questions = tmp_path / "questions.txt"
    questions.write_text("one\n\ntwo\n", encoding="utf-8")
    options = ["--url", url, "--seconds", "0.1", "--clients", "1,4"]
    assert main(["load", str(questions), "--index", str(tmp_path), *options]) == 0
    printed = capsys.readouterr().out
    assert "No router is installed" in printed
    assert "Milliseconds a question by stage" in printed
    assert "Overload: 4 times" in printed
