"""Replies for people and for programs."""

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import Enum

import numpy as np
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from backends.types import Hit, Passage
from router.stable import stable_json
from router.types import FusedHit, Reply
from service.render_decision import show_decision
from service.render_explanation import show_explanation

EXCERPT = 240
INDENT = 14


def show_reply(console: Console, reply: Reply, passages: Mapping[str, Passage]) -> None:
    """Print one reply with an excerpt of each passage, and its explanation if it has one.

    Args:
        console: Where to.
        reply: What was found.
        passages: Id -> passage, of every hit.
    """
    console.print(Text(reply.question, style="bold"), _facts(reply))
    if reply.decision is not None:
        show_decision(console, reply.decision)
    for hit in reply.ranking.hits:
        passage = passages.get(hit.id)
        console.print(_line_of(hit, passage))
        if passage:
            console.print(Padding(Text(_excerpt(passage.text)), (0, 0, 0, INDENT)))
    if reply.explanation is not None:
        show_explanation(console, reply.explanation)
    console.print()


def replies_json(replies: Sequence[Reply], passages: Mapping[str, Passage]) -> str:
    """Replies as JSON: the same bytes for the same index and questions, so without timings."""
    return stable_json([_reply_value(reply, passages) for reply in replies])


def show_hits(
    console: Console, reply: Reply, passages: Mapping[str, Passage], *, gold: Collection[str]
) -> None:
    """Print the route and one line for each hit, with those that are known answers marked."""
    console.print(Text(str(reply.route), style="bold cyan"), _facts(reply, route=False))
    for hit in reply.ranking.hits:
        console.print(_line_of(hit, passages.get(hit.id), marked=hit.id in gold))


def _facts(reply: Reply, *, route: bool = True) -> Text:
    total = f"{1000 * sum(reply.seconds.values()):.1f} ms"
    facts = Text(f"{reply.route}, {total}" if route else total, style="dim")
    if reply.ranking.degraded:
        facts.append(f"\n  note: {reply.ranking.degraded}", style="yellow not dim")
    if not reply.ranking.hits:
        facts.append("\n  nothing found", style="yellow not dim")
    return facts


def _line_of(hit: Hit, passage: Passage | None, *, marked: bool = False) -> Text:
    title = (passage.title if passage else "") or hit.id
    line = Text(f"{hit.rank:>3}  ")
    line.append(f"{hit.score:.4f} ", style="cyan")
    line.append("* " if marked else "  ", style="bold green")
    line.append(title, style="bold green" if marked else "bold")
    line.append(f"  {hit.id}", style="dim")
    if isinstance(hit, FusedHit):
        places = ", ".join(f"{source.retriever} {source.rank}" for source in hit.sources)
        line.append(f"  ({places})", style="dim")
    return line


def _excerpt(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= EXCERPT else flat[:EXCERPT].rsplit(" ", 1)[0] + " ..."


def _reply_value(reply: Reply, passages: Mapping[str, Passage]) -> dict[str, object]:
    value: dict[str, object] = {
        "question": reply.question,
        "route": str(reply.route),
        "index_version": reply.version,
        "candidates": reply.ranking.candidates,
        "degraded": reply.ranking.degraded,
        "hits": [_hit_value(hit, passages[hit.id]) for hit in reply.ranking.hits],
    }
    if reply.decision is not None:
        value["decision"] = plain(reply.decision)
    if reply.explanation is not None:
        value["explanation"] = plain(reply.explanation)
    return value


def _hit_value(hit: Hit, passage: Passage) -> dict[str, object]:
    value: dict[str, object] = {
        "id": hit.id,
        "rank": hit.rank,
        "score": hit.score,
        "title": passage.title,
        "text": passage.text,
        "metadata": dict(passage.metadata),
    }
    if isinstance(hit, FusedHit):
        value["sources"] = [plain(source) for source in hit.sources]
    return value


def plain(value: object) -> object:
    """Dataclasses, arrays and enumerations as what JSON has."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: plain(item) for name, item in _fields(value)}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def _fields(value: object) -> Iterator[tuple[str, object]]:
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield field.name, getattr(value, field.name)
