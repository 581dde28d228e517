"""Files of every kind and folders of them, and every way in which a line can be bad."""

import json
import math
import os
import re
import socket
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path

import fsspec
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from wye.backends.errors import SourceError
from wye.backends.files import open_regular
from wye.backends.readers.records import BadLine, Ids
from wye.backends.sources import DocumentSource, local_path
from wye.backends.types import Metadata, Passage


def write(path: Path, *lines: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\n".join(x.encode() if isinstance(x, str) else x for x in lines))
    return path


def line(**fields: object) -> str:
    return json.dumps({"_id": "x", "text": "y", **fields})


def read(path: Path, chunk_words: int | None = None) -> tuple[list[Passage], list[BadLine]]:
    bad: list[BadLine] = []
    return list(DocumentSource(path).passages(chunk_words=chunk_words, on_bad=bad.append)), bad


def test_a_beir_folder(tmp_path: Path) -> None:
    write(
        tmp_path / "corpus.jsonl",
        '{"_id": "1", "title": "T", "text": "One.", "metadata": {"year": 1999, "tags": ["a", 2]}}',
        '{"_id": "2", "title": "", "text": "Two.", "metadata": {}}',
    )
    write(tmp_path / "queries.jsonl", '{"_id": "q", "text": "Which?"}')
    one = Passage("1", "T", "One.", {"year": 1999, "tags": ["a", 2]})
    assert read(tmp_path) == ([one, Passage("2", "", "Two.")], [])


def test_a_jsonl_file_may_leave_out_what_is_optional(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x.jsonl",
        b'\xef\xbb\xbf{"id": "a", "text": "One."}\r',
        "",
        "   ",
        '{"_id": 7, "id": "b", "text": " Two. ", "title": null, "metadata": null, "extra": {}}',
    )
    assert read(path) == ([Passage("a", "", "One."), Passage("7", "", " Two. ")], [])


def test_lines_without_an_id_are_named_by_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    path.write_text('{"from": "Ada", "text": "One."}\n\n{"_id": null, "text": "Two."}\n')
    passages, bad = read(path)
    said = [(passage.id, passage.text) for passage in passages]
    assert (said, bad) == ([("chat.jsonl:1", "One."), ("chat.jsonl:3", "Two.")], [])


@pytest.mark.parametrize(
    ("bad_line", "reason"),
    [
        ('{"_id": "x", "text": "y"', "not JSON: Expecting ',' delimiter at column"),
        ("hello", "not JSON: Expecting value at column 1"),
        ('["x"]', "is a list, not an object"),
        ("3", "is a number, not an object"),
        (line(_id=" "), "_id is empty"),
        (line(_id=True), "_id is a boolean, not a string"),
        (line(_id=1.5), "_id is a number, not a string"),
        *(
            (line(_id=f"a{bad}b"), "contains a control character or an unpaired surrogate")
            for bad in "\0\n\t\r\x9b\u202e\ud800\ud83d"
        ),
        ('{"_id": "x"}', "text is missing"),
        (line(text=None), "text is empty"),
        (line(text=" \n\0\ud83d "), "text is empty"),
        (line(text=["y"]), "text is a list, not a string"),
        (line(title=3), "title is a number, not a string"),
        (line(title="t" * 1_025), "title has 1,025 characters; at most 1,024"),
        (line(metadata=[]), "metadata is a list, not an object"),
        (line(metadata={"k": [1] * 257}), "257 values; at most"),
        (line(metadata={"k": "é" * 8_192}), "metadata has 16,393 bytes as JSON; at most 16,384"),
        (line(metadata=dict.fromkeys(range(65), 1)), "metadata has 65 keys; at most 64"),
        (line(metadata={"k": int("9" * 400)}), "more than 300 digits"),
        (line(metadata={"k": {"a": [{}]}}), "'k.a' holds an object"),
        (line(metadata={"k": [[]]}), "metadata 'k' holds a list"),
        (line(metadata={"k": math.nan}), "NaN is not a number"),
        ('{"_id": "x", "text": "y", "metadata": {"k": 1e999}}', "'k' is inf"),
        (line(_id="ok"), "id 'ok' occurs twice in this file"),
        (b'{"_id": "x", "text": "caf\xe9"}', "not UTF-8: byte 25 is 0xe9"),
        ("[" * 100_000, "nested too deeply"),
        ('{"_id": ' + "9" * 5000 + ', "text": "y"}', "not readable as JSON"),
    ],
)
def test_a_bad_line_is_told_and_passed(tmp_path: Path, bad_line: str | bytes, reason: str) -> None:
    path = write(tmp_path / "x.jsonl", line(_id="ok"), bad_line, line(_id="z"))
    passages, bad = read(path)
    assert [passage.id for passage in passages] == ["ok", "z"]
    [only] = bad
    assert (only.file, only.line) == (str(path), 2)
    assert reason in only.reason
    assert str(only).startswith(f"{path}:2: ")
    with pytest.raises(SourceError, match=r"x\.jsonl:2: .* on_bad") as refused:
        list(DocumentSource(path).passages())
    assert str(refused.value).count("Correct it") == 1


def test_control_characters_go_and_all_other_scripts_stay(tmp_path: Path) -> None:
    text = "a\u0000b\u0007c\r\nd\re\x0cf\tg\x85h\x9b\u202e 👩‍👩‍👧 שלום مرحبا \u202b \ud83d!"
    record = {"id": "é😀", "title": " a\n\u0001b ", "text": text, "metadata": {"k\0": "v\0"}}
    kept = "abc\nd\ne\nf\tg\nh 👩‍👩‍👧 שלום مرحبا \u202b !"
    found = read(write(tmp_path / "x.jsonl", json.dumps(record)))
    assert found == ([Passage("é😀", "a b", kept, {"k": "v"})], [])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=60))
