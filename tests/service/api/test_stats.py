from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.service.fakes import Library, Serve
from wye.router.types import Route
from wye.service.api.operations import RouteTimesValue, route_times
from wye.service.http.edge import Scope
from wye.service.http.keys import append_key, new_key
from wye.service.service import REMEMBERED, RecentQuestion, Service

QUESTION = "Into which sea does the river beneath the bridge flow?"


def one(ms: float, route: Route = Route.DENSE) -> RecentQuestion:
    fields: dict[str, Any] = {"time": 0.0, "question": "", "collection": "default", "degraded": ""}
    return RecentQuestion(**fields, asked=Route.AUTO, route=route, score=None, ms=ms)


def test_percentiles_are_values_that_occurred() -> None:
    times = [[3, 1, 2], [3, 1, 2, 4], range(1, 101), [7]]
    figures = [route_times([one(ms) for ms in each])[Route.DENSE] for each in times]
    assert [(each.p50_ms, each.p95_ms) for each in figures] == [(2, 3), (2, 4), (50, 95), (7, 7)]


def test_routes_stand_in_their_order_with_shares() -> None:
    figures = route_times([one(5, Route.GRAPH), one(1), one(3), one(9, Route.GRAPH)])
    assert list(figures) == [Route.DENSE, Route.GRAPH]
    assert figures[Route.GRAPH] == RouteTimesValue(count=2, share=0.5, p50_ms=5, p95_ms=9)
    assert route_times([]) == {}


def read(client: TestClient) -> dict[str, Any]:
    reply = client.get("/v1/stats")
    assert reply.status_code == 200, reply.text
    body: dict[str, Any] = reply.json()
    return body


def test_before_the_first_question_there_is_nothing(client: TestClient) -> None:
    body = read(client)
    assert (body["answered"], body["routes"], body["degraded"]) == (0, {}, {})
    assert body["questions"] is None


def test_answers_are_counted_by_the_route_that_gave_them(serve: Serve, library: Library) -> None:
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
    assert body["degraded"] == {"failed": 1}
    assert (body["answered"], body["remembered"], body["last_minute"]) == (4, 4, 4)


def test_questions_are_told_where_they_are_logged(
    serve: Serve, library: Library, log: Path
) -> None:
    client = serve(library, request_log=log)
    for question in ("What river?", QUESTION):
        client.post("/v1/retrieve", json={"question": question})
    newest, oldest = read(client)["questions"]
    assert (newest["question"], newest["route"]) == (QUESTION, "graph")
    assert (oldest["question"], oldest["score"]) == ("What river?", 0.2)


@pytest.mark.parametrize(("scope", "is_listed"), [(Scope.READ, False), (Scope.ADMIN, True)])
def test_readers_are_not_told_what_others_ask(
    serve: Serve, library: Library, log: Path, scope: Scope, is_listed: bool
) -> None:
    secret, key = new_key("ada", [scope])
    append_key(log.parent / "keys.txt", key)
    client = serve(library, request_log=log, keys_file=log.parent / "keys.txt", ready=True)
    assert client.get("/v1/stats").status_code == 401
    client.headers["authorization"] = f"Bearer {secret}"
    client.post("/v1/retrieve", json={"question": QUESTION})
    assert (read(client)["questions"] is not None) == is_listed


def test_the_oldest_are_forgotten(client: TestClient) -> None:
    service: Service = client.app.state.service  # type: ignore[attr-defined]
    service.recent.extend([one(7, Route.GRAPH)] * REMEMBERED)
    client.post("/v1/retrieve", json={"question": "What river?"})
    body = read(client)
    assert (body["answered"], body["remembered"]) == (1, REMEMBERED)
    assert {route: times["count"] for route, times in body["routes"].items()} == {
        "dense": 1,
        "graph": REMEMBERED - 1,
    }
