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
from wye.service.arms.kind import ArmError, Garbled, Kind, remote_hit
from wye.service.errors import ServiceError

LONGEST_REPLY = 8 << 20
"""Most bytes of a reply; no list of passages is longer."""
_BUSY = (429, 503)
_DENIED = (401, 403)
_ARM_FAULTS = (*_DENIED, 404, 405, 408)


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


Address = Annotated[str, AfterValidator(_an_address)]
HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9-]*$")]


def secret_of(variable: str) -> str:
    """The value of the environment variable that `key_env` names; "" if it names none.

    Raises:
        ServiceError: It is not set, or cannot be sent in a header.
    """
    if not variable:
        return ""
    value = os.environ.get(variable, "")
    if not value:
        raise ServiceError(f"key_env names the variable {variable}, which is not set")
    if not value.isascii() or not value.isprintable():
        raise ServiceError(
            f"key_env names the variable {variable}, which contains what a header cannot have"
        )
    return value


def _refuse(reply: httpx2.Response) -> None:
    """Raise an error for a status that is no success."""
    status = reply.status_code
    if 200 <= status < 300:
        return
    if 300 <= status < 400:
        raise ArmError(f"redirects ({status}), which is not followed", charged=False)
    if status in _BUSY:
        retry_after = reply.headers.get("retry-after", "")
        wait = float(retry_after) if retry_after.isdecimal() else None
        raise ArmError(
            f"is busy ({status})", outcome="refused", retry=True, charged=False, wait=wait
        )
    if status in _DENIED:
        raise ArmError(f"rejects our key ({status})", outcome="refused", charged=False)
    if status < 500:
        fault = status in _ARM_FAULTS
        raise ArmError(
            f"rejects the request ({status})", outcome="refused", charged=False, fault=fault
        )
    raise ArmError(f"answered {status}")


async def _body(reply: httpx2.Response) -> bytes:
    """Read the body."""
    pieces, length = [], 0
    async for piece in reply.aiter_bytes():
        length += len(piece)
        if length > LONGEST_REPLY:
            raise Garbled(f"it is longer than {LONGEST_REPLY >> 20} MiB")
        pieces.append(piece)
    return b"".join(pieces)


def parse_json(body: bytes) -> object:
    """Parse a body as JSON; `Garbled` if it is not JSON."""
    try:
        content: object = json.loads(body)
    except (ValueError, RecursionError):
        raise Garbled("it is not JSON") from None
    return content


MISSING = object()
"""Result of a pointer that leads nowhere."""
_POINTER = re.compile(r"(?:/(?:[^~/]|~0|~1)*)*")


def check_pointer(pointer: str) -> str:
    """Return the pointer if it is valid, else raise a `ValueError`."""
    if not _POINTER.fullmatch(pointer):
        raise ValueError("write a JSON pointer, such as /data/hits; empty for the whole reply")
    return pointer


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


def value_at(value: object, pointer: str) -> object:
    """The value at an optional pointer; None if it is missing or the pointer is empty."""
    target = at(value, pointer) if pointer else None
    return None if target is MISSING else target


def names_in(template: object) -> set[str]:
    """All strings in a template, also those in lists and tables."""
    if isinstance(template, str):
        return {template}
    if isinstance(template, Mapping):
        return set().union(*map(names_in, template.values()))
    if isinstance(template, list):
        return set().union(*map(names_in, template))
    return set()


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


_PARTS = ("id", "text", "title", "score", "metadata")  # of what a Python object returns
_RANK = re.compile(r"/\*(?=/|$)")
QUESTION, VECTOR, K, FILTER = "{question}", "{vector}", "{k}", "{filter}"


