import json
from functools import partial
from pathlib import Path
from threading import Event

import pytest
from starlette.testclient import TestClient

from tests.live import until
from tests.service.fakes import Library, Serve
from wye.backends.store.repair import repair
from wye.backends.store.versions import manifest_name
from wye.router.types import Route
from wye.service.http.edge import Scope
from wye.service.http.keys import new_key

RIVER = {"question": "What river is it?", "route": "dense"}


def test_it_is_healthy_before_it_is_ready(
    serve: Serve, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_built = Event()
    monkeypatch.setattr(library, "build", lambda: is_built.wait(60))
    client = serve(library, ready=False)
    assert client.get("/health").json()["status"] == "ok"
    assert client.get("/ready").status_code == 503
    # Load balancers may leave the body out.
    assert [client.head(path).status_code for path in ("/health", "/ready")] == [200, 503]
    early = client.post("/v1/retrieve", json=RIVER)
    assert (early.status_code, early.json()["type"]) == (503, "urn:wye:problem:loading")
    assert early.headers["retry-after"] == "1"
    assert client.get("/v1/jobs/job-00000001-80a44288").status_code == 503  # it may be there
    is_built.set()
    until(lambda: client.head("/ready").status_code == 200)
    assert client.post("/ready").status_code == 405
    assert client.get("/ready").json() == {
        "status": "ready",
        "collections": [
            {
                "collection": "default",
                "ready": True,
                "index_version": 1,
                "passages": 3,
                "router": "words/v1",
                "thresholds": {"low": 0.4, "high": 0.7, "steps": 0.0},
            }
        ],
    }


def test_what_cannot_be_loaded_says_why(serve: Serve, library: Library) -> None:
    library.failing = {Route.GRAPH}
    client = serve(library, ready=False)
    until(lambda: "the arm is broken" in client.get("/ready").text)
    (facts,) = client.get("/ready").json()["collections"]
    assert facts == {"collection": "default", "ready": False, "error": "the arm is broken"}
    assert client.get("/ready").status_code == 503
    assert client.get("/health").status_code == 200
    assert "the arm is broken" in client.post("/v1/retrieve", json=RIVER).json()["detail"]


def test_a_line_of_the_keys_file_that_cannot_be_read_is_told(
    serve: Serve, library: Library, tmp_path: Path
) -> None:
    path = tmp_path / "keys.txt"
    (boss, boss_key), (ada, ada_key) = (new_key(name, [Scope.READ]) for name in ("boss", "ada"))
    path.write_text(f"{boss_key}\n{ada_key}\n", encoding="utf-8")
    client = serve(library, keys_file=path)
    headers = {"x-api-key": ada}
    assert "keys" not in client.get("/ready", headers=headers).json()
    path.write_text(f"{ada_key}\ngarbage\n", encoding="utf-8")
    # The file is empty for a moment while it is written, so a refused key alone says too little.
    until(lambda: "keys" in client.get("/ready", headers=headers).json())
    assert client.get("/v1/jobs", headers={"x-api-key": boss}).status_code == 401
    for path_ in ("/ready", "/health"):
        said = client.get(path_, headers=headers).json()["keys"]
        assert said.startswith("Line 2 of the keys file is not a hashed API key")
        assert "keys" not in client.get(path_).json()


def ask(client: TestClient, route: str) -> tuple[int, str]:
    body = {"question": "What spans the Neretva?", "route": route}
    reply = client.post("/v1/retrieve", json=body)
    return reply.status_code, reply.json().get("type", "")


def has_moved_on(client: TestClient, version: int) -> bool:
    (facts,) = client.get("/ready").json()["collections"]
    return facts["index_version"] > version and not {"note", "error"} & {*facts}


@pytest.mark.parametrize("how", ["moved away", "cut short"])
def test_an_index_that_vanishes_is_unavailable(start: Serve, folder: Path, how: str) -> None:
    client = start()
    [data] = (folder / "passages.lance" / "data").iterdir()
    content = data.read_bytes()
    if how == "moved away":
        folder.rename(folder.with_name("elsewhere"))
    else:
        data.write_bytes(content[: len(content) // 2])
    until(lambda: client.get("/ready").status_code == 503)
    said = client.get("/ready").json()
    assert said["status"] == "unavailable"
    assert "data/" in said["collections"][0]["error"]
    refused = client.post("/v1/retrieve", json={"question": "What spans it?", "route": "dense"})
    assert str(folder.parent) not in str(said) + refused.text
    assert client.get("/health").status_code == 200
    for route in ("dense", "lexical", "graph"):
        assert ask(client, route) == (503, "urn:wye:problem:unavailable")
    put = client.put("/v1/documents/x", json={"text": "A bridge."})
    assert put.status_code == 503
    assert client.get("/v1/documents/mostar").status_code == 503
    if how == "moved away":
        folder.with_name("elsewhere").rename(folder)
    else:
        data.write_bytes(content)
    until(lambda: client.get("/ready").status_code == 200)
    assert ask(client, "dense")[0] == 200


def test_a_step_back_is_served_and_told_and_not_written_on_top(start: Serve, folder: Path) -> None:
    client = start()
    put = client.put("/v1/documents/new", json={"text": "A new bridge."})
    version = put.json()["index_version"]
    until(lambda: client.get("/ready").json()["collections"][0]["index_version"] == version)
    (folder / "passages.lance" / manifest_name(version)).unlink()

    def note() -> str:
        facts = client.get("/ready").json()["collections"][0]
        assert facts["index_version"] == version
        return str(facts.get("error", ""))

    until(note)
    assert f"version {version - 1} is used instead of {version}" in note()
    assert ask(client, "dense")[0] == 200
    assert client.get("/ready").status_code == 200
    put = client.put("/v1/documents/x", json={"text": "A bridge."})
    assert (put.status_code, put.json()["type"]) == (503, "urn:wye:problem:unavailable")
    other = start()
    facts = other.get("/ready").json()
    assert (facts["status"], facts["collections"][0]["index_version"]) == ("ready", version - 1)
    assert "`wye repair" in facts["collections"][0]["note"]
    assert str(folder.parent) not in str(facts)
    assert ask(other, "dense")[0] == 200
    repair(folder, dry_run=False)
    for each in (client, other):
        until(partial(has_moved_on, each, version))
    assert client.put("/v1/documents/x", json={"text": "A bridge."}).status_code == 201


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
