"""The schema is what the server does: nothing that fits it is a fault.

Its examples are sent by tests/docs/test_api.py.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from httpx2 import Response
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import Case
from starlette.testclient import TestClient

from tests.service.fakes import Serve, Shelf
from tests.service.strategies import HEADS, HOSTILE, JSON, METADATA
from wye.service.api.chat import ChatRequest
from wye.service.api.retrieve import RetrieveRequest
from wye.service.api.vector_stores import StoreSearchRequest

AMPLE_MS = 60_000


@pytest.fixture
def logged(serve: Serve, shelf: Shelf, log: Path) -> TestClient:
    return serve(shelf, request_log=log, deadline_ms=AMPLE_MS)


def is_fault(reply: Response, asked: object) -> bool:
    """Whether a reply is the server's fault: any 5xx, but for time that the request itself limits.

    One that gives a few milliseconds is told so where the machine needs more, and when to return.
    One that wants a version which nobody has written gets 503 after a short wait.
    """
    if reply.status_code < 500:
        return False
    more = asked.get("wye") if isinstance(asked, dict) else None
    parts = [part for part in (asked, more) if isinstance(part, dict)]
    kind = reply.json()["type"].removeprefix("urn:wye:problem:")
    if any(part.get("min_version") for part in parts) and kind == "not-searched-yet":
        return False
    is_hurried = any(is_short(part.get("deadline_ms")) for part in parts)
    is_late = (reply.status_code, kind) in {(503, "overloaded"), (504, "deadline")}
    return not (is_hurried and is_late and "retry-after" in reply.headers)


def is_short(deadline_ms: object) -> bool:
    return isinstance(deadline_ms, int | float | str) and float(deadline_ms) < AMPLE_MS


def operations(client: TestClient) -> Iterator[tuple[str, str, dict[str, Any]]]:
    schema = client.get("/openapi.json").json()
    for path, methods in schema["paths"].items():
        for method in methods:
            yield path, method, methods[method]


def test_every_address_and_field_is_described(logged: TestClient) -> None:
    for path, _, operation in operations(logged):
        assert operation["summary"], path
        assert len(operation["description"]) > 10, path
        assert operation["tags"], path
        problem = operation["responses"]["default"]["content"]["application/problem+json"]
        assert problem["schema"]["$ref"].endswith("ProblemValue")
        assert "422" not in operation["responses"]


def test_it_is_rendered_once_and_sent_once(logged: TestClient) -> None:
    first = logged.get("/openapi.json")
    known = {"if-none-match": f'W/"x", {first.headers["etag"]}'}
    again = logged.get("/openapi.json", headers=known)
    assert (first.status_code, again.status_code, again.content) == (200, 304, b"")
    assert logged.get("/openapi.json", headers={"if-none-match": '"x"'}).content == first.content


def test_parts_that_are_dataclasses_are_described_field_by_field(logged: TestClient) -> None:
    parts = logged.get("/openapi.json").json()["components"]["schemas"]
    assert "Attributes:" not in str(parts)
    for name in ("Explanation", "EntityNote", "Contribution"):
        assert all("description" in field for field in parts[name]["properties"].values()), name
    assert parts["EntityNote"]["properties"]["bridge"]["description"].endswith("null for a seed.")


def test_names_are_unique_and_the_schema_is_whole(logged: TestClient) -> None:
    names = [operation["operationId"] for _, _, operation in operations(logged)]
    assert len(names) == len({*names})
    schema = logged.get("/openapi.json")
    assert "HTTPValidationError" not in schema.text
    assert schema.json()["info"]["title"] == "Wye"


def test_nothing_that_fits_the_schema_is_a_fault(logged: TestClient) -> None:
    known = logged.get("/openapi.json").json()
    # Names that are there, or nearly every request would be told that its is not.
    chat = known["components"]["schemas"]["ChatRequest"]["properties"]["model"]
    chat["enum"] = ["wye-auto", "wye-dense", "wye-graph"]
    for path in known["paths"].values():
        for operation in path.values():
            for parameter in operation.get("parameters", []):
                if parameter["in"] == "path":
                    names = {
                        "store": ["default"],
                        "model": ["wye-dense", "nope"],
                        "document": ["mostar", "notes/a#b ?.txt", ".."],
                        "file": ["file-" + 24 * "0", "..", "nope"],
                        "batch": ["vsfb-" + 24 * "0", "nope"],
                        "job": ["job-00064a1b2c3d4e5f6789", "..", "nope"],
                    }
                    parameter["schema"]["enum"] = names[parameter["name"]]
    schema = schemathesis.openapi.from_dict(known)
    for result in schema.get_all_operations():
        strategy = result.ok().as_strategy()  # type: ignore[union-attr]

        @settings(max_examples=40, suppress_health_check=list(HealthCheck), database=None)
        @given(case=strategy, heads=HEADS)
        def send(case: Case[Any], heads: dict[bytes, bytes]) -> None:
            request = case.as_transport_kwargs(base_url="http://localhost")
            more = (request.get("headers") or {}).items()
            request["headers"] = {**heads, **{n.encode(): v.encode("latin-1") for n, v in more}}
            request.pop("cookies", None)
            if request.get("data") is not None:
                request["content"] = request.pop("data")
            request = {name: value for name, value in request.items() if value is not None}
            if "files" in request:
                request["files"] = [part(*given) for given in request["files"]]
            reply = logged.request(**request)
            assert not is_fault(reply, case.body), (case, reply.text)
            kind = reply.headers["content-type"]
            assert (kind == "application/problem+json") == (reply.status_code >= 400), reply.text

        send()


def part(name: str, value: object) -> tuple[str, tuple[str | None, bytes]]:
    """A part of a form, as this client wants it."""
    content = value[1] if isinstance(value, tuple) else value
    data = content if isinstance(content, bytes) else str(content).encode("utf-8", "replace")
    return name, ("notes.txt" if name == "file" else None, data)


REQUESTS = (RetrieveRequest, ChatRequest, StoreSearchRequest)
FIELDS = st.sampled_from(sorted({name for one in REQUESTS for name in one.model_fields}))


# Well-formed, but for the key and the value.
FILTERS = METADATA.flatmap(
    lambda metadata: st.sampled_from(
        [{"type": "eq", "key": key, "value": value} for key, value in metadata.items()] or [{}]
    )
)
BODIES = st.dictionaries(FIELDS, JSON | HOSTILE | FILTERS, max_size=5)


@settings(max_examples=150, suppress_health_check=list(HealthCheck), database=None)
@given(body=BODIES, good=st.booleans(), heads=HEADS)
def test_no_body_at_all_is_a_fault(
    logged: TestClient, body: dict[str, Any], good: bool, heads: dict[bytes, bytes]
) -> None:
    start = {"question": "What river?", "model": "wye-dense", "query": "x"} if good else {}
    for path in ("/v1/retrieve", "/v1/chat/completions", "/v1/vector_stores/default/search"):
        request = {**start, **body}
        content = json.dumps(request)  # with Infinity and NaN, as Python writes them
        headers = {**heads, b"content-type": b"application/json"}
        reply = logged.post(path, content=content, headers=headers)
        assert not is_fault(reply, request), reply.text
