"""`wye index` over folders: what is left out, metadata, and Ctrl-C."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.fakes import Wye
from tests.hashing import FakeAnalyser
from wye.backends.store.documents import list_documents
from wye.backends.types import Passage
from wye.featurizer.types import PassageAnalysis

pytestmark = pytest.mark.usefixtures("fake_models")


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


def test_a_folder_of_mixed_files_with_metadata(folder: Path, tmp_path: Path, wye: Wye) -> None:
    words = ("--metadata", "year=1900", "--metadata", "draft=true", "--metadata", "by=Jane = Doe")
    code, out, err = wye("index", folder, "--index", tmp_path / "i", *words)
    assert (code, "2 added" in out) == (0, True)
    assert "Left out: 2 .xyz, 1 without an ending." in err
    one, two = list_documents(tmp_path / "i").documents
    keys = {"draft": True, "by": "Jane = Doe", "modified": "1970-01-02"}
    assert (one.id, one.title) == ("a.md", "Bridge")
    assert one.passages[0].metadata == {**keys, "year": 1894, "path": "a.md", "folder": ""}
    assert two.passages[0].metadata == {**keys, "year": 1900, "path": "sub/b.html", "folder": "sub"}
    _, out, _ = wye("index", folder, "--index", tmp_path / "i", *words)
    stages = r"2 unchanged \(read .* s, wait for the parse .* s, encode .* s, write .* s\)"
    assert re.search(stages, " ".join(out.split()))


def test_the_columns_of_a_table_are_told_and_a_name_is_searched(tmp_path: Path, wye: Wye) -> None:
    source = tmp_path / "products.csv"
    source.write_text("name,description,price\nZephyr,A light wind jacket,9\nBora,A warm one,8\n")
    code, out, err = wye("index", source, "--index", tmp_path / "i")
    assert (code, "2 added" in out) == (0, True)
    assert err.count(f'{source}: text from all columns, title from "name".\n') == 1
    for number in range(25):
        (tmp_path / f"{number}.csv").write_text("note,year\nA text,1894\n")
    _, _, err = wye("index", tmp_path, "--index", tmp_path / "i")
    assert (err.count("text from all"), "Notes on files: 6 more." in err) == (20, True)
    assert "text from all" not in wye("index", tmp_path, "--index", tmp_path / "i")[2]
    _, out, _ = wye("search", "Zephyr", "--route", "lexical", "--index", tmp_path / "i", "-k", "1")
    assert "Zephyr  products.csv:2" in out


def test_a_pair_that_is_none_is_refused(folder: Path, tmp_path: Path, wye: Wye) -> None:
    code, _, err = wye("index", folder, "--index", tmp_path / "i", "--metadata", "year")
    assert (code, "KEY=VALUE" in err, (tmp_path / "i").exists()) == (2, True, False)


PRESSED = """
import signal, sys
import wye.router.session
from tests.hashing import FakeAnalyser
from wye.service.cli import run

