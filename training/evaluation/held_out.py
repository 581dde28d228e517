"""The final evaluation: the router beside every baseline, on questions that chose nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from backends.types import Float64, Int64, Ranking
from router.fusion import FusionSettings
from router.policy import Policy
from router.types import Route
from training.data.evaluation_set import EvaluationSet
from training.evaluation.bootstrap import Interval, interval, resampled_means
from training.evaluation.measures import MEASURES
from training.fit.calibration import Reliability, reliability
from training.thresholds.outcomes import taken

AUTO, RANDOM, ORACLE = "auto", "random", "oracle"
ANSWERED = "answer-in-context@5"
COLUMNS: tuple[str, ...] = (*MEASURES, ANSWERED)
"""What is measured of every contender."""
PAPER = "paper wRRF"
DRAWS = 200


@dataclass(frozen=True, slots=True)
class SystemOutcomes:
    """One way of answering every question.

    Attributes:
        name: As reports have it.
        values: (n, m) every measure of every question, columns as in `COLUMNS`.
        latency_ms: (n,) of the stages that it runs.
        shares: Of the simple, fusion and graph route.
    """

    name: str
    values: Float64
    latency_ms: Float64
    shares: tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class RouterScores:
    """A router as a contender: its scores, and what becomes of them.

    Attributes:
        scores: (n,) of the test questions.
        policy: Its own thresholds, solved as the router's are.
    """

    scores: Float64
    policy: Policy


@dataclass(frozen=True)
class HeldOutOutcomes:
    """Everything that a report is made of.

    Attributes:
        contenders: By name, in the order of tables.
        groups: (n,) dataset of each question.
        origins: (n,) replay of each question.
        scores: (n,) of the router.
        labels: (n,) 1, 0, or -1 where the arms agree, by the success that it was trained for.
        auc: Of the scores on the disagreements; NaN where these are one-sided.
        calibration: Of the scores on the disagreements; None where there are none.
    """

    contenders: Mapping[str, SystemOutcomes]
    groups: NDArray[np.str_]
    origins: NDArray[np.str_]
    scores: Float64
    labels: Int64
    auc: float
    calibration: Reliability | None

    def mean(
        self, name: str, measure: str, rows: NDArray[np.bool_] | None = None, *, seed: int = 0
    ) -> Interval:
        """Mean of a measure with its interval, over some questions or all."""
        values = self._column(name, measure, rows)
        return interval(values, resampled_means(values[:, None], seed=seed)[:, 0])

    def difference(
        self,
        name: str,
        other: str,
        measure: str,
        rows: NDArray[np.bool_] | None = None,
        *,
        seed: int = 0,
    ) -> Interval:
        """Mean of name - other with its paired interval."""
        values = self._column(name, measure, rows) - self._column(other, measure, rows)
        return interval(values, resampled_means(values[:, None], seed=seed)[:, 0])

    def gap_closed(self, name: str, measure: str, rows: NDArray[np.bool_] | None = None) -> float:
        """Share of the way from the better fixed arm to the oracle; NaN where there is none."""
        own, oracle = (self._column(each, measure, rows).mean() for each in (name, ORACLE))
        fixed = max(
            self._column(f"always {route}", measure, rows).mean()
            for route in (Route.DENSE, Route.GRAPH)
        )
        return float((own - fixed) / (oracle - fixed)) if oracle > fixed else float("nan")

    def _column(self, name: str, measure: str, rows: NDArray[np.bool_] | None) -> Float64:
        values = self.contenders[name].values[:, COLUMNS.index(measure)]
        return values if rows is None else values[rows]


def judge(
    material: EvaluationSet,
    router: RouterScores,
    labels: Int64,
    *,
    fusion: FusionSettings,
    baselines: Mapping[str, RouterScores],
    seed: int = 0,
) -> HeldOutOutcomes:
    """Let every contender answer.

    Args:
        material: Of the test questions.
        router: That is judged.
        labels: (n,) as `training.labels.labels_of` gives them.
        fusion: What fusion does.
        baselines: Scores of baselines by name, each with thresholds solved as the router's are.
        seed: Of the random router.
    """
    answers = _Answers(material, fusion)
    found = [
        answers.always(route)
        for route in (Route.DENSE, Route.LEXICAL, Route.HYBRID, Route.GRAPH, Route.FUSION)
    ]
    found.append(answers.paper(router))
    auto = answers.routed(AUTO, router)
    found.append(answers.random(router.policy.simple, auto.shares, seed))
    found += [answers.routed(name, baseline) for name, baseline in baselines.items()]
    found += [auto, answers.oracle(router)]
    known = labels >= 0
    both = len(np.unique(labels[known])) == 2
    logits = np.log(router.scores[known]) - np.log1p(-router.scores[known])
    return HeldOutOutcomes(
        contenders={contender.name: contender for contender in found},
        groups=material.groups,
        origins=material.origins,
        scores=router.scores,
        labels=labels,
        auc=float(roc_auc_score(labels[known], logits)) if both else float("nan"),
        calibration=reliability(logits, labels[known]) if known.any() else None,
    )


class _Answers:
    """What each route is worth, computed once."""

    def __init__(self, material: EvaluationSet, fusion: FusionSettings) -> None:
        self._material = material
        self._fusion = fusion
        self._always: dict[Route, SystemOutcomes] = {}

    def always(self, route: Route) -> SystemOutcomes:
        """One route for all; fusion without a score."""
        if route not in self._always:
            self._always[route] = self._contender(f"always {route}", route, self._fusion, None)
        return self._always[route]

    def paper(self, router: RouterScores) -> SystemOutcomes:
        """Dense and graph by weighted reciprocal ranks, the weights from the router's scores."""
        lists = (Route.DENSE, Route.GRAPH)
        published = replace(self._fusion, method="rrf", lists=lists, rrf_k=60.0)
        return self._contender(PAPER, Route.FUSION, published, router.scores)

    def routed(self, name: str, router: RouterScores) -> SystemOutcomes:
        """Each question over the route that a router chooses."""
        codes = taken(router.scores, router.policy.thresholds)
        return self._mixed(name, self._routes(router), codes)

    def oracle(self, router: RouterScores) -> SystemOutcomes:
        """Each question over the route whose ranking is best, which nobody can know."""
        routes = self._routes(router)
        column = COLUMNS.index("nDCG@10")
        quality = np.stack([contender.values[:, column] for contender in routes], axis=1)
        return self._mixed(ORACLE, routes, quality.argmax(axis=1))

    def random(
        self, simple: Route, shares: tuple[float, float, float], seed: int
    ) -> SystemOutcomes:
        """Routes drawn at the router's rates: the mean of many draws of each question's route."""
        routes = [self.always(route) for route in (simple, Route.FUSION, Route.GRAPH)]
        draws = np.random.default_rng(seed).choice(3, size=(DRAWS, len(self._material)), p=shares)
        rates = np.stack([(draws == code).mean(axis=0) for code in range(3)])
        values = sum(r[:, None] * one.values for r, one in zip(rates, routes, strict=True))
        latency = sum(r * one.latency_ms for r, one in zip(rates, routes, strict=True))
        return SystemOutcomes(RANDOM, np.asarray(values), np.asarray(latency), shares)

    def _routes(self, router: RouterScores) -> list[SystemOutcomes]:
        fused = self._contender("fusion", Route.FUSION, self._fusion, router.scores)
        return [self.always(router.policy.simple), fused, self.always(Route.GRAPH)]

    def _mixed(self, name: str, routes: Sequence[SystemOutcomes], codes: Int64) -> SystemOutcomes:
        rows = np.arange(len(codes))
        values = np.stack([one.values for one in routes], axis=1)
        latency = np.stack([one.latency_ms for one in routes], axis=1)
        return SystemOutcomes(name, values[rows, codes], latency[rows, codes], _shares(codes))

    def _contender(
        self, name: str, route: Route, fusion: FusionSettings, scores: Float64 | None
    ) -> SystemOutcomes:
        material = self._material
        rankings: list[Ranking] = material.rankings(route, fusion, scores)
        answered = material.answered(rankings, 5)
        values = np.concatenate([material.measured(rankings), answered[:, None]], axis=1)
        place = {Route.FUSION: 1, Route.GRAPH: 2}.get(route, 0)
        return SystemOutcomes(
            name,
            values,
            material.latency_ms(route, fusion),
            _shares(np.full(len(material), place)),
        )


