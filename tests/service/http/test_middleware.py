import json
import logging
import sys
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from tests.service.fakes import Library, Serve
from wye.service.http.edge import LONGEST_BODY, MOST_VALUES, RefusalPace, Scope, json_values
from wye.service.http.keys import new_key
from wye.service.logs import JsonLines, TextLines

RIVER = {"question": "What river is it?", "route": "dense"}


def bearer(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


@pytest.fixture
def lines() -> Any:  # noqa: ANN401
    events: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            events.append(JsonLines().format(record))

    handler = Keep()
    logger = logging.getLogger("wye")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield events
    logger.removeHandler(handler)


def test_without_keys_only_this_machine_is_served(client: TestClient) -> None:
    for host in ("localhost", "localhost:8000", "127.0.0.1:8000", "[::1]:8000", "127.9.9.9"):
        assert client.get("/health", headers={"host": host}).status_code == 200
    for host in ("evil.example", "evil.example:8000", "localhost.evil.example", "", "[::1", "1"):
        reply = client.post("/v1/retrieve", json=RIVER, headers={"host": host})
        assert (reply.status_code, reply.json()["type"]) == (421, "urn:wye:problem:host")


def test_a_key_opens_what_its_scope_allows(serve: Serve, library: Library) -> None:
    secret, key = new_key("ada", [Scope.READ])
    client = serve(library, keys=(str(key),), host="0.0.0.0")
    assert client.post("/v1/retrieve", json=RIVER, headers=bearer(secret)).status_code == 200
    assert client.post("/v1/retrieve", json=RIVER, headers={"x-api-key": secret}).status_code == 200
    for headers in ({}, bearer("wye_wrong"), {"authorization": secret}, bearer("")):
        for method, path in (("POST", "/v1/retrieve"), ("GET", "/metrics"), ("GET", "/v1/nothing")):
            reply = client.request(method, path, headers=headers)
            assert (reply.status_code, reply.headers["www-authenticate"]) == (401, "Bearer")
    for path in ("/health", "/ready", "/openapi.json"):
        assert client.get(path, headers={"host": "wye.example"}).status_code == 200


@pytest.mark.parametrize(
    ("body", "kind", "status", "says"),
    [
        ("{x", "application/json", 422, "not JSON: Expecting property name"),
        ("[" * 100_000, "application/json", 400, "not deeply nested"),
        ("1" * 10_000, "application/json", 400, "as JSON"),
        ("\xff", "application/json", 422, "not JSON in UTF-8"),
        ("\xff", "image/png", 422, "content-type"),
        ('["\\ud800"]'.encode("utf-16-le").decode(), "application/json", 422, "in UTF-8"),
        ('{"question": "\xed\xa0\x80"}', "application/json", 422, "in UTF-8"),
        (json.dumps(RIVER), "text/plain", 422, "content-type"),
        ("", "application/json", 422, "required"),
    ],
)
def test_broken_bodies(client: TestClient, body: str, kind: str, status: int, says: str) -> None:
    content = body.encode("latin-1")
    reply = client.post("/v1/retrieve", content=content, headers={"content-type": kind})
    assert reply.status_code == status
    assert reply.headers["content-type"] == "application/problem+json"
    assert says in reply.json()["detail"]


@pytest.mark.parametrize("half", ["\ud800", "\udfff x", "\ude00\ud83d"])
def test_half_a_surrogate_pair_is_refused_wherever_it_is(client: TestClient, half: str) -> None:
    condition = {"name": "y", "comparison_operator": half, "value": 1}
    dify = {"knowledge_id": "x", "query": "x", "metadata_condition": {"conditions": [condition]}}
    chat = {"model": "wye-dense", "messages": [{"role": "user", "content": "x"}], "tools": [half]}
    for path, body in (
        ("/v1/retrieve", {**RIVER, "filter": {"type": "eq", "key": half, "value": 1}}),
        ("/v1/dify/retrieval", dify),
        ("/v1/chat/completions", chat),
        ("/mcp", {"jsonrpc": "2.0", "id": 1, "method": half}),
    ):
        kind = {"content-type": "application/json"}
        reply = client.post(path, content=json.dumps(body), headers=kind)
        assert (reply.status_code, "hex escape" in reply.json()["detail"]) == (422, True), path
        whole = json.dumps(body).replace(json.dumps(half), json.dumps("\U0001f600"))
        assert "hex escape" not in client.post(path, content=whole, headers=kind).text


def test_folders_of_the_server_are_in_its_log_only(client: TestClient, lines: list[str]) -> None:
    removal = {"filter": {"type": "eq", "key": "y", "value": 1}, "dry_run": True}
    reply = client.post("/v1/documents/delete", json=removal)
    assert (reply.status_code, reply.json()["type"]) == (503, "urn:wye:problem:unavailable")
    assert "There is no index at library " in reply.json()["detail"]
    assert "/nonexistent/library" in "".join(lines)


def test_addresses_and_methods_that_do_not_exist(client: TestClient) -> None:
    for method, path, status in (("GET", "/nope", 404), ("GET", "/v1/retrieve", 405)):
        reply = client.request(method, path)
        assert reply.status_code == status
        assert "/openapi.json" in reply.json()["detail"]
        assert reply.json()["error"]["message"] == reply.json()["detail"]
    assert reply.headers["allow"] == "POST"


def test_ids_are_made_unless_a_good_one_is_sent(client: TestClient) -> None:
    def id_for(given: str) -> str:
        return str(client.get("/health", headers={"x-request-id": given}).headers["x-request-id"])

    assert id_for("abc-1.2_X") == "abc-1.2_X"
    for bad in ("", "a b", "x" * 65, 'a"b', "a;b"):
        assert id_for(bad) != bad
        assert len(id_for(bad)) == 24


def test_browsers_are_told_to_be_careful(client: TestClient) -> None:
    headers = client.post("/v1/retrieve", json=RIVER).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert "default-src 'self'" in headers["content-security-policy"]
    assert headers["cache-control"] == "no-store"
    assert "access-control-allow-origin" not in headers


def test_the_log_names_who_and_what_but_no_secret(
    serve: Serve, library: Library, lines: list[str]
) -> None:
    secret, key = new_key("ada", [Scope.READ])
    client = serve(library, keys=(str(key),))
    lines.clear()
    client.post("/v1/retrieve", json=RIVER, headers=bearer(secret))
    client.post("/v1/retrieve?key=hunter2", json=RIVER, headers=bearer(secret))
    client.get("/health")
    first, second = (json.loads(line) for line in lines)
    assert (first["path"], first["status"], first["key"]) == ("/v1/retrieve", 200, "ada")
    assert (second["status"], second["problem"]) == (422, "validation")
    text = "\n".join(lines)
    for private in (secret, key.digest, "hunter2", RIVER["question"]):
        assert private not in text


def test_lines_for_people_hold_the_same() -> None:
    record = logging.makeLogRecord({"msg": "request", "levelname": "INFO", "status": 200})
    assert TextLines().format(record).endswith("info    request status=200")


FORGED = "/x\n2026-01-01T00:00:00.000Z info request key=admin\x1b[31m\x9b\u202e\r\u2028"


@given(st.text() | st.just(FORGED), st.text() | st.just(FORGED))
def test_whatever_is_logged_begins_no_line_of_its_own(path: str, message: str) -> None:
    record = logging.makeLogRecord({"msg": "request", "levelname": "INFO", "path": path})
    (line,) = TextLines().format(record).splitlines()
    assert not any(ord(each) < 32 or each in "\x9b\u202e" for each in line.replace("\t", ""))
    try:
        raise ValueError(message)
    except ValueError:
        record.exc_info = sys.exc_info()
    _, *below = TextLines().format(record).splitlines()
    assert all(each.startswith("  ") for each in below if each.strip())


def test_requests_are_counted(client: TestClient) -> None:
    client.post("/v1/retrieve", json=RIVER)
    client.post("/v1/retrieve", json={})
    client.get("/v1/anything/that/is/not/there")
    text = client.get("/metrics").text
    assert 'wye_http_requests_total{path="/v1/retrieve",status="200"} 1.0' in text
    assert 'wye_http_requests_total{path="(none)",status="404"} 1.0' in text
    assert 'wye_refused_total{problem="validation"} 1.0' in text
    assert 'wye_stage_seconds_count{stage="queue"} 1.0' in text
    assert 'wye_index_passages{collection="default"} 3.0' in text


BOUNDED = st.recursive(
    st.integers() | st.text(alphabet='"\\\\,:[{a', max_size=5) | st.none(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(alphabet='\\\\",:', max_size=3), inner),
)


def values_of(value: object) -> int:
    """Commas, colons and opening brackets that it takes to write it."""
    if isinstance(value, list):
        return 1 + max(len(value) - 1, 0) + sum(map(values_of, value))
    if isinstance(value, dict):
        return 1 + max(len(value) - 1, 0) + len(value) + sum(map(values_of, value.values()))
    return 0


PARSED = "/v1/retrieve", "/v1/documents/delete", "/v1/documents", "/v1/documents/x"


@given(value=BOUNDED)
def test_json_is_counted_without_its_strings(value: object) -> None:
    assert json_values(json.dumps(value).encode()) == values_of(value)


@pytest.mark.parametrize("path", PARSED)
def test_what_is_parsed_in_one_go_is_bounded(client: TestClient, path: str) -> None:
    method = "PUT" if path.endswith("/x") else "POST"
    kind = {"content-type": "application/json"}
    long = b'{"a": "' + b"a" * LONGEST_BODY + b'"}'
    many = b'{"a": [' + b"[]," * (MOST_VALUES // 2) + b"[]]}"
    for body in (long, many, (part for part in [long])):  # the last without its length
        reply = client.request(method, path, content=body, headers=kind)
        assert (reply.status_code, reply.json()["type"]) == (413, "urn:wye:problem:too-long")
    strings = b'{"a": "' + b"[{,:" * 500_000 + b'"}'
    assert client.request(method, path, content=strings, headers=kind).status_code == 422


@pytest.mark.parametrize("path", PARSED)
@pytest.mark.parametrize(
    "body",
    [
        {f"{n:x}": 1 for n in range(45_000)},
        {"documents": [{"a": 1, "b": 1} for _ in range(9_000)]},
        {"filter": {"type": "and", "filters": [{"type": "eq", "key": "a", "value": 1}] * 9_000}},
        {"filter": {"type": "in", "key": "a", "value": [1] * 90_000}},
        {"metadata": {"a": [1] * 90_000}, "id": "x", "text": "x"},
    ],
    ids=["fields", "documents", "comparisons", "values", "metadata"],
)
def test_refusals_come_soon(client: TestClient, path: str, body: dict[str, object]) -> None:
    """Not a hundred thousand errors, each with a sentence, of which ten are shown."""
    content = json.dumps(body).encode()
    kind = {"content-type": "application/json"}
    took: list[float] = []
    for _ in range(3):  # the least of them: a slow machine is not a slow refusal
        before = time.process_time()
        reply = client.request(
            "PUT" if path.endswith("/x") else "POST", path, content=content, headers=kind
        )
        took.append(time.process_time() - before)
        assert reply.status_code == 422
    assert min(took) < 1.0


def test_refusals_are_spaced_out_once_there_are_many() -> None:
    now = [100.0]
    pace = RefusalPace(10.0, 3, 1.0, clock=lambda: now[0])
    assert [pace.delay() for _ in range(3)] == [0.0, 0.0, 0.0]
    assert [round(pace.delay(), 3) for _ in range(3)] == [0.1, 0.2, 0.3]
    assert max(pace.delay() for _ in range(100)) == pytest.approx(1.0)  # and never longer
    now[0] += 1.3
    assert [pace.delay() for _ in range(3)] == [0.0, 0.0, 0.0]
    now[0] += 1000.0  # a long peace saves up no more than the burst
    assert sum(pace.delay() == 0.0 for _ in range(10)) == 3
