"""A retriever for Haystack; needs the extra `haystack`."""

from collections.abc import Mapping
from typing import Any, Self

from haystack import Document, component, default_from_dict, default_to_dict
from haystack.utils import Secret, deserialize_secrets_inplace

from wye_client.client import COMPARISONS, AsyncClient, Client, Hits, SearchOptions


@component
class WyeRetriever:
    """Finds passages with a server of Wye.

    A document's score is its relevance from 0 to 1, where the server knows it, else its score.
    """

    def __init__(
        self,
        url: str,
        key: Secret | None = None,
        *,
        top_k: int = 5,
        filters: dict[str, Any] | None = None,
        options: SearchOptions | None = None,
        timeout: float = 30.0,
    ) -> None:
        """Ask the server at `url`.

        Args:
            key: An API key; WYE_KEY of the environment without it.
            top_k: Passages wanted.
            filters: By metadata, as Haystack writes them.
            options: How to search.
            timeout: Longest silence in seconds.
        """
        self.url = url
        self.key = key
        self.top_k = top_k
        self.filters = filters
        self.options: SearchOptions = options or {}
        self.timeout = timeout

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """Passages for a question; `filters` and `top_k` in place of those it was made with.

        Raises:
            ValueError: A filter that the server cannot hold to.
        """
        with Client(self.url, self._secret, timeout=self.timeout) as client:
            return _documents(client.search(query, **self._wanted(filters, top_k)))

    @component.output_types(documents=list[Document])
    async def run_async(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """The same, to be awaited."""
        async with AsyncClient(self.url, self._secret, timeout=self.timeout) as client:
            return _documents(await client.search(query, **self._wanted(filters, top_k)))

    def to_dict(self) -> dict[str, Any]:
        """As a pipeline is stored; a key only as the name of a variable."""
        made: dict[str, Any] = default_to_dict(
            self,
            url=self.url,
            key=None if self.key is None else self.key.to_dict(),
            top_k=self.top_k,
            filters=self.filters,
            options=self.options,
            timeout=self.timeout,
        )
        return made

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """What `to_dict` gave."""
        deserialize_secrets_inplace(data["init_parameters"], keys=["key"])
        made: Self = default_from_dict(cls, data)
        return made

    @property
    def _secret(self) -> str | None:
        return None if self.key is None else self.key.resolve_value()

    def _wanted(self, filters: dict[str, Any] | None, top_k: int | None) -> SearchOptions:
        wanted: SearchOptions = {"k": self.top_k if top_k is None else top_k, **self.options}
        given = self.filters if filters is None else filters
        if given:
            wanted["filter"] = wye_filter(given)
        return wanted


def wye_filter(filters: Mapping[str, Any]) -> dict[str, Any]:
    """Haystack's filters as Wye's.

    Raises:
        ValueError: One that has no equal; it is not left out, which would let more through.
    """
    name = filters.get("operator")
    if name in ("AND", "OR"):
        parts = [wye_filter(part) for part in filters["conditions"]]
        return {"type": name.lower(), "filters": parts}
    if name not in COMPARISONS:
        raise ValueError(f"Wye has no filter '{name}'; it has AND, OR, {', '.join(COMPARISONS)}.")
    key = str(filters["field"]).removeprefix("meta.")
    return {"type": COMPARISONS[name], "key": key, "value": filters["value"]}


def _documents(found: Hits) -> dict[str, list[Document]]:
    documents = [
        Document(
            id=passage.id,
            content=passage.text,
            meta={
                **passage.metadata,
                "title": passage.title,
                "document": passage.document,
                "wye_route": found.route,
            },
            score=passage.score if passage.relevance is None else passage.relevance,
        )
        for passage in found.passages
    ]
    return {"documents": documents}
