"""What is checked of files before a commit names them."""

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

from wye.backends.errors import IndexDamagedError
from wye.backends.store.versions import check_deletions


@pytest.mark.parametrize(
    ("rows", "deleted"), [(300_000, 3), (300_000, 5_000), (300_000, 200_000), (20_000, 19_999)]
)
def test_a_deletion_file_is_whole_or_refused(tmp_path: Path, rows: int, deleted: int) -> None:
    dataset = lance.write_dataset(pa.table({"n": np.arange(rows)}), tmp_path)
    metadata = dataset.get_fragments()[0].delete(f"n < {deleted}")
    assert metadata is not None
    assert metadata.deletion_file is not None
    name = metadata.deletion_file.path(metadata.id)
    check_deletions(tmp_path, name, deleted)
    with pytest.raises(IndexDamagedError, match=f"the {deleted + 1:,} deleted ones"):
        check_deletions(tmp_path, name, deleted + 1)
    content = (tmp_path / name).read_bytes()
    for size in (0, 1, 9, len(content) // 2, len(content) - 1):
        (tmp_path / name).write_bytes(content[:size])
        with pytest.raises(IndexDamagedError, match=r"_deletions/"):
            check_deletions(tmp_path, name, deleted)
