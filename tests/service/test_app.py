"""Everything wired together, with containers but without an encoder."""

import json
import re
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from tests.fakes import ReadingAnalyser, Router
from tests.live import inside, until
from tests.service.fakes import retrieve
from wye.backends.store.ingest import ingest
from wye.backends.types import Passage
from wye.featurizer.analyser import AnalyserSettings
from wye.router.model_files import save_policy
from wye.router.policy import Policy
from wye.router.session import Session
from wye.router.settings import RoutingSettings, load_settings
from wye.router.types import Route, Thresholds
from wye.service.app import CONSOLE, ConsoleFiles, build
from wye.service.settings import ServeSettings, ServiceSettings

QUESTION = "Which of the two engines that Babbage built did Ada describe in 1843?"


class Life:
    """What became of the analysers of a server."""

    def __init__(self) -> None:
        self.made = 0
        self.closed = 0


@pytest.fixture
def life(monkeypatch: pytest.MonkeyPatch) -> Life:
    counted = Life()

    class Counting(ReadingAnalyser):
        def __init__(self, settings: AnalyserSettings) -> None:
            super().__init__(settings)
            counted.made += 1

        def close(self) -> None:
            counted.closed += 1

    monkeypatch.setattr("wye.router.session.Analyser", Counting)
    return counted


@pytest.fixture
def settings(tmp_path: Path, life: Life, handmade_router: Router) -> ServiceSettings:
    for name in "ab":
        target = Session.create(load_settings(), tmp_path / name)
        ingest(target.index, [Passage(name, "Ada", "Ada met Babbage.")], target.analyser)
        target.close()
    life.made = life.closed = 0
    models = tmp_path / "models"
    save_policy(tmp_path / "b.json", Policy(Thresholds(1.0, 1.0), Route.LEXICAL), {})
    indexes = tuple(f"{name}={tmp_path / name}" for name in "ab")
    router = RoutingSettings(str(handmade_router(models, "words", 8.0)), str(tmp_path / "b.json"))
    return ServiceSettings(
        serve=ServeSettings(refresh_seconds=0.02, indexes=indexes), router=router
    )


@pytest.fixture
def client(settings: ServiceSettings) -> Iterator[TestClient]:
    with inside(build(settings)) as opened:
        yield opened


def route_in(client: TestClient, collection: str) -> dict[str, Any]:
    route: dict[str, Any] = retrieve(client, QUESTION, collection=collection)["route"]
    return route


