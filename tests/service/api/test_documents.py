"""Documents over HTTP: what is sent is found, what is deleted is not."""

from collections.abc import MutableMapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.live import until
from tests.service.fakes import Serve
from tests.service.ingest.files import NDJSON, make_lines, wait_for
from tests.stored import fetch
from wye.backends.store.index import PassageStore
from wye.backends.types import Passage
from wye.router.session import Session
from wye.service.http.edge import Scope
from wye.service.http.keys import new_key
from wye.service.settings import ServeSettings, ServiceSettings


@pytest.fixture
def client(start: Serve) -> TestClient:
    return start(direct_passages=8, group_passages=8)


def hit_ids(client: TestClient, question: str, version: int = 0) -> list[str]:
    """Ids of passages, from a reply that has seen a version."""

    def seen() -> dict[str, Any] | None:
        reply = client.post("/v1/retrieve", json={"question": question, "route": "dense", "k": 100})
        assert reply.status_code == 200, reply.text
        body: dict[str, Any] = reply.json()
        return body if body["index"]["version"] >= version else None

    return [passage["id"] for passage in (until(seen) or {})["passages"]]


def test_a_document_is_committed_when_the_reply_comes(client: TestClient, folder: Path) -> None:
    sent = {"id": "galata", "title": "Galata Bridge", "text": "It spans the Golden Horn."}
    reply = client.post("/v1/documents", json={"documents": [sent]})
    assert reply.status_code == 201
    said = reply.json()
    assert (said["documents"], said["added"], said["updated"]) == (["galata"], 1, 0)
    index = PassageStore.open(folder)
    assert index.version == said["index_version"]
    assert fetch(index, ["galata"])[0].title == "Galata Bridge"
    assert "galata" in hit_ids(client, "Galata Bridge", said["index_version"])


def test_many_at_once_are_one_commit_or_none(client: TestClient, folder: Path) -> None:
    before = PassageStore.open(folder).version
    bad = [{"id": "a", "text": "One."}, {"id": "b", "text": "Two.", "metadata": {"x": [{"y": 1}]}}]
    reply = client.post("/v1/documents", json={"documents": bad})
    assert reply.status_code == 422
    assert "metadata 'x' holds an object" in reply.json()["detail"]
    twice = {"documents": [{"id": "a", "text": "One."}, {"id": "a", "text": "Two."}]}
    assert "occurs twice" in client.post("/v1/documents", json=twice).json()["detail"]
    assert PassageStore.open(folder).version == before
    assert "Send a JSON object" in client.post("/v1/documents", json=[]).json()["detail"]
    good = {"documents": [{"id": "a", "text": "One."}, {"id": "b", "text": "Two."}]}
    assert client.post("/v1/documents", json=good).json()["index_version"] == before + 1


def test_ids_in_another_encoding_are_refused_since_they_would_be_one(client: TestClient) -> None:
    for id_ in ("caf%E9", "caf%E8"):
        for method in ("PUT", "DELETE"):
            reply = client.request(method, f"/v1/documents/{id_}", json={"text": "Coffee."})
            assert (reply.status_code, "UTF-8" in reply.json()["detail"]) == (400, True)
    assert client.put("/v1/documents/caf%EF%BF%BD", json={"text": "Coffee."}).status_code == 201


def test_put_creates_and_replaces_with_all_chunks(client: TestClient) -> None:
    long = " ".join(f"Sentence {n} is about bridges." for n in range(20))
    first = client.put("/v1/documents/notes/x", json={"text": long}, params={"chunk_words": 30})
    assert (first.status_code, first.json()["added"]) == (201, 4)
    stored = client.get("/v1/documents/notes/x").json()
    assert [passage["id"] for passage in stored["passages"]][:2] == ["notes/x#0000", "notes/x#0001"]
    short = {"title": "Short", "text": "One bridge.", "metadata": {"y": 2}}
    second = client.put("/v1/documents/notes/x", json=short)
    assert second.status_code == 200
    assert (second.json()["added"], second.json()["removed"]) == (1, 4)
    stored = client.get("/v1/documents/notes/x").json()
    assert stored == {
        "id": "notes/x",
        "title": "Short",
        "metadata": {"y": 2},
        "passages": [{"id": "notes/x", "text": "One bridge."}],
    }
    assert client.put("/v1/documents/notes/x", json=short).json()["unchanged"] == 1


