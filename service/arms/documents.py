"""Settings that say where a reply has hits, and a hit the parts of a passage."""

from service.arms.pointers import Pointer, at, found_at, list_at
from service.arms.types import ArmConfig, RemoteHit, remote_hit


class HitConfig(ArmConfig):
    """An arm whose reply has a list of hits; pointers say where the list and its parts are.

    Attributes:
        hits: The list, in the reply.
        id: The id, in a hit; as for all below.
        text: The passage's text.
        title: Its title; empty for none, as for all below.
        score: Its score, where higher is better; without one, only the order counts.
        metadata: A flat object; needed for filters.
    """

    hits: Pointer
    id: Pointer
    text: Pointer
    title: Pointer = ""
    score: Pointer = ""
    metadata: Pointer = ""

    def read(self, reply: object, k: int) -> tuple[RemoteHit, ...]:
        """Read at most k hits of a reply; `Garbled` without a list, or a hit's id or text."""
        optional = self.title, self.score, self.metadata
        return tuple(
            remote_hit(at(hit, self.id), at(hit, self.text), *(found_at(hit, p) for p in optional))
            for hit in list_at(reply, self.hits)[:k]
        )
