"""Measures of a ranking, per question, and their means with intervals by percentile bootstrap.

The measures are some of ir_measures', and one of our own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import ir_measures
import numpy as np

from wye.backends.types import Float64
from wye.training.data import Judgements, judged_id
from wye.training.errors import EvaluationError

ALL_EVIDENCE = "all-evidence@5"
MEASURES: tuple[str, ...] = (
    "R@1",
    "R@3",
    "R@5",
    "R@10",
    "nDCG@10",
    "Success@1",
    "Success@5",
    ALL_EVIDENCE,
)
QUALITY = "nDCG@10"  # the measure that routers and thresholds are chosen by
DEPTH = 10  # the deepest rank that these measures use

Run = Mapping[str, Sequence[str]]  # question id -> passage ids, best first


def score(judgements: Judgements, run: Run) -> Float64:
    """Every measure of every judged question.

    A question that is missing in the run, or has no passages there, scores 0. Judgements may name
    documents: the first passage of a document then has its place, and the others none.

    Returns:
        (n, m) float64: rows in the order of `judgements`, columns in the order of `MEASURES`.
    """
    named = {id_ for grades in judgements.values() for id_ in grades}
    row = {id_: position for position, id_ in enumerate(judgements)}
    values = np.zeros((len(row), len(MEASURES)))
    public = [ir_measures.parse_measure(name) for name in MEASURES if name != ALL_EVIDENCE]
    qrels = [
        ir_measures.Qrel(question, passage, relevance)
        for question, grades in judgements.items()
        for passage, relevance in grades.items()
    ]
    docs = []
    for question in judgements:
        ids = dict.fromkeys(judged_id(id_, named) for id_ in run.get(question, ()))
        # trec_eval orders by score alone, so it gets the negative position as score.
        docs += [ir_measures.ScoredDoc(question, id_, -float(n)) for n, id_ in enumerate(ids)]
    if docs:
        for metric in ir_measures.iter_calc(public, qrels, docs):
            values[row[metric.query_id], MEASURES.index(str(metric.measure))] = metric.value
    # A question of several hops needs all of its evidence; half of it answers nothing.
    values[:, MEASURES.index(ALL_EVIDENCE)] = values[:, MEASURES.index("R@5")] == 1
    return values


RESAMPLES = 10_000
_CELLS = 4_000_000  # in a block of resamples, so that it takes some 32 MB


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over questions with its 95 % interval."""

    mean: float
    low: float
    high: float


Means = dict[str, dict[str, Interval]]  # system -> measure -> mean
Differences = dict[tuple[str, str], dict[str, Interval]]  # (system, other) -> measure -> mean


def resampled_means(values: Float64, *, resamples: int = RESAMPLES, seed: int = 0) -> Float64:
    """Means (resamples, c) of values (n, c) over questions drawn with replacement.

    All columns share the draws, so the difference of two columns of the result is the paired
    bootstrap of their difference. An `EvaluationError` without questions.

    Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapter 13; Sakai, SIGIR
    2006, for its use on retrieval measures.
    """
    n = len(values)
    if n == 0:
        raise EvaluationError("There is no question to compute a mean of.")
    generator = np.random.default_rng(seed)
    means = np.empty((resamples, values.shape[1]))
    block = max(1, _CELLS // n)
    for start in range(0, resamples, block):
        size = min(block, resamples - start)
        drawn = generator.integers(n, size=(size, n))
        drawn += np.arange(size)[:, None] * n
        counts = np.bincount(drawn.ravel(), minlength=size * n).reshape(size, n)
        means[start : start + size] = counts @ values / n
    return means


def interval(values: Float64, means: Float64) -> Interval:
    """The mean of `values` (n,) with the 2.5th and 97.5th percentile of its resampled means."""
    low, high = np.percentile(means, [2.5, 97.5])
    return Interval(float(values.mean()), float(low), float(high))


def mean_interval(values: Float64) -> Interval:
    """The mean of `values` (n,) with its interval."""
    return interval(values, resampled_means(values[:, None])[:, 0])


def compare(
    values: Mapping[str, Float64], pairs: Sequence[tuple[str, str]], measures: Sequence[str]
) -> tuple[Means, Differences]:
    """Means of every system's values (n, m), and paired differences, by the same resamples."""
    # Differences are resampled directly, so those of equal systems are exactly 0.
    columns = np.hstack([*values.values(), *(values[one] - values[other] for one, other in pairs)])
    means = resampled_means(columns)
    intervals = [interval(columns[:, at], means[:, at]) for at in range(columns.shape[1])]
    cells = [
        dict(zip(measures, intervals[start : start + len(measures)], strict=True))
        for start in range(0, len(intervals), len(measures))
    ]
    return (
        dict(zip(values, cells[: len(values)], strict=True)),
        dict(zip(pairs, cells[len(values) :], strict=True)),
    )
