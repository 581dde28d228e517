"""API keys as lines of a file: random secrets, stored as hashes."""

import hashlib
import hmac
import json
import math
import os
import re
import secrets
import stat
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote

from wye.backends.errors import FilterError
from wye.backends.filters import parse_filter
from wye.service.errors import ServiceError
from wye.service.http.edge import Key, Scope, is_loopback
from wye.service.settings import ServeSettings

PREFIX = "wye_"
MADE_BY = "make lines with `wye keys new`"
_LINE = re.compile(
    r"(?P<name>[\w.-]{1,64}) (?P<scopes>[a-z+]+) sha256:(?P<digest>[0-9a-f]{64})"
    r"(?: collections=(?P<collections>[\w.+-]+))?(?: filter=(?P<filter>\S+))?"
    r"(?: max_cost_per_day=(?P<cost>\d+(?:\.\d+)?))?"
)


def new_key(
    name: str,
    scopes: Iterable[Scope],
    collections: Iterable[str] = (),
    filter_: object | None = None,
    max_cost_per_day: float | None = None,
) -> tuple[str, Key]:
    """Make a key; the secret to hand out, and the key to store.

    A `ServiceError` if a name does not fit in a line, the cost is negative or infinite, there is no
    scope, or a key with a filter could write; a `FilterError` if the filter is not well formed.
    """
    secret = PREFIX + secrets.token_urlsafe(32)
    if filter_ is not None:
        parse_filter(filter_)
    text = "" if filter_ is None else json.dumps(filter_, separators=(",", ":"))
    bounds = tuple(collections), text, max_cost_per_day
    key = Key(name, frozenset(scopes), _digest(secret), *bounds)
    fault = ""
    if not key.scopes:
        fault = f"A key needs a scope; use some of {', '.join(Scope)}."
    elif not _LINE.fullmatch(f"{name} read sha256:{key.digest}"):
        fault = (
            f"A key cannot be called '{name}'; use letters, digits, dots and dashes, at most 64."
        )
    elif max_cost_per_day is not None and not 0 <= max_cost_per_day < math.inf:
        fault = "A key's daily limit must be 0 or more."
    elif not _LINE.fullmatch(str(key)):
        fault = f"A collection cannot be called '{key.collections[0]}'; name one of the server's."
    elif key.filter and key.scopes != {Scope.READ}:
        fault = (
            "A key with a filter can only read, since its writes could replace documents that it "
            "cannot see. Give it --scopes read, or a collection of its own."
        )
    if fault:
        raise ServiceError(fault)
    return secret, key


def parse_key(line: str, where: str) -> Key:
    """The key of a line; a `ServiceError` does not repeat the line, which may be a secret."""
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
    """Add a key to a file, a new one for its owner only; a `ServiceError` if that is not safe."""
    try:
        if path.exists():
            keys, faults = read_keys(path)
            if faults:
                raise ServiceError(f"{path}: {faults[0]}")
            if path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
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


def read_keys(path: Path) -> tuple[list[Key], list[str]]:
    """The keys of a file, none if it is missing or unreadable, and a sentence for each fault."""
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


def refuse_open_server(serve: ServeSettings) -> None:
    """Refuse (`ServiceError`) to serve other machines without API keys."""
    if not (is_loopback(serve.host) or serve.keys or serve.keys_file):
        raise ServiceError(
            f"{serve.host} can be reached from other machines, and there is no API key. Make one "
            "with `wye keys new --file keys.txt` and set WYE_SERVE__KEYS_FILE=keys.txt, or listen "
            "on 127.0.0.1."
        )


class KeyRing:
    """The API keys that this server accepts, also those of a file that it follows."""

    def __init__(self, lines: Iterable[str] = (), path: Path | None = None) -> None:
        """Parse keys, and read a file; a `ServiceError` for a bad line or if it has no keys."""
        self._fixed = [
            parse_key(line, f"Entry {number} of WYE_SERVE__KEYS")
            for number, line in enumerate(lines, start=1)
        ]
        self.path = path
        self.is_required = path is not None or bool(self._fixed)
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

    def reload(self) -> None:
        """Read the file again; a key that was removed stops working even if other lines are bad."""
        if self.path is not None:
            self._read, self._faults = read_keys(self.path)

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
