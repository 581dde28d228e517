"""What an index holds, counted."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from backends.index import Index
from backends.schema import SCHEMA_VERSION


def take_inventory(folder: Path) -> dict[str, object]:
    """Counts, bytes and pins of the newest version, as plain values.

    Raises:
        IndexNotFoundError: There is no index.
        IndexMismatchError: Another schema version wrote it.
    """
    index = Index.open(folder)
    versions = index.versions()
    documents = index.snapshot().to_table(columns=["document"])["document"]
    return {
        "index": str(folder),
        "version": index.version,
        "written": versions[-1].written.isoformat(timespec="seconds"),
        "versions kept": len(versions),
        "passages": len(documents),
        "documents": len(pc.unique(documents)),
        **_mentions(index),
        "bytes on disk": sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()),
        "dimension": index.dimension,
        "schema": SCHEMA_VERSION,
        "pins": dict(sorted(index.fingerprint.items())),
    }


def _mentions(index: Index) -> dict[str, int]:
    """Sentences and what they mention, counted batch by batch; no more than names is kept.

    Lance cannot read part of a list's structs, so vectors and texts of sentences are read along.
    """
    sentences = mentions = 0
    entities = phrases = pa.array([], pa.string())
    for batch in index.snapshot().to_batches(columns=["sentences"]):
        flat = batch["sentences"].flatten()
        named = flat.field("entities").flatten()
        sentences += len(flat)
        mentions += len(named)
        entities = _distinct(entities, named)
        phrases = _distinct(phrases, flat.field("phrases").flatten())
    return {
        "sentences": sentences,
        "entities": len(entities),
        "entity mentions": mentions,
        "noun phrases": len(phrases),
    }


def _distinct(known: pa.Array, more: pa.Array) -> pa.Array:
    return pc.unique(pa.concat_arrays([known, more]))
