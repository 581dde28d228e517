"""A retriever for LlamaIndex; needs the extra `llama-index`."""

import asyncio
from typing import Any, Unpack

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.vector_stores import FilterCondition, MetadataFilters

from wye_client import comparison
from wye_client.client import Client, SearchOptions, SearchReply


class WyeLlamaIndexRetriever(BaseRetriever):
    """Finds passages with a Wye server.

    A node's score is its relevance, or the server's score where that is unknown.
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        filters: MetadataFilters | None = None,
        timeout: float = 30.0,
        **options: Unpack[SearchOptions],
    ) -> None:
        """Ask the server at `url`.

        Args:
            key: An API key; by default WYE_KEY of the environment.
            filters: Filters on metadata.
            timeout: Longest silence, in seconds.
            options: Further options of the search.

        Raises:
            ValueError: Wye has no such filter.
        """
        self._options = options
        if filters is not None:
            self._options["filter"] = wye_filter(filters)
        self._client = Client(url, key, timeout=timeout)
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return _nodes(self._client.search(query_bundle.query_str, **self._options))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)


WyeRetriever = WyeLlamaIndexRetriever  # its former name


def wye_filter(filters: MetadataFilters) -> dict[str, Any]:
    """Translate LlamaIndex's filters to Wye's; a ValueError says which it lacks."""
    if filters.condition not in (FilterCondition.AND, FilterCondition.OR, None):
        raise ValueError(f"Wye has no filter '{filters.condition.value}'; use != or nin.")
    parts = [
        wye_filter(part)
        if isinstance(part, MetadataFilters)
        else comparison(part.operator.value, part.key, part.value)
        for part in filters.filters
    ]
    joined = FilterCondition.AND if filters.condition is None else filters.condition
    return parts[0] if len(parts) == 1 else {"type": joined.value, "filters": parts}


def _nodes(reply: SearchReply) -> list[NodeWithScore]:
    return [
        NodeWithScore(
            node=TextNode(
                id_=passage.id,
                text=passage.text,
                metadata=passage.labels(wye_route=reply.route),
                excluded_embed_metadata_keys=["wye_route"],
                excluded_llm_metadata_keys=["wye_route"],
            ),
            score=passage.best_score,
        )
        for passage in reply.passages
    ]
