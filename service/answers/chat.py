"""Chat completions in OpenAI's protocol."""

import json
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

from fastapi.sse import format_sse_event

from wye.service.answers.answer import GeneratedAnswer, Message
from wye.service.answers.generate import AnswerGenerator, AnswerParams
from wye.service.http.problems import Problem
from wye.service.http.replies import answer_value
from wye.service.schemas.retrieve import RetrieveReply


def is_chore(turns: Sequence[Message]) -> bool:
    """Whether the turns ask for a chore, such as a title or tags, rather than a question.

    Open WebUI sends chores to the conversation's own model: a single message that begins with
    "### Task:", says what to write, and ends with the conversation in `<chat_history>`. A search
    would only find the conversation's topic again, and titles must not have citations. A client's
    prompt that puts its own passages before a question has no `<chat_history>`, and counts as a
    question.
    """
    if len(turns) != 1:
        return False
    text = turns[0].content.lstrip()
    return text.startswith("### Task:") and "<chat_history>" in text


class Completion:
    """One completion; all its chunks share an id, a time and a model."""

    def __init__(
        self, request_id: str, model: str, params: AnswerParams, retrieval: RetrieveReply | None
    ) -> None:
        """Begin a completion; `retrieval` is None if nothing was searched for."""
        self._request_id = request_id
        self._model = model
        self._params = params
        self._created = int(time.time())
        self._found = None if retrieval is None else retrieval.model_dump(mode="json")

    def whole(self, answer: GeneratedAnswer) -> dict[str, Any]:
        """A complete answer as one reply."""
        message = {"role": "assistant", "content": answer.text, "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": None}
        return {
            **self._head("chat.completion"),
            "choices": [{**choice, "finish_reason": answer.finish_reason}],
            "usage": _usage(answer),
            **self._extras(answer),
            "wye": self._found,
        }

    async def chunks(self, generator: AnswerGenerator, *, usage: bool) -> AsyncIterator[bytes]:
        """Stream an answer as server-sent events, with its counts of tokens if `usage`."""
        answer = GeneratedAnswer()
        yield _event({**self._chunk({"role": "assistant", "content": ""}), "wye": self._found})
        async for piece in generator.stream(self._params, answer):
            yield _event(self._chunk({"content": piece}))
        if answer.error:
            yield _event({"error": broken_off(answer).body(self._request_id)["error"]})
            return
        yield _event({**self._chunk({}, answer.finish_reason), **self._extras(answer)})
        if usage:
            head = self._head("chat.completion.chunk")
            yield _event({**head, "choices": [], "usage": _usage(answer)})
        yield format_sse_event(data_str="[DONE]")

    def _head(self, kind: str) -> dict[str, Any]:
        return {
            "id": f"chatcmpl-{self._request_id}",
            "object": kind,
            "created": self._created,
            "model": self._model,
        }

    def _chunk(self, delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return {**self._head("chat.completion.chunk"), "choices": [choice]}

    def _extras(self, answer: GeneratedAnswer) -> dict[str, Any]:
        value = answer_value(answer, self._params.passages)
        return value.model_dump(include={"citations", "segments", "generator", "note"})


def _event(data: dict[str, Any]) -> bytes:
    return format_sse_event(data_str=json.dumps(data))


def broken_off(answer: GeneratedAnswer) -> Problem:
    """The problem of an answer that broke off."""
    return Problem(502, "generator", f"{answer.error} Ask again.")


def _usage(answer: GeneratedAnswer) -> dict[str, int]:
    return {
        name: answer.usage.get(name, 0)
        for name in ("prompt_tokens", "completion_tokens", "total_tokens")
    }
