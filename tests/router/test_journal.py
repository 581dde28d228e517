import gzip
import json
from pathlib import Path

import pytest

from router.errors import JournalError
from router.request_log import FEEDBACK, RETRIEVAL, RequestLog, parse_line, read_journal, read_texts


def test_feedback_joins_the_question_it_is_about(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "log.jsonl"
    journal = RequestLog(path)
    journal.write(RETRIEVAL, "1", {"question": "a"})
    journal.write(RETRIEVAL, "2", {"question": "b"})
    journal.write(FEEDBACK, "1", {"rating": "bad"})
    journal.write(FEEDBACK, "1", {"rating": "good"})
    journal.write(FEEDBACK, "9", {"rating": "lost"})
    journal.close()
    first, second = read_journal(path)
    assert (first.request_id, first.values["question"]) == ("1", "a")
    assert [said["rating"] for said in first.feedback] == ["bad", "good"]
    assert second.feedback == ()


def test_another_process_goes_on_in_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    journals = [RequestLog(path), RequestLog(path)]
    for number in range(10):
        journals[number % 2].write(RETRIEVAL, str(number), {"question": "\u2028 ünïcode"})
    assert [entry.request_id for entry in read_journal(path)] == [str(n) for n in range(10)]


def test_a_line_that_a_kill_cut_off_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    whole = json.dumps({"kind": RETRIEVAL, "request_id": "1"})
    path.write_text(whole + "\n" + whole[:20], encoding="utf-8")
    assert [entry.request_id for entry in read_journal(path)] == ["1"]


@pytest.mark.parametrize(
    "line",
    ["nonsense", "[]", "{}", '{"kind": "retrieval"}', '{"kind": "feedback", "request_id": 1}'],
)
def test_a_line_that_is_none_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(line + "\n", encoding="utf-8")
    with pytest.raises(JournalError, match=r"log.jsonl:1 is no line"):
        list(read_journal(path))


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="cannot be written"):
        RequestLog(tmp_path)
    with pytest.raises(JournalError, match="cannot be read"):
        list(read_journal(tmp_path / "missing.jsonl"))


def test_a_rotated_log_is_read_as_it_is(tmp_path: Path) -> None:
    plain, packed = tmp_path / "log.jsonl", tmp_path / "log.jsonl.1.gz"
    journal = RequestLog(plain)
    journal.write(RETRIEVAL, "1", {"question": "ü"})
    journal.write(FEEDBACK, "1", {"rating": "good"})
    journal.close()
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert list(read_texts(packed)) == list(read_texts(plain))
    assert list(read_journal(packed)) == list(read_journal(plain))


def test_what_is_no_text_is_no_log(tmp_path: Path) -> None:
    cut, latin, wrong = (tmp_path / name for name in ("cut.gz", "latin.jsonl", "wrong.gz"))
    cut.write_bytes(gzip.compress(b"x" * 1000)[:-9])
    latin.write_bytes(b"\xff\n")
    wrong.write_bytes(b"plain")
    for path, says in ((cut, "ended before"), (latin, "is not UTF-8"), (wrong, "cannot be read")):
        with pytest.raises(JournalError, match=says):
            list(read_texts(path))


def test_lines_are_read_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text("a\n\nb", encoding="utf-8")
    assert list(read_texts(path)) == [(1, "a\n"), (2, "\n"), (3, "b")]
    assert parse_line('{"kind": "note", "request_id": "1"}') == {"kind": "note", "request_id": "1"}
    assert parse_line("[" * 100_000) is None
