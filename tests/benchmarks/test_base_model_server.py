"""A base model behind OpenAI's protocol is shown examples, and asked what the client asked."""

import threading
from http.server import HTTPServer
from typing import Any

import httpx2
import pytest

from benchmarks.base_model_server import CONTEXT, EXAMPLES, TOKENS, Handler


class Model:
    """Tokens are characters; says how it was called."""

    def __init__(self) -> None:
        self.prompt = ""
        self.options: dict[str, Any] = {}

    def tokenize(self, text: bytes, *, add_bos: bool = True) -> list[int]:
        return [*b"^" * add_bos, *text]

    def __call__(self, tokens: list[int], **options: Any) -> dict[str, Any]:  # noqa: ANN401
        self.prompt, self.options = bytes(tokens).decode(), options
        return {"choices": [{"text": " Osmere "}]}


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Model:
    made = Model()
    monkeypatch.setattr(Handler, "model", made, raising=False)
    monkeypatch.setattr(Handler, "log_message", lambda *_: None)
    return made


def ask(text: str) -> dict[str, Any]:
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": text}]
        reply = httpx2.post(f"http://127.0.0.1:{server.server_port}", json={"messages": messages})
        thread.join()
    found: dict[str, Any] = reply.json()
    return found


def test_the_last_message_is_asked_after_the_examples(model: Model) -> None:
    reply = ask("Question: Where is it?")
    assert reply["choices"][0]["message"] == {"role": "assistant", "content": "Osmere"}
    assert model.prompt == f"^{EXAMPLES}Question: Where is it?\nAnswer:"
    assert model.options == {"max_tokens": TOKENS, "stop": ["\n"], "temperature": 0}


def test_of_too_much_the_end_is_kept(model: Model) -> None:
    ask("x" * 2 * CONTEXT + "\nQuestion: Where is it?")
    assert len(model.prompt) == CONTEXT - TOKENS
    assert model.prompt.startswith(f"^{EXAMPLES}x")
    assert model.prompt.endswith("x\nQuestion: Where is it?\nAnswer:")
