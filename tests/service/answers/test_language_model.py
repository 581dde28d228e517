import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import httpx2
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from tests.service.fakes import Endpoint, piece
from wye.service.answers import language_model as module
from wye.service.answers.follow_up import Message
from wye.service.answers.generate import AnswerParams, GeneratedAnswer, GeneratorError
from wye.service.answers.language_model import LanguageModel
from wye.service.api.answer import answer_value
from wye.service.settings import GeneratorSettings

ASKED = [Message("user", "Which river?")]
ANSWER = "It crosses the Neretva [1] . "


def ask(settings: GeneratorSettings, **options: object) -> tuple[list[str], GeneratedAnswer]:
    pieces: list[str] = []
    answer = GeneratedAnswer()

    async def run() -> None:
        made = LanguageModel(settings)
        try:
            async for piece in made.stream(ASKED, options, answer):
                pieces.append(piece)
        finally:
            await made.close()

    asyncio.run(run())
    return pieces, answer


@pytest.fixture(autouse=True)
def _hardly_any_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.001)


def test_an_answer_comes_piece_by_piece(
    endpoint: Endpoint, with_model: GeneratorSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "project")
    pieces, answer = ask(with_model, temperature=0.5)
    assert "".join(pieces) == ANSWER
    assert len(pieces) == 6
    assert (answer.finish_reason, answer.usage["total_tokens"]) == ("stop", 10)
    ((body, headers),) = endpoint.seen
    assert body == {
        "model": "tiny",
        "messages": [{"role": "user", "content": "Which river?"}],
        "stream": True,
        "max_tokens": 1024,
        "temperature": 0.5,
    }
    assert headers["authorization"] == "Bearer sk-secret"
    assert not [name for name in headers if name.lower().startswith("openai-")]


def test_a_request_may_say_how_much(endpoint: Endpoint, with_model: GeneratorSettings) -> None:
    ask(with_model, max_completion_tokens=7)
    ask(replace(with_model, max_tokens=0))
    assert "max_tokens" not in endpoint.seen[0][0]
    assert endpoint.seen[0][0]["max_completion_tokens"] == 7
    assert "max_tokens" not in endpoint.seen[1][0]


def test_an_endpoint_without_streams(endpoint: Endpoint, with_model: GeneratorSettings) -> None:
    endpoint.script = ["json"]
    assert "".join(ask(with_model)[0]) == endpoint.text


@pytest.mark.parametrize(
    "failure", [(429, {"retry-after": "0"}), (500, {}), (503, {}), "hang up"], ids=str
)
def test_what_fails_for_now_is_tried_again(
    endpoint: Endpoint, with_model: GeneratorSettings, failure: str
) -> None:
    endpoint.script = [failure, failure]
    assert "".join(ask(with_model)[0]) == ANSWER
    assert len(endpoint.seen) == 3


@pytest.mark.parametrize(
    ("failure", "says", "tries"),
    [
        ((401, {}), r"it replied 401$", 1),
        ((404, {}), "it replied 404", 1),
        ((302, {"location": "http://127.0.0.1:1/"}), "it replied 302", 1),
        ((429, {"retry-after": "3600"}), "it replied 429", 1),
        ((500, {}), "it replied 500", 3),
        (lambda: [b"data: {nonsense\n\n"], "not follow OpenAI's protocol", 1),
        (lambda: [3], "not follow OpenAI's protocol", 1),
        (lambda: [{"error": {"message": "out of memory"}}], r"it reported an error$", 1),
        (lambda: [piece("", "stop")], "without text", 1),
        (lambda: [piece(None)], "broke off", 1),
        ("hang up", "the connection failed", 3),
    ],
    ids=[
        *("401", "404", "redirect", "429", "500", "garbage", "number"),
        *("error", "empty", "break-early", "hang-up"),
    ],
)
def test_what_fails_for_good_says_why(
    endpoint: Endpoint, with_model: GeneratorSettings, failure: object, says: str, tries: int
) -> None:
    endpoint.script = [failure] * 5
    with pytest.raises(GeneratorError, match=says) as error:
        ask(with_model)
    assert not error.value.begun
    assert len(endpoint.seen) == tries


@pytest.mark.parametrize("step", ["error", "json error", 401])
def test_what_an_endpoint_writes_of_an_error_is_for_the_log_alone(
    endpoint: Endpoint,
    with_model: GeneratorSettings,
    caplog: pytest.LogCaptureFixture,
    step: object,
) -> None:
    fault = json.dumps({"error": {"message": "bad key sk-secret of an organisation"}}).encode()
    body = fault if step != "error" else b"data: " + fault + b"\n\n"
    endpoint.script = [(step if isinstance(step, int) else 200, lambda: [body])]
    with pytest.raises(GeneratorError) as error:
        ask(replace(with_model, retries=0))
    assert "key" not in str(error.value)
    (record,) = caplog.records
    assert vars(record)["reason"] == str(error.value)
    assert vars(record)["reply"] == "bad key *** of an organisation"


def test_nothing_is_tried_again_once_an_answer_has_begun(
    endpoint: Endpoint, with_model: GeneratorSettings
) -> None:
    endpoint.script = ["break"]
    with pytest.raises(GeneratorError, match="broke off") as error:
        ask(with_model)
    assert error.value.begun
    assert len(endpoint.seen) == 1


@pytest.mark.parametrize(
    ("step", "begun"), [("slow", False), ("half a refusal", False), ("stall", True)]
)
def test_silence_ends_it(
    endpoint: Endpoint, with_model: GeneratorSettings, step: str, begun: bool
) -> None:
    endpoint.script = [step]
    with pytest.raises(GeneratorError, match=r"silent for 0\.2 s") as error:
        ask(replace(with_model, timeout_seconds=0.2, retries=0))
    assert error.value.begun is begun


