"""`wye repair` says what it would do, does it, and says what it did."""

import json
from pathlib import Path

import pytest

from tests.fakes import Wye
from tests.hashing import HashAnalyser
from wye.backends.store.index import PassageStore
from wye.backends.store.ingest import ingest
from wye.backends.types import Passage


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


def test_it_changes_nothing_unless_it_is_told_to(index: Path, wye: Wye) -> None:
    code, out, _ = wye("repair", index)
    assert (code, "is sound: version 3, 2 passages." in out) == (0, True)
    newest_data(index).unlink()
    code, out, _ = wye("repair", index)
    assert (code, "Version 3: data/" in out, "is missing." in out) == (1, True, True)
    assert "would go on from version 2: 1 passages." in out
    assert "--yes" in out
    assert not (index / "damaged").exists()
    code, out, _ = wye("repair", index, "--json")
    assert (code, json.loads(out)["done"]) == (1, False)
    code, out, _ = wye("repair", index, "--yes")
    assert (code, "went on from version 2" in out) == (0, True)
    assert wye("repair", index)[0] == 0
    assert PassageStore.open(index).version == 4
    assert len([*(index / "damaged").rglob("*.manifest")]) == 1


def test_a_report_needs_no_lock_and_says_so(index: Path, wye: Wye) -> None:
    (index / "writer.lock").unlink()
    (index / "writer.lock").mkdir()  # nobody can lock it, as on a read-only disk, not even root
    code, out, err = wye("repair", index)
    assert (code, "is sound: version 3" in out) == (0, True)
    assert "could not be locked" in err
    assert "another process" in err
    newest_data(index).unlink()
    code, out, _ = wye("repair", index, "--json")
    report = json.loads(out)
    assert (code, report["version"], report["unlocked"] != "") == (1, 2, True)
    code, _, err = wye("repair", index, "--yes")
    assert (code, "writer.lock cannot be" in err) == (2, True)
    assert not (index / "damaged").exists()


def test_what_cannot_be_repaired(index: Path, tmp_path: Path, wye: Wye) -> None:
    code, _, err = wye("repair", tmp_path / "nowhere")
    assert (code, "There is no index" in err) == (2, True)
    with PassageStore.open(index).writer():
        code, _, err = wye("repair", index)
    assert (code, "being written by" in err) == (2, True)
    for path in (index / "passages.lance" / "_versions").iterdir():
        path.write_bytes(b"")
    code, _, err = wye("repair", index, "--yes")
    assert (code, "Nothing in" in err) == (2, True)
