"""`wye serve` as a process of its own, with the real models, as a team would run it."""

import json
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from openai import OpenAI

from backends.sources import refuse
from router.journal import read_journal
from service.cli import run
from service.commands.index import ingest_files
from service.keys import Scope, append_key, new_key
from service.settings import load_settings
from tests.live import PATIENCE, Live

ROWS = [
    ("ada", "Ada Lovelace", "Ada Lovelace met Charles Babbage at a party in London in 1833."),
    ("babbage", "Charles Babbage", "Charles Babbage designed the Analytical Engine."),
    ("turin", "Turin", "Babbage gave a talk on his engine in Turin, where Menabrea heard it."),
]
NEW = ("plan", "Plan 28", "Plan 28 intends to build the Analytical Engine that Babbage designed.")
# Too late for the port, or in its backlog when it closed; neither was ever accepted.
TOO_LATE = (httpx.ConnectError, httpx.ReadError, httpx.RemoteProtocolError)


def write(folder: Path, *rows: tuple[str, str, str]) -> None:
    path = folder / "corpus.jsonl"
    lines = (json.dumps({"_id": id_, "title": title, "text": text}) for id_, title, text in rows)
    path.write_text("\n".join(lines), encoding="utf-8")
    ingest_files(load_settings(index=folder / "index"), [path], refuse)


class Running(Live):
    """A server with a key and a request log."""

    def __init__(self, folder: Path) -> None:
        secret, key = new_key("ada", [Scope.READ])
        append_key(folder / "keys.txt", key)
        self.log = folder / "requests.jsonl"
        self.answers: list[dict[str, Any]] = []
        super().__init__(
            ["serve", "--index", f"library={folder / 'index'}"],
            {
                "WYE_SERVE__KEYS_FILE": str(folder / "keys.txt"),
                "WYE_SERVE__REQUEST_LOG": str(self.log),
                "WYE_SERVE__REFRESH_SECONDS": "0.1",
            },
        )
        headers = {"authorization": f"Bearer {secret}"}
        self.client = httpx.Client(base_url=self.url, headers=headers, timeout=PATIENCE)
        self.openai = OpenAI(base_url=f"{self.url}/v1", api_key=secret, max_retries=0)

    def ask(self, question: str, **changes: Any) -> dict[str, Any]:  # noqa: ANN401
        asked = {"question": question, "route": "fusion", **changes}
        reply = self.client.post("/v1/retrieve", json=asked)
        assert reply.status_code == 200, reply.text
        body: dict[str, Any] = reply.json()
        self.answers.append(body)
        return body

    def close(self) -> None:
        self.client.close()
        self.openai.close()
        if self.process.poll() is None:
            self.kill()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    write(tmp_path, *ROWS)
    server = Running(tmp_path)
    yield server
    server.close()


def test_a_day_in_its_life(running: Running, tmp_path: Path) -> None:
    assert httpx.post(f"{running.url}/v1/retrieve", json={}).status_code == 401
    for route in ("dense", "lexical", "graph", "fusion", "hybrid"):
        body = running.ask("Who designed the Analytical Engine?", route=route)
        assert body["passages"][0]["id"] == "babbage", route
        assert body["timings_ms"]["total"] > 0

    reply = running.openai.chat.completions.create(
        model="wye-dense", messages=[{"role": "user", "content": "Who designed the engine?"}]
    )
    assert "Charles Babbage designed the Analytical Engine. [" in str(
        reply.choices[0].message.content
    )
    page = running.openai.vector_stores.search(
        "library",
        query="a party in London",
        ranking_options={"ranker": "wye-dense"},  # type: ignore[arg-type]
    )
    assert page.data[0].file_id == "ada"

    write(tmp_path, *ROWS, NEW)
    give_up = time.monotonic() + PATIENCE
    while running.ask("Plan 28")["index"]["version"] == body["index"]["version"]:
        assert time.monotonic() < give_up
        time.sleep(0.05)
    assert running.ask("What does Plan 28 intend?")["passages"][0]["id"] == "plan"

    entries = list(read_journal(running.log))
    assert entries[0].values["question"] == "Who designed the Analytical Engine?"
    finishes_what_it_accepted(running)
    assert running.stop() == 0
    kept = [event["event"] for event in running.events if event["event"] in {"loaded", "refreshed"}]
    assert kept == ["loaded", "refreshed"]
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
    assert all(isinstance(error, TOO_LATE) for error in late), late


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "Serve what?"),
        (["--index", "/nowhere"], "There is no index at /nowhere"),
        (["--index", "a=/x", "--index", "a=/y"], "Two collections are called 'a'"),
        (["--index", "/x", "--host", "0.0.0.0"], "there is no API key"),
        (["--index", "/x", "--port", "99999"], "65535"),
        (["--index", "/x", "--workers", "0"], "1"),
    ],
)
def test_mistakes_are_told_before_anything_is_served(
    capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert run(["serve", *arguments]) == 2
    assert says in " ".join(capsys.readouterr().err.split())
