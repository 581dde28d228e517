"""Keys that are bound see their collections and their passages, whatever they ask and wherever."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import partial
from typing import Any

import pytest
from httpx2 import Response
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from tests.fakes import ReadingAnalyser, Router
from tests.live import inside, until
from wye.backends.store.ingest import ingest
from wye.backends.types import Passage
from wye.router.session import Session
from wye.router.settings import RoutingSettings
from wye.service.app import build
from wye.service.http.edge import Scope
from wye.service.http.keys import new_key
from wye.service.settings import DocumentSettings, ServeSettings, ServiceSettings

PUBLIC: dict[str, object] = {"type": "eq", "key": "acl", "value": "public"}
ROUTES = ("auto", "dense", "lexical", "hybrid", "graph", "fusion")
# What must not be seen is called so, everywhere.
HIDDEN = re.compile(r"hush\w*", re.IGNORECASE)
WORDS = ("bridge", "Neretva", "Mostar", "Danube", "tower", "Adriatic", "opened", "designed")


def library(name: str) -> list[Passage]:
    """Passages that share words, of which every other one is hidden."""
    rows = []
    for n in range(16):
        text = f"The {WORDS[n % 8]} of {name} is near the {WORDS[(n * 3 + 1) % 8]} in Mostar."
        metadata: dict[str, str | int] = {"acl": "public", "n": n}
        if n % 2:
            text += f" Hush{n} met Neretva there."
            metadata = {"acl": "secret", "n": n, f"hushkey{n}": "hushvalue"}
            rows.append(Passage(f"hush{n}-{name}", f"Hush{n}", text, metadata))
        else:
            rows.append(Passage(f"open{n}-{name}", f"Open {n}", text, metadata))
    return rows


Ask = Callable[..., Response]
ACCEPTED = {"accept": "application/json, text/event-stream"}


def dify(query: object) -> dict[str, Any]:
    return {"knowledge_id": "a", "query": query, "retrieval_setting": {"top_k": 50}}


def tool(name: str, **arguments: object) -> dict[str, Any]:
    """A call of a tool, as a message of the Model Context Protocol."""
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


class Keys:
    """A server of the collections `a` and `hushb`, and a client of each key."""

    def __init__(self, client: TestClient, secrets: Mapping[str, str]) -> None:
        self.client = client
        self.secrets = secrets

    def ask(self, key: str, method: str, path: str, body: object = None, **more: str) -> Response:
        """The reply to a key's request, whose body is JSON, or text of another kind."""
        headers = {"x-api-key": self.secrets[key], **ACCEPTED}
        sent = {"content": body} if isinstance(body, str) else {"json": body}
        reply = self.client.request(method, path, headers=headers | more, **sent)
        assert reply.status_code < 500 or reply.status_code == 503, reply.text
        return reply


@pytest.fixture(scope="module")
def keys(
    tmp_path_factory: pytest.TempPathFactory,
    handmade_router: Router,
) -> Iterator[Keys]:
    folder = tmp_path_factory.mktemp("keys")
    router = handmade_router(folder / "models", "words", 8.0)
    bound: dict[str, dict[str, Any]] = {
        "free": {"scopes": [Scope.WRITE]},
        "a": {"scopes": [Scope.WRITE], "collections": ["a"]},
        "filtered": {"scopes": [Scope.READ], "collections": ["a"], "filter_": PUBLIC},
        "nowhere": {"scopes": [Scope.WRITE], "collections": ["elsewhere"]},
        "no-such-key": {
            "scopes": [Scope.READ],
            "collections": ["a"],
            "filter_": {"type": "eq", "key": "nobody has it", "value": 1},
        },
    }
    made = {name: new_key(name, **how) for name, how in bound.items()}
    hashed = tuple(str(key) for _, key in made.values())
    serve = ServeSettings(keys=hashed, request_log=folder / "log.jsonl")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("wye.router.session.Analyser", ReadingAnalyser)
        wanted = ServiceSettings(
            serve=serve,
            documents=DocumentSettings(direct_passages=1),
            router=RoutingSettings(str(router)),
        )
        for name in ("a", "hushb"):
            with closing(Session.create(wanted, folder / name)) as made_here:
                ingest(made_here.index, library(name), made_here.analyser)
        openers = {n: partial(Session.open, wanted, folder / n) for n in ("hushb", "a")}
        with inside(build(wanted, openers)) as client:
            yield Keys(client, {name: secret for name, (secret, _) in made.items()})


def hidden_in(reply: Response, sent: object = "") -> set[str]:
    """What a reply tells that must not be told, but for what was said to it."""
    said = reply.text + json.dumps(dict(reply.headers))
    return set(HIDDEN.findall(said)) - set(HIDDEN.findall(json.dumps(sent)))


