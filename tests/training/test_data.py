from pathlib import Path

import pytest

from wye.training.data import Question, contains_any, read_dataset, respell, words
from wye.training.errors import DatasetError

QUERIES = '{"_id": "q1", "text": "Who?"}\n\n{"_id": "q2", "text": "Where?", "metadata": {}}\n'
HEADER = "query-id\tcorpus-id\tscore\n"


def folder(
    tmp_path: Path, queries: str | None = QUERIES, qrels: str = HEADER + "q2\tp1\t1\nq1\tp2\t2\n"
) -> Path:
    if queries is not None:
        (tmp_path / "queries.jsonl").write_text(queries, encoding="utf-8")
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text(qrels, encoding="utf-8")
    return tmp_path


def test_questions_keep_the_order_of_their_file(tmp_path: Path) -> None:
    dataset = read_dataset(folder(tmp_path), "test")
    assert dataset.questions == (Question("q1", "Who?"), Question("q2", "Where?"))
    assert dataset.judgements == {"q1": {"p2": 2}, "q2": {"p1": 1}}
    assert dataset.name == tmp_path.name


def test_a_question_without_gold_is_left_out_and_named_and_no_header_needed(tmp_path: Path) -> None:
    dataset = read_dataset(folder(tmp_path, qrels="q1\tp1\t0\nq2\tp1\t1\n"), "test")
    assert dataset.without_gold == ("q1",)
    assert list(dataset.judgements) == ["q2"]


@pytest.mark.parametrize(
    ("queries", "qrels", "says"),
    [
        (None, HEADER, "no queries.jsonl"),
        ("{\n", HEADER, "queries.jsonl:1 is not a JSON object"),
        ("[1]\n", HEADER, "queries.jsonl:1 is not a JSON object"),
        ('{"_id": 3, "text": "x"}\n', HEADER, "queries.jsonl:1 needs"),
        (QUERIES + QUERIES, HEADER, "queries.jsonl:4 has question 'q1' again"),
        (QUERIES, HEADER + "q1 p1 1\n", "test.tsv:2 is not a judgement"),
        (QUERIES, HEADER + "q1\tp1\tyes\n", "test.tsv:2 is not a judgement"),
        (QUERIES, HEADER + "q9\tp1\t1\n", "test.tsv:2 judges question 'q9'"),
        (QUERIES, HEADER + "q1\tp1\t1\nq1\tp1\t1\n", "test.tsv:3 judges passage 'p1'"),
        (QUERIES, HEADER, "has no question with a relevant passage"),
    ],
)
def test_faults_name_file_and_line(
    tmp_path: Path, queries: str | None, qrels: str, says: str
) -> None:
    with pytest.raises(DatasetError, match=says):
        read_dataset(folder(tmp_path, queries, qrels), "test")


def test_a_folder_that_is_missing_is_told_as_such(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"^There is no folder '.*nowhere'; name one in"):
        read_dataset(tmp_path / "nowhere", "test")


def test_capitals_and_the_mark_go_and_nothing_else() -> None:
    assert respell("Who is Ada O'Neil? ") == "who is ada o'neil"
    assert respell("is it (yes?) or no") == "is it (yes?) or no"
    assert respell("??") == "??"


def test_a_file_that_is_not_utf8(tmp_path: Path) -> None:
    place = folder(tmp_path)
    (place / "queries.jsonl").write_bytes(b'{"_id": "q1", "text": "caf\xe9"}\n')
    with pytest.raises(DatasetError, match="is not UTF-8"):
        read_dataset(place, "test")


@pytest.mark.parametrize(
    ("text", "answers", "holds"),
    [
        ("He was born in Ur.", ["UR"], True),
        ("He was born in Uruguay.", ["Ur"], False),
        ("the 1st of May, 1901", ["May 1901"], True),
        ("May and 1901", ["May 1901"], False),
        ("anything", [""], False),
        ("anything", ["?!"], False),
        ("anything", [], False),
        ("A\N{NO-BREAK SPACE}B", ["a b"], True),
        ("Straße", ["STRASSE"], True),
    ],
)
def test_word_for_word(text: str, answers: list[str], holds: bool) -> None:
    assert contains_any(words(text), [words(answer) for answer in answers]) is holds
