from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes import LanguageModel, Say, speaking
from wye.training.judge import JudgeClient


def reads(*messages: str) -> str:
    """The passage that names the question's last word, as a model would find it."""
    passages, _, question = messages[-1].rpartition("\n\nQuestion: ")
    word = question.rstrip("?").split()[-1]
    return next((line for line in passages.split("\n\n") if word in line), "unknown")


def fails(*statuses: int) -> Say:
    """With each of these in turn, before it reads."""
    left = list(statuses)
    return lambda *messages: left.pop(0) if left else reads(*messages)


@pytest.fixture
def endpoint() -> Iterator[LanguageModel]:
    with speaking(reads) as model:
        yield model


ASKED = (
    "[1] Como is a lake in Lombardy.\n\n[2] Ada was born in Bergamo.\n\nQuestion: Where lies Como?"
)


def test_an_endpoint_is_asked_for_an_answer(endpoint: LanguageModel) -> None:
    with JudgeClient(endpoint.url, "reader", key="secret") as judge:
        assert judge.complete("Answer.", ASKED) == "[1] Como is a lake in Lombardy."
    body = endpoint.requests[0]
    assert body["path"] == "/v1/chat/completions"
    assert body["key"] == "Bearer secret"
    assert body["model"] == "reader"
    assert body["temperature"] == 0
    messages = body["messages"]
    assert isinstance(messages, list)
    assert [message["content"] for message in messages] == ["Answer.", ASKED]


def test_what_may_pass_is_tried_again(endpoint: LanguageModel) -> None:
    endpoint.say = fails(503, 429)
    with JudgeClient(endpoint.url, "reader") as judge:
        assert "Lombardy" in judge.complete("Answer.", ASKED)
    assert len(endpoint.requests) == 3
    assert endpoint.requests[0]["key"] is None


def test_replies_are_kept_by_endpoint_and_request(endpoint: LanguageModel, tmp_path: Path) -> None:
    file = tmp_path / "kept" / "replies.jsonl"
    for model, told, count in (("a", "1", 1), ("a", "1", 1), ("b", "1", 2), ("a", "2", 3)):
        with JudgeClient(endpoint.url, model, file=file) as judge:
            assert judge.complete(told, ASKED) == "[1] Como is a lake in Lombardy."
        assert len(endpoint.requests) == count
