"""Collections whose index is split into shards: each server searches its own, and this one all."""

import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, cast
from urllib.parse import urlsplit

import httpx2

from backends.store.index import PassageStore
from backends.types import Passage
from router.errors import ShardError
from router.rerank import Reranker
from router.session import ModelCache, Session, Snapshot
from router.settings import KEY, Settings
from router.sharding.arms import ShardedArms
from router.sharding.calls import FOREIGN, Call, Shards
from router.sharding.shard import Shard
from router.types import FURTHER, Route
from service.collections import COLLECTION, DEFAULT, Collection
from service.errors import ServiceError
from service.http.problems import Problem
from service.settings import ServeSettings

PATH = "/v1/shard"


class ShardCalls:
    """Answers a shard's calls: on the present version, or for walks begun on the one before."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shards: tuple[Shard, ...] = ()

    def call(self, session: Session, name: str, arguments: Mapping[str, Any]) -> Any:  # noqa: ANN401
        """Answer one of `router.sharding.shard.CALLS`; a `KeyError` for an unknown call or walk."""
        snapshot = session.snapshot
        with self._lock:
            if not self._shards or self._shards[0].snapshot is not snapshot:
                self._shards = (Shard(snapshot), *self._shards[:1])
            newest, *before = self._shards
        shard = next((one for one in before if one.walks(arguments.get("walk", ""))), newest)
        found = shard.call(name, arguments)
        return {**found, "pins": session.index.fingerprint} if name == "about" else found


class HttpShard:
    """A shard that is called over HTTP."""

    def __init__(self, url: str, seconds: float) -> None:
        """Prepare a client; it connects at the first call, and waits at most `seconds`."""
        self.name = url
        secret = os.environ.get(KEY, "")
        self._client = httpx2.Client(
            base_url=url,
            headers={"authorization": f"Bearer {secret}"} if secret else {},
            timeout=seconds,
            trust_env=False,
        )

    def call(self, calls: Sequence[Call]) -> list[Any]:
        """The answers to some calls, in order; a `ShardError` if there is none in time."""
        try:
            reply = self._client.post(PATH, json={"calls": calls})
        except httpx2.TimeoutException:
            raise ShardError("did not answer in time") from None
        except httpx2.HTTPError as error:
            raise ShardError(f"cannot be reached ({type(error).__name__})") from None
        if reply.status_code != 200:
            raise ShardError(f"answered with status {reply.status_code}")
        found: list[Any] = reply.json()
        return found

    def close(self) -> None:
        """Close its connections."""
        self._client.close()


@dataclass(frozen=True, slots=True)
class _Elsewhere:
    """Takes the place of a session's index where there are only shards."""

    fingerprint: Mapping[str, str]
    fault: str = ""

    @property
    def path(self) -> Path:
        raise Problem(
            409,
            "sharded",
            "This collection is spread over other servers; send documents to the one that should "
            "store them.",
        )


class ShardedSession(Session):
    """A session over shards; what needs the index itself is refused with 409."""

    @classmethod
    def connect(
        cls, settings: Settings, urls: Sequence[str], seconds: float, models: ModelCache
    ) -> Self:
        """Open a session of what the shards hold now.

        Args:
            seconds: How long a call may take.

        Raises:
            ShardError: No shard answers, or one has other models than this process.
        """
        pins = models.analyser(settings.analyser).fingerprint
        shards = Shards([HttpShard(url, seconds) for url in urls], pins)
        if foreign := [name for name, why in shards.missing.items() if why == FOREIGN]:
            shards.close()
            raise ShardError(f"{', '.join(foreign)} {FOREIGN}.")
        self = cls(settings, cast(PassageStore, _Elsewhere(pins)), models)
        self._analyser = models.analyser(settings.analyser)
        self._arms = ShardedArms(shards, settings)
        return self

    _arms: ShardedArms

    @property
    def snapshot(self) -> Snapshot:
        """The arms of all shards."""
        return cast(Snapshot, self._arms)

    def within(self, until: float) -> Self:
        """A session for one batch, whose calls to shards all end by `until`."""
        own = copy(self)
        own._arms = self._arms.within(until)
        return own

    @property
    def lost(self) -> Mapping[str, str]:
        """Shards that were left out so far, and why."""
        return self._arms.shards.lost

    @property
    def reranker(self) -> Reranker:
        """There is none: always a `Problem` 409."""
        raise Problem(409, "sharded", "Texts cannot be ranked with a sharded collection.")

    @property
    def outgrown(self) -> int:
        """Always 0: there is no base here."""
        return 0

    def build(self) -> None:
        """Do nothing; there is nothing to build here, and there are no files."""

    files = check_files = build

    def passages(self, ids: Sequence[str]) -> dict[str, Passage]:
        """Id -> passage; a placeholder for those of shards that do not answer."""
        return self._arms.fetch(ids)

    def reload(self) -> Session | None:
        """A session of what all shards hold now, lost ones included; None if nothing changed."""
        with suppress(ShardError):  # if no shard answers, searches say so
            if self._arms.shards.revive():
                later = copy(self)
                later._arms = ShardedArms(self._arms.shards, self.settings)
                return later
        return None

    def close(self) -> None:
        """Close the connections to the shards."""
        self._arms.shards.close()
        super().close()


class ShardedCollection(Collection):
    """A collection whose index is split into shards on other servers."""

    is_stored_here = False

    def load(self) -> None:
        """Connect to the shards and warm up, as a collection with an index of its own does."""
        for route in FURTHER:
            self.unavailable[Route(route)] = "it is not available on a sharded index"
        super().load()


def shard_urls(serve: ServeSettings) -> dict[str, list[str]]:
    """Addresses of the shards of each collection, by name, in the order of the setting.

    Raises:
        ServiceError: A name or an address is invalid.
    """
    found: dict[str, list[str]] = {}
    for entry in serve.shards:
        name, is_named, url = entry.partition("=")
        name, url = (name, url) if is_named and "/" not in name else (DEFAULT, entry)
        if not COLLECTION.fullmatch(name):
            raise ServiceError(f"A collection cannot be called '{name}'.")
        if urlsplit(url).scheme not in {"http", "https"} or not urlsplit(url).hostname:
            raise ServiceError(f"'{url}' is not a shard's address; write NAME=http://host:port.")
        found.setdefault(name, []).append(url.rstrip("/"))
    return found