def _shares(codes: Int64) -> tuple[float, float, float]:
    simple, fused, graph = (np.bincount(codes, minlength=3) / len(codes)).tolist()
    return simple, fused, graph


def near_duplicates(
    test: Sequence[str], learned: Sequence[str], *, least: float = 0.8
) -> list[tuple[str, str]]:
    """Test questions that a training question nearly repeats.

    Questions are compared as sets of words without case, by Jaccard's coefficient: the size of what
    two sets share over the size of both together.

    Args:
        test: Questions of the test split.
        learned: Questions of train and dev.
        least: Coefficient from which on two are nearly the same.

    Returns:
        Pairs of a test question and the training question that is nearest to it.
    """
    bags = [(text, _words(text)) for text in dict.fromkeys(learned)]
    holding: dict[str, list[int]] = {}
    for place, (_, bag) in enumerate(bags):
        for word in bag:
            holding.setdefault(word, []).append(place)
    found = []
    for text in dict.fromkeys(test):
        bag = _words(text)
        shared: dict[int, int] = {}
        for word in bag:
            for place in holding.get(word, ()):
                shared[place] = shared.get(place, 0) + 1
        near = {place: count / len(bag | bags[place][1]) for place, count in shared.items()}
        best = max(near, key=lambda place: (near[place], -place), default=None)
        if best is not None and near[best] >= least:
            found.append((text, bags[best][0]))
    return found


def _words(text: str) -> frozenset[str]:
    kept = "".join(c if c.isalnum() else " " for c in text.casefold())
    return frozenset(kept.split())
