"""Where a hit of a reply, or a document of a store, has the parts of a passage."""

from service.arms.pointers import Pointer, at, found_at, list_at
from service.arms.types import ArmConfig, RemoteHit, remote_hit
from service.arms.web import WebConfig


class HitConfig(ArmConfig):
    """An arm whose reply has a list of hits somewhere.

    Attributes:
        hits: Where the list of hits is in the reply.
        id: Where its id is in a hit, and so on.
        text: The passage itself.
        title: May be empty, as may those below.
        score: Higher is better; without it the order says all there is.
        metadata: A flat object; needed for filters.
    """

    hits: Pointer
    id: Pointer
    text: Pointer
    title: Pointer = ""
    score: Pointer = ""
    metadata: Pointer = ""

    def read(self, reply: object, k: int) -> tuple[RemoteHit, ...]:
        """At most k hits of a reply.

        Raises:
            Garbled: There is no such list, or a hit has no id or no text.
        """
        optional = self.title, self.score, self.metadata
        return tuple(
            remote_hit(at(hit, self.id), at(hit, self.text), *(found_at(hit, p) for p in optional))
            for hit in list_at(reply, self.hits)[:k]
        )


class DocumentConfig(WebConfig):
    """An arm that gives documents.

    Attributes:
        text: Where the passage is in a document.
        title: Empty for none.
        metadata: Where an object of it is; empty for the document itself.
    """

    text: Pointer = "/text"
    title: Pointer = ""
    metadata: Pointer = ""

    def field(self, key: str) -> str:
        """A key of the metadata as the store's filters name it."""
        return ".".join(filter(None, (*self.metadata.split("/"), key)))

    def hit(self, id_: object, document: object, score: object) -> RemoteHit:
        """A hit of the store.

        Raises:
            Garbled: It has no id, no text, or a score that is no number.
        """
        return remote_hit(
            id_,
            at(document, self.text),
            found_at(document, self.title),
            score,
            at(document, self.metadata),
        )
