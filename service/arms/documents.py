"""Settings that say where a reply has the hits, and a hit the parts of a passage."""

import hashlib
import re

from wye.service.arms.pointers import MISSING, Pointer, at, found_at, list_at
from wye.service.arms.types import ArmConfig, RemoteHit, remote_hit

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
        def part(pointer: str) -> object:
            from_reply, count = _RANK.subn(f"/{rank}", pointer)
            return found_at(reply, from_reply) if count else found_at(hit, pointer)

        text = part(self.text) if self.text else hit
        id_ = part(self.id)
        if not self.id and isinstance(text, str):
            id_ = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
        return remote_hit(id_, text, *map(part, (self.title, self.score, self.metadata)))
