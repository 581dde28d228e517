"""The final evaluation: the router against every baseline, on held-out questions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from wye.backends.types import Float64, Int64, Mask
from wye.featurizer.registry import FEATURE_NAMES
from wye.router.evidence import stages
from wye.router.fusion import FusionSettings
from wye.router.policy import Policy, bands, routes
from wye.router.types import Route
from wye.training.data.evaluation_set import SIMPLE_ROUTES, EvaluationSet
from wye.training.evaluation.away import Away
from wye.training.evaluation.bootstrap import Interval
from wye.training.evaluation.compare import (
    AUTO,
    ORACLE,
    QUALITY,
    RANDOM,
    Percentiles,
    Shares,
    compare,
    percentiles,
    shares_of,
)
from wye.training.evaluation.measures import MEASURES
from wye.training.fit.calibration import Reliability, reliability
from wye.training.labels import Disagreement

ANSWERED = "answer-in-context@5"
COLUMNS: tuple[str, ...] = (*MEASURES, ANSWERED)
"""The measures of every system."""
PAPER, PUBLISHED = "paper wRRF", "as published"
DRAWS = 200
NEAR = 0.8


@dataclass(frozen=True, slots=True)
class SystemOutcomes:
    """One system's outcome for every question.

    Attributes:
        values: (n, m) every measure, columns as in `COLUMNS`.
        latency_ms: (n,) time of the stages that it runs.
    """

    values: Float64
    latency_ms: Float64
    shares: Shares


@dataclass(frozen=True, slots=True)
class RouterScores:
    """A router as a system: its (n,) scores of the questions, and its policy."""

    scores: Float64
    policy: Policy


@dataclass(frozen=True)
class HeldOutOutcomes:
    """Every system on the same held-out questions.

    Attributes:
        groups: (n,) dataset of each question.
        origins: (n,) replay of each question.
        scores: (n,) the router's scores.
        labels: (n,) labels, by the success that the router learned.
        better: (n,) as in `wye.training.labels.Disagreement`.
        codes: (n,) codes of the routes that auto takes.
    """

    systems: Mapping[str, SystemOutcomes]
    groups: NDArray[np.str_]
    origins: NDArray[np.str_]
    scores: Float64
    labels: Int64
    better: Int64
    codes: Int64


@dataclass(frozen=True)
class HeldOutEvaluation:
    """The results on the test splits.

    Attributes:
        questions: Test questions of the sources that the router was trained on.
        transfer: Dataset -> every system on its questions, with a router that was trained on the
            other datasets.
        untried: Dataset -> why no router could be trained on the other datasets.
        duplicates: Number of test questions that nearly repeat a training question.
        left_out: Results on train and dev of each dataset, with a router that was trained on the
            other datasets.
        strangers: Results on test questions of sources that were not trained on.
    """

    questions: EvaluationSet
    outcomes: HeldOutOutcomes
    transfer: Mapping[str, HeldOutOutcomes]
    untried: Mapping[str, str]
    duplicates: int
    left_out: Sequence[Away] = ()
    strangers: Sequence[Away] = ()


def run_systems(
    questions: EvaluationSet,
    router: RouterScores,
    disagreement: Disagreement,
    *,
    fusion: FusionSettings,
    baselines: Mapping[str, RouterScores],
    published: RouterScores | None = None,
    seed: int = 0,
) -> HeldOutOutcomes:
    """Compute every system's outcomes.

    Args:
        disagreement: The questions' labels.
        baselines: Baselines by name, with thresholds solved as the router's are.
        published: EA-GraphRAG's own recipe; None if it was not fitted.
    """
    simple = router.policy.simple
    always = {
        route: _one_route(questions, route, fusion)  # without scores for fusion
        for route in (*SIMPLE_ROUTES, Route.GRAPH, Route.FUSION, Route.STEPS)
    }

    def choices(scores: Float64) -> list[SystemOutcomes]:
        """Outcomes of a router's routes, in the order of their codes."""
        fused = _one_route(questions, Route.FUSION, fusion, scores)
        return [always[simple], fused, always[Route.GRAPH], always[Route.STEPS]]

    paths = choices(router.scores)
    if router.policy.thresholds.steps:  # some questions are parsed to see whether they have a plan
        mask = questions.parsed(router.scores, router.policy.thresholds.steps)
        for code, route in enumerate((simple, Route.FUSION, Route.GRAPH)):
            paths[code] = replace(paths[code], latency_ms=questions.latency_ms(route, parsed=mask))
    auto_codes = questions.codes(router.scores, router.policy.thresholds)
    auto = _mixed(paths, auto_codes)
    quality = np.stack([path.values[:, COLUMNS.index(QUALITY)] for path in paths], axis=1)
    systems = {f"always {route}": outcomes for route, outcomes in always.items()}
    for route, outcomes in always.items():
        unread = questions.latency_ms(route, routed=False)
        systems[f"always {route}"] = replace(outcomes, latency_ms=unread)
    systems[PAPER] = _one_route(questions, Route.FUSION, by_rank(fusion), router.scores)
    if published is not None:
        parsed = replace(questions, deciding=stages(FEATURE_NAMES))
        its_paths = [
            _one_route(parsed, route, by_rank(fusion), published.scores)
            for route in (Route.DENSE, Route.FUSION, Route.GRAPH)
        ]
        codes = bands(published.scores, published.policy.thresholds)
        systems[PUBLISHED] = _mixed(its_paths, codes)
    systems[RANDOM] = _random(
        [always[route] for route in (*routes(simple), Route.STEPS)], auto.shares, seed
    )
    for name, baseline in baselines.items():
        codes = bands(baseline.scores, baseline.policy.thresholds)
        systems[name] = _mixed(choices(baseline.scores), codes)
    for point, thresholds in router.policy.points.items():
        if thresholds != router.policy.thresholds:
            systems[f"{AUTO} {point}"] = _mixed(paths, questions.codes(router.scores, thresholds))
    systems[AUTO] = auto
    systems[ORACLE] = _mixed(paths, quality.argmax(axis=1))
    groups, origins, labels = questions.groups, questions.origins, disagreement.labels
    return HeldOutOutcomes(
        systems, groups, origins, router.scores, labels, disagreement.better, auto_codes
    )


