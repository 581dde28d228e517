"""Each kind, beside the service that it asks or one of its shape."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from backends.errors import FilterError
from backends.filters import Fixed
from router.types import Route
from service.app import build
from service.arms.arm import ArmCall, RemoteArm
from service.arms.file import read_arms
from service.http.keys import Scope, new_key
from service.settings import ServeSettings, ServiceSettings
from tests.live import listening
from tests.service.arms.fakes import Remote, arms_file, table
from tests.service.fakes import Library


def arm_of(folder: Path, address: str, **changes: Any) -> RemoteArm:  # noqa: ANN401
    ours = ("hits", "id", "text", "title", "score", "metadata", "request")
    text = table(address, **{**dict.fromkeys(ours), **changes})
    return read_arms(arms_file(folder, text), ["docs"], 5.0)["docs"][0]


def ask(arm: RemoteArm, filter_: object | None = None, question: str = "Which river?") -> ArmCall:
    async def once() -> ArmCall:
        try:
            return await arm.search(question, 2, filter_, 5.0)
        finally:
            await arm.close()

    return asyncio.run(once())


def test_another_wye_answers_with_passages(tmp_path: Path, library: Library) -> None:
    app = build(ServiceSettings(), {"default": lambda: library})
    with listening(app) as url:
        arm = arm_of(tmp_path, url, kind="wye", route="graph")
        call = ask(arm, question="Which river is the Neretva?")
        only = ask(
            arm_of(tmp_path, url, kind="wye", remote_collection="default"),
            Fixed({"type": "gte", "key": "y", "value": 1800}),
        )
        refused = ask(arm_of(tmp_path, url, kind="wye", remote_collection="nope"))
    assert call.reason == ""
    assert (call.hits[0].id, call.hits[0].title) == ("neretva", "Neretva")
    assert call.hits[0].metadata == {"y": 1}
    assert [hit.id for hit in only.hits] == ["tower"]
    assert refused.reason == "rejects the request (404)"


def test_another_wye_tells_that_it_is_degraded(tmp_path: Path, library: Library) -> None:
    app = build(ServiceSettings(), {"default": lambda: library})
    with listening(app) as url:
        library.poison = "river?"
        call = ask(arm_of(tmp_path, url, kind="wye"))
    assert (call.reason, call.note) == ("", "its own answer is degraded")


def store_of(folder: Path, url: str, **changes: Any) -> RemoteArm:  # noqa: ANN401
    return arm_of(
        folder, f"{url}/v1", kind="openai-vector-store", **{"store": "default", **changes}
    )


def test_a_vector_store_answers_with_passages(
    tmp_path: Path, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, key = new_key("arm", [Scope.READ])
    monkeypatch.setenv("STORE_KEY", secret)
    options = ServeSettings(keys=(str(key),))
    app = build(ServiceSettings(serve=options), {"default": lambda: library})
    question = "Which river is the Neretva?"
    with listening(app) as url:
        call = ask(store_of(tmp_path, url, key_env="STORE_KEY", ranker="wye-dense"), None, question)
        assert library.batches[-1][0] == Route.DENSE
        only = ask(
            store_of(tmp_path, url, key_env="STORE_KEY"),
            Fixed({"type": "gte", "key": "y", "value": 1800}),
        )
        unknown = ask(store_of(tmp_path, url, key_env="STORE_KEY", store="nope"))
        refused = ask(store_of(tmp_path, url))
    assert (call.reason, len(call.hits)) == ("", 2)
    assert (call.hits[0].id, call.hits[0].title) == ("neretva", "Neretva")
    assert call.hits[0].metadata == {"y": 1}
    assert [hit.id for hit in only.hits] == ["tower"]
    assert unknown.reason == "rejects the request (404)"
    assert refused.reason == "rejects our key (401)"


def test_a_vector_store_of_openai_has_no_ids_of_passages(tmp_path: Path, remote: Remote) -> None:
    texts = ["One part of it.", "Another."]
    remote.reply = {
        "object": "vector_store.search_results.page",
        "data": [
            {
                "file_id": "file-1",
                "filename": "river.md",
                "score": 0.9 - place,
                "attributes": {"y": 1} if place else None,
                "content": [{"type": "text", "text": text}, {"type": "text", "text": "More."}],
            }
            for place, text in enumerate(texts)
        ],
    }
    nested = {
        "type": "or",
        "filters": [
            {"type": "in", "key": "y", "value": [1, 2]},
            {"type": "ne", "key": "lang", "value": "en"},
        ],
    }
    call = ask(store_of(tmp_path, remote.url), nested)
    assert remote.paths == ["/v1/vector_stores/default/search"]
    assert remote.asked == [{"query": "Which river?", "max_num_results": 2, "filters": nested}]
    first, second = call.hits
    assert first.id.startswith("file-1#")
    assert first.id != second.id
    assert (first.text, first.title, first.metadata) == ("One part of it.\nMore.", "river.md", {})
    arm = store_of(tmp_path, remote.url)
    with pytest.raises(FilterError, match="cannot compare texts by order"):
        arm.check_filter({"type": "gt", "key": "lang", "value": "en"})
    remote.reply = {"data": [{"filename": "river.md", "content": []}]}
    assert ask(arm).outcome == "garbled"


CHUNKS = [
    {"reference_id": "1", "content": "The Neretva flows.", "file_path": "in/river.md"},
    {"reference_id": "2", "content": "A bridge.", "file_path": "unknown_source"},
]


def of_lightrag(*chunks: dict[str, str]) -> dict[str, Any]:
    """As its server replies, by its own description of /query/data."""
    numbered = [{**chunk, "chunk_id": f"chunk-{i}"} for i, chunk in enumerate(chunks)]
    data = {"entities": [], "relationships": [], "chunks": numbered, "references": []}
    return {"status": "success", "message": "", "data": data, "metadata": {"query_mode": "mix"}}


def test_lightrag_gives_chunks_in_its_order(
    tmp_path: Path, remote: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIGHTRAG_API_KEY", "k")
    remote.reply = of_lightrag(*CHUNKS)
    arm = arm_of(tmp_path, remote.url, kind="lightrag", key_env="LIGHTRAG_API_KEY")
    with pytest.raises(FilterError, match="an arm of the kind 'lightrag' cannot filter"):
        arm.check_filter({"type": "eq", "key": "a", "value": 1})
    call = ask(arm, question="a")
    assert remote.asked == [{"query": "a??", "mode": "mix", "chunk_top_k": 2}]
    assert remote.paths == ["/query/data"]
    assert remote.headers["x-api-key"] == "k"
    assert [(hit.id, hit.title, hit.metadata) for hit in call.hits] == [
        ("chunk-0", "river.md", {"path": "in/river.md"}),
        ("chunk-1", "", {}),
    ]
    assert call.hits[0].score > call.hits[1].score


def test_lightrag_may_find_nothing_and_may_fail(tmp_path: Path, remote: Remote) -> None:
    nothing = {"failure_reason": "no_results", "mode": "mix"}
    remote.reply = {"status": "failure", "message": "", "data": {}, "metadata": nothing}
    assert ask(arm_of(tmp_path, remote.url, kind="lightrag")).reason == ""
    remote.reply = {"status": "failure", "message": "secret", "data": {}, "metadata": {}}
    assert ask(arm_of(tmp_path, remote.url, kind="lightrag")).reason == "says that it failed"
    remote.reply = {"status": "success", "data": {}}
    assert ask(arm_of(tmp_path, remote.url, kind="lightrag")).outcome == "garbled"


def test_http_asks_by_parameters_as_well(tmp_path: Path, remote: Remote) -> None:
    remote.reply = [{"n": 1, "t": "Text"}]
    request = {"q": "{question}", "n": "{k}", "mode": "fast"}
    arm = arm_of(
        tmp_path,
        f"{remote.url}/find/",
        method="GET",
        request=request,
        hits="",
        id="/n",
        text="/t",
    )
    call = ask(arm, question="Which river & when?")
    assert [(hit.id, hit.text) for hit in call.hits] == [("1", "Text")]
    assert remote.paths == ["/find?q=Which+river+%26+when%3F&n=2&mode=fast"]
