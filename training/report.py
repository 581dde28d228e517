"""What is written of a training run: metrics.json, a card and two figures; and the verdict."""

import io
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from wye.backends.files import plain
from wye.backends.types import Int64
from wye.router.policy import SURE, bands, routes
from wye.router.types import Route
from wye.training.evaluation_set import EvaluationSet
from wye.training.fit.calibration import Reliability, reliability
from wye.training.fit.router import Fitted
from wye.training.held_out import (
    AUTO,
    MEASURED,
    QUALITY,
    HeldOutEvaluation,
    Summary,
    summarise,
)
from wye.training.labels import ALL_GOLD, ENOUGH
from wye.training.markdown import escape, gain_spread, percent, share, spread, table
from wye.training.measures import Interval, mean_interval, write_json
from wye.training.thresholds import Front, Outcome, front, keeps, of_each_route

METRICS, FRONT, RELIABILITY = "metrics.json", "front.svg", "reliability.svg"
CROSSFIT, DEV, TEST = "train and dev, cross-fitted", "dev, on which it was calibrated", "test"

INK = "#7f7f80"
BLUE, GREY, ORANGE, GREEN = "#3d7fc1", "#a9a9a9", "#d97f26", "#5c9a55"
_STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 9,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    **{f"{item}.color": INK for item in ("text", "xtick", "ytick")},
    **{f"axes.{item}color": INK for item in ("edge", "label", "title")},
}
_SVG: dict[Any, Any] = {"svg.hashsalt": "wye", "svg.fonttype": "none"}
_BARE = dict.fromkeys(("Date", "Creator", "Format", "Type"))
"""Drops date and version, so that only numbers change the bytes."""
_CARD = """\
# Router: {name}

It gives a question a score from 0 to 1: how likely it is that graph retrieval is needed and
{simple} retrieval is not enough. It uses no words of the question or of passages.

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

## Data

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
        facts: What made the router: `schema_id`, `command`, `versions` and `seconds`.
        calibration: Set of questions -> calibration over those with a label.
        fixed: Route -> outcome of always taking it on train and dev, for the three and steps.
        held_out: The final evaluation by question; None without a test split.
        evaluation: Its summary.
    """

    facts: Mapping[str, Any]
    fitted: Fitted
    data: tuple[QuestionCounts, ...]
    calibration: Mapping[str, Reliability]
    fixed: Mapping[str, Outcome]
    held_out: HeldOutEvaluation | None = None
    evaluation: Summary | None = None

    @property
    def disagreements(self) -> int:
        """Number of questions of train and dev on which one arm is better."""
        return sum(row.simple + row.graph for row in self.data if row.split != TEST)

    @cached_property
    def front(self) -> Front:
        """Quality against latency, on train and dev."""
        return front(self.fitted.outcomes, self.fitted.choices.goal)

    @cached_property
    def cross_fitted(self) -> Interval:
        """Quality on train and dev, by cross-fitted scores."""
        outcomes = self.fitted.outcomes
        codes = bands(outcomes.scores, self.fitted.policy.thresholds)
        quality = outcomes.quality[np.arange(len(codes)), codes]
        return mean_interval(quality, self.fitted.choices.seed)


