"""An index without models, for all tests of the store."""

from pathlib import Path

import pytest

from tests.hashing import HashAnalyser
from wye.backends.store.index import PassageStore

ANALYSER = HashAnalyser()


def new_index(folder: Path) -> PassageStore:
    return PassageStore.create(folder, ANALYSER.dimension, ANALYSER.fingerprint)


@pytest.fixture
def index(tmp_path: Path) -> PassageStore:
    return new_index(tmp_path / "index")