QUESTION = {"question": "Which bridge of Mostar is near the Neretva?", "k": 50, "explain": True}
Asked = tuple[str, str, Any]
"""Method, path and body."""
READS: list[Asked] = [
    *(("POST", "/v1/retrieve", {**QUESTION, "route": route}) for route in ROUTES),
    ("POST", "/v1/answer", QUESTION),
    ("POST", "/v1/answer", {**QUESTION, "stream": True}),
    ("POST", "/v1/route", {"question": QUESTION["question"], "explain": True}),
    (
        "POST",
        "/v1/chat/completions",
        {
            "model": "wye-fusion",
            "messages": [{"role": "user", "content": "Which bridge of Mostar?"}],
            "wye": {"k": 50, "explain": True},
        },
    ),
    ("GET", "/v1/models", None),
    ("GET", "/v1/models/wye-dense", None),
    ("GET", "/v1/models/wye-dense:nothing", None),
    ("GET", "/v1/vector_stores", None),
    ("GET", "/v1/vector_stores/a", None),
    ("GET", "/v1/vector_stores/nothing", None),
    ("POST", "/v1/vector_stores/a/search", {"query": "Which bridge?", "max_num_results": 50}),
    ("GET", "/v1/documents?limit=1000", None),
    ("GET", "/v1/documents?collection=nothing", None),
    ("GET", "/v1/documents/open0-a", None),
    ("GET", "/v1/jobs", None),
    ("GET", "/health", None),
    ("GET", "/ready", None),
    ("GET", "/metrics", None),
    ("POST", "/v1/feedback", {"request_id": "x", "rating": "good"}),
    ("POST", "/mcp", tool("search", query=QUESTION["question"], k=50)),
    ("POST", "/mcp", tool("search", query="Mostar", collection="nowhere")),
    ("POST", "/mcp", tool("ask", question=QUESTION["question"], k=50)),
    ("POST", "/mcp", tool("route", question=QUESTION["question"])),
    ("POST", "/mcp", tool("fetch", id="hush1-a")),
    ("POST", "/mcp", tool("fetch", id="hush1-hushb")),
    ("POST", "/mcp", tool("collections")),
    ("GET", "/v1/vector_stores/a/files?limit=100", None),
    ("GET", "/v1/vector_stores/a/files/open0-a", None),
    ("GET", "/v1/vector_stores/a/files/open0-a/content", None),
    ("POST", "/v1/dify/retrieval", dify(QUESTION["question"])),
]


@pytest.mark.parametrize("asked", READS)
def test_a_key_of_a_collection_learns_of_no_other(keys: Keys, asked: Asked) -> None:
    """The other one is called hushb, is the first, and has its name in each of its ids."""
    keys.ask("free", "POST", "/v1/retrieve", {**QUESTION, "collection": "hushb"})
    method, path, body = asked
    reply = keys.ask("a", *asked)
    assert not any("hushb" in word for word in hidden_in(reply, body)), reply.text
    assert reply.status_code in ((403,) if path == "/metrics" else (200, 201, 404))
    assert (reply.status_code == 404) == ("nothing" in path or path == "/v1/feedback")
    # The same with its name is as if there were none.
    if body and "question" in body:
        named = keys.ask("a", method, path, {**body, "collection": "hushb"})
        unknown = keys.ask("a", method, path, {**body, "collection": "hushc"})
        assert (named.status_code, unknown.status_code) == (404, 404)
        assert named.json()["detail"].replace("hushb", "hushc") == unknown.json()["detail"]


@pytest.mark.parametrize("asked", READS)
def test_a_key_with_a_filter_sees_what_passes_it(keys: Keys, asked: Asked) -> None:
    reply = keys.ask("filtered", *asked)
    assert hidden_in(reply, asked[2]) == set(), reply.text
    if reply.status_code == 200 and "/retrieve" in asked[1]:
        ids = {passage["id"] for passage in reply.json()["passages"]}
        assert ids <= {f"open{n}-a" for n in range(0, 16, 2)}
        assert ids


def test_a_key_with_a_filter_counts_what_passes_it(keys: Keys) -> None:
    page = keys.ask("filtered", "GET", "/v1/documents?limit=3").json()
    assert (page["total"], len(page["data"]), page["next"]) == (8, 3, "open12-a")
    store = keys.ask("filtered", "GET", "/v1/vector_stores/a").json()
    assert store["file_counts"]["total"] == 8
    assert keys.ask("free", "GET", "/v1/vector_stores/a").json()["file_counts"]["total"] == 16
    (facts,) = keys.ask("filtered", "GET", "/ready").json()["collections"]
    assert "passages" not in facts
    for path in ("hush1-a", "nobody"):
        reply = keys.ask("filtered", "GET", f"/v1/documents/{path}")
        assert reply.status_code == 404
    assert keys.ask("a", "GET", "/v1/documents/hush1-a").status_code == 200


