"""The kind http: the recipes of the guide beside replies of those services' shape, and pointers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.live import listening
from tests.service.arms.fakes import Remote
from tests.service.arms.stores import ROWS, VECTORS, arm_of, ask, compared, passing, recipe
from tests.service.fakes import Library
from wye.backends.errors import FilterError
from wye.backends.filters import Fixed
from wye.router.types import Route
from wye.service.app import build
from wye.service.arms.arm import RemoteArm
from wye.service.arms.kinds import MISSING, at, check_pointer, fill, mentions
from wye.service.http.edge import Scope
from wye.service.http.keys import new_key
from wye.service.settings import ServeSettings, ServiceSettings

RIVER = "Which river is the Neretva?"
SINCE = Fixed({"type": "gte", "key": "y", "value": 1800})
NESTED = {"type": "or", "filters": [compared("eq", "kind", "river"), compared("lt", "year", 900)]}
IDS = [row[0] for row in ROWS]
TEXTS = [row[2] for row in ROWS]


def test_another_wye_answers_with_passages(tmp_path: Path, library: Library) -> None:
    app = build(ServiceSettings(), {"default": lambda: library})
    with listening(app) as url:
        call = ask(arm_of(tmp_path, **recipe("wye", url)), RIVER)
        only = ask(arm_of(tmp_path, **recipe("wye", url)), "Which river?", SINCE)
    assert Route.GRAPH in [route for route, *_ in library.batches]
    assert (call.reason, only.reason, call.note) == ("", "", "")
    assert (call.hits[0].id, call.hits[0].title) == ("neretva", "Neretva")
    assert call.hits[0].metadata == {"y": 1}
    assert call.hits[0].score > 0
    assert [hit.id for hit in only.hits] == ["tower"]


def test_a_vector_store_of_another_wye_does_too(
    tmp_path: Path, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, key = new_key("arm", [Scope.READ])
    monkeypatch.setenv("OPENAI_API_KEY", secret)
    options = ServeSettings(keys=(str(key),))
    app = build(ServiceSettings(serve=options), {"default": lambda: library})
    with listening(app) as url:
        keys = recipe("openai", "", url=f"{url}/v1/vector_stores/default/search", id="/passage_id")
        call = ask(arm_of(tmp_path, **keys), RIVER, k=2)
        only = ask(arm_of(tmp_path, **keys), "Which river?", SINCE)
        unknown = ask(arm_of(tmp_path, **recipe("openai", url)), RIVER)
        refused = ask(arm_of(tmp_path, **{**keys, "key_env": ""}), RIVER)
    assert (call.reason, len(call.hits)) == ("", 2)
    assert (call.hits[0].id, call.hits[0].title) == ("neretva", "Neretva")
    assert call.hits[0].metadata == {"y": 1}
    assert [hit.id for hit in only.hits] == ["tower"]
    assert unknown.reason == "rejects the request (404)"
    assert refused.reason == "rejects our key (401)"


Arm = Callable[[str], RemoteArm]


@pytest.fixture
def arm(tmp_path: Path, remote: Remote, monkeypatch: pytest.MonkeyPatch) -> Arm:
    """Makes the arm of a recipe, with a key."""
    for name in ("OPENAI_API_KEY", "LIGHTRAG_API_KEY", "QDRANT_KEY"):
        monkeypatch.setenv(name, "k")
    return lambda name: arm_of(tmp_path, **recipe(name, remote.url))


def test_a_vector_store_of_openai_has_no_ids_of_passages(arm: Arm, remote: Remote) -> None:
    remote.reply = {
        "object": "vector_store.search_results.page",
        "data": [
            {
                "file_id": "file-1",
                "filename": "river.md",
                "score": 0.9 - rank / 10,
                "attributes": facts,
                "content": [{"type": "text", "text": text}],
            }
            for rank, (_, _, text, facts) in enumerate(ROWS)
        ],
    }
    call = ask(arm("openai"), "Which river?", NESTED)
    assert remote.paths == ["/v1/vector_stores/vs_1/search"]
    assert remote.headers["authorization"] == "Bearer k"
    assert remote.asked == [{"query": "Which river?", "max_num_results": 50, "filters": NESTED}]
    passing_ids = passing(NESTED)
    assert [hit.text for hit in call.hits] == [row[2] for row in ROWS if row[0] in passing_ids]
    assert len({hit.id for hit in call.hits}) == len(passing_ids)
    assert {hit.title for hit in call.hits} == {"river.md"}
    again = ask(arm("openai"), "Another?")
    assert {hit.id for hit in again.hits} > {hit.id for hit in call.hits}
    remote.reply = {"data": [{"filename": "river.md", "content": []}]}
    assert ask(arm("openai"), "?").outcome == "garbled"


def of_lightrag(*chunks: dict[str, str]) -> dict[str, Any]:
    numbered = [{**chunk, "chunk_id": f"chunk-{i}"} for i, chunk in enumerate(chunks)]
    data = {"entities": [], "relationships": [], "chunks": numbered, "references": []}
    return {"status": "success", "message": "", "data": data, "metadata": {"query_mode": "mix"}}


def test_lightrag_gives_chunks_in_its_order(arm: Arm, remote: Remote) -> None:
    remote.reply = of_lightrag(
        {"reference_id": "1", "content": "The Neretva flows.", "file_path": "river.md"},
        {"reference_id": "2", "content": "A bridge.", "file_path": "unknown_source"},
    )
    asked = arm("lightrag")
    with pytest.raises(FilterError, match="its request has no place for a filter"):
        asked.check_filter()
    call = ask(asked, "Which river?", k=2)
    assert remote.asked == [{"query": "Which river?", "mode": "mix", "chunk_top_k": 2}]
    assert remote.paths == ["/query/data"]
    assert remote.headers["x-api-key"] == "k"
    titled = [("chunk-0", "river.md"), ("chunk-1", "unknown_source")]
    assert [(hit.id, hit.title) for hit in call.hits] == titled


def test_lightrag_may_find_nothing_and_may_fail(arm: Arm, remote: Remote) -> None:
    nothing = {"failure_reason": "no_results", "mode": "mix"}
    remote.reply = {"status": "failure", "message": "", "data": {}, "metadata": nothing}
    empty = ask(arm("lightrag"), "Which?")
    assert (empty.outcome, empty.hits) == ("ok", ())
    for status in ("failure", "success"):
        remote.reply = {"status": status, "message": "secret", "data": {}, "metadata": {}}
        failed = ask(arm("lightrag"), "Which?")
        assert failed.reason == "sent an unreadable reply: there is no list at /data/chunks"


def test_qdrant_is_asked_for_the_nearest_points(arm: Arm, remote: Remote) -> None:
    points = [
        {"id": id_, "score": 1 / rank, "payload": {"text": text, "title": title, **metadata}}
        for rank, (id_, title, text, metadata) in enumerate(ROWS, start=1)
    ]
    remote.reply = {"result": {"points": points}, "status": "ok"}
    asked = arm("qdrant")
    with pytest.raises(FilterError, match="its request has no place for a filter"):
        asked.check_filter()
    call = ask(asked, "tower")
    assert [(hit.id, hit.title, hit.text) for hit in call.hits] == [row[:3] for row in ROWS]
    assert [hit.score for hit in call.hits] == [1 / rank for rank in (1, 2, 3, 4)]
    assert call.hits[0].metadata["year"] == 1566
    assert remote.paths == ["/collections/notes/points/query"]
    assert remote.headers["api-key"] == "k"
    assert remote.asked == [{"query": VECTORS["tower"], "limit": 4, "with_payload": True}]


def test_chroma_replies_by_columns(arm: Arm, remote: Remote) -> None:
    remote.reply = {
        "ids": [IDS],
        "documents": [TEXTS],
        "metadatas": [[{"title": row[1], **row[3]} for row in ROWS[:-1]] + [None]],
    }
    call = ask(arm("chroma"), "tower", k=4)
    assert [(hit.id, hit.title, hit.text) for hit in call.hits] == [row[:3] for row in ROWS]
    assert call.hits[0].metadata == {"title": "Stari Most", "year": 1566, "kind": "bridge"}
    assert remote.paths[0].endswith("/collections/6b1a0e0c-52f4-4f6e-9a53-0f0c1f7c2d11/query")
    expected = {"query_embeddings": [VECTORS["tower"]], "n_results": 4}
    assert remote.asked == [{**expected, "include": ["documents", "metadatas"]}]
    remote.reply["documents"] = [TEXTS[:-1]]
    short = ask(arm("chroma"), "tower")
    assert short.reason == "sent an unreadable reply: a passage has no text"


@pytest.mark.parametrize(
    ("name", "query"),
    [
        ("opensearch", {"multi_match": {"query": "tower", "fields": ["subject^2", "body"]}}),
        ("opensearch-vectors", {"knn": {"embedding": {"vector": VECTORS["tower"], "k": 4}}}),
    ],
)
def test_opensearch_is_asked_for_words_or_vectors(
    arm: Arm, remote: Remote, name: str, query: dict[str, Any]
) -> None:
    hits = [
        {"_id": id_, "_score": 3.5, "_source": {"body": text, "subject": title, **metadata}}
        for id_, title, text, metadata in ROWS
    ]
    remote.reply = {"timed_out": False, "hits": {"hits": hits}}
    call = ask(arm(name), "tower")
    assert [(hit.id, hit.title, hit.text) for hit in call.hits] == [row[:3] for row in ROWS]
    assert call.hits[0].score == 3.5
    assert remote.paths == ["/notes/_search"]
    assert remote.asked == [{"size": 4, "query": query}]


def test_a_list_of_texts_is_enough(tmp_path: Path, remote: Remote) -> None:
    remote.reply = ["Text"]
    keys = {"kind": "http", "url": f"{remote.url}/find/", "request": {"q": "{question}"}}
    (hit,) = ask(arm_of(tmp_path, **keys, hits="", id="", text=""), "Which?").hits
    assert (hit.text, len(hit.id), remote.paths) == ("Text", 16, ["/find"])


DOCUMENT = {"foo": ["bar", "baz"], "": 0, "a/b": 1, "m~n": 8, " ": 7}


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        *[("", DOCUMENT), ("/foo", ["bar", "baz"]), ("/foo/0", "bar"), ("/", 0), ("/a~1b", 1)],
        *[("/m~0n", 8), ("/ ", 7)],
        *((nowhere, MISSING) for nowhere in ("/foo/2", "/foo/00", "/foo/-", "/nope/deeper")),
    ],
)
def test_a_pointer_leads_to_what_the_standard_says(pointer: str, value: object) -> None:
    assert at(DOCUMENT, check_pointer(pointer)) == value


@pytest.mark.parametrize("pointer", ["foo", "/a~2", "/~", "$.foo"])
def test_what_is_no_pointer_is_refused(pointer: str) -> None:
    with pytest.raises(ValueError, match="JSON pointer"):
        check_pointer(pointer)


@given(st.text())
def test_a_question_stays_what_it_is(question: str) -> None:
    template = {"q": "{question}", "deep": [{"n": "{k}", "w": "{filter}"}], "mode": "x{k}"}
    values = {"{question}": question, "{k}": 5, "{filter}": MISSING}
    assert fill(template, values) == {"q": question, "deep": [{"n": 5}], "mode": "x{k}"}
    assert [mentions(template, name) for name in (*values, "{vector}")] == [True] * 3 + [False]
    assert fill(["{filter}", 3], values) == [3]