def test_documents_are_listed_page_by_page(client: TestClient) -> None:
    one = client.get("/v1/documents", params={"limit": 1}).json()
    assert [each["id"] for each in one["data"]] == ["mostar"]
    assert (one["total"], one["next"], one["data"][0]["metadata"]) == (2, "mostar", {"y": 1566})
    two = client.get("/v1/documents", params={"after": one["next"], "limit": 1}).json()
    assert ([each["id"] for each in two["data"]], two["next"]) == (["tower"], None)
    assert client.get("/v1/documents/nope").status_code == 404


@pytest.mark.parametrize("route", ["dense", "lexical", "graph"])
def test_what_was_deleted_is_in_no_reply_that_comes_after(client: TestClient, route: str) -> None:
    ask = {"question": "Tower Bridge crosses the Thames", "route": route, "k": 9}
    for n in range(3):
        added = client.put(f"/v1/documents/tower{n}", json={"text": "Tower Bridge and Thames."})
        hit_ids(client, "x", added.json()["index_version"])
        deletion = client.delete(f"/v1/documents/tower{n}").json()
        assert deletion["deleted"] == 1
        reply = client.post("/v1/retrieve", json=ask).json()
        assert reply["index"]["version"] >= deletion["index_version"]
        assert f"tower{n}" not in [passage["id"] for passage in reply["passages"]]
    again = client.delete("/v1/documents/tower0")
    assert (again.status_code, again.json()["deleted"]) == (200, 0)


def test_deletion_by_filter_can_be_tried_first(client: TestClient) -> None:
    removal = {"filter": {"type": "lt", "key": "y", "value": 1600}}
    tried = client.post("/v1/documents/delete", json={**removal, "dry_run": True}).json()
    assert (tried["deleted"], tried["ids"], tried["dry_run"]) == (1, ["mostar"], True)
    assert client.get("/v1/documents").json()["total"] == 2
    done = client.post("/v1/documents/delete", json=removal).json()
    assert (done["ids"], done["dry_run"]) == (["mostar"], False)
    assert hit_ids(client, "Stari Most") == ["tower"]
    assert client.post("/v1/documents/delete", json={"dry_run": True}).status_code == 422
    bad = {"filter": {"type": "near", "key": "y", "value": 1}}
    assert client.post("/v1/documents/delete", json=bad).status_code == 422


@pytest.mark.parametrize(
    ("method", "address", "says"),
    [
        ("DELETE", "mostar?dry_run=true", "query.dry_run: There is no such parameter. The param"),
        ("PUT", "mostar?colection=other", "Did you mean collection?"),
        ("POST", "delete?dry_run=true", "There is none here."),
        ("GET", "?lmit=1", "Did you mean limit?"),
    ],
)
def test_an_unknown_parameter_is_refused_before_anything_is_done(
    client: TestClient, method: str, address: str, says: str
) -> None:
    body = {"documents": ["mostar"]} if method == "POST" else {"text": "Else."}
    reply = client.request(method, f"/v1/documents/{address}".replace("/?", "?"), json=body)
    assert (reply.status_code, says in reply.json()["detail"]) == (422, True), reply.text
    assert "Else." not in client.get("/v1/documents/mostar").text


def test_the_last_document_can_go(client: TestClient) -> None:
    client.post("/v1/documents/delete", json={"documents": ["mostar", "tower"]})
    assert hit_ids(client, "Stari Most") == []
    client.put("/v1/documents/new", json={"text": "A new bridge."})
    assert client.get("/v1/documents").json()["total"] == 1


def test_json_lines_are_documents(client: TestClient) -> None:
    reply = client.post("/v1/documents", content=make_lines(3), headers=NDJSON)
    assert (reply.status_code, reply.json()["added"]) == (201, 3)
    bad = client.post("/v1/documents", content=make_lines(2) + "{nonsense", headers=NDJSON)
    assert bad.status_code == 422
    assert "line 3: not JSON" in bad.json()["detail"]
    assert client.post("/v1/documents", content="", headers=NDJSON).status_code == 422
    wrong = client.post("/v1/documents", content="x", headers={"content-type": "text/html"})
    assert wrong.status_code == 415


