"""Chores that a chat client has a model do beside a conversation: titles, tags, what to ask next.

Open WebUI sends each as a message of its own to the model that the conversation is with: it begins
with "### Task:", says what to write, and ends with the conversation in `<chat_history>`. To search
for that would find what the conversation is about over again, and a title with citations is none.
"""

import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

from service.answers.answering import EXTRACTIVE, AnswerParams, GeneratedAnswer, Writer
from service.answers.generate import Message
from service.http.problems import Problem
from service.http.replies import answer_value, retrieve_reply
from service.http.sse import event
from service.search import SearchResult

_BEGINS = "### Task:"
_HOLDS = "<chat_history>"


def is_chore(turns: Sequence[Message]) -> bool:
    """Whether the turns of a conversation are a chore and no question.

    A prompt by which a client puts passages of its own before a question has no `<chat_history>`,
    and stays a question.

    Args:
        turns: Of user and assistant, those with text; the last is the user's.
    """
    if len(turns) != 1:
        return False
    text = turns[0].content.lstrip()
    return text.startswith(_BEGINS) and _HOLDS in text


_USAGE = ("prompt_tokens", "completion_tokens", "total_tokens")


class Completion:
    """One completion; all pieces of it have an id, a time and a model in common."""

    def __init__(
        self, request_id: str, model: str, wanted: AnswerParams, result: SearchResult | None
    ) -> None:
        """Begin one.

        Args:
            request_id: Of the request.
            model: As the client named it.
            wanted: What to answer.
            result: What was found for it; None where nothing was searched for.
        """
        self._request_id = request_id
        self._model = model
        self._wanted = wanted
        self._created = int(time.time())
        self._found = None if result is None else retrieve_reply(result).model_dump(mode="json")

    def whole(self, written: GeneratedAnswer) -> dict[str, Any]:
        """An answer that has been written to its end, in one piece."""
        message = {
            "role": "assistant",
            "content": _preface(written) + written.text,
            "refusal": None,
        }
        choice = {"index": 0, "message": message, "logprobs": None}
        return {
            **self._head("chat.completion"),
            "choices": [{**choice, "finish_reason": written.ending.reason}],
            "usage": _usage(written),
            **self._extras(written),
            "wye": self._found,
        }

    async def chunks(
        self, writer: Writer, written: GeneratedAnswer, *, usage: bool
    ) -> AsyncIterator[str]:
        """An answer as server-sent events while it is written.

        Args:
            writer: Writes it.
            written: Filled in on the way.
            usage: Whether to tell tokens at the end.
        """
        yield event({**self._chunk({"role": "assistant", "content": ""}), "wye": self._found})
        started = False
        async for piece in writer.write(self._wanted, written):
            text = piece if started else _preface(written) + piece
            started = True
            yield event(self._chunk({"content": text}))
        if written.error:
            yield event({"error": broken_off(written).body(self._request_id)["error"]})
            return
        yield event({**self._chunk({}, written.ending.reason), **self._extras(written)})
        if usage:
            head = self._head("chat.completion.chunk")
            yield event({**head, "choices": [], "usage": _usage(written)})
        yield event("[DONE]")

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

    def _extras(self, written: GeneratedAnswer) -> dict[str, Any]:
        value = answer_value(written, self._wanted.passages)
        citations = [citation.model_dump() for citation in value.citations]
        return {"citations": citations, "generator": value.generator, "note": value.note}


def broken_off(written: GeneratedAnswer) -> Problem:
    """What to say of an answer that ended before its end."""
    return Problem(502, "generator", f"{written.error} Ask again.")


def _preface(written: GeneratedAnswer) -> str:
    """What a reader has to know first; a chat shows nothing but text."""
    return f"({written.note})\n\n" if written.generator == EXTRACTIVE else ""


def _usage(written: GeneratedAnswer) -> dict[str, int]:
    return {name: written.ending.usage.get(name, 0) for name in _USAGE}
