from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from starlette.testclient import TestClient

from router.types import Route
from service.keys import Scope, append_key, new_key

if TYPE_CHECKING:
    from tests.service.conftest import Library

Serve = Callable[..., TestClient]
QUESTION = "Into which sea does the river beneath the bridge flow?"


def read(client: TestClient) -> dict[str, Any]:
    reply = client.get("/v1/stats")
    assert reply.status_code == 200, reply.text
    body: dict[str, Any] = reply.json()
    return body


def test_before_the_first_question_there_is_nothing(client: TestClient) -> None:
    body = read(client)
    assert (body["answered"], body["routes"], body["degraded"]) == (0, {}, {})
    assert body["collections"] == [
        {
            "collection": "default",
            "scores": [],
            "thresholds": {"low": 0.4, "high": 0.7},
            "simple": "dense",
            "latency_ms": {},
        }
    ]
    assert body["questions"] is None


def test_answers_are_counted_by_the_route_that_gave_them(serve: Serve, library: "Library") -> None:
    client = serve(library)
    for question in (QUESTION, QUESTION, "What river?"):
        client.post("/v1/retrieve", json={"question": question})
    library.failing = {Route.GRAPH}
    client.post("/v1/retrieve", json={"question": "x", "route": "graph"})
    body = read(client)
    assert {route: times["count"] for route, times in body["routes"].items()} == {
        "dense": 2,
        "graph": 2,
    }
    assert body["routes"]["graph"]["share"] == 0.5
    assert 0 < body["routes"]["graph"]["p50_ms"] <= body["routes"]["graph"]["p95_ms"]
    assert body["collections"][0]["scores"] == [1.0, 1.0, 0.2]
    assert body["degraded"] == {"failed": 1}
    assert (body["answered"], body["remembered"], body["last_minute"]) == (4, 4, 4)


def test_without_a_router_there_are_no_thresholds(serve: Serve, library: "Library") -> None:
    library.has_no_router = True
    (scores,) = read(serve(library))["collections"]
    assert (scores["thresholds"], scores["simple"]) == (None, None)


def test_questions_are_told_where_they_are_logged(
    serve: Serve, library: "Library", log: Path
) -> None:
    client = serve(library, request_log=log)
    for question in ("What river?", QUESTION):
        client.post("/v1/retrieve", json={"question": question})
    newest, oldest = read(client)["questions"]
    assert (newest["question"], newest["route"]) == (QUESTION, "graph")
    assert (oldest["question"], oldest["score"]) == ("What river?", 0.2)


@pytest.mark.parametrize(("scope", "told"), [(Scope.READ, False), (Scope.ADMIN, True)])
def test_readers_are_not_told_what_others_ask(
    serve: Serve, library: "Library", log: Path, scope: Scope, told: bool
) -> None:
    secret, key = new_key("ada", [scope])
    append_key(log.parent / "keys.txt", key)
    client = serve(library, request_log=log, keys_file=log.parent / "keys.txt", ready=True)
    assert client.get("/v1/stats").status_code == 401
    client.headers["authorization"] = f"Bearer {secret}"
    client.post("/v1/retrieve", json={"question": QUESTION})
    assert (read(client)["questions"] is not None) == told
