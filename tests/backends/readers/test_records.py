import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from wye.backends.readers import records
from wye.backends.readers.drafts import Draft
from wye.backends.readers.records import BadLine
from wye.backends.readers.tables import TableRow, documents_of_rows
from wye.backends.sources import DocumentSource
from wye.backends.types import Passage


def read(path: Path, content: str) -> tuple[list[Passage], list[BadLine]]:
    bad: list[BadLine] = []
    path.write_text(content, encoding="utf-8")
    return [*DocumentSource(path).passages(on_bad=bad.append)], bad


def test_lines_of_an_export_are_rows(tmp_path: Path) -> None:
    lines = (
        '{"id": "T-1", "summary": "No network", "by": {"name": "Ada", "tags": ["lan", 2]}}',
        "nonsense",
        '{"id": "T-2", "summary": "No sound", "closed": true, "text": "The jack was loose."}',
        "[]",
    )
    passages, bad = read(tmp_path / "tickets.jsonl", "\n".join(lines))
    assert [(each.id, each.title, each.text) for each in passages] == [
        ("tickets.jsonl:T-1", "", "id: T-1; summary: No network; by name: Ada; by tags: lan, 2"),
        (
            "tickets.jsonl:T-2",
            "",
            "The jack was loose.\n\nid: T-2; summary: No sound; closed: true",
        ),
    ]
    reasons = [(each.line, each.reason) for each in bad]
    assert reasons == [(2, "not JSON: Expecting value at column 1"), (4, "text is empty")]


@pytest.mark.parametrize("content", ['[{"a": {}}, {"a": []}, {}]', '{"a": {}}\n{"a": []}\n{}'])
def test_rows_without_a_value_are_named(tmp_path: Path, content: str) -> None:
    suffix = ".jsonl" if "\n" in content else ".json"
    passages, bad = read(tmp_path / f"x{suffix}", content)
    assert (passages, [(each.line, each.reason) for each in bad]) == (
        [],
        [(number, "text is empty") for number in (1, 2, 3)],
    )


def test_no_table_has_many_empty_cells_and_no_name_is_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "_MOST_CELLS", 100)
    cells: list[int] = []
    monkeypatch.setattr(records, "documents_of_rows", partial(_counted, cells))
    rows = [{"at": {f"{row} {n}": n for n in range(5)}} for row in range(40)]
    lines = map(json.dumps, [*rows, {"k" * 2_000: {"nested": {"in": 1}}}])
    passages, bad = read(tmp_path / "x.jsonl", "\n".join(lines))
    assert max(cells) <= 100
    assert (bad, len(passages)) == ([], 41)
    assert passages[40].text.endswith('k: {"nested": {"in": 1}}')


def _counted(cells: list[int], rows: Sequence[TableRow], *further: Any) -> Iterator[Draft]:  # noqa: ANN401
    cells.append(sum(len(row) for _, row in rows[1:]))
    return documents_of_rows(rows, *further)


@pytest.mark.parametrize("name", ["x.json", "x.jsonl"])
def test_a_row_that_is_nested_too_deeply_is_named_alone(tmp_path: Path, name: str) -> None:
    rows = [f'{{"rope": {level}}}' for level in ("1", '{"a": ' * 65 + "2" + "}" * 65, "3")]
    content = "\n".join(rows) if name.endswith("l") else f"[{', '.join(rows)}]"
    passages, bad = read(tmp_path / name, content)
    assert [each.text for each in passages] == ["1", "3"]
    assert [(each.line, each.reason) for each in bad] == [(2, "is nested too deeply")]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            '[{"host": "web-1", "ip": "10.0.0.1"}, {"host": "web-2", "disk": {"tb": 2}}]',
            [("x.json:1", "web-1", "ip: 10.0.0.1"), ("x.json:2", "web-2", "disk tb: 2")],
        ),
        (
            '\ufeff{"source": "stock", "at": 5, "items": [{"item": "Bolt", "price": 2.5}]}',
            [("x.json:1", "Bolt", "price: 2.5; source: stock")],
        ),
        ('{"a": [1, 2],\n "b": [{"c": 3}]}', [("x.json", "x.json", None)]),
        ('// a comment\n{"a": 1}', [("x.json", "x.json", None)]),
        ("[1, 2]", [("x.json", "x.json", None)]),
        ("[{}]", [("x.json", "x.json", None)]),
    ],
)
def test_a_list_of_objects_in_a_json_file_is_a_table(
    tmp_path: Path, content: str, expected: list[tuple[str, str, str | None]]
) -> None:
    passages, bad = read(tmp_path / "x.json", content)
    text = content.removeprefix("\ufeff")
    assert [(each.id, each.title, each.text) for each in passages] == [
        (id_, title, text if words is None else words) for id_, title, words in expected
    ]
    assert bad == []
    (whole,) = DocumentSource(tmp_path / "x.json", [".json"]).passages()
    assert (whole.id, whole.text) == ("x.json", text)
