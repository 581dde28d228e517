"""What an index contains, and what its next merge, base and write wait for: `wye info`."""

from pathlib import Path

import lance
import pyarrow as pa
import pyarrow.compute as pc

from wye.backends.errors import IndexDamagedError
from wye.backends.files import address_of, writing
from wye.backends.store.corpus import changed_since
from wye.backends.store.derived import DerivedFiles, most_changes
from wye.backends.store.index import PassageStore
from wye.backends.store.ingest import COMPACT_FROM
from wye.backends.store.schema import SCHEMA_VERSION
from wye.backends.store.versions import fragments_by_size, sizes_of


def take_inventory(folder: Path) -> dict[str, object]:
    """Counts, bytes and pins of the newest version, as plain values.

    Raises:
        IndexNotFoundError: There is no index.
        IndexDamagedError: It cannot be read.
    """
    index = PassageStore.open(folder)
    fault, times = index.fault, dict[str, object]()
    try:
        versions = index.versions()
        written = versions[max(versions)].isoformat(timespec="seconds")
        times = {"written": written, "versions kept": len(versions)}
    except IndexDamagedError as error:
        fault = fault or str(error)
    with index.reading():
        documents = index.snapshot().to_table(columns=["document"])["document"]
        mentions = _mentions(index)
    fragments = [fragment.metadata for fragment in index.snapshot().get_fragments()]
    files = None if index.fault or index.is_remote else index.newest_derived
    on_disk = (file.stat().st_size for file in folder.rglob("*") if file.is_file())
    stored = sizes_of(index.snapshot()).values() if index.is_remote else on_disk
    sizes, derived = files.sizes() if files else {}, dict[str, int]()
    if files and sizes:
        derived = {"of version": files.version, "bytes": sum(sizes.values()), **sizes}
    return {
        **({"fault": fault} if fault else {}),
        "index": address_of(folder) or str(folder),
        "version": index.version,
        **times,
        "passages": len(documents),
        "documents": len(pc.unique(documents)),
        **mentions,
        "fragments": {
            "count": len(fragments),
            "rows": sum(fragment.physical_rows for fragment in fragments),
            "deleted rows": sum(fragment.num_deletions for fragment in fragments),
        },
        "derived": derived,
        "indices of Lance, rows to take in": coverage(index.snapshot()),
        "waits": {} if index.is_remote else _waits(index, files),
        "bytes on disk": sum(filter(None, stored)),
        "dimension": index.dimension,
        "schema": SCHEMA_VERSION,
        "pins": dict(sorted(index.fingerprint.items())),
    }


def coverage(dataset: lance.LanceDataset) -> dict[str, int]:
    """Name of each of Lance's indices -> rows that it does not cover yet, which Lance scans."""
    rows = dataset.count_rows()
    return {
        index.name: max(rows - index.num_rows_indexed, 0)
        for index in sorted(dataset.describe_indices(), key=lambda each: each.name)
    }


def _waits(index: PassageStore, files: DerivedFiles | None) -> dict[str, str]:
    """What a new `base`, a `merge` of fragments and a `write` wait for, in words.

    Args:
        files: Derived files of the present base; None if there is none.
    """
    changes = changed_since(index, files) if files else None
    most, fragments = most_changes(index.count()), fragments_by_size(index.snapshot())
    if not index.is_large:
        base = "nothing: so few passages need none"
    elif changes is None:
        base = "the next process that opens the index"
    elif changes > most:
        base = f"a server, or a build: {changes:,} passages were added or deleted"
    else:
        base = f"{changes:,} of {most:,} passages to be added or deleted"
    return {
        "base": base,
        "merge": f"{max(fragments.values())} of {COMPACT_FROM} fragments of about one size",
        "write": writing(index.path) or "nothing",
    }


def _mentions(index: PassageStore) -> dict[str, int]:
    """Counts of sentences and mentions, batch by batch; only distinct names stay in memory.

    Lance cannot read part of a list's structs, so vectors and texts of sentences are read too.
    """
    sentences = mentions = 0
    entities = phrases = pa.array([], pa.string())
    for batch in index.snapshot().to_batches(columns=["sentences"]):
        flat = batch["sentences"].flatten()
        named = flat.field("entities").flatten()
        sentences += len(flat)
        mentions += len(named)
        entities = pc.unique(pa.concat_arrays([entities, named]))
        phrases = pc.unique(pa.concat_arrays([phrases, flat.field("phrases").flatten()]))
    return {
        "sentences": sentences,
        "entities": len(entities),
        "entity mentions": mentions,
        "noun phrases": len(phrases),
    }