def make_report(
    fitted: Fitted, held_out: HeldOutEvaluation | None, facts: Mapping[str, Any]
) -> Report:
    """Compute a report's numbers."""
    choices, training = fitted.choices, fitted.training
    labels, labelled = training.labels, training.labels >= 0
    better = labels if training.better is None else training.better
    steps = training.questions.always(Route.STEPS, choices.fusion, choices.quality)
    data = count_questions(training.questions, better)
    calibration = {
        CROSSFIT: reliability(fitted.logits[labelled], labels[labelled]),
        DEV: fitted.trained.dev,
    }
    fixed = of_each_route(fitted.outcomes, fitted.policy.simple) | {str(Route.STEPS): steps}
    if held_out is None:
        return Report(facts, fitted, data, calibration, fixed)
    evaluation = summarise(held_out)
    data += count_questions(held_out.questions, held_out.better)
    if evaluation.calibration is not None:
        calibration[TEST] = evaluation.calibration
    return Report(facts, fitted, data, calibration, fixed, held_out, evaluation)


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
    fitted, held_out = report.fitted, report.held_out
    numbers = ("data", "calibration", "cross_fitted", "fixed", "front", "evaluation")
    content: dict[str, Any] = plain(
        {
            **report.facts,
            **{name: getattr(report, name) for name in numbers},
            "left_out": held_out.left_out if held_out else (),
            "untried": held_out.untried if held_out else {},
            "choices": fitted.choices,
            "recipe": fitted.trained.recipe,
            "features": fitted.scorer.names,
            "comparison": fitted.comparison,
            "dev_auc": fitted.trained.dev_auc,
            "policy": fitted.policy,
            "solutions": fitted.solutions,
        }
    )
    return content


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
    if (evaluation := report.evaluation) is None:
        return None
    choices, simple = report.fitted.choices, report.fitted.policy.simple
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
    """The text of CARD.md."""
    fitted, choices = report.fitted, report.fitted.choices
    thresholds, members = fitted.policy.thresholds, len(fitted.scorer.members)
    return _CARD.format(
        name=name,
        simple=report.fitted.policy.simple,
        kind=fitted.trained.recipe.kind + (f", mean of {members}," if members > 1 else ""),
        features=len(fitted.scorer.names),
        schema=report.facts["schema_id"],
        success=choices.success,
        quality=choices.quality,
        low=thresholds.low,
        high=thresholds.high,
        fusion=choices.fusion.method,
        steps=stepping(thresholds.steps),
        evaluation=_unjudged(report) if report.evaluation is None else judged(report.evaluation),
        calibration=share(report.calibration[CROSSFIT].ece),
        away=_away(report),
        command=report.facts["command"].replace("\n", " "),
        data=_data(report.data, by_arm=choices.success == ALL_GOLD),
        enough=ENOUGH,
        disagreements=report.disagreements,
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


def _away(report: Report) -> str:
    """How the router does on datasets that were not trained on, at its own operating point."""
    policy, held_out = report.fitted.policy, report.held_out
    rows = [
        row
        for row in (held_out.left_out if held_out else ())
        if policy.points.get(row.point, policy.thresholds) == policy.thresholds
    ]
    if not rows:
        return ""
    ends = (pick(rows, key=lambda row: row.less_best.mean) for pick in (min, max))
    worst, best = (f"{gain_spread(row.less_best)} ({escape(row.dataset)})" for row in ends)
    return (
        f" With each dataset routed by a router that learned from the others, {QUALITY} less that "
        f"of the best fixed route is from {worst} to {best}."
    )


def _data(counts: Sequence[QuestionCounts], *, by_arm: bool = False) -> str:
    sizes = Counter[tuple[str, str]]()
    graph, simple = Counter[str](), Counter[str]()
    for row in counts:
        sizes[row.dataset, row.split] += row.questions
        if row.split != TEST:
            graph[row.dataset] += row.graph
            simple[row.dataset] += row.simple
    return "\n".join(
        f"- {escape(dataset)}: "
        + ", ".join(f"{sizes[dataset, split]} {split}" for split in ("train", "dev", TEST))
        + by_arm
        * f"; of train and dev, {graph[dataset]} only by the graph, {simple[dataset]} "
        "only by the simple arm"
        for dataset in dict.fromkeys(row.dataset for row in counts)
    )


@mpl.rc_context(_STYLE)
def reliability_figure(reliabilities: Mapping[str, Reliability]) -> Figure:
    """Share of questions that the graph wins against the score, in bins of equal size."""
    figure = Figure(figsize=(4.2, 3.8), layout="constrained")
    axes = figure.add_subplot()
    axes.plot([0, 1], [0, 1], color=INK, linewidth=0.8, linestyle=":")
    for (name, curve), colour in zip(reliabilities.items(), (BLUE, ORANGE, GREEN), strict=False):
        score, outcome = curve.score, curve.outcome
        axes.plot(score, outcome, color=colour, marker="o", markersize=4, label=name)
    axes.set(xlabel="mean score", ylabel="share that only the graph answers")
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    axes.legend(loc="upper left")
    return figure


@mpl.rc_context(_STYLE)
def front_figure(
    front: Front, chosen: Outcome, fixed: Mapping[str, Outcome], measure: str = "quality"
) -> Figure:
    """The Pareto front, with the chosen thresholds and each of the fixed routes."""
    figure = Figure(figsize=(5.6, 3.6), layout="constrained")
    axes = figure.add_subplot()
    axes.plot(front.mean_ms, front.quality, color=BLUE, label="best pairs of thresholds")
    # A route that no thresholds take is far off, and would squeeze the front.
    routes = {name: outcome for name, outcome in fixed.items() if any(outcome.shares)}
    for (name, outcome), marker in zip(routes.items(), "s^D", strict=False):
        axes.plot(outcome.mean_ms, outcome.quality, marker, color=GREY, label=f"always {name}")
    point = chosen.mean_ms, chosen.quality
    axes.plot(*point, "o", color=ORANGE, markersize=8, label="these thresholds")
    axes.set(xlabel="mean latency, ms", ylabel=measure)
    axes.legend(loc="lower right")
    return figure


def as_png(figure: Figure) -> bytes:
    """PNG on a white background, which is readable anywhere."""
    written = io.BytesIO()
    figure.savefig(written, format="png", dpi=110, facecolor="white")
    return written.getvalue()


@mpl.rc_context(_SVG)
def as_svg(figure: Figure) -> str:
    """SVG; equal numbers give equal bytes."""
    written = io.StringIO()
    figure.savefig(written, format="svg", transparent=True, metadata=_BARE)
    svg = written.getvalue()
    return svg[svg.index("<svg") :]
