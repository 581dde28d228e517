"""A question to a running `wye serve`, for who would otherwise load the models for one answer."""

import json
import os
from collections.abc import Mapping, Sequence
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from rich.console import Console
from rich.text import Text

from router.settings import KEY
from service.errors import ServiceError
from service.terminal import excerpt, passage_line

_TIMEOUT = 120.0

Reply = dict[str, Any]


def retrieve(url: str, questions: Sequence[str], params: Mapping[str, object]) -> list[Reply]:
    """The server's replies, as `/v1/retrieve` gives them.

    Args:
        params: Fields of the request beside the question.

    Raises:
        ServiceError: No server answers there, or it refuses; says why.
    """
    return [_post(f"{url.rstrip('/')}/v1/retrieve", {"question": q, **params}) for q in questions]


def _post(url: str, body: Mapping[str, object]) -> Reply:
    headers = {"content-type": "application/json"}
    if key := os.environ.get(KEY):
        headers["authorization"] = f"Bearer {key}"
    try:
        request = Request(url, json.dumps(body).encode(), headers)
        with urlopen(request, timeout=_TIMEOUT) as response:
            found: Reply = json.load(response)
            return found
    except HTTPError as error:
        raise ServiceError(f"{url} answered {error.code}: {_why(error)}") from None
    except (OSError, HTTPException, ValueError) as error:
        raise ServiceError(
            f"No `wye serve` answers at {url} ({error}). Start it, or give --index DIR."
        ) from None


def _why(error: HTTPError) -> str:
    try:
        return str(json.load(error)["detail"])
    except (OSError, HTTPException, ValueError, KeyError, TypeError):
        return str(error.reason)


def show(console: Console, reply: Reply) -> None:
    """Print a reply for people."""
    route = reply["route"]
    facts = f"{route['path']}, {reply['timings_ms']['total']:.1f} ms"
    console.print(Text(reply["question"], style="bold"), Text(facts, style="dim"))
    for note in (reply["degraded"], route["summary"]):
        if note:
            console.print(Text(f"  {note}"))
    for passage in reply["passages"]:
        shown = (passage[name] for name in ("rank", "score", "title", "id", "relevance"))
        console.print(passage_line(*shown))
        console.print(excerpt(passage["text"]))
    if not reply["passages"]:
        console.print(Text("  nothing found", style="yellow"))
    console.print()
