"""Another Wye."""

from collections.abc import Mapping
from typing import Any

from pydantic import field_validator, model_validator

from router.types import Route
from service.arms.pointers import MISSING, at
from service.arms.types import Garbled, Kind, RemoteHits, remote_hit
from service.arms.web import WebClient, WebConfig
from service.schemas.common import MOST_PASSAGES

# Those of other routes are cosines, or sums on their scale.
_SCORES: Mapping[str, str] = {Route.GRAPH: "mass", Route.LEXICAL: "bm25", Route.AUTO: "rank"}


class WyeConfig(WebConfig):
    """Another Wye; `url` is where it answers, without /v1.

    Attributes:
        route: To take there; `scores` go by it unless the file says otherwise.
        remote_collection: To search there; its first without it.
    """

    route: str = "graph"
    remote_collection: str = ""

    @model_validator(mode="before")
    @classmethod
    def _know_its_scores(cls, values: Any) -> Any:  # noqa: ANN401 - not validated yet
        """Those of a Wye are known by its route; of `auto`, which takes several, the order is."""
        if isinstance(values, dict) and "scores" not in values:
            route = str(values.get("route", Route.GRAPH))
            known = _SCORES.get(route, "cosine")
            return {**values, "scores": known}
        return values

    @field_validator("route")
    @classmethod
    def _is_a_route(cls, route: str) -> str:
        if route not in tuple(Route):
            raise ValueError(f"take one of {', '.join(Route)}")
        return route


class WyeKind(Kind[WyeConfig]):
    """Asks `/v1/retrieve`; its filters are ours."""

    Config = WyeConfig

    def __init__(self, config: WyeConfig) -> None:
        super().__init__(config)
        self._web = WebClient(config)

    def check_filter(self, filter_: object) -> None:
        """Every filter can be passed on."""

    async def search(self, question: str, k: int, filter_: object | None) -> RemoteHits:
        """At most k passages."""
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
        passages = at(reply, "/passages")
        if not isinstance(passages, list):
            raise Garbled("there are no passages")
        degraded = at(reply, "/degraded") not in ("", MISSING)
        return RemoteHits(
            tuple(remote_hit(*(at(one, f"/{part}") for part in _PARTS)) for one in passages[:k]),
            "its own answer is degraded" if degraded else "",
        )

    async def close(self) -> None:
        """Close its connections."""
        await self._web.close()


_PARTS = ("id", "text", "title", "score", "metadata")
