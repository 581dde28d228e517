"""`wye serve` as a process of its own, with the real models, as a team would run it."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

from tests.fakes import Wye
from tests.live import PATIENCE, Live, until
from wye.router.model_files import save_policy
from wye.router.policy import Policy
from wye.router.session import Session
from wye.router.types import Thresholds
from wye.service.cli import run
from wye.service.http.edge import Scope
from wye.service.http.keys import append_key, new_key
from wye.service.settings import load_settings

ROWS = [
    ("ada", "Ada Lovelace", "Ada Lovelace met Charles Babbage at a party in London in 1833."),
    ("babbage", "Charles Babbage", "Charles Babbage designed the Analytical Engine."),
    ("turin", "Turin", "Babbage gave a talk on his engine in Turin, where Menabrea heard it."),
]
SERVE = ["serve", "--port", "0", "--index"]
NEW = ("plan", "Plan 28", "Plan 28 intends to build the Analytical Engine that Babbage designed.")


def write(folder: Path, *rows: tuple[str, str, str]) -> None:
    path = folder / "corpus.jsonl"
    lines = (json.dumps({"_id": id_, "title": title, "text": text}) for id_, title, text in rows)
    path.write_text("\n".join(lines), encoding="utf-8")
    assert run(["index", str(path), "--index", str(folder / "index")]) == 0


class Running(Live):
    """A server with a key and a request log."""

    def __init__(self, folder: Path, *options: str) -> None:
        secret, key = new_key("ada", [Scope.READ])
        append_key(folder / "keys.txt", key)
        self.log = folder / "requests.jsonl"
        self.answers: list[dict[str, Any]] = []
        super().__init__(
            ["serve", "--index", f"library={folder / 'index'}", *options],
            {
                "WYE_SERVE__KEYS_FILE": str(folder / "keys.txt"),
                "WYE_SERVE__REQUEST_LOG": str(self.log),
                "WYE_SERVE__REFRESH_SECONDS": "0.1",
            },
        )
        headers = {"authorization": f"Bearer {secret}"}
        self.client = httpx.Client(base_url=self.url, headers=headers, timeout=PATIENCE)

    def ask(self, question: str, **changes: Any) -> dict[str, Any]:  # noqa: ANN401
        request = {"question": question, "route": "fusion", **changes}
        reply = self.client.post("/v1/retrieve", json=request)
        assert reply.status_code == 200, reply.text
        body: dict[str, Any] = reply.json()
        self.answers.append(body)
        return body

    def close(self) -> None:
        self.client.close()
        if self.process.poll() is None:
            self.kill()


Start = Callable[..., Running]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with ExitStack() as ends:
        yield lambda *options: ends.enter_context(closing(Running(tmp_path, *options)))


def test_a_day_in_its_life(tmp_path: Path, start: Start) -> None:
    write(tmp_path, *ROWS)
    running = start()
    assert httpx.post(f"{running.url}/v1/retrieve", json={}).status_code == 401
    for route in ("dense", "lexical", "graph", "fusion", "hybrid"):
        body = running.ask("Who designed the Analytical Engine?", route=route)
        assert body["passages"][0]["id"] == "babbage", route
        assert body["timings_ms"]["total"] > 0

    write(tmp_path, *ROWS, NEW)
    until(lambda: running.ask("Plan 28")["index"]["version"] > body["index"]["version"])
    assert running.ask("What does Plan 28 intend?")["passages"][0]["id"] == "plan"

    assert "Ready: the log names" in running.said
    first = json.loads(running.log.read_text().splitlines()[0])
    assert first["question"] == "Who designed the Analytical Engine?"
    finishes_what_it_accepted(running)
    assert running.stop() == 0
    phases = [
        event["event"] for event in running.events if event["event"] in {"loaded", "refreshed"}
    ]
    assert phases == ["loaded", "refreshed"]
    assert "Analytical" not in running.said
    # Whatever it began to answer, up to its end, somebody has the answer of.
    begun = [event["status"] for event in running.events if event.get("path") == "/v1/retrieve"]
    assert sorted(begun) == [200] * len(running.answers) + [401]


def finishes_what_it_accepted(running: Running) -> None:
    """Tell it to stop while two dozen wait; all are answered but those that came too late."""
    with ThreadPoolExecutor(24) as pool:
        waiting = [pool.submit(running.ask, f"Who met {n} Babbages?") for n in range(24)]
        while not any(one.done() for one in waiting):
            time.sleep(0.001)
        running.process.send_signal(signal.SIGTERM)
        errors = [one.exception() for one in waiting]
    assert errors.count(None) >= 1
    late = [error for error in errors if error is not None]
    assert all(isinstance(error, httpx.TransportError) for error in late), late


STUCK = """
import threading
import wye.router.session
import wye.service.service
from tests.hashing import FakeAnalyser

