"""What is written of a training run: metrics.json, a card and two figures; and the verdict."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from wye.backends.files import plain
from wye.backends.types import Int64
from wye.router.evidence import CHEAP_SIGNALS
from wye.router.policy import SURE, bands, routes
from wye.router.remote import PASSAGE_COLUMNS
from wye.router.types import Route
from wye.training.data.evaluation_set import EvaluationSet
from wye.training.evaluation.bootstrap import Interval, mean_interval
from wye.training.evaluation.held_out import (
    AUTO,
    MEASURED,
    QUALITY,
    Away,
    HeldOutEvaluation,
    Summary,
    subsets,
    summarise,
)
from wye.training.evaluation.measures import write_json
from wye.training.fit.calibration import Reliability, reliability
from wye.training.fit.router import Fitted
from wye.training.labels import ENOUGH
from wye.training.markdown import escape, gain_spread, percent, share, spread, table
from wye.training.plots import as_svg, front_figure, reliability_figure
from wye.training.thresholds.solve import Front, Outcome, front, keeps, of_each_route

METRICS, FRONT, RELIABILITY = "metrics.json", "front.svg", "reliability.svg"
CROSSFIT, DEV, TEST = "train and dev, cross-fitted", "dev, on which it was calibrated", "test"

_WIKIPEDIA = "Wikipedia, CC BY-SA"
PUBLIC: Mapping[str, tuple[str, str, str]] = {
    "2wiki": ("2WikiMultiHopQA", "Apache-2.0", _WIKIPEDIA),
    "hotpot-small": ("HotpotQA, sample", "CC BY-SA 4.0", _WIKIPEDIA),
    "musique-small": ("MuSiQue, sample", "CC BY 4.0", _WIKIPEDIA),
    "popqa": ("PopQA, sample", "MIT", _WIKIPEDIA),
    "nq": ("Natural Questions, sample", "Apache-2.0 / CC BY-SA 3.0", _WIKIPEDIA),
    "squad": ("SQuAD 2.0, sample of half of its dev set", "CC BY-SA 4.0", _WIKIPEDIA),
    "covid": ("COVID-QA, sample", "Apache-2.0", "articles of CORD-19"),
    "cranfield": ("Cranfield, all", "not stated", "abstracts on aerodynamics"),
    "pubmedqa": ("PubMedQA, sample of its labelled questions", "MIT", "PubMed's abstracts"),
}
"""Title, licence of the questions and source of the passages of the public datasets that the
shipped router is trained on, by folder name."""

_CARD = """\
# Router: {name}

It gives a question a score from 0 to 1: how likely it is that graph retrieval is needed and
{simple} retrieval is not enough. It uses no words of the question or of passages, but {sees}

- Scorer: {kind} on {features} features of schema `{schema}`, learned from {success}.
- Thresholds, solved for {quality}: up to a score of {low:.4f} {simple}, from {high:.4f} on the
  graph, between them fusion by {fusion}. In steps: {steps}.

## How good it is

{evaluation}

ECE of cross-fitted scores on train and dev: {calibration}.{away}

![What thresholds give on train and dev, and what these give.](front.svg)
![How often the label is the graph, by score; calibrated on the dotted line.](reliability.svg)

This command makes the router, this card and `metrics.json`, which has every number:

    {command}

## Data and licences

A question that is asked of two indexes counts twice. Test questions were only scored.

{data}

The files in this folder contain weights and statistics, but no passage or question of these
datasets.

## Limits, and when to retrain

English questions only: the parser is English, and so are the stop words. `wye tune` solves the
thresholds again for other questions, passages or arms. Retrain if the index has texts of another
kind, if the settings of an arm change, if Wye computes other features (it then refuses this
router), or if you have some hundred judged questions of your own:

    wye train --index INDEX --questions FOLDER --name NAME

