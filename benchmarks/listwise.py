"""A fusion with a weight for everything that is known of a passage, learned list by list.

The more there is to weigh, the more of the training corpus is learned along: this is here to be
compared with. `benchmarks.fusion` shows what becomes of it on questions unlike its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

from backends.types import Float64, Hit, Ranking
from router.fusion import scaled
from router.types import ARMS, ArmResults
from training.data.replay import Replayed
from training.errors import FitError

SHRINKAGE = 1e-3
BEYOND = 101
"""Rank of a passage that a list lacks."""


@dataclass(frozen=True, slots=True)
class _Candidates:
    """Passages of one question: c ids in ascending order, and their (c, 6) signals."""

    ids: list[str]
    signals: Float64


def fit_listwise(questions: Sequence[Replayed]) -> Float64:
    """Weights of score and rank in each arm, none below 0, that make gold passages likeliest.

    The loss is the cross entropy between the gold passages and a softmax over all candidates of a
    question: ListNet's with binary relevance (Cao et al., ICML 2007).

    Args:
        questions: Those without a gold passage among their candidates are left out.

    Returns:
        (6,) weights: value and -ln(rank) of each arm of `ARMS`.

    Raises:
        FitError: No question is left.
    """
    lists = []
    for one in questions:
        found = _candidates(one.results)
        gold = np.array([one.gold.get(id_, 0) > 0 for id_ in found.ids], dtype=bool)
        if gold.any():
            lists.append((found.signals, gold / gold.sum()))
    if not lists:
        raise FitError("No arm found a relevant passage for any question; check the judgements.")

    def loss(weights: Float64) -> tuple[float, Float64]:
        value, gradient = SHRINKAGE * weights @ weights, 2 * SHRINKAGE * weights
        for signals, target in lists:
            scores = signals @ weights
            likely = scores - logsumexp(scores)
            value -= target @ likely / len(lists)
            gradient -= signals.T @ (target - np.exp(likely)) / len(lists)
        return float(value), gradient

    width = 2 * len(ARMS)
    best = minimize(loss, np.ones(width), jac=True, bounds=[(0, None)] * width, method="L-BFGS-B")
    return np.asarray(best.x, np.float64)


def fuse_listwise(results: ArmResults, weights: Float64, k: int) -> Ranking:
    """Order a question's candidates by their weighted signals, equal ones by id.

    Args:
        results: Of all arms.
        weights: From `fit_listwise`.
        k: Most hits to return, at least 1.
    """
    found = _candidates(results)
    scores = (found.signals @ weights).tolist()
    order = sorted(range(len(scores)), key=lambda place: (-scores[place], found.ids[place]))
    hits = tuple(
        Hit(found.ids[place], scores[place], rank) for rank, place in enumerate(order[:k], start=1)
    )
    return Ranking("listwise", hits, len(scores))


def _candidates(results: ArmResults) -> _Candidates:
    ids = sorted({hit.id for arm in ARMS for hit in results.rankings[arm].hits})
    columns = []
    for arm in ARMS:
        ranking = results.rankings[arm]
        values = scaled(ranking)
        known = {hit.id: (v, hit.rank) for hit, v in zip(ranking.hits, values, strict=True)}
        lacking = (values[-1] if values else 0.0, BEYOND)
        columns.append([known.get(id_, lacking)[0] for id_ in ids])
        columns.append([-log(known.get(id_, lacking)[1]) for id_ in ids])
    return _Candidates(ids, np.array(columns, np.float64).T.reshape(len(ids), len(columns)))
