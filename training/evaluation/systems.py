"""Systems that `wye eval` compares routes with: chance, the oracle, baselines that read the words.

Each only says which of the router's three routes a question takes; the gateway answers.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from backends.types import Int64
from router.gateway import Gateway
from router.policy import Policy, routes
from router.types import Reply, Route
from training.data.dataset import Dataset, Question
from training.evaluation.compare import ORACLE, QUALITY, RANDOM
from training.evaluation.measures import MEASURES, score
from training.fit.baselines import BASELINES

CHOSEN: tuple[str, ...] = (RANDOM, *BASELINES, ORACLE)
"""Names that `--routes` of `wye eval` takes beside those of routes."""


class Endpoint(Protocol):
    """What answers questions: the router's gateway, or it over routes that another has chosen."""

    def search(self, questions: Sequence[str], route: Route, k: int) -> list[Reply]:
        """One reply to each question, in order."""
        ...


@dataclass(frozen=True)
class ChosenRoutes:
    """Answers each question over the route that was chosen for it."""

    endpoint: Endpoint
    routes: Mapping[str, Route]

    def search(self, questions: Sequence[str], route: Route, k: int) -> list[Reply]:
        """One reply to each question, in order, whatever route is asked for."""
        del route
        replies: dict[int, Reply] = {}
        for own in dict.fromkeys(self.routes[text] for text in questions):
            places = [place for place, text in enumerate(questions) if self.routes[text] == own]
            found = self.endpoint.search([questions[place] for place in places], own, k)
            replies.update(zip(places, found, strict=True))
        return [replies[place] for place in range(len(questions))]


def choose_routes(
    names: Sequence[str],
    gateway: Gateway,
    policy: Policy,
    dataset: Dataset,
    baselines: Callable[[], Mapping[str, Int64]],
    *,
    batch: int = 32,
    seed: int = 0,
) -> dict[str, ChosenRoutes]:
    """Systems that choose among the router's routes for the questions of a dataset.

    Args:
        names: Of `CHOSEN`.
        policy: Of the router, whose simple route they share.
        baselines: Gives (n,) codes of routes for the dataset's split, by name of the baseline.
    """
    # No route can answer a question without a word.
    questions = [question for question in dataset.questions if question.text.strip()]
    stepping = [Route.STEPS] if policy.thresholds.steps else []
    order = (*routes(policy.simple), *stepping)
    learned = baselines() if {*names} & {*BASELINES} else {}
    found = {}
    for name in names:
        if name == RANDOM:
            codes = _random(gateway, order, questions, batch, seed)
        elif name == ORACLE:
            codes = _oracle(gateway, order, questions, dataset, batch)
        else:
            codes = learned[name][: len(questions)]  # a limit keeps the first questions
        chosen = zip(questions, codes.tolist(), strict=True)
        found[name] = ChosenRoutes(gateway, {question.text: order[at] for question, at in chosen})
    return found


def _random(
    gateway: Gateway, order: Sequence[Route], questions: Sequence[Question], batch: int, seed: int
) -> Int64:
    """The router's own choices, dealt out anew."""
    texts = [question.text for question in questions]
    codes = [
        order.index(decision.route)
        for start in range(0, len(texts), batch)
        for decision in gateway.decide(texts[start : start + batch])
    ]
    return np.random.default_rng(seed).permutation(np.array(codes, np.int64))


def _oracle(
    gateway: Gateway,
    order: Sequence[Route],
    questions: Sequence[Question],
    dataset: Dataset,
    batch: int,
) -> Int64:
    """Whichever route turned out best; of equals the simpler."""
    judged = {question.id: dataset.judgements[question.id] for question in questions}
    quality = []
    for route in order:
        run = {}
        for start in range(0, len(questions), batch):
            asked = questions[start : start + batch]
            found = gateway.search([question.text for question in asked], route, 10)
            for question, reply in zip(asked, found, strict=True):
                run[question.id] = [hit.id for hit in reply.ranking.hits]
        quality.append(score(judged, run)[:, MEASURES.index(QUALITY)])
    best: Int64 = np.stack(quality, axis=1).argmax(axis=1)
    return best
