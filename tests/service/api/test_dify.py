from collections.abc import Callable
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.service.fakes import Library, Serve
from wye.service.http.edge import Scope
from wye.service.http.keys import new_key

QUESTION = "Which bridge is in Mostar?"


def dify(client: TestClient, query: str = QUESTION, **more: Any) -> Any:  # noqa: ANN401 - JSON
    body = {
        "knowledge_id": "default",
        "query": query,
        "retrieval_setting": {"top_k": 3, "score_threshold": 0.0},
        **more,
    }
    return client.post("/v1/dify/retrieval", json=body)


def where(operator: str, value: object, name: object = "y") -> dict[str, Any]:
    condition = {"name": name, "comparison_operator": operator, "value": value}
    return {"logical_operator": "and", "conditions": [condition]}


def test_records_are_the_passages_of_auto(client: TestClient) -> None:
    passages = client.post("/v1/retrieve", json={"question": QUESTION, "k": 3}).json()["passages"]
    reply = dify(client)
    assert reply.status_code == 200
    records = reply.json()["records"]
    assert [each["content"] for each in records] == [each["text"] for each in passages]
    assert [each["score"] for each in records] == [each["relevance"] for each in passages]
    assert all(0 <= each["score"] <= 1 for each in records)
    assert all(isinstance(each["metadata"], dict) for each in records)


def test_a_threshold_goes_by_relevance(client: TestClient) -> None:
    records = dify(client).json()["records"]
    least = records[0]["score"]
    setting = {"top_k": 3, "score_threshold": least}
    passing = dify(client, retrieval_setting=setting).json()["records"]
    assert passing == [each for each in records if each["score"] >= least]
    assert 0 < len(passing) < len(records)


def test_a_connection_is_tried_with_an_empty_query(client: TestClient) -> None:
    for query in ("", "  ", "\u200b\ufeff"):
        reply = dify(client, query)
        assert (reply.status_code, reply.json()) == (200, {"records": []})
    assert dify(client, "", knowledge_id="nope").status_code == 404


@pytest.mark.parametrize(
    ("operator", "value", "holds"),
    [
        (">", 1800, lambda y: y > 1800),
        ("≤", 1800, lambda y: y <= 1800),
        ("=", 1566, lambda y: y == 1566),
        ("≠", 1566, lambda y: y != 1566),
        ("not in", [1566], lambda y: y != 1566),
        ("after", 1566, lambda y: y > 1566),
    ],
)
def test_conditions_are_filters(
    client: TestClient, operator: str, value: object, holds: Callable[[float], bool]
) -> None:
    everything = dify(client, "bridge").json()["records"]
    years = [each["metadata"]["y"] for each in everything if "y" in each["metadata"]]
    assert any(map(holds, years))
    for name in ("y", ["y"]):
        records = dify(client, "bridge", metadata_condition=where(operator, value, name)).json()
        for record in records["records"]:
            assert holds(record["metadata"].get("y", float("nan")))
        assert records["records"]


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"metadata_condition": where("contains", "x")}, 422, "no comparison 'contains'"),
        ({"metadata_condition": where("is", "x", ["a", "b"])}, 422, "one name"),
        ({"metadata_condition": where(">", True)}, 422, ""),
        ({"metadata_condition": where("empty", None)}, 422, "no comparison 'empty'"),
        ({"retrieval_setting": {"top_k": 0}}, 422, "top_k"),
        ({"retrieval_setting": {"score_threshold": 2}}, 422, "score_threshold"),
        ({"knowledge_id": "nope"}, 404, "no collection 'nope'"),
        ({"query": None}, 422, "query"),
    ],
)
def test_mistakes_are_told_as_dify_reads_them(
    client: TestClient, body: dict[str, Any], status: int, message: str
) -> None:
    reply = dify(client, **body)
    assert reply.status_code == status
    problem = reply.json()
    assert message in problem["error_msg"]
    assert problem["error_code"] == {404: 2001}.get(status, status)
    other = client.post("/v1/retrieve", json={"question": ""})
    assert "error_msg" not in other.json()


def test_a_missing_key_has_its_code(serve: Serve, library: Library) -> None:
    _, key = new_key("ada", [Scope.READ])
    reply = dify(serve(library, keys=(str(key),)))
    assert (reply.status_code, reply.json()["error_code"]) == (401, 1002)
