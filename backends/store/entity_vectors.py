"""The vectors of entity surfaces: a cache beside an index, which may be ahead of it.

A writer adds the surfaces of new passages before the passages, so no version of the index mentions
a surface that the cache lacks, whenever the writer is killed. If the folder is lost, surfaces have
no vectors until the next ingest encodes them again.
"""

import shutil
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wye.backends.errors import IndexDamagedError
from wye.backends.store.schema import (
    SCHEMA_VERSION,
    any_of,
    fingerprint_of,
    surface_schema,
    vector_array,
    version_of,
)
from wye.backends.store.versions import check_files, drop_superseded, read_record, reading, sizes_of
from wye.backends.types import Float32, Int32

FOLDER = "entities.lance"
_ROWS_PER_FRAGMENT = 65_536
"""A surface takes at most an eighth of a passage's space."""


class EntityVectorCache:
    """From surfaces to vectors, on disk; always reads the newest version."""

    def __init__(self, index: Path, dimension: int, fingerprint: Mapping[str, str]) -> None:
        """Use the cache in an index folder; one that another analyser filled counts as empty."""
        self._path = index / FOLDER
        self._dimension = dimension
        self._fingerprint = dict(fingerprint)

    def count(self) -> int:
        """Number of surfaces with a vector."""
        dataset = self.dataset()
        return 0 if dataset is None else int(dataset.count_rows())

    def missing(self, surfaces: Sequence[str]) -> list[str]:
        """The surfaces that have no vector, in order."""
        dataset = self.dataset()
        if dataset is None or not surfaces:
            return list(surfaces)
        with reading(self._path.parent):
            rows = dataset.to_table(columns=["surface"], filter=any_of("surface", surfaces))
            stored = set(rows["surface"].to_pylist())
        return [surface for surface in surfaces if surface not in stored]

    def vectors(self, surfaces: Sequence[str]) -> Float32:
        """(n, d) vectors of n surfaces; a row of NaN for a surface without one."""
        encoded = pa.array(surfaces, pa.string()).dictionary_encode()
        result: Float32 = np.full((len(encoded.dictionary), self._dimension), np.nan, np.float32)
        dataset = self.dataset()
        with reading(self._path.parent):
            for batch in [] if dataset is None else dataset.to_batches():
                index = pc.index_in(batch["surface"], value_set=encoded.dictionary)
                matches = np.flatnonzero(index.is_valid().to_numpy(zero_copy_only=False))
                rows = batch["vector"].flatten().to_numpy().reshape(-1, self._dimension)
                result[index.take(pa.array(matches)).to_numpy()] = rows[matches]
        order: Int32 = encoded.indices.to_numpy()
        return result[order]

    def add(self, surfaces: Sequence[str], vectors: Float32) -> None:
        """Store (n, d) vectors of n `missing` surfaces. The caller holds the write lock."""
        if not surfaces:
            return
        schema = surface_schema(self._dimension, self._fingerprint)
        columns = [pa.array(surfaces, pa.string()), vector_array(vectors, self._dimension)]
        rows = pa.Table.from_arrays(columns, schema=schema)
        is_new = self.dataset() is None
        if is_new:  # an existing folder, if any, is unusable
            shutil.rmtree(self._path, ignore_errors=True)
        with reading(self._path.parent, also=()):
            lance.write_dataset(rows, self._path, mode="create" if is_new else "append")

    def compact(self, keep: timedelta) -> None:
        """Merge small fragments, and drop versions that were superseded longer than `keep` ago."""
        dataset = self.dataset()
        if dataset is not None:
            dataset.optimize.compact_files(target_rows_per_fragment=_ROWS_PER_FRAGMENT)
            drop_superseded(self._path, dataset, keep)

    def dataset(self) -> lance.LanceDataset | None:
        """The newest version; None if there is none that we can use."""
        try:
            dataset = open_surfaces(self._path.parent)
        except IndexDamagedError:  # absent, incomplete or damaged: the cache starts again
            return None
        ours = version_of(dataset.schema) == SCHEMA_VERSION
        return dataset if ours and fingerprint_of(dataset.schema) == self._fingerprint else None


def open_surfaces(folder: Path) -> lance.LanceDataset:
    """Open the newest version of the cache in an index folder.

    Raises:
        IndexDamagedError: There is none, it is not the one written last, or a file is missing or
            cut short.
    """
    newest = read_record(folder, FOLDER).version  # first, since a writer may add a version
    with reading(folder):
        dataset = lance.dataset(folder / FOLDER)
        if dataset.version < newest:
            raise IndexDamagedError(f"{FOLDER} lacks version {newest}")
        check_files(folder / FOLDER, sizes_of(dataset))
        dataset.schema  # noqa: B018 - Lance reads it only now, and panics if it is damaged
    return dataset
