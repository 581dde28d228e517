from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes import LanguageModel, speaking
from wye.training.judge import JudgeClient

ASKED = "[1] Como is a lake in Lombardy.\n\nQuestion: Where lies Como?"


@pytest.fixture
def endpoint() -> Iterator[LanguageModel]:
    with speaking(lambda *_: "In Lombardy.") as model:
        yield model


def test_an_endpoint_is_asked_and_what_may_pass_is_tried_again(endpoint: LanguageModel) -> None:
    said: list[int | str] = ["In Lombardy.", 503, 429, "In Italy."]
    endpoint.say = lambda *_: said.pop(0)
    with JudgeClient(endpoint.url, "reader", key="secret") as judge:
        assert judge.complete("Answer.", ASKED) == "In Lombardy."
    (body,) = endpoint.requests
    expected = {"path": "/v1/chat/completions", "key": "Bearer secret", "model": "reader"}
    assert body.items() >= {**expected, "temperature": 0}.items()
    messages = body["messages"]
    assert isinstance(messages, list)
    assert [message["content"] for message in messages] == ["Answer.", ASKED]
    with JudgeClient(endpoint.url, "reader") as judge:
        assert judge.complete("Answer.", ASKED) == "In Italy."
    assert [request["key"] for request in endpoint.requests[1:]] == [None] * 3


def test_replies_are_kept_by_endpoint_and_request(endpoint: LanguageModel, tmp_path: Path) -> None:
    for model, told, count in (("a", "1", 1), ("a", "1", 1), ("b", "1", 2), ("a", "2", 3)):
        with JudgeClient(endpoint.url, model, cache=tmp_path) as judge:
            assert judge.complete(told, ASKED) == "In Lombardy."
        assert len(endpoint.requests) == count
