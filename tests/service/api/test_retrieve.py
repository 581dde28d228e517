import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.service.fakes import Library, Serve, retrieve
from wye.backends.types import Passage
from wye.router.evidence import COLUMNS
from wye.router.types import Route

RIVER: dict[str, Any] = {"question": "What river is it?", "route": "graph", "k": 2}
CHAT: dict[str, object] = {"model": "wye-dense", "messages": [{"role": "user", "content": "x"}]}


def ask(client: TestClient, **changes: Any) -> dict[str, Any]:  # noqa: ANN401
    return retrieve(client, **{**RIVER, **changes})


def test_a_filter_holds(client: TestClient) -> None:
    body = ask(client, filter={"type": "gt", "key": "y", "value": 1500}, k=9)
    assert ask(client, filter="y>1500", k=9)["passages"] == body["passages"]
    assert {passage["id"] for passage in body["passages"]} == {"mostar", "tower"}
    assert body["arms"]["graph"]["candidates"] == 2


def test_a_collection_by_name(serve: Serve) -> None:
    other = Library([Passage("only", "", "Another river entirely.")], version=7)
    client = serve(engines={"first": Library(), "second": other})
    assert ask(client, collection="first")["index"] == {"collection": "first", "version": 1}
    for reply in (client.post("/v1/retrieve", json=RIVER), client.get("/v1/documents")):
        assert (reply.status_code, reply.json()["detail"].endswith("first, second.")) == (422, True)
    body = ask(client, collection="second")
    assert body["index"] == {"collection": "second", "version": 7}
    assert body["passages"][0]["id"] == "only"
    reply = client.post("/v1/retrieve", json={**RIVER, "collection": "third"})
    assert (reply.status_code, "use one of first, second" in reply.json()["detail"]) == (404, True)


@pytest.mark.parametrize("route", ["graph", "auto"])
def test_what_fails_degrades_and_is_counted(serve: Serve, library: Library, route: str) -> None:
    client = serve(library)
    library.failing = {Route(route)}
    reply = client.post("/v1/retrieve", json={**RIVER, "route": route})
    reason = f"degraded: {route} failed (RuntimeError); dense instead"
    assert reply.json()["degraded"] == reply.json()["route"]["reason"] == reason
    assert reply.json()["route"]["path"] == "dense"
    counts = client.get("/metrics").text
    assert 'wye_degraded_total{collection="default",kind="failed"} 1.0' in counts
    assert f'wye_routes_total{{asked="{route}",collection="default",route="dense"}} 1.0' in counts


def test_when_nothing_works_it_is_our_fault(serve: Serve, library: Library) -> None:
    client = serve(library)
    library.failing = set(Route)
    reply = client.post("/v1/retrieve", json=RIVER)
    assert (reply.status_code, reply.json()["type"]) == (500, "urn:wye:problem:internal")
    assert "broken" not in reply.text
    assert reply.headers["x-request-id"] == reply.json()["request_id"]


def test_overload_is_refused_and_what_was_accepted_answered(serve: Serve, library: Library) -> None:
    client = serve(library, queue=4, batch=2)
    library.seconds = dict.fromkeys(Route, 0.1)
    ends: list[tuple[float, int]] = []
    lock = threading.Lock()

    def one(number: int) -> int:
        reply = client.post("/v1/retrieve", json={**RIVER, "question": f"river {number}"})
        if reply.status_code == 503:
            assert int(reply.headers["retry-after"]) >= 1
            assert reply.json()["type"] == "urn:wye:problem:overloaded"
        else:
            assert reply.json()["question"] == f"river {number}"
        with lock:
            ends.append((time.monotonic(), reply.status_code))
        return reply.status_code

    with ThreadPoolExecutor(24) as pool:
        codes = list(pool.map(one, range(24)))
    assert {*codes} == {200, 503}
    assert codes.count(200) >= 4  # what the queue holds, even if all arrive before a batch begins
    assert [code for _, code in sorted(ends)][-1] == 200, "nobody waits to be refused"


def test_a_deadline_that_cannot_be_kept(serve: Serve, library: Library) -> None:
    client = serve(library)
    library.seconds = dict.fromkeys(Route, 0.3)
    reply = client.post("/v1/retrieve", json={**RIVER, "deadline_ms": 30})
    assert (reply.status_code, reply.json()["type"]) == (504, "urn:wye:problem:deadline")


def test_the_request_log_has_what_a_replay_needs(serve: Serve, library: Library, log: Path) -> None:
    client = serve(library, request_log=log)
    ask(client)
    (entry,) = map(json.loads, log.read_text().splitlines())
    assert entry["question"] == RIVER["question"]
    assert entry["passages"] == ["neretva", "mostar"]
    assert (entry["asked"], entry["route"]) == ("graph", "graph")
    assert entry["index_version"] == 1
    assert entry["seconds"]["total"] > 0


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"question": ""}, "body.question: "),
        ({"question": " \n"}, "body.question: "),
        ({"question": "\u200b \ufeff\u0301"}, "body.question: "),
        ({"question": "x" * 5000}, "body.question: "),
        ({"question": 3}, "body.question: "),
        ({"k": 0}, "body.k: "),
        ({"k": 101}, "body.k: "),
        ({"deadline_ms": 0}, "body.deadline_ms: "),
        ({"collection": ""}, "body.collection: "),
        ({"rout": "graph"}, "body.rout: There is no such field. Did you mean route?"),
        ({"zzz": 1}, "body.zzz: There is no such field. The fields are filter, explain,"),
        ({"route": "grph"}, "body.route: There is no route 'grph'. Did you mean graph?"),
    ],
)
def test_a_mistake_is_named_by_its_place(
    client: TestClient, changes: dict[str, object], says: str
) -> None:
    reply = client.post("/v1/retrieve", json={**RIVER, **changes})
    assert reply.status_code == 422
    assert reply.headers["content-type"] == "application/problem+json"
    assert says in reply.json()["detail"]
    assert [fault["at"] for fault in reply.json()["errors"]] == [says.partition(":")[0]]
    assert "Value error" not in reply.json()["detail"]


