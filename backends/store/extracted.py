"""What a language model extracted from passages: knowledge units, and facts as triples.

It cannot be derived again, so it is stored beside the dataset and belongs to no version. An
extraction is stored by the id of its passage with a digest of the text that was read.
It counts as absent once the passage has changed, and is deleted together with the passage.
"""

import json
import logging
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from wye.backends.errors import BackendError, IndexDamagedError, IndexMismatchError
from wye.backends.files import canonical_json, sync
from wye.backends.store.schema import StoredSentence
from wye.backends.types import AnalysedSentence

FILE = "extracted.sqlite3"
VERSION = 1
"""Schema version of the file; a later one is refused."""

Kind = Literal["units", "facts"]
KINDS: tuple[Kind, ...] = get_args(Kind)
_PATIENCE_SECONDS = 10.0
_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS extracted (
    kind TEXT, id TEXT, content TEXT, source TEXT, items TEXT,
    analyser TEXT, sentences TEXT, vectors BLOB, PRIMARY KEY (kind, id)
);
PRAGMA user_version = {VERSION};
"""

log = logging.getLogger(__name__)


def content_key(title: str, text: str) -> str:
    """Digest of the text that is read of a passage, in hex."""
    return blake2b(canonical_json([title, text]).encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class Extraction:
    """What was extracted from one passage.

    Attributes:
        id: Id of the passage.
        content: `content_key` of the text that was read.
        source: Name of the file that it comes from.
        items: Texts; for facts, triples of head, relation and tail.
        analysed: Whether the parser and the encoder in use have analysed the items.
    """

    id: str
    content: str
    source: str = field(compare=False)
    items: Sequence[Any]
    analysed: bool = field(default=False, compare=False)


class ExtractedStore:
    """The extractions of an index folder; the file is created when the first is stored."""

    def __init__(self, folder: Path, fingerprint: Mapping[str, str]) -> None:
        """Use the store in an index folder.

        Args:
            fingerprint: Fingerprint of the analyser that the index is pinned to.
        """
        self.path = folder / FILE
        self._analyser = canonical_json(dict(fingerprint))

    def read(self, kind: Kind) -> list[Extraction]:
        """All extractions of a kind, by id.

        Raises:
            IndexMismatchError: A later Wye wrote the file.
            IndexDamagedError: The file cannot be read.
        """
        rows = self._rows(
            "SELECT id, content, source, items, analyser IS ? FROM extracted WHERE kind = ?"
            " ORDER BY id",
            self._analyser,
            kind,
        )
        with self._own_errors():
            return [
                Extraction(id_, content, source, json.loads(items), bool(analysed))
                for id_, content, source, items, analysed in rows
            ]

    def keep(
        self, kind: Kind, analysed: Iterable[tuple[Extraction, Sequence[AnalysedSentence]]]
    ) -> None:
        """Store extractions with the analyses of their items durably, all or none.

        Raises:
            BackendError: The file cannot be written.
        """
        rows = []
        for one, sentences in analysed:
            texts = [(each.text, each.entities, each.phrases) for each in sentences]
            vectors = np.array([each.vector for each in sentences], np.float16)
            items, analysis = json.dumps(list(one.items)), json.dumps(texts)
            extraction = kind, one.id, one.content, one.source, items
            rows.append((*extraction, self._analyser, analysis, vectors.tobytes()))
        if rows:
            with self._change() as database:
                database.executemany(
                    "INSERT OR REPLACE INTO extracted VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows
                )

    def take(self, other: "ExtractedStore", contents: Mapping[str, str]) -> int:
        """Copy another index's extractions of passages with the same text that have none here.

        Args:
            contents: Id -> `content_key` of every passage of this index.

        Returns:
            The number of extractions that were copied.

        Raises:
            IndexMismatchError: A later Wye wrote the other file.
            IndexDamagedError: The other file cannot be read.
            BackendError: The file cannot be written.
        """
        same = [
            (kind, one.id)
            for kind in KINDS
            for one in other.read(kind)
            if contents.get(one.id) == one.content
        ]
        if not same:
            return 0
        with self._change() as database:
            database.execute("ATTACH ? AS other", (f"{other.path.absolute().as_uri()}?mode=ro",))
            before = database.total_changes
            database.executemany(
                "INSERT OR IGNORE INTO extracted SELECT * FROM other.extracted"
                " WHERE kind = ? AND id = ?",
                same,
            )
            return database.total_changes - before

    def forget(self, gone: Sequence[str], contents: Mapping[str, str]) -> None:
        """Delete the extractions of deleted and of changed passages; nothing stays in the file.

        Args:
            gone: Ids of deleted passages.
            contents: Id -> current `content_key` of passages that may have changed.

        Raises:
            BackendError: The file cannot be written.
        """
        if self.path.exists():
            with self._change() as database:
                database.executemany("DELETE FROM extracted WHERE id = ?", [(id_,) for id_ in gone])
                database.executemany(
                    "DELETE FROM extracted WHERE id = ? AND content <> ?", contents.items()
                )

    def drop(self, kind: Kind) -> int:
        """Delete all extractions of a kind; returns the number of passages that had one.

        Raises:
            BackendError: The file cannot be written.
        """
        if not self.path.exists():
            return 0
        with self._change() as database:
            return database.execute("DELETE FROM extracted WHERE kind = ?", (kind,)).rowcount

    def forget_others(self, contents: Mapping[str, str]) -> int:
        """Delete all extractions but those of current passages; returns how many.

        Args:
            contents: Id -> `content_key` of every passage of the index.

        Raises:
            BackendError: The file cannot be written.
        """
        gone = [
            (kind, one.id)
            for kind in KINDS
            for one in self.read(kind)
            if contents.get(one.id) != one.content
        ]
        if gone:
            with self._change() as database:
                database.executemany("DELETE FROM extracted WHERE kind = ? AND id = ?", gone)
        return len(gone)

    def digest(self) -> str:
        """Digest of all analysed extractions; "" if there are none."""
        rows = self._rows(
            "SELECT kind, id, content, sentences FROM extracted WHERE analyser = ?"
            " ORDER BY kind, id",
            self._analyser,
        )
        return blake2b(canonical_json(rows).encode(), digest_size=16).hexdigest() if rows else ""

    def inventory(self) -> dict[str, object]:
        """Counts and files of each kind; empty if there are no extractions."""
        counts: dict[str, object] = {}
        for kind in KINDS:
            rows = self.read(kind)
            if rows:
                counts[kind] = sum(len(row.items) for row in rows)
                counts[f"passages with {kind}"] = len(rows)
                counts[f"{kind} from"] = ", ".join(sorted({row.source for row in rows}))
        return counts

    def sentences(self, kind: Kind) -> Iterator[tuple[str, str, list[StoredSentence]]]:
        """Id, `content_key` and analysed items of each passage that has any, by id.

        Raises:
            IndexMismatchError: A later Wye wrote the file.
            IndexDamagedError: The file cannot be read.
        """
        rows = self._rows(
            "SELECT id, content, sentences, vectors FROM extracted"
            " WHERE kind = ? AND analyser = ? AND sentences <> '[]' ORDER BY id",
            kind,
            self._analyser,
        )
        for id_, content, packed, vectors in rows:
            with self._own_errors():
                items = json.loads(packed)
                matrix = np.frombuffer(vectors, np.float16).reshape(len(items), -1)
                sentences = [
                    StoredSentence(text, tuple(entities), tuple(phrases), vector)
                    for (text, entities, phrases), vector in zip(
                        items, matrix.astype(np.float32), strict=True
                    )
                ]
            yield id_, content, sentences

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        if not self.path.exists():
            return []
        with self._own_errors(), closing(self._connect("ro")) as database:
            # Version 0: another process is creating the file right now.
            return database.execute(query, values).fetchall() if _version_of(database) else []

    @contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        """A transaction, which is durable when it ends without an error."""
        with self._own_errors(), closing(self._connect("rwc")) as database:
            if not _version_of(database):
                database.executescript(_SCHEMA)
                sync(self.path.parent)
            with database:
                yield database

    def _connect(self, mode: str) -> sqlite3.Connection:
        """Open the database.

        Raises:
            IndexMismatchError: A later Wye wrote the file.
        """
        address = f"{self.path.absolute().as_uri()}?mode={mode}"
        database = sqlite3.connect(address, timeout=_PATIENCE_SECONDS, uri=True)
        try:
            # Deleted content must not remain in the file.
            database.execute("PRAGMA secure_delete = ON")
            if (version := _version_of(database)) > VERSION:
                raise IndexMismatchError(
                    f"{self.path} has schema version {version}; this Wye reads {VERSION}. Run the "
                    "Wye that wrote it, or delete the file and store the extractions again."
                )
        except BaseException:
            database.close()
            raise
        return database

    @contextmanager
    def _own_errors(self) -> Iterator[None]:
        """Raise errors of the database and of its content as our own."""
        try:
            yield
        except (sqlite3.OperationalError, OSError) as error:
            raise BackendError(
                f"{self.path} cannot be read or written ({error}). Check the disk and the "
                "permissions."
            ) from error
        except (sqlite3.Error, ValueError, TypeError) as error:
            raise IndexDamagedError(
                f"{self.path} is damaged ({error}). Move it away, and store the extractions again "
                "with `wye refine`."
            ) from error


def _version_of(database: sqlite3.Connection) -> int:
    """Version of the schema; 0 before it is created."""
    return int(database.execute("PRAGMA user_version").fetchone()[0])
