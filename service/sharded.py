"""An index dealt to other servers: each is a Wye over its part, and this one asks them all."""

import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from itertools import groupby
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
from router.sharding.arms import FOREIGN, LOST, ShardedArms, Shards
from router.sharding.shard import Shard
from router.types import FURTHER, Route
from service.collections import COLLECTION, DEFAULT, Collection
from service.errors import ServiceError
from service.http.problems import Problem
from service.settings import ServeSettings

PATH = "/v1/shard"


class ShardCalls:
    """Answers for the version that is searched, and ends walks on the one before."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shards: tuple[Shard, ...] = ()

    def call(self, session: Session, name: str, arguments: Mapping[str, Any]) -> Any:  # noqa: ANN401
        """Answer one of `router.sharding.shard.CALLS`.

        Raises:
            KeyError: There is no such call, or no such walk.
        """
        snapshot = session.snapshot
        with self._lock:
            if not self._shards or self._shards[0].snapshot is not snapshot:
                self._shards = (Shard(snapshot), *self._shards[:1])
            newest, *before = self._shards
        shard = next((one for one in before if one.walks(arguments.get("walk", ""))), newest)
        found = shard.call(name, arguments)
        return {**found, "pins": session.index.fingerprint} if name == "about" else found


class HttpShard:
    """A shard behind an address."""

    def __init__(self, url: str, seconds: float) -> None:
        """Connect to nothing yet."""
        self.name = url
        secret = os.environ.get(KEY, "")
        self._client = httpx2.Client(
            base_url=url,
            headers={"authorization": f"Bearer {secret}"} if secret else {},
            timeout=seconds,
            trust_env=False,
        )

    def call(self, name: str, arguments: Mapping[str, Any]) -> Any:  # noqa: ANN401
        """Its answer.

        Raises:
            ShardError: There is none in time.
        """
        try:
            reply = self._client.post(PATH, json={"name": name, "arguments": arguments})
        except httpx2.TimeoutException:
            raise ShardError("did not answer in time") from None
        except httpx2.HTTPError as error:
            raise ShardError(f"cannot be reached ({type(error).__name__})") from None
        if reply.status_code != 200:
            raise ShardError(f"answered with status {reply.status_code}")
        return reply.json()

    def close(self) -> None:
        """Close its connections."""
        self._client.close()


@dataclass(frozen=True, slots=True)
class _Elsewhere:
    """Stands where a session has its index."""

    fingerprint: Mapping[str, str]
    fault: str = ""

    @property
    def path(self) -> Path:
        raise Problem(
            409,
            "sharded",
            "This collection is dealt to other servers; send documents to the one that is to have "
            "them.",
        )


class ShardedSession(Session):
    """A session over shards: it searches, and what takes the index itself is refused with 409."""

    @classmethod
    def connect(
        cls, settings: Settings, urls: Sequence[str], seconds: float, models: ModelCache
    ) -> Self:
        """A session of what shards have now.

        Raises:
            ShardError: None answers, or they have other models than this process.
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

    def files(self) -> None:
        """There are none here."""

    def lost(self) -> Mapping[str, str]:
        """Shards that were left out since this was last asked, and why."""
        return self._arms.shards.lost()

    @property
    def reranker(self) -> Reranker:
        """None.

        Raises:
            Problem: Always.
        """
        raise Problem(409, "sharded", "Texts cannot be ranked in a collection that is sharded.")

    @property
    def outgrown(self) -> int:
        """Nothing is kept here."""
        return 0

    def check_files(self) -> None:
        """There are none here."""

    def build(self) -> None:
        """There is nothing to build here."""

    def passages(self, ids: Sequence[str]) -> dict[str, Passage]:
        """Id -> passage, of shards that answer."""
        found = self._arms.fetch(ids)
        return {id_: found.get(id_) or Passage(id_, "", LOST) for id_ in ids}

    def reload(self) -> Session | None:
        """A session of what shards have now, also of those that were lost; None for no change."""
        with suppress(ShardError):  # that none answers is told to who asks
            if self._arms.shards.revive():
                later = copy(self)
                later._arms = ShardedArms(self._arms.shards, self.settings)
                return later
        return None

    def close(self) -> None:
        """Ask no shard any more."""
        self._arms.shards.close()
        super().close()


class ShardedCollection(Collection):
    """A collection whose index is dealt to other servers."""

    is_stored_here = False

    def load(self) -> None:
        """Ask the shards, and one question over each route."""
        for route in FURTHER:
            self.unavailable[Route(route)] = "it cannot be asked for where an index is sharded"
        super().load()


def shard_urls(serve: ServeSettings) -> dict[str, list[str]]:
    """Addresses of the shards of each collection, by its name.

    Raises:
        ServiceError: A name that cannot stand in an address, or what is no address.
    """
    pairs = []
    for entry in serve.shards:
        name, is_named, url = entry.partition("=")
        name, url = (name, url) if is_named and "/" not in name else (DEFAULT, entry)
        if not COLLECTION.fullmatch(name):
            raise ServiceError(f"A collection cannot be called '{name}'.")
        if urlsplit(url).scheme not in {"http", "https"} or not urlsplit(url).hostname:
            raise ServiceError(f"'{url}' is no address of a shard; write NAME=http://host:port.")
        pairs.append((name, url.rstrip("/")))
    by_name = groupby(sorted(pairs, key=lambda pair: pair[0]), key=lambda pair: pair[0])
    return {name: [url for _, url in own] for name, own in by_name}
