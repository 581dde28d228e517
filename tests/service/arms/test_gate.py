"""Remote arms in requests: when they are asked, and what the reply is with and without them."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.live import until
from tests.service.arms.fakes import SECRET, Remote, arms_file, table
from tests.service.fakes import Library, Serve
from tests.service.fakes import retrieve as ask
from wye.router.types import Route
from wye.service.arms.gate import Ledger
from wye.service.errors import ServiceError
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


def test_a_list_is_one_beside_our_own(gateway: Serve, remote: Remote, library: Library) -> None:
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
NINE = {"top_k": 9, "score_threshold": 0}
SHAPES: list[tuple[str, dict[str, Any]]] = [
    ("/v1/retrieve", {"question": COSTLY}),
    ("/v1/retrieve", {"question": COSTLY, "route": "graph", "explain": True}),
    ("/v1/retrieve", {"question": COSTLY, "route": "fusion", "k": 100}),
    ("/v1/answer", {"question": COSTLY}),
    ("/v1/chat/completions", {"model": "wye-auto", "messages": MESSAGES}),
    ("/v1/chat/completions", {"model": "wye-steps", "messages": MESSAGES}),
    ("/v1/vector_stores/default/search", {"query": COSTLY}),
    ("/v1/dify/retrieval", {"knowledge_id": "default", "query": COSTLY, "retrieval_setting": NINE}),
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
    money = [(line["spent"], line["saved"]) for line in lines]
    assert money == [(0.0, 0.02), (0.0, 0.02), (0.02, 0.0), (0.02, 0.0)]
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


SPENDER = """
import sys
from pathlib import Path
from wye.service.arms.gate import Ledger
while Ledger(Path(sys.argv[1])).take("ada", 0.02, 1e9)[0]:
    print("x", end="", flush=True)
