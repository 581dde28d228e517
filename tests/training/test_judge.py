from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.fakes import LanguageModel, Say, speaking
from tests.training.made import ranking, replay_of, replayed
from wye.backends.progress import Silent
from wye.backends.types import Ranking
from wye.router.settings import load_settings
from wye.router.types import Route
from wye.training.data.replay import Replay, TrainingReplay
from wye.training.errors import FitError, JudgeError
from wye.training.fit.router import Choices
from wye.training.judge import JUDGED, JudgeClient, LlmJudge, ReplyCache
from wye.training.run import TrainingRun


def reads(*messages: str) -> str:
    """The passage that names the question's last word, as a model would find it."""
    passages, _, question = messages[-1].rpartition("\n\nQuestion: ")
    word = question.rstrip("?").split()[-1]
    return next((line for line in passages.split("\n\n") if word in line), "unknown")


def fails(*statuses: int) -> Say:
    """With each of these in turn, before it reads."""
    left = list(statuses)
    return lambda *messages: left.pop(0) if left else reads(*messages)


@pytest.fixture
def endpoint() -> Iterator[LanguageModel]:
    with speaking(reads) as model:
        yield model


CONTEXT = ["Como is a lake in Lombardy.", "Ada was born in Bergamo."]


def test_an_endpoint_is_asked_for_an_answer(endpoint: LanguageModel) -> None:
    with JudgeClient(endpoint.url, "reader", key="secret") as judge:
        assert judge.answer("Where lies Como?", CONTEXT) == f"[1] {CONTEXT[0]}"
    body = endpoint.requests[0]
    assert body["path"] == "/v1/chat/completions"
    assert body["key"] == "Bearer secret"
    assert body["model"] == "reader"
    assert body["temperature"] == 0
    messages = body["messages"]
    assert isinstance(messages, list)
    assert messages[-1]["content"] == (
        "[1] Como is a lake in Lombardy.\n\n[2] Ada was born in Bergamo.\n\n"
        "Question: Where lies Como?"
    )


def test_what_may_pass_is_tried_again(endpoint: LanguageModel) -> None:
    endpoint.say = fails(503, 429)
    with JudgeClient(endpoint.url, "reader") as judge:
        assert "Lombardy" in judge.answer("Where lies Como?", CONTEXT)
    assert len(endpoint.requests) == 3
    assert endpoint.requests[0]["key"] is None


def test_what_does_not_pass_is_said(endpoint: LanguageModel) -> None:
    endpoint.say = fails(401)
    with JudgeClient(endpoint.url, "reader") as judge:
        with pytest.raises(JudgeError, match=r"did not answer \(status 401.*check the url"):
            judge.answer("Where lies Como?", CONTEXT)
        assert len(endpoint.requests) == 1
        endpoint.say = fails(500, 500, 500)
        with pytest.raises(JudgeError, match="status 500"):
            judge.answer("Where lies Como?", CONTEXT)
        endpoint.say = lambda *_: b"<html>hello"
        with pytest.raises(JudgeError, match="which is not a chat completion"):
            judge.answer("Where lies Como?", CONTEXT)


def test_nobody_listens() -> None:
    with LanguageModel(reads) as model:
        url = model.url
    judge = JudgeClient(url, "reader", tries=2)
    with judge, pytest.raises(JudgeError, match="did not answer"):
        judge.answer("Where lies Como?", CONTEXT)


def test_settings_that_make_no_sense() -> None:
    with pytest.raises(JudgeError, match="give an http"):
        JudgeClient("localhost:8000", "reader")


class Parrot:
    """Answers with the first passage, and counts how often it is asked."""

    identity = "parrot"

    def __init__(self) -> None:
        self.asked: list[Sequence[str]] = []

    def answer(self, question: str, context: Sequence[str]) -> str:
        self.asked.append(context)
        return context[0]


def texts(_: Replay, ids: Sequence[str]) -> dict[str, str]:
    return {id_: "An answer!" if id_ == "a" else f"text of {id_}" for id_ in ids}


def ranked(ids: str) -> Ranking:
    return ranking(Route.DENSE, [(id_, 1 / n) for n, id_ in enumerate(ids, start=1)])


@pytest.fixture
def replay() -> TrainingReplay:
    return replay_of(*(replayed(id_, "a", {}, answered="a") for id_ in ("q1", "q2")))


def reader(parrot: Parrot, kept: Path) -> LlmJudge:
    return LlmJudge(ReplyCache(parrot, kept), texts, Silent)  # type: ignore[arg-type]


def test_a_reader_is_given_the_first_five_passages(replay: TrainingReplay, tmp_path: Path) -> None:
    parrot = Parrot()
    found = reader(parrot, tmp_path / "kept").succeeds([replay], [ranked("abcdefg"), ranked("b")])
    assert found.tolist() == [True, False]
    assert parrot.asked == [["An answer!", *(f"text of {id_}" for id_ in "bcde")], ["text of b"]]


def test_a_question_without_an_answer_is_refused(tmp_path: Path) -> None:
    replay = replay_of(replayed("q1", "a", {}))
    with pytest.raises(JudgeError, match="has no answer in its metadata"):
        reader(Parrot(), tmp_path / "kept").succeeds([replay], [ranked("a")])


def test_what_was_judged_is_not_asked_again_even_after_half_a_line(
    replay: TrainingReplay, tmp_path: Path
) -> None:
    kept, rankings = tmp_path / "deep" / "kept", [ranked("ab"), ranked("ba")]
    first, second = Parrot(), Parrot()
    before = reader(first, kept).succeeds([replay], rankings)
    with kept.open("a", encoding="utf-8") as file:
        file.write('{"key": "interr')
    after = reader(second, kept).succeeds([replay], [*rankings[:1], ranked("ca")])
    assert (before[0], after[0]) == (True, True)
    assert second.asked == [["text of c", "An answer!"]]
    third = Parrot()
    reader(third, kept).succeeds([replay], [*rankings[:1], ranked("ca")])
    assert not third.asked


def test_judging_needs_a_judge(tmp_path: Path) -> None:
    choices = Choices(success=JUDGED)
    with pytest.raises(FitError, match="Give --judge-url and --judge-model"):
        TrainingRun(load_settings(), [], choices, tmp_path, Silent)
    with JudgeClient("http://a/v1", "m") as judge:
        TrainingRun(load_settings(), [], choices, tmp_path, Silent, judge=judge)
