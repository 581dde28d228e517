"""What a language model extracted from passages: knowledge units, and facts as triples.

It cannot be derived again, so it is stored beside the dataset and belongs to no version. An
extraction is stored by the id of its passage with a digest of the text that was read.
It counts as absent once the passage has changed, and is deleted together with the passage.
"""

import json
import logging
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, get_args

import lance
import numpy as np
import pyarrow as pa

from wye.backends.errors import BackendError, IndexDamagedError, IndexMismatchError
from wye.backends.files import canonical_json, sync
from wye.backends.store.schema import StoredSentence
from wye.backends.store.versions import reading
from wye.backends.types import AnalysedSentence

log = logging.getLogger(__name__)

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
_ROW = "INTO extracted VALUES (?, ?, ?, ?, ?, ?, ?, ?)"


def content_key(title: str, text: str) -> str:
    """Digest of the text that is read of a passage, in hex."""
    return blake2b(canonical_json([title, text]).encode(), digest_size=16).hexdigest()


def content_keys(folder: Path, dataset: lance.LanceDataset) -> dict[str, str]:
    """Id -> `content_key` of every passage of a version.

    Raises:
        IndexDamagedError: It cannot be read.
    """
    with reading(folder):
        batches = dataset.to_batches(columns=["id", "title", "text"])
        return {id_: key for batch in batches for id_, key in _keys(batch).items()}


