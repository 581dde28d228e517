"""What an index holds, counted."""

from pathlib import Path

from backends.index import Index
from backends.reading import read_corpus
from backends.schema import SCHEMA_VERSION


def take_inventory(folder: Path) -> dict[str, object]:
    """Counts, bytes and pins of the newest version, as plain values.

    Raises:
        IndexNotFoundError: There is no index.
        IndexMismatchError: Another schema version wrote it.
    """
    index = Index.open(folder)
    corpus = read_corpus(index)
    versions = index.versions()
    return {
        "index": str(folder),
        "version": index.version,
        "written": versions[-1].written.isoformat(timespec="seconds"),
        "versions kept": len(versions),
        "passages": len(corpus),
        "documents": len(set(corpus.documents)),
        "sentences": len(corpus.sentence_passage),
        "entities": len(corpus.entities.names),
        "entity mentions": len(corpus.entities.code),
        "noun phrases": len(corpus.phrases.names),
        "bytes on disk": sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()),
        "dimension": index.dimension,
        "schema": SCHEMA_VERSION,
        "pins": dict(sorted(index.fingerprint.items())),
    }
