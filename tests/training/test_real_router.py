"""One question, one score: a router trained on the demo corpus with the real models."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tests.training.made import pool_of
from wye.router.evidence import COLUMNS
from wye.router.model_files import TrainedRouter, save_router
from wye.router.policy import Policy, RoutingModel
from wye.router.session import Session
from wye.router.settings import RoutingSettings, load_settings
from wye.router.types import Ask, Decision, Route, Thresholds
from wye.training.evaluation_set import EvaluationSet, schema_of
from wye.training.fit.scorers import RouterRecipe
from wye.training.fit.trainer import fit_scorer
from wye.training.labels import HELPS, compared
from wye.training.replay import replay_demo

RECIPE = RouterRecipe(hidden=(16, 8), seeds=(0, 1), epochs=10)


@dataclass(frozen=True)
class Trained:
    """A router, what it learned from, and the same router as it serves."""

    folder: Path
    evaluation_set: EvaluationSet
    model: RoutingModel
    container: Session

    def offline(self) -> dict[str, Decision]:
        """By question, from the replayed features."""
        found = self.model.decide(self.evaluation_set.features)
        return dict(zip(self.evaluation_set.texts, found, strict=True))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trained]:
    folder = tmp_path_factory.mktemp("demo")
    settings = load_settings()
    replays = replay_demo(folder)
    evaluation_set = EvaluationSet.load(
        replays, folder / "features", settings, ("parsing", "encoding")
    )
    labels = compared(evaluation_set, Route.LEXICAL, HELPS).labels
    pool = pool_of(evaluation_set.features, labels, "demo")
    scorer = fit_scorer(pool, COLUMNS, RECIPE)
    low, high = np.quantile(scorer.scores(evaluation_set.features), [0.35, 0.65]).tolist()
    policy = Policy(Thresholds(low, high), Route.LEXICAL)
    draft = TrainedRouter(scorer, policy, schema_of(settings), "# A router\n", {}, {})
    place = save_router(folder / "models", "demo", draft)
    own = settings.model_copy(update={"router": RoutingSettings(str(place))})
    container = Session.open(own, folder / "index")
    yield Trained(folder, evaluation_set, container.models.router, container)
    container.close()


def test_searching_gives_the_bits_of_the_replay(trained: Trained) -> None:
    offline = trained.offline()
    texts = list(offline)[::7]
    gateway = trained.container.gateway
    for k in (1, 10):
        replies = gateway.search(texts, Ask(Route.AUTO, k))
        assert [reply.decision for reply in replies] == [offline[text] for text in texts]
    for text in texts[::3]:
        (reply,) = gateway.search([text], Ask(Route.AUTO, 5))
        assert reply.decision == offline[text]


def test_what_is_routed_answers_as_replayed(trained: Trained) -> None:
    """The scores of passages, too: what was measured is what is served."""
    replayed = [one for replay in trained.evaluation_set.replays for one in replay.questions][::7]
    offline = trained.offline()
    scores = np.array([offline[one.question.text].score for one in replayed])
    chosen = {
        route: trained.evaluation_set.only(
            np.isin(trained.evaluation_set.texts, [one.question.text for one in replayed])
        ).rankings(route, scores)
        for route in (Route.LEXICAL, Route.FUSION, Route.GRAPH)
    }
    for row, one in enumerate(replayed):
        (reply,) = trained.container.gateway.search([one.question.text], Ask(Route.AUTO, 10))
        expected = chosen[reply.route][row].hits[:10]
        assert [(hit.id, hit.score) for hit in reply.ranking.hits] == [
            (hit.id, hit.score) for hit in expected
        ]
