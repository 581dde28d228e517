import errno
import json
import os
from pathlib import Path

import pytest

from tests.service.fakes import Library, Serve

RIVER = {"question": "Into which sea does the river of Mostar flow"}


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
