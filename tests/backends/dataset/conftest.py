"""An index of the demo corpus that Lance searches."""

import shutil
from pathlib import Path

import pytest

from tests.backends.dataset.sessions import lines
from tests.hashing import FakeAnalyser
from wye.backends.types import Passage
from wye.router.session import Session
from wye.router.settings import load_settings


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dataset") / "index"
    passages = [
        Passage(str(row["_id"]), str(row["title"]), str(row["text"]), row["metadata"])  # type: ignore[arg-type]
        for row in lines("corpus.jsonl")
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("wye.router.session.Analyser", FakeAnalyser)
        with Session.create(load_settings(), folder) as target:
            target.ingest(passages)
            target.build_indices()
    return folder


@pytest.fixture
def folder(prepared: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(prepared, tmp_path / "index"))
