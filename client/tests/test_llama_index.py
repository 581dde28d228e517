"""As an engine of LlamaIndex asks."""

import pytest
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.vector_stores import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
)
from wye_client.llama_index import WyeLlamaIndexRetriever, wye_filter


def test_nodes_have_relevance_for_a_score(url: str) -> None:
    retriever = WyeLlamaIndexRetriever(url, k=3)
    assert isinstance(retriever, BaseRetriever)
    nodes = retriever.retrieve("Who designed the Iron Bridge?")
    assert len(nodes) == 3
    assert "Iron Bridge" in nodes[0].node.get_content()
    assert 1 >= nodes[0].score >= nodes[-1].score >= 0


async def test_it_can_be_awaited(url: str) -> None:
    assert (
        len(await WyeLlamaIndexRetriever(url, k=2).aretrieve("Who designed the Iron Bridge?")) == 2
    )


def test_filters_hold(url: str) -> None:
    filters = MetadataFilters(
        filters=[
            MetadataFilter(key="year", operator=FilterOperator.LT, value=1900),
            MetadataFilter(key="topic", value="bridges"),
        ]
    )
    nodes = WyeLlamaIndexRetriever(url, k=50, filters=filters).retrieve("bridge")
    assert nodes
    assert all(node.metadata["year"] < 1900 for node in nodes)
    assert all(node.metadata["topic"] == "bridges" for node in nodes)


def test_a_filter_without_an_equal_is_refused() -> None:
    for part in (
        MetadataFilter(key="tags", operator=FilterOperator.CONTAINS, value="x"),
        MetadataFilters(filters=[MetadataFilter(key="a", value=1)], condition=FilterCondition.NOT),
    ):
        filters = part if isinstance(part, MetadataFilters) else MetadataFilters(filters=[part])
        with pytest.raises(ValueError, match="Wye has no filter"):
            wye_filter(filters)
