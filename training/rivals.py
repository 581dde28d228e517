"""Baseline routers, given every chance: scores, simple route and thresholds as the router has."""

from collections.abc import Mapping

import numpy as np

from router.fusion_settings import FusionSettings
from router.policy import Policy
from training.baselines import BASELINES, Baseline, Questions
from training.crossfit import Pool, divide
from training.examples import Float64, Int64
from training.final import Scored
from training.material import Material
from training.routing import Goal
from training.sweep import CUTS
from training.thresholds import solve

FOLDS = 5
EDGE = 1e-6
"""Scores stay so far from 0 and 1, as those of the router do."""


def rivals(
    known: Material,
    labels: Int64,
    asked: Material,
    policy: Policy,
    *,
    fusion: FusionSettings,
    quality: str,
    goal: Goal | None = None,
) -> Mapping[str, Scored]:
    """Fit every baseline on the questions that the router learned from, and let it score others.

    Args:
        known: Questions of train and dev.
        labels: (n,) of these, -1 where either arm will do.
        asked: Questions to score.
        policy: The router's, whose simple route they share.
        fusion: What fusion does.
        quality: The measure that thresholds are solved for.
        goal: Bounds that the thresholds keep.

    Raises:
        FitError: Too few questions of one label.
    """
    found = {}
    for name, baseline in BASELINES.items():
        held_out = _crossfitted(baseline, known, labels)
        outcomes = known.outcomes(held_out, policy.simple, fusion, quality)
        solution = solve(outcomes, goal, most=CUTS)
        score = baseline(_questions(known, labels >= 0), labels[labels >= 0])
        everyone = np.ones(len(asked), bool)
        scores = _inside(score(_questions(asked, everyone)))
        found[name] = Scored(scores, Policy(solution.thresholds, policy.simple, policy.latency_ms))
    return found


def _crossfitted(baseline: Baseline, known: Material, labels: Int64) -> Float64:
    """(n,) scores of each question by a baseline that has not seen it."""
    keys = np.array(known.texts, dtype=np.str_)
    fold = divide(Pool(known.features, labels, known.groups, keys), FOLDS, seed=0)
    scores = np.empty(len(labels))
    for held in range(FOLDS):
        learn = (fold != held) & (labels >= 0)
        score = baseline(_questions(known, learn), labels[learn])
        scores[fold == held] = score(_questions(known, fold == held))
    return _inside(scores)


def _questions(material: Material, rows: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Questions:
    chosen = np.flatnonzero(rows).tolist()
    texts, vectors = material.texts, material.vectors
    return Questions([texts[row] for row in chosen], vectors[chosen])


def _inside(scores: Float64) -> Float64:
    return np.clip(scores, EDGE, 1 - EDGE)
