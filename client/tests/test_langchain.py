"""As LangChain's own tests ask."""

import pytest
from langchain_core.retrievers import BaseRetriever
from langchain_tests.integration_tests import RetrieversIntegrationTests
from wye_client import WyeError
from wye_client.langchain import WyeLangChainRetriever


class TestWyeLangChainRetriever(RetrieversIntegrationTests):
    @pytest.fixture(autouse=True)
    def _server(self, url: str) -> None:
        self.url = url

    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return WyeLangChainRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, object]:
        return {"url": self.url}

    @property
    def retriever_query_example(self) -> str:
        return "Who designed the Iron Bridge?"


def test_documents_say_how_they_were_found(url: str) -> None:
    retriever = WyeLangChainRetriever(url=url, k=2, options={"route": "dense"})
    (first, second) = retriever.invoke("Who designed the Iron Bridge?")
    assert first.metadata["wye"]["route"] == "dense"
    assert first.metadata["wye"]["rank"] == 1
    assert 0 <= second.metadata["wye"]["relevance"] <= first.metadata["wye"]["relevance"] <= 1
    (other,) = retriever.invoke("Who designed the Iron Bridge?", k=1, route="lexical")
    assert other.metadata["wye"]["route"] == "lexical"
    old = {"type": "lt", "key": "year", "value": 1800}
    documents = WyeLangChainRetriever(url=url, k=50, options={"filter": old}).invoke("bridge")
    assert documents
    assert all(document.metadata["year"] < 1800 for document in documents)


async def test_it_can_be_awaited(url: str) -> None:
    (first,) = await WyeLangChainRetriever(url=url, k=1).ainvoke("Who designed the Iron Bridge?")
    assert first.id


def test_what_the_server_refuses_is_said(url: str) -> None:
    with pytest.raises(WyeError, match="no collection 'nope'"):
        WyeLangChainRetriever(url=url, options={"collection": "nope"}).invoke("bridge")


def test_a_key_is_not_shown() -> None:
    assert "wye_secret" not in repr(
        WyeLangChainRetriever(url="http://127.0.0.1:1", key="wye_secret")
    )
