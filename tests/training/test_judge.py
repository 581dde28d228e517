"""The judge against a real HTTP server on this machine."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from training.errors import JudgeError
from training.judge import Judge, JudgeSettings


class Endpoint(ThreadingHTTPServer):
    """Reads as a model would: it answers with the passage that names the question's last word."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[tuple[str, str, dict[str, object]]] = []
        self.fail: list[int] = []
        self.reply: bytes | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class Handler(BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((self.path, self.headers["Authorization"] or "", body))
        if self.server.fail:
            self.send_error(self.server.fail.pop(0))
            return
        passages, _, question = body["messages"][-1]["content"].rpartition("\n\nQuestion: ")
        word = question.rstrip("?").split()[-1]
        answer = next((line for line in passages.split("\n\n") if word in line), "unknown")
        completion = {"choices": [{"message": {"role": "assistant", "content": answer}}]}
        content = self.server.reply or json.dumps(completion).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its own word
        pass


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


CONTEXT = ["Como is a lake in Lombardy.", "Ada was born in Bergamo."]


def test_the_answer_is_looked_up_in_what_is_answered(endpoint: Endpoint) -> None:
    with Judge(JudgeSettings(endpoint.url, "reader", key="secret")) as judge:
        assert judge.succeeds("Where lies Como?", CONTEXT, ["Lombardy"])
        assert not judge.succeeds("Where lies Como?", CONTEXT, ["Bergamo"])
        assert not judge.succeeds("Where lies Ur?", CONTEXT, ["Lombardy"])
    path, key, body = endpoint.requests[0]
    assert path == "/v1/chat/completions"
    assert key == "Bearer secret"
    assert body["model"] == "reader"
    assert body["temperature"] == 0
    messages = body["messages"]
    assert isinstance(messages, list)
    assert messages[-1]["content"] == (
        "[1] Como is a lake in Lombardy.\n\n[2] Ada was born in Bergamo.\n\n"
        "Question: Where lies Como?"
    )


def test_what_may_pass_is_tried_again(endpoint: Endpoint) -> None:
    endpoint.fail = [503, 429]
    with Judge(JudgeSettings(endpoint.url, "reader")) as judge:
        assert judge.succeeds("Where lies Como?", CONTEXT, ["lombardy"])
    assert len(endpoint.requests) == 3
    assert endpoint.requests[0][1] == ""


def test_what_does_not_pass_is_said(endpoint: Endpoint) -> None:
    endpoint.fail = [401]
    with Judge(JudgeSettings(endpoint.url, "reader")) as judge:
        with pytest.raises(JudgeError, match=r"did not answer \(status 401.*check the url"):
            judge.answer("Where lies Como?", CONTEXT)
        assert len(endpoint.requests) == 1
        endpoint.fail = [500] * 3
        with pytest.raises(JudgeError, match="status 500"):
            judge.answer("Where lies Como?", CONTEXT)
        endpoint.reply = b"<html>hello"
        with pytest.raises(JudgeError, match="which is no chat completion"):
            judge.answer("Where lies Como?", CONTEXT)
        with pytest.raises(JudgeError, match="has no answer in its metadata"):
            judge.succeeds("Where lies Como?", CONTEXT, [])


def test_nobody_listens() -> None:
    with Endpoint() as server:
        url = server.url
    judge = Judge(JudgeSettings(url, "reader", tries=2))
    with judge, pytest.raises(JudgeError, match="did not answer"):
        judge.answer("Where lies Como?", CONTEXT)


def test_settings_that_make_no_sense() -> None:
    with pytest.raises(JudgeError, match="give an http"):
        JudgeSettings("localhost:8000", "reader")
