"""Stores whose documents hold a passage somewhere, with its title and metadata."""

from service.arms.pointers import Pointer, at, found_at
from service.arms.types import RemoteHit, remote_hit
from service.arms.web import WebConfig


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
