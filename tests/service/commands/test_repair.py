"""`wye repair` says what it would do, does it, and says what it did."""

import json
from pathlib import Path

import pytest

from tests.hashing import HashAnalyser
from wye.backends.store.index import PassageStore
from wye.backends.store.ingest import ingest
from wye.backends.types import Passage
from wye.service.cli import run


@pytest.fixture
def index(tmp_path: Path) -> Path:
    analyser = HashAnalyser()
    made = PassageStore.create(tmp_path / "index", analyser.dimension, analyser.fingerprint)
    for id_ in ("a", "b"):
        ingest(made, [Passage(id_, "", f"Anna met [Bob] in {id_}.")], analyser)
    return made.path


def newest_data(index: Path) -> Path:
    files = (index / "passages.lance" / "data").iterdir()
    return max(files, key=lambda path: path.stat().st_mtime_ns)


def test_it_changes_nothing_unless_it_is_told_to(
    index: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["repair", str(index)]) == 0
    assert "is sound: version 3, 2 passages." in capsys.readouterr().out
    newest_data(index).unlink()
    assert run(["repair", str(index)]) == 1
    printed = capsys.readouterr().out
    assert "Version 3: data/" in printed
    assert "is missing." in printed
    assert "would go on from version 2: 1 passages." in printed
    assert "--yes" in printed
    assert not (index / "damaged").exists()
    assert run(["repair", str(index), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["done"] is False
    assert run(["repair", str(index), "--yes"]) == 0
    assert "went on from version 2" in capsys.readouterr().out
    assert run(["repair", str(index)]) == 0
    assert PassageStore.open(index).version == 4
    assert len([*(index / "damaged").rglob("*.manifest")]) == 1


def test_a_report_needs_no_lock_and_says_so(
    index: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (index / "writer.lock").unlink()
    (index / "writer.lock").mkdir()  # nobody can lock it, as on a read-only disk, not even root
    assert run(["repair", str(index)]) == 0
    printed = capsys.readouterr()
    assert "is sound: version 3" in printed.out
    assert "could not be locked" in printed.err
    assert "another process" in printed.err
    newest_data(index).unlink()
    assert run(["repair", str(index), "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["version"], report["unlocked"] != "") == (2, True)
    assert run(["repair", str(index), "--yes"]) == 2
    assert "writer.lock cannot be" in capsys.readouterr().err
    assert not (index / "damaged").exists()


def test_what_cannot_be_repaired(
    index: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["repair", str(tmp_path / "nowhere")]) == 2
    assert "There is no index" in capsys.readouterr().err
    with PassageStore.open(index).writer():
        assert run(["repair", str(index)]) == 2
    assert "being written by" in capsys.readouterr().err
    for path in (index / "passages.lance" / "_versions").iterdir():
        path.write_bytes(b"")
    assert run(["repair", str(index), "--yes"]) == 2
    assert "Nothing in" in capsys.readouterr().err
