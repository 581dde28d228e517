"""Qdrant, through its REST API."""

from typing import Any

from backends.filters import Comparison
from service.arms.documents import DocumentConfig
from service.arms.embedding import Embedder, VectorConfig
from service.arms.filtering import numbers_only, translated
from service.arms.pointers import at, list_at
from service.arms.types import RemoteHits
from service.arms.web import HeaderName, RemoteName, WebKind


class QdrantConfig(DocumentConfig, VectorConfig):
    """A collection of a Qdrant server, whose address is `url`.

    Attributes:
        remote_collection: Its name there.
        using: Name of the vector to use, if points have several.
    """

    remote_collection: RemoteName
    using: str = ""
    key_header: HeaderName = "api-key"


class QdrantKind(WebKind[QdrantConfig]):
    """Asks for the nearest points."""

    Config = QdrantConfig

    def __init__(self, config: QdrantConfig) -> None:
        super().__init__(config)
        self.embedder = self._vectors = Embedder(config)

    async def search(self, question: str, k: int, filter_: object | None) -> RemoteHits:
        """Find at most k points, nearest first."""
        own = self.config
        body: dict[str, Any] = {
            "query": await self._vectors.vector(question),
            "limit": k,
            "with_payload": True,
        }
        if own.using:
            body["using"] = own.using
        if filter_ is not None:
            body["filter"] = {"must": [self.translate(filter_)]}
        reply = await self._web.ask(f"/collections/{own.remote_collection}/points/query", body)
        return RemoteHits(
            tuple(
                own.hit(at(point, "/id"), at(point, "/payload"), at(point, "/score"))
                for point in list_at(reply, "/result/points")[:k]
            )
        )

    def translate(self, filter_: object) -> dict[str, Any]:
        """Translate a filter; only orders of texts cannot be expressed."""

        def compare(part: Comparison) -> dict[str, Any]:
            numbers_only(part)
            key = self.config.field(part.key)
            if part.type in ("gt", "gte", "lt", "lte"):
                return {"key": key, "range": {part.type: part.values[0]}}
            same = {"should": [_equal(key, value) for value in part.values]}
            return {"must_not": [same]} if part.type in ("ne", "nin") else same

        def combine(kind: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
            return {"must" if kind == "and" else "should": parts}

        return translated(filter_, compare, combine)


def _equal(key: str, value: object) -> dict[str, Any]:
    if isinstance(value, str | bool):
        return {"key": key, "match": {"value": value}}
    return {"key": key, "range": {"gte": value, "lte": value}}
