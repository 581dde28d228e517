"""A retriever for Haystack; needs the extra `haystack`."""

from collections.abc import Mapping
from typing import Any, Self

from haystack import Document, component, default_from_dict, default_to_dict
from haystack.utils import Secret, deserialize_secrets_inplace

from wye_client import comparison
from wye_client.client import Client, SearchOptions, SearchReply


@component
class WyeHaystackRetriever:
    """Finds passages with a Wye server.

    A document's score is its relevance, or the server's score where that is unknown.
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
            key: An API key; by default WYE_KEY of the environment.
            top_k: Most passages to return.
            filters: Filters on metadata, in Haystack's form.
            options: Further options of the search.
            timeout: Longest silence, in seconds.
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
        """Find passages for a question; `filters` and `top_k` override those of the component.

        Raises:
            ValueError: Wye has no such filter.
        """
        with Client(self.url, self._secret, timeout=self.timeout) as client:
            return _documents(client.search(query, **self._search_options(filters, top_k)))

    def to_dict(self) -> dict[str, Any]:
        """Serialise the component; a key only as the name of its variable."""
        values: dict[str, Any] = default_to_dict(
            self,
            url=self.url,
            key=None if self.key is None else self.key.to_dict(),
            top_k=self.top_k,
            filters=self.filters,
            options=self.options,
            timeout=self.timeout,
        )
        return values

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Make a component of what `to_dict` returned."""
        deserialize_secrets_inplace(data["init_parameters"], keys=["key"])
        retriever: Self = default_from_dict(cls, {**data, "type": _TYPE})
        return retriever

    @property
    def _secret(self) -> str | None:
        return None if self.key is None else self.key.resolve_value()

    def _search_options(self, filters: dict[str, Any] | None, top_k: int | None) -> SearchOptions:
        options: SearchOptions = {"k": self.top_k if top_k is None else top_k, **self.options}
        filters = self.filters if filters is None else filters
        if filters:
            options["filter"] = wye_filter(filters)
        return options


WyeRetriever = WyeHaystackRetriever  # its former name, which stored pipelines have
_TYPE = f"{__name__}.{WyeHaystackRetriever.__name__}"
component.registry[f"{__name__}.WyeRetriever"] = WyeHaystackRetriever


def wye_filter(filters: Mapping[str, Any]) -> dict[str, Any]:
    """Translate Haystack's filters to Wye's; a ValueError says which it lacks."""
    name = filters.get("operator")
    if name in ("AND", "OR"):
        parts = [wye_filter(part) for part in filters["conditions"]]
        return {"type": name.lower(), "filters": parts}
    field = str(filters.get("field", "")).removeprefix("meta.")
    return comparison(name, field, filters.get("value"))


def _documents(reply: SearchReply) -> dict[str, list[Document]]:
    documents = [
        Document(
            id=passage.id,
            content=passage.text,
            meta=passage.labels(wye_route=reply.route),
            score=passage.best_score,
        )
        for passage in reply.passages
    ]
    return {"documents": documents}
