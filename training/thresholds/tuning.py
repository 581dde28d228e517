"""Thresholds by hand: what any pair is worth on replayed questions, and whom it fails."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from backends.types import Int64
from featurizer.constituency.parser import open_syntax_parser
from router.fusion import FusionSettings
from router.model import RoutingModel
from router.model_files import load_router, save_policy
from router.policy import Policy
from router.query_performance import NAMES, schema_id
from router.settings import Settings, load_settings
from router.types import Contribution, Route, Thresholds
from training.data.evaluation_set import EvaluationSet, gather
from training.data.replay import read_training
from training.errors import FitError, ReplayError
from training.evaluation.measures import MEASURES
from training.labels import compared
from training.thresholds.outcomes import (
    Outcome,
    RouteOutcomes,
    ThresholdObjective,
    names,
    outcome,
    scores_of,
    taken,
)
from training.thresholds.pareto import Front, front


@dataclass(frozen=True, slots=True)
class Misrouted:
    """A question for which another route would have been better.

    Attributes:
        text: Of the question.
        dataset: It comes from.
        score: Of the router.
        route: That the thresholds give it.
        better: The route with the best answer.
        lost: Quality of that answer less quality of the one given.
        contributions: To the score's logit; see `router.types.Decision`.
    """

    text: str
    dataset: str
    score: float
    route: Route
    better: Route
    lost: float
    contributions: tuple[Contribution, ...]


@dataclass(frozen=True)
class Tuning:
    """Replayed questions as one router scores them.

    A router is too sure of the questions that it was trained on; thresholds are best chosen on
    others, such as a dev split, or questions of one's own.

    Attributes:
        material: Questions of train or dev.
        model: That scores them.
        fusion: What fusion does.
        measure: One of `training.evaluation.measures.MEASURES`, which is called quality here.
        success: When an arm succeeds; see `training.labels`.
    """

    material: EvaluationSet
    model: RoutingModel
    fusion: FusionSettings
    measure: str = "nDCG@10"
    success: str = "all-gold@5"

    @classmethod
    def load(
        cls,
        replays: Sequence[Path],
        model: Path | str = "",
        *,
        cache: Path,
        settings: Settings | None = None,
        measure: str = "nDCG@10",
    ) -> "Tuning":
        """Read replays and a router, and compute the questions' features.

        Args:
            replays: Files of train or dev splits, as `wye train` keeps them.
            model: "name/version", or a version's folder; empty for that of the settings.
            cache: Folder of features.
            settings: Of models, fusion and router; None reads the environment.
            measure: What quality is.

        Raises:
            SplitError: A replay is of a test split.
            ReplayError: A file cannot be read, or none is given.
            ModelFileError: There is no such router, or it was trained on other features.
            FitError: There is no such measure.
        """
        if measure not in MEASURES:
            raise FitError(f"There is no measure '{measure}'; take one of {', '.join(MEASURES)}.")
        if not replays:
            raise ReplayError("No replay is given; name files of train or dev splits.")
        read = tuple(read_training(path) for path in replays)
        own = settings or load_settings()
        router = replace(own.router, model=str(model)) if model else own.router
        parser = open_syntax_parser(own.analyser.pipeline, own.analyser.constituency)
        found = load_router(router.folder(), schema_id=schema_id(parser.fingerprint), names=NAMES)
        return cls(gather(read, cache, own.analyser), found, own.fusion, measure)

    @cached_property
    def outcomes(self) -> RouteOutcomes:
        """Every question with the outcome of every route."""
        scores = scores_of(self.model.scorer.logits(self.material.features))
        simple = self.model.policy.simple
        return self.material.outcomes(scores, simple, self.fusion, self.measure)

    @cached_property
    def labels(self) -> Int64:
        """(n,) 1 where only the graph succeeds, 0 where only the simple arm does, -1 else."""
        return compared(self.material, self.model.policy.simple, self.success, self.fusion)

    @cached_property
    def fixed(self) -> dict[str, Outcome]:
        """What always taking one route gives, by its name."""
        pairs = (Thresholds(1, 1), Thresholds(0, 1), Thresholds(0, 0))
        routes = names(self.model.policy.simple)
        return {
            str(route): outcome(self.outcomes, pair)
            for route, pair in zip(routes, pairs, strict=True)
        }

    def at(self, low: float, high: float) -> Outcome:
        """What thresholds give.

        Raises:
            PolicyError: They are not in order, or not from 0 to 1.
        """
        return outcome(self.outcomes, Thresholds(low, high))

    def front(self, bounds: ThresholdObjective | None = None) -> Front:
        """The pairs that no other pair beats in both quality and latency."""
        return front(self.outcomes, bounds)

    def worst(self, n: int, thresholds: Thresholds | None = None) -> list[Misrouted]:
        """The questions that lose most by their route, the worst first.

        Args:
            n: At most so many; questions that lose nothing are left out.
            thresholds: None for the router's own.
        """
        routes = names(self.model.policy.simple)
        quality = self.outcomes.quality
        codes = taken(self.outcomes.scores, thresholds or self.model.policy.thresholds)
        lost = quality.max(axis=1) - quality[np.arange(len(codes)), codes]
        order = np.argsort(-lost, kind="stable")[:n]
        rows = order[lost[order] > 0].tolist()
        decisions = self.model.decide(self.material.features[rows], explain=True)
        texts, groups = self.material.texts, self.material.groups
        return [
            Misrouted(
                text=texts[row],
                dataset=str(groups[row]),
                score=float(self.outcomes.scores[row]),
                route=routes[codes[row]],
                better=routes[int(quality[row].argmax())],
                lost=float(lost[row]),
                contributions=decision.contributions,
            )
            for row, decision in zip(rows, decisions, strict=True)
        ]

    def policy(self, thresholds: Thresholds) -> Policy:
        """Thresholds with the latencies of these replays."""
        simple = self.model.policy.simple
        return Policy(thresholds, simple, self.material.median_latency_ms(simple), self.model.name)

    def save(
        self, path: Path, thresholds: Thresholds, notes: Mapping[str, Any] | None = None
    ) -> Policy:
        """Write a thresholds file, with the latencies of these replays, to be reviewed.

        Args:
            path: Of the file; an older one is replaced.
            thresholds: To write.
            notes: For whoever reviews it, beside what the thresholds give here.
        """
        policy, simple = self.policy(thresholds), self.model.policy.simple
        found = outcome(self.outcomes, thresholds)
        said = {
            "replays": [f"{one.dataset}, {one.split}" for one in self.material.replays],
            "questions": len(self.material),
            self.measure: found.quality,
            "mean_ms": found.mean_ms,
            "p95_ms": found.p95_ms,
            "shares": dict(zip(map(str, names(simple)), found.shares, strict=True)),
        }
        save_policy(path, policy, {**said, **(notes or {})})
        return policy
