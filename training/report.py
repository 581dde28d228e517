"""What is written of a training run: metrics.json, a card and two figures; and the verdict."""

import io
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from wye.backends.files import plain, rounded_json
from wye.backends.types import Float64, Int64, Mask
from wye.router.policy import routes
from wye.router.scorer import AttentionMlp
from wye.router.types import Route
from wye.training.evaluation_set import EvaluationSet
from wye.training.fit.calibration import Reliability, losses
from wye.training.fit.router import Fitted
from wye.training.held_out import AUTO, MEASURED, Summary, run_systems, summarise
from wye.training.labels import ALL_GOLD, ENOUGH, HELPS
from wye.training.markdown import escape, gain_spread, percent, share, spread, table
from wye.training.measures import QUALITY, Interval, mean_interval
from wye.training.replay import TRAINING_SPLITS
from wye.training.thresholds import Front, Outcome, front, scores_of

TEST, ALL = "test", "all"

_LABELS = {
    HELPS: "1/2 if the better of fusion and steps ranks relevant passages higher, and 1/2 more if "
    "only that has all of them among the first five",
    ALL_GOLD: "1 if only the graph has all relevant passages among the first five, 0 if only the "
    "simple arm has",
}
_FIGURES: dict[Any, Any] = {"font.size": 9, "svg.hashsalt": "wye", "svg.fonttype": "none"}
"""So that only numbers change the bytes of an SVG, and text stays text."""
_BARE = dict.fromkeys(("Date", "Creator", "Format", "Type"))


@dataclass(frozen=True)
class Report:
    """The numbers of a training run; no question is quoted.

    Attributes:
        cross_fitted: The results on train and dev, each question by a router that did not learn
            from it. Thresholds were chosen on the same questions.
        teacher: By how much the negative log likelihood of cross-fitted scores exceeds that of the
            trees that taught; None without any.
        complexity: Rank correlation of cross-fitted scores with the number of hops, by dataset and
            over "all", datasets weighed equally; only of those that tell it.
        left_out: Dataset -> the results on it, by routers that learned from the others.
    """

    fitted: Fitted
    cross_fitted: Summary
    evaluation: Summary | None  # the results on the test splits; None without any
    teacher: Interval | None
    complexity: Mapping[str, float]
    left_out: Mapping[str, Summary]


def make_report(fitted: Fitted, evaluation: Summary | None) -> Report:
    """Compute a report's numbers."""
    questions, logits = fitted.questions, fitted.crossfit.logits
    labels = fitted.disagreement.labels

    def summary(rows: Mask, logits: Float64) -> Summary:
        some, scores = questions.only(rows), scores_of(logits[rows])
        systems = run_systems(some, scores, fitted.policy)
        return summarise(systems, some, scores, fitted.disagreement.only(rows))

    teacher = None
    if (trees := fitted.crossfit.trees) is not None:
        teacher = mean_interval((losses(logits, labels) - losses(trees, labels))[labels >= 0])
    left_out = {}
    if (unseen := fitted.unseen) is not None:
        for origin in np.unique(questions.origins[~np.isnan(unseen)]).tolist():
            rows = (questions.origins == origin) & ~np.isnan(unseen)
            left_out[origin] = summary(rows, unseen)
    every = summary(np.ones(len(questions), np.bool_), logits)
    return Report(fitted, every, evaluation, teacher, complexity(questions, logits), left_out)


def complexity(questions: EvaluationSet, scores: Float64) -> dict[str, float]:
    """Spearman's rank correlation of scores (n,) with numbers of hops; see `Report`."""
    hops = np.array([row.question.hops for row in questions.questions])
    origins = questions.origins
    sets = [name for name in dict.fromkeys(origins.tolist()) if hops[origins == name].all()]
    weights = {name: 1 / (origins == name).sum() for name in sets}
    groups = {ALL: np.isin(origins, sets), **{name: origins == name for name in sets}}
    return {
        name: _rank_correlation(
            scores[rows], hops[rows], np.array([weights[origin] for origin in origins[rows]])
        )
        for name, rows in groups.items()
        if len(np.unique(hops[rows])) > 1
    }


def _rank_correlation(one: Float64, other: Int64, weights: Float64) -> float:
    """Spearman's correlation with weights; equal values share the middle of their ranks."""
    ranks = []
    for values in (one, other):
        _, level = np.unique(values, return_inverse=True)
        mass = np.bincount(level, weights)
        ranks.append((np.cumsum(mass) - mass / 2)[level])
    covariance = np.cov(ranks, aweights=weights)
    return float(covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1]))