def test_no_bytes_stop_the_reading(tmp_path: Path, content: bytes) -> None:
    for suffix in ("jsonl", "txt", "md"):
        read(write(tmp_path / f"x.{suffix}", content))


def test_a_folder_of_texts_at_any_depth(tmp_path: Path) -> None:
    write(tmp_path / "b" / "deep" / "notes.TXT", "Some notes.")
    write(tmp_path / "a.md", "\ufeff# The *title* #\n\nBody.\n\n## More\n\nText.")
    write(tmp_path / "c.md", "Above.\n# Below\n")
    write(tmp_path / "d.md", "No heading. #tag")
    write(tmp_path / ".hidden.md", "x")
    write(tmp_path / ".git" / "x.md", "x")
    write(tmp_path / "image.png", b"\x89PNG")
    passages, bad = read(tmp_path)
    assert bad == []
    for path in tmp_path.rglob("*.*"):
        os.utime(path, (0, 86_400.0))
    passages, bad = read(tmp_path)

    def place(path: str, folder: str = "") -> Metadata:
        return {"path": path, "folder": folder, "modified": "1970-01-02"}

    assert passages == [
        Passage("a.md", "The title", "Body.\n\nMore\n\nText.", place("a.md")),
        Passage("c.md", "Below", "Above.\n\nBelow", place("c.md")),
        Passage("d.md", "d", "No heading. #tag", place("d.md")),
        Passage("b/deep/notes.TXT", "notes", "Some notes.", place("b/deep/notes.TXT", "b/deep")),
    ]


def test_a_bad_text_file_is_reported_as_a_whole(tmp_path: Path) -> None:
    write(tmp_path / "empty.txt", " \n")
    write(tmp_path / "latin.txt", b"caf\xe9")
    write(tmp_path / "only.md", "<!-- nothing -->")
    write(tmp_path / "z.txt", "fine")
    passages, bad = read(tmp_path)
    assert [passage.id for passage in passages] == ["z.txt"]
    assert [(Path(b.file).name, b.line, b.reason) for b in bad] == [
        ("empty.txt", None, "text is empty"),
        ("latin.txt", None, "is not UTF-8: byte 3 is 0xe9"),
        ("only.md", None, "contains no text; scanned pages need OCR first"),
    ]
    assert str(bad[0]) == f"{tmp_path / 'empty.txt'}: text is empty"


