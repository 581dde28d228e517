"""The kinds of remote arms: any search over HTTP, and an object of Python."""

import asyncio
import hashlib
import inspect
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

import httpx2
from pydantic import AfterValidator, Field, model_validator

from wye.router.remote import RemoteHit
from wye.service.arms.arm import ArmError, Garbled, Kind, remote_hit

LONGEST_REPLY = 8 << 20  # most bytes of a reply; no list of passages is longer
# What a status that is no success means; any other is an answer that was paid for and failed.
_REFUSALS: Mapping[int, str] = {
    401: "rejects our key",
    403: "rejects our key",
    429: "is busy",
    503: "is busy",
}
_ARM_FAULTS = (401, 403, 404, 405, 408, 429, 503)
MISSING = object()  # result of a pointer that leads nowhere
_POINTER = re.compile(r"(?:/(?:[^~/]|~0|~1)*)*")
_RANK = re.compile(r"/\*(?=/|$)")
_PARTS = ("id", "text", "title", "score", "metadata")  # of what a Python object returns
QUESTION, VECTOR, K, FILTER = "{question}", "{vector}", "{k}", "{filter}"


def _an_address(url: str) -> str:
    pieces = urlsplit(url)
    if pieces.scheme not in ("http", "https") or not pieces.hostname:
        raise ValueError("begin it with http:// or https:// and a host")
    if pieces.username is not None or pieces.password is not None:
        raise ValueError("put no credentials into it; name their variable with key_env")
    if pieces.fragment:
        raise ValueError("remove # and what follows")
    _ = pieces.port  # raises a ValueError if it is not a number
    return url.rstrip("/")


def check_pointer(pointer: str) -> str:
    """Return the pointer if it is valid, else raise a `ValueError`."""
    if not _POINTER.fullmatch(pointer):
        raise ValueError("write a JSON pointer, such as /data/hits; empty for the whole reply")
    return pointer


Address = Annotated[str, AfterValidator(_an_address)]
HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9-]*$")]
Pointer = Annotated[str, AfterValidator(check_pointer)]


def at(value: object, pointer: str) -> object:
    """The value at a pointer in parsed JSON; `MISSING` if there is none."""
    for token in pointer.split("/")[1:]:
        name = token.replace("~1", "/").replace("~0", "~")
        if isinstance(value, Mapping):
            value = value.get(name, MISSING)
        elif isinstance(value, list) and re.fullmatch("0|[1-9][0-9]*", name):
            value = value[int(name)] if int(name) < len(value) else MISSING
        else:
            return MISSING
    return value


def mentions(template: object, name: str) -> bool:
    """Whether `fill` puts a value somewhere, also in lists and tables."""
    return fill(template, {name: None}) != template


def fill(template: object, values: Mapping[str, object]) -> object:
    """Fill a template: values replace strings such as "{question}".

    Only whole strings are replaced, and only once, so that text in a question is not taken for
    part of a template. Entries with the value `MISSING` are left out.
    """
    if isinstance(template, str):
        return values.get(template, template)
    if isinstance(template, Mapping):
        entries = ((key, fill(value, values)) for key, value in template.items())
        return {key: value for key, value in entries if value is not MISSING}
    if isinstance(template, list):
        items = (fill(value, values) for value in template)
        return [value for value in items if value is not MISSING]
    return template