class HttpKind(Kind):
    """A search over HTTP; pointers say where the list of hits and its parts are in a reply.

    Attributes:
        url: Its address; redirects are not followed.
        key_env: Name of the environment variable that holds its API key.
        key_header: Header that carries the key; in Authorization, "Bearer" precedes it.
        method: "POST" sends the template as JSON, "GET" as parameters.
        request: Template, with "{question}", "{vector}" (the question's, by the collection's
            encoder), "{k}" and "{filter}" as placeholders.
        hits: The list, in the reply.
        empty: What only replies without a list have, where nothing was found; empty for none.
        id: The id, in a hit; as for all below. Empty to make one of the text. A pointer with "/*"
            leads from the reply instead, with the number of the hit, from 0, for the star.
        text: The passage's text.
        title: Its title; empty for none, as for all below.
        score: Its score, where higher is better; without one, only the order counts.
        metadata: A flat object; needed for filters.
    """

    url: Address
    key_env: str = ""
    key_header: HeaderName = "Authorization"
    method: Literal["POST", "GET"] = "POST"
    request: dict[str, Any]
    hits: Pointer
    empty: Pointer = ""
    id: Pointer
    text: Pointer
    title: Pointer = ""
    score: Pointer = ""
    metadata: Pointer = ""
    _client: httpx2.AsyncClient
    _names: set[str]

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        names = names_in(self.request)
        if names.isdisjoint((QUESTION, VECTOR)):
            raise ValueError('request: put "{question}" or "{vector}" where the question goes')
        if self.method == "GET" and not all(
            isinstance(value, str | int | float) for value in self.request.values()
        ):
            raise ValueError("request: parameters are single values; use method = POST for more")
        if self.method == "GET" and not names.isdisjoint((FILTER, VECTOR)):
            raise ValueError(
                'request: "{filter}" and "{vector}" are no single values; use method = POST'
            )
        if FILTER in names and not self.metadata:
            raise ValueError(
                'metadata: say where it is, since request has "{filter}" and what comes back is '
                "held against it"
            )
        return self

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
            return value_at(reply, from_reply) if count else value_at(hit, pointer)

        text = field(self.text) if self.text else hit
        id_ = field(self.id)
        if not self.id and isinstance(text, str):
            id_ = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
        return remote_hit(id_, text, *map(field, (self.title, self.score, self.metadata)))

    def model_post_init(self, _: object) -> None:
        """Read the key from the environment."""
        headers = {"accept": "application/json"}
        if secret := secret_of(self.key_env):
            is_bearer = self.key_header.lower() == "authorization"
            headers[self.key_header] = f"Bearer {secret}" if is_bearer else secret
        self._client = httpx2.AsyncClient(
            headers=headers,
            timeout=self.timeout_ms / 1000,
            limits=httpx2.Limits(
                max_connections=self.max_concurrency,
                max_keepalive_connections=self.max_concurrency,
            ),
            follow_redirects=False,
            trust_env=False,
        )
        self._names = names_in(self.request)

    @property
    def filter_fault(self) -> str:
        """Filters need a place in the template."""
        has_place = FILTER in self._names
        return "" if has_place else 'its request has no place for a filter ("{filter}")'

    async def search(self, question: str, k: int, filter_: object | None) -> Sequence[RemoteHit]:
        """Find at most k hits, in the reply's order."""
        values: dict[str, object] = {QUESTION: question, K: k}
        values[FILTER] = MISSING if filter_ is None else filter_
        if VECTOR in self._names:
            if self._encode is None:
                raise ArmError("has no encoder", charged=False)
            values[VECTOR] = [float(number) for number in await self._encode(question)]
        return self.read(await self._reply(fill(self.request, values)), k)

    async def _reply(self, request: Any) -> object:  # noqa: ANN401 - JSON
        """Send a request and return the reply, parsed as JSON.

        Raises:
            ArmError: It failed; the message does not repeat what the arm sent.
        """
        content: dict[str, Any] = {"params" if self.method == "GET" else "json": request}
        try:
            async with self._client.stream(self.method, self.url, **content) as reply:
                _refuse(reply)
                return parse_json(await _body(reply))
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

    async def close(self) -> None:
        """Close its connections."""
        await self._client.aclose()


class PythonKind(Kind):
    """A Python object that searches, in a thread unless its `search` is a coroutine function.

    Attributes:
        target: "module:object", where the object has `search(question, k)`, or is a class or
            function that makes one without arguments. A hit is an object or a dict with `id`,
            `text` and perhaps `title`, `score` and `metadata`.
        filters: Whether its `search` takes a filter as a third argument.
    """

    target: Annotated[str, Field(pattern=r"^[\w.]+:[\w.]+$")]
    filters: bool = False

    _call: Callable[..., Any]
    _threads: ThreadPoolExecutor

    def model_post_init(self, _: object) -> None:
        """Load the object."""
        searcher = _load(self.target)
        if not callable(getattr(searcher, "search", None)):
            raise ServiceError(f"target: {self.target} has no search(question, k)")
        self._call = searcher.search
        # A thread cannot be stopped after a timeout, so their number is limited to that of calls.
        self._threads = ThreadPoolExecutor(self.max_concurrency, "wye-arm")

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
        return list(map(_hit, hits))

    async def close(self) -> None:
        """End its threads without waiting for calls in progress."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _load(target: str) -> Any:  # noqa: ANN401 - foreign code
    module, _, path = target.partition(":")
    try:
        value: Any = import_module(module)
        for name in path.split("."):
            value = getattr(value, name)
        is_factory = inspect.isclass(value) or inspect.isfunction(value)
        return value() if is_factory else value
    except Exception as error:  # noqa: BLE001 - foreign code may raise anything
        raise ServiceError(
            f"target: {target} cannot be loaded ({type(error).__name__}: {error})"
        ) from None


def _hit(hit: object) -> RemoteHit:
    parts = hit if isinstance(hit, dict) else {name: getattr(hit, name, None) for name in _PARTS}
    return remote_hit(*map(parts.get, _PARTS))


KINDS: Mapping[str, type[Kind]] = {"http": HttpKind, "python": PythonKind}
"""The kinds by their names in the arms file."""