def test_nobody_there() -> None:
    nowhere = GeneratorSettings(url="http://127.0.0.1:9/v1", model="tiny", retries=0)
    with pytest.raises(GeneratorError, match=r"connection failed \(ConnectError\)"):
        ask(nowhere)


def test_without_a_key_none_is_sent(
    endpoint: Endpoint, with_model: GeneratorSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY"):
        monkeypatch.setenv(name, "of-another-endpoint")
    ask(replace(with_model, key=SecretStr("")))
    ask(with_model)
    headers = [{name.lower(): value for name, value in seen[1].items()} for seen in endpoint.seen]
    assert "authorization" not in headers[0]
    assert headers[1]["authorization"] == "Bearer sk-secret"
    assert "of-another-endpoint" not in str(endpoint.seen)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
ODD = JSON | st.sampled_from(["\ud800", 10**400, [[]], {"content": 5}, "stop"])


@st.composite
def events(draw: st.DrawFn) -> object:
    """An event of the protocol in which a part, or all of it, is something else."""
    event = piece(draw(st.just("A bridge.") | ODD), draw(st.sampled_from([None, "stop"]) | ODD))
    (choice,) = event["choices"]
    event["usage"] = draw(ODD)
    position = draw(st.integers(0, 5))
    if position == 0:
        return draw(ODD)
    if position == 1:
        event["choices"] = draw(ODD)
    elif position == 2:
        event["choices"] = draw(st.lists(ODD, max_size=2))
    elif position == 3:
        choice["delta"] = draw(ODD)
    elif position == 4:
        choice["message"] = choice.pop("delta")
    return event


@cache
def scripted() -> LanguageModel:
    """One that is never closed, since it never connects: to make one takes a third of a second."""
    return LanguageModel(GeneratorSettings("http://x/v1", "m", retries=0))


@given(st.lists(events(), max_size=4), st.booleans())
@example([{"choices": 5}], True)
@example([{"choices": ["a", "b"]}], True)
@example([{"choices": {"a": 1}}], False)
@example([piece("\ud800"), piece("", {"a": 1})], True)
@example([piece("A"), piece(None, ["stop"])], True)
@settings(max_examples=150)
def test_odd_json_is_an_answer_or_a_generators_error(sent: list[object], streams: bool) -> None:
    body = [json.dumps(each) for each in sent]
    text = "".join(f"data: {each}\n\n" for each in body) if streams else "\n".join(body)
    kind = "text/event-stream" if streams else "application/json"

    async def run() -> None:
        reply = httpx2.Response(200, content=text.encode(), headers={"content-type": kind})
        made = scripted()
        made._client._client._transport = httpx2.MockTransport(lambda _: reply)
        answer = GeneratedAnswer(citable=1)
        try:
            async for each in made.stream(ASKED, {}, answer):
                answer.pieces.append(each)
        except GeneratorError as error:
            assert str(error).startswith("it")  # noqa: PT017
        value = answer_value(AnswerParams("", []), answer)
        assert value.finish_reason in {"stop", "length"}
        assert value.model_dump_json()

    asyncio.run(run())


def test_an_answer_ends_where_it_has_far_more_than_was_asked_for(
    endpoint: Endpoint, with_model: GeneratorSettings
) -> None:
    """An endpoint that goes on and on."""

    def words() -> Iterator[object]:
        for _ in range(100_000):
            yield piece("a bridge " * 100)

    endpoint.script = [words, words]
    pieces, answer = ask(with_model, max_tokens=10)
    assert (len("".join(pieces)), answer.finish_reason) == (320, "length")
    pieces, answer = ask(replace(with_model, max_tokens=0))
    assert (len("".join(pieces)), answer.finish_reason) == (1_000_000, "length")


@pytest.mark.parametrize("begins", [[], [piece("It ")]], ids=["before", "after"])
@pytest.mark.parametrize("alive", [b": keepalive\n\n", piece(""), {"choices": []}], ids=str)
def test_only_content_is_no_silence(
    endpoint: Endpoint, with_model: GeneratorSettings, begins: list[object], alive: object
) -> None:
    def drip() -> Iterator[object]:
        yield from begins
        while not endpoint.release.wait(0.05):
            yield alive

    endpoint.script = [drip]
    started = time.monotonic()
    with pytest.raises(GeneratorError, match=r"silent for 0\.4 s") as error:
        ask(replace(with_model, timeout_seconds=0.4, retries=0))
    assert error.value.begun is bool(begins)
    assert time.monotonic() - started < 3


def test_a_thinking_model_is_not_silent(endpoint: Endpoint, with_model: GeneratorSettings) -> None:
    def think() -> Iterator[object]:
        for _ in range(8):
            time.sleep(0.1)
            yield {"choices": [{"delta": {"reasoning_content": "Hm. "}}]}
        yield piece("The Neretva.", "stop")

    endpoint.script = [think]
    assert ask(replace(with_model, timeout_seconds=0.4, retries=0))[0] == ["The Neretva."]


@pytest.mark.parametrize("rest", [b": keepalive\n\n", b"data: [DONE]\n\n", {"choices": 5}], ids=str)
def test_nothing_that_comes_after_the_end_spoils_an_answer(
    endpoint: Endpoint, with_model: GeneratorSettings, monkeypatch: pytest.MonkeyPatch, rest: object
) -> None:
    monkeypatch.setattr(module, "_USAGE_SECONDS", 0.2)

    def go_on() -> Iterator[object]:
        yield piece("The Neretva.", "stop")
        while not endpoint.release.wait(0.05):
            yield rest

    endpoint.script = [go_on]
    started = time.monotonic()
    assert ask(with_model)[0] == ["The Neretva."]
    assert time.monotonic() - started < 2
