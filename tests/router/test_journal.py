import json
from pathlib import Path

import pytest

from router.errors import JournalError
from router.journal import FEEDBACK, RETRIEVAL, Journal, read_journal


def test_feedback_joins_the_question_it_is_about(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "log.jsonl"
    journal = Journal(path)
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
    journals = [Journal(path), Journal(path)]
    for number in range(10):
        journals[number % 2].write(RETRIEVAL, str(number), {"question": "\u2028 ünïcode"})
    assert [entry.request_id for entry in read_journal(path)] == [str(n) for n in range(10)]


def test_a_line_that_a_kill_cut_off_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    whole = json.dumps({"kind": RETRIEVAL, "request_id": "1"})
    path.write_text(whole + "\n" + whole[:20], encoding="utf-8")
    assert [entry.request_id for entry in read_journal(path)] == ["1"]


@pytest.mark.parametrize("line", ["nonsense", "[]", "{}", '{"kind": "retrieval"}'])
def test_a_line_that_is_none_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(line + "\n", encoding="utf-8")
    with pytest.raises(JournalError, match=r"log.jsonl:1 is no line"):
        list(read_journal(path))


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="cannot be written"):
        Journal(tmp_path)
    with pytest.raises(JournalError, match="cannot be read"):
        list(read_journal(tmp_path / "missing.jsonl"))
