"""Everything that the report of a training run says, before it is put into words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from backends.types import Float64, Int64
from router.explain import Explainer
from router.scorer import Scorer
from training.data.evaluation_set import EvaluationSet
from training.evaluation.held_out import HeldOutOutcomes
from training.pipeline import Fitted
from training.run import HeldOutEvaluation, Learned
from training.thresholds.solve import Front, Stability, front, stability

PERCENTILES = (50, 95, 99)
Percentiles = tuple[float, float, float]
"""p50, p95 and p99."""


@dataclass(frozen=True, slots=True)
class Tally:
    """Questions of one dataset in one split of one replay.

    Attributes:
        origin: Name of the replay: the dataset itself, or a union that it is part of.
        dataset: That the questions come from.
        split: train, dev or test.
        questions: How many.
        simple: On how many of them only the simple arm succeeds.
        graph: On how many of them only the graph does.
    """

    origin: str
    dataset: str
    split: str
    questions: int
    simple: int
    graph: int


@dataclass(frozen=True)
class RouterReport:
    """All that a report is made of.

    Attributes:
        title: Of the report, such as the router's name.
        fitted: The router, with what led to every choice.
        importances: (d,) of the selected features: mean |contribution| to the logit on dev.
        stability: Of the thresholds.
        front: Quality against latency.
        tallies: Of the questions.
        judged: On the test splits; None where there are none.
        transfer: Dataset -> judged on it, having learned from the others alone.
        untried: Dataset -> why that could not be tried.
        near_duplicates: Test questions that a training question nearly repeats, with that one.
        stages: Milliseconds that each stage of answering took, one question at a time.
        seconds: That each stage of the run took.
        command: That gives all of this again.
        versions: Of what took part, by name.
    """

    title: str
    fitted: Fitted
    importances: Float64
    stability: Stability
    front: Front
    tallies: tuple[Tally, ...]
    judged: HeldOutOutcomes | None = None
    transfer: Mapping[str, HeldOutOutcomes] = field(default_factory=dict)
    untried: Mapping[str, str] = field(default_factory=dict)
    near_duplicates: Sequence[tuple[str, str]] = ()
    stages: Mapping[str, Percentiles] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    command: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        learned: Learned,
        verdict: HeldOutEvaluation | None,
        *,
        title: str,
        command: str,
        seconds: Mapping[str, float],
        versions: Mapping[str, str],
    ) -> "RouterReport":
        """Of a run; resamples the thresholds, which takes seconds.

        Args:
            learned: From train and dev.
            verdict: From test; None where there is none.
            title: Of the report.
            command: That ran.
            seconds: Of its stages.
            versions: Of what took part, by name.

        Raises:
            FitError: No resample of the questions has thresholds that keep the bounds.
        """
        fitted = learned.fitted
        outcomes, goal = fitted.outcomes[fitted.policy.simple], fitted.choices.goal
        tallies = tally(learned.material, learned.labels)
        if verdict is not None:
            tallies += tally(verdict.material, verdict.judged.labels)
        return cls(
            title=title,
            fitted=fitted,
            importances=importances(fitted.scorer, learned.material.features[learned.dev]),
            stability=stability(
                outcomes,
                fitted.policy.thresholds,
                goal,
                errors=fitted.choices.errors,
                cautious=fitted.choices.elsewhere,
                seed=fitted.choices.seed,
            ),
            front=front(outcomes, goal),
            tallies=tallies,
            judged=verdict.judged if verdict else None,
            transfer=verdict.transfer if verdict else {},
            untried=verdict.untried if verdict else {},
            near_duplicates=verdict.duplicates if verdict else (),
            stages=stage_latency((verdict or learned).material),
            seconds=seconds,
            command=command,
            versions=versions,
        )


def tally(material: EvaluationSet, labels: Int64) -> tuple[Tally, ...]:
    """Count the questions of every replay, dataset and split.

    Args:
        material: Of any split.
        labels: (n,) 1 where only the graph succeeds, 0 where only the simple arm does, -1 else.
    """
    found, start = [], 0
    for replay in material.replays:
        own = labels[start : start + len(replay)]
        start += len(replay)
        for dataset in np.unique(replay.groups).tolist():
            rows = replay.groups == dataset
            simple, graph = (int((own[rows] == label).sum()) for label in (0, 1))
            found.append(
                Tally(replay.dataset, dataset, replay.split, int(rows.sum()), simple, graph)
            )
    return tuple(found)


def importances(scorer: Scorer, features: Float64) -> Float64:
    """(d,) how much each selected feature moves the logit: mean |contribution| over questions.

    Args:
        scorer: Trained.
        features: (n, width) of some questions.
    """
    explainer = Explainer.of(scorer)
    inputs, logits = scorer.inputs(features), scorer.logits(features)
    sizes = [
        np.abs(explainer.attribute(row, float(logit)).values)
        for row, logit in zip(inputs, logits, strict=True)
    ]
    result: Float64 = np.mean(sizes, axis=0)
    return result


def stage_latency(material: EvaluationSet) -> dict[str, Percentiles]:
    """Milliseconds of each stage over the questions that went through it."""
    seconds: dict[str, list[float]] = {}
    for replay in material.replays:
        for one in replay.questions:
            for stage, value in one.seconds.items():
                seconds.setdefault(stage, []).append(value)
    return {stage: percentiles(1000 * np.array(taken)) for stage, taken in seconds.items()}


def percentiles(values: Float64) -> Percentiles:
    """p50, p95 and p99 of (n,) values."""
    p50, p95, p99 = np.percentile(values, PERCENTILES).tolist()
    return p50, p95, p99