def test_what_few_servers_need_is_loaded_by_few() -> None:
    seldom = "{'matplotlib', 'mcp', 'openai', 'opentelemetry.sdk', 'sklearn', 'spacy', 'torch'}"
    program = (
        f"import sys, wye.service.app, wye.service.cli; assert not {seldom} & {{*sys.modules}}"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_thresholds_that_are_replaced_are_followed_where_they_are_used(
    client: TestClient, tmp_path: Path
) -> None:
    assert route_in(client, "b")["path"] == "lexical"
    save_policy(tmp_path / "b.json", Policy(Thresholds(0.0, 1.0), router="handmade/v1"), {})
    until(lambda: route_in(client, "b")["path"] == "fusion")
    assert route_in(client, "b")["thresholds"] == {"low": 0.0, "high": 1.0, "steps": 0.0}
    save_policy(tmp_path / "b.json", Policy(Thresholds(0.0, 0.0), router="another/v1"), {})
    error = until(lambda: client.get("/health").json()["collections"][1].get("error"))
    assert "thresholds for the router 'another/v1'" in error
    assert route_in(client, "b")["path"] == "fusion"
    (tmp_path / "b.json").unlink()
    until(lambda: "b.json' cannot be read" in client.get("/health").text)
    error = client.get("/health").json()["collections"][1]["error"]
    ready = client.get("/ready")
    assert (ready.status_code, ready.json()["collections"][1]["error"]) == (200, error)
    assert ready.json()["collections"][1]["thresholds"] == {"low": 0.0, "high": 1.0, "steps": 0.0}
    assert route_in(client, "b")["path"] == "fusion"


def test_thresholds_that_were_broken_when_it_began_count_once_they_are_not(
    settings: ServiceSettings, tmp_path: Path
) -> None:
    """As for a worker that comes in the place of one that was killed."""
    (tmp_path / "b.json").write_text("{", encoding="utf-8")
    with inside(build(settings)) as client:
        body = {"question": QUESTION, "collection": "b"}
        refused = client.post("/v1/retrieve", json=body)
        assert refused.status_code == 409
        assert "b.json' is not JSON" in refused.json()["detail"]
        assert client.post("/v1/retrieve", json={**body, "route": "graph"}).status_code == 200
        save_policy(tmp_path / "b.json", Policy(Thresholds(0.0, 1.0)), {})
        until(lambda: client.post("/v1/retrieve", json=body).status_code != 409)
        assert route_in(client, "b")["path"] == "fusion"
        assert "error" not in client.get("/health").json()["collections"][1]


def test_no_reply_mixes_thresholds_as_they_are_replaced(client: TestClient, tmp_path: Path) -> None:
    stop = threading.Event()

    def ask() -> list[dict[str, Any]]:
        seen = []
        while not stop.is_set():
            seen.append(route_in(client, "b"))
        return seen

    with ThreadPoolExecutor(3) as pool:
        asking = [pool.submit(ask) for _ in range(3)]
        for turn in range(10):
            both = float(turn % 2)
            save_policy(tmp_path / "b.json", Policy(Thresholds(both, both), Route.LEXICAL), {})
            until(lambda: route_in(client, "b")["thresholds"]["low"] == both)  # noqa: B023
        stop.set()
        seen = [route for each in asking for route in each.result()]
    pairs = {(route["thresholds"]["low"], route["path"]) for route in seen}
    assert pairs == {(0.0, "graph"), (1.0, "lexical")}


def test_an_analyser_is_shared_and_closed_once(settings: ServiceSettings, life: Life) -> None:
    with inside(build(settings)):
        assert (life.made, life.closed) == (1, 0)
    assert (life.made, life.closed) == (1, 1)


def test_files_are_served_where_nothing_else_is(tmp_path: Path) -> None:
    folder = tmp_path / "ui"
    folder.mkdir()
    (folder / "index.html").write_text("<p>hello", encoding="utf-8")
    (folder / "style.css").write_text("p {}", encoding="utf-8")
    (tmp_path / "secret.txt").write_text("no", encoding="utf-8")
    app = FastAPI()
    app.add_api_route("/v1/thing", lambda: {"a": 1})
    app.router.default = ConsoleFiles(directory=folder, html=True)
    client = TestClient(app)
    assert client.get("/").text == "<p>hello"
    assert client.get("/").headers["cache-control"] == "no-cache", "browsers ask anew"
    assert client.get("/style.css").headers["content-type"].startswith("text/css")
    assert client.get("/v1/thing").json() == {"a": 1}
    paths = "/nope.js", "/../secret.txt", "/%2e%2e/secret.txt", "/..%2fsecret.txt", "/style.css%00"
    for path in paths:
        assert client.get(path).status_code == 404
    assert client.post("/").status_code == client.post("/v1/things").status_code == 404
    assert client.post("/v1/thing").status_code == 405


ROOT = Path(__file__).parents[2]


def files_of_the_console() -> list[Path]:
    return sorted(path for path in CONSOLE.rglob("*") if path.is_file())


def test_every_file_of_the_console_is_shipped() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = project["tool"]["setuptools"]["package-data"]["wye.service"]
    shipped = {path for pattern in patterns for path in (ROOT / "service").glob(pattern)}
    assert len(files_of_the_console()) > 10
    assert {path.resolve() for path in files_of_the_console()} <= shipped


def test_the_console_fetches_nothing_from_elsewhere() -> None:
    for path in files_of_the_console():
        addresses = re.findall(r"https?://[^\"'\s)]+", path.read_text(encoding="utf-8"))
        assert {*addresses} <= {"http://www.w3.org/2000/svg"}, path


def test_the_consoles_examples_are_training_questions_of_the_demo() -> None:
    script = (CONSOLE / "js" / "examples.js").read_text(encoding="utf-8")
    shown = re.findall(r'^  "(.+)",$', script, re.MULTILINE)
    demo = ROOT / "service" / "demo"
    judged = (demo / "qrels" / "train.tsv").read_text(encoding="utf-8").splitlines()[1:]
    training = {line.split("\t")[0] for line in judged}
    rows = map(json.loads, (demo / "queries.jsonl").read_text(encoding="utf-8").splitlines())
    assert len(shown) >= 5
    assert {*shown} <= {row["text"] for row in rows if row["_id"] in training}
    known = re.findall(r'"([\w-]+)"', re.findall(r"OF_DEMO = .*", script)[0])
    corpus = (demo / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    assert known
    assert {*known} <= {json.loads(line)["_id"] for line in corpus}