class Pressed(FakeAnalyser):
    def analyse(self, passages):
        yield from super().analyse(passages[:1])
        signal.raise_signal(signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
wye.router.session.Analyser = Pressed
code = run(sys.argv[1:])
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
sys.exit(code)
"""


def test_ctrl_c_is_answered_at_once_and_says_what_is_kept(folder: Path, tmp_path: Path) -> None:
    """In a process of its own, since what escapes would end the tests."""
    done = subprocess.run(
        [sys.executable, "-c", PRESSED, "index", folder, "--index", tmp_path / "i"],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert (done.returncode, "1 added" in done.stdout) == (130, True), done.stderr
    assert done.stderr.index("Stopping.") < done.stderr.index("Interrupted.")
    assert "is kept" in done.stderr
    assert len(list_documents(tmp_path / "i").documents) == 1


def test_another_index_is_a_source_beside_files(
    folder: Path, tmp_path: Path, wye: Wye, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    (tmp_path / "b.txt").write_text("It is in Rome.")
    wye("index", folder, "--index", old)
    analyse, analysed = FakeAnalyser.analyse, list[str]()

    def noted(self: FakeAnalyser, passages: Sequence[Passage]) -> list[PassageAnalysis]:
        analysed.extend(passage.id for passage in passages)
        return analyse(self, passages)

    monkeypatch.setattr(FakeAnalyser, "analyse", noted)
    sources = (old, tmp_path / "b.txt")
    code, out, err = wye("index", *sources, "--index", new, "--metadata", "z=1")
    assert (code, "3 added" in out, analysed) == (0, True, ["b.txt"])
    before, after = list_documents(old).documents, list_documents(new).documents
    assert [one.id for one in after] == ["a.md", "b.txt", "sub/b.html"]
    assert after[0].passages[0].metadata == {**before[0].passages[0].metadata, "z": 1}
    code, out, err = wye("index", *sources, "--index", new, "--metadata", "z=1")
    assert (code, "3 unchanged" in out, analysed, err) == (0, True, ["b.txt"], "")
    monkeypatch.setenv("WYE_ANALYSER__SENTENCE_VECTORS", "plain")
    code, _, err = wye("index", folder, "--index", old)
    assert (code, f"wye index {old} --index NEW" in " ".join(err.split())) == (2, True)
    code, out, err = wye("index", old, "--index", tmp_path / "other")
    assert (code, "2 added" in out, analysed[1:]) == (0, True, ["a.md", "sub/b.html"])


def test_an_index_that_cannot_be_a_source(folder: Path, tmp_path: Path, wye: Wye) -> None:
    old, link = tmp_path / "old", tmp_path / "link"
    wye("index", folder, "--index", old)
    link.symlink_to(old)
    for target in (old, old / "new", link, link / "deep" / "new"):
        code, _, err = wye("index", old, "--index", target)
        said = " ".join(err.split())
        assert (code, "Give --index a new folder outside of it" in said) == (2, True)
    assert not (old / "new").exists()
    assert wye("index", tmp_path / "corpus", "--index", old)[0] == 0  # its files may be beside it
    next((old / "passages.lance" / "data").iterdir()).unlink()
    code, _, err = wye("index", old, "--index", tmp_path / "new")
    assert (code, "wye repair" in err, (tmp_path / "new").exists()) == (2, True, False)


STAFF = "id,title,text\n1,Ada,Ada runs the foundry\n2,Ben,Ben mends the looms\n"
ROOMS = "id,title,text\n1,Attic,It holds the archive\n2,Yard,It holds a crane\n3,Hall,It is empty\n"


def test_two_tables_are_two_sets_and_a_corrected_row_is_replaced(tmp_path: Path, wye: Wye) -> None:
    staff, rooms, old = (tmp_path / name for name in ("staff.csv", "rooms.csv", "old/rooms.csv"))
    old.parent.mkdir()
    staff.write_text(STAFF)
    rooms.write_text(ROOMS)
    old.write_text(ROOMS + "4,Shed,It was demolished\n")

    def index(*sources: Path) -> tuple[str, str]:
        code, out, err = wye("index", *sources, "--index", tmp_path / "i")
        assert code == 0
        return out, err

    assert "2 added" in index(staff)[0]
    assert "3 added" in index(rooms)[0]
    assert "5 unchanged" in index(staff, rooms)[0]
    full = ROOMS.replace("It is empty", "It is full")
    rooms.write_text(full.replace("3,Hall", "5,Loft,-\n3,Hall"))
    assert "1 added, 1 updated, 2 unchanged" in index(rooms)[0]
    out, err = index(rooms, old)
    assert "4 unchanged, 1 skipped" in out
    assert err.startswith(f"Skipped: {old}: id 'rooms.csv:…' is in {rooms} as well; index the")
    assert [one.id for one in list_documents(tmp_path / "i").documents] == [
        *(f"rooms.csv:{n}" for n in (1, 2, 3, 5)),
        *(f"staff.csv:{n}" for n in (1, 2)),
    ]
    assert index(rooms, rooms, staff)[0].count("6 unchanged (") == 1  # nothing is skipped
    assert "10 added" in wye("index", tmp_path, "--index", tmp_path / "new")[1]


def test_documents_of_files_that_are_gone_are_counted_and_pruned(
    folder: Path, tmp_path: Path, wye: Wye
) -> None:
    words = ("index", folder, "--index", tmp_path / "i")
    other = tmp_path / "other" / "sub"
    other.mkdir(parents=True)
    (other / "b.html").write_text("<p>Another folder has a file of this name.</p>")
    (folder / "rooms.csv").write_text(ROOMS)
    (folder / "x.jsonl").write_text('{"id": "7", "text": "A pier."}')
    wye(*words)
    for name in ("sub/b.html", "rooms.csv", "x.jsonl"):
        (folder / name).unlink()
    assert "5 documents are of files that are no longer there; --prune" in wye(*words)[2]
    code, out, err = wye(*words, "--prune", "--dry-run")
    assert (code, out.split()) == (0, ["7", *(f"rooms.csv:{n}" for n in (1, 2, 3)), "sub/b.html"])
    assert "5 documents would be removed" in err
    wye("index", other.parent, "--index", tmp_path / "i")
    assert "4 documents were removed" in wye(*words, "--prune")[2]
    assert wye(*words)[2].count("no longer") == 0
    assert [one.id for one in list_documents(tmp_path / "i").documents] == ["a.md", "sub/b.html"]
    assert wye(*words, "--dry-run")[0] == 2


def test_options_for_reading_and_documents_that_are_not_english(tmp_path: Path, wye: Wye) -> None:
    source = tmp_path / "corpus"
    source.mkdir()
    (source / "a.conf").write_bytes("The café is on the quay.".encode("cp1252"))
    (source / "b.txt").write_bytes("größte Brücke".encode("cp850"))
    (source / "c.md").write_text("Die Brücke ist nicht alt, und der Turm steht auf dem Hügel.")
    (source / "d.csv").write_text("Ada,welder\nBen,fitter\n")
    words = ("index", source, "--index", tmp_path / "i")
    options = ("--encoding", "cp850", "--as-text", ".conf", "--no-header")
    _, out, err = wye(*words, *options)
    assert "5 added" in out
    assert "Not in English by their looks: 1 documents, which rank worse: c.md …" in err
    texts = {one.id: one.passages[0].text for one in list_documents(tmp_path / "i").documents}
    assert (texts["b.txt"], texts["d.csv:1"]) == ("größte Brücke", "welder")
    for wrong in (("--encoding", "nonsense"), ("--as-text", "conf")):
        code, _, err = wye(*words, *wrong)
        assert (code, wrong[1] in err) == (2, True)


def test_an_id_of_another_file_of_an_earlier_run_is_named(tmp_path: Path, wye: Wye) -> None:
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    first.write_text('{"id": "1", "text": "A quay."}\n{"id": "2", "text": "A lock."}\n')
    second.write_text('{"id": "2", "text": "Another lock."}\n{"id": "3", "text": "A weir."}\n')
    words = ("--index", tmp_path / "i")
    why = f"{second} has ids of {first}, which was indexed before: 2 (1 in all)"
    assert "which was" not in wye("index", first, *words)[2] + wye("index", first, *words)[2]
    code, out, err = wye("index", second, *words)
    assert (code, "1 added, 1 updated" in out, why in err) == (0, True, True)
    second.replace(first)
    assert "which was" not in wye("index", first, *words)[2]