def test_links_that_go_in_circles_are_not_followed(tmp_path: Path) -> None:
    write(tmp_path / "a" / "x.txt", "Text.")
    (tmp_path / "a" / "loop").symlink_to(tmp_path)
    (tmp_path / "a" / "gone.txt").symlink_to(tmp_path / "nowhere.txt")
    passages, bad = read(tmp_path)
    assert [passage.id for passage in passages] == ["a/x.txt"]
    assert [b.reason.split(":")[0] for b in bad] == ["cannot be read"]


def test_text_files_are_chunked_and_lines_only_when_asked_or_huge(tmp_path: Path) -> None:
    def record(text: str) -> Path:
        return write(tmp_path / "x.jsonl", line(_id="d", text=text))

    text = "Word word word word word. " * 60  # 300 words
    file = write(tmp_path / "long.txt", text)
    assert [(p.id, p.document, p.chunk) for p in read(file)[0]] == [
        ("long.txt#0000", "long.txt", 0),
        ("long.txt#0001", "long.txt", 1),
    ]
    assert len(read(file, chunk_words=100)[0]) == 3
    assert [p.id for p in read(record(text))[0]] == ["d"]
    assert [p.id for p in read(record(text), chunk_words=100)[0]] == ["d#0000", "d#0001", "d#0002"]
    huge = text * 600
    passages, bad = read(record(huge))
    assert bad == []
    assert len(passages) == 90
    assert {passage.document for passage in passages} == {"d"}
    assert " ".join(passage.text for passage in passages) == huge.strip()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere.jsonl", r"no file or folder .*nowhere\.jsonl"),
        ("picture.png", "has an unsupported type. Give a file that ends in .txt, .md"),
        ("empty", r"neither corpus\.jsonl nor a file that .* It contains 2 \.xyz, 1 without an"),
    ],
)
def test_what_is_no_source_is_refused_at_the_call(tmp_path: Path, name: str, message: str) -> None:
    write(tmp_path / "picture.png", b"")
    for other in ("a.xyz", "b.XYZ", "c"):
        write(tmp_path / "empty" / other, b"")
    with pytest.raises(SourceError, match=message):
        DocumentSource(tmp_path / name)


def test_rows_of_parquet(tmp_path: Path) -> None:
    rows = pa.table(
        {
            "id": [1, 2, 2, 3],
            "title": ["Mostar", None, "", ""],
            "text": ["The Old Bridge.", "The Neretva.", "Again.", None],
            "vector": [[0.5], [0.5], [0.5], None],
            "metadata": [
                {"year": 1566, "day": date(1566, 7, 1), "of": None},
                None,
                None,
                {"year": 3, "day": None, "of": "x"},
            ],
        }
    )
    parquet.write_table(rows, tmp_path / "rows.parquet")
    passages, bad = read(tmp_path / "rows.parquet")
    assert passages == [
        Passage("1", "Mostar", "The Old Bridge.", {"year": 1566, "day": "1566-07-01"}),
        Passage("2", "", "The Neretva."),
    ]
    reasons = [(each.line, each.reason) for each in bad]
    assert reasons == [(3, "id '2' occurs twice in this file"), (4, "text is missing")]
    assert DocumentSource(tmp_path / "rows.parquet").expected == 4
    maps = pa.map_(pa.string(), pa.string())
    named = pa.table({"_id": ["m"], "text": ["M."], "metadata": pa.array([[("a", "b")]], maps)})
    parquet.write_table(named, tmp_path / "named.parquet")
    assert read(tmp_path / "named.parquet")[0] == [Passage("m", "", "M.", {"a": "b"})]
    write(tmp_path / "none.parquet", b"PAR1 nonsense")
    assert "read as a Parquet file" in read(tmp_path / "none.parquet")[1][0].reason


ROOMS = "id,title,text\n1,Attic,The attic holds the archive\n2,Yard,The yard holds a crane\n"


