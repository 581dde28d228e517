"""OpenSearch and Elasticsearch: lexical search with BM25."""

from typing import Annotated, Any

from pydantic import Field

from backends.filters import Comparison
from service.arms.documents import DocumentConfig
from service.arms.filtering import translated
from service.arms.pointers import at, list_at
from service.arms.types import RemoteHits
from service.arms.web import RemoteName, WebKind


class OpenSearchConfig(DocumentConfig):
    """An index of OpenSearch or Elasticsearch, whose address is `url`.

    Attributes:
        index: Its name there.
        fields: Fields to search, such as "title^2".
        keyword: Suffix of the fields that hold unanalysed texts, such as ".keyword".
    """

    index: RemoteName
    fields: Annotated[list[str], Field(min_length=1)]
    keyword: str = ""


class OpenSearchKind(WebKind[OpenSearchConfig]):
    """Asks `_search` for the best matches."""

    Config = OpenSearchConfig

    async def search(self, question: str, k: int, filter_: object | None) -> RemoteHits:
        """Find at most k documents, best first."""
        own = self.config
        match = {"multi_match": {"query": question, "fields": own.fields}}
        query: dict[str, Any] = {"bool": {"must": [match]}}
        if filter_ is not None:
            query["bool"]["filter"] = [self.translate(filter_)]
        reply = await self._web.ask(f"/{own.index}/_search", {"size": k, "query": query})
        late = at(reply, "/timed_out") is True
        found = tuple(
            own.hit(at(hit, "/_id"), at(hit, "/_source"), at(hit, "/_score"))
            for hit in list_at(reply, "/hits/hits")[:k]
        )
        return RemoteHits(found, "it ran out of its own time" if late else "")

    def translate(self, filter_: object) -> dict[str, Any]:
        """Translate a filter; every one can be expressed."""

        def compare(part: Comparison) -> dict[str, Any]:
            is_text = any(isinstance(value, str) for value in part.values)
            key = self.config.field(part.key) + (self.config.keyword if is_text else "")
            if part.type in ("gt", "gte", "lt", "lte"):
                return {"range": {key: {part.type: part.values[0]}}}
            same = {"terms": {key: list(part.values)}}
            return {"bool": {"must_not": [same]}} if part.type in ("ne", "nin") else same

        def combine(kind: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
            if kind == "and":
                return {"bool": {"filter": parts}}
            return {"bool": {"should": parts, "minimum_should_match": 1}}

        return translated(filter_, compare, combine)
