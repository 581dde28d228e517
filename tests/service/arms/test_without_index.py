"""A corpus that lives elsewhere: a simple arm, others beside it, and no index."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from tests.fakes import line
from tests.live import inside
from tests.service.arms.fakes import Remote, arms_file, table
from wye.router.model_files import TrainedRouter, save_router
from wye.router.policy import Policy
from wye.router.remote import PASSAGE_COLUMNS, passage_schema
from wye.router.scorer import Scorer, Standard
from wye.router.settings import MODELS
from wye.router.types import Route, Thresholds
from wye.service.app import build
from wye.service.doctor import Health, examine
from wye.service.settings import ServeSettings, ServiceSettings

QUESTION = "Where was the director of the film Old Bridge born?"
FOUND = [
    {"key": "film", "body": "Old Bridge is a film by Ivo Perić.", "name": "Old Bridge"},
    {"key": "mostar", "body": "A bridge in Mostar.", "name": "Stari Most"},
]
ROUTER = "passages/v1"
Start = Callable[..., TestClient]


@pytest.fixture
def second() -> Iterator[Remote]:
    made = Remote()
    yield made
    made.close()


@pytest.fixture
def start(tmp_path: Path, remote: Remote, second: Remote) -> Iterator[Start]:
    """Makes clients: `start(low=0.0)`; keyword arguments in `simple` and `graph` are of tables."""
    remote.reply = {"found": {"hits": FOUND}}
    with ExitStack() as stack:
        ours = f"default={passage_router(tmp_path)}"

        def one(
            *,
            low: float = 0.0,
            simple: dict[str, Any] | None = None,
            graph: dict[str, Any] | None = None,
            with_graph: bool = True,
            **options: Any,  # noqa: ANN401
        ) -> TestClient:
            cheap = table(
                remote.url, "cheap", **{"role": "simple", "price": 0.001, **(simple or {})}
            )
            tables = [cheap]
            if with_graph:
                tables.append(table(second.url, "dear", **(graph or {})))
            settings = ServiceSettings(
                serve=replace(
                    ServeSettings(refresh_seconds=0.02),
                    **{
                        "thresholds": (str(thresholds(tmp_path, low)),),
                        "routers": (ours,),
                        **options,
                    },
                ),
                arms=arms_file(tmp_path, *tables),
            )
            return stack.enter_context(inside(build(settings)))

        yield one


def passage_router(folder: Path) -> Path:
    """A router that scores questions lower whose names are the first passage's title."""
    feature = "returned_names_title_1"
    scorer = Scorer(
        names=(feature,),
        columns=np.array([PASSAGE_COLUMNS.index(feature)]),
        width=len(PASSAGE_COLUMNS),
        standard=Standard(np.zeros(1), np.ones(1), 5.0),
        members=(line([-1], 1),),
    )
    policy = Policy(Thresholds(0.5, 1.0), Route.HYBRID)
    draft = TrainedRouter(scorer, policy, passage_schema(), "# By hand\n", {}, {})
    name, _, _ = ROUTER.partition("/")
    return save_router(folder / "models", name, draft)


def thresholds(folder: Path, low: float) -> Path:
    path = folder / "thresholds.json"
    content = {"low": low, "high": 1.0, "steps": 0.0, "simple": "hybrid", "latency_ms": {}}
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def ask(client: TestClient, **fields: Any) -> dict[str, Any]:  # noqa: ANN401
    reply = client.post("/v1/retrieve", json={"question": QUESTION, **fields})
    assert reply.status_code == 200, reply.text
    body: dict[str, Any] = reply.json()
    return body


def test_a_question_that_the_simple_arm_answers_goes_no_further(
    start: Start, remote: Remote, second: Remote
) -> None:
    reply = ask(start(low=1.0), k=1)
    assert [one["id"] for one in reply["passages"]] == ["film"]
    assert (reply["route"]["path"], reply["route"]["model"]) == ("hybrid", ROUTER)
    assert 0 < reply["route"]["score"] < 1
    assert (reply["spent"], reply["saved"], reply["missing"]) == (0.001, 0.02, [])
    assert (reply["passages"][0]["relevance"], reply["answerability"]) == (None, None)
    assert "was fitted for" in reply["relevance_note"]
    assert {*reply["arms"]} == {"cheap"}
    assert reply["index"] == {"collection": "default", "version": 0}
    assert (len(remote.asked), len(second.asked)) == (1, 0)


