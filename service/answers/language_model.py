"""A client of a language model behind OpenAI's protocol; OpenAI's own client tries again."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

import httpx2
import openai
from openai import AsyncOpenAI, AsyncStream

from wye.service.answers.follow_up import Message
from wye.service.answers.generate import GeneratedAnswer, GeneratorError
from wye.service.logs import LOG
from wye.service.settings import GeneratorSettings

_ERRORS = (
    GeneratorError,
    TimeoutError,
    openai.OpenAIError,
    httpx2.HTTPError,
    ValueError,
    RecursionError,
)
_FOREIGN = "its reply does not follow OpenAI's protocol"
_ENDINGS = frozenset({"stop", "length", "content_filter", "tool_calls", "function_call"})
_USAGE_SECONDS = 2.0  # seconds to wait for the counts of tokens after the end of an answer
# An answer is cut off at so many characters per allowed token, and at so many in all.
_TOKEN_CHARACTERS = 32
_MOST_CHARACTERS = 1_000_000


class LanguageModel:
    """Streams answers from the endpoint of the settings."""

    def __init__(self, settings: GeneratorSettings) -> None:
        self._settings = settings
        key = settings.key.get_secret_value()
        # The client would send the account of OPENAI_* in the environment to any endpoint.
        omitted = ("OpenAI-Organization", "OpenAI-Project", *(() if key else ("authorization",)))
        self._headers = dict.fromkeys(omitted, openai.omit)
        self._client = AsyncOpenAI(
            base_url=settings.url,
            api_key=key or "none",
            timeout=settings.timeout_seconds,
            max_retries=settings.retries,
            http_client=openai.DefaultAsyncHttpxClient(follow_redirects=False),
        )

    async def close(self) -> None:
        """End all connections."""
        await self._client.close()

    async def stream(
        self, messages: Sequence[Message], options: Mapping[str, Any], answer: GeneratedAnswer
    ) -> AsyncGenerator[str]:
        """Yield pieces of text and fill in `answer`; a `GeneratorError` may also come midway."""
        has_begun = False
        try:
            async with aclosing(self._pieces(messages, options, answer)) as pieces:
                async for piece in pieces:
                    has_begun = True
                    yield piece
            if not has_begun:
                raise GeneratorError("it sent an answer without text")
        except _ERRORS as error:
            fault = _fault(error, self._settings.timeout_seconds)
            fault.begun = has_begun
            # An endpoint may repeat the key that it was sent.
            key = self._settings.key.get_secret_value()
            reply = fault.reply.replace(key, "***") if key else fault.reply
            LOG.warning("generator failed", extra={"reason": str(fault), "reply": reply})
            raise fault from None

    async def _pieces(
        self, messages: Sequence[Message], options: Mapping[str, Any], answer: GeneratedAnswer
    ) -> AsyncGenerator[str]:
        """The text of one attempt, whether or not the endpoint streams."""
        limits = [n for name in ("max_tokens", "max_completion_tokens") if (n := options.get(name))]
        limit = min(limits, default=self._settings.max_tokens)
        room = min(_TOKEN_CHARACTERS * limit or _MOST_CHARACTERS, _MOST_CHARACTERS)
        body = {
            **({"max_tokens": limit} if limit and not limits else {}),
            **options,
            "model": self._settings.model,
            "messages": [{"role": m.role, "content": m.content} for m in messages],
            "stream": True,
        }
        silence = self._settings.timeout_seconds
        # Not cast to the client's classes, since endpoints leave out fields that these require.
        request = self._client.post(
            "/chat/completions",
            cast_to=object,
            body=body,
            options={"headers": self._headers},
            stream=True,
            stream_cls=AsyncStream[object],
        )
        reply = await asyncio.wait_for(request, silence)
        loop = asyncio.get_running_loop()
        async with reply:
            if "text/event-stream" not in reply.response.headers.get("content-type", ""):
                event = json.loads(await asyncio.wait_for(reply.response.aread(), silence))
                if isinstance(event, dict) and event.get("error"):
                    raise GeneratorError("it reported an error", reply=event["error"])
                text, _, _ = _read(event, answer)
                answer.finish_reason = "length" if len(text) > room else answer.finish_reason
                if text[:room]:
                    yield text[:room]
                return
            until, is_finished = loop.time() + silence, False
            while True:
                try:
                    event = await asyncio.wait_for(anext(reply), until - loop.time())
                    text, is_alive, ending = _read(event, answer)
                except StopAsyncIteration:
                    break
                except Exception:
                    if is_finished:
                        break  # the text is complete
                    raise
                if ending and not is_finished:
                    is_finished, answer.finish_reason = True, ending
                    until = loop.time() + min(silence, _USAGE_SECONDS)
                if text[:room]:
                    yield text[:room]
                if len(text) > room:
                    answer.finish_reason = "length"
                    return
                room -= len(text)
                if is_alive and not is_finished:
                    until = loop.time() + silence
        if not is_finished:
            raise GeneratorError("its stream broke off")


def _read(event: object, answer: GeneratedAnswer) -> tuple[str, bool, str]:
    """Read an event, or raise a `GeneratorError`; counts of tokens go to the answer.

    Returns its text, whether it shows that the model is working (it may be thinking), and the
    reason if the answer ends with it, else "".
    """
    match event:
        case {"usage": dict(usage)}:
            answer.usage = {
                name: n for name, n in usage.items() if type(n) is int and 0 <= n < 2**53
            }
    match event:
        case {"choices": [dict(choice), *_]}:
            pass
        case {"choices": [] | None} | {"usage": dict()}:
            return "", False, ""
        case _:
            raise GeneratorError(_FOREIGN)
    delta = choice.get("delta") or choice.get("message") or {}
    if not isinstance(delta, dict):
        raise GeneratorError(_FOREIGN)
    content, ending = delta.get("content"), choice.get("finish_reason")
    if not isinstance(content, str | None) or not isinstance(ending, str | None):
        raise GeneratorError(_FOREIGN)
    alive = any(value and name != "role" for name, value in delta.items())
    # JSON may hold half of a surrogate pair, which cannot be encoded as UTF-8.
    text = (content or "").encode("utf-8", "replace").decode()
    return text, alive, "stop" if ending and ending not in _ENDINGS else ending or ""


def _fault(error: Exception, silence: float) -> GeneratorError:
    """The error of one attempt, with a reason that clients may see."""
    if isinstance(error, GeneratorError):
        return error
    if isinstance(error, TimeoutError | openai.APITimeoutError | httpx2.TimeoutException):
        return GeneratorError(f"it was silent for {silence:g} s")
    if isinstance(error, openai.APIConnectionError | httpx2.HTTPError):
        kind = type(error.__cause__ if isinstance(error, openai.APIError) else error)
        return GeneratorError(f"the connection failed ({kind.__name__})")
    if isinstance(error, openai.APIError):
        status = getattr(error, "status_code", None)
        reason = f"it replied {status}" if status else "it reported an error"
        return GeneratorError(reason, reply=error.body)
    return GeneratorError(_FOREIGN)
