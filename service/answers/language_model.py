"""A client of a language model behind OpenAI's protocol, with retries and limits."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from email.utils import parsedate_to_datetime
from time import time
from typing import Any

import httpx2
import openai
from openai import AsyncOpenAI, AsyncStream

from wye.service.answers.answer import GeneratedAnswer, GeneratorError, Message
from wye.service.http.metrics import Metrics
from wye.service.logs import LOG
from wye.service.settings import GeneratorSettings

# Statuses worth another attempt; all other errors are lasting.
_TRY_AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
_FIRST_WAIT = 0.5
_FOREIGN = "its reply does not follow OpenAI's protocol"
_TOO_MUCH = "its reply is far longer than was asked for"
_ENDINGS = frozenset({"stop", "length", "content_filter", "tool_calls", "function_call"})
# Seconds to wait for the counts of tokens after the end of an answer.
_USAGE_SECONDS = 2.0
# An answer is cut off at so many characters per allowed token, and at so many in all.
_TOKEN_CHARACTERS = 32
_MOST_CHARACTERS = 1_000_000
# Most bytes of a reply, and of one line of it, which is parsed at once.
_MOST_BYTES = 1 << 26
_LINE_BYTES = 1 << 22


class LanguageModel:
    """Streams answers from the endpoint of the settings."""

    def __init__(self, settings: GeneratorSettings, metrics: Metrics) -> None:
        """Prepare the client, which connects on first use; `metrics` counts the retries."""
        self._settings = settings
        self._metrics = metrics
        key = settings.key.get_secret_value()
        # The client would send the account of OPENAI_* in the environment to any endpoint.
        unsaid = ("OpenAI-Organization", "OpenAI-Project", *(() if key else ("authorization",)))
        self._headers = dict.fromkeys(unsaid, openai.omit)
        self._client = AsyncOpenAI(
            base_url=settings.url,
            api_key=key or "none",
            timeout=settings.timeout_seconds,
            # `stream` counts retries itself, since it also retries streams that break early.
            max_retries=0,
            http_client=openai.DefaultAsyncHttpxClient(
                follow_redirects=False, event_hooks={"response": [_bound]}
            ),
        )

    async def close(self) -> None:
        """End all connections."""
        await self._client.close()

    async def stream(
        self, messages: Sequence[Message], options: Mapping[str, Any], answer: GeneratedAnswer
    ) -> AsyncGenerator[str]:
        """Yield pieces of text as they arrive; once one has arrived, nothing is retried.

        Sets `finish_reason` and `usage` of the answer. The text is cut off, as too long, at 32
        characters for each allowed token.

        Raises:
            GeneratorError: The last attempt failed, or the stream broke off.
        """
        for attempt in range(self._settings.retries + 1):
            begun = False
            try:
                async with aclosing(self._pieces(messages, options, answer)) as pieces:
                    async for piece in pieces:
                        begun = True
                        yield piece
                if begun:
                    return
                raise GeneratorError("it sent an answer without text")
            except (
                GeneratorError,
                TimeoutError,
                openai.OpenAIError,
                httpx2.HTTPError,
                ValueError,
                RecursionError,
            ) as error:
                fault = _fault(error, self._settings.timeout_seconds)
            fault.begun = begun
            await self._pause(fault, attempt)

    async def _pause(self, fault: GeneratorError, attempt: int) -> None:
        """Wait before the next attempt; raise the fault if there is none."""
        settings = self._settings
        wait = fault.wait if fault.wait is not None else _FIRST_WAIT * 2**attempt
        is_last = attempt >= settings.retries or wait > settings.longest_wait_seconds
        is_final = fault.begun or fault.lasting or is_last
        # An endpoint may repeat the key that it was sent.
        key = settings.key.get_secret_value()
        facts = {
            "reason": str(fault),
            "said": fault.reply.replace(key, "***") if key else fault.reply,
        }
        if is_final:
            LOG.warning("generator failed", extra=facts)
            raise fault
        LOG.warning("generator retry", extra={**facts, "wait": round(wait, 2)})
        self._metrics.generator_retries.inc()
        await asyncio.sleep(wait)

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
        streams = "text/event-stream" in reply.response.headers.get("content-type", "")
        finished = not streams
        async with reply, aclosing(_events(reply) if streams else _single_event(reply)) as events:
            until = loop.time() + silence
            while True:
                try:
                    event = await asyncio.wait_for(anext(events), until - loop.time())
                    text, is_alive, ending = _read(event, answer)
                except StopAsyncIteration:
                    break
                except Exception:
                    if streams and finished:
                        break  # the text is complete
                    raise
                if ending and streams and not finished:
                    finished, answer.finish_reason = True, ending
                    until = loop.time() + min(silence, _USAGE_SECONDS)
                if text[:room]:
                    yield text[:room]
                if len(text) > room:
                    answer.finish_reason = "length"
                    return
                room -= len(text)
                if is_alive and not (streams and finished):
                    until = loop.time() + silence
        if not finished:
            raise GeneratorError("its stream broke off")


async def _bound(response: httpx2.Response) -> None:
    """Make reading a body fail if it, or a line of it, is longer than any answer."""
    response.stream = _Bounded(response.stream)


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, body: Any) -> None:  # noqa: ANN401 - of two kinds, to httpx
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        room, line = _MOST_BYTES, 0
        async for chunk in self._body:
            room -= len(chunk)
            line = len(chunk) - chunk.rfind(b"\n") - 1 if b"\n" in chunk else line + len(chunk)
            if room < 0 or line > _LINE_BYTES:
                raise GeneratorError(_TOO_MUCH)
            yield chunk

    async def aclose(self) -> None:
        await self._body.aclose()


async def _events(reply: AsyncStream[object]) -> AsyncGenerator[object]:
    """The events of a streamed reply."""
    async for event in reply:
        yield event


async def _single_event(reply: AsyncStream[object]) -> AsyncGenerator[object]:
    """The one object of a reply that is not streamed."""
    event = json.loads(await reply.response.aread())
    if isinstance(event, dict) and event.get("error"):
        raise GeneratorError("it reported an error", reply=event["error"])
    yield event


def _read(event: object, answer: GeneratedAnswer) -> tuple[str, bool, str]:
    """Read an event; counts of tokens go to the answer.

    Returns:
        Its text, whether it shows that the model is working (it may be thinking), and the reason
        if the answer ends with it, else "".

    Raises:
        GeneratorError: It is no event of OpenAI's protocol.
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
    if isinstance(error, openai.APIStatusError):
        return GeneratorError(
            f"it replied {error.status_code}",
            reply=error.body,
            lasting=error.status_code not in _TRY_AGAIN,
            wait=_seconds(error.response.headers.get("retry-after")),
        )
    if isinstance(error, openai.APIError):
        return GeneratorError("it reported an error", reply=error.body)
    return GeneratorError(_FOREIGN)


def _seconds(header: str | None) -> float | None:
    """Seconds from now of a Retry-After header, which is a number or a date."""
    if header is None:
        return None
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - time())
    except (ValueError, OverflowError):
        return None
