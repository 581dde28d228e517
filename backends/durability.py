"""What was committed outlives a power cut: Lance leaves that to the operating system.

A version is a manifest that names data files and deletion files. Whoever is told that a version is
written relies on all of them, those of earlier commits included: their writer may have been killed
before it came to this. To sync what is on the disk already costs next to nothing.
"""

import os
from pathlib import Path

import lance

_NAMES = ("data", "_deletions", "_versions", "")


def flush(folder: Path, dataset: lance.LanceDataset) -> None:
    """Have the version in view of a dataset on the disk.

    Args:
        folder: Of the dataset.
        dataset: Its newest version; only the holder of the write lock may ask, or the files could
            be cleaned up meanwhile.

    Raises:
        OSError: The disk refuses.
    """
    for path in files_of(folder, dataset):
        sync(path)
    for name in _NAMES:
        if (folder / name).is_dir():
            sync(folder / name)


def files_of(folder: Path, dataset: lance.LanceDataset) -> list[Path]:
    """Every file that reading the version in view takes."""
    found = []
    for fragment in dataset.get_fragments():
        metadata = fragment.metadata
        found += [folder / "data" / file.path for file in metadata.files]
        if metadata.deletion_file is not None:
            found.append(folder / metadata.deletion_file.path(metadata.id))
    # Newer versions sort first, for stores that list by name.
    return [*found, folder / "_versions" / f"{2**64 - 1 - dataset.version}.manifest"]


def sync(path: Path) -> None:
    """Have a file, or the names in a folder, on the disk.

    Raises:
        OSError: The disk refuses.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
