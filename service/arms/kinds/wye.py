"""Another Wye server."""

from collections.abc import Mapping
from typing import Any

from pydantic import field_validator, model_validator

from router.types import Route
from service.arms.pointers import MISSING, at, list_at
from service.arms.types import RemoteHits, remote_hit
from service.arms.web import WebConfig, WebKind
from service.schemas.common import MOST_PASSAGES

_PARTS = ("id", "text", "title", "score", "metadata")
# Scores of other routes are cosines, or sums on their scale.
_SCORES: Mapping[str, str] = {Route.GRAPH: "mass", Route.LEXICAL: "bm25", Route.AUTO: "rank"}


class WyeConfig(WebConfig):
    """Another Wye; `url` is its address, without /v1.

    Attributes:
        route: The route to take there; it also sets `scores`, unless the file does.
        remote_collection: The collection to search there; by default its first.
    """

    route: str = "graph"
    remote_collection: str = ""

    @model_validator(mode="before")
    @classmethod
    def _know_its_scores(cls, values: Any) -> Any:  # noqa: ANN401 - not validated yet
        """Set `scores` by the route; for `auto`, which takes several routes, only ranks count."""
        if isinstance(values, dict) and "scores" not in values:
            route = str(values.get("route", Route.GRAPH))
            known = _SCORES.get(route, "cosine")
            return {**values, "scores": known}
        return values

    @field_validator("route")
    @classmethod
    def _is_a_route(cls, route: str) -> str:
        if route not in tuple(Route):
            raise ValueError(f"use one of {', '.join(Route)}")
        return route


class WyeKind(WebKind[WyeConfig]):
    """Asks `/v1/retrieve`; its filters are ours."""

    Config = WyeConfig

    def translate(self, filter_: object) -> object:
        """Pass a filter on; every one is understood."""
        return filter_

    async def search(self, question: str, k: int, filter_: object | None) -> RemoteHits:
        """Find at most k passages, best first."""
        own = self.config
        body = {
            "question": question,
            "route": own.route,
            "k": min(k, MOST_PASSAGES),
            "deadline_ms": own.timeout_ms,
        }
        if filter_ is not None:
            body["filter"] = filter_
        if own.remote_collection:
            body["collection"] = own.remote_collection
        reply = await self._web.ask("/v1/retrieve", body)
        passages = list_at(reply, "/passages")[:k]
        degraded = at(reply, "/degraded") not in ("", MISSING)
        return RemoteHits(
            tuple(remote_hit(*(at(one, f"/{part}") for part in _PARTS)) for one in passages),
            "its own answer is degraded" if degraded else "",
        )