A router needs about {enough} disagreements, which are questions on which one of the two routes that
it compares is better; this one had {disagreements}.
"""


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


@dataclass(frozen=True)
class Report:
    """The numbers of a training run; no question is quoted.

    Attributes:
        calibration: Set of questions -> calibration over those with a label.
        cross_fitted: Quality on train and dev, by cross-fitted scores.
        fixed: Route -> outcome of always taking it: each of the three, and steps.
        front: Quality against latency, on train and dev.
        evaluation: The final evaluation; None without a test split.
        parts: The final evaluation by replay, and by dataset within it.
        left_out: See `HeldOutEvaluation`; so are `untried` and `strangers`.
    """

    schema_id: str
    command: str
    versions: Mapping[str, str]
    seconds: Mapping[str, float]
    fitted: Fitted
    data: tuple[QuestionCounts, ...]
    calibration: Mapping[str, Reliability]
    cross_fitted: Interval
    fixed: Mapping[str, Outcome]
    front: Front
    evaluation: Summary | None = None
    parts: Mapping[str, Summary] = field(default_factory=dict)
    left_out: Sequence[Away] = ()
    untried: Mapping[str, str] = field(default_factory=dict)
    strangers: Sequence[Away] = ()

    @property
    def disagreements(self) -> int:
        """Number of questions of train and dev on which one arm is better."""
        return sum(row.simple + row.graph for row in self.data if row.split != TEST)


def make_report(
    fitted: Fitted,
    held_out: HeldOutEvaluation | None,
    *,
    schema_id: str,
    command: str,
    seconds: Mapping[str, float],
    versions: Mapping[str, str],
) -> Report:
    """Compute a report's numbers."""
    choices, policy, outcomes = fitted.choices, fitted.policy, fitted.outcomes
    training = fitted.training
    questions, labels, labelled = training.questions, training.labels, training.labels >= 0
    better = labels if training.better is None else training.better
    taken = bands(outcomes.scores, policy.thresholds)
    steps = questions.always(Route.STEPS, choices.fusion, choices.quality)
    report = Report(
        schema_id=schema_id,
        command=command,
        versions=versions,
        seconds=seconds,
        fitted=fitted,
        data=count_questions(questions, better),
        calibration={
            CROSSFIT: reliability(fitted.logits[labelled], labels[labelled]),
            DEV: fitted.trained.dev,
        },
        cross_fitted=mean_interval(outcomes.quality[np.arange(len(taken)), taken], choices.seed),
        fixed=of_each_route(outcomes, policy.simple) | {str(Route.STEPS): steps},
        front=front(outcomes, choices.goal),
    )
    if held_out is None:
        return report
    evaluation = summarise(held_out)
    calibrated = {} if evaluation.calibration is None else {TEST: evaluation.calibration}
    masks = subsets(held_out.questions)
    return replace(
        report,
        data=report.data + count_questions(held_out.questions, held_out.better),
        calibration={**report.calibration, **calibrated},
        evaluation=evaluation,
        parts={name: summarise(held_out, rows) for name, rows in masks.items()},
        left_out=held_out.left_out,
        untried=held_out.untried,
        strangers=held_out.strangers,
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


def metrics(report: Report) -> dict[str, Any]:
    """Every number, as JSON."""
    fitted = report.fitted
    content = {
        **{part.name: getattr(report, part.name) for part in fields(report)},
        "choices": fitted.choices,
        "recipe": fitted.trained.recipe,
        "features": fitted.scorer.names,
        "comparison": fitted.comparison,
        "dev_auc": fitted.trained.dev_auc,
        "policy": fitted.policy,
        "solutions": fitted.solutions,
    }
    del content["fitted"]
    result: dict[str, Any] = plain(content)
    return result


def write_report(folder: Path, report: Report) -> None:
    """Write metrics.json and the two figures; the same report gives the same bytes."""
    write_json(folder / METRICS, metrics(report))
    fitted = report.fitted
    curves = {name: reliability for name, reliability in report.calibration.items() if name != DEV}
    quality = fitted.choices.quality
    figures = {
        FRONT: front_figure(report.front, fitted.solution.outcome, report.fixed, quality),
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
    evaluation, choices, simple = (
        report.evaluation,
        report.fitted.choices,
        report.fitted.policy.simple,
    )
    if evaluation is None:
        return None
    bounded = not keeps(report.fixed[str(Route.FUSION)], choices.goal)
    rival = f"always {simple if bounded else Route.FUSION}"
    delta = evaluation.differences[rival][choices.quality]
    # A router may be meant to save time; the goal's weight says what saved time is worth.
    auto_ms, rival_ms = evaluation.latency_ms[AUTO], evaluation.latency_ms[rival]
    bought = choices.goal.latency_weight * (rival_ms - auto_ms)
    better = delta.low + max(bought, 0.0) > 0  # better answers may take longer
    word = "better" if delta.low > 0 else "worse" if delta.high < 0 else "not better"
    says = (
        f"{word.capitalize()} than {rival}: {choices.quality} {gain_spread(delta)} on the test "
        "split."
    )
    if bought:
        says += f" The median question takes {auto_ms:.1f} ms instead of {rival_ms:.1f}."
    if not better:
        says += f" Do not use this router; use {rival.removeprefix('always ')} instead."
    shares = zip((*routes(simple), Route.STEPS), evaluation.shares[AUTO], strict=True)
    if constant := [str(route) for route, share in shares if share == 1]:
        says += f" It sends every question to {constant[0]}, which needs no router."
    return Verdict(better, says)


def card(name: str, report: Report) -> str:
    """The text of CARD.md; the licences of datasets that are not in `PUBLIC` are not stated."""
    fitted, choices = report.fitted, report.fitted.choices
    thresholds, members = fitted.policy.thresholds, len(fitted.scorer.members)
    return _CARD.format(
        name=name,
        simple=report.fitted.policy.simple,
        sees=_sees(fitted.scorer.names),
        kind=fitted.trained.recipe.kind + (f", mean of {members}," if members > 1 else ""),
        features=len(fitted.scorer.names),
        schema=report.schema_id,
        success=choices.success,
        quality=choices.quality,
        low=thresholds.low,
        high=thresholds.high,
        fusion=choices.fusion.method,
        steps=stepping(thresholds.steps),
        evaluation=_unjudged(report) if report.evaluation is None else judged(report.evaluation),
        calibration=share(report.calibration[CROSSFIT].ece),
        away="".join(f" {sentence}" for sentence in _away(report)),
        command=report.command.replace("\n", " "),
        data=_data(report.data),
        enough=ENOUGH,
        disagreements=report.disagreements,
    )


def _sees(names: Sequence[str]) -> str:
    """A router's inputs in words, as the end of a sentence."""
    corpus = len(set(CHEAP_SIGNALS) & set(names))
    if set(PASSAGE_COLUMNS) >= set(names):
        return (
            f"{len(names)} numbers on the first passages that a simple search returned: which of "
            "its words and names they hold, and which they are about. So it decides without an "
            "index, whatever search returned them."
        )
    parse = "" if corpus == len(names) else "counts and measures of the question's parse, and "
    return (
        f"{parse}{corpus} numbers on what the corpus has for the question before the graph is "
        "walked: how far the best passages stand out, which of its words and names the corpus "
        "knows, and where these occur."
    )


def stepping(threshold: float) -> str:
    """Which questions go in steps, in words."""
    if not threshold:
        return "no question"
    few = f" where the first passages are about less than {percent(threshold)} of what they need"
    return (
        f"from a score of {SURE:g} on, or where words nest descriptions, questions with a plan"
        f"{'' if threshold == 1 else few}"
    )


def _unjudged(report: Report) -> str:
    return (
        "No dataset has a test split, so it was not evaluated. On train and dev, by cross-fitted "
        f"scores, {report.fitted.choices.quality} is {spread(report.cross_fitted)}; the thresholds "
        "were chosen on the same questions."
    )


def judged(summary: Summary) -> str:
    """The final evaluation: a table with a row for each system, and what follows from it."""
    rows = [
        (
            system,
            *(spread(cells[measure]) for measure in MEASURED),
            "" if system == AUTO else gain_spread(summary.differences[system][QUALITY]),
        )
        for system, cells in summary.means.items()
    ]
    closed = summary.gap_closed
    sentences = [
        f"No choice of routes beats the best fixed route in {QUALITY}."
        if math.isnan(closed)
        else f"The router closes {percent(closed)} of the gap between the best fixed route and the "
        f"oracle in {QUALITY}."
    ]
    if not math.isnan(summary.auc):
        sentences.append(f"Its AUC is {share(summary.auc)}.")
    if summary.calibration:
        sentences.append(f"ECE on test: {share(summary.calibration.ece)}.")
    simple, fusion, graph, steps = map(percent, summary.shares[AUTO])
    sentences.append(f"Routes: {simple} simple, {fusion} fusion, {graph} graph, {steps} steps.")
    return "\n\n".join(
        [
            f"On {summary.questions} test questions, with 95 % bootstrap intervals; * where that "
            "of a paired difference excludes 0.",
            table(("system", *MEASURED, f"auto less it, {QUALITY}"), rows),
            " ".join(sentences),
        ]
    )


def _away(report: Report) -> list[str]:
    """How the router does on datasets that were not trained on, at its own operating point."""
    policy = report.fitted.policy
    sentences = []
    for outcomes, says in (
        (report.left_out, "With each dataset routed by a router that learned from the others"),
        (report.strangers, "On datasets and spellings that nothing was learned from"),
    ):
        rows = [
            row
            for row in outcomes
            if policy.points.get(row.point, policy.thresholds) == policy.thresholds
        ]
        if rows:
            worst, best = (pick(rows, key=lambda row: row.less_best.mean) for pick in (min, max))
            sentences.append(
                f"{says}, {QUALITY} less that of the best fixed route is from "
                f"{gain_spread(worst.less_best)} ({escape(worst.dataset)}) to "
                f"{gain_spread(best.less_best)} ({escape(best.dataset)})."
            )
    return sentences


def _data(counts: Sequence[QuestionCounts]) -> str:
    lines = []
    for dataset in dict.fromkeys(row.dataset for row in counts):
        title, licence, passages = PUBLIC.get(dataset, ("own data", "not stated", "not stated"))
        sizes = Counter[str]()
        for row in counts:
            sizes[row.split] += row.questions if row.dataset == dataset else 0
        numbers = ", ".join(f"{sizes[split]} {split}" for split in ("train", "dev", "test"))
        lines.append(f"- {escape(dataset)}: {title} ({licence}; passages: {passages}): {numbers}")
    return "\n".join(lines)
