import json
from dataclasses import replace
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.service.fakes import LIBRARY, Endpoint, Library, Serve
from wye.backends.types import Passage
from wye.router.types import Reply
from wye.service.settings import GeneratorSettings

RIVER = {"question": "What river flows into the Adriatic?", "route": "graph"}


def events(text: str) -> list[tuple[str, Any]]:
    parts = []
    for block in text.strip().split("\n\n"):
        name, data = block.split("\n")
        parts.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return parts


def test_nothing_found_is_said(client: TestClient) -> None:
    nothing = {"type": "eq", "key": "y", "value": 3}
    body = client.post("/v1/answer", json={**RIVER, "filter": nothing}).json()
    assert (body["answer"], body["citations"]) == ("No passage is relevant to this question.", [])
    assert body["segments"] == [{"text": body["answer"], "passages": []}]
    assert body["answered"] == "no"
    assert body["note"] == "No language model is configured (WYE_GENERATOR__URL)."


def test_thanks_are_not_searched(client: TestClient) -> None:
    body = client.post("/v1/answer", json={"question": "Thank you!", "history": []}).json()
    assert body["answer"] == "There is no question in this, so nothing was searched."
    assert body["answered"] is None


def test_what_cannot_be_quoted_is_unsure(serve: Serve) -> None:
    client = serve(Library([Passage("ann", "Ann", "Ann speaks Czech.")]))
    body = client.post("/v1/answer", json={"question": "Who does not speak Czech?"}).json()
    assert (body["answer"], body["answered"]) == ("Not sure that this is here.", "unsure")


def test_what_is_probably_not_in_the_corpus_is_not_answered(
    client: TestClient, writing: TestClient, endpoint: Endpoint
) -> None:
    cake = {"question": "What river of cake flows into the Adriatic?", "route": "graph"}
    body = writing.post("/v1/answer", json=cake | {"abstain_below": 0.06}).json()
    assert (body["answer"], body["citations"]) == ("This is probably not in this corpus.", [])
    assert body["note"].endswith("answer is 0.02, less than 0.06 (abstain_below).")
    assert (body["answered"], body["retrieval"]["answerability"]) == ("no", 0.02)
    assert body["retrieval"]["passages"][0]["relevance"] == 0.9
    assert endpoint.seen == []
    written = writing.post("/v1/answer", json={**cake, "abstain_below": 0}).json()
    assert (written["generator"], written["answered"]) == ("tiny", "unsure")
    assert written["note"] == "Not sure that this is here."
    quoted = client.post("/v1/answer", json={**cake, "abstain_below": 0}).json()
    assert quoted["answer"].startswith(
        "Not sure that this is here. It flows into the Adriatic. [1]"
    )
    assert quoted["answered"] == "unsure"
    refused = writing.post("/v1/answer", json={**cake, "abstain_below": 1.5})
    assert refused.status_code == 422


def test_a_sources_own_brackets_are_no_citation(serve: Serve) -> None:
    sun = Passage("sun", "Sun", "The Sun is a star.[2] It is 4.6 billion years old [1, 2].")
    client = serve(Library([sun, *LIBRARY]))
    body = client.post("/v1/answer", json={"question": "How old is the Sun?", "k": 1}).json()
    assert body["segments"] == [
        {"text": "The Sun is a star.[ 2 ] It is 4.6 billion years old [ 1, 2 ]. ", "passages": [1]}
    ]
    assert [citation["id"] for citation in body["citations"]] == ["sun"]


def test_a_model_answers_from_numbered_passages(
    serve: Serve, library: Library, endpoint: Endpoint, with_model: GeneratorSettings
) -> None:
    client = serve(library, generator=replace(with_model, passages=2, passage_characters=11))
    endpoint.text = "The Neretva [1] , not [9] or [0] , see also [2] and [1] ."
    body = client.post("/v1/answer", json={**RIVER, "max_tokens": 9}).json()
    assert [citation["index"] for citation in body["citations"]] == [1, 2]
    assert body["segments"] == [
        {"text": "The Neretva ", "passages": [1]},
        {"text": " , not [9] or [0] , see also ", "passages": [2]},
        {"text": " and ", "passages": [1]},
        {"text": " . ", "passages": []},
    ]
    assert (body["generator"], body["note"], body["finish_reason"]) == ("tiny", "", "stop")
    assert body["usage"]["completion_tokens"] == 3
    sent = endpoint.seen[0][0]
    assert sent["max_tokens"] == 9
    system, user = sent["messages"]
    assert "from nothing else" in system["content"]
    assert user["content"] == (
        "Passages:\n\n[1]\n> Neretva\n> The Neretva\n\n[2]\n> Stari Most\n> The Old Bri\n\n"
        "Question: What river flows into the Adriatic?"
    )


