from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from backends.types import RankedHit, Ranking
from router.policy import Policy
from router.types import Decision, Reply, Route, Thresholds
from training.data.dataset import Dataset, Question
from training.evaluation.systems import ChosenRoutes, choose_routes
from training.fit.baselines import BASELINES

if TYPE_CHECKING:
    from router.gateway import Gateway

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
            Reply(q, route, Ranking(route, (RankedHit(FIRST[q][route], 1.0, 1),)), {}, {}, 1)
            for q in questions
        ]

    def decide(self, questions: Sequence[str]) -> list[Decision]:
        borders = Thresholds(0.5, 0.5)
        return [Decision(G if q == "two" else L, 0.1, -2.0, borders, "score") for q in questions]


def chosen(*names: str) -> dict[str, ChosenRoutes]:
    questions = tuple(Question(f"q{n}", text) for n, text in enumerate([*FIRST, " "]))
    dataset = Dataset("here", "test", questions, {question.id: {"a": 1} for question in questions})
    gateway, policy = cast("Gateway", Known()), Policy(Thresholds(0.5, 0.5), L)
    learned = {name: np.array([2, 1, 0, 0]) for name in BASELINES}
    return choose_routes(names, gateway, policy, dataset, lambda: learned, batch=2)


def test_hindsight_takes_the_best_route_and_of_equals_the_simplest() -> None:
    assert chosen("oracle")["oracle"].routes == {"one": L, "two": G, "three": F}


def test_chance_deals_the_routers_choices_anew() -> None:
    found = chosen("random")["random"].routes
    assert {*found} == {"one", "two", "three"}
    assert sorted(found.values()) == [G, L, L]
    assert chosen("random")["random"].routes == found


def test_a_baseline_chooses_for_the_questions_that_are_asked() -> None:
    assert chosen("tfidf-svm")["tfidf-svm"].routes == {"one": G, "two": F, "three": L}


def test_questions_of_one_route_are_asked_together_and_answered_in_order() -> None:
    endpoint = Known()
    routes = ChosenRoutes(endpoint, {"one": L, "two": G, "three": L})
    replies = routes.search(["one", "two", "three"], Route.AUTO, 5)
    assert [reply.question for reply in replies] == ["one", "two", "three"]
    assert endpoint.asked == [(L, ("one", "three")), (G, ("two",))]