class Stuck(FakeAnalyser):
    def analyse_in_steps(self, passages):
        yield
        if "for ever" in passages[0].text:
            threading.Event().wait()
        return (yield from super().analyse_in_steps(passages))

wye.router.session.Analyser = Stuck
wye.service.service._STALLED_SECONDS = 0.5
from wye.service.cli import main
main()
"""


def test_models_that_hang_are_told_and_who_waits_is_refused_when_it_stops(folder: Path) -> None:
    settings = {"WYE_SERVE__SHUTDOWN_SECONDS": "2"}
    server = Live(["serve", "--index", str(folder)], settings, program=STUCK)
    try:
        with httpx.Client(base_url=server.url, timeout=PATIENCE) as client:

            def put(text: str) -> httpx.Response:
                return client.put("/v1/documents/x", json={"text": text})

            assert client.get("/ready").status_code == 200
            with ThreadPoolExecutor(1) as pool:
                sent = pool.submit(put, "This takes for ever.")
                until(lambda: client.get("/ready").status_code == 503)
                facts = client.get("/ready").json()
                assert facts["status"] == "stalled"
                assert "busy with one batch" in facts["error"]
                assert client.get("/health").status_code == 200
                server.process.terminate()
                reply = sent.result()
                (event,) = until(
                    lambda: [event for event in server.events if event["event"] == "request"]
                )
    finally:
        server.kill()
    assert reply.json()["type"] == "urn:wye:problem:closing"
    assert (event["status"], event["problem"]) == (503, "closing")
    assert "Traceback" not in server.said


# In place of answering, says how many threads each library of matrices has.
_TELLS_THREADS = """
from threadpoolctl import ThreadpoolController
import wye.service.commands.serve
from wye.service.cli import main

def tell(*_):
    blas = ThreadpoolController().select(user_api="blas")
    print(*{library.num_threads for library in blas.lib_controllers})

wye.service.commands.serve._run = tell
main()
"""


@pytest.mark.parametrize("threads", ["1", "2"])
def test_matrices_are_multiplied_on_one_thread_by_default(tmp_path: Path, threads: str) -> None:
    write(tmp_path, *ROWS)
    pools = dict.fromkeys(["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"], threads)
    inherited = {name: value for name, value in os.environ.items() if name not in pools}
    done = subprocess.run(
        [sys.executable, "-c", _TELLS_THREADS, *SERVE, str(tmp_path / "index")],
        env=inherited if threads == "1" else inherited | pools,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        check=True,
    )
    assert done.stdout.split() == [threads]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "Serve what?"),
        (["--index", "/nowhere"], "There is no index at /nowhere"),
        (["--index", "a=/x", "--index", "a=/y"], "Two collections are called 'a'"),
        (["--index", "/x", "--host", "0.0.0.0"], "there is no API key"),
        (["--index", "/x", "--port", "99999"], "65535"),
    ],
)
def test_mistakes_are_told_before_it_serves(wye: Wye, arguments: list[str], says: str) -> None:
    code, _, err = wye("serve", "--port", "0", *arguments)
    assert (code, says in " ".join(err.split())) == (2, True)


def test_a_port_that_is_taken_is_told_before_anything_is_loaded(wye: Wye) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        code, _, said = wye("serve", "--index", "/nowhere", "--port", port)
        assert said.startswith(f"Error: 127.0.0.1 port {port} cannot be used (Address already")
        assert (code, "Loading" in said, said.count("\n")) == (2, False, 1)


@pytest.mark.usefixtures("fake_models")
@pytest.mark.parametrize(
    ("setting", "says"),
    [
        (("ROUTER__MODEL", "nobody/v1"), "There is no router 'nobody/v1'"),
        (("ROUTER__THRESHOLDS", "{folder}/missing.json"), "missing.json' cannot be read"),
        (("ROUTER__THRESHOLDS", "{folder}/other.json"), "thresholds for the router 'another/v1'"),
        (("RELEVANCE__MODEL", "nope"), "There is no relevance model 'nope'"),
    ],
)
def test_a_model_that_cannot_be_used_is_told_before_anything_is_served(
    wye: Wye, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, setting: tuple[str, str], says: str
) -> None:
    Session.create(load_settings(), tmp_path / "index").close()
    save_policy(tmp_path / "other.json", Policy(Thresholds(0.1, 0.2), router="another/v1"), {})
    name, value = setting
    monkeypatch.setenv(f"WYE_{name}", value.format(folder=tmp_path))
    code, _, err = wye(*SERVE, f"a={tmp_path}/index")
    said = " ".join(err.split())
    assert (code, says in said, "Loading" in said) == (2, True, False)