def _keys(rows: pa.RecordBatch) -> dict[str, str]:
    columns = (rows.column(name).to_pylist() for name in ("id", "title", "text"))
    return {id_: content_key(title, text) for id_, title, text in zip(*columns, strict=True)}


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
    """The extractions of an index folder; the file is created when the first is stored.

    Methods that read raise IndexMismatchError if a later Wye wrote the file, and IndexDamagedError
    if it is damaged; all raise BackendError if the disk refuses.
    """

    def __init__(self, folder: Path, fingerprint: Mapping[str, str]) -> None:
        """Use the store in an index folder.

        Args:
            fingerprint: Fingerprint of the analyser that the index is pinned to.
        """
        self.path = folder / FILE
        self._analyser = canonical_json(dict(fingerprint))

    def read(self, kind: Kind) -> list[Extraction]:
        """All extractions of a kind, by id."""
        query = (
            "SELECT id, content, source, items, analyser IS ? FROM extracted WHERE kind = ?"
            " ORDER BY id"
        )
        return self._rows(
            lambda id_, content, source, items, analysed: Extraction(
                id_, content, source, json.loads(items), bool(analysed)
            ),
            query,
            self._analyser,
            kind,
        )

    def sentences(self, kind: Kind) -> list[tuple[str, str, list[StoredSentence]]]:
        """Id, `content_key` and analysed items of each passage that has any, by id."""
        query = (
            "SELECT id, content, sentences, vectors FROM extracted"
            " WHERE kind = ? AND analyser = ? AND sentences <> '[]' ORDER BY id"
        )
        return self._rows(_unpacked, query, kind, self._analyser)

    def keep(
        self, kind: Kind, analysed: Iterable[tuple[Extraction, Sequence[AnalysedSentence]]]
    ) -> None:
        """Store extractions with the analyses of their items durably, all or none."""
        rows = []
        for one, sentences in analysed:
            texts = [(each.text, each.entities, each.phrases) for each in sentences]
            vectors = np.array([each.vector for each in sentences], np.float16)
            items, analysis = json.dumps(list(one.items)), json.dumps(texts)
            extraction = kind, one.id, one.content, one.source, items
            rows.append((*extraction, self._analyser, analysis, vectors.tobytes()))
        if rows:
            with self._database("rwc") as database:
                database.executemany(f"INSERT OR REPLACE {_ROW}", rows)

    def take(self, other: "ExtractedStore", contents: Mapping[str, str]) -> int:
        """Copy another index's extractions of passages with the same text that have none here.

        Args:
            contents: Id -> `content_key` of every passage of this index.

        Returns:
            The number of extractions that were copied.
        """
        rows = other._rows(lambda *row: row, "SELECT * FROM extracted")
        same = [row for row in rows if contents.get(row[1]) == row[2]]
        if not same:
            return 0
        with self._database("rwc") as database:
            before = database.total_changes
            database.executemany(f"INSERT OR IGNORE {_ROW}", same)
            return database.total_changes - before

    def forget(self, gone: Iterable[str], contents: Mapping[str, str]) -> int:
        """Delete the extractions of deleted and of changed passages; nothing stays in the file.

        Args:
            gone: Ids of deleted passages.
            contents: Id -> current `content_key` of passages that may have changed.

        Returns:
            The number of deleted extractions.
        """
        if not self.path.exists():
            return 0
        with self._database("rwc") as database:
            before = database.total_changes
            database.executemany("DELETE FROM extracted WHERE id = ?", ((id_,) for id_ in gone))
            changed = "DELETE FROM extracted WHERE id = ? AND content <> ?"
            database.executemany(changed, contents.items())
            return database.total_changes - before

    def forget_others(self, contents: Mapping[str, str]) -> int:
        """Delete all extractions but those of current passages; returns how many.

        Args:
            contents: Id -> `content_key` of every passage of the index.
        """
        ids = {one.id for kind in KINDS for one in self.read(kind)}
        return self.forget(
            ids - contents.keys(), {id_: contents[id_] for id_ in ids & contents.keys()}
        )

    def drop(self, kind: Kind) -> int:
        """Delete all extractions of a kind; returns the number of passages that had one."""
        if not self.path.exists():
            return 0
        with self._database("rwc") as database:
            return database.execute("DELETE FROM extracted WHERE kind = ?", (kind,)).rowcount

    def digest(self) -> str:
        """Digest of all analysed extractions; "" if there are none."""
        query = (
            "SELECT kind, id, content, sentences FROM extracted WHERE analyser = ?"
            " ORDER BY kind, id"
        )
        rows = self._rows(lambda *row: row, query, self._analyser)
        return blake2b(canonical_json(rows).encode(), digest_size=16).hexdigest() if rows else ""

    def inventory(self) -> dict[str, object]:
        """Counts and files of each kind; empty if there are no extractions."""
        counts: dict[str, object] = {}
        for kind in KINDS:
            if rows := self.read(kind):
                counts[kind] = sum(len(row.items) for row in rows)
                counts[f"passages with {kind}"] = len(rows)
                counts[f"{kind} from"] = ", ".join(sorted({row.source for row in rows}))
        return counts

    def _rows(self, decode: Callable[..., Any], query: str, *values: object) -> list[Any]:
        if not self.path.exists():
            return []
        with self._database("ro") as database:
            # Version 0: another process is creating the file right now.
            rows = database.execute(query, values) if _version_of(database) else ()
            return [decode(*row) for row in rows]

    @contextmanager
    def _database(self, mode: Literal["ro", "rwc"]) -> Iterator[sqlite3.Connection]:
        """The database in a transaction, which is durable when the block ends without an error."""
        address = f"{self.path.absolute().as_uri()}?mode={mode}"
        try:
            with closing(sqlite3.connect(address, _PATIENCE_SECONDS, uri=True)) as database:
                # Deleted content must not remain in the file.
                database.execute("PRAGMA secure_delete = ON")
                version = _version_of(database)
                if version > VERSION:
                    raise IndexMismatchError(
                        f"{self.path} has schema version {version}; this Wye reads {VERSION}. Run "
                        "the Wye that wrote it, or delete the file and store the extractions again."
                    )
                if not version and mode == "rwc":
                    database.executescript(_SCHEMA)
                    sync(self.path.parent)
                with database:
                    yield database
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


def forget_extractions(
    folder: Path, gone: Sequence[str], changed: pa.RecordBatch | None = None
) -> None:
    """Delete what was extracted from passages that a commit deleted or changed."""
    try:
        store = ExtractedStore(folder, {})
        if store.path.exists():
            store.forget(gone, _keys(changed) if changed else {})
    except BackendError as error:  # the commit stands; the next `wye refine` deletes it
        log.warning("Extracted items of deleted passages could not be deleted: %s", error)


def _unpacked(
    id_: str, content: str, packed: str, vectors: bytes
) -> tuple[str, str, list[StoredSentence]]:
    items = json.loads(packed)
    matrix = np.frombuffer(vectors, np.float16).reshape(len(items), -1).astype(np.float32)
    sentences = [
        StoredSentence(text, tuple(entities), tuple(phrases), vector)
        for (text, entities, phrases), vector in zip(items, matrix, strict=True)
    ]
    return id_, content, sentences


def _version_of(database: sqlite3.Connection) -> int:
    """Version of the schema; 0 before it is created."""
    return int(database.execute("PRAGMA user_version").fetchone()[0])