def test_a_key_that_no_passage_has_is_refused(start: Serve) -> None:
    client = start()

    def status(kind: str, key: str) -> tuple[int, str]:
        filter_ = {"type": kind, "key": key, "value": 1566}
        body = {"question": "bridge", "route": "dense", "filter": filter_}
        reply = client.post("/v1/retrieve", json=body)
        return reply.status_code, reply.json().get("detail", "")

    assert status("eq", "year") == (422, "No passage has the key 'year'. The keys are y.")
    assert status("eq", "y")[0] == status("ne", "archived")[0] == 200


def test_a_bad_filter_is_refused_before_it_waits(client: TestClient, library: Library) -> None:
    reply = client.post("/v1/retrieve", json={**RIVER, "filter": {"type": "like"}})
    assert reply.status_code == 422
    assert "filter.type must be one of" in reply.json()["detail"]
    assert library.batches == []


LONG = {"question": "Into which sea does the river beneath the bridge flow?", "k": 2}


def test_scores_are_counted(client: TestClient) -> None:
    ask(client, route="auto")
    assert 'wye_route_score_count{collection="default"} 1.0' in client.get("/metrics").text


def test_every_feature_that_a_router_can_name_has_a_meaning(client: TestClient) -> None:
    rows = client.get("/v1/features").json()["data"]
    assert [row["name"] for row in rows] == [*COLUMNS]
    assert all(row["meaning"].endswith(".") for row in rows)
    assert [row["group"] for row in rows if row["name"] == "seed_coverage"] == ["names"]


def test_a_server_without_a_router_says_so(serve: Serve, library: Library) -> None:
    library.has_no_router = True
    client = serve(library)
    for path in ("/v1/retrieve", "/v1/route"):
        reply = client.post(path, json={"question": "What river?"})
        assert (reply.status_code, reply.json()["type"]) == (409, "urn:wye:problem:no-such-route")
        assert "There is no router model here" in reply.json()["detail"]
    assert ask(client)["route"]["path"] == "graph"
    models = client.get("/v1/models").json()["data"]
    assert "wye-auto" not in [model["id"] for model in models]


def test_a_decision_needs_no_search(client: TestClient, library: Library) -> None:
    reply = client.post("/v1/route", json={"question": LONG["question"], "explain": True})
    assert reply.json()["route"]["contributions"][1]["name"] == "words"
    assert library.batches == []


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        ("/v1/retrieve", {"k": "5"}),
        ("/v1/retrieve", {"explain": "true"}),
        ("/v1/route", {"explain": "yes"}),
        ("/v1/answer", {"stream": "false"}),
        ("/v1/chat/completions", {"max_tokens": True}),
        ("/v1/chat/completions", {"wye": {"k": "5"}}),
        ("/v1/vector_stores/default/search", {"max_num_results": "5"}),
        ("/v1/vector_stores/default/search", {"ranking_options": {"score_threshold": "0.5"}}),
        ("/v1/documents/delete", {"dry_run": "true"}),
        ("/v1/documents", {"chunk_words": "50"}),
    ],
)
def test_neither_a_text_nor_a_boolean_is_a_number(
    client: TestClient, path: str, wrong: dict[str, object]
) -> None:
    bodies: dict[str, dict[str, object]] = {
        "/v1/chat/completions": CHAT,
        "/v1/vector_stores/default/search": {"query": "x"},
        "/v1/documents/delete": {"ids": ["x"]},
        "/v1/documents": {"id": "x", "text": "x"},
    }
    reply = client.post(path, json={**bodies.get(path, {"question": "x"}), **wrong})
    assert (reply.status_code, reply.json()["type"]) == (422, "urn:wye:problem:validation")


def test_what_may_be_left_out_may_be_null(client: TestClient) -> None:
    nulls = dict.fromkeys(["deadline_ms", "max_cost", "filter", "collection"])
    body = {"question": "x", "route": "dense", "k": 2.0, **nulls}
    reply = client.post("/v1/retrieve", json=body)
    assert (reply.status_code, len(reply.json()["passages"])) == (200, 2)
    names = ("n", "temperature", "top_p", "max_tokens", "max_completion_tokens", "stop", "seed")
    reply = client.post("/v1/chat/completions", json={**CHAT, **dict.fromkeys(names)})
    assert reply.status_code == 200


def test_unlikely_passages_are_left_out_where_that_is_asked_for(client: TestClient) -> None:
    request_body = {"question": "What river is it?", "route": "fusion", "k": 4}
    body = client.post("/v1/retrieve", json=request_body).json()
    assert body["answerability"] == 0.95
    relevance = [passage["relevance"] for passage in body["passages"]]
    assert relevance == pytest.approx([0.9, 0.81, 0.729, 0.6561][: len(relevance)])
    body = client.post("/v1/retrieve", json={**request_body, "min_relevance": 0.8}).json()
    assert [passage["rank"] for passage in body["passages"]] == [1, 2]
    for wrong in (-0.1, 1.1, "0.5", True):
        reply = client.post("/v1/retrieve", json={**request_body, "min_relevance": wrong})
        assert reply.status_code == 422
