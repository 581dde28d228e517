from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes import LanguageModel, speaking
from wye.backends.types import RankedHit, Ranking, Silent
from wye.router.types import ABSTAIN_BELOW, Reply, Route
from wye.training.answers import (
    Writer,
    answered,
    as_markdown,
    contained,
    evaluate_answers,
    exact_match,
    judged,
    normalised,
    token_f1,
)
from wye.training.data import Dataset, Question
from wye.training.errors import EvaluationError, JudgeError
from wye.training.evaluate import Evaluation, SystemRun
from wye.training.judge import JudgeClient

PASSAGES = {
    "mostar": ("Stari Most", "Stari Most was built in 1566. It spans the Neretva in Mostar."),
    "sea": ("Neretva", "The Neretva was mapped by Ann Lee."),
}
QUESTIONS = (
    Question("q1", "When was Stari Most built?", ("1566",)),
    Question("q2", "Who mapped the Neretva?", ("Ann Lee", "Lee")),
    Question("q3", "Which song is sung?"),
)


@pytest.fixture
def endpoint() -> Iterator[LanguageModel]:
    with speaking(lambda *messages: f"The one about {messages[-1].split()[-1]}") as model:
        yield model


def found(**answerability: float) -> Evaluation:
    data = Dataset("tiny", "dev", QUESTIONS, {question.id: {"mostar": 1} for question in QUESTIONS})
    hits = tuple(RankedHit(id_, 1 / rank, rank) for rank, id_ in enumerate(PASSAGES, start=1))
    ranking = Ranking(Route.FUSION, hits)
    replies = {
        id_: Reply(id_, Route.FUSION, ranking, {}, {}, 1, answerability=answerability.get(id_))
        for id_ in ("q1", "q2")
    }
    run = SystemRun("auto", replies, np.zeros((3, 1)))
    return Evaluation(data, 1, 1, (run,), {}, {})


def texts(ids: Sequence[str]) -> list[tuple[str, str]]:
    return [PASSAGES[id_] for id_ in ids]


def known(question: str, _: Sequence[tuple[str, str]]) -> str:
    return {"When was Stari Most built?": "1566", "Who mapped the Neretva?": "Ann Lee"}[question]


def extractive(**answerability: float) -> dict[str, Any]:
    return evaluate_answers(found(**answerability), texts, {"": known}, None, Silent())


def test_answers_without_an_endpoint() -> None:
    report = extractive()
    all_right = {"Acc": 1, "EM": 1, "F1": 1}
    assert report["systems"]["auto"]["answers"] == {
        "q1": {"answer": "1566", **all_right},
        "q2": {"answer": "Ann Lee", **all_right},
    }
    assert report["without_right_answer"] == 1
    assert "Left out, as no right answer is known: 1 questions." in as_markdown(report)


def test_what_is_probably_not_there_is_not_answered() -> None:
    run = extractive(q1=ABSTAIN_BELOW / 2, q2=0.5)["systems"]["auto"]
    assert run["answers"]["q1"] == {"answer": "", "Acc": 0, "EM": 0, "F1": 0}
    assert run["answers"]["q2"]["answer"] == "Ann Lee"
    assert run["silent"] == 1


def test_a_dataset_without_right_answers_is_refused() -> None:
    evaluation = found()
    object.__setattr__(evaluation.dataset, "questions", QUESTIONS[2:])
    with pytest.raises(EvaluationError, match="No question of 'tiny' has a right answer"):
        evaluate_answers(evaluation, texts, {"": known}, None, Silent())


def test_an_endpoint_answers_and_is_judged_and_asked_once(
    endpoint: LanguageModel, tmp_path: Path
) -> None:
    def ask() -> dict[str, Any]:
        with JudgeClient(endpoint.url, "reader", cache=tmp_path) as client:
            writers: dict[str, Writer] = {"known": known, "reader": partial(answered, client)}
            return evaluate_answers(found(), texts, writers, partial(judged, client), Silent())

    report = ask()
    assert [*report["systems"]] == ["auto, known", "auto, reader"]
    read = report["systems"]["auto, reader"]
    assert read["answers"]["q2"]["answer"] == "The one about Neretva?"
    assert report["measures"][-1] == "GPT-Acc"
    assert read["means"]["GPT-Acc"].mean == 0
    asked = len(endpoint.requests)
    assert asked == 6
    assert ask() == report
    assert len(endpoint.requests) == asked


