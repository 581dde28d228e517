"""Server-sent events."""

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

from pydantic import BaseModel
from starlette.responses import StreamingResponse

# Proxies that collect a reply before they pass it on would undo the streaming.
_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}


def event(data: BaseModel | Mapping[str, Any] | str, name: str = "") -> str:
    """One event, its data as JSON on one line; a string stands as it is."""
    if isinstance(data, BaseModel):
        text = data.model_dump_json()
    else:
        text = data if isinstance(data, str) else json.dumps(data)
    return f"event: {name}\ndata: {text}\n\n" if name else f"data: {text}\n\n"


def reply(events: AsyncIterator[str], headers: Mapping[str, str]) -> StreamingResponse:
    """A reply that sends events as they come; when the client goes away, they stop."""
    return StreamingResponse(
        events, media_type="text/event-stream", headers={**headers, **_HEADERS}
    )