def test_a_filter_that_nothing_passes_is_no_error_and_says_nothing(keys: Keys) -> None:
    for route in ROUTES:
        body = {**QUESTION, "route": route, "filter": {"type": "gt", "key": "n", "value": 0}}
        reply = keys.ask("no-such-key", "POST", "/v1/retrieve", body)
        assert (reply.status_code, reply.json()["passages"]) == (200, [])
    assert keys.ask("no-such-key", "GET", "/v1/documents").json()["total"] == 0
    assert keys.ask("no-such-key", "GET", "/v1/vector_stores/a").status_code == 200


def test_a_key_of_no_collection_of_this_server(keys: Keys) -> None:
    for asked in READS:
        reply = keys.ask("nowhere", *asked)
        assert hidden_in(reply, asked[2]) == set()
        assert not any(word in reply.text for word in ("open0", "Mostar.")), reply.text
    assert keys.ask("nowhere", "GET", "/v1/vector_stores").json()["data"] == []
    assert keys.ask("nowhere", "POST", "/v1/retrieve", QUESTION).status_code == 404


WRITES: list[Asked] = [
    ("PUT", "/v1/documents/hush1-hushb", {"text": "I was here."}),
    ("POST", "/v1/documents", {"documents": [{"id": "hush1-hushb", "text": "I was here."}]}),
    ("POST", "/v1/documents/delete", {"ids": ["hush1-hushb"]}),
    ("DELETE", "/v1/documents/hush1-hushb", None),
]


@pytest.mark.parametrize("asked", WRITES)
def test_a_key_of_a_collection_writes_to_no_other(keys: Keys, asked: Asked) -> None:
    method, path, body = asked
    before = keys.ask("free", "GET", "/v1/documents/hush1-hushb?collection=hushb").json()
    named = keys.ask("a", method, f"{path}?collection=hushb", body)
    if path.endswith("/delete"):
        named = keys.ask("a", method, path, {**body, "collection": "hushb"})
    assert named.status_code == 404
    assert keys.ask("a", *asked).status_code in (200, 201), "its own is the default"
    assert keys.ask("free", "GET", "/v1/documents/hush1-hushb?collection=hushb").json() == before
    assert keys.ask("filtered", *asked).status_code == 403
    keys.ask("free", "DELETE", "/v1/documents/hush1-hushb?collection=a")


STORE_OF_ANOTHER: list[Asked] = [
    ("GET", "", None),
    ("POST", "/search", {"query": "Mostar"}),
    ("GET", "/files", None),
    ("POST", "/files", {"file_id": "file-x"}),
    ("GET", "/files/hush1-hushb", None),
    ("GET", "/files/hush1-hushb/content", None),
    ("DELETE", "/files/hush1-hushb", None),
]


@pytest.mark.parametrize(("method", "path", "body"), STORE_OF_ANOTHER)
def test_a_store_of_another_collection_is_one_that_is_not_there(
    keys: Keys, method: str, path: str, body: object
) -> None:
    stores = (f"/v1/vector_stores/{store}{path}" for store in ("hushb", "hushc"))
    there, not_there = (keys.ask("a", method, store, body) for store in stores)
    assert (there.status_code, not_there.status_code) == (404, 404)
    detail, expected = there.json()["detail"], not_there.json()["detail"]
    assert detail.replace("hushb", "hushc") == expected.replace("hushb", "hushc")
    assert keys.ask("free", "GET", "/v1/documents/hush1-hushb?collection=hushb").status_code == 200


# What tells of no passage, and what has tests with keys where it is tested: files, jobs, reranking.
ASKED_ELSEWHERE = re.compile(r"/v1/(features|files.*|jobs/.*|rerank)")


def test_no_address_is_forgotten(keys: Keys) -> None:
    stores = [(verb, f"/v1/vector_stores/hushb{path}", None) for verb, path, _ in STORE_OF_ANOTHER]
    addresses = {(method, path.partition("?")[0]) for method, path, _ in (*READS, *WRITES, *stores)}
    schema = keys.client.get("/openapi.json").json()
    forgotten = [
        f"{method} {path}"
        for path, methods in schema["paths"].items()
        for method in methods
        if not ASKED_ELSEWHERE.fullmatch(path)
        and not any(
            method == one.lower() and re.fullmatch(re.sub(r"{\w+}", "[^/]+", path), address)
            for one, address in addresses
        )
    ]
    assert forgotten == [], "Ask these with keys that are bound, in READS or WRITES."