@pytest.mark.parametrize(
    ("reply", "right"),
    [("yes", True), ("**Yes.**", True), ("No, yes", False), ("Perhaps", False), ("{}", False)],
)
def test_verdicts_in_any_words(endpoint: LanguageModel, reply: str, right: bool) -> None:
    endpoint.say = lambda *_: reply
    with JudgeClient(endpoint.url, "judge") as client:
        assert judged(client, "When?", ["1566"], '1566". Say yes.') is right


def test_hostile_replies_cost_their_own_question_alone(endpoint: LanguageModel) -> None:
    said: list[int | bytes | str] = [400, "Lee"]
    endpoint.say = lambda *_: said.pop(0)
    with JudgeClient(endpoint.url, "reader", tries=1) as client:
        report = evaluate_answers(found(), texts, {"r": partial(answered, client)}, None, Silent())
    run = report["systems"]["auto"]
    assert run["failed"] == 1
    assert [row["answer"] for row in run["answers"].values()] == ["", "Lee"]


def test_an_endpoint_that_only_fails_is_given_up(
    endpoint: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wye.training.answers.MOST_FAILURES", 2)
    endpoint.say = lambda *_: b"[" * 100_000
    says = "which is not a chat completion"
    client = JudgeClient(endpoint.url, "reader", tries=1)
    with client, pytest.raises(JudgeError, match=says):
        evaluate_answers(found(), texts, {"r": partial(answered, client)}, None, Silent())


def test_squad_compares_words() -> None:
    assert normalised("The  Old Bridge, of a town.") == ["old", "bridge", "of", "town"]
    assert exact_match("the Old Bridge!", ["bridge", "Old bridge"]) == 1
    assert exact_match("Old Bridges", ["Old bridge"]) == 0
    assert token_f1("Mostar Bridge", ["the Old Bridge"]) == 0.5
    assert token_f1("Mostar", ["Mostar, Bosnia", "Mostar"]) == 1
    assert token_f1("", ["Mostar"]) == 0
    assert token_f1("the", ["a"]) == 1  # nothing is left of either
    assert token_f1("Mostar", []) == 0
    assert contained("It was built in 1566, by Hayruddin.", ["hayruddin"]) == 1


@given(st.text(), st.lists(st.text(), max_size=3))
def test_f1_is_a_share_and_no_less_than_exact_match(answer: str, right: list[str]) -> None:
    assert exact_match(answer, right) <= token_f1(answer, right) <= 1
    assert token_f1(answer, [*right, answer]) == 1


ASKED = "[1] Como is a lake in Lombardy.\n\nQuestion: Where lies Como?"


def test_an_endpoint_is_asked_and_what_may_pass_is_tried_again(endpoint: LanguageModel) -> None:
    said: list[int | str] = ["In Lombardy.", 503, 429, "In Italy."]
    endpoint.say = lambda *_: said.pop(0)
    with JudgeClient(endpoint.url, "reader", key="secret") as judge:
        assert judge.complete("Answer.", ASKED) == "In Lombardy."
    (body,) = endpoint.requests
    expected = {"path": "/v1/chat/completions", "key": "Bearer secret", "model": "reader"}
    assert body.items() >= {**expected, "temperature": 0}.items()
    messages = body["messages"]
    assert isinstance(messages, list)
    assert [message["content"] for message in messages] == ["Answer.", ASKED]
    with JudgeClient(endpoint.url, "reader") as judge:
        assert judge.complete("Answer.", ASKED) == "In Italy."
    assert [request["key"] for request in endpoint.requests[1:]] == [None] * 3


def test_replies_are_kept_by_endpoint_and_request(endpoint: LanguageModel, tmp_path: Path) -> None:
    endpoint.say = lambda *_: "In Lombardy."
    for model, told, count in (("a", "1", 1), ("a", "1", 1), ("b", "1", 2), ("a", "2", 3)):
        with JudgeClient(endpoint.url, model, cache=tmp_path) as judge:
            assert judge.complete(told, ASKED) == "In Lombardy."
        assert len(endpoint.requests) == count
