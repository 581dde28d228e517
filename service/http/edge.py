"""The edge of the server: who asks, what is refused, request ids, headers and the access log."""

import asyncio
import ipaddress
import json
import re
import secrets
from codecs import BOM_UTF8
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from math import inf
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Self
from urllib.parse import quote, unquote_to_bytes

from fastapi import Depends, Request, Security
from fastapi.security import HTTPBearer
from pydantic import ConfigDict, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic_core import from_json
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as AsgiScope

from wye.backends.errors import suggestion
from wye.backends.filters import Fixed
from wye.service.http.metrics import Metrics
from wye.service.http.openapi import Described
from wye.service.http.problems import (
    NOTED_ID,
    NOTED_PROBLEM,
    Problem,
    answer,
    closing,
    with_suggestion,
)
from wye.service.logs import LOG

if TYPE_CHECKING:
    from wye.service.http.keys import KeyRing


# Characters of JSON that need no quoting in a line: no blanks, and no commas, since these separate
# the entries of WYE_SERVE__KEYS.
_PLAIN = "{}[]\":<>=!()*;/?@&$'|^~"
_MOST_FIELDS = 64


class Scope(StrEnum):
    """What a key may do; writing includes reading."""

    READ = "read"
    WRITE = "write"


@dataclass(frozen=True, slots=True)
class Key:
    """An API key as it is stored.

    A secret has 256 random bits, so it cannot be guessed and one round of SHA-256 is enough.

    Attributes:
        max_cost_per_day: Most that its calls of remote arms may cost in a day; None if its line
            does not say.
    """

    name: str  # name for logs and rate limits
    scopes: frozenset[Scope]
    digest: str  # SHA-256 as 64 hexadecimal digits
    collections: tuple[str, ...] = ()  # the collections that it may see; empty for all
    filter: str = ""  # JSON of a metadata filter on all that it reads, or ""
    max_cost_per_day: float | None = None

    def __str__(self) -> str:
        """The key as a line of a keys file."""
        scopes = "+".join(scope for scope in Scope if scope in self.scopes)
        line = f"{self.name} {scopes} sha256:{self.digest}"
        if self.collections:
            line += f" collections={'+'.join(self.collections)}"
        if self.filter:
            line += f" filter={quote(self.filter, safe=_PLAIN)}"
        if self.max_cost_per_day is not None:
            line += f" max_cost_per_day={Decimal(str(self.max_cost_per_day)):f}"
        return line

    def sees(self, collection: str) -> bool:
        """Whether it may see a collection, or the part that its filter lets through."""
        return not self.collections or collection in self.collections

    def within(self, filter_: object | None) -> object | None:
        """The request's filter combined with the key's; None if there is neither."""
        if not self.filter:
            return filter_
        fixed = json.loads(self.filter)
        return Fixed(fixed) if filter_ is None else Fixed(fixed, filter_)

    def may(self, scope: Scope) -> bool:
        """Whether it has a scope, or one that includes it."""
        return not self.scopes.isdisjoint((scope, Scope.WRITE))


# The key of every request to a server without keys, which only this machine can reach.
ANYBODY = Key("local", frozenset({Scope.WRITE}), "")
ASKING: ContextVar[Key] = ContextVar("ASKING", default=ANYBODY)
"""The key of the request being handled; outside of any request, one that may do everything."""


