"""JSON pointers (RFC 6901): templates of requests, and the hits of a reply."""

import hashlib
import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator

from wye.service.arms.types import ArmConfig, Garbled, RemoteHit, remote_hit

MISSING = object()
"""Result of a pointer that leads nowhere."""
_POINTER = re.compile(r"(?:/(?:[^~/]|~0|~1)*)*")


def check_pointer(pointer: str) -> str:
    """Return the pointer if it is valid, else raise a `ValueError`."""
    if not _POINTER.fullmatch(pointer):
        raise ValueError("write a JSON pointer, such as /data/hits; empty for the whole reply")
    return pointer


Pointer = Annotated[str, AfterValidator(check_pointer)]


def at(value: object, pointer: str) -> object:
    """The value at a pointer in parsed JSON; `MISSING` if there is none."""
    for token in pointer.split("/")[1:]:
        name = token.replace("~1", "/").replace("~0", "~")
        if isinstance(value, Mapping):
            value = value.get(name, MISSING)
        elif isinstance(value, list) and re.fullmatch("0|[1-9][0-9]*", name):
            value = value[int(name)] if int(name) < len(value) else MISSING
        else:
            return MISSING
    return value


def value_at(value: object, pointer: str) -> object:
    """The value at an optional pointer; None if it is missing or the pointer is empty."""
    target = at(value, pointer) if pointer else None
    return None if target is MISSING else target


def list_at(value: object, pointer: str) -> list[object]:
    """The list at a pointer, or `Garbled` if there is none."""
    hits = at(value, pointer)
    if not isinstance(hits, list):
        raise Garbled(f"there is no list at {pointer or 'its top'}")
    return hits


def names_in(template: object) -> set[str]:
    """All strings in a template, also those in lists and tables."""
    if isinstance(template, str):
        return {template}
    if isinstance(template, Mapping):
        return set().union(*map(names_in, template.values()))
    if isinstance(template, list):
        return set().union(*map(names_in, template))
    return set()


def fill(template: object, values: Mapping[str, object]) -> object:
    """Fill a template: values replace strings such as "{question}".

    Only whole strings are replaced, and only once, so that text in a question is not taken for
    part of a template. Entries with the value `MISSING` are left out.
    """
    if isinstance(template, str):
        return values.get(template, template)
    if isinstance(template, Mapping):
        entries = ((key, fill(value, values)) for key, value in template.items())
        return {key: value for key, value in entries if value is not MISSING}
    if isinstance(template, list):
        items = (fill(value, values) for value in template)
        return [value for value in items if value is not MISSING]
    return template


_RANK = re.compile(r"/\*(?=/|$)")


class HitConfig(ArmConfig):
    """An arm whose reply has a list of hits; pointers say where the list and its parts are.

    Attributes:
        hits: The list, in the reply.
        empty: What only replies without a list have, where nothing was found; empty for none.
        id: The id, in a hit; as for all below. Empty to make one of the text. A pointer with "/*"
            leads from the reply instead, with the number of the hit, from 0, for the star.
        text: The passage's text.
        title: Its title; empty for none, as for all below.
        score: Its score, where higher is better; without one, only the order counts.
        metadata: A flat object; needed for filters.
    """

    hits: Pointer
    empty: Pointer = ""
    id: Pointer
    text: Pointer
    title: Pointer = ""
    score: Pointer = ""
    metadata: Pointer = ""

    def read(self, reply: object, k: int) -> tuple[RemoteHit, ...]:
        """Read at most k hits of a reply; `Garbled` without a list, or a hit's id or text."""
        if self.empty and at(reply, self.empty) is not MISSING:
            return ()
        return tuple(
            self._hit(reply, hit, rank) for rank, hit in enumerate(list_at(reply, self.hits)[:k])
        )

    def _hit(self, reply: object, hit: object, rank: int) -> RemoteHit:
        def field(pointer: str) -> object:
            from_reply, count = _RANK.subn(f"/{rank}", pointer)
            return value_at(reply, from_reply) if count else value_at(hit, pointer)

        text = field(self.text) if self.text else hit
        id_ = field(self.id)
        if not self.id and isinstance(text, str):
            id_ = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
        return remote_hit(id_, text, *map(field, (self.title, self.score, self.metadata)))
