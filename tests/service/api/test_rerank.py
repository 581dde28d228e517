import threading
from collections.abc import Mapping
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.service.conftest import BRIDGES
from tests.service.fakes import Library, Serve
from wye.service.api.rerank import LONGEST_TEXT, MOST_TEXTS
from wye.service.http.edge import Scope
from wye.service.http.keys import new_key
from wye.service.service import RERANKS
from wye.service.settings import ServeSettings

QUESTION = "Which bridge crosses the Thames?"
TEXTS = ["The Old Bridge spans the Neretva.", "Tower Bridge crosses the Thames.", "It rained."]


def rerank(client: TestClient, **asked: Any) -> Any:  # noqa: ANN401 - JSON
    return client.post("/v1/rerank", json={"query": QUESTION, "documents": TEXTS, **asked})


def test_results_are_best_first_and_whole_where_asked(client: TestClient) -> None:
    reply = rerank(client, model="rerank-v3.5", return_documents=True, max_tokens_per_doc=99)
    body = reply.json()
    assert reply.status_code == 200
    assert {"id", "model", "results", "usage", "calibrated"} == {*body}
    assert (body["model"], body["calibrated"]) == ("wye-hybrid", False)
    assert body["usage"]["total_tokens"] == 5 + 6 + 5 + 2
    assert sorted(one["index"] for one in body["results"]) == [0, 1, 2]
    assert all(one["document"]["text"] == TEXTS[one["index"]] for one in body["results"])
    scores = [one["relevance_score"] for one in body["results"]]
    assert scores == sorted(scores, reverse=True)
    (best,) = rerank(client, top_n=1).json()["results"]
    assert best == {name: value for name, value in body["results"][0].items() if name != "document"}


def test_texts_may_have_titles_and_coheres_client_the_same_address(client: TestClient) -> None:
    request_body = {"query": QUESTION, "documents": [{"text": text} for text in TEXTS]}
    second_reply = client.post("/v2/rerank", json=request_body)
    assert second_reply.json()["results"] == rerank(client).json()["results"]
    assert second_reply.headers["cache-control"] == "no-store"


def test_texts_of_the_index_come_as_hybrid_has_them(start: Serve) -> None:
    client = start()
    request_body = {"question": QUESTION, "route": "hybrid", "k": 9}
    passages = client.post("/v1/retrieve", json=request_body).json()["passages"]
    documents = [{"title": one.title, "text": one.text} for one in BRIDGES]
    results = rerank(client, documents=documents).json()["results"]
    assert [BRIDGES[one["index"]].id for one in results] == [one["id"] for one in passages]


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"documents": []}, "body.documents"),
        ({"documents": ["x"] * (MOST_TEXTS + 1)}, f"at most {MOST_TEXTS} items"),
        ({"documents": ["x" * (LONGEST_TEXT + 1)]}, f"at most {LONGEST_TEXT} characters"),
        ({"documents": [""]}, "body.documents[0]: String should have at least 1 character. See"),
        ({"documents": [{"image": "x"}]}, "body.documents[0].text: Field required. See"),
        ({"documents": ["x", 5]}, "body.documents[1]: Input should be a valid string or an obj"),
        ({"query": " "}, "ask with at least one word"),
        ({"top_n": 0}, "body.top_n"),
        ({"top_n": "3"}, "without quotes"),
    ],
)
def test_what_cannot_be_ranked_is_refused(
    client: TestClient, asked: Mapping[str, Any], says: str
) -> None:
    reply = rerank(client, **asked)
    assert reply.status_code == 422
    assert says in reply.json()["detail"]


def test_keys_and_collections(serve: Serve) -> None:
    secret, key = new_key("one", [Scope.READ], ["one"])
    client = serve(engines={"one": Library(), "two": Library()}, keys=(str(key),))
    assert rerank(client).status_code == 401
    assert client.post("/v2/rerank", json={}).status_code == 401
    client.headers["x-api-key"] = secret
    request_body = {"query": QUESTION, "documents": TEXTS}
    assert client.post("/v1/rerank?collection=one", json=request_body).status_code == 200
    assert client.post("/v1/rerank?collection=two", json=request_body).status_code == 404


def test_no_more_at_once_than_there_is_room_for(client: TestClient) -> None:
    reranks = client.app.state.service.reranks  # type: ignore[attr-defined]
    held = [reranks.reserve() for _ in range(RERANKS)]
    for one in held:
        one.__enter__()
    reply = rerank(client)
    assert (reply.status_code, reply.headers["retry-after"]) == (503, "1")
    held[0].__exit__(None, None, None)
    assert rerank(client).status_code == 200


def test_a_deadline_ends_it_and_questions_go_on(start: Serve) -> None:
    client = start(ServeSettings(deadline_ms=60_000))
    service = client.app.state.service  # type: ignore[attr-defined]
    begun, release = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        release.wait(10)

    holding = threading.Thread(target=client.portal.call, args=(service.batcher.call, hold))  # type: ignore[union-attr]
    holding.start()
    assert begun.wait(10)
    reply = rerank(client, deadline_ms=50)
    release.set()
    holding.join()
    assert reply.status_code == 504
    assert "3 texts could not be read within 50 ms" in reply.json()["detail"]
    assert rerank(client).status_code == 200