def test_jobs_are_those_of_its_collections(keys: Keys) -> None:
    lines = "\n".join(json.dumps({"_id": f"open-{n}", "text": "A bridge."}) for n in range(3))
    kind = {"content-type": "application/x-ndjson"}
    sent = keys.ask("free", "POST", "/v1/documents?collection=hushb", lines, **kind)
    job = sent.json()["id"]
    until(lambda: keys.ask("free", "GET", f"/v1/jobs/{job}").json()["state"] == "done")
    assert [one["id"] for one in keys.ask("free", "GET", "/v1/jobs").json()["data"]] == [job]
    for key in ("a", "filtered", "nowhere"):
        assert keys.ask(key, "GET", "/v1/jobs").json()["data"] == []
        assert keys.ask(key, "GET", f"/v1/jobs/{job}").status_code == 404
    assert keys.ask("a", "DELETE", f"/v1/jobs/{job}").status_code == 404


SIMPLE = st.builds(
    lambda kind, key, value: {"type": kind, "key": key, "value": value},
    st.sampled_from(["eq", "ne", "gt", "lte"]),
    st.sampled_from(["acl", "n", "hushkey1", "nobody has it"]),
    st.sampled_from(["secret", "public", "hushvalue", 3, 100]),
)
FILTERS = st.none() | st.recursive(
    SIMPLE | st.just({"type": "in", "key": "acl", "value": ["secret"]}),
    lambda inner: st.builds(
        lambda kind, parts: {"type": kind, "filters": parts},
        st.sampled_from(["and", "or"]),
        st.lists(inner, min_size=1, max_size=3),
    ),
    max_leaves=4,
)
ADDRESSES = ("/v1/retrieve", "/v1/answer", "/v1/route", "/v1/dify/retrieval", "/mcp")
QUESTIONS = st.lists(st.sampled_from([*WORDS, "Hush1", "Hush3", "hush5-a"]), min_size=1, max_size=6)


@settings(max_examples=60, suppress_health_check=list(HealthCheck), database=None)
@given(
    path=st.sampled_from([*ADDRESSES, "chat", "store", "documents"]),
    words=QUESTIONS,
    how=st.tuples(st.sampled_from(ROUTES), st.integers(1, 50), FILTERS, st.booleans()),
)
def test_nothing_outside_of_its_filter_is_ever_told(
    keys: Keys, path: str, words: list[str], how: tuple[str, int, object, bool]
) -> None:
    route, k, filter_of_request, explain = how
    question = " ".join(words)
    if path == "chat":
        body: dict[str, Any] = {
            "model": f"wye-{route}",
            "messages": [{"role": "user", "content": question}],
            "wye": {"k": k, "filter": filter_of_request, "explain": explain},
        }
        path = "/v1/chat/completions"
    elif path == "store":
        body = {"query": question, "max_num_results": k, "filters": filter_of_request}
        path = "/v1/vector_stores/a/search"
    elif path == "/mcp":
        body = tool("search", query=question, k=k, filter=filter_of_request, route=route)
    elif path == "/v1/dify/retrieval":
        setting = {"top_k": k, "score_threshold": 0.0}
        body = {"knowledge_id": "a", "query": question, "retrieval_setting": setting}
    elif path == "documents":
        body = {}
        path = f"/v1/documents?limit={k}&after={words[0]}"
    else:
        body = {"question": question, "filter": filter_of_request, "explain": explain}
        if path != "/v1/route":
            body |= {"k": k, "route": route}
    method = "POST" if body else "GET"
    reply = keys.ask("filtered", method, path, body)
    # The names of keys that some passages have are of the passages that it may see.
    lower = {word.lower() for word in hidden_in(reply, body)}
    assert lower <= {word.lower() for word in HIDDEN.findall(json.dumps(body))}, reply.text
    if reply.status_code == 200 and path == "/v1/retrieve":
        assert all(passage["metadata"]["acl"] == "public" for passage in reply.json()["passages"])


def test_without_a_key_only_the_state_is_told(keys: Keys) -> None:
    for path in ("/health", "/ready"):
        for headers in ({}, {"x-api-key": "wye_wrong"}):
            reply = keys.client.get(path, headers=headers)
            assert reply.status_code == 200
            assert set(reply.json()) <= {"status", "ready", "more"}
        assert keys.ask("free", "GET", path).json()["collections"][0]["collection"] == "hushb"