def test_the_id_of_a_row_begins_with_that_of_its_file(tmp_path: Path) -> None:
    write(tmp_path / "rooms.csv", ROOMS)
    write(tmp_path / "staff.csv", "ID,text\n2,Ben mends the looms\n1,Ada runs the foundry\n")
    write(tmp_path / "old" / "rooms.csv", "_id;text\n1;The attic was empty\n;A row without an id\n")
    write(tmp_path / "plain.csv", "text\nOne\n\nTwo\n")
    passages, bad = read(tmp_path)
    assert bad == []
    assert [(passage.id, passage.text.split()[0]) for passage in passages] == [
        ("plain.csv:2", "One"),
        ("plain.csv:4", "Two"),
        ("rooms.csv:1", "The"),
        ("rooms.csv:2", "The"),
        ("staff.csv:2", "Ben"),
        ("staff.csv:1", "Ada"),
        ("old/rooms.csv:1", "The"),
        ("old/rooms.csv:line-3", "A"),
    ]
    passages = read(tmp_path / "rooms.csv")[0]
    assert [passage.id for passage in passages] == ["rooms.csv:1", "rooms.csv:2"]


@pytest.mark.parametrize("id_", ["a b", "a/b", "#7", "x#0001", "é", "0", "007", "x" * 300])
def test_odd_ids_of_rows(tmp_path: Path, id_: str) -> None:
    path = write(
        tmp_path / "x.csv", "\ufeffid;text;n", f"{id_};Fine;1", ";No id;2", f"{id_};Late;3"
    )
    passages, bad = read(path)
    assert [passage.document for passage in passages] == [f"x.csv:{id_}", "x.csv:line-3"]
    assert [str(each) for each in bad] == [f"{path}:4: id 'x.csv:{id_}' occurs twice in this file"]


def test_a_document_with_the_id_of_another_file_s_is_named_with_both(tmp_path: Path) -> None:
    one = write(
        tmp_path / "a.jsonl", '{"_id": "7", "text": "One."}', '{"_id": "8", "text": "Two."}'
    )
    other = write(
        tmp_path / "b" / "a.jsonl", '{"_id": "8", "text": "Late."}', '{"_id": "9", "text": "New."}'
    )
    said = f"{other}:1: id '8' is in {one} as well; give each document its own"
    passages, bad = read(tmp_path)
    assert [passage.id for passage in passages] == ["7", "8", "9"]
    assert [str(each) for each in bad] == [said]
    with pytest.raises(SourceError, match=re.escape(said)):
        list(DocumentSource(tmp_path).passages())
    # Two sources: files of one name, and a table of whose rows none is taken.
    for name in ("c.txt", "d.csv"):
        write(tmp_path / name, "text", "A text")
        write(tmp_path / "b" / name, "text", "A text", "More")
    ids, bad = Ids(), []
    for source in (tmp_path / "c.txt", tmp_path / "d.csv", tmp_path / "b"):
        passages = list(DocumentSource(source).passages(on_bad=bad.append, ids=ids))
    assert [passage.id for passage in passages] == ["8", "9"]
    assert [(each.file, each.line, str(tmp_path) in each.reason) for each in bad] == [
        (str(tmp_path / "b" / "c.txt"), None, True),
        (str(tmp_path / "b" / "d.csv"), None, True),
    ]


def test_what_cannot_be_read_has_no_ids(tmp_path: Path) -> None:
    ids, ended = Ids(), b"caf\xe9"
    for name in ("c.txt", "d.csv", "e.md"):
        write(tmp_path / "a" / name, "text", ended)
        write(tmp_path / "b" / name, "text", "A text")
    bad: list[BadLine] = []
    read_ = [
        [each.id for each in DocumentSource(tmp_path / name).passages(on_bad=bad.append, ids=ids)]
        for name in "ab"
    ]
    assert (read_, len(bad)) == ([[], ["c.txt", "d.csv:2", "e.md"]], 3)


@pytest.fixture
def sockets(tmp_path: Path) -> Iterator[Path]:
    """A folder with everything that is no file, and one that is."""
    folder = tmp_path / "f"
    write(folder / "a.txt", "A note about the gate.")
    for suffix in ("txt", "md", "csv", "jsonl", "parquet", "pdf"):
        os.mkfifo(folder / f"pipe.{suffix}")
    (folder / "link.txt").symlink_to(folder / "pipe.txt")
    (folder / "null.txt").symlink_to("/dev/null")
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(folder / "socket.md"))
        yield folder