def test_a_failed_model_is_no_reason_for_silence(writing: TestClient, endpoint: Endpoint) -> None:
    endpoint.script = [(401, {})]
    body = writing.post("/v1/answer", json=RIVER).json()
    assert body["generator"] == "extractive"
    assert body["note"].startswith("degraded: the language model did not answer (it replied 401")
    assert "Neretva" in body["answer"]
    counts = writing.get("/metrics").text
    assert 'wye_degraded_total{collection="default",kind="generator"} 1.0' in counts


def test_a_stream_tells_passages_first(writing: TestClient) -> None:
    reply = writing.post("/v1/answer", json={**RIVER, "stream": True})
    assert reply.headers["content-type"].startswith("text/event-stream")
    parts = events(reply.text)
    assert [name for name, _ in parts] == ["retrieval", *["delta"] * 6, "done"]
    assert parts[0][1]["passages"][0]["id"] == "neretva"
    text = "".join(data["text"] for name, data in parts if name == "delta")
    assert text == parts[-1][1]["answer"] == "It crosses the Neretva [1] . "


def test_a_stream_that_breaks_off_says_so(writing: TestClient, endpoint: Endpoint) -> None:
    endpoint.script = ["break"]
    parts = events(writing.post("/v1/answer", json={**RIVER, "stream": True}).text)
    assert [name for name, _ in parts] == ["retrieval", "delta", "delta", "error", "done"]
    assert parts[-2][1]["detail"] == "The language model broke off: its stream broke off."
    assert parts[-1][1]["finish_reason"] == "error"
    assert parts[-1][1]["answer"] == "It crosses "


def test_an_error_before_the_stream_is_an_ordinary_reply(client: TestClient) -> None:
    reply = client.post("/v1/answer", json={**RIVER, "stream": True, "collection": "nope"})
    assert (reply.status_code, reply.headers["content-type"]) == (404, "application/problem+json")


HISTORY = [
    {"role": "user", "content": "Which river does Stari Most cross?"},
    {"role": "assistant", "content": "The Neretva [1]."},
]
IT = {"question": "Where is it?", "route": "graph", "history": HISTORY}


def test_a_follow_up_gets_the_names_of_the_last_turn(client: TestClient) -> None:
    body = client.post("/v1/answer", json=IT).json()
    assert body["retrieval"]["question"] == "Where is it? (Stari Most)"
    alone = client.post("/v1/answer", json={**IT, "history": []}).json()
    assert alone["retrieval"]["question"] == "Where is it?"


def test_a_follow_up_is_rewritten_by_the_model(writing: TestClient, endpoint: Endpoint) -> None:
    endpoint.text = "Where is the Old Bridge ?"
    body = writing.post("/v1/answer", json=IT).json()
    assert body["retrieval"]["question"] == "Where is the Old Bridge ?"
    rewriting, answering = (sent for sent, _ in endpoint.seen)
    assert rewriting["max_tokens"] == 128
    assert rewriting["messages"][-1]["content"].endswith("> user: Where is it?")
    assert "Question: Where is the Old Bridge ?" in answering["messages"][-1]["content"]
    endpoint.script = [(401, {})]
    body = writing.post("/v1/answer", json=IT).json()
    assert body["retrieval"]["question"] == "Where is it? (Stari Most)"


def test_sentences_are_quoted_by_the_words_that_were_searched_for(
    client: TestClient, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    meant = "What flows into the Adriatic?"
    answer = library._answer

    def answered(_question: str, *how: Any) -> Reply:  # noqa: ANN401
        return replace(answer(meant, *how), searched=meant)

    monkeypatch.setattr(library, "_answer", answered)
    body = client.post("/v1/answer", json={**RIVER, "question": "What flows into it?"}).json()
    (first, *_) = body["citations"][0]["sentences"]
    assert (first["text"], first["marks"]) == ("It flows into the Adriatic.", [[3, 8], [18, 26]])
    assert body["retrieval"]["searched"] == meant