class HttpKind(Kind):
    """A search over HTTP; pointers say where the list of hits and its parts are in a reply.

    Attributes:
        url: Its address; redirects are not followed.
        key_env: Name of the environment variable that holds its API key.
        key_header: Header that carries the key; in Authorization, "Bearer" precedes it.
        request: Template of the JSON that is posted, with "{question}", "{vector}" (the question's,
            by the collection's encoder), "{k}" and "{filter}" as placeholders.
        hits: The list, in the reply.
        empty: What only replies without a list have, where nothing was found; empty for none.
        id: The id, in a hit; as for all below. Empty to make one of the text. A pointer with "/*"
            leads from the reply instead, with the number of the hit, from 0, for the star.
        text: The passage's text.
        title: Its title; empty for none, as for all below.
        score: Its score, where higher is better; without one, only the order counts.
        metadata: A flat object; needed for filters.
    """

    kind: Literal["http"]
    url: Address
    key_env: str = ""
    key_header: HeaderName = "Authorization"
    request: dict[str, Any]
    hits: Pointer
    empty: Pointer = ""
    id: Pointer
    text: Pointer
    title: Pointer = ""
    score: Pointer = ""
    metadata: Pointer = ""
    _client: httpx2.AsyncClient

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if not mentions(self.request, QUESTION) and not mentions(self.request, VECTOR):
            raise ValueError('request: put "{question}" or "{vector}" where the question goes')
        if mentions(self.request, FILTER) and not self.metadata:
            raise ValueError(
                'metadata: say where it is, since request has "{filter}" and what comes back is '
                "held against it"
            )
        self._client = httpx2.AsyncClient(
            headers={"accept": "application/json", **self._key()},
            timeout=self.timeout_ms / 1000,
            limits=httpx2.Limits(
                max_connections=self.max_concurrency, max_keepalive_connections=self.max_concurrency
            ),
            follow_redirects=False,
            trust_env=False,
        )
        return self

    def _key(self) -> dict[str, str]:
        """The header with the API key; a `ValueError` if it is not set or cannot be sent."""
        secret = os.environ.get(self.key_env, "") if self.key_env else ""
        if self.key_env and not secret:
            raise ValueError(f"key_env names the variable {self.key_env}, which is not set")
        if not secret.isascii() or not secret.isprintable():
            raise ValueError(
                f"key_env names the variable {self.key_env}, which has what a header cannot have"
            )
        bearer = "Bearer " if self.key_header.lower() == "authorization" else ""
        return {self.key_header: f"{bearer}{secret}"} if secret else {}

    def read(self, reply: object, k: int) -> tuple[RemoteHit, ...]:
        """Read at most k hits of a reply; `Garbled` without a list, or a hit's id or text."""
        if self.empty and at(reply, self.empty) is not MISSING:
            return ()
        hits = at(reply, self.hits)
        if not isinstance(hits, list):
            raise Garbled(f"there is no list at {self.hits or 'its top'}")
        return tuple(self._hit(reply, hit, rank) for rank, hit in enumerate(hits[:k]))

    def _hit(self, reply: object, hit: object, rank: int) -> RemoteHit:
        def field(pointer: str) -> object:
            from_reply, count = _RANK.subn(f"/{rank}", pointer)
            value = at(reply if count else hit, from_reply) if pointer else None
            return None if value is MISSING else value

        text = field(self.text) if self.text else hit
        id_ = field(self.id)
        if not self.id and isinstance(text, str):
            id_ = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
        return remote_hit(id_, text, *map(field, (self.title, self.score, self.metadata)))

    @property
    def filter_fault(self) -> str:
        """Filters need a place in the template."""
        can_filter = mentions(self.request, FILTER)
        return "" if can_filter else 'its request has no place for a filter ("{filter}")'

    async def search(self, question: str, k: int, filter_: object | None) -> Sequence[RemoteHit]:
        """Find at most k hits, in the reply's order."""
        values: dict[str, object] = {QUESTION: question, K: k}
        values[FILTER] = MISSING if filter_ is None else filter_
        if mentions(self.request, VECTOR):
            values[VECTOR] = [float(number) for number in await self._encode(question)]
        return self.read(await self._reply(fill(self.request, values)), k)

    async def _reply(self, request: object) -> object:
        """The reply, parsed as JSON; an `ArmError` does not repeat what the arm sent."""
        try:
            async with self._client.stream("POST", self.url, json=request) as reply:
                _refuse(reply)
                return json.loads(await _body(reply))
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout):
            raise ArmError(
                "cannot be reached", outcome="unreachable", retry=True, charged=False
            ) from None
        except httpx2.TimeoutException:
            raise ArmError("gave no answer in time", outcome="timeout") from None
        except httpx2.RemoteProtocolError:
            # A pooled connection that the arm had closed ends like this; repeating is harmless.
            raise ArmError("broke off", outcome="broken", retry=True) from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise ArmError(f"failed ({type(error).__name__})", outcome="broken") from None
        except (ValueError, RecursionError):
            raise Garbled("it is not JSON") from None

    async def close(self) -> None:
        """Close its connections."""
        await self._client.aclose()


