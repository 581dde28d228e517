"""Chroma, through its REST API."""

from typing import Any

from backends.filters import Comparison
from service.arms.embedding import Embedder, VectorConfig
from service.arms.filtering import numbers_only, translated, value_of
from service.arms.pointers import Pointer, at, found_at
from service.arms.types import ArmError, Garbled, RemoteHit, RemoteHits, remote_hit
from service.arms.web import HeaderName, RemoteName, WebConfig, WebKind

_LISTS = ("ids", "documents", "metadatas", "distances")


class ChromaConfig(WebConfig, VectorConfig):
    """A collection of a Chroma server, whose address is `url`.

    Attributes:
        remote_collection: Its name there.
        tenant: The tenant it belongs to.
        database: The tenant's database.
        title: Where the title is in a passage's metadata; empty for none.
    """

    remote_collection: RemoteName
    tenant: RemoteName = "default_tenant"
    database: RemoteName = "default_database"
    title: Pointer = ""
    key_header: HeaderName = "X-Chroma-Token"


class ChromaKind(WebKind[ChromaConfig]):
    """Asks for the nearest documents."""

    Config = ChromaConfig

    def __init__(self, config: ChromaConfig) -> None:
        super().__init__(config)
        self.embedder = self._vectors = Embedder(config)
        self._id = ""

    def translate(self, filter_: object) -> dict[str, Any]:
        """Translate a filter; only orders of texts cannot be expressed."""

        def compare(part: Comparison) -> dict[str, Any]:
            numbers_only(part)
            return {part.key: {f"${part.type}": value_of(part)}}

        def combine(kind: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
            return {f"${kind}": parts} if len(parts) > 1 else parts[0]

        return translated(filter_, compare, combine)

    async def search(self, question: str, k: int, filter_: object | None) -> RemoteHits:
        """Find at most k documents, nearest first."""
        own = self.config
        base = f"/api/v2/tenants/{own.tenant}/databases/{own.database}/collections"
        body: dict[str, Any] = {
            "query_embeddings": [await self._vectors.vector(question)],
            "n_results": k,
            "include": list(_LISTS[1:]),
        }
        if filter_ is not None:
            body["where"] = self.translate(filter_)
        if not self._id:
            found = at(await self._web.ask(f"{base}/{own.remote_collection}", method="GET"), "/id")
            if not isinstance(found, str):
                raise Garbled("the collection has no id")
            self._id = found
        try:
            reply = await self._web.ask(f"{base}/{self._id}/query", body)
        except ArmError:
            self._id = ""  # a collection that was made anew has another id
            raise
        lists = [at(reply, f"/{name}/0") for name in _LISTS]
        columns = [one for one in lists if isinstance(one, list)]
        if len(columns) < len(_LISTS) or len({*map(len, columns)}) > 1:
            raise Garbled("its lists differ in length")
        return RemoteHits(tuple(self._hit(*row) for row in zip(*columns, strict=True)))

    def _hit(self, id_: object, text: object, metadata: object, distance: object) -> RemoteHit:
        title = found_at(metadata, self.config.title)
        score = -distance if isinstance(distance, int | float) else distance
        return remote_hit(id_, text, title, score, metadata)
