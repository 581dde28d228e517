import json
from functools import partial
from pathlib import Path

import pytest

from tests.fakes import Router, Wye
from tests.training.made import write_dataset
from wye.router.types import Route
from wye.training.cli import parse_routes
from wye.training.errors import EvaluationError

pytestmark = pytest.mark.usefixtures("reading_models")


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    return write_dataset(
        tmp_path / "tiny",
        [("a", "Ada", "Ada met Babbage."), ("b", "Babbage", "Babbage built engines.")],
        [("q1", "Who met Babbage?"), ("q2", "What did Babbage build?")],
        {"test": ["q1\ta\t1", "q2\tb\t1"]},
    )


@pytest.fixture
def evaluate(
    tmp_path: Path,
    dataset: Path,
    handmade_router: Router,
    monkeypatch: pytest.MonkeyPatch,
    wye: Wye,
) -> Wye:
    router = handmade_router(tmp_path / "models", "words", 4.0)
    monkeypatch.setenv("WYE_ROUTER__MODEL", str(router))
    index = ["--index", str(tmp_path / "index")]
    assert wye("index", dataset, *index)[0] == 0
    return partial(wye, "eval", dataset, *index)


def test_it_prints_measures_differences_and_latency(evaluate: Wye) -> None:
    code, out, _ = evaluate()
    assert code == 0
    for word in ("R@5", "all-evidence@5", "fusion", "- dense", "Milliseconds", "total"):
        assert word in out


def test_it_prints_all_numbers_as_json(evaluate: Wye) -> None:
    code, out, _ = evaluate("--json", "--routes", "dense,graph")
    assert code == 0
    numbers = json.loads(out)
    assert {*numbers["routes"]} == {"dense", "graph"}
    assert numbers["questions"] == 2
    assert "graph - dense" in numbers["differences"]
    assert numbers["latency"]["milliseconds"]["dense"]["total"] > 0


def test_the_same_questions_give_the_same_numbers(evaluate: Wye) -> None:
    one, two = (json.loads(evaluate("--json")[1]) for _ in range(2))
    assert one.pop("latency").keys() == two.pop("latency").keys()
    assert json.dumps(one) == json.dumps(two)


def test_an_unanswered_question_fails_the_run(evaluate: Wye, dataset: Path) -> None:
    with (dataset / "queries.jsonl").open("a", encoding="utf-8") as file:
        file.write('\n{"_id": "q3", "text": "zzz"}')
    with (dataset / "qrels" / "test.tsv").open("a", encoding="utf-8") as file:
        file.write("\nq3\ta\t1")
    code, _, err = evaluate("--routes", "lexical")
    assert (code, err) == (1, "1 questions went unanswered: q3\n")


def test_passages_that_the_index_lacks_are_told(evaluate: Wye, dataset: Path) -> None:
    judged = dataset / "qrels" / "test.tsv"
    judged.write_text(judged.read_text(encoding="utf-8").replace("\tb\t", "\tb.md\t"))
    code, _, err = evaluate("--routes", "dense")
    assert code == 0
    assert "lacks 1 of the 2 passages that split 'test' of 'tiny' judges relevant" in err
    assert "such as 'b.md'" in err
    judged.write_text(judged.read_text(encoding="utf-8").replace("\ta\t", "\ta.md\t"))
    code, _, err = evaluate("--routes", "dense")
    assert (code, "lacks 2 of the 2 passages" in err) == (2, True)


def test_advice_needs_no_judgements(evaluate: Wye, tmp_path: Path, wye: Wye) -> None:
    code, out, _ = evaluate("--advise")
    assert (code, "2 questions" in out, "hybrid" in out) == (0, True, True)
    file, index = tmp_path / "questions.txt", ("--index", tmp_path / "index")
    rows = "Who met Babbage?", '{"question": "A log?"}', '{"kind": "feedback"}', "Who met Babbage?"
    file.write_text("\n\n".join(rows), encoding="utf-8")
    code, out, _ = wye("eval", "--advise", file, *index)
    assert (code, "2 questions" in out) == (0, True)
    for text, says in (("\n", "has no question"), ('{"id": 1}', "questions.txt:1 has no")):
        file.write_text(text, encoding="utf-8")
        code, _, err = wye("eval", "--advise", file, *index)
        assert (code, says in err) == (2, True)
    assert wye("eval", "--advise", tmp_path / "none.txt", *index)[0] == 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--split", "dev"], "its splits: test"),
        (["--routes", "dense,sparse"], "There is no route 'sparse'"),
        (["--routes", ","], "No route was named"),
    ],
)
def test_mistakes_are_one_sentence(evaluate: Wye, arguments: list[str], says: str) -> None:
    code, _, err = evaluate(*arguments)
    assert (code, says in err) == (2, True)


def test_routes_are_asked_once_each() -> None:
    assert parse_routes("graph, dense,graph") == [Route.GRAPH, Route.DENSE]
    with pytest.raises(EvaluationError):
        parse_routes("")
