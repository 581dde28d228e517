"""OpenSearch and Elasticsearch: words by BM25."""

from typing import Annotated, Any

from pydantic import Field

from backends.filters import Comparison
from service.arms.documents import DocumentConfig
from service.arms.filtering import translated
from service.arms.pointers import at
from service.arms.types import Garbled, Kind, RemoteHits
from service.arms.web import WebClient


class OpenSearchConfig(DocumentConfig):
    """An index of OpenSearch or Elasticsearch; `url` is where it answers.

    Attributes:
        index: Its name there.
        fields: That are searched, as in "title^2".
        keyword: What the names of fields end with that hold texts unchanged, such as ".keyword".
    """

    index: Annotated[str, Field(pattern=r"^[\w.-]+$")]
    fields: Annotated[list[str], Field(min_length=1)]
    keyword: str = ""


class OpenSearchKind(Kind[OpenSearchConfig]):
    """Asks `_search` for what matches best."""

    Config = OpenSearchConfig

    def __init__(self, config: OpenSearchConfig) -> None:
        super().__init__(config)
        self._web = WebClient(config)

    def check_filter(self, filter_: object) -> None:
        """Every filter can be said."""

    async def search(self, question: str, k: int, filter_: object | None) -> RemoteHits:
        """At most k documents."""
        own = self.config
        match = {"multi_match": {"query": question, "fields": own.fields}}
        query: dict[str, Any] = {"bool": {"must": [match]}}
        if filter_ is not None:
            query["bool"]["filter"] = [self._filter(filter_)]
        reply = await self._web.ask(f"/{own.index}/_search", {"size": k, "query": query})
        hits = at(reply, "/hits/hits")
        if not isinstance(hits, list):
            raise Garbled("there is no list at /hits/hits")
        late = at(reply, "/timed_out") is True
        found = tuple(
            own.hit(at(hit, "/_id"), at(hit, "/_source"), at(hit, "/_score")) for hit in hits[:k]
        )
        return RemoteHits(found, "it ran out of its own time" if late else "")

    async def close(self) -> None:
        """Close its connections."""
        await self._web.close()

    def _filter(self, filter_: object) -> dict[str, Any]:
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
