"""`wye index` over folders: what is left out, strictness, metadata, and Ctrl-C."""

import os
import re
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from backends.store.documents import list_documents
from backends.types import Passage
from benchmarks.hashing import FakeAnalyser
from featurizer.types import PassageAnalysis

pytestmark = pytest.mark.usefixtures("fake_models")
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    corpus = tmp_path / "corpus"
    (corpus / "sub").mkdir(parents=True)
    (corpus / "a.md").write_text("---\nyear: 1894\n---\n# Bridge\n\nIt is in London.\n")
    (corpus / "sub" / "b.html").write_text("<h1>Tower</h1><p>It is in Paris.</p>")
    for name in ("c.xyz", "d.XYZ", "e"):
        (corpus / name).write_text("?")
    for path in corpus.rglob("*.*"):
        os.utime(path, (0, 86_400.0))
    return corpus


def test_a_folder_of_mixed_files_with_metadata(folder: Path, tmp_path: Path, wye: Run) -> None:
    given = ("--metadata", "year=1900", "--metadata", "draft=true", "--metadata", "by=Jane = Doe")
    code, out, err = wye("index", folder, "--index", tmp_path / "i", *given)
    assert (code, "2 added" in out) == (0, True)
    assert "Left out: 2 .xyz, 1 without an ending." in err
    one, two = list_documents(tmp_path / "i").documents
    own = {"draft": True, "by": "Jane = Doe", "modified": "1970-01-02"}
    assert (one.id, one.title) == ("a.md", "Bridge")
    assert one.passages[0].metadata == {**own, "year": 1894, "path": "a.md", "folder": ""}
    assert two.passages[0].metadata == {**own, "year": 1900, "path": "sub/b.html", "folder": "sub"}
    _, out, _ = wye("index", folder, "--index", tmp_path / "i", *given)
    stages = r"2 unchanged \(read .* s, wait for the parse .* s, encode .* s, write .* s\)"
    assert re.search(stages, " ".join(out.split()))


def test_a_file_that_is_only_touched_is_not_analysed_again(
    folder: Path, tmp_path: Path, wye: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    wye("index", folder, "--index", tmp_path / "i")
    os.utime(folder / "a.md", (0, 10 * 86_400.0))

    def never(self: FakeAnalyser, passages: Sequence[Passage]) -> list[PassageAnalysis]:
        raise AssertionError

    monkeypatch.setattr(FakeAnalyser, "analyse", never)
    code, out, _ = wye("index", folder, "--index", tmp_path / "i")
    assert (code, "1 updated, 1 unchanged" in out) == (0, True)
    passage = list_documents(tmp_path / "i").documents[0].passages[0]
    assert passage.metadata["modified"] == "1970-01-11"


def test_when_strict_nothing_is_written_if_anything_is_left_out(
    folder: Path, tmp_path: Path, wye: Run
) -> None:
    code, _, err = wye("index", folder, "--index", tmp_path / "i", "--strict")
    assert (code, "unsupported types: 2 .xyz, 1 without an ending" in err) == (2, True)
    for name in ("c.xyz", "d.XYZ", "e"):
        (folder / name).unlink()
    (folder / "z.csv").write_text("text\nfine\n1,2\n")
    code, _, err = wye("index", folder, "--index", tmp_path / "i", "--strict")
    assert (code, "z.csv:3: " in err, (tmp_path / "i").exists()) == (2, True, False)
    (folder / "z.csv").unlink()
    assert wye("index", folder, "--index", tmp_path / "i", "--strict")[0] == 0


def test_the_columns_of_a_table_are_told_and_a_name_is_searched(tmp_path: Path, wye: Run) -> None:
    source = tmp_path / "products.csv"
    source.write_text("name,description,price\nZephyr,A light wind jacket,9\nBora,A warm one,8\n")
    code, out, err = wye("index", source, "--index", tmp_path / "i")
    assert (code, "2 added" in out) == (0, True)
    assert err.count(f'{source}: text from "description", title from "name".\n') == 1
    for place in range(25):
        (tmp_path / f"{place}.csv").write_text("note,year\nA text,1894\n")
    _, _, err = wye("index", tmp_path, "--index", tmp_path / "i")
    assert (err.count("note, year"), "Tables of other columns: 6 more." in err) == (20, True)
    _, out, _ = wye("search", "Zephyr", "--route", "lexical", "--index", tmp_path / "i", "-k", "1")
    assert "Zephyr  products.csv:2" in out


def test_a_pair_that_is_none_is_refused(folder: Path, tmp_path: Path, wye: Run) -> None:
    code, _, err = wye("index", folder, "--index", tmp_path / "i", "--metadata", "year")
    assert (code, "KEY=VALUE" in err, (tmp_path / "i").exists()) == (2, True, False)


def test_ctrl_c_is_answered_at_once_and_says_what_is_kept(
    folder: Path, tmp_path: Path, wye: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    analyse = FakeAnalyser.analyse
    before = signal.getsignal(signal.SIGINT)  # ignored where a shell began this in the background

    def pressed(self: FakeAnalyser, passages: Sequence[Passage]) -> object:
        yield from analyse(self, passages[:1])
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(FakeAnalyser, "analyse", pressed)
    code, out, err = wye("index", folder, "--index", tmp_path / "i")
    assert (code, "1 added" in out) == (130, True)
    assert err.index("Stopping.") < err.index("Interrupted.")
    assert len(list_documents(tmp_path / "i").documents) == 1
    assert signal.getsignal(signal.SIGINT) is before
