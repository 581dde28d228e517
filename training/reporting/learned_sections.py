"""What a report says of the training and dev splits: data, scorer, calibration, thresholds."""

from collections.abc import Sequence

import numpy as np

from router.policy import routes
from router.types import Thresholds
from training.evaluation.bootstrap import Interval
from training.reporting.blocks import Figure, Section, Table
from training.reporting.contents import RouterReport, Tally
from training.reporting.formats import milliseconds, percent, share, spread
from training.reporting.plots import front_plot, importance_plot, reliability_plot, score_plot
from training.reporting.scores import CROSSFIT, TEST, calibrations, histograms
from training.thresholds.outcomes import Outcome, of_routes

SHOWN_FEATURES = 30


def data(report: RouterReport) -> Section:
    """Questions and disagreements."""
    rows = [_tally(one) for one in report.tallies]
    for split in dict.fromkeys(one.split for one in report.tallies):
        own = [one for one in report.tallies if one.split == split]
        counts = [sum(getattr(one, name) for one in own) for name in _COUNTS]
        rows.append(_tally(Tally("all", "all", split, *counts)))
    return Section(
        "Data",
        [
            "A router learns from disagreements: questions on which exactly one of the simple and "
            f"the graph arm succeeds, by {report.fitted.choices.success}. A question that is asked "
            "of two indexes counts twice.",
            Table(
                (
                    "replay",
                    "dataset",
                    "split",
                    "questions",
                    "disagreements",
                    "only simple",
                    "only graph",
                    "graph's share",
                ),
                rows,
                words=3,
            ),
        ],
    )


_COUNTS = ("questions", "simple", "graph")


def _tally(one: Tally) -> tuple[str, ...]:
    differ = one.simple + one.graph
    counts = (one.questions, differ, one.simple, one.graph)
    graphs = percent(one.graph / differ) if differ else "-"
    return one.origin, one.dataset, one.split, *map(str, counts), graphs


def scorer(report: RouterReport) -> Section:
    """Kind of scorer and what it looks at."""
    fitted = report.fitted
    selection = fitted.trained.selection
    said = f"The scorer is of kind {fitted.trained.recipe.kind}"
    if fitted.comparison is None:
        said += ", as was asked for."
    else:
        gain = fitted.comparison.gain
        verdict = "more" if fitted.comparison.clever else "no more"
        said += (
            f": on cross-fitted questions, the attention-MLP's likelihood is {gain.mean:+.4f} nats "
            f"a question [{gain.low:+.4f} {gain.high:+.4f}] above logistic regression's, which is "
            f"{verdict} than one standard error ({fitted.comparison.error:.4f})."
        )
    order = np.argsort(-report.importances, kind="stable")[:SHOWN_FEATURES].tolist()
    return Section(
        "Scorer",
        [
            f"{said} Its AUC on the disagreements of dev is {share(fitted.trained.dev_auc)}.",
            f"It looks at {len(selection.names)} features, chosen by mutual information with the "
            f"label. {len(selection.constants)} that never vary in training and "
            f"{len(selection.duplicates)} that repeat another were left out. Importance is the "
            "mean size of a feature's contribution to the logit on dev; the "
            f"{len(order)} most important ones are these.",
            Table(
                ("feature", "importance", "mutual information, nats"),
                [
                    (
                        selection.names[at],
                        f"{report.importances[at]:.3f}",
                        f"{selection.information[at]:.3f}",
                    )
                    for at in order
                ],
            ),
            Figure(
                "importances",
                importance_plot(selection.names, report.importances),
                "The most important features.",
            ),
        ],
    )


def calibration(report: RouterReport) -> Section:
    """How well scores match outcomes."""
    found = calibrations(report)
    return Section(
        "Calibration",
        [
            "Over disagreements. ECE is the expected calibration error, in 15 groups of equal "
            "size, and of equal width.",
            Table(
                ("scores of", "ECE, size", "ECE, width", "Brier", "log loss"),
                [
                    (
                        name,
                        *map(share, (one.ece_mass, one.ece_width, one.brier)),
                        f"{one.nll:.3f}",
                    )
                    for name, one in found.items()
                ],
            ),
            Figure(
                "reliability",
                reliability_plot({name: found[name] for name in (CROSSFIT, TEST) if name in found}),
                "How often only the graph succeeds among disagreements, by score; on the dotted "
                "line scores mean what they say.",
            ),
            Figure(
                "scores",
                score_plot(histograms(report), report.fitted.policy.thresholds),
                "Questions by score and outcome; dashed: the thresholds.",
            ),
        ],
    )


