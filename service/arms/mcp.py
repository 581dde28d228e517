"""A search tool of any server for the Model Context Protocol over HTTP."""

from collections.abc import Sequence
from typing import Any, Self

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from pydantic import Field, model_validator

from wye.service.arms.http import QUESTION, K, WebConfig, headers_of
from wye.service.arms.kind import (
    ArmError,
    HitConfig,
    Kind,
    Pointer,
    RemoteHit,
    fill,
    names_in,
    parse_json,
)


class McpConfig(WebConfig, HitConfig):
    """A server of tools; `url` is its endpoint, such as http://HOST/mcp.

    Attributes:
        tool: Name of the tool that searches.
        arguments: Template of its arguments, with "{question}" and "{k}" as placeholders.
    """

    tool: str = "search"
    arguments: dict[str, Any] = Field(default_factory=lambda: {"query": QUESTION})
    hits: Pointer = "/results"
    id: Pointer = "/id"
    text: Pointer = "/text"
    title: Pointer = "/title"

    @model_validator(mode="after")
    def _asks_the_question(self) -> Self:
        if QUESTION not in names_in(self.arguments):
            raise ValueError('arguments: put "{question}" where the question goes')
        return self


class McpKind(Kind[McpConfig]):
    """Calls the tool, in a session for each question."""

    Config = McpConfig

    def __init__(self, config: McpConfig) -> None:
        super().__init__(config)
        self._http = httpx2.AsyncClient(
            headers=headers_of(config),
            timeout=config.timeout_ms / 1000,
            follow_redirects=False,
            trust_env=False,
        )

    async def search(self, question: str, k: int, filter_: object | None) -> Sequence[RemoteHit]:
        """Find at most k hits, in the tool's order."""
        del filter_
        config = self.config
        arguments: Any = fill(config.arguments, {QUESTION: question, K: k})
        try:
            transport = streamable_http_client(config.url, http_client=self._http)
            async with Client(transport) as client:
                result = await client.call_tool(config.tool, arguments)
        except Exception as error:  # noqa: BLE001 - several layers have errors of their own
            raise _failure(error) from None
        if result.is_error:
            raise ArmError("says that its tool failed", fault=False)
        content: object = result.structured_content
        if content is None:
            texts = [item.text for item in result.content if item.type == "text"]
            content = parse_json("".join(texts).encode("utf-8", "replace"))
        return config.read(content, k)

    async def close(self) -> None:
        """Close its connections."""
        await self._http.aclose()


def _failure(error: BaseException) -> ArmError:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout):
        return ArmError("cannot be reached", outcome="unreachable", retry=True, charged=False)
    return ArmError(f"failed ({type(error).__name__})")
