"""The numbers of a training run: metrics.json, two figures, and whether the router is better."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from wye.backends.files import plain
from wye.backends.types import Int64
from wye.router.policy import Policy, routes
from wye.router.types import Route
from wye.training.data.evaluation_set import EvaluationSet
from wye.training.evaluation.away import Away
from wye.training.evaluation.compare import AUTO
from wye.training.evaluation.held_out import HeldOutEvaluation, Summary, subsets, summarise
from wye.training.evaluation.measures import write_json
from wye.training.fit.calibration import Reliability, reliability
from wye.training.fit.crossfit import ScorerComparison
from wye.training.fit.recipe import RouterRecipe
from wye.training.fit.router import Choices, Fitted
from wye.training.fit.trainer import Selection
from wye.training.markdown import gain_spread
from wye.training.plots import as_svg, front_figure, reliability_figure
from wye.training.thresholds.outcomes import Outcome, of_each_route
from wye.training.thresholds.solve import Front, Solution, Stability, front, stability
from wye.training.thresholds.sweep import keeps

METRICS, FRONT, RELIABILITY = "metrics.json", "front.svg", "reliability.svg"
CROSSFIT, DEV, TEST = "train and dev, cross-fitted", "dev, on which it was calibrated", "test"


@dataclass(frozen=True, slots=True)
class QuestionCounts:
    """Questions of one dataset in one split of one replay.

    Attributes:
        origin: Name of the replay: the dataset itself, its copy, or a union that contains it.
        simple: Number of questions on which the simple arm is better.
        graph: Number on which the graph is.
    """

    origin: str
    dataset: str
    split: str
    questions: int
    simple: int
    graph: int

    @property
    def disagreements(self) -> int:
        """Number of questions on which one arm is better."""
        return self.simple + self.graph


@dataclass(frozen=True)
class Report:
    """The numbers of a training run; no question is quoted.

    Attributes:
        members: Number of members whose mean the scorer is.
        comparison: Comparison of the last two kinds of scorer; None if the kind was given.
        selection: The scorer's d features.
        dev_auc: AUC on the questions of dev with a label.
        calibration: Set of questions -> calibration over those with a label.
        solutions: Simple route that was tried -> its thresholds.
        fixed: Route -> outcome of always taking it: each of the three, and steps.
        front: Quality against latency, on train and dev.
        evaluation: The final evaluation; None without a test split.
        parts: The final evaluation by replay, and by dataset within it.
        transfer: Dataset -> evaluation of a router that was trained on the others.
        untried: Dataset -> why no router could be trained on the others.
        left_out: Results on train and dev of each dataset, with a router that was trained on the
            others.
        strangers: This router's results on test questions of sources that were not trained on.
        near_duplicates: Number of test questions that nearly repeat a training question.
    """

    title: str
    schema_id: str
    command: str
    versions: Mapping[str, str]
    seconds: Mapping[str, float]
    choices: Choices
    data: tuple[QuestionCounts, ...]
    recipe: RouterRecipe
    members: int
    comparison: ScorerComparison | None
    selection: Selection
    dev_auc: float
    calibration: Mapping[str, Reliability]
    policy: Policy
    solutions: Mapping[Route, Solution]
    stability: Stability
    fixed: Mapping[str, Outcome]
    front: Front
    evaluation: Summary | None = None
    parts: Mapping[str, Summary] = field(default_factory=dict)
    transfer: Mapping[str, Summary] = field(default_factory=dict)
    untried: Mapping[str, str] = field(default_factory=dict)
    left_out: tuple[Away, ...] = ()
    strangers: tuple[Away, ...] = ()
    near_duplicates: int = 0


def make_report(
    fitted: Fitted,
    held_out: HeldOutEvaluation | None,
    *,
    title: str,
    schema_id: str,
    command: str,
    seconds: Mapping[str, float],
    versions: Mapping[str, str],
) -> Report:
    """Compute a report's numbers, which takes seconds.

    Raises:
        FitError: No resample of the questions has thresholds that keep the bounds.
    """
    choices, trained, policy = fitted.choices, fitted.trained, fitted.policy
    questions, labels, logits = fitted.training.questions, fitted.training.labels, fitted.logits
    outcomes, labelled = fitted.outcomes[policy.simple], labels >= 0
    better = labels if fitted.training.better is None else fitted.training.better
    report = Report(
        title=title,
        schema_id=schema_id,
        command=command,
        versions=versions,
        seconds=seconds,
        choices=choices,
        data=count_questions(questions, better),
        recipe=trained.recipe,
        members=len(fitted.scorer.members),
        comparison=fitted.comparison,
        selection=trained.selection,
        dev_auc=trained.dev_auc,
        calibration={CROSSFIT: reliability(logits[labelled], labels[labelled]), DEV: trained.dev},
        policy=policy,
        solutions=fitted.solutions,
        stability=stability(
            outcomes,
            policy.thresholds,
            choices.goal,
            cautious=choices.elsewhere,
            seed=choices.seed,
        ),
        fixed=of_each_route(outcomes, policy.simple)
        | {str(Route.STEPS): questions.always(Route.STEPS, choices.fusion, choices.quality)},
        front=front(outcomes, choices.goal),
    )
    if held_out is None:
        return report
    test = held_out.outcomes
    evaluation = summarise(test)
    calibrated = {} if evaluation.calibration is None else {TEST: evaluation.calibration}
    return replace(
        report,
        data=report.data + count_questions(held_out.questions, test.better),
        calibration={**report.calibration, **calibrated},
        evaluation=evaluation,
        parts={n: summarise(test, rows) for n, rows in subsets(test).items()},
        transfer={name: summarise(transferred) for name, transferred in held_out.transfer.items()},
        untried=held_out.untried,
        left_out=tuple(held_out.left_out),
        strangers=tuple(held_out.strangers),
        near_duplicates=held_out.duplicates,
    )


def count_questions(questions: EvaluationSet, better: Int64) -> tuple[QuestionCounts, ...]:
    """Count the questions of every replay and dataset.

    Args:
        better: (n,) as in `wye.training.labels.Disagreement`.
    """
    result, start = [], 0
    for replay in questions.replays:
        replay_better = better[start : start + len(replay)]
        start += len(replay)
        for dataset in np.unique(replay.groups).tolist():
            rows = replay.groups == dataset
            simple, graph = (int((replay_better[rows] == label).sum()) for label in (0, 1))
            counts = int(rows.sum()), simple, graph
            result.append(QuestionCounts(replay.dataset, dataset, replay.split, *counts))
    return tuple(result)


def write_report(folder: Path, report: Report) -> None:
    """Write metrics.json and the two figures; the same report gives the same bytes."""
    write_json(folder / METRICS, plain(report))
    chosen, quality = report.solutions[report.policy.simple].outcome, report.choices.quality
    curves = {name: reliability for name, reliability in report.calibration.items() if name != DEV}
    figures = {
        FRONT: front_figure(report.front, chosen, report.fixed, quality),
        RELIABILITY: reliability_figure(curves),
    }
    for name, figure in figures.items():
        (folder / name).write_text(as_svg(figure), encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a router is worth using, and why, in a sentence or two."""

    better: bool
    says: str


