import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from pydantic import SecretStr

from service.answers import generate as module
from service.answers.generate import (
    AnswerParams,
    GeneratedAnswer,
    GeneratorError,
    LanguageModel,
    Message,
    conversation,
)
from service.http.metrics import Metrics
from service.settings import GeneratorSettings
from tests.service.fakes import Endpoint

ASKED = [Message("user", "Which river?")]
ANSWER = "It crosses the Neretva [1] . "


def ask(settings: GeneratorSettings, **options: object) -> tuple[list[str], GeneratedAnswer]:
    pieces: list[str] = []
    answer = GeneratedAnswer()

    async def run() -> None:
        made = LanguageModel(settings, Metrics())
        try:
            async for piece in made.stream(ASKED, options, answer):
                pieces.append(piece)
        finally:
            await made.close()

    asyncio.run(run())
    return pieces, answer


@pytest.fixture(autouse=True)
def _hardly_any_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST_WAIT", 0.001)


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


def test_an_endpoint_that_does_not_stream(
    endpoint: Endpoint, with_model: GeneratorSettings
) -> None:
    endpoint.script = ["json"]
    assert "".join(ask(with_model)[0]) == endpoint.text


@pytest.mark.parametrize(
    "failure",
    [
        (429, {"retry-after": "0"}),
        (500, {}),
        (503, {}),
        "break early",
        "garbage",
        "error",
        "empty",
        "hang up",
    ],
    ids=str,
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
        ((401, {}), "it replied 401: no luck", 1),
        ((404, {}), "it replied 404", 1),
        ((302, {"location": "http://127.0.0.1:1/"}), "it replied 302", 1),
        ((429, {"retry-after": "3600"}), "it replied 429", 1),
        ((500, {}), "it replied 500", 3),
        ("garbage", "not OpenAI's protocol", 3),
        ("number", "not OpenAI's protocol", 3),
        ("error", "out of memory", 3),
        ("empty", "without text", 3),
        ("break early", "broke off", 3),
        ("hang up", "the connection failed", 3),
    ],
    ids=str,
)
def test_what_fails_for_good_says_why(
    endpoint: Endpoint, with_model: GeneratorSettings, failure: str, says: str, tries: int
) -> None:
    endpoint.script = [failure] * 5
    with pytest.raises(GeneratorError, match=says) as error:
        ask(with_model)
    assert not error.value.begun
    assert len(endpoint.seen) == tries
    assert "sk-secret" not in str(error.value)


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


def test_a_date_says_when_to_try_again(endpoint: Endpoint, with_model: GeneratorSettings) -> None:
    past = format_datetime(datetime.now(UTC) - timedelta(hours=1))
    future = format_datetime(datetime.now(UTC) + timedelta(hours=1))
    endpoint.script = [(429, {"retry-after": past}), (429, {"retry-after": "soon"})]
    assert "".join(ask(with_model)[0]) == ANSWER
    endpoint.script = [(429, {"retry-after": future})]
    with pytest.raises(GeneratorError, match="429"):
        ask(with_model)


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


@pytest.mark.parametrize(("history", "kept"), [(0, 0), (3, 3), (10, 8), (12, 8)])
def test_the_last_turns_are_shown(with_model: GeneratorSettings, history: int, kept: int) -> None:
    turns = [Message("user", str(number)) for number in range(8)]
    params = AnswerParams("Which river?", (), history=turns)
    sent = conversation(params, replace(with_model, history=history))
    assert sent[1:-1] == turns[8 - kept :]
