"""A question to a running `wye serve`, for who would otherwise load the models for one answer."""

import json
import os
from collections.abc import Mapping, Sequence
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from router.settings import KEY
from service.errors import ServiceError

_TIMEOUT = 120.0
_EXCERPT = 240
_INDENT = 14

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
        line = Text(f"{passage['rank']:>3}  ")
        line.append(f"{passage['score']:.4f}   ", style="cyan")
        line.append(passage["title"] or passage["id"], style="bold")
        line.append(f"  {passage['id']}", style="dim")
        if passage["relevance"] is not None:
            line.append(f"  relevance {passage['relevance']:.2f}", style="dim")
        console.print(line)
        text = " ".join(passage["text"].split())
        excerpt = text if len(text) <= _EXCERPT else text[:_EXCERPT].rsplit(" ", 1)[0] + " ..."
        console.print(Padding(Text(excerpt), (0, 0, 0, _INDENT)))
    if not reply["passages"]:
        console.print(Text("  nothing found", style="yellow"))
    console.print()
