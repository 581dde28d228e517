"""Encodes questions for arms that compare vectors."""

from collections.abc import Awaitable, Callable, Sequence

from pydantic import BaseModel, ConfigDict

from wye.service.arms.pointers import at
from wye.service.arms.types import ArmConfig, ArmError, Garbled
from wye.service.arms.web import Address, WebClient, WebConfig

Encode = Callable[[str], Awaitable[Sequence[float]]]
"""Encodes a question with the collection's encoder."""


class EmbeddingsConfig(BaseModel):
    """An endpoint for embeddings in OpenAI's protocol.

    Attributes:
        url: Its address, including /v1.
        model: Name of the model there.
        key_env: Name of the environment variable that holds its API key.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    url: Address
    model: str
    key_env: str = ""


class VectorConfig(ArmConfig):
    """An arm that compares vectors.

    Attributes:
        embeddings: The endpoint that made its vectors; without one, the collection's own encoder.
    """

    embeddings: EmbeddingsConfig | None = None


class Embedder:
    """Encodes questions the way an arm's vectors were made."""

    def __init__(self, config: VectorConfig) -> None:
        """Prepare a client for the endpoint, if one is named; it connects on first use.

        Raises:
            ServiceError: The variable with the key is not set.
        """
        self.encode: Encode | None = None
        self._config = given = config.embeddings
        self._web: WebClient | None = None
        if given is not None:
            values = config.model_dump(include={"role", "kind", "timeout_ms", "max_concurrency"})
            self._web = WebClient(WebConfig(**values, url=given.url, key_env=given.key_env))

    async def vector(self, question: str) -> list[float]:
        """Encode a question; an `ArmError` if the endpoint gives no vector or no encoder is set."""
        if self._web is None or self._config is None:
            if self.encode is None:
                raise ArmError("has no encoder", charged=False)
            return list(map(float, await self.encode(question)))
        body = {"model": self._config.model, "input": question, "encoding_format": "float"}
        try:
            found = at(await self._web.ask("/embeddings", body), "/data/0/embedding")
        except ArmError as error:
            raise ArmError(
                f"has no vector of the question: the embeddings endpoint {error}",
                outcome=error.outcome,
                retry=error.retry,
                charged=False,
                fault=error.fault,
                wait=error.wait,
            ) from None
        if not isinstance(found, list) or not all(isinstance(one, int | float) for one in found):
            raise Garbled("there is no vector of the question")
        return [float(one) for one in found]

    async def close(self) -> None:
        """Close its connections."""
        if self._web is not None:
            await self._web.close()
