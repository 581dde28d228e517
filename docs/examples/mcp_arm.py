"""A search tool of an MCP server as a remote arm.

    [arms.tool]
    kind = "python"
    role = "list"
    target = "mcp_arm:Tool"

Put this table into `wye.toml`, copy this file and change the names of the tool, its argument and
the parts of its reply. Start `wye serve` with the file's folder in PYTHONPATH and the server's
endpoint, such as http://HOST/mcp, in TOOL_URL; TOOL_KEY is its key, if it has one.
"""

import asyncio
import json
import os

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

TOOL, ARGUMENT, RESULTS = "search", "query", "results"


class Tool:
    """Calls the tool, in a session for each question."""

    async def search(self, question: str, k: int) -> list[dict[str, object]]:
        """At most k results, in the tool's order; each has `id`, `text` and perhaps `title`."""
        key = os.environ.get("TOOL_KEY")
        headers = {"authorization": f"Bearer {key}"} if key else {}
        async with httpx2.AsyncClient(headers=headers, trust_env=False) as http:
            transport = streamable_http_client(os.environ["TOOL_URL"], http_client=http)
            async with Client(transport) as client:
                reply = await client.call_tool(TOOL, {ARGUMENT: question})
        if reply.is_error:
            raise RuntimeError(f"the tool {TOOL} failed")
        content = reply.structured_content
        if content is None:
            texts = [part.text for part in reply.content if part.type == "text"]
            content = json.loads("".join(texts))
        results: list[dict[str, object]] = content[RESULTS]
        return results[:k]


if __name__ == "__main__":
    print(asyncio.run(Tool().search(input("Question: "), 5)))
