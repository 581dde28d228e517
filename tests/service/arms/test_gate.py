"""Remote arms in requests: when they are asked, and what the reply is with and without them."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.service.arms.fakes import SECRET, Remote, arms_file, table
from tests.service.fakes import Library, Serve
from tests.service.fakes import retrieve as ask
from wye.router.types import Route
from wye.service.http.edge import Scope
from wye.service.http.keys import new_key

SIMPLE = "What river?"
COSTLY = "In which of the towns by the river Neretva is it?"
MIDDLE = "In which town is the bridge?"


def test_a_simple_question_is_answered_without_it(gateway: Serve, remote: Remote) -> None:
    reply = ask(gateway(), SIMPLE)
    assert (reply["route"]["path"], list(reply["arms"])) == ("dense", ["dense"])
    assert (reply["spent"], reply["saved"], reply["missing"]) == (0.0, 0.02, [])
    assert remote.asked == []
    assert len(reply["passages"]) <= 5
    assert reply["passages"][0]["relevance"] is not None


@pytest.mark.parametrize("question", [MIDDLE, COSTLY])
def test_any_other_is_answered_with_it(
    gateway: Serve, remote: Remote, library: Library, question: str
) -> None:
    reply = ask(gateway(), question, k=2, explain=True)
    assert [route for route, _ in library.batches] == [Route.AUTO]
    assert (reply["route"]["path"], reply["route"]["asked"]) == ("fusion", "auto")
    assert reply["route"]["score"] is not None
    assert {*reply["arms"]} == {"hybrid", "far"}
    assert (reply["spent"], reply["saved"], reply["missing"]) == (0.02, 0.0, [])
    assert reply["degraded"] == ""
    assert len(reply["passages"]) == 2
    far = next(one for one in reply["passages"] if one["id"].startswith("far:"))
    assert far["sources"][0]["arm"] == "far"
    assert far["text"]
    assert far["relevance"] is None
    arm = reply["arms"]["far"]
    assert (arm["returned"], arm["remote"]["state"], arm["remote"]["calls"]) == (2, "closed", 1)
    assert arm["hits"][0]["id"] == "far:span"
    assert reply["timings_ms"]["far"] > 0
    assert remote.asked[0]["q"] == question


def test_ids_that_are_ours_are_one_passage(gateway: Serve) -> None:
    reply = ask(gateway(same_ids=True), COSTLY, route="fusion")
    mostar = next(one for one in reply["passages"] if one["id"] == "mostar")
    assert {source["arm"] for source in mostar["sources"]} == {"hybrid", "far"}
    assert mostar["text"].startswith("The Old Bridge spans")  # as it is here
    assert sum(source["share"] for source in mostar["sources"]) == pytest.approx(mostar["score"])


def test_the_route_graph_is_the_arm_alone(gateway: Serve, library: Library, remote: Remote) -> None:
    client = gateway()
    reply = ask(client, COSTLY, route="graph", k=1)
    assert library.batches == []
    assert [one["id"] for one in reply["passages"]] == ["far:span"]
    assert (reply["route"]["path"], reply["route"]["reason"]) == ("graph", "forced")
    assert reply["index"]["version"] == 1
    remote.mode = 500
    reply = ask(client, COSTLY, route="graph")
    assert reply["route"]["path"] == "fusion"
    assert reply["missing"] == [{"arm": "far", "reason": "answered 500"}]


@pytest.mark.parametrize("route", ["dense", "lexical", "hybrid"])
def test_routes_of_the_text_arms_never_ask_it(gateway: Serve, remote: Remote, route: str) -> None:
    only = {"type": "eq", "key": "y", "value": 1}
    reply = ask(gateway(request={"q": "{question}"}), COSTLY, route=route, filter=only)
    assert remote.asked == []
    assert {"missing", "spent", "saved"}.isdisjoint(reply)


@pytest.mark.parametrize("mode", ["hang", "garbled", "drop", "redirect", 429, 500, 503, 401, 422])
@pytest.mark.parametrize("route", ["auto", "fusion", "graph", "steps"])
def test_without_it_our_own_fusion_answers(
    gateway: Serve, remote: Remote, mode: str | int, route: str
) -> None:
    client = gateway(timeout_ms=100)
    remote.mode = mode
    started = time.perf_counter()
    reply = ask(client, COSTLY, route=route, deadline_ms=2_000)
    assert time.perf_counter() - started < 2
    assert reply["route"]["path"] == "fusion"
    assert {"dense", "graph", "far"} == {*reply["arms"]}
    assert len(reply["passages"]) == 3
    (missing,) = reply["missing"]
    assert missing["arm"] == "far"
    assert reply["degraded"] == (f"degraded: the arm 'far' {missing['reason']}; answered without")
    assert SECRET not in json.dumps(reply)
    assert remote.url not in json.dumps(reply)


def test_where_our_graph_is_out_of_time_the_text_arms_answer(
    gateway: Serve, remote: Remote, library: Library
) -> None:
    client = gateway(timeout_ms=5_000)
    remote.mode = "hang"
    library.seconds = {Route.FUSION: 1.0}
    reply = ask(client, COSTLY, deadline_ms=400)
    assert reply["missing"][0]["reason"].startswith("gave no answer within 3")
    assert {*reply["arms"]} == {"hybrid", "far"}
    assert len(reply["passages"]) == 3


def test_a_list_is_one_more_beside_our_own(
    gateway: Serve, remote: Remote, library: Library
) -> None:
    reply = ask(gateway(role="list", price=0.01), COSTLY)
    assert [route for route, _ in library.batches] == [Route.AUTO]
    assert {*reply["arms"]} == {"graph", "far"}
    assert reply["spent"] == 0.01
    assert ask(gateway(role="list"), COSTLY, route="graph")["passages"][0]["id"] != "far:span"


def test_two_arms_are_asked_at_once(gateway: Serve, remote: Remote) -> None:
    client = gateway(table(remote.url, "more", role="list", price=0.03))
    remote.modes = []
    reply = ask(client, COSTLY)
    assert {"far", "more"} <= {*reply["arms"]}
    assert reply["spent"] == pytest.approx(0.05)
    reply = ask(client, COSTLY, max_cost=0.04)
    assert reply["missing"] == [
        {"arm": "more", "reason": "budget: a call costs 0.03, more than is left of max_cost"}
    ]
    assert (reply["spent"], reply["degraded"]) == (0.02, "")


def test_budgets_keep_it_out(gateway: Serve, remote: Remote) -> None:
    client = gateway()
    reply = ask(client, COSTLY, max_cost=0.01)
    assert reply["missing"][0]["reason"].startswith("budget: a call costs 0.02")
    assert (reply["route"]["path"], reply["degraded"], remote.asked) == ("graph", "", [])
    remote.mode = "slow"
    remote.seconds = 0.5
    reply = ask(client, COSTLY, deadline_ms=400)
    assert reply["missing"][0]["reason"].startswith("gave no answer within")
    reply = ask(client, SIMPLE, max_cost=0.0)
    assert (reply["missing"], reply["saved"]) == ([], 0.0)
    reply = ask(client, COSTLY, min_relevance=0.5)
    assert reply["missing"][0]["reason"].startswith("relevance: ")
    assert all(one["relevance"] >= 0.5 for one in reply["passages"])


def test_filters_are_held_to_or_refused(gateway: Serve, remote: Remote) -> None:
    only = {"type": "gte", "key": "y", "value": 1600}
    reply = ask(gateway(), COSTLY, filter=only)
    assert {one["id"] for one in reply["passages"]} == {"far:span", "tower"}
    assert remote.asked[0]["where"] == only
    refused = gateway(request={"q": "{question}"}).post(
        "/v1/retrieve", json={"question": SIMPLE, "filter": only}
    )
    assert refused.status_code == 422
    assert "'far' cannot apply this filter" in refused.json()["detail"]


def keyed(filter_: dict[str, Any]) -> tuple[dict[str, str], str]:
    secret, key = new_key("bound", [Scope.READ], filter_=filter_)
    return {"authorization": f"Bearer {secret}"}, str(key)


def test_a_bound_key_is_refused_where_the_arm_cannot_filter(gateway: Serve, remote: Remote) -> None:
    headers, line = keyed({"type": "lt", "key": "y", "value": 1600})
    client = gateway(request={"q": "{question}"}, options={"keys": (line,)})
    for path, body in SHAPES:
        reply = client.post(path, json=body, headers=headers)
        assert reply.status_code == 422, (path, reply.text)
    assert remote.asked == []
    hybrid = {"question": COSTLY, "route": "hybrid"}
    assert client.post("/v1/retrieve", json=hybrid, headers=headers).status_code == 200


MESSAGES = [{"role": "user", "content": COSTLY}]
SHAPES: list[tuple[str, dict[str, Any]]] = [
    ("/v1/retrieve", {"question": COSTLY}),
    ("/v1/retrieve", {"question": COSTLY, "route": "graph", "explain": True}),
    ("/v1/retrieve", {"question": COSTLY, "route": "fusion", "k": 100}),
    ("/v1/answer", {"question": COSTLY}),
    ("/v1/chat/completions", {"model": "wye-auto", "messages": MESSAGES}),
    ("/v1/chat/completions", {"model": "wye-steps", "messages": MESSAGES}),
    ("/v1/vector_stores/default/search", {"query": COSTLY}),
    (
        "/v1/dify/retrieval",
        {
            "knowledge_id": "default",
            "query": COSTLY,
            "retrieval_setting": {"top_k": 9, "score_threshold": 0},
        },
    ),
]


@pytest.mark.parametrize(("path", "body"), SHAPES)
def test_a_bound_key_sees_nothing_else_through_an_arm_that_lies(
    gateway: Serve, remote: Remote, path: str, body: dict[str, Any]
) -> None:
    early = {"type": "lt", "key": "y", "value": 5}
    wish = {"type": "ne", "key": "y", "value": 3}
    headers, line = keyed(early)
    hits = [
        {"key": f"r{y}", "body": f"Text {'seen' if y < 5 else 'hidden'} of {y}.", "facts": {"y": y}}
        for y in (7, 1, 5, 4)
    ]
    remote.reply = {"found": {"hits": hits}}
    body = {**body, "filter": wish} if path == "/v1/retrieve" else body
    reply = gateway(options={"keys": (line,)}).post(path, json=body, headers=headers)
    assert reply.status_code == 200, reply.text
    assert "hidden" not in reply.text
    assert early in remote.asked[-1]["where"]["filters"]


def test_its_breaker_shows_everywhere(gateway: Serve, remote: Remote) -> None:
    client = gateway(open_after=2, open_seconds=0.2)
    remote.mode = 500
    for _ in range(3):
        reply = ask(client, COSTLY)
    assert reply["arms"]["far"]["remote"]["state"] == "open"
    open_ = "is not called for a while, after 2 failures in a row"
    assert reply["missing"] == [{"arm": "far", "reason": open_}]
    assert (reply["arms"]["far"]["remote"]["calls"], reply["spent"]) == (0, 0.0)
    assert len(remote.asked) == 2
    (arm,) = client.get("/ready").json()["arms"]
    assert arm == {"arm": "far", "kind": "http", "role": "graph", "state": "open"}
    assert 'wye_arm_state{arm="far"} 1.0' in client.get("/metrics").text
    time.sleep(0.2)
    remote.mode = "ok"
    assert ask(client, COSTLY)["arms"]["far"]["remote"]["state"] == "closed"


def test_money_is_added_up(gateway: Serve, remote: Remote, log: Path) -> None:
    client = gateway(options={"request_log": log})
    for question in (SIMPLE, SIMPLE, COSTLY):
        ask(client, question)
    remote.mode = 500
    ask(client, COSTLY)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(line["spent"], line["saved"]) for line in lines] == [
        (0.0, 0.02),
        (0.0, 0.02),
        (0.02, 0.0),
        (0.02, 0.0),
    ]
    assert lines[3]["missing"] == {"far": "answered 500"}
    assert lines[3]["arms"]["far"]["outcome"] == "failed"
    text = client.get("/metrics").text
    assert 'wye_arm_spent_total{arm="far"} 0.04' in text
    assert 'wye_arm_saved_total{arm="far"} 0.04' in text
    assert 'wye_arm_questions_total{arm="far",outcome="ok"} 1.0' in text
    assert SECRET not in log.read_text() + text


def test_a_key_that_sees_another_collection_sees_no_arm(
    serve: Serve, library: Library, remote: Remote, tmp_path: Path
) -> None:
    path = arms_file(tmp_path, table(remote.url, collection="wiki"))
    secret, key = new_key("ada", [Scope.READ], ["docs"])
    engines = {"docs": library, "wiki": Library()}
    client = serve(engines=engines, arms=path, keys=(str(key),))
    headers = {"authorization": f"Bearer {secret}"}
    assert "arms" not in client.get("/ready", headers=headers).json()
