"""Routers to compare with, for `wye eval`: chance, hindsight, and baselines that read the words.

Each only says which of the router's three routes a question takes; the gateway answers.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np

from backends.progress import Progress
from backends.types import Int64
from router.policy import Policy, routes
from router.settings import Settings
from router.types import Decision, Reply, Route
from training.data.dataset import Dataset, Question
from training.data.sources import Source
from training.errors import EvaluationError
from training.evaluation.evaluate import Endpoint
from training.evaluation.measures import MEASURES, score
from training.fit.baselines import BASELINES
from training.pipeline import Choices
from training.run import Run

RANDOM, ORACLE = "random", "oracle"
CONTENDERS: tuple[str, ...] = (RANDOM, *BASELINES, ORACLE)
"""Names that `--routes` of `wye eval` takes beside those of routes."""


class Deciding(Protocol):
    """A gateway as far as contenders need it."""

    def search(self, questions: Sequence[str], route: Route, k: int) -> list[Reply]:
        """One reply to each question, in order."""
        ...

    def decide(self, questions: Sequence[str]) -> list[Decision]:
        """The router's choice for each question, in order."""
        ...


@dataclass(frozen=True)
class Chosen:
    """Answers each question over the route that was chosen for it.

    Attributes:
        endpoint: That answers.
        routes: Question -> route.
    """

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


@dataclass(frozen=True)
class Chooser:
    """Makes contenders for one dataset.

    Attributes:
        gateway: That answers, with the router whose routes contenders choose among.
        policy: Of that router.
        dataset: Questions to answer.
        source: The same dataset and its index, whose train and dev splits baselines learn from.
        settings: Of arms and models.
        cache: Folder of replays and features.
        progress: Makes what long work is shown with.
        batch: Questions asked together.
        seed: Of chance.
    """

    gateway: Deciding
    policy: Policy
    dataset: Dataset
    source: Source
    settings: Settings
    cache: Path
    progress: Callable[[], Progress]
    batch: int = 32
    seed: int = 0
    _known: dict[str, Int64] = field(default_factory=dict)

    def of(self, name: str) -> Chosen:
        """A contender by name.

        Raises:
            EvaluationError: There is none of that name.
            FitError: The training questions teach a baseline nothing.
        """
        if name == RANDOM:
            codes = self._random()
        elif name == ORACLE:
            codes = self._oracle()
        elif name in BASELINES:
            codes = self._baseline(name)
        else:
            raise EvaluationError(f"There is no contender '{name}'; choose among {CONTENDERS}.")
        order = routes(self.policy.simple)
        return Chosen(
            self.gateway,
            {text: order[code] for text, code in zip(self._texts, codes.tolist(), strict=True)},
        )

    @property
    def _questions(self) -> list[Question]:
        """Those that any route can answer."""
        return [question for question in self.dataset.questions if question.text.strip()]

    @property
    def _texts(self) -> list[str]:
        return [question.text for question in self._questions]

    def _random(self) -> Int64:
        """The router's own choices, dealt out anew."""
        order = routes(self.policy.simple)
        texts = self._texts
        codes = [
            order.index(decision.route)
            for start in range(0, len(texts), self.batch)
            for decision in self.gateway.decide(texts[start : start + self.batch])
        ]
        return np.random.default_rng(self.seed).permutation(np.array(codes, np.int64))

    def _oracle(self) -> Int64:
        """Whichever route turned out best by nDCG@10; of equals the simpler."""
        column = MEASURES.index("nDCG@10")
        questions, quality = self._questions, []
        for route in routes(self.policy.simple):
            run = {}
            for start in range(0, len(questions), self.batch):
                asked = questions[start : start + self.batch]
                found = self.gateway.search([question.text for question in asked], route, 10)
                for question, reply in zip(asked, found, strict=True):
                    run[question.id] = [hit.id for hit in reply.ranking.hits]
            judged = {question.id: self.dataset.judgements[question.id] for question in questions}
            quality.append(score(judged, run)[:, column])
        best: Int64 = np.stack(quality, axis=1).argmax(axis=1)
        return best

    def _baseline(self, name: str) -> Int64:
        if not self._known:
            choices = Choices(simple=self.policy.simple, fusion=self.settings.fusion)
            run = Run(self.settings, [self.source], choices, self.cache, self.progress)
            self._known.update(run.baselines(self.dataset.split, self.policy))
        return self._known[name][: len(self._texts)]  # a limit keeps the first questions
