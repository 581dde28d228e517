"""A vector store of OpenAI or of any server with its protocol."""

import hashlib
from typing import Any

from backends.filters import Comparison
from service.arms.filtering import numbers_only, translated, value_of
from service.arms.pointers import MISSING, at, list_at
from service.arms.types import RemoteHit, RemoteHits, remote_hit
from service.arms.web import RemoteName, WebConfig, WebKind

_MOST = 50  # most results that it returns


class OpenAiVectorStoreConfig(WebConfig):
    """A vector store; `url` is the server's address, including /v1.

    Attributes:
        store: Its id.
        ranker: The ranker to use; by default the store's own choice.
    """

    store: RemoteName
    ranker: str = ""


class OpenAiVectorStoreKind(WebKind[OpenAiVectorStoreConfig]):
    """Asks `/vector_stores/{store}/search` for the nearest passages."""

    Config = OpenAiVectorStoreConfig

    def translate(self, filter_: object) -> dict[str, Any]:
        """Translate a filter; only orders of texts cannot be expressed."""

        def compare(part: Comparison) -> dict[str, Any]:
            numbers_only(part)
            return {"type": part.type, "key": part.key, "value": value_of(part)}

        def combine(kind: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
            return {"type": kind, "filters": parts}

        return translated(filter_, compare, combine)

    async def search(self, question: str, k: int, filter_: object | None) -> RemoteHits:
        """Find at most k results, and never more than 50."""
        own = self.config
        body: dict[str, Any] = {"query": question, "max_num_results": min(k, _MOST)}
        if filter_ is not None:
            body["filters"] = self.translate(filter_)
        if own.ranker:
            body["ranking_options"] = {"ranker": own.ranker}
        reply = await self._web.ask(f"/vector_stores/{own.store}/search", body)
        return RemoteHits(tuple(map(_hit, list_at(reply, "/data")[:k])))


def _hit(result: object) -> RemoteHit:
    file, parts = at(result, "/file_id"), at(result, "/content")
    texts = [at(part, "/text") for part in parts] if isinstance(parts, list) else []
    text = "\n".join(one for one in texts if isinstance(one, str))
    id_ = at(result, "/passage_id")
    if id_ is MISSING and isinstance(file, str) and file:
        # Results have no ids of their own, and a file may have several.
        id_ = f"{file}#{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:12]}"
    parts_of = (at(result, f"/{name}") for name in ("filename", "score", "attributes"))
    return remote_hit(id_, text, *parts_of)
