"""What documents an index holds: a page of them, or one with its passages."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.compute as pc

from backends.index import Index
from backends.schema import PASSAGE_COLUMNS, to_passages
from backends.types import Passage
from backends.writer import any_of


@dataclass(frozen=True, slots=True)
class Document:
    """A document as it is stored.

    Attributes:
        id: Its own.
        passages: Its chunks in order, or itself where it is short; never empty.
    """

    id: str
    passages: tuple[Passage, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """Some documents of a version, ascending by id.

    Attributes:
        documents: At most as many as were asked for.
        more: Whether others follow.
        total: Documents of that version.
        version: Newest of the index.
    """

    documents: tuple[Document, ...]
    more: bool
    total: int
    version: int


def list_documents(folder: Path, after: str = "", limit: int = 100) -> Page:
    """The documents that follow an id.

    Args:
        folder: Of the index.
        after: Id of the last document of the page before; "" for the first page.
        limit: Documents wanted, at least 1.

    Raises:
        IndexNotFoundError: There is no index.
    """
    index = Index.open(folder)
    column = index.snapshot().to_table(columns=["document"])["document"]
    ids: list[str] = sorted(pc.unique(column).to_pylist())
    wanted = [id_ for id_ in ids if id_ > after]
    documents = _read(index, wanted[:limit])
    return Page(tuple(documents), len(wanted) > limit, len(ids), index.version)


def read_document(folder: Path, id_: str) -> Document | None:
    """One document with its passages; None if there is none.

    Raises:
        IndexNotFoundError: There is no index.
    """
    return next(iter(_read(Index.open(folder), [id_])), None)


def _read(index: Index, ids: Sequence[str]) -> list[Document]:
    if not ids:
        return []
    rows = index.snapshot().to_table(columns=list(PASSAGE_COLUMNS), filter=any_of("document", ids))
    chunks: dict[str, list[Passage]] = {}
    for passage in to_passages(rows):
        chunks.setdefault(passage.document, []).append(passage)
    return [
        Document(id_, tuple(sorted(chunks[id_], key=lambda passage: passage.chunk)))
        for id_ in ids
        if id_ in chunks
    ]