def by_rank(fusion: FusionSettings) -> FusionSettings:
    """Settings of EA-GraphRAG's fusion: ranks of dense and graph, weighted by the score."""
    return replace(fusion, method="rrf", lists=(Route.DENSE, Route.GRAPH), rrf_k=60.0)


def _one_route(
    questions: EvaluationSet, route: Route, fusion: FusionSettings, scores: Float64 | None = None
) -> SystemOutcomes:
    rankings = questions.rankings(route, fusion, scores)
    answered = questions.answered(rankings, 5)
    worth = questions.worth(route, fusion, scores)
    values = np.concatenate([worth, answered[:, None]], axis=1)
    code = {Route.FUSION: 1, Route.GRAPH: 2, Route.STEPS: 3}.get(route, 0)
    shares = shares_of(np.full(len(questions), code))
    return SystemOutcomes(values, questions.latency_ms(route), shares)


def _mixed(choices: Sequence[SystemOutcomes], codes: Int64) -> SystemOutcomes:
    """Outcomes with each question's route chosen by its code."""
    rows = np.arange(len(codes))
    values = np.stack([choice.values for choice in choices], axis=1)
    latency = np.stack([choice.latency_ms for choice in choices], axis=1)
    return SystemOutcomes(values[rows, codes], latency[rows, codes], shares_of(codes))


def _random(choices: Sequence[SystemOutcomes], shares: Shares, seed: int) -> SystemOutcomes:
    """Outcomes of random routes at the router's rates, averaged over many draws."""
    count = len(choices[0].values)
    draws = np.random.default_rng(seed).choice(4, size=(DRAWS, count), p=shares)
    rates = np.stack([(draws == code).mean(axis=0) for code in range(4)])
    values = sum(rate[:, None] * choice.values for rate, choice in zip(rates, choices, strict=True))
    latency = sum(rate * choice.latency_ms for rate, choice in zip(rates, choices, strict=True))
    return SystemOutcomes(np.asarray(values), np.asarray(latency), shares)