def write_report(folder: Path, report: Report) -> None:
    """Write metrics.json and the two figures; the same report gives the same bytes.

    What the router's `manifest.json` has, such as its inputs and the command, is not repeated.
    """
    fitted, choices = report.fitted, report.fitted.choices
    numbers = {each.name: getattr(report, each.name) for each in fields(report)}
    del numbers["fitted"]
    options = {**asdict(choices), "fusion": fitted.questions.fusion, "quality": QUALITY}
    numbers |= {"choices": options, "policy": fitted.policy, "solutions": fitted.solutions}
    (folder / "metrics.json").write_text(rounded_json(plain(numbers)) + "\n", "utf-8")
    summaries = {"train and dev, cross-fitted": report.cross_fitted, TEST: report.evaluation}
    curves = {name: s.calibration for name, s in summaries.items() if s and s.calibration}
    best, fixed = front(fitted.outcomes, choices.goal), fitted.questions.fixed(fitted.policy.simple)
    for name, figure in (
        ("front", front_figure(best, fitted.solution.outcome, fixed, QUALITY)),
        ("reliability", reliability_figure(curves)),
    ):
        (folder / f"{name}.svg").write_text(as_svg(figure), encoding="utf-8")


@mpl.rc_context(_FIGURES)
def reliability_figure(reliabilities: Mapping[str, Reliability]) -> Figure:
    """The mean label against the score, in bins of equal size."""
    figure = Figure(figsize=(4.2, 3.8), layout="constrained")
    axes = figure.add_subplot()
    axes.plot([0, 1], [0, 1], color="grey", linestyle=":")
    for name, curve in reliabilities.items():
        axes.plot(curve.score, curve.outcome, marker="o", markersize=4, label=name)
    axes.set(xlabel="mean score", ylabel="mean label", aspect="equal")
    axes.legend()
    return figure


@mpl.rc_context(_FIGURES)
def front_figure(
    front: Front, chosen: Outcome, fixed: Mapping[str, Outcome], measure: str = "quality"
) -> Figure:
    """The Pareto front, with the chosen thresholds and each of the fixed routes."""
    figure = Figure(figsize=(5.6, 3.6), layout="constrained")
    axes = figure.add_subplot()
    axes.plot(front.mean_ms, front.quality, label="best pairs of thresholds")
    axes.plot(chosen.mean_ms, chosen.quality, "o", markersize=8, label="these thresholds")
    # A route that no thresholds take is far off, and would squeeze the front.
    routes = {name: outcome for name, outcome in fixed.items() if any(outcome.shares)}
    for (name, outcome), marker in zip(routes.items(), "s^D", strict=False):
        axes.plot(outcome.mean_ms, outcome.quality, marker, color="grey", label=f"always {name}")
    axes.set(xlabel="mean latency, ms", ylabel=measure)
    axes.legend()
    return figure


def as_png(figure: Figure) -> bytes:
    """PNG."""
    written = io.BytesIO()
    figure.savefig(written, format="png", dpi=110)
    return written.getvalue()


@mpl.rc_context(_FIGURES)
def as_svg(figure: Figure) -> str:
    """SVG; equal numbers give equal bytes."""
    written = io.StringIO()
    figure.savefig(written, format="svg", metadata=_BARE)
    svg = written.getvalue()
    return svg[svg.index("<svg") :]


def verdict(fitted: Fitted, tested: Summary) -> tuple[bool, str]:
    """Whether the router is better than always taking fusion on the test splits, and why."""
    always = f"always {Route.FUSION}"
    delta = tested.differences[always][QUALITY]
    # A router may be meant to save time; the goal's weight says what saved time is worth.
    auto_ms, rival_ms = tested.latency_ms[AUTO], tested.latency_ms[always]
    bought = fitted.choices.goal.latency_weight * (rival_ms - auto_ms)
    better = delta.low + max(bought, 0.0) > 0  # better answers may take longer
    word = "Better" if delta.low > 0 else "Worse" if delta.high < 0 else "Not better"
    says = f"{word} than {always}: {QUALITY} {gain_spread(delta)} on the test split."
    if bought:
        says += f" A question takes {auto_ms:.1f} ms on average instead of {rival_ms:.1f}."
    if not better:
        says += " Do not use this router; use fusion instead."
    shares = zip((*routes(fitted.policy.simple), Route.STEPS), tested.shares[AUTO], strict=True)
    if constant := [str(route) for route, share in shares if share == 1]:
        says += f" It sends every question to {constant[0]}, which needs no router."
    return better, says