def test_without_a_router_all_arms_are_asked(start: Start, remote: Remote, second: Remote) -> None:
    reply = ask(start(routers=(), thresholds=()))
    assert (reply["route"]["path"], reply["route"]["score"]) == ("fusion", None)
    assert reply["route"]["reason"].startswith("no router: all arms are asked, until `wye train")
    assert {*reply["arms"]} == {"cheap", "dear"}
    assert (len(remote.asked), len(second.asked)) == (1, 1)


@pytest.mark.parametrize("fields", [{}, {"route": "fusion"}])
def test_any_other_asks_both_once(
    start: Start, remote: Remote, second: Remote, fields: dict[str, Any]
) -> None:
    reply = ask(start(), explain=True, **fields)
    assert reply["route"]["path"] == "fusion"
    assert {*reply["arms"]} == {"cheap", "dear"}
    assert reply["spent"] == pytest.approx(0.021)
    assert {one["id"] for one in reply["passages"]} == {
        "film",
        "mostar",
        "dear:span",
        "dear:mostar",
    }
    assert (len(remote.asked), len(second.asked)) == (1, 1)
    if not fields:
        names = {one["name"] for one in reply["route"]["contributions"]}
        assert "returned_names_title_1" in names
        assert reply["route"]["summary"]


def test_what_is_the_same_elsewhere_is_one_passage(start: Start) -> None:
    reply = ask(start(graph={"same_ids": True}), route="fusion")
    mostar = next(one for one in reply["passages"] if one["id"] == "mostar")
    assert {source["arm"] for source in mostar["sources"]} == {"cheap", "dear"}


def test_each_arm_can_be_asked_alone(start: Start, remote: Remote, second: Remote) -> None:
    client = start()
    assert {*ask(client, route="hybrid")["arms"]} == {"cheap"}
    assert {*ask(client, route="graph")["arms"]} == {"dear"}
    assert (len(remote.asked), len(second.asked)) == (1, 1)


@pytest.mark.parametrize("mode", ["hang", "garbled", "drop", 429, 500])
def test_without_the_costly_arm_the_simple_one_answers(
    start: Start, remote: Remote, second: Remote, mode: str | int
) -> None:
    client = start(graph={"timeout_ms": 100})
    second.mode = mode
    for route in ("auto", "fusion", "graph"):
        reply = ask(client, route=route)
        assert [one["id"] for one in reply["passages"]] == ["film", "mostar"], route
        assert [one["arm"] for one in reply["missing"]] == ["dear"]
        assert "'dear'" in reply["degraded"]
    assert len(remote.asked) == 3


@pytest.mark.parametrize("mode", ["hang", "garbled", 500])
def test_without_the_simple_arm_the_others_answer(
    start: Start, remote: Remote, second: Remote, mode: str | int
) -> None:
    client = start(low=1.0, simple={"timeout_ms": 100})
    remote.mode = mode
    reply = ask(client)
    assert [one["id"] for one in reply["passages"]] == ["dear:span", "dear:mostar"]
    assert [one["arm"] for one in reply["missing"]] == ["cheap"]
    assert "'cheap'" in reply["degraded"]
    second.mode = 500
    reply = ask(client)
    assert (reply["passages"], {one["arm"] for one in reply["missing"]}) == ([], {"cheap", "dear"})


def test_limits_hold_for_both(start: Start, remote: Remote, second: Remote) -> None:
    client = start()
    reply = ask(client, max_cost=0.01)
    assert (reply["spent"], [one["arm"] for one in reply["missing"]]) == (0.001, ["dear"])
    reply = ask(client, max_cost=0.0)
    assert (reply["spent"], reply["passages"]) == (0.0, [])
    assert (len(remote.asked), len(second.asked)) == (1, 0)


@pytest.mark.parametrize("limit", [(0.5, 0.0), (1.0, 1.0), (1.9, 1.0), (2.0, 2.0)])
@pytest.mark.parametrize("route", ["auto", "fusion"])
def test_all_calls_are_within_the_limit(
    start: Start, route: str, limit: tuple[float, float]
) -> None:
    most, spent = limit
    client = start(simple={"price": 1.0}, graph={"price": 1.0})
    assert ask(client, route=route, max_cost=most)["spent"] == spent


