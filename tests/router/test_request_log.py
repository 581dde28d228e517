import gzip
from pathlib import Path

import pytest

from router.errors import RequestLogError
from router.request_log import FEEDBACK, RETRIEVAL, RequestLog, parse_line, read_texts


def test_another_process_goes_on_in_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "log.jsonl"
    logs = [RequestLog(path), RequestLog(path)]
    for number in range(10):
        logs[number % 2].write(RETRIEVAL, str(number), {"question": "\u2028 ünïcode"})
    lines = [parse_line(text) for _, text in read_texts(path)]
    assert [line and line["request_id"] for line in lines] == [str(n) for n in range(10)]
    assert lines[0] is not None
    assert (lines[0]["kind"], lines[0]["question"]) == (RETRIEVAL, "\u2028 ünïcode")
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "line",
    ["nonsense", "[]", "{}", '{"kind": "retrieval"}', '{"kind": "feedback", "request_id": 1}'],
)
def test_a_line_that_is_none_is_none(line: str) -> None:
    assert parse_line(line) is None


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(RequestLogError, match="cannot be written"):
        RequestLog(tmp_path)
    with pytest.raises(RequestLogError, match="cannot be read"):
        list(read_texts(tmp_path / "missing.jsonl"))


def test_a_rotated_log_is_read_as_it_is(tmp_path: Path) -> None:
    plain, packed = tmp_path / "log.jsonl", tmp_path / "log.jsonl.1.gz"
    log = RequestLog(plain)
    log.write(RETRIEVAL, "1", {"question": "ü"})
    log.write(FEEDBACK, "1", {"rating": "good"})
    log.close()
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert list(read_texts(packed)) == list(read_texts(plain))


def test_what_is_no_text_is_no_log(tmp_path: Path) -> None:
    cut, latin, wrong = (tmp_path / name for name in ("cut.gz", "latin.jsonl", "wrong.gz"))
    cut.write_bytes(gzip.compress(b"x" * 1000)[:-9])
    latin.write_bytes(b"\xff\n")
    wrong.write_bytes(b"plain")
    for path, says in ((cut, "ended before"), (latin, "is not UTF-8"), (wrong, "cannot be read")):
        with pytest.raises(RequestLogError, match=says):
            list(read_texts(path))


def test_lines_are_read_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text("a\n\nb", encoding="utf-8")
    assert list(read_texts(path)) == [(1, "a\n"), (2, "\n"), (3, "b")]
    assert parse_line('{"kind": "note", "request_id": "1"}') == {"kind": "note", "request_id": "1"}
    assert parse_line("[" * 100_000) is None
