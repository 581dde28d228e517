"""What clients know of documents they sent, and what replies may therefore hold."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Known:
    """One document as its only owner knows it.

    Attributes:
        revision: Newest that was sent.
        sure: Newest that was acknowledged; 0 before any was.
        gone: The version of the index that has it no more, once its deletion was acknowledged.
        leaving: Whether its deletion was asked for, and perhaps done.
        tag: To filter by.
    """

    revision: int
    sure: int = 0
    gone: int | None = None
    leaving: bool = False
    tag: str = ""


@dataclass(slots=True)
class Ledger:
    """All documents of all clients, and what went wrong with them.

    Attributes:
        documents: By id; an id is never used again after a deletion.
        faults: Kind -> what was seen.
    """

    documents: dict[str, Known] = field(default_factory=dict)
    faults: dict[str, list[str]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def fault(self, kind: str, what: str) -> None:
        """Note something that must not happen."""
        self.faults.setdefault(kind, []).append(what)

    def living(self, prefix: str) -> list[str]:
        """Ids of a client's documents that are there for sure."""
        return [
            id_
            for id_, known in self.documents.items()
            if id_.startswith(prefix) and known.sure and not known.leaving
        ]

    def deleted(self) -> dict[str, int]:
        """Ids whose deletion was acknowledged, with the version that has them no more."""
        return {id_: known.gone for id_, known in self.documents.items() if known.gone is not None}

    def check_reply(
        self, reply: Mapping[str, Any], deleted: Mapping[str, int], tag: str | None
    ) -> None:
        """Look for passages that a reply must not have.

        Args:
            reply: Of /v1/retrieve.
            deleted: What `deleted` said before the question was sent.
            tag: That every passage must have; None when nothing was filtered.
        """
        version = reply["index"]["version"]
        for passage in reply["passages"]:
            id_ = passage["document"]
            if id_ in deleted:
                what = f"{id_}: deleted in {deleted[id_]}, found in {version}"
                self.fault("deleted passage in a reply", what)
            if tag is not None and passage["metadata"].get("tag") != tag:
                self.fault("filtered-out passage in a reply", f"{id_}: {passage['metadata']}")

    def check_stored(self, stored: Iterable[Mapping[str, Any]]) -> None:
        """Compare with what the index holds when all is quiet.

        Args:
            stored: The documents of /v1/documents.
        """
        revisions = {each["id"]: each["metadata"].get("revision", 0) for each in stored}
        for id_, known in self.documents.items():
            if known.gone is not None:
                if id_ in revisions:
                    self.fault("deleted document is back", id_)
            elif known.sure and not known.leaving:
                if id_ not in revisions:
                    self.fault("lost document", id_)
                elif revisions[id_] < known.sure:
                    self.fault("lost revision", f"{id_}: {revisions[id_]} of {known.sure}")
