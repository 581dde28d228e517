"""An index without models, for all tests of the store."""

from pathlib import Path

import pytest

from backends.store.index import Index
from benchmarks.hashing import HashAnalyser

ANALYSER = HashAnalyser()


def new_index(folder: Path) -> Index:
    return Index.create(folder, ANALYSER.dimension, ANALYSER.fingerprint)


@pytest.fixture
def index(tmp_path: Path) -> Index:
    return new_index(tmp_path / "index")