@dataclass(frozen=True, slots=True)
class Summary:
    """The final evaluation, summarised over some questions.

    Attributes:
        disagreements: Number of questions on which one arm is better.
        differences: System -> measure -> paired difference auto - system.
        shares: System -> shares of its routes; only the router's if some questions are left out.
        gap_closed: Measure -> how much of the gap from the best fixed route to the oracle the
            router closes; NaN if there is no gap.
        auc: AUC of the router's scores on the questions with a label; NaN if these are one-sided.
        calibration: Calibration of the router's scores on these; None without any.
    """

    questions: int
    disagreements: int
    means: Mapping[str, Mapping[str, Interval]]
    differences: Mapping[str, Mapping[str, Interval]]
    latency_ms: Mapping[str, Percentiles]
    shares: Mapping[str, Shares]
    gap_closed: Mapping[str, float]
    auc: float
    calibration: Reliability | None


def summarise(outcomes: HeldOutOutcomes, rows: Mask | None = None) -> Summary:
    """Summarise an evaluation; all means and differences share their resamples.

    Args:
        rows: (n,) mask of the questions; None for all.

    Raises:
        EvaluationError: No question is left.
    """
    chosen = np.ones(len(outcomes.scores), np.bool_) if rows is None else rows
    systems = outcomes.systems
    values = {name: run.values[chosen] for name, run in systems.items()}
    pairs = [(AUTO, name) for name in systems if name != AUTO]
    means, differences = compare(values, pairs, COLUMNS)
    labelled = chosen & (outcomes.labels >= 0)
    labels, scores = outcomes.labels[labelled], outcomes.scores[labelled]
    logits = np.log(scores) - np.log1p(-scores)
    both = len(np.unique(labels)) == 2
    shares = {name: run.shares for name, run in systems.items()} if chosen.all() else {}
    shares = shares or {AUTO: shares_of(outcomes.codes[chosen])}
    return Summary(
        questions=int(chosen.sum()),
        disagreements=int((outcomes.better[chosen] >= 0).sum()),
        means=means,
        differences={name: cells for (_, name), cells in differences.items()},
        latency_ms={name: percentiles(run.latency_ms[chosen]) for name, run in systems.items()},
        shares=shares,
        gap_closed=_gap_closed(values),
        auc=float(roc_auc_score(labels, logits)) if both else float("nan"),
        calibration=reliability(logits, labels) if len(labels) else None,
    )


def _gap_closed(values: Mapping[str, Float64]) -> dict[str, float]:
    """Measure -> how much of the gap from the best fixed route to the oracle the router closes."""
    arms = [f"always {route}" for route in (*SIMPLE_ROUTES, Route.GRAPH, Route.FUSION, Route.STEPS)]
    auto, oracle = (values[name].mean(axis=0) for name in (AUTO, ORACLE))
    fixed = np.max([values[name].mean(axis=0) for name in arms], axis=0)
    return {
        measure: float((a - f) / (o - f)) if o > f else float("nan")
        for measure, a, o, f in zip(COLUMNS, auto, oracle, fixed, strict=True)
    }


def subsets(outcomes: HeldOutOutcomes) -> dict[str, Mask]:
    """Masks of each replay's questions, and of each dataset's within it if they differ."""
    masks: dict[str, Mask] = {}
    for origin in dict.fromkeys(outcomes.origins.tolist()):
        of_origin = outcomes.origins == origin
        datasets = list(dict.fromkeys(outcomes.groups[of_origin].tolist()))
        masks[origin] = of_origin
        if datasets != [origin]:
            for dataset in datasets:
                masks[f"{origin}: {dataset}"] = of_origin & (outcomes.groups == dataset)
    return masks


def near_duplicates(test: Sequence[str], learned: Sequence[str]) -> int:
    """Number of distinct test questions that nearly repeat a training question.

    The Jaccard coefficient of their sets of case-folded words is `NEAR` or more.
    """
    learned_words = {_words(text) for text in learned}
    test_words = [_words(text) for text in dict.fromkeys(test)]
    return sum(any(_jaccard(bag, other) >= NEAR for other in learned_words) for bag in test_words)


def _jaccard(bag: frozenset[str], other: frozenset[str]) -> float:
    shared = len(bag & other)
    return shared / (len(bag) + len(other) - shared) if shared else 0.0


def _words(text: str) -> frozenset[str]:
    letters = "".join(c if c.isalnum() else " " for c in text.casefold())
    return frozenset(letters.split())