def _refuse(reply: httpx2.Response) -> None:
    """Raise an `ArmError` for a status that is no success."""
    status = reply.status_code
    if 300 <= status < 400:
        raise ArmError(f"redirects ({status}), which is not followed", charged=False)
    if 400 <= status < 500 or status in _REFUSALS:
        retry_after = reply.headers.get("retry-after", "")
        raise ArmError(
            f"{_REFUSALS.get(status, 'rejects the request')} ({status})",
            outcome="refused",
            retry=status in (429, 503),
            charged=False,
            fault=status in _ARM_FAULTS,
            wait=float(retry_after) if retry_after.isdecimal() else None,
        )
    if not reply.is_success:
        raise ArmError(f"answered {status}")


async def _body(reply: httpx2.Response) -> bytes:
    body = bytearray()
    async for piece in reply.aiter_bytes():
        body += piece
        if len(body) > LONGEST_REPLY:
            raise Garbled(f"it is longer than {LONGEST_REPLY >> 20} MiB")
    return bytes(body)


class PythonKind(Kind):
    """A Python object that searches, in a thread unless its `search` is a coroutine function.

    Attributes:
        target: "module:object", where the object has `search(question, k)`, or is a class or
            function that makes one without arguments. A hit is an object or a dict with `id`,
            `text` and perhaps `title`, `score` and `metadata`.
        filters: Whether its `search` takes a filter as a third argument.
    """

    kind: Literal["python"]
    target: Annotated[str, Field(pattern=r"^[\w.]+:[\w.]+$")]
    filters: bool = False
    _call: Callable[..., Any]
    _threads: ThreadPoolExecutor

    @model_validator(mode="after")
    def _load(self) -> Self:
        module, _, path = self.target.partition(":")
        try:
            value: Any = import_module(module)
            for name in path.split("."):
                value = getattr(value, name)
            if inspect.isclass(value) or inspect.isfunction(value):
                value = value()
        except Exception as error:  # noqa: BLE001 - foreign code may raise anything
            fault = f"target: {self.target} cannot be loaded ({type(error).__name__}: {error})"
            raise ValueError(fault) from None
        if not hasattr(value, "search"):
            raise ValueError(f"target: {self.target} has no search(question, k)")
        self._call = value.search
        # A thread cannot be stopped after a timeout, so their number is limited to that of calls.
        self._threads = ThreadPoolExecutor(self.max_concurrency, "wye-arm")
        return self

    @property
    def filter_fault(self) -> str:
        """Filters need a `search` that takes them, by the arms file."""
        return "" if self.filters else super().filter_fault

    async def search(self, question: str, k: int, filter_: object | None) -> Sequence[RemoteHit]:
        """Find at most k hits, in the object's order."""
        arguments = (question, k, filter_) if self.filters else (question, k)
        if inspect.iscoroutinefunction(self._call):
            results = await self._call(*arguments)
        else:
            loop = asyncio.get_running_loop()
            results = await loop.run_in_executor(self._threads, self._call, *arguments)
        try:
            hits = list(results)[:k]
        except TypeError:
            raise Garbled("it is not a list") from None
        parts = [
            hit if isinstance(hit, dict) else {name: getattr(hit, name, None) for name in _PARTS}
            for hit in hits
        ]
        return [remote_hit(*map(each.get, _PARTS)) for each in parts]

    async def close(self) -> None:
        """End its threads without waiting for calls in progress."""
        self._threads.shutdown(wait=False, cancel_futures=True)


KINDS: Mapping[str, type[Kind]] = {"http": HttpKind, "python": PythonKind}
"""The kinds by their names in the arms file."""