def is_loopback(host: str) -> bool:
    """Whether a name or an address means this machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


# Paths that need a key if the server has keys. Health, the schema and the console's files do not.
PROTECTED = ("/v1/", "/v2/", "/metrics", "/mcp")
_NO_KEY = Key("", frozenset(), "")
_CHALLENGE = {"www-authenticate": "Bearer"}
_IN_SCHEMA = HTTPBearer(
    auto_error=False, description="A key of `wye keys new`; `x-api-key` is accepted as well."
)


def identify(ring: "KeyRing", headers: Headers, path: str) -> Key:
    """The key that a request is sent with, or a `Problem` 401.

    A server without keys serves anybody on this machine. The request's host must then be this
    machine, else a `Problem` 421, so that no web page can reach the server by DNS rebinding.
    """
    if not ring.is_required:
        _check_host(headers.get("host", ""))
        return ANYBODY
    secret = _secret(headers)
    if not path.startswith(PROTECTED):
        return (ring.find(secret) if secret else None) or _NO_KEY
    if secret is None:
        needed = "Send an API key, as in `Authorization: Bearer wye_…`."
        raise Problem(401, "no-key", needed, headers=_CHALLENGE)
    if (key := ring.find(secret)) is None:
        unknown = (
            "This API key is unknown or was withdrawn; ask whoever runs the server for another."
        )
        raise Problem(401, "unknown-key", unknown, headers=_CHALLENGE)
    return key


def needs(scope: Scope) -> Callable[..., Awaitable[None]]:
    """A dependency that refuses (403) keys without a scope."""
    needed = (
        f"This needs a key with the scope '{scope}'; make one with `wye keys new --scopes {scope}`."
    )

    async def check(_schema: object = Security(_IN_SCHEMA)) -> None:
        if not ASKING.get().may(scope):
            raise Problem(403, "scope", needed)

    return check


async def unbound() -> None:
    """A dependency that refuses (403) keys bound to collections or to a filter."""
    if (key := ASKING.get()).collections or key.filter:
        raise Problem(403, "bound", "This covers all collections, but the key is limited to some.")


async def from_our_pages(request: Request) -> None:
    """A dependency that refuses (403) requests of foreign web pages to a server without keys.

    A browser sends a page's forms to any server without asking, and a server without keys could not
    tell them from its user's requests.
    """
    host, origin = request.headers.get("host"), request.headers.get("origin")
    if ASKING.get() is ANYBODY and origin is not None and origin.partition("://")[2] != host:
        refused = f"Pages of '{origin:.80}' may not use this address."
        raise Problem(403, "foreign-page", f"{refused} Give the server keys, and send one.")


READ = [Depends(needs(Scope.READ))]  # dependencies of addresses that only read
WRITE = [Depends(needs(Scope.WRITE)), Depends(from_our_pages)]  # of addresses that change something


def _secret(headers: Headers) -> str | None:
    kind, _, secret = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer" and secret.strip():
        return secret.strip()
    return headers.get("x-api-key") or None


def _check_host(host: str) -> None:
    name = host.rsplit(":", 1)[0] if host.rpartition(":")[2].isdigit() else host
    if is_loopback(name.strip("[]")):
        return
    local = "A server without API keys answers to localhost only."
    raise Problem(421, "host", f"{local} Ask http://localhost, or give the server keys.")


class Strict(Described):
    """A request that refuses unknown fields, since they are most often misspelt."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    @model_validator(mode="wrap")
    @classmethod
    def _suggest_fields(cls, value: object, validate: ModelWrapValidatorHandler[Self]) -> Self:
        # Each unknown field would be an error of its own, and a body may have thousands.
        if isinstance(value, Mapping) and len(value) > _MOST_FIELDS:
            raise ValueError(f"there are {len(value):,} fields, most of them unknown")
        try:
            return validate(value)
        except ValidationError as error:
            faults = [with_suggestion(fault, cls.model_fields) for fault in error.errors()]
            raise ValidationError.from_exception_data(cls.__name__, faults) from None


async def refuse_unknown(request: Request) -> None:
    """A dependency that refuses (422) unknown query parameters: ignored, they could do harm."""
    names = [field.alias for field in request.scope["route"].dependant.query_params]
    for name in request.query_params:
        if name not in names:
            text = f" The parameters are {', '.join(names)}." if names else " There is none here."
            hint = suggestion(name, names) or text
            fault = {"at": f"query.{name:.60}", "says": f"There is no such parameter.{hint}"}
            raise Problem(422, "validation", f"{fault['at']}: {fault['says']}", errors=[fault])


@dataclass(slots=True)
class RefusalPace:
    """Delays refusals once there are more than `per_second` of them.

    Clients that ignore Retry-After and retry at once are refused thousands of times a second. That
    takes the processor and Python's lock from accepted questions: with 64 such clients a batch
    took forty times as long, so that all further requests were refused as well. A `burst` is sent
    at once, and none is delayed by more than `longest` seconds.
    """

    per_second: float = 250.0
    burst: int = 50
    longest: float = 1.0
    clock: Callable[[], float] = monotonic
    _next: float = -inf

    def delay(self) -> float:
        """Seconds to wait before the next refusal is sent."""
        now, gap = self.clock(), 1.0 / self.per_second
        self._next = min(max(self._next, now - self.burst * gap) + gap, now + self.longest)
        return max(0.0, self._next - now)


LONGEST_BODY = 4_194_304  # most bytes that are parsed in one go, while nothing else runs
MOST_VALUES = 100_000  # most values and names in JSON that is parsed in one go
# Bodies of these paths and types are streamed to a file, so they may be longer.
_UPLOADS = ("/v1/documents", "/v1/files")
_STREAMED = ("application/x-ndjson", "application/jsonl", "multipart/form-data")