def thresholds(report: RouterReport) -> Section:
    """What was chosen, how sure that is, and what else there is."""
    fitted, stable = report.fitted, report.stability
    policy, goal = fitted.policy, fitted.choices.goal
    bounds = [
        f"{name} at most {value:g}"
        for name, value in (
            ("mean latency in ms", goal.max_mean_ms),
            ("95th percentile of latency in ms", goal.max_p95_ms),
            ("share of questions that walk the graph", goal.max_graph_share),
        )
        if value is not None
    ]
    aim = f"{fitted.choices.quality}" + (
        f" less {goal.latency_weight:g} a millisecond" if goal.latency_weight else ""
    )
    rows = []
    for route, found in fitted.solutions.items():
        kept = " (kept)" if route == policy.simple else ""
        rows.append(_outcome(f"{route}{kept}", found.thresholds, found.outcome))
        rows.append(_outcome(f"{route}, best pair", found.best, found.best_outcome))
    times = ", ".join(f"{route} {milliseconds(ms)}" for route, ms in policy.latency_ms.items())
    return Section(
        "Thresholds",
        [
            f"Scores up to {policy.thresholds.low:.4f} take the {policy.simple} route, those from "
            f"{policy.thresholds.high:.4f} on the graph, and the rest fusion. They were chosen on "
            f"train and dev, by cross-fitted scores, for {aim}"
            + (f", with {' and '.join(bounds)}" if bounds else "")
            + f". {percent(fitted.solution.plateau)} of all pairs are within one standard error of "
            "the best one; the pair taken is the middle of these. Median milliseconds by route: "
            f"{times}.",
            Table(
                (
                    "simple route",
                    "low",
                    "high",
                    fitted.choices.quality,
                    "mean ms",
                    "p95 ms",
                    "simple",
                    "fusion",
                    "graph",
                ),
                rows,
            ),
            "95 % bootstrap intervals: of quality and latency with these thresholds, and of the "
            "thresholds when they are chosen again on each resample."
            + (
                f" On {percent(stable.impossible)} of the resamples no pair keeps the bounds."
                if stable.impossible
                else ""
            ),
            Table(
                ("figure", "interval"),
                [
                    (fitted.choices.quality, spread(stable.quality)),
                    ("mean ms", _times(stable.mean_ms)),
                    ("low", spread(stable.low)),
                    ("high", spread(stable.high)),
                ],
            ),
        ],
    )


def _times(cell: Interval) -> str:
    mean, low, high = map(milliseconds, (cell.mean, cell.low, cell.high))
    return f"{mean} [{low} {high}]"


def _outcome(name: str, pair: Thresholds, found: Outcome) -> tuple[str, ...]:
    return (
        name,
        share(pair.low),
        share(pair.high),
        share(found.quality),
        milliseconds(found.mean_ms),
        milliseconds(found.p95_ms),
        *map(percent, found.shares),
    )


def front(report: RouterReport) -> Section:
    """Quality against latency, in ten steps."""
    found, fitted = report.front, report.fitted
    outcomes = fitted.outcomes[fitted.policy.simple]
    fixed = {
        str(route): of_routes(outcomes, np.full(len(outcomes), code))
        for code, route in enumerate(routes(fitted.policy.simple))
    }
    places = np.unique(np.linspace(0, len(found.quality) - 1, 10).round().astype(int)).tolist()
    rows: Sequence[tuple[str, ...]] = [
        (
            milliseconds(found.mean_ms[at]),
            share(found.quality[at]),
            share(found.thresholds[at].low),
            share(found.thresholds[at].high),
        )
        for at in places
    ]
    return Section(
        "Quality against latency",
        [
            f"Of the {len(found.quality)} pairs of thresholds that no other pair beats in both, "
            "these are spread evenly.",
            Table(("mean ms", fitted.choices.quality, "low", "high"), rows),
            Figure(
                "front",
                front_plot(found, fitted.solution.outcome, fixed, fitted.choices.quality),
                "What thresholds can give on train and dev, and what these give.",
            ),
        ],
        level=3,
    )
