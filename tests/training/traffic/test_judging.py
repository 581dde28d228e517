"""From a server's log to thresholds: served, asked, rated, and tuned on a small town."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from service.app import build
from service.cli import run
from service.settings import load_settings
from training.traffic.judged import NEEDED

STREETS = NEEDED // 2 + 5
Town = Callable[..., Path]
Wye = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def _no_encoder(monkeypatch: pytest.MonkeyPatch, reading_analyser: type) -> None:
    monkeypatch.setattr("router.container.Analyser", reading_analyser)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory, town: Town) -> Path:
    return town(tmp_path_factory.mktemp("town") / "town", streets=STREETS)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory, dataset: Path, reading_analyser: type) -> Path:
    folder = tmp_path_factory.mktemp("index") / "index"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("router.container.Analyser", reading_analyser)
        assert run(["index", str(dataset), "--index", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def log(
    tmp_path_factory: pytest.TempPathFactory,
    dataset: Path,
    index: Path,
    router: Path,
    reading_analyser: type,
) -> Path:
    """What is left of an afternoon: every question asked, the gold that was shown marked."""
    path = tmp_path_factory.mktemp("log") / "requests.jsonl"
    lines = (dataset / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    questions = {row["_id"]: row["text"] for row in map(json.loads, lines)}
    gold: dict[str, set[str]] = {}
    for qrels in sorted((dataset / "qrels").glob("*.tsv")):
        for line in qrels.read_text(encoding="utf-8").splitlines():
            id_, passage, _ = line.split("\t")
            gold.setdefault(id_, set()).add(passage)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("router.container.Analyser", reading_analyser)
        patch.setenv("WYE_INDEX", str(index))
        patch.setenv("WYE_ROUTER__MODEL", str(router))
        patch.setenv("WYE_SERVE__REQUEST_LOG", str(path))
        with TestClient(build(load_settings()), base_url="http://localhost") as client:
            while client.get("/ready").status_code != 200:
                time.sleep(0.01)
            for id_, text in questions.items():
                reply = client.post("/v1/retrieve", json={"question": text}).json()
                shown = [one["id"] for one in reply["passages"] if one["id"] in gold[id_]]
                said = {"request_id": reply["request_id"], "rating": "good", "passages": shown}
                assert client.post("/v1/feedback", json=said).status_code == 201
    return path


@pytest.fixture(scope="module")
def router(
    tmp_path_factory: pytest.TempPathFactory, handmade_router: Callable[[Path, str, float], Path]
) -> Path:
    return handmade_router(tmp_path_factory.mktemp("models"), "words", 8.0)


def test_x(
    log: Path, index: Path, router: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "t.json"
    print(log.read_text()[:3000])
    code = run(
        [
            "tune",
            "--from-log",
            str(log),
            "--router",
            str(router),
            "--index",
            str(index),
            "--out",
            str(out),
            "--cache",
            str(tmp_path / "cache"),
            "--no-elsewhere",
        ]
    )
    c = capsys.readouterr()
    print(c.out, c.err)
    print(out.read_text())
    assert 0
