"""Any search over HTTP: a template makes the request, and JSON pointers read the reply."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from wye.backends.errors import FilterError
from wye.service.arms.pointers import MISSING, HitConfig, Pointer, fill, names_in, value_at
from wye.service.arms.types import Encode, Kind, RemoteHits
from wye.service.arms.web import Embedder, VectorConfig, WebClient, WebConfig

QUESTION, VECTOR, K, FILTER = "{question}", "{vector}", "{k}", "{filter}"


class HttpConfig(WebConfig, HitConfig, VectorConfig):
    """A search over HTTP.

    Attributes:
        method: "POST" sends the template as JSON, "GET" as parameters.
        request: Template, with "{question}", "{vector}", "{k}" and "{filter}" as placeholders.
        tokens: Where the reply has the number of tokens used.
        price_per_token: Price of a token, instead of the price of a call.
    """

    method: Literal["POST", "GET"] = "POST"
    request: dict[str, Any]
    tokens: Pointer = ""
    price_per_token: Annotated[float, Field(ge=0)] = 0.0

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if bool(self.price_per_token) != bool(self.tokens):
            raise ValueError(
                "price_per_token: set it together with tokens, the pointer to their number"
            )
        if self.price_per_token and not self.price:
            raise ValueError("price: with price_per_token, write the most that a call may cost")
        names = names_in(self.request)
        if names.isdisjoint((QUESTION, VECTOR)):
            raise ValueError('request: put "{question}" or "{vector}" where the question goes')
        if self.embeddings and VECTOR not in names:
            raise ValueError('embeddings: put "{vector}" into request, or leave them out')
        if self.method == "GET" and not all(
            isinstance(value, str | int | float) for value in self.request.values()
        ):
            raise ValueError("request: parameters are single values; use method = POST for more")
        if self.method == "GET" and not names.isdisjoint((FILTER, VECTOR)):
            raise ValueError(
                'request: "{filter}" and "{vector}" are no single values; use method = POST'
            )
        if FILTER in names and not self.metadata:
            raise ValueError(
                'metadata: say where it is, since request has "{filter}" and what comes back is '
                "held against it"
            )
        return self


class HttpKind(Kind[HttpConfig]):
    """Fills in the template, and reads the reply by pointers."""

    Config = HttpConfig

    def __init__(self, config: HttpConfig) -> None:
        super().__init__(config)
        self._web = WebClient(config)
        self._names = names_in(config.request)
        self._vectors = Embedder(config)

    def translate(self, filter_: object) -> object:
        """Pass a filter on, if the template has `{filter}`."""
        if FILTER not in self._names:
            raise FilterError('its request has no place for a filter ("{filter}")')
        return filter_

    def use(self, encode: Encode) -> None:
        """Set the collection's encoder, for vectors that no endpoint of the arm's own makes."""
        self._vectors.encode = encode

    async def search(self, question: str, k: int, filter_: object | None) -> RemoteHits:
        """Find at most k hits, in the reply's order."""
        config = self.config
        values: dict[str, object] = {QUESTION: question, K: k}
        values[FILTER] = MISSING if filter_ is None else filter_
        if VECTOR in self._names:
            values[VECTOR] = await self._vectors.vector(question)
        request: Any = fill(config.request, values)
        if config.method == "GET":
            reply = await self._web.ask(method="GET", query=request)
        else:
            reply = await self._web.ask(body=request)
        return RemoteHits(config.read(reply, k), cost=self._cost(reply))

    async def close(self) -> None:
        """Close its connections."""
        await self._vectors.close()
        await self._web.close()

    def _cost(self, reply: object) -> float | None:
        """Cost of a reply by its tokens; None if it does not count them."""
        tokens = value_at(reply, self.config.tokens)
        if isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 0:
            return None
        return tokens * self.config.price_per_token
