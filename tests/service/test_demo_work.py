"""The second demo corpus: its questions fit its files, and its binary files are as made."""

import csv
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import docx
import openpyxl
import pptx
import pypdf
import pytest

from tests.service.make_demo_work import build

DEMO = Path(__file__).parents[2] / "service" / "demo_work"
FILES = DEMO / "files"
TURNS = ("train", "test", "dev", "train", "test")
ENCODINGS = {"parking-quay-house.txt": "cp1252", "winter-notice-2030-31.txt": "utf-16"}
TABLES = (".csv", ".xlsx", ".jsonl", ".mbox")


def blocks(path: Path) -> list[str]:
    """The paragraphs of a file; rows with tabs between cells; whole pages of a PDF."""
    if path.suffix == ".xlsx":
        sheets = openpyxl.load_workbook(path)
        rows = [row for sheet in sheets for row in sheet.iter_rows(values_only=True)]
        return ["\t".join(str(value).removesuffix(" 00:00:00") for value in row) for row in rows]
    if path.suffix == ".pptx":
        shapes = [shape for slide in pptx.Presentation(str(path)).slides for shape in slide.shapes]
        tables = [shape.table for shape in shapes if shape.has_table]
        return [shape.text for shape in shapes if shape.has_text_frame] + rows_of(tables)
    if path.suffix == ".docx":
        pages = docx.Document(str(path))
        return [paragraph.text for paragraph in pages.paragraphs] + rows_of(pages.tables)
    if path.suffix == ".pdf":
        return [page.extract_text() for page in pypdf.PdfReader(path).pages]
    text = path.read_text(ENCODINGS.get(path.name, "utf-8"))
    if path.suffix == ".csv":
        return ["\t".join(row) for row in csv.reader(text.splitlines())]
    ends = {".jsonl": "\n", ".html": "\n", ".mbox": "\nFrom "}
    return text.split(ends.get(path.suffix, "\n\n"))


def rows_of(tables: Iterable[Any]) -> list[str]:
    rows = [row for table in tables for row in table.rows]
    return ["\t".join(cell.text for cell in row.cells) for row in rows]


def records(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DEMO / name).read_text("utf-8").splitlines()]


def in_turns(keys: Mapping[str, Sequence[object]]) -> dict[str, str]:
    """Splits as the README says: sorted by the key and SHA-256 of the id, then in turns."""
    order = sorted(keys, key=lambda one: (*keys[one], sha256(one.encode()).hexdigest()))
    return {one: TURNS[at % 5] for at, one in enumerate(order)}


@pytest.fixture(scope="module")
def texts() -> dict[str, list[str]]:
    paths = (path for path in FILES.rglob("*") if path.is_file())
    return {path.relative_to(FILES).as_posix(): blocks(path) for path in paths}


def test_questions_fit_the_files(texts: dict[str, list[str]]) -> None:
    golds: dict[str, list[str]] = {}
    # A line with an id of its own is judged by that.
    lines_of = {
        name: [json.loads(row) for row in rows if row]
        for name, rows in texts.items()
        if "jsonl" in name
    }
    file_of = {line["id"]: name for name, rows in lines_of.items() for line in rows if "id" in line}
    splits: dict[str, str] = {}
    for split in ("train", "dev", "test"):
        lines = (DEMO / "qrels" / f"{split}.tsv").read_text("utf-8").splitlines()
        for query, document, _ in (line.split("\t") for line in lines[1:]):
            assert splits.setdefault(query, split) == split
            golds.setdefault(query, []).append(file_of.get(document, document))
    meta = {query["_id"]: query["metadata"] for query in records("queries.jsonl")}
    assert len(meta) == 200
    assert splits == in_turns({one: (meta[one]["type"], meta[one]["hops"]) for one in meta})
    assert Counter(splits.values()) == {"train": 80, "dev": 40, "test": 80}
    assert sum(one["hops"] > 1 for one in meta.values()) >= 70
    for query, one in meta.items():
        documents = golds[query]
        assert one["hops"] == len(set(documents) - set(one.get("also", ()))), query
        text = "\n".join(block for document in documents for block in texts[document])
        assert [answer for answer in one["answers"] if answer not in text] == [], query
        assert set(one.get("row", ())) == {name for name in documents if name.endswith(TABLES)}
        for name, cells in one.get("row", {}).items():
            is_table = name.endswith((".csv", ".xlsx"))
            rows = [row.split("\t") if is_table else row for row in texts[name]]
            assert sum(all(cell in row for cell in cells) for row in rows) == 1, (query, name)


def test_what_is_not_there_is_not_there(texts: dict[str, list[str]]) -> None:
    near, other = records("near_misses.jsonl"), records("other_subjects.jsonl")
    assert Counter(one["split"] for one in near) == {"train": 24, "dev": 12, "test": 24}
    assert Counter(one["split"] for one in other) == {"train": 16, "dev": 8, "test": 16}
    for some in (near, other):
        splits = {one["_id"]: one["split"] for one in some}
        assert splits == in_turns(dict.fromkeys(splits, ()))
    for one in near:
        name, words = one["metadata"]["name"], one["metadata"]["attribute"]
        beside = [part for parts in texts.values() for part in parts if name in part]
        pattern = "|".join(rf"\b{re.escape(word)}\b" for word in words)
        assert beside, f"{name} is nowhere"
        assert not [part for part in beside if re.search(pattern, part, re.IGNORECASE)], one["text"]


def test_binary_files_are_as_made(tmp_path: Path, texts: dict[str, list[str]]) -> None:
    made = {path.as_posix() for path in build(DEMO / "sources", tmp_path)}
    assert made >= {name for name in texts if name.endswith((".xlsx", ".pptx", ".docx", ".pdf"))}
    for name in made:
        here, there = FILES / name, tmp_path / name
        if here.suffix in {".txt", ".pdf"}:
            assert here.read_bytes() == there.read_bytes(), name
            continue
        # Only the same zlib compresses alike.
        with ZipFile(here) as one, ZipFile(there) as other:
            parts = one.namelist()
            assert parts == other.namelist()
            assert [part for part in parts if one.read(part) != other.read(part)] == [], name
    sizes = [path.stat().st_size for path in DEMO.rglob("*") if path.is_file()]
    assert max(sizes) <= 200_000 < sum(sizes) <= 1_500_000
