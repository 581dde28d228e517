"""Responses in OpenAI's protocol: a file search, then a message that cites its results."""

import json
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

from fastapi.sse import format_sse_event

from service.answers.answer import GeneratedAnswer
from service.answers.chat import broken_off
from service.answers.generate import AnswerGenerator, AnswerParams
from service.http.replies import attributes_of
from service.schemas.responses import RESULTS, ResponseRequest
from service.schemas.retrieve import PassageValue, RetrieveReply


class ResponseWriter:
    """Writes one response, whole or as a stream of events."""

    def __init__(
        self,
        request_id: str,
        asked: ResponseRequest,
        params: AnswerParams,
        retrieval: RetrieveReply,
    ) -> None:
        """Begin a response."""
        self._id = f"resp_{request_id}"
        self._asked = asked
        self._params = params
        self._retrieval = retrieval
        self._created = int(time.time())
        self._number = -1
        self._search: dict[str, Any] = {
            "id": f"fs_{request_id}",
            "type": "file_search_call",
            "status": "completed",
            "queries": [params.question],
            "results": [_result(passage) for passage in retrieval.passages]
            if RESULTS in (asked.include or ())
            else None,
        }
        self._message_id = f"msg_{request_id}"

    def whole(self, answer: GeneratedAnswer) -> dict[str, Any]:
        """A complete answer as one reply."""
        part = self._part(answer.text, self._annotations(answer))
        output = [self._search, self._message([part], "completed")]
        return self._response("completed", output, answer)

    async def events(self, generator: AnswerGenerator) -> AsyncIterator[bytes]:
        """Stream an answer as server-sent events."""
        answer = GeneratedAnswer()
        begun = {"response": self._response("in_progress", [], None)}
        yield self._event("response.created", begun)
        yield self._event("response.in_progress", begun)
        search = {"item_id": self._search["id"], "output_index": 0}
        item = {**self._search, "status": "in_progress", "results": None}
        yield self._event("response.output_item.added", {"output_index": 0, "item": item})
        for state in ("in_progress", "searching", "completed"):
            yield self._event(f"response.file_search_call.{state}", search)
        yield self._event("response.output_item.done", {"output_index": 0, "item": self._search})
        message = self._message([], "in_progress")
        yield self._event("response.output_item.added", {"output_index": 1, "item": message})
        place = {"item_id": self._message_id, "output_index": 1, "content_index": 0}
        yield self._event("response.content_part.added", {**place, "part": self._part("", [])})
        async for piece in generator.stream(self._params, answer):
            delta = {**place, "delta": piece, "logprobs": []}
            yield self._event("response.output_text.delta", delta)
        if answer.error:
            problem = broken_off(answer)
            failed = self._response("failed", [self._search], answer)
            failed["error"] = {"code": "server_error", "message": problem.detail}
            yield self._event("response.failed", {"response": failed})
            return
        part = self._part(answer.text, self._annotations(answer))
        for number, annotation in enumerate(part["annotations"]):
            added = {**place, "annotation_index": number, "annotation": annotation}
            yield self._event("response.output_text.annotation.added", added)
        done = {**place, "text": answer.text, "logprobs": []}
        yield self._event("response.output_text.done", done)
        yield self._event("response.content_part.done", {**place, "part": part})
        message = self._message([part], "completed")
        yield self._event("response.output_item.done", {"output_index": 1, "item": message})
        yield self._event("response.completed", {"response": self.whole(answer)})

    def _event(self, kind: str, data: Mapping[str, Any]) -> bytes:
        self._number += 1
        event = {"type": kind, "sequence_number": self._number, **data}
        return format_sse_event(data_str=json.dumps(event), event=kind)

    def _response(
        self, status: str, output: list[dict[str, Any]], answer: GeneratedAnswer | None
    ) -> dict[str, Any]:
        asked = self._asked
        is_cut = answer is not None and answer.finish_reason == "length"
        return {
            "id": self._id,
            "object": "response",
            "created_at": self._created,
            "status": "incomplete" if is_cut and status == "completed" else status,
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
            "instructions": asked.instructions,
            "max_output_tokens": asked.max_output_tokens,
            "metadata": asked.metadata or {},
            "model": asked.model,
            "output": output,
            "parallel_tool_calls": False,
            "previous_response_id": None,
            "store": False,
            "temperature": asked.temperature,
            "top_p": asked.top_p,
            "tool_choice": "auto",
            "tools": [tool.model_dump(mode="json", exclude_none=True) for tool in asked.tools],
            "truncation": "disabled",
            "usage": None if answer is None else _usage(answer),
            "wye": self._retrieval.model_dump(mode="json")
            | {"note": "" if answer is None else answer.note},
        }

    def _message(self, content: list[dict[str, Any]], status: str) -> dict[str, Any]:
        return {
            "id": self._message_id,
            "type": "message",
            "role": "assistant",
            "status": status,
            "content": content,
        }

    @staticmethod
    def _part(text: str, annotations: list[dict[str, Any]]) -> dict[str, Any]:
        return {"type": "output_text", "text": text, "annotations": annotations, "logprobs": []}

    def _annotations(self, answer: GeneratedAnswer) -> list[dict[str, Any]]:
        """The citations in a text, as citations of the passages' documents."""
        passages = self._retrieval.passages
        return [
            {
                "type": "file_citation",
                "index": place,
                "file_id": passages[number - 1].document,
                "filename": _name(passages[number - 1]),
            }
            for place, numbers in answer.marks
            for number in numbers
        ]


def _name(passage: PassageValue) -> str:
    return passage.title or passage.document


def _result(passage: PassageValue) -> dict[str, Any]:
    return {
        "file_id": passage.document,
        "filename": _name(passage),
        "score": passage.score if passage.relevance is None else passage.relevance,
        "text": passage.text,
        "attributes": attributes_of(passage.metadata),
    }


def _usage(answer: GeneratedAnswer) -> dict[str, Any]:
    used = answer.usage
    return {
        "input_tokens": used.get("prompt_tokens", 0),
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": used.get("completion_tokens", 0),
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": used.get("total_tokens", 0),
    }
