"""A router beside questions whose replies are known, as the notebook of thresholds takes it.

A replay has what every arm returned for each judged question. So the quality and the time of
each route are known for each question, and any pair of thresholds can be tried without a search.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from wye.router.evidence import COLUMNS, stages
from wye.router.model_files import load_router, save_policy
from wye.router.policy import Policy, RoutingModel, routes
from wye.router.settings import load_settings
from wye.router.types import Thresholds
from wye.training.data import parse_source
from wye.training.errors import TrainingError
from wye.training.evaluation_set import EvaluationSet, schema_of
from wye.training.measures import QUALITY
from wye.training.replay import Replays, TrainingReplay
from wye.training.thresholds import Outcome, RouteOutcomes, outcome, scores_of


def replays_of(datasets: Sequence[str], cache: Path) -> list[TrainingReplay]:
    """Replays of the dev splits of DATASET=INDEX sources; a `TrainingError` if one has none."""
    settings = load_settings()
    sources = [parse_source(text, settings.index) for text in datasets]
    if lacking := [source.name for source in sources if not source.has("dev")]:
        raise TrainingError(f"{', '.join(lacking)} has no dev split; add qrels/dev.tsv.")
    return Replays(settings, cache / "replays").training(sources, "dev")


@dataclass(frozen=True)
class Tuning:
    """Judged questions with one router's scores, and the outcome of every route for each.

    A router is overconfident on the questions that it was trained on, so use others: those of a dev
    split, or your own.
    """

    evaluation_set: EvaluationSet
    model: RoutingModel

    @classmethod
    def load(
        cls, replays: Sequence[TrainingReplay], model: Path | str = "", *, cache: Path
    ) -> "Tuning":
        """Read a router, "name/version", a version's folder or the settings', and the features.

        `cache` keeps features for later runs. A `ModelFileError` if there is no such router, or it
        was trained on other features.
        """
        settings = load_settings()
        options = replace(settings.router, model=str(model)) if model else settings.router
        router = load_router(options.folder(), schema_id=schema_of(settings), names=COLUMNS)
        deciding = stages(router.scorer.names)
        return cls(EvaluationSet.load(replays, cache, settings, deciding), router)

    @cached_property
    def outcomes(self) -> RouteOutcomes:
        """The outcome of every route for every question, with steps where they are taken."""
        scores = scores_of(self.model.scorer.logits(self.evaluation_set.features))
        policy = self.model.policy
        return self.evaluation_set.outcomes(scores, policy.simple, policy.thresholds.steps)

    @cached_property
    def fixed(self) -> dict[str, Outcome]:
        """Route -> outcome of always taking it."""
        return self.evaluation_set.fixed(self.model.policy.simple)

    def save(
        self, path: Path, thresholds: Thresholds, notes: Mapping[str, Any] | None = None
    ) -> Policy:
        """Write a thresholds file for review, with the thresholds' outcome and further notes."""
        current, result = self.model.policy, outcome(self.outcomes, thresholds)
        policy = Policy(thresholds, current.simple, self.model.name)
        facts = {
            "replays": [f"{r.dataset}, {r.split}" for r in self.evaluation_set.replays],
            "questions": len(self.evaluation_set),
            QUALITY: result.quality,
            "mean_ms": result.mean_ms,
            "p95_ms": result.p95_ms,
            "shares": dict(zip(map(str, routes(policy.simple)), result.shares, strict=True)),
        }
        save_policy(path, policy, {**facts, **(notes or {})})
        return policy
