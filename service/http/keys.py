"""API keys: made at random, kept as hashes, compared in constant time."""

import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from service.errors import ServiceError

PREFIX = "wye_"
MADE_BY = "make lines with `wye keys new`"

_LINE = re.compile(r"(?P<name>[\w.-]{1,64}) (?P<scopes>[a-z+]+) sha256:(?P<digest>[0-9a-f]{64})")


class Scope(StrEnum):
    """What a key may do; each includes those before it."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Key:
    """An API key as it is stored.

    A key is 256 random bits, so one round of SHA-256 is enough: there is nothing to guess from.

    Its name is for logs and rate limits, the digest the SHA-256 as 64 hexadecimal digits.
    """

    name: str
    scopes: frozenset[Scope]
    digest: str

    def __str__(self) -> str:
        """As a line of a file."""
        scopes = "+".join(scope for scope in Scope if scope in self.scopes)
        return f"{self.name} {scopes} sha256:{self.digest}"

    def may(self, scope: Scope) -> bool:
        """Whether it is good for this."""
        order = list(Scope)
        return any(order.index(own) >= order.index(scope) for own in self.scopes)


# Who asks a server that needs no key: everybody who reaches it, and that is this machine only.
ANYBODY = Key("local", frozenset({Scope.ADMIN}), "")


def new_key(name: str, scopes: Iterable[Scope]) -> tuple[str, Key]:
    """A key to hand out, and what to store of it.

    Raises:
        ServiceError: A name that cannot stand in a line, or no scope.
    """
    secret = PREFIX + secrets.token_urlsafe(32)
    key = Key(name, frozenset(scopes), _digest(secret))
    if not _LINE.fullmatch(str(key)):
        raise ServiceError(
            f"A key cannot be called '{name}'; use letters, digits, dots and dashes, at most 64."
            if key.scopes
            else f"A key without scopes opens nothing; name some of {', '.join(Scope)}."
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
    return Key(found["name"], frozenset(map(Scope, scopes)), found["digest"])


def append_key(path: Path, key: Key) -> None:
    """Add a key to a file that only its owner can read, making it if there is none.

    Raises:
        ServiceError: The file cannot be written, or has a key of that name.
    """
    try:
        if any(known.name == key.name for known in read_keys(path)):
            raise ServiceError(
                f"{path} has a key called '{key.name}' already; choose another name."
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "a", encoding="utf-8") as file:
            file.write(f"{key}\n")
    except OSError as error:
        raise ServiceError(f"{path} cannot be written ({error.strerror}); give another.") from None


def read_keys(path: Path) -> list[Key]:
    """The keys of a file, none if it does not exist; empty lines and those after # are left out.

    Raises:
        ServiceError: A line that is none; names it by number.
    """
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    return [
        parse_key(line, f"{path}:{number}")
        for number, line in enumerate(lines, start=1)
        if line.strip() and not line.startswith("#")
    ]


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
        self._stamp = (0, 0)
        self._read: list[Key] = []
        self.reload()
        if path is not None and not self._fixed and not self._read:
            raise ServiceError(f"{path} holds no API key; {MADE_BY} --file {path}.")

    def __bool__(self) -> bool:
        """Whether requests need a key."""
        return self._path is not None or bool(self._fixed)

    def reload(self) -> None:
        """Read the file again if it changed, so that a key taken out stops working.

        Raises:
            ServiceError: A line that is none; the keys stay as they were.
        """
        if self._path is None:
            return
        try:
            status = self._path.stat()
            stamp = (status.st_mtime_ns, status.st_size)
        except FileNotFoundError:
            stamp = (-1, 0)
        if stamp != self._stamp:
            self._read = read_keys(self._path)
            self._stamp = stamp

    def find(self, secret: str) -> Key | None:
        """The key that was presented; takes the same time whichever it is, and for none."""
        digest = _digest(secret)
        found = None
        for key in (*self._fixed, *self._read):
            if hmac.compare_digest(key.digest, digest):
                found = key
        return found


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
