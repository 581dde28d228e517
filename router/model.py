"""The router that serves and is evaluated: columns in, decisions out."""

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path

import numpy as np

from wye.backends.numerics import logistic
from wye.backends.types import Float64
from wye.router.evidence import asks_corpus, share_at_hand
from wye.router.explain import Explainer, contributions, nearest_change
from wye.router.policy import (
    SCORE,
    UNFAMILIAR,
    Choice,
    LatencyBudget,
    Policy,
    decide,
    may_take_steps,
)
from wye.router.scorer import UNKNOWN, Scorer
from wye.router.types import Decision, Route


class RoutingModel:
    """A scorer with its policy, by name and version."""

    def __init__(self, name: str, scorer: Scorer, policy: Policy, folder: Path | None) -> None:
        """Combine a scorer and a policy.

        Args:
            name: Name and version, "name/v1".
            folder: Folder that it was loaded from; None if it is not written yet.
        """
        self.name = name
        self.scorer = scorer
        self.policy = policy
        self.folder = folder
        self._explainer = Explainer(scorer)

    @property
    def asks_corpus(self) -> bool:
        """Whether it uses signals of the corpus, so that deciding takes an index."""
        return asks_corpus(self.needs)

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns that it uses."""
        return self.scorer.names

    def with_policy(self, policy: Policy) -> "RoutingModel":
        """The same scorer under another policy."""
        changed = copy(self)  # scorer and explainer do not depend on the policy
        changed.policy = policy
        return changed

    def at(self, point: str) -> "RoutingModel":
        """The same scorer with the thresholds of an operating point; "" for those in use.

        Raises:
            QuestionError: There is no such point.
        """
        if not point:
            return self
        return self.with_policy(replace(self.policy, thresholds=self.policy.at(point)))

    def decide(
        self,
        features: Float64,
        *,
        nested: Sequence[bool] | None = None,
        max_latency_ms: float | None = None,
        explain: bool = False,
    ) -> list[Decision]:
        """Decide a route for each question, with the same bits alone and in a batch.

        Args:
            features: (n, width) float64, in the order of the featurizer's names.
            nested: (n,) whether each question's words nest descriptions; None if not known.
            max_latency_ms: Time budget of an answer in ms.
            explain: Whether to add contributions and the nearest change.

        Raises:
            FeatureError: The scorer cannot take these features.
            PolicyError: The budget is not above 0, or latencies are not known.
        """
        policy = self.policy
        budget = (
            None if max_latency_ms is None else LatencyBudget(max_latency_ms, policy.latency_ms)
        )
        scorer, thresholds = self.scorer, policy.thresholds
        inputs = scorer.inputs(features)
        known = scorer.knows(inputs)
        logits = np.where(known, scorer.calibrated(scorer.raw(inputs)), UNKNOWN)
        scores = logistic(logits)
        at_hand = share_at_hand(features) if thresholds.steps else np.full(len(features), np.nan)
        decisions: list[Decision] = []
        for row, share in enumerate(at_hand.tolist()):
            logit, score = float(logits[row]), float(scores[row])
            is_nested = nested is not None and nested[row]
            choice = decide(score, thresholds, simple=policy.simple, budget=budget)
            if choice.reason == SCORE and not known[row]:
                choice = Choice(Route.FUSION, UNFAMILIAR)
            decision = Decision(
                choice.route,
                score,
                logit,
                thresholds,
                choice.reason,
                self.name,
                simple=policy.simple,
                planned=thresholds.steps > 0
                and may_take_steps(choice, score, share, thresholds, budget, nested=is_nested),
            )
            if explain and known[row]:
                attribution = self._explainer.attribute(inputs[row], logit)
                shown = features[row][scorer.columns]
                decision = replace(
                    decision,
                    contributions=contributions(attribution, scorer.names, shown),
                    nearest_change=nearest_change(score, thresholds, policy.simple),
                )
            decisions.append(decision)
        return decisions
