import json
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.service.fakes import Library, Serve


def test_feedback_joins_the_reply_it_is_about(serve: Serve, library: Library, log: Path) -> None:
    client = serve(library, request_log=log)
    request = {"question": "What river is it?", "route": "dense"}
    id_ = client.post("/v1/retrieve", json=request).json()["request_id"]
    said = {"request_id": id_, "rating": "bad", "passages": ["tower"], "comment": "no"}
    reply = client.post("/v1/feedback", json=said)
    assert (reply.status_code, reply.json()) == (201, {"status": "recorded", "request_id": id_})
    request, said = map(json.loads, log.read_text().splitlines())
    assert (request["kind"], said["kind"]) == ("retrieval", "feedback")
    assert request["request_id"] == said["request_id"]
    assert (said["rating"], said["passages"]) == ("bad", ["tower"])


def test_a_rating_can_be_taken_back(serve: Serve, library: Library, log: Path) -> None:
    client = serve(library, request_log=log)
    id_ = client.post("/v1/retrieve", json={"question": "A river?"}).json()["request_id"]
    for rating in ("good", "none"):
        said = {"request_id": id_, "rating": rating}
        assert client.post("/v1/feedback", json=said).status_code == 201
    ratings = [json.loads(line)["rating"] for line in log.read_text().splitlines()[1:]]
    assert ratings == ["good", "none"]


def test_feedback_on_what_was_never_asked_is_refused(
    serve: Serve, library: Library, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wye.router.request_log.PIECE", 100)
    client = serve(library, request_log=log)
    ids = [f"n{n}" for n in range(30)]
    for id_ in ids:
        body = {"question": f"Which river is {id_}?"}
        assert client.post("/v1/retrieve", json=body, headers={"x-request-id": id_}).is_success
    said = [client.post("/v1/feedback", json={"request_id": id_, "rating": "bad"}) for id_ in ids]
    assert {reply.status_code for reply in said} == {201}
    for unknown in ("n", "n30", "0"):
        reply = client.post("/v1/feedback", json={"request_id": unknown, "rating": "bad"})
        assert (reply.status_code, "has no question with" in reply.json()["detail"]) == (404, True)


def test_feedback_is_not_lost_in_silence(client: TestClient) -> None:
    reply = client.post("/v1/feedback", json={"request_id": "x", "rating": "good"})
    assert (reply.status_code, "WYE_SERVE__REQUEST_LOG" in reply.json()["detail"]) == (409, True)


@pytest.mark.parametrize(
    "change", [{"request_id": "a b"}, {"rating": "fine"}, {"comment": "x" * 5000}, {"more": 1}]
)
def test_mistakes(serve: Serve, library: Library, log: Path, change: dict[str, object]) -> None:
    client = serve(library, request_log=log)
    said = {"request_id": "x", "rating": "good", **change}
    assert client.post("/v1/feedback", json=said).status_code == 422
    assert log.read_text(encoding="utf-8") == ""
