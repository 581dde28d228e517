"""What a server logs is what `wye tune --from-log` reads."""

import errno
import json
import os
from pathlib import Path

import numpy as np
import pytest

from tests.service.fakes import Library, Serve
from wye.router.model_files import TrainedRouter, save_router
from wye.router.policy import Policy
from wye.router.scorer import Linear, Scorer, Standard
from wye.router.types import Route, Thresholds
from wye.service.cli import run

RIVER = {"question": "Into which sea does the river of Mostar flow"}


@pytest.fixture
def router(tmp_path: Path) -> Path:
    """By the name under which the library decides."""
    scorer = Scorer(
        names=("words",),
        columns=np.array([0]),
        width=1,
        standard=Standard(np.zeros(1), np.ones(1), 5.0),
        members=(Linear({"head.weight": np.ones((1, 1)), "head.bias": np.zeros(1)}),),
    )
    draft = TrainedRouter(scorer, Policy(Thresholds(0.4, 0.7)), "words", "# Words\n", {}, {})
    return save_router(tmp_path / "models", "words", draft)


def test_a_log_is_tuned_from(
    serve: Serve, log: Path, router: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    libraries = {"default": Library(), "other": Library()}
    client = serve(engines=libraries, request_log=log)
    ids, here = [], {"collection": "default"}
    for question in ("Which river", "Which river is it then", RIVER["question"]) * 2:
        reply = client.post("/v1/retrieve", json={"question": question, **here})
        ids.append(reply.json()["request_id"])
    client.post("/v1/retrieve", json={**RIVER, **here, "route": "graph"})
    client.post("/v1/retrieve", json={**RIVER, "collection": "other"})
    client.post("/v1/retrieve", json={**RIVER, **here, "max_latency_ms": 2})
    client.post("/v1/answer", json={**RIVER, **here})
    for query in ("Which river", "Which sea"):
        client.post("/v1/vector_stores/default/search", json={"query": query})
    libraries["default"].failing = {Route.AUTO}
    client.post("/v1/retrieve", json={**RIVER, **here})
    rating = {"rating": "good", "passages": ["neretva"]}
    for id_ in (ids[2], ids[5]):
        rated = {"request_id": id_, **rating}
        assert client.post("/v1/feedback", json=rated).status_code == 201
    with log.open("a", encoding="utf-8") as file:
        unknown = {
            "request_id": "x",
            "time": "2026-01-01T00:00Z",
            "key": "local",
            "comment": "",
            **rating,
        }
        file.write(json.dumps({"kind": "feedback", **unknown}) + "\n")
        file.write('{"kind": "retrieval", "requ')

    command = ["tune", "--from-log", str(log), "--router", str(router)]
    assert run(command) == 2
    assert "default (12), other (1); name one with --collection." in capsys.readouterr().err
    assert run([*command, "--collection", "default"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "9 decisions by words/v1 for collection 'default'" in out
    assert "1 different questions with passages marked as answers" in out
    for left_out in (
        "1 asked of another collection",
        "1 route named by the caller",
        "1 no decision: the router failed, was late, or had no passages",
        "1 max_latency_ms may overrule thresholds",
        f"1 no whole line of a request log, in {log}",
        "1 feedback on an unknown request, or on that of another key",
    ):
        assert f"left out: {left_out}" in out


def test_a_log_that_cannot_be_written_costs_no_answer(
    serve: Serve,
    library: Library,
    log: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    client = serve(library, request_log=log)
    write, is_full = os.write, True

    def into_a_full_disk(descriptor: int, data: bytes) -> int:
        if is_full and b'"request_id"' in data:
            if log.stat().st_size:
                raise OSError(errno.ENOSPC, "No space left on device")
            return write(descriptor, data[:9])
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", into_a_full_disk)
    body = {**RIVER, "route": "dense"}
    assert [client.post("/v1/retrieve", json=body).status_code for _ in range(3)] == [200] * 3
    assert client.post("/v1/answer", json=RIVER).status_code == 200
    refused = client.post("/v1/feedback", json={"request_id": "x", "rating": "good"})
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "30")
    assert str(log.parent) not in refused.text
    ready = client.get("/ready")
    assert ready.status_code == 200
    assert ready.json()["request_log"] == (
        "cannot be written (No space left on device); its lines are lost"
    )
    assert "wye_request_log_lost_total 5.0" in client.get("/metrics").text
    is_full = False
    assert client.post("/v1/retrieve", json=body).status_code == 200
    assert "request_log" not in client.get("/ready").json()
    torn, whole = log.read_text(encoding="utf-8").splitlines()
    assert (len(torn), json.loads(whole)["kind"]) == (9, "retrieval")
    rating = [record.message for record in caplog.records if "request log" in record.message]
    assert rating == ["request log not written", "request log written again"]


def test_a_device_that_is_always_full(serve: Serve, library: Library) -> None:
    client = serve(library, request_log=Path("/dev/full"))
    assert client.post("/v1/retrieve", json=RIVER).status_code == 200
    assert "No space left" in client.get("/ready").json()["request_log"]