def test_what_a_failed_graph_cost_is_not_spent_again(start: Start, second: Remote) -> None:
    client = start(simple={"price": 1.0}, graph={"price": 1.0, "timeout_ms": 100})
    second.mode = "hang"
    for most, spent in ((1.0, 1.0), (1.9, 1.0), (2.0, 2.0)):
        reply = ask(client, route="graph", max_cost=most)
        assert reply["spent"] == spent
        assert bool(reply["passages"]) == (spent == 2.0)


def test_a_simple_arm_alone_will_do(start: Start) -> None:
    client = start(with_graph=False)
    for route in ("auto", "hybrid", "fusion"):
        assert {*ask(client, route=route)["arms"]} == {"cheap"}
    assert (
        client.post("/v1/retrieve", json={"question": "a b", "route": "graph"}).status_code == 409
    )


def test_only_what_was_found_decides(start: Start, remote: Remote) -> None:
    reply = start().post("/v1/route", json={"question": QUESTION})
    assert (reply.status_code, "no index here" in reply.text, remote.asked) == (409, True, [])


@pytest.mark.parametrize("route", ["dense", "lexical", "steps"])
def test_routes_that_take_an_index_are_refused(start: Start, route: str) -> None:
    reply = start().post("/v1/retrieve", json={"question": QUESTION, "route": route})
    assert (reply.status_code, "no index here" in reply.text) == (409, True)


def test_what_takes_an_index_is_refused(start: Start) -> None:
    client = start()
    body = {"documents": [{"id": "a", "text": "One."}]}
    for reply in (
        client.post("/v1/documents", json=body),
        client.post(
            "/v1/documents", json={"documents": [{"id": str(n), "text": "One."} for n in range(50)]}
        ),
        client.put("/v1/documents/a", json={"text": "One."}),
        client.get("/v1/documents"),
        client.get("/v1/documents/a"),
        client.delete("/v1/documents/a"),
        client.post("/v1/documents/delete", json={"ids": ["a"]}),
        client.post("/v1/rerank", json={"query": "bridge", "documents": ["a", "b"]}),
    ):
        assert (reply.status_code, "no index here" in reply.text) == (409, True), reply.text
    reply = client.post("/v1/retrieve", json={"question": QUESTION, "min_relevance": 0.5})
    assert reply.status_code == 422


def test_what_watches_it_goes_on(start: Start) -> None:
    client = start()
    ask(client)
    ready = client.get("/ready")
    assert ready.status_code == 200
    (facts,) = ready.json()["collections"]
    assert (facts["index"], facts["router"]) == (False, ROUTER)
    assert {one["arm"] for one in ready.json()["arms"]} == {"cheap", "dear"}
    stats = client.get("/v1/stats").json()
    assert stats["spent"] == pytest.approx(0.021)
    assert client.get("/v1/vector_stores").json()["data"][0]["status"] == "completed"
    assert client.get("/v1/jobs").status_code == 200
    assert client.get("/metrics").status_code == 200
    assert client.get("/health").status_code == 200
    assert client.get("/").status_code == 200
    answer = client.post("/v1/answer", json={"question": QUESTION})
    assert (answer.status_code, bool(answer.json()["retrieval"]["passages"])) == (200, True)


def test_thresholds_are_followed(start: Start, tmp_path: Path) -> None:
    client = start(low=1.0)
    assert ask(client)["route"]["path"] == "hybrid"
    thresholds(tmp_path, 0.0)
    for _ in range(200):
        if ask(client)["route"]["path"] == "fusion":
            break
    assert ask(client)["route"]["path"] == "fusion"


def test_a_router_that_learned_with_an_index_is_refused(start: Start) -> None:
    client = start(routers=(f"default={MODELS / 'router-en' / 'v1'}",))
    reply = client.post("/v1/retrieve", json={"question": QUESTION})
    assert (reply.status_code, "feature schema" in reply.text) == (409, True)
    assert ask(client, route="fusion")["passages"]


def test_the_doctor_looks_at_it(start: Start, tmp_path: Path, remote: Remote) -> None:
    path = arms_file(tmp_path, table(remote.url, "cheap", role="simple"))
    findings = {one.subject: one for one in examine(ServiceSettings(arms=path))}
    assert findings["collection default"].state == Health.GOOD, findings["collection default"]
    assert "no index here" in findings["collection default"].says
    assert findings["remote arms"].state == Health.GOOD
