"""LightRAG's server: the chunks that its graph finds, without its answer."""

from typing import Literal

from service.arms.pointers import at, list_at
from service.arms.types import ArmError, RemoteHit, RemoteHits, remote_hit
from service.arms.web import HeaderName, WebConfig, WebKind

_SHORTEST = 3  # least characters of a question that it accepts, without blanks around it


class LightRagConfig(WebConfig):
    """A LightRAG server, whose address is `url`.

    Attributes:
        mode: Mode of its search.
        key_header: Header for its `LIGHTRAG_API_KEY`.
    """

    mode: Literal["local", "global", "hybrid", "naive", "mix"] = "mix"
    key_header: HeaderName = "X-API-Key"


class LightRagKind(WebKind[LightRagConfig]):
    """Asks `/query/data`, which cannot filter."""

    Config = LightRagConfig

    async def search(self, question: str, k: int, filter_: object | None) -> RemoteHits:
        """Find at most k chunks, in its order."""
        del filter_
        query = question.strip().ljust(_SHORTEST, "?")
        body = {"query": query, "mode": self.config.mode, "chunk_top_k": k}
        reply = await self._web.ask("/query/data", body)
        if at(reply, "/status") != "success":
            if at(reply, "/metadata/failure_reason") == "no_results":
                return RemoteHits(())
            raise ArmError("says that it failed")
        chunks = list_at(reply, "/data/chunks")[:k]
        return RemoteHits(tuple(_hit(chunk, rank) for rank, chunk in enumerate(chunks, start=1)))


def _hit(chunk: object, rank: int) -> RemoteHit:
    path = at(chunk, "/file_path")
    named = path if isinstance(path, str) and path != "unknown_source" else ""
    title = named.replace("\\", "/").rpartition("/")[2]
    metadata = {"path": named} if named else {}
    return remote_hit(at(chunk, "/chunk_id"), at(chunk, "/content"), title, 1 / rank, metadata)