def test_what_is_no_file_is_named_and_not_waited_for(sockets: Path) -> None:
    passages, bad = read(sockets)
    assert [passage.id for passage in passages] == ["a.txt"]
    assert sorted(str(each).removeprefix(f"{sockets}/") for each in bad) == [
        "link.txt: is a pipe, not a file",
        "null.txt: is a device, not a file",
        "pipe.csv: is a pipe, not a file",
        "pipe.jsonl: is a pipe, not a file",
        "pipe.md: is a pipe, not a file",
        "pipe.parquet: is a pipe, not a file",
        "pipe.pdf: is a pipe, not a file",
        "pipe.txt: is a pipe, not a file",
        "socket.md: is a socket, not a file",
    ]
    for name in ("pipe.csv", "link.txt", "socket.md", "null.txt"):
        with pytest.raises(SourceError, match=rf"{name} is a \w+, not a file\."):
            DocumentSource(sockets / name)
    os.mkfifo(sockets / "corpus.jsonl")
    with pytest.raises(SourceError, match=r"corpus\.jsonl is a pipe, not a file\."):
        DocumentSource(sockets)


def test_a_pipe_that_takes_the_place_of_a_file_is_not_waited_for(
    sockets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wye.backends.files.require_regular", lambda path: None)
    with open_regular(sockets / "pipe.txt") as file:
        assert not file.read()


FILES = {
    "a.jsonl": '{"_id": "a", "text": "Anna met Bob."}\nnonsense\n',
    "deep/b.md": "# Mostar\n\nThe Old Bridge spans the Neretva.",
    "deep/.hidden/c.txt": "Nobody reads this.",
    "picture.png": "",
}


@pytest.fixture
def store() -> Iterator[str]:
    memory = fsspec.filesystem("memory")
    for name, content in FILES.items():
        memory.pipe(f"/corpus/{name}", content.encode())
    yield "fsspec+memory:///corpus"
    memory.rm("/corpus", recursive=True)


def read_at(source: str | Path) -> tuple[list[Passage], list[BadLine], DocumentSource]:
    bad: list[BadLine] = []
    found = DocumentSource(source)
    return list(found.passages(on_bad=bad.append)), bad, found


def undated(passages: list[Passage]) -> list[Passage]:
    """Whatever the day on which a file was changed."""
    return [replace(p, metadata={**p.metadata, "modified": ""}) for p in passages]


def test_they_are_the_documents_of_the_same_folder(store: str, tmp_path: Path) -> None:
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    there, bad, found = read_at(store)
    here, bad_here, _ = read_at(tmp_path)
    assert undated(there) == undated(here)
    assert [passage.id for passage in there] == ["a", "deep/b.md"]
    assert [(each.line, each.reason) for each in bad] == [(2, bad_here[0].reason)]
    assert bad[0].file == "/corpus/a.jsonl"
    assert found.left_out == {".png": 1}
    assert read_at(tmp_path.as_uri())[0] == here
    assert read_at(f"{store}/a.jsonl")[0] == there[:1]
    assert not [*Path(tempfile.gettempdir()).glob("wye-source-*")]


def test_of_a_folder_in_the_layout_of_beir_the_corpus_is_read(store: str) -> None:
    line = b'{"_id": "q", "text": "Quinn met Rob."}'
    fsspec.filesystem("memory").pipe("/corpus/corpus.jsonl", line)
    passages, _, found = read_at(store)
    assert ([passage.id for passage in passages], found.files) == (["q"], 1)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("fsspec+memory:///nowhere", "cannot be read"),
        ("gopher://somewhere/corpus", "Unrecognized filesystem"),
        ("fsspec+memory:///corpus/picture.png", "has an unsupported type"),
    ],
)
def test_what_cannot_be_read(store: str, address: str, message: str) -> None:
    assert DocumentSource(store).files == 2
    with pytest.raises(SourceError, match=message):
        DocumentSource(address)


def test_paths_are_no_addresses(tmp_path: Path) -> None:
    assert local_path("a/b") == Path("a/b")
    assert local_path((tmp_path / "a b").as_uri()) == tmp_path / "a b"
    assert local_path("s3://bucket/folder") is None
