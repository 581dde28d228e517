"""Collects the numbers of a training run for its report."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from backends.numerics import logistic
from backends.types import Float64, Int64
from router.explain import Explainer
from router.policy import Policy
from router.scorer import Scorer
from router.types import Route
from training.data.evaluation_set import EvaluationSet
from training.evaluation.away import Away
from training.evaluation.compare import Percentiles, percentiles
from training.evaluation.held_out import HeldOutEvaluation, Summary, parts, summarise
from training.fit.calibration import Reliability, reliability
from training.fit.crossfit import ScorerComparison
from training.fit.probes import Probe, ablation, learning_curve, probe
from training.fit.recipe import RouterRecipe
from training.fit.router import Choices, Fitted
from training.fit.trainer import Selection
from training.plots import histogram
from training.thresholds.outcomes import Outcome, of_each_route
from training.thresholds.solve import Front, Solution, Stability, front, stability

CROSSFIT, DEV, TEST = "train and dev, cross-fitted", "dev, on which it was calibrated", "test"


@dataclass(frozen=True, slots=True)
class QuestionCounts:
    """Questions of one dataset in one split of one replay.

    Attributes:
        origin: Name of the replay: the dataset itself, or a union that contains it.
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
        importances: (d,) mean |contribution| to the logit on dev.
        dev_auc: AUC on the questions of dev with a label.
        calibration: Set of questions -> calibration over those with a label.
        scores: Set of questions -> outcome -> histogram of scores.
        solutions: Simple route that was tried -> its thresholds.
        fixed: Route -> outcome of always taking it: each of the three, and steps.
        front: Quality against latency, on train and dev.
        stages_ms: Milliseconds of each stage, for one question at a time.
        evaluation: The final evaluation; None without a test split.
        parts: The final evaluation by replay, and by dataset within it.
        transfer: Dataset -> evaluation of a router that was trained on the others.
        probes: AUCs on unseen questions of this scorer and of its variants: trained without the
            question's dataset, without some columns, and on fewer questions.
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
    importances: Float64
    dev_auc: float
    calibration: Mapping[str, Reliability]
    scores: Mapping[str, Mapping[str, Int64]]
    policy: Policy
    solutions: Mapping[Route, Solution]
    stability: Stability
    fixed: Mapping[str, Outcome]
    front: Front
    stages_ms: Mapping[str, Percentiles]
    evaluation: Summary | None = None
    parts: Mapping[str, Summary] = field(default_factory=dict)
    transfer: Mapping[str, Summary] = field(default_factory=dict)
    probes: tuple[Probe, ...] = ()
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
    outcomes, known = fitted.outcomes[policy.simple], labels >= 0
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
        importances=importances(fitted.scorer, questions.features[fitted.training.dev]),
        dev_auc=trained.dev_auc,
        calibration={CROSSFIT: reliability(logits[known], labels[known]), DEV: trained.dev},
        scores={CROSSFIT: histogram(logistic(logits), better)},
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
        stages_ms=stage_latency(questions),
        probes=tuple(_probed(fitted, logits, labels)),
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
        scores={**report.scores, TEST: histogram(test.scores, test.better)},
        stages_ms=stage_latency(held_out.questions),
        evaluation=evaluation,
        parts={n: summarise(test, rows) for n, rows in parts(test).items()},
        transfer={name: summarise(found) for name, found in held_out.transfer.items()},
        untried=held_out.untried,
        left_out=tuple(held_out.left_out),
        strangers=tuple(held_out.strangers),
        near_duplicates=held_out.duplicates,
    )


def _probed(fitted: Fitted, logits: Float64, labels: Int64) -> Iterator[Probe]:
    pool, recipe = fitted.pool, fitted.trained.recipe
    yield probe("as it is", labels, logits, pool.groups)
    if fitted.unseen is not None:
        yield probe("without the question's dataset", labels, fitted.unseen, pool.groups)
    if fitted.choices.start:  # too few questions to train variants on
        return
    names = fitted.training.questions.names
    yield from ablation(pool, names, recipe, seed=fitted.choices.seed)
    yield from learning_curve(pool, names, recipe, seed=fitted.choices.seed)


def count_questions(questions: EvaluationSet, better: Int64) -> tuple[QuestionCounts, ...]:
    """Count the questions of every replay and dataset.

    Args:
        better: (n,) as in `training.labels.Disagreement`.
    """
    found, start = [], 0
    for replay in questions.replays:
        own = better[start : start + len(replay)]
        start += len(replay)
        for dataset in np.unique(replay.groups).tolist():
            rows = replay.groups == dataset
            simple, graph = (int((own[rows] == label).sum()) for label in (0, 1))
            counts = int(rows.sum()), simple, graph
            found.append(QuestionCounts(replay.dataset, dataset, replay.split, *counts))
    return tuple(found)


def importances(scorer: Scorer, features: Float64) -> Float64:
    """(d,) mean |contribution| of each selected feature to the logit, over (n, width) features."""
    explainer = Explainer(scorer)
    inputs, logits = scorer.inputs(features), scorer.logits(features)
    sizes = [
        np.abs(explainer.attribute(row, float(logit)).values)
        for row, logit in zip(inputs, logits, strict=True)
    ]
    result: Float64 = np.mean(sizes, axis=0)
    return result


def stage_latency(questions: EvaluationSet) -> dict[str, Percentiles]:
    """Percentiles of each stage's milliseconds, over the questions that ran it."""
    seconds: dict[str, list[float]] = {}
    for replay in questions.replays:
        for one in replay.questions:
            for stage, value in one.seconds.items():
                seconds.setdefault(stage, []).append(value)
    return {stage: percentiles(1000 * np.array(taken)) for stage, taken in seconds.items()}
