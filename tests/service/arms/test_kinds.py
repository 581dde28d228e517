"""Each kind, beside the service that it asks or one of its shape."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from backends.errors import FilterError
from backends.filters import Fixed
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


ANOTHER = {
    "request": {
        "question": "{question}",
        "route": "graph",
        "k": "{k}",
        "filter": "{filter}",
        "collection": "default",
    },
    "hits": "/passages",
    "id": "/id",
    "text": "/text",
    "title": "/title",
    "metadata": "/metadata",
}


def test_another_wye_answers_with_passages(
    tmp_path: Path, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, key = new_key("arm", [Scope.READ])
    monkeypatch.setenv("WYE_KEY", secret)
    options = ServeSettings(keys=(str(key),))
    app = build(ServiceSettings(serve=options), {"default": lambda: library})
    with listening(app) as url:
        keys = {**ANOTHER, "key_env": "WYE_KEY"}
        call = ask(arm_of(tmp_path, f"{url}/v1/retrieve", **keys), None, "Which river is Neretva?")
        only = ask(
            arm_of(tmp_path, f"{url}/v1/retrieve", **keys),
            Fixed({"type": "gte", "key": "y", "value": 1800}),
        )
        refused = ask(arm_of(tmp_path, f"{url}/v1/retrieve", **ANOTHER))
        nowhere = ask(arm_of(tmp_path, f"{url}/v1/nowhere", **keys))
    assert call.reason == ""
    assert (call.hits[0].id, call.hits[0].title) == ("neretva", "Neretva")
    assert call.hits[0].metadata == {"y": 1}
    assert [hit.id for hit in only.hits] == ["tower"]
    assert refused.reason == "rejects our key (401)"
    assert nowhere.reason == "rejects the request (404)"


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