def verdict(report: Report) -> Verdict | None:
    """Compare the router with always taking fusion, on the test splits; None without any.

    If fusion does not keep the goal's bounds, the simple route is compared instead.
    """
    evaluation, quality = report.evaluation, report.choices.quality
    if evaluation is None:
        return None
    bounded = not keeps(report.fixed[str(Route.FUSION)], report.choices.goal)
    rival = f"always {report.policy.simple if bounded else Route.FUSION}"
    delta = evaluation.differences[rival][quality]
    # A router may be meant to save time; the goal's weight says what saved time is worth.
    auto_ms, rival_ms = (evaluation.latency_ms[name][0] for name in (AUTO, rival))
    bought = report.choices.goal.latency_weight * (rival_ms - auto_ms)
    better = delta.low + max(bought, 0.0) > 0  # better answers may take longer
    word = "better" if delta.low > 0 else "worse" if delta.high < 0 else "not better"
    says = f"{word.capitalize()} than {rival}: {quality} {gain_spread(delta)} on the test split."
    if bought:
        says += f" The median question takes {auto_ms:.1f} ms instead of {rival_ms:.1f}."
    if not better:
        says += f" Do not use this router; use {rival.removeprefix('always ')} instead."
    order = (*routes(report.policy.simple), Route.STEPS)
    share_by_route = dict(zip(order, evaluation.shares[AUTO], strict=True))
    if constant := [str(route) for route, share in share_by_route.items() if share == 1]:
        says += f" It sends every question to {constant[0]}, which needs no router."
    return Verdict(better, says)