def test_a_large_upload_is_a_job(client: TestClient) -> None:
    reply = client.post("/v1/documents", content=make_lines(50), headers=NDJSON)
    assert reply.status_code == 202
    job = reply.json()
    assert (job["total"], reply.headers["location"]) == (50, f"/v1/jobs/{job['id']}")
    ended = wait_for(client, job["id"])
    assert (ended["state"], ended["done"], ended["added"], ended["error"]) == ("done", 50, 50, "")
    assert ended["rate"] > 0
    assert "d00049" in hit_ids(client, "Bridge number 49 Town49", ended["index_version"])
    listed = client.get("/v1/jobs", params={"collection": "default"}).json()["data"]
    assert [each["id"] for each in listed] == [job["id"]]
    assert client.delete(f"/v1/jobs/{job['id']}").json()["state"] == "done"
    assert client.get("/v1/jobs/job-nope").status_code == 404


@pytest.mark.parametrize("kind", ["application/x-ndjson", "multipart/form-data; boundary=b"])
def test_a_client_that_leaves_while_it_sends_is_no_fault_of_the_server(
    client: TestClient, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    sent = []

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.disconnect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    headers = {"host": "localhost", "content-type": kind, "content-length": "9"}
    scope: MutableMapping[str, Any] = {
        "type": "http",
        "method": "POST",
        "path": "/v1/documents",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    assert client.portal is not None
    client.portal.call(partial(client.app, scope, receive, send))
    assert 400 <= sent[0]["status"] < 500
    assert "internal" not in caplog.text


def test_what_the_library_stored_under_a_long_id_is_reachable(start: Serve, folder: Path) -> None:
    long = "a/" + "x" * 600
    session = Session.open(ServiceSettings(), folder)
    session.ingest([Passage(long, "", "A bridge."), Passage(f"{long}#0000", "", "A bridge.")])
    session.close()
    client = start()
    page = client.get("/v1/documents", params={"limit": 2}).json()
    assert page["next"].startswith(long)
    rest = client.get("/v1/documents", params={"limit": 9, "after": page["next"]}).json()
    assert {one["id"] for one in rest["data"]} == {"mostar", "tower"}
    files = client.get("/v1/vector_stores/default/files", params={"after": page["next"]}).json()
    assert [one["id"] for one in files["data"]] == ["mostar", "tower"]
    assert client.get("/v1/documents", params={"prefix": long}).json()["total"] == 2
    assert client.get(f"/v1/documents/{long}").json()["id"] == long
    assert client.get(f"/v1/vector_stores/default/files/{long}").json()["id"] == long
    assert client.delete(f"/v1/documents/{long}").json()["deleted"] == 1
    named = client.post("/v1/documents/delete", json={"ids": [f"{long}#0000"]}).json()
    assert named["deleted"] == 1
    assert client.put(f"/v1/documents/{long}", json={"text": "A bridge."}).status_code == 422


def test_bodies_have_limits(start: Serve) -> None:
    client = start(upload_bytes=4_096, characters=100)
    assert client.post("/v1/documents", content="x" * 5_000, headers=NDJSON).status_code == 413
    reply = client.put("/v1/documents/long", json={"text": "word " * 30})
    assert reply.status_code == 422
    assert "has 150 characters, but the limit is 100" in reply.json()["detail"]


def test_foreign_pages_change_nothing(client: TestClient) -> None:
    file = {"file": ("a.txt", b"A bridge.")}
    evil = {"origin": "https://evil.example"}
    assert client.post("/v1/documents", files=file, headers=evil).status_code == 403
    assert client.delete("/v1/documents/tower", headers=evil).status_code == 403
    assert client.post("/mcp", json={}, headers=evil).status_code == 403
    same_origin = {"origin": "http://localhost"}
    assert client.post("/v1/documents", files=file, headers=same_origin).status_code == 201


def test_a_key_lets_a_page_of_any_origin_write(start: Serve) -> None:
    secret, key = new_key("page", [Scope.WRITE])
    client = start(ServeSettings(keys=(str(key),)))
    headers = {"x-api-key": secret, "origin": "https://a.example"}
    assert client.put("/v1/documents/x", json={"text": "A."}, headers=headers).status_code == 201


def test_what_this_process_wrote_is_found_without_waiting_to_look(start: Serve) -> None:
    client = start(ServeSettings(refresh_seconds=3_600))
    for number in range(2):
        sent = {"title": "Galata Bridge", "text": "It spans the Golden Horn."}
        said = client.put(f"/v1/documents/galata{number}", json=sent).json()
        assert f"galata{number}" in hit_ids(client, "Galata Bridge", said["index_version"])
