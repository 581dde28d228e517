"""A vector store of OpenAI's, or of whoever speaks its protocol."""

import hashlib
from typing import Annotated, Any

from pydantic import Field

from backends.filters import Comparison
from service.arms.filtering import by_operator, numbers_only, translated
from service.arms.pointers import MISSING, at
from service.arms.types import Garbled, Kind, RemoteHit, RemoteHits, remote_hit
from service.arms.web import WebClient, WebConfig

_MOST = 50  # results that it gives
_OPERATORS = {name: name for name in ("eq", "ne", "gt", "gte", "lt", "lte", "in", "nin")}


class OpenAiVectorStoreConfig(WebConfig):
    """A vector store; `url` is where it answers, up to and with /v1.

    Attributes:
        store: Its id.
        ranker: To rank with; the store's own choice without it.
    """

    store: Annotated[str, Field(pattern=r"^[\w.-]+$")]
    ranker: str = ""


class OpenAiVectorStoreKind(Kind[OpenAiVectorStoreConfig]):
    """Asks `/vector_stores/{store}/search` for what is nearest."""

    Config = OpenAiVectorStoreConfig

    def __init__(self, config: OpenAiVectorStoreConfig) -> None:
        super().__init__(config)
        self._web = WebClient(config)

    def check_filter(self, filter_: object) -> None:
        """All but orders of texts can be said."""
        _filters(filter_)

    async def search(self, question: str, k: int, filter_: object | None) -> RemoteHits:
        """At most k results, and no more than 50."""
        own = self.config
        body: dict[str, Any] = {"query": question, "max_num_results": min(k, _MOST)}
        if filter_ is not None:
            body["filters"] = _filters(filter_)
        if own.ranker:
            body["ranking_options"] = {"ranker": own.ranker}
        reply = await self._web.ask(f"/vector_stores/{own.store}/search", body)
        results = at(reply, "/data")
        if not isinstance(results, list):
            raise Garbled("there is no list at /data")
        return RemoteHits(tuple(map(_hit, results[:k])))

    async def close(self) -> None:
        """Close its connections."""
        await self._web.close()


def _hit(result: object) -> RemoteHit:
    file, parts = at(result, "/file_id"), at(result, "/content")
    texts = [at(part, "/text") for part in parts] if isinstance(parts, list) else []
    text = "\n".join(one for one in texts if isinstance(one, str))
    id_ = at(result, "/passage_id")
    if id_ is MISSING and isinstance(file, str) and file:
        # Results have no ids of their own, and several may be of one file.
        id_ = f"{file}#{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:12]}"
    parts_of = (at(result, f"/{name}") for name in ("filename", "score", "attributes"))
    return remote_hit(id_, text, *parts_of)


def _filters(filter_: object) -> dict[str, Any]:
    def compare(part: Comparison) -> dict[str, Any]:
        numbers_only(part)
        operator, value = by_operator(part, _OPERATORS)
        return {"type": operator, "key": part.key, "value": value}

    def combine(kind: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
        return {"type": kind, "filters": parts}

    return translated(filter_, compare, combine)
