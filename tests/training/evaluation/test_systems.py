from collections.abc import Sequence
from pathlib import Path

import pytest

from backends.progress import Silent
from backends.types import Hit, Ranking
from router.policy import Policy
from router.settings import load_settings
from router.types import Decision, Reply, Route, Thresholds
from training.data.dataset import Dataset, Question
from training.data.sources import Source
from training.errors import EvaluationError
from training.evaluation.systems import Chooser, Chosen

L, F, G = Route.LEXICAL, Route.FUSION, Route.GRAPH
FIRST = {
    "one": {L: "a", F: "b", G: "b"},
    "two": {L: "b", F: "b", G: "a"},
    "three": {L: "b", F: "a", G: "a"},
}


class Known:
    """Finds for each question and route one passage that is known beforehand."""

    def __init__(self) -> None:
        self.asked: list[tuple[Route, tuple[str, ...]]] = []

    def search(self, questions: Sequence[str], route: Route, k: int) -> list[Reply]:
        del k
        self.asked.append((route, tuple(questions)))
        return [
            Reply(q, route, Ranking(route, (Hit(FIRST[q][route], 1.0, 1),)), {}, {}, 1)
            for q in questions
        ]

    def decide(self, questions: Sequence[str]) -> list[Decision]:
        borders = Thresholds(0.5, 0.5)
        return [Decision(G if q == "two" else L, 0.1, -2.0, borders, "score") for q in questions]


@pytest.fixture
def chooser(tmp_path: Path) -> Chooser:
    questions = tuple(Question(f"q{n}", text) for n, text in enumerate([*FIRST, " "]))
    judgements = {question.id: {"a": 1} for question in questions}
    return Chooser(
        Known(),
        Policy(Thresholds(0.5, 0.5), L),
        Dataset("here", "test", questions, judgements),
        Source(tmp_path, tmp_path),
        load_settings(),
        tmp_path,
        Silent,
        batch=2,
    )


def test_hindsight_takes_the_best_route_and_of_equals_the_simplest(chooser: Chooser) -> None:
    assert chooser.of("oracle").routes == {"one": L, "two": G, "three": F}


def test_chance_deals_the_routers_choices_anew(chooser: Chooser) -> None:
    found = chooser.of("random").routes
    assert {*found} == {"one", "two", "three"}
    assert sorted(found.values()) == [G, L, L]
    assert chooser.of("random").routes == found


def test_questions_of_one_route_are_asked_together_and_answered_in_order() -> None:
    endpoint = Known()
    chosen = Chosen(endpoint, {"one": L, "two": G, "three": L})
    replies = chosen.search(["one", "two", "three"], Route.AUTO, 5)
    assert [reply.question for reply in replies] == ["one", "two", "three"]
    assert endpoint.asked == [(L, ("one", "three")), (G, ("two",))]


def test_unknown_contenders_are_refused(chooser: Chooser) -> None:
    with pytest.raises(EvaluationError, match="There is no contender 'luck'"):
        chooser.of("luck")
