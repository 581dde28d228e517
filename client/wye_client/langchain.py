"""A retriever for LangChain; needs the extra `langchain`."""

from functools import cached_property
from typing import Any, cast

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict, Field, SecretStr

from wye_client.client import Client, SearchOptions, SearchReply


class WyeLangChainRetriever(BaseRetriever):
    """Finds passages with a Wye server.

    Each document carries its metadata and, under `wye`, its score, relevance and rank, the route
    and the answerability.

    Attributes:
        url: Address of the server.
        key: An API key; by default WYE_KEY of the environment.
        k: Most passages to return.
        options: Further options, as in `SearchOptions`; `invoke` takes them for one question too.
        timeout: Longest silence, in seconds.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    url: str
    key: SecretStr | None = Field(default=None, repr=False)
    k: int = 5
    options: dict[str, Any] = Field(default_factory=dict)
    timeout: float = 30.0

    @cached_property
    def _client(self) -> Client:
        key = None if self.key is None else self.key.get_secret_value()
        return Client(self.url, key, timeout=self.timeout)

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,  # noqa: ARG002 - as LangChain calls it
        **options: Any,  # noqa: ANN401
    ) -> list[Document]:
        wanted = cast("SearchOptions", {"k": self.k, **self.options, **options})
        return _documents(self._client.search(query, **wanted))


WyeRetriever = WyeLangChainRetriever  # its former name


def _documents(reply: SearchReply) -> list[Document]:
    return [
        Document(
            id=passage.id,
            page_content=passage.text,
            metadata=passage.labels(
                wye={
                    "rank": passage.rank,
                    "score": passage.score,
                    "relevance": passage.relevance,
                    "route": reply.route,
                    "answerability": reply.answerability,
                    "degraded": reply.degraded,
                }
            ),
        )
        for passage in reply.passages
    ]
