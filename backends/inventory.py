"""What an index contains: `wye info`."""

from pathlib import Path

import lance
import pyarrow.compute as pc

from wye.backends.errors import IndexDamagedError
from wye.backends.files import address_of, writing
from wye.backends.store.index import PassageStore
from wye.backends.store.schema import SCHEMA_VERSION
from wye.backends.store.versions import sizes_of


def take_inventory(folder: Path) -> dict[str, object]:
    """Counts, bytes and pins of the newest version; an `IndexDamagedError` if it is unreadable."""
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
        "fragments": {
            "count": len(fragments),
            "rows": sum(fragment.physical_rows for fragment in fragments),
            "deleted rows": sum(fragment.num_deletions for fragment in fragments),
        },
        "derived": derived,
        "indices of Lance, rows to take in": coverage(index.snapshot()),
        "being written": "" if index.is_remote else writing(index.path),
        "bytes on disk": sum(filter(None, stored)),
        "dimension": index.dimension,
        "schema": SCHEMA_VERSION,
        "pins": dict(sorted(index.fingerprint.items())),
    }


def coverage(dataset: lance.LanceDataset) -> dict[str, int]:
    """Name of each of Lance's indices -> rows that it does not cover yet, which Lance scans."""
    rows = dataset.count_rows()
    indices = sorted(dataset.describe_indices(), key=lambda each: each.name)
    return {index.name: max(rows - index.num_rows_indexed, 0) for index in indices}