"""


def test_no_more_is_taken_than_is_left(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "wye.spent")
    taken = [ledger.take("ada", 0.1, 0.3)[0] for _ in range(5)]
    assert taken == pytest.approx([0.1, 0.1, 0.1, 0.0, 0.0])
    assert min(taken[:3]) >= 0.1, "what is left is not lost to a sum of binary fractions"
    assert ledger.spent("ada") == pytest.approx(0.3)
    assert ledger.take("bob", 0.5, 0.3)[0] == 0.3
    assert ledger.spent("eve") == 0.0


def test_what_was_not_spent_goes_back_to_its_day(tmp_path: Path) -> None:
    days = [date(2026, 3, 1)]
    ledger = Ledger(tmp_path / "wye.spent", lambda: days[-1])
    _, day = ledger.take("ada", 1.0, 1.0)
    ledger.give_back("ada", 0.75, day)
    assert ledger.spent("ada") == 0.25
    days.append(date(2026, 3, 2))
    assert ledger.take("ada", 1.0, 1.0)[0] == 1.0
    ledger.give_back("ada", 0.25, day)
    assert ledger.spent("ada") == 1.0


def test_all_who_ask_at_once_take_no_more_than_there_is(tmp_path: Path) -> None:
    ledgers = [Ledger(tmp_path / "wye.spent") for _ in range(4)]
    ledgers[0].check()
    with ThreadPoolExecutor(4) as threads:
        taken = threads.map(lambda n: ledgers[n % 4].take("ada", 0.02, 0.2)[0], range(24))
        assert sum(taken) == pytest.approx(0.2)
    assert ledgers[0].spent("ada") == pytest.approx(0.2)


def test_what_was_taken_is_there_after_a_kill(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "wye.spent")
    for _ in range(3):
        before = ledger.spent("ada")
        with subprocess.Popen(
            [sys.executable, "-c", SPENDER, str(ledger.path)], stdout=subprocess.PIPE
        ) as spender:
            assert spender.stdout
            stats = len(os.read(spender.stdout.fileno(), 3))
            spender.send_signal(signal.SIGKILL)
            stats += len(spender.stdout.read())
        spent = ledger.spent("ada") - before
        assert stats * 0.02 - 1e-9 <= spent <= (stats + 1) * 0.02 + 1e-9
        assert ledger.take("ada", 0.02, 1e9)[0] == 0.02


def test_a_file_that_is_something_else_is_named(tmp_path: Path) -> None:
    path = tmp_path / "wye.spent"
    path.write_text("a shopping list, and by no means short " * 100, encoding="utf-8")
    with pytest.raises(ServiceError, match=r"wye\.spent.*WYE_SERVE__SPENT_FILE"):
        Ledger(path).check()


@pytest.fixture
def limited(gateway: Serve) -> Serve:
    """A server whose keys may spend so much a day; the arm far costs 0.02."""

    def start(*more: str, most: float | None = 0.05, **options: Any) -> TestClient:  # noqa: ANN401
        return gateway(*more, retries=1, options={"max_cost_per_day": most, **options})

    return start


SPENT = "budget: a call costs 0.02, more than is left of max_cost_per_day"


@pytest.mark.parametrize("route", ["auto", "fusion", "graph", "steps"])
def test_when_it_is_spent_what_costs_nothing_answers(
    limited: Serve, remote: Remote, tmp_path: Path, route: str
) -> None:
    client = limited()
    replies = [ask(client, COSTLY, route=route) for _ in range(4)]
    assert [one["spent"] for one in replies] == [0.02, 0.02, 0.0, 0.0]
    assert [one["missing"] for one in replies[1:3]] == [[], [{"arm": "far", "reason": SPENT}]]
    assert len(remote.asked) == 2
    assert all(one["passages"] and not one["degraded"] for one in replies)
    assert Ledger(tmp_path / "wye.spent").spent("local") == pytest.approx(0.04)


def test_an_arm_that_costs_nothing_is_asked_all_the_same(limited: Serve, remote: Remote) -> None:
    client = limited(table(remote.url, "free", role="list", price=0), most=0.0)
    reply = ask(client, COSTLY, route="fusion")
    assert reply["arms"]["free"]["returned"] == 2
    assert reply["missing"] == [{"arm": "far", "reason": SPENT}]


def test_each_key_has_its_own(limited: Serve, tmp_path: Path) -> None:
    made = {
        "ada": new_key("ada", [Scope.READ], max_cost_per_day=0.02),
        "bob": new_key("bob", [Scope.READ], max_cost_per_day=0.0),
        "eve": new_key("eve", [Scope.READ]),
    }
    client = limited(most=None, keys=tuple(str(key) for _, key in made.values()))
    spent = {
        name: [
            ask(client, COSTLY, headers={"authorization": f"Bearer {secret}"})["spent"]
            for _ in range(2)
        ]
        for name, (secret, _) in made.items()
    }
    assert spent == {"ada": [0.02, 0.0], "bob": [0.0, 0.0], "eve": [0.02, 0.02]}
    assert (tmp_path / "wye.spent").exists()


def test_without_a_bound_there_is_no_file(limited: Serve, tmp_path: Path) -> None:
    ask(limited(most=None), COSTLY)
    assert not (tmp_path / "wye.spent").exists()


def test_two_arms_share_what_there_is(limited: Serve, remote: Remote) -> None:
    client = limited(table(remote.url, "more", role="list", price=0.02), most=0.03)
    reply = ask(client, COSTLY)
    assert (reply["spent"], [one["arm"] for one in reply["missing"]]) == (0.02, ["more"])


def test_questions_at_once_spend_no_more_than_there_is(limited: Serve, remote: Remote) -> None:
    client = limited()
    remote.mode = "slow"
    with ThreadPoolExecutor(6) as threads:
        replies = threads.map(lambda _: ask(client, COSTLY, deadline_ms=60_000), range(6))
        assert sum(reply["spent"] for reply in replies) == pytest.approx(0.04)


def test_what_calls_did_not_cost_goes_back(limited: Serve, remote: Remote, tmp_path: Path) -> None:
    client = limited(table(remote.url, "more", role="list", price=0.02), most=1.0)
    remote.modes = [401]
    assert ask(client, COSTLY)["spent"] == 0.02
    assert Ledger(tmp_path / "wye.spent").spent("local") == pytest.approx(0.02)


@pytest.mark.parametrize("how", ["damaged", "locked"])
def test_a_file_that_fails_costs_nobody_an_answer_and_holds_nobody_up(
    limited: Serve, remote: Remote, tmp_path: Path, how: str
) -> None:
    client = limited()
    if how == "damaged":
        (tmp_path / "wye.spent").write_bytes(b"a shopping list " * 500)
    with closing(sqlite3.connect(tmp_path / "wye.spent", isolation_level=None)) as holder:
        if how == "locked":
            holder.execute("BEGIN EXCLUSIVE")
        reply = ask(client, COSTLY, deadline_ms=2_000)
    assert (reply["missing"], remote.asked) == ([{"arm": "far", "reason": SPENT}], [])


def test_a_server_that_cannot_write_it_does_not_begin(limited: Serve, tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="WYE_SERVE__SPENT_FILE"):
        limited(spent_file=tmp_path / "missing" / "spent")


def test_who_goes_away_has_spent_it(limited: Serve, remote: Remote, tmp_path: Path) -> None:
    client = limited(most=0.05)
    remote.mode = "hang"
    assert ask(client, COSTLY, deadline_ms=300)["spent"] == 0.02
    ledger = Ledger(tmp_path / "wye.spent")
    until(lambda: ledger.spent("local") == pytest.approx(0.02))