def card(name: str, schema_id: str, command: str, report: Report) -> str:
    """The text of CARD.md; `schema_id` is that of the features."""
    fitted = report.fitted
    simple, thresholds = fitted.policy.simple, fitted.policy.thresholds
    low, high, fusion = thresholds.low, thresholds.high, fitted.questions.fusion.method
    label, members = _LABELS[fitted.choices.success], len(fitted.scorer.members)
    kind = AttentionMlp.kind + (f", mean of {members}," if members > 1 else "")
    command = command.replace("\n", " ")
    evaluation = (
        "No dataset has a test split, so it was not evaluated. On train and dev, by cross-fitted "
        f"scores, {QUALITY} is {spread(report.cross_fitted.means[AUTO][QUALITY])}; the thresholds "
        "were chosen on the same questions."
    )
    if report.evaluation:
        evaluation = judged(report.evaluation)
    return f"""\
# Router: {name}

It gives a question a score from 0 to 1: how much more than {simple} retrieval it needs. Its label
is {label}. It uses no words of the question or of passages.

- Scorer: {kind} on {len(fitted.scorer.names)} features of schema `{schema_id}`.
- Thresholds, solved for {QUALITY}: up to a score of {low:.4f} {simple}, from {high:.4f} on the
  graph, between them fusion by {fusion}. The threshold of steps is {thresholds.steps:g}.

## How good it is

{evaluation}

{_scores(report)}

![What thresholds give on train and dev, and what these give.](front.svg)
![The mean label by score; calibrated on the dotted line.](reliability.svg)

This command makes the router, this card and `metrics.json`, which has every number:

    {command}

## Data

A question that is asked of two indexes counts twice. Test questions were only scored. The simple
arm or the graph is better on so many of train and dev. Left out: {QUALITY} less that of the best
fixed route, by routers that learned from the other datasets.

{_data(report)}

The files in this folder contain weights and statistics, but no passage or question of these
datasets.

## Limits, and when to retrain

English questions only: the parser is English, and so are the stop words. A notebook solves the
thresholds again for other questions, passages or arms. Retrain if the index has texts of another
kind, if the settings of an arm change, if Wye computes other features (it then refuses this
router), or if you have some hundred judged questions of your own:

    wye train --index INDEX --questions FOLDER --name NAME

A router needs about {ENOUGH} disagreements, which are questions on which one of the two routes that
it compares is better; this one had {len(fitted.disagreement)}.
"""


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
    if math.isnan(summary.gap_closed):
        says = f"No choice of routes beats the best fixed route in {QUALITY}."
    else:
        says = (
            f"The router closes {percent(summary.gap_closed)} of the gap between the best fixed "
            f"route and the oracle in {QUALITY}."
        )
    if not math.isnan(summary.auc):
        says += f" Its AUC is {share(summary.auc)}."
    if summary.calibration:
        says += f" ECE on test: {share(summary.calibration.ece)}."
    simple, fusion, graph, steps = map(percent, summary.shares[AUTO])
    return "\n\n".join(
        [
            f"On {summary.questions} test questions, with 95 % bootstrap intervals; * where that "
            "of a paired difference excludes 0.",
            table(("system", *MEASURED, f"auto less it, {QUALITY}"), rows),
            f"{says} Routes: {simple} simple, {fusion} fusion, {graph} graph, {steps} steps.",
        ]
    )


def _scores(report: Report) -> str:
    """How good the scores of train and dev are, each by routers that did not learn from it."""
    learned = report.cross_fitted
    ece = share(learned.calibration.ece) if learned.calibration else "-"
    says = f"Scores of train and dev, by cross-fitting: AUC {share(learned.auc)}, ECE {ece}."
    if report.teacher is not None:
        says += (
            " The negative log likelihood is that of the trees that taught it, on the same "
            f"questions, {gain_spread(report.teacher)} nats."
        )
    if report.complexity:
        listed = (f"{value:+.2f} ({escape(name)})" for name, value in report.complexity.items())
        says += f" Rank correlation with the number of hops: {', '.join(listed)}."
    return says


def _data(report: Report) -> str:
    """A table with a row for each dataset: numbers of questions, and the result if left out."""
    tested = report.evaluation.data if report.evaluation else {}
    rows = []
    for dataset in {**report.cross_fitted.data, **tested, **report.left_out}:
        learned = report.cross_fitted.data.get(dataset, Counter())
        sizes, left_out = learned + tested.get(dataset, Counter()), report.left_out.get(dataset)
        numbers = [sizes[split] for split in (*TRAINING_SPLITS, TEST)]
        numbers += [learned["simple"], learned["graph"]]
        gain = gain_spread(left_out.less_best) if left_out else ""
        rows.append((dataset, *map(str, numbers), gain))
    header = ("dataset", *TRAINING_SPLITS, TEST, "simple is better", "graph is better", "left out")
    return table(header, rows)
