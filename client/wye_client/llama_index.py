"""A retriever for LlamaIndex; needs the extra `llama-index`."""

import asyncio
from typing import Any, Unpack

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.vector_stores import FilterCondition, MetadataFilter, MetadataFilters

from wye_client import COMPARISONS
from wye_client.client import Client, Hits, SearchOptions


class WyeRetriever(BaseRetriever):
    """Finds passages with a Wye server.

    A node's score is its relevance from 0 to 1 if the server knows it, otherwise the server's
    score.
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


def wye_filter(filters: MetadataFilters) -> dict[str, Any]:
    """Translate LlamaIndex's filters to Wye's.

    Raises:
        ValueError: Wye has no such filter; to leave it out would return more than was asked for.
    """
    if filters.condition not in (FilterCondition.AND, FilterCondition.OR, None):
        raise ValueError(f"Wye has no filter '{filters.condition.value}'; use != or nin.")
    parts = [
        wye_filter(part) if isinstance(part, MetadataFilters) else _comparison(part)
        for part in filters.filters
    ]
    joined = FilterCondition.AND if filters.condition is None else filters.condition
    return parts[0] if len(parts) == 1 else {"type": joined.value, "filters": parts}


def _comparison(part: MetadataFilter) -> dict[str, Any]:
    name = part.operator.value
    if name not in COMPARISONS:
        raise ValueError(
            f"Wye has no filter '{name}' (of '{part.key}'); it has {', '.join(COMPARISONS)}."
        )
    return {"type": COMPARISONS[name], "key": part.key, "value": part.value}


def _nodes(hits: Hits) -> list[NodeWithScore]:
    return [
        NodeWithScore(
            node=TextNode(
                id_=passage.id,
                text=passage.text,
                metadata={
                    **passage.metadata,
                    "title": passage.title,
                    "document": passage.document,
                    "wye_route": hits.route,
                },
                excluded_embed_metadata_keys=["wye_route"],
                excluded_llm_metadata_keys=["wye_route"],
            ),
            score=passage.score if passage.relevance is None else passage.relevance,
        )
        for passage in hits.passages
    ]
