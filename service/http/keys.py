"""API keys: made at random, kept as hashes, and bound to what they may see."""

import hashlib
import hmac
import json
import math
import os
import re
import secrets
import stat
from collections.abc import Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from urllib.parse import quote, unquote

from backends.errors import FilterError
from backends.filters import Fixed, parse_filter
from service.errors import ServiceError

PREFIX = "wye_"
MADE_BY = "make lines with `wye keys new`"

_LINE = re.compile(
    r"(?P<name>[\w.-]{1,64}) (?P<scopes>[a-z+]+) sha256:(?P<digest>[0-9a-f]{64})"
    r"(?: collections=(?P<collections>[\w.+-]+))?(?: filter=(?P<filter>\S+))?"
    r"(?: max_cost_per_day=(?P<cost>\d+(?:\.\d+)?))?"
)
# Of JSON, what may stand in a line as it is: no blanks, and no commas, which part the entries of
# WYE_SERVE__KEYS.
_PLAIN = "{}[]\":<>=!()*;/?@&$'|^~"


class Scope(StrEnum):
    """What a key may do; each includes those before it."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Key:
    """An API key as it is stored.

    A key is 256 random bits, so one round of SHA-256 is enough: there is nothing to guess from.

    Attributes:
        name: For logs and rate limits.
        digest: SHA-256 as 64 hexadecimal digits.
        collections: The only ones that it sees; all where none is named.
        filter: JSON of a metadata filter that holds for all that it reads, or "".
        max_cost_per_day: Most that its questions may cost in remote arms; None where its line does
            not say.
    """

    name: str
    scopes: frozenset[Scope]
    digest: str
    collections: tuple[str, ...] = ()
    filter: str = ""
    max_cost_per_day: float | None = None

    def __str__(self) -> str:
        """As a line of a file."""
        line = f"{self.name} {self._scopes} sha256:{self.digest}"
        if self.collections:
            line += f" collections={'+'.join(self.collections)}"
        if self.filter:
            line += f" filter={quote(self.filter, safe=_PLAIN)}"
        if self.max_cost_per_day is not None:
            line += f" max_cost_per_day={Decimal(str(self.max_cost_per_day)):f}"
        return line

    @property
    def _scopes(self) -> str:
        return "+".join(scope for scope in Scope if scope in self.scopes)

    @property
    def is_bound(self) -> bool:
        """Whether there is anything that it may not see."""
        return bool(self.collections or self.filter)

    def sees(self, collection: str) -> bool:
        """Whether it may see anything of a collection."""
        return not self.collections or collection in self.collections

    def within(self, own: object | None) -> object | None:
        """A filter that lets through what `own` does and the key may see."""
        if not self.filter:
            return own
        fixed = json.loads(self.filter)
        return Fixed(fixed) if own is None else Fixed(fixed, own)

    def may(self, scope: Scope) -> bool:
        """Whether it is good for this."""
        order = list(Scope)
        return any(order.index(own) >= order.index(scope) for own in self.scopes)


# Who asks a server that needs no key: everybody who reaches it, and that is this machine only.
ANYBODY = Key("local", frozenset({Scope.ADMIN}), "")
ASKING: ContextVar[Key] = ContextVar("ASKING", default=ANYBODY)
"""Who sent the request that is handled here; work that is nobody's request is everybody's."""


def new_key(
    name: str,
    scopes: Iterable[Scope],
    collections: Iterable[str] = (),
    filter_: object | None = None,
    max_cost_per_day: float | None = None,
) -> tuple[str, Key]:
    """A key to hand out, and what to store of it.

    Raises:
        ServiceError: A name that cannot stand in a line, no scope, or a filter for one that writes.
        FilterError: The filter is not well formed.
    """
    secret = PREFIX + secrets.token_urlsafe(32)
    if filter_ is not None:
        parse_filter(filter_)
    text = "" if filter_ is None else json.dumps(filter_, separators=(",", ":"))
    bounds = tuple(collections), text, max_cost_per_day
    key = Key(name, frozenset(scopes), _digest(secret), *bounds)
    if not key.scopes:
        raise ServiceError(f"A key without scopes opens nothing; name some of {', '.join(Scope)}.")
    if not _LINE.fullmatch(f"{name} read sha256:{key.digest}"):
        raise ServiceError(
            f"A key cannot be called '{name}'; use letters, digits, dots and dashes, at most 64."
        )
    if max_cost_per_day is not None and not 0 <= max_cost_per_day < math.inf:
        raise ServiceError("A key may spend 0 or more in a day; give an amount.")
    if not _LINE.fullmatch(str(key)):
        raise ServiceError(f"There can be no collection '{key.collections[0]}'; see its server's.")
    if key.filter and key.scopes != {Scope.READ}:
        raise ServiceError(
            "A key with a filter only reads, since what it wrote could replace what it cannot see. "
            "Give it --scopes read, or a collection of its own."
        )
    return secret, key


def parse_key(line: str, where: str) -> Key:
    """The key that a line describes.

    Raises:
        ServiceError: It describes none. What stands there is not repeated: it may be a secret.
    """
    found = _LINE.fullmatch(line.strip())
    scopes = found["scopes"].split("+") if found else []
    if found is None or not set(scopes) <= set(Scope):
        raise ServiceError(f"{where} is no hashed API key; {MADE_BY}.")
    filter_ = unquote(found["filter"] or "")
    try:
        if filter_:
            parse_filter(json.loads(filter_))
    except (ValueError, RecursionError, FilterError):
        raise ServiceError(f"{where} has a filter that cannot be read; {MADE_BY}.") from None
    if filter_ and set(scopes) != {Scope.READ}:
        raise ServiceError(f"{where} has a filter and writes, which does not go together.")
    collections = tuple(found["collections"].split("+")) if found["collections"] else ()
    most = None if found["cost"] is None else float(found["cost"])
    bounds = collections, filter_, most
    return Key(found["name"], frozenset(map(Scope, scopes)), found["digest"], *bounds)


def append_key(path: Path, key: Key) -> None:
    """Add a key to a file that only its owner can read, making it if there is none.

    Raises:
        ServiceError: The file cannot be written, others can, or it has a key of that name.
    """
    try:
        if path.exists():
            known, faults = read_keys(path)
            if faults:
                raise ServiceError(f"{path}: {faults[0]}")
            if others_write(path):
                raise ServiceError(
                    f"Others on this machine can write {path}, so a key of theirs may be in it. "
                    f"Look through it, then `chmod 600 {path}`."
                )
            if any(one.name == key.name for one in known):
                raise ServiceError(
                    f"{path} has a key called '{key.name}' already; choose another name."
                )
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "a", encoding="utf-8") as file:
            file.write(f"{key}\n")
    except OSError as error:
        raise ServiceError(f"{path} cannot be written ({error.strerror}); give another.") from None


def others_write(path: Path) -> bool:
    """Whether others than its owner may add keys to a file."""
    return bool(path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def read_keys(path: Path) -> tuple[list[Key], list[str]]:
    """The keys of a file, and what is wrong with its other lines, each in a sentence.

    Empty lines and those after # are left out. Of a file that is not there, or cannot be read,
    there are no keys.
    """
    keys: list[Key] = []
    try:
        lines = path.read_bytes().decode("utf-8", "replace").split("\n")
    except FileNotFoundError:
        return [], []
    except OSError as error:
        return [], [f"The keys file cannot be read ({error.strerror}), so its keys open nothing."]
    faults = []
    for number, line in enumerate(lines, start=1):
        if line.strip() and not line.startswith("#"):
            try:
                keys.append(parse_key(line, f"Line {number} of the keys file"))
            except ServiceError as error:
                faults.append(str(error))
    return keys, faults


class KeyRing:
    """The keys that open this server."""

    def __init__(self, lines: Iterable[str] = (), path: Path | None = None) -> None:
        """Take hashed keys, as `wye keys new` prints them, and a file with more.

        Raises:
            ServiceError: A line that is none, or a file without any.
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
            raise ServiceError(f"{path} holds no API key{why}; {MADE_BY} --file {path}.")

    @property
    def keys(self) -> list[Key]:
        """All that open this server."""
        return [*self._fixed, *self._read]

    @property
    def fault(self) -> str:
        """What is wrong with the file, so that some keys open nothing; "" while nothing is."""
        more = f" {len(self._faults)} lines are like that." if len(self._faults) > 1 else ""
        return self._faults[0] + more if self._faults else ""

    def __bool__(self) -> bool:
        """Whether requests need a key."""
        return self._path is not None or bool(self._fixed)

    def reload(self) -> None:
        """Read the file again if it changed.

        A key that was taken out stops working, whatever else stands there: lines that cannot be
        read open nothing, and the others go on.
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
        """The key that was presented; takes the same time whichever it is, and for none."""
        digest = _digest(secret)
        found = None
        for key in self.keys:
            if hmac.compare_digest(key.digest, digest):
                found = key
        return found


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
