"""API keys: random secrets, stored as hashes; who asks, and what a key may do and see."""

import hashlib
import hmac
import ipaddress
import json
import math
import os
import re
import secrets
import stat
from collections.abc import Awaitable, Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from urllib.parse import quote, unquote

from fastapi import Depends, Request, Security
from fastapi.security import HTTPBearer
from starlette.datastructures import Headers

from wye.backends.errors import FilterError
from wye.backends.filters import Fixed, parse_filter
from wye.service.errors import ServiceError
from wye.service.http.problems import Problem
from wye.service.settings import ServeSettings

PREFIX = "wye_"
MADE_BY = "make lines with `wye keys new`"
_LINE = re.compile(
    r"(?P<name>[\w.-]{1,64}) (?P<scopes>[a-z+]+) sha256:(?P<digest>[0-9a-f]{64})"
    r"(?: collections=(?P<collections>[\w.+-]+))?(?: filter=(?P<filter>\S+))?"
    r"(?: max_cost_per_day=(?P<cost>\d+(?:\.\d+)?))?"
)
# Characters of JSON that need no quoting in a line: no blanks, and no commas, since these separate
# the entries of WYE_SERVE__KEYS.
_PLAIN = "{}[]\":<>=!()*;/?@&$'|^~"


class Scope(StrEnum):
    """What a key may do; each scope includes those before it."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Key:
    """An API key as it is stored.

    A secret has 256 random bits, so it cannot be guessed and one round of SHA-256 is enough.

    Attributes:
        name: Name for logs and rate limits.
        digest: SHA-256 as 64 hexadecimal digits.
        collections: The collections that it may see; empty for all.
        filter: JSON of a metadata filter on all that it reads, or "".
        max_cost_per_day: Most that its calls of remote arms may cost in a day; None if its line
            does not say.
    """

    name: str
    scopes: frozenset[Scope]
    digest: str
    collections: tuple[str, ...] = ()
    filter: str = ""
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

    @property
    def is_bound(self) -> bool:
        """Whether it is limited to some collections or by a filter."""
        return bool(self.collections or self.filter)

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
        order = list(Scope)
        return max(map(order.index, self.scopes), default=-1) >= order.index(scope)


# The key of every request to a server without keys, which only this machine can reach.
ANYBODY = Key("local", frozenset({Scope.ADMIN}), "")
ASKING: ContextVar[Key] = ContextVar("ASKING", default=ANYBODY)
"""The key of the request being handled; outside of any request, one that may do everything."""


def new_key(
    name: str,
    scopes: Iterable[Scope],
    collections: Iterable[str] = (),
    filter_: object | None = None,
    max_cost_per_day: float | None = None,
) -> tuple[str, Key]:
    """Make a key.

    Returns:
        The secret to hand out, and the key to store.

    Raises:
        ServiceError: A name does not fit in a line, the cost is negative or infinite, there is no
            scope, or a key with a filter could write.
        FilterError: The filter is not well formed.
    """
    secret = PREFIX + secrets.token_urlsafe(32)
    if filter_ is not None:
        parse_filter(filter_)
    text = "" if filter_ is None else json.dumps(filter_, separators=(",", ":"))
    bounds = tuple(collections), text, max_cost_per_day
    key = Key(name, frozenset(scopes), _digest(secret), *bounds)
    if not key.scopes:
        raise ServiceError(f"A key needs a scope; use some of {', '.join(Scope)}.")
    if not _LINE.fullmatch(f"{name} read sha256:{key.digest}"):
        raise ServiceError(
            f"A key cannot be called '{name}'; use letters, digits, dots and dashes, at most 64."
        )
    if max_cost_per_day is not None and not 0 <= max_cost_per_day < math.inf:
        raise ServiceError("A key's daily limit must be 0 or more.")
    if not _LINE.fullmatch(str(key)):
        raise ServiceError(
            f"A collection cannot be called '{key.collections[0]}'; name one of the server's."
        )
    if key.filter and key.scopes != {Scope.READ}:
        raise ServiceError(
            "A key with a filter can only read, since its writes could replace documents that it "
            "cannot see. Give it --scopes read, or a collection of its own."
        )
    return secret, key


def parse_key(line: str, where: str) -> Key:
    """The key that a line describes.

    Raises:
        ServiceError: It describes none. The message does not repeat the line, which may be a
            secret.
    """
    match = _LINE.fullmatch(line.strip())
    scopes = match["scopes"].split("+") if match else []
    if match is None or not set(scopes) <= set(Scope):
        raise ServiceError(f"{where} is not a hashed API key; {MADE_BY}.")
    filter_ = unquote(match["filter"] or "")
    try:
        if filter_:
            parse_filter(json.loads(filter_))
    except (ValueError, RecursionError, FilterError):
        raise ServiceError(f"{where} has a filter that cannot be read; {MADE_BY}.") from None
    if filter_ and set(scopes) != {Scope.READ}:
        raise ServiceError(f"{where} has a filter, so its only scope can be read; {MADE_BY}.")
    collections = tuple(match["collections"].split("+")) if match["collections"] else ()
    limit = None if match["cost"] is None else float(match["cost"])
    bounds = collections, filter_, limit
    return Key(match["name"], frozenset(map(Scope, scopes)), match["digest"], *bounds)


def append_key(path: Path, key: Key) -> None:
    """Add a key to a file; a new file is readable by its owner only.

    Raises:
        ServiceError: The file cannot be written or has a bad line, others can write it, or it has a
            key of that name.
    """
    try:
        if path.exists():
            keys, faults = read_keys(path)
            if faults:
                raise ServiceError(f"{path}: {faults[0]}")
            if others_write(path):
                raise ServiceError(
                    f"Others on this machine can write {path}, so it may contain a key of theirs. "
                    f"Check it, then `chmod 600 {path}`."
                )
            if key.name in {other.name for other in keys}:
                raise ServiceError(
                    f"{path} already has a key called '{key.name}'; choose another name."
                )
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "a", encoding="utf-8") as file:
            file.write(f"{key}\n")
    except OSError as error:
        raise ServiceError(f"{path} cannot be written ({error.strerror}); give another.") from None


def others_write(path: Path) -> bool:
    """Whether users other than the file's owner can write it."""
    return bool(path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def read_keys(path: Path) -> tuple[list[Key], list[str]]:
    """Read a keys file. Empty lines and lines that begin with # are ignored.

    Returns:
        Its keys, none if the file is missing or unreadable, and a sentence for each fault.
    """
    keys: list[Key] = []
    try:
        lines = path.read_bytes().decode("utf-8", "replace").split("\n")
    except FileNotFoundError:
        return [], []
    except OSError as error:
        return [], [
            f"The keys file cannot be read ({error.strerror}), so its keys are not accepted."
        ]
    faults = []
    for number, line in enumerate(lines, start=1):
        if line.strip() and not line.startswith("#"):
            try:
                keys.append(parse_key(line, f"Line {number} of the keys file"))
            except ServiceError as error:
                faults.append(str(error))
    return keys, faults


class KeyRing:
    """The API keys that this server accepts."""

    def __init__(self, lines: Iterable[str] = (), path: Path | None = None) -> None:
        """Parse hashed keys, as `wye keys new` prints them, and read a file with more.

        Raises:
            ServiceError: A line is no key, or there are no other keys and the file has none.
        """
        self._fixed = [
            parse_key(line, f"Entry {number} of WYE_SERVE__KEYS")
            for number, line in enumerate(lines, start=1)
        ]
        self._path = path
        self._stamp = (0, 0, 0)
        self._read: list[Key] = []
        self._faults: list[str] = []
        self.reload()
        if path is not None and not self._fixed and not self._read:
            why = f" ({self._faults[0].removesuffix('.')})" if self._faults else ""
            raise ServiceError(
                f"{path} contains no API key{why}; make one with `wye keys new --file {path}`."
            )

    @property
    def keys(self) -> list[Key]:
        """All keys, those of the settings first."""
        return [*self._fixed, *self._read]

    @property
    def fault(self) -> str:
        """What is wrong with the file, so that some keys do not work; "" if nothing is."""
        more = f" {len(self._faults)} lines are like that." if len(self._faults) > 1 else ""
        return self._faults[0] + more if self._faults else ""

    def __bool__(self) -> bool:
        """Whether requests need a key."""
        return self._path is not None or bool(self._fixed)

    def reload(self) -> None:
        """Read the file again if it has changed.

        A key that was removed stops working even if other lines are bad: they are ignored.
        """
        if self._path is None:
            return
        try:
            status = self._path.stat()
            stamp = (status.st_mtime_ns, status.st_ctime_ns, status.st_size)
        except OSError:
            stamp = (-1, 0, 0)
        if stamp != self._stamp:
            self._read, self._faults = read_keys(self._path)
            self._stamp = stamp

    def find(self, secret: str) -> Key | None:
        """The key with this secret, or None; takes the same time in every case."""
        digest = _digest(secret)
        match = None
        for key in self.keys:
            if hmac.compare_digest(key.digest, digest):
                match = key
        return match


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


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


def identify(ring: KeyRing, headers: Headers, path: str) -> Key:
    """The key that a request is sent with.

    A server without keys serves anybody on this machine. The request's host must then be this
    machine, so that no web page can reach the server by DNS rebinding.

    Raises:
        Problem: 401 without a known key, 421 for a foreign host name.
    """
    if not ring:
        _check_host(headers.get("host", ""))
        return ANYBODY
    secret = _secret(headers)
    if not path.startswith(PROTECTED):
        return (ring.find(secret) if secret else None) or _NO_KEY
    if secret is None:
        raise Problem(
            401,
            "no-key",
            "Send an API key, as in `Authorization: Bearer wye_…`.",
            headers=_CHALLENGE,
        )
    key = ring.find(secret)
    if key is None:
        raise Problem(
            401,
            "unknown-key",
            "This API key is unknown or was withdrawn; ask whoever runs the server for another.",
            headers=_CHALLENGE,
        )
    return key


def needs(scope: Scope) -> Callable[..., Awaitable[None]]:
    """A dependency that refuses (403) keys without a scope."""

    async def check(_schema: object = Security(_IN_SCHEMA)) -> None:
        if not ASKING.get().may(scope):
            raise Problem(
                403,
                "scope",
                f"This needs a key with the scope '{scope}'; make one with `wye keys new --scopes "
                f"{scope}`.",
            )

    return check


async def unbound() -> None:
    """A dependency that refuses (403) keys bound to collections or to a filter."""
    if ASKING.get().is_bound:
        raise Problem(403, "bound", "This covers all collections, but the key is limited to some.")


async def from_our_pages(request: Request) -> None:
    """A dependency that refuses requests from foreign web pages.

    A browser sends a page's forms to any server without asking, and a server without keys could not
    tell them from its user's requests.

    Raises:
        Problem: 403.
    """
    origin = request.headers.get("origin")
    if origin is None or origin.partition("://")[2] == request.headers.get("host"):
        return
    allowed = request.app.state.service.settings.serve.cors_origins
    if origin not in allowed and "*" not in allowed:
        raise Problem(
            403,
            "foreign-page",
            f"Pages of '{origin:.80}' may not change documents here. Allow them with "
            "WYE_SERVE__CORS_ORIGINS.",
        )


READ = [Depends(needs(Scope.READ))]
"""Dependencies of addresses that only read."""
WRITE = [Depends(needs(Scope.WRITE)), Depends(from_our_pages)]
"""Dependencies of addresses that change something."""


def refuse_open_server(serve: ServeSettings) -> None:
    """Refuse (`ServiceError`) to serve other machines, or any web page, without API keys."""
    if "*" in serve.cors_origins and not serve.has_keys:
        raise ServiceError(
            "WYE_SERVE__CORS_ORIGINS=* lets any web page that somebody here opens read and delete, "
            "and there is no API key. Name the origins of your pages, or make a key with "
            "`wye keys new --file keys.txt` and set WYE_SERVE__KEYS_FILE=keys.txt."
        )
    if not is_loopback(serve.host) and not serve.has_keys:
        raise ServiceError(
            f"{serve.host} can be reached from other machines, and there is no API key. Make one "
            "with `wye keys new --file keys.txt` and set WYE_SERVE__KEYS_FILE=keys.txt, or listen "
            "on 127.0.0.1."
        )


def _secret(headers: Headers) -> str | None:
    kind, _, secret = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer" and secret.strip():
        return secret.strip()
    return headers.get("x-api-key") or None


def _check_host(host: str) -> None:
    name = host.rsplit(":", 1)[0] if host.rpartition(":")[2].isdigit() else host
    if is_loopback(name.strip("[]")):
        return
    raise Problem(
        421,
        "host",
        "A server without API keys answers to localhost only. Ask http://localhost, or give the "
        "server keys.",
    )