async def _bounded(
    scope: AsgiScope, headers: Headers, receive: Receive, upload_bytes: int
) -> Receive:
    """A body within bounds (413, or 422 if it is no JSON): read already, or an upload's stream."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    is_upload = scope["method"] == "POST" and scope["path"] in _UPLOADS and kind in _STREAMED
    limit = upload_bytes if is_upload else LONGEST_BODY
    length_header = headers.get("content-length", "")
    _refuse_beyond(limit, int(length_header) if length_header.isdigit() else 0)
    length = 0

    async def limited() -> Message:
        nonlocal length
        message = await receive()
        length += len(message.get("body", b""))
        _refuse_beyond(limit, length)
        return message

    if is_upload:
        return limited
    message = await limited()
    pieces = [message.get("body", b"")]
    while message["type"] == "http.request" and message.get("more_body"):
        message = await limited()
        pieces.append(message.get("body", b""))
    if message["type"] == "http.request":
        message = {"type": "http.request", "body": b"".join(pieces)}
        _refuse_values(message["body"], kind)
    first = [message]

    async def replay() -> Message:
        return first.pop() if first else await receive()

    return replay


def _refuse_beyond(limit: int, length: int) -> None:
    if length > limit:
        # An HTTPException, since FastAPI reports other exceptions as unreadable JSON.
        less = "Send less at a time, or documents as files or application/x-ndjson."
        raise HTTPException(413, f"A body may have {limit:,} bytes here. {less}")


def _refuse_values(body: bytes, kind: str) -> None:
    """Refuse too many values, half a surrogate pair, which nothing can contain, and UTF-16."""
    if json_values(body) > MOST_VALUES:
        raise HTTPException(413, f"JSON may have {MOST_VALUES:,} values here. Send less at a time.")
    if "json" in kind and (b"\0" in body or b"\\ud" in body.lower() or not body.isascii()):
        try:
            from_json(body.removeprefix(BOM_UTF8))
        except ValueError as error:
            raise HTTPException(422, f"This is not JSON in UTF-8: {error}.") from error


def json_values(body: bytes) -> int:
    """How many values and names JSON has, or slightly more, without parsing it."""
    pieces = body.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
    return sum(map(b"".join(pieces[::2]).count, (b",", b":", b"[", b"{")))


def _refuse_other_encodings(scope: AsgiScope) -> None:
    """Refuse a path whose bytes are no UTF-8; the server decodes all such to one character."""
    if "\ufffd" in scope["path"]:
        try:
            unquote_to_bytes(scope["raw_path"]).decode()
        except UnicodeDecodeError as error:
            raise HTTPException(400, "An address must be percent-encoded UTF-8.") from error


REQUEST_ID = "x-request-id"

_BUSY = 503
_CLIENT_ID = re.compile(r"[\w.-]{1,64}", re.ASCII)
_REQUEST_ID = REQUEST_ID.encode()
_SAFETY = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (
        b"content-security-policy",
        b"default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; "
        b"frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    ),
)
_SAFETY_V1 = (*_SAFETY, (b"cache-control", b"no-store"))
# Polled every few seconds by machines, so left out of the access log.
_UNLOGGED = ("/health", "/ready", "/metrics")


@dataclass(frozen=True, slots=True)
class Edge:
    """ASGI middleware around the whole app."""

    app: ASGIApp
    ring: "KeyRing"
    upload_bytes: int
    metrics: Metrics
    pace: RefusalPace = field(default_factory=RefusalPace)

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        visit = _Visit(self, scope, send)
        try:
            _refuse_other_encodings(scope)
            key = identify(self.ring, visit.headers, scope["path"])
            visit.key = key.name
            ASKING.set(key)  # in the context of this request's task
            body = await _bounded(scope, visit.headers, receive, self.upload_bytes)
            await self.app(scope, body, visit.send)
        except Exception as error:  # noqa: BLE001 - the HTTP edge
            await visit.fail(error, receive)
        except asyncio.CancelledError:  # raised only while the server stops
            with suppress(Problem):
                await visit.fail(closing(), receive)
        finally:
            visit.end()


class _Visit:
    def __init__(self, edge: Edge, scope: AsgiScope, send: Send) -> None:
        self.headers = Headers(scope=scope)
        self.key = ""
        sent_id = self.headers.get(REQUEST_ID, "")
        self.request_id = sent_id if _CLIENT_ID.fullmatch(sent_id) else secrets.token_hex(12)
        scope[NOTED_ID] = self.request_id
        self._scope = scope
        self._send = send
        self._edge = edge
        self._started = perf_counter()
        self._status = 0
        self._seconds = 0.0

    async def send(self, message: Message) -> None:
        """Send a message of the reply; the first gets our headers and, if refused, a delay."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
            if self._status == _BUSY and (seconds := self._edge.pace.delay()):
                await asyncio.sleep(seconds)
            self._seconds = perf_counter() - self._started
            names = {name for name, _ in message["headers"]}
            safety = _SAFETY_V1 if self._scope["path"].startswith(("/v1/", "/v2/")) else _SAFETY
            message["headers"] = [
                *message["headers"],
                (_REQUEST_ID, self.request_id.encode()),
                *(header for header in safety if header[0] not in names),
            ]
        await self._send(message)

    async def fail(self, error: Exception, receive: Receive) -> None:
        """Answer with a problem or, once a reply has begun, log the error and break off."""
        if self._status:
            LOG.error("reply broke off", exc_info=error, extra={"request_id": self.request_id})
            raise error
        await answer(error, self._scope)(self._scope, receive, self.send)

    def end(self) -> None:
        """Count the request, and write its line of the access log."""
        scope, metrics = self._scope, self._edge.metrics
        route, problem = getattr(scope.get("route"), "path", "(none)"), scope.get(NOTED_PROBLEM)
        metrics.requests.labels(route, str(self._status)).inc()
        metrics.request_seconds.labels(route).observe(self._seconds)
        if problem:
            metrics.refused.labels(problem).inc()
        if scope["path"] in _UNLOGGED:
            return
        extra = {"request_id": self.request_id, "method": scope["method"], "path": scope["path"]}
        extra |= {"status": self._status, "ms": round(1000 * self._seconds, 1), "key": self.key}
        LOG.info("request", extra=extra | ({"problem": problem} if problem else {}))
