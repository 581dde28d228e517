"""Writes the report of a training run: as Markdown with plots, as one page, and as JSON."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from backends.files import plain
from router.policy import SURE, routes
from router.types import Route, Thresholds
from training.evaluation.away import MEASURED, Away
from training.evaluation.bootstrap import Interval
from training.evaluation.compare import AUTO, ORACLE, PERCENTILES, QUALITY
from training.evaluation.held_out import Summary
from training.evaluation.measures import write_json
from training.fit.crossfit import ScorerComparison
from training.fit.probes import Probe
from training.fit.router import Choices
from training.labels import HELPS
from training.markdown import (
    by_measure,
    code,
    escape,
    fill,
    gain,
    gain_spread,
    milliseconds,
    percent,
    share,
    spread,
    table,
    to_html,
)
from training.plots import as_svg, front_figure, importance_figure, reliability_figure, score_figure
from training.report import DEV, QuestionCounts, Report
from training.thresholds.outcomes import Outcome
from training.thresholds.solve import Front, standard_errors
from training.thresholds.sweep import keeps

SHOWN_FEATURES = 30
_CAUTIOUS = "the cheapest of those that have the highest high threshold"
_MS = tuple(f"p{p} ms" for p in PERCENTILES)


def write_report(folder: Path, report: Report) -> None:
    """Write `report.md` with its plots, `report.html` and `report.json`.

    The same report gives the same bytes; older reports in the folder are replaced.
    """
    text, drawn = as_markdown(report), plots(report)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.md").write_text(text, encoding="utf-8")
    (folder / "report.html").write_text(to_html(report.title, text, drawn), encoding="utf-8")
    for name, svg in drawn.items():
        (folder / name).write_text(svg, encoding="utf-8")
    write_json(folder / "report.json", plain(report))


def plots(report: Report) -> dict[str, str]:
    """Name of the file -> SVG."""
    shown = {name: found for name, found in report.calibration.items() if name != DEV}
    chosen, quality = report.solutions[report.policy.simple].outcome, report.choices.quality
    figures = {
        "importances.svg": importance_figure(report.selection.names, report.importances),
        "reliability.svg": reliability_figure(shown),
        "scores.svg": score_figure(report.scores, report.policy.thresholds),
        "front.svg": front_figure(report.front, chosen, report.fixed, quality),
    }
    return {name: as_svg(figure) for name, figure in figures.items()}


def as_markdown(report: Report) -> str:
    """The report's text; it says so if there is no final evaluation."""
    choices, policy, stable = report.choices, report.policy, report.stability
    sizes, information = report.importances, report.selection.information
    errors = standard_errors(cautious=choices.elsewhere)
    order = np.argsort(-sizes, kind="stable")[:SHOWN_FEATURES].tolist()
    features = [
        (report.selection.names[at], *(f"{values[at]:.3f}" for values in (sizes, information)))
        for at in order
    ]
    intervals = [
        (choices.quality, spread(stable.quality)),
        ("mean ms", _times(stable.mean_ms)),
        ("low", spread(stable.low)),
        ("high", spread(stable.high)),
    ]
    return fill(
        "report.md",
        report=report,
        title=escape(report.title),
        summary=_summary(report.evaluation),
        data=_data(report.data),
        learned=_learned(report.choices),
        comparison=_comparison(report.comparison),
        features=len(sizes),
        constants=len(report.selection.constants),
        duplicates=len(report.selection.duplicates),
        shown=len(order),
        importances=table(("feature", "importance", "mutual information, nats"), features),
        calibration=table(
            ("scores of", "ECE, size", "ECE, width", "Brier", "log loss"),
            [
                (name, *map(share, (one.ece_mass, one.ece_width, one.brier)), f"{one.nll:.3f}")
                for name, one in report.calibration.items()
            ],
        ),
        aim=_aim(choices),
        steps=_steps(policy.thresholds),
        started=_started(choices),
        plateau=percent(report.solutions[policy.simple].plateau),
        errors=f"{errors:g} standard error{'s' if errors > 1 else ''}",
        taken=_CAUTIOUS if choices.elsewhere else "the cheapest of these",
        times=", ".join(f"{route} {milliseconds(ms)}" for route, ms in policy.latency_ms.items()),
        thresholds=_thresholds(report),
        impossible=f" On {percent(stable.impossible)} of the resamples no pair keeps the bounds."
        if stable.impossible
        else "",
        stability=table(("figure", "interval"), intervals),
        pairs=len(report.front.quality),
        front=_front(report.front, choices.quality),
        fixed=table(
            ("always", choices.quality, "mean ms", "p95 ms"),
            [
                (name, share(one.quality), milliseconds(one.mean_ms), milliseconds(one.p95_ms))
                for name, one in report.fixed.items()
            ],
        ),
        evaluation=_evaluation(report),
        stages=table(
            ("stage", *_MS),
            [(n, *(f"{value:.2f}" for value in times)) for n, times in report.stages_ms.items()],
        ),
        probes=probes_markdown(report.probes),
        transfer=_transfer(report),
        command=code(report.command),
        versions=table(("part", "version"), list(report.versions.items()), words=2),
        seconds=table(
            ("stage", "seconds"), [(name, f"{took:.1f}") for name, took in report.seconds.items()]
        ),
    )


def _summary(found: Summary | None) -> str:
    if found is None:
        return "No dataset has a test split, so the router was not evaluated."
    means = ", ".join(
        f"{name} {share(found.means[name][QUALITY].mean)}"
        for name in ("always dense", "always graph", AUTO, ORACLE)
    )
    return f"{QUALITY} on {found.questions} test questions: {means}. {gap(found)}"


def _data(data: Sequence[QuestionCounts]) -> str:
    rows = list(data)
    for split in dict.fromkeys(one.split for one in data):
        own = [one for one in data if one.split == split]
        sums = (sum(getattr(one, name) for one in own) for name in ("questions", "simple", "graph"))
        rows.append(QuestionCounts("all", "all", split, *sums))
    counts = ("questions", "disagreements", "simple better", "graph better", "graph's share")
    return table(
        ("replay", "dataset", "split", *counts),
        [
            (
                *(one.origin, one.dataset, one.split),
                *map(str, (one.questions, one.disagreements, one.simple, one.graph)),
                percent(one.graph / one.disagreements) if one.disagreements else "-",
            )
            for one in rows
        ],
        words=3,
    )


def _learned(choices: Choices) -> str:
    if choices.success == HELPS:
        return (
            "A router learns from every question whether fusion, in steps where it has a plan, "
            "answers it better than the simple route, by nDCG@10; a question counts by how far "
            "they are apart. Disagreements are questions on which they are apart."
        )
    return (
        "A router learns from disagreements: questions on which exactly one of the simple and the "
        f"graph arm succeeds, by {choices.success}."
    )


def _comparison(found: ScorerComparison | None) -> str:
    if found is None:
        return ", as was asked for"
    return (
        f": on cross-fitted questions, the likelihood of {found.kinds[1]} is "
        f"{found.gain.mean:+.4f} nats a question [{found.gain.low:+.4f} {found.gain.high:+.4f}] "
        f"above that of {found.kinds[0]}, which is {'more' if found.clever else 'no more'} than "
        "one standard error "
        f"({found.error:.4f})"
    )


def _aim(choices: Choices) -> str:
    goal = choices.goal
    bounds = [
        f"{name} at most {value:g}"
        for name, value in (
            ("mean latency in ms", goal.max_mean_ms),
            ("share of questions that walk the graph", goal.max_graph_share),
        )
        if value is not None
    ]
    weight = f" less {goal.latency_weight:g} a millisecond" if goal.latency_weight else ""
    return choices.quality + weight + (f", with {' and '.join(bounds)}" if bounds else "")


def _thresholds(report: Report) -> str:
    def row(name: str, pair: Thresholds, found: Outcome) -> tuple[str, ...]:
        shares = map(share, (pair.low, pair.high, found.quality))
        times = map(milliseconds, (found.mean_ms, found.p95_ms))
        return name, *shares, *times, *map(percent, found.shares)

    rows = []
    for route, found in report.solutions.items():
        kept = " (kept)" if route == report.policy.simple else ""
        rows.append(row(f"{route}{kept}", found.thresholds, found.outcome))
        rows.append(row(f"{route}, best pair", found.best, found.best_outcome))
    header = ("simple route", "low", "high", report.choices.quality, "mean ms", "p95 ms")
    return table((*header, "simple", "fusion", "graph"), rows)


def _started(choices: Choices) -> str:
    if not choices.start:
        return ""
    return (
        f"It starts from {escape(choices.start)}: it corrects that scorer as far as these "
        "questions allow, and keeps its thresholds, which are described below."
    )


def _steps(pair: Thresholds) -> str:
    if not pair.steps:
        return ""
    return f" Taken in steps: {stepping(pair.steps)}."


def stepping(threshold: float) -> str:
    """Which questions go in steps, in words."""
    if not threshold:
        return "no question"
    few = f" where the first passages are about less than {percent(threshold)} of what they need"
    return (
        f"from a score of {SURE:g} on, or where words nest descriptions, questions with a plan"
        f"{'' if threshold == 1 else few}"
    )


def _times(cell: Interval) -> str:
    mean, low, high = map(milliseconds, (cell.mean, cell.low, cell.high))
    return f"{mean} [{low} {high}]"


def _front(found: Front, quality: str) -> str:
    places = np.unique(np.linspace(0, len(found.quality) - 1, 10).round().astype(int)).tolist()
    rows = []
    for at in places:
        pair = found.thresholds[at]
        shares = map(share, (found.quality[at], pair.low, pair.high))
        rows.append((milliseconds(found.mean_ms[at]), *shares))
    return table(("mean ms", quality, "low", "high"), rows)


def probes_markdown(found: Sequence[Probe]) -> str:
    """Table with a row for each probe and a column for each dataset."""
    datasets = list(dict.fromkeys(name for one in found for name in one.within))
    return table(
        ("AUC of a scorer", "all", "mean within", *datasets),
        [
            (
                one.name,
                *map(share, (one.auc, one.mean_within)),
                *(share(one.within[name]) if name in one.within else "-" for name in datasets),
            )
            for one in found
        ],
    )


def away_markdown(found: Sequence[Away]) -> str:
    """Table with a row for each dataset and operating point, against the best fixed route."""
    fixed = list(found[0].fixed) if found else []
    return table(
        ("dataset", "point", "questions", *MEASURED, *fixed, "less the best", "routes"),
        [
            (
                *(one.dataset, one.point, str(one.questions)),
                *(share(one.means[measure]) for measure in MEASURED),
                *(share(one.fixed[route]) for route in fixed),
                gain_spread(one.less_best),
                " / ".join(f"{100 * taken:.0f}" for taken in one.shares),
            )
            for one in found
        ],
        words=2,
    )


def away_section(report: Report) -> str:
    """Section on datasets that the router was not trained on; empty if none was tried."""
    said = []
    told = (
        f"{QUALITY} is compared with that of always hybrid, fusion and steps, and with the best of "
        "these. Routes are percentages: simple, fusion, graph and steps."
    )
    if report.left_out:
        said += [
            "Train and dev questions of each dataset, routed by a router that learned everything, "
            f"including its thresholds, from the other datasets. {told}",
            away_markdown(report.left_out),
        ]
    if report.strangers:
        said += [
            "Questions of datasets and spellings that nothing was learned from, routed by this "
            "router.",
            away_markdown(report.strangers),
        ]
    return "\n\n".join(["## On other datasets", *said] if said else [])


def _evaluation(report: Report) -> str:
    if report.evaluation is None:
        return ""
    said = [overall_markdown(report.evaluation)]
    if len(report.parts) > 1:
        for name, part in report.parts.items():
            said += [f"### {escape(name)}", headline(part), _systems(part)]
    return "\n\n".join(said)


def overall_markdown(found: Summary, *, narrow: bool = False) -> str:
    """The final evaluation over all questions.

    Args:
        narrow: Whether it is for a terminal: fewer columns, and differences without intervals.
    """
    return "\n\n".join(
        [
            "## Final evaluation",
            "On the test splits, which no choice depends on, with 95 % bootstrap intervals over "
            "questions. The random router takes each route as often as auto does. The oracle takes "
            f"the route whose ranking has the best {QUALITY}, which nobody can know. Baselines "
            "have thresholds solved as the router's are.",
            headline(found),
            _systems(found, narrow=narrow),
            "### Latency and routes",
            table(
                ("system", *_MS, "simple", "fusion", "graph", "steps"),
                [
                    (name, *map(milliseconds, times), *map(percent, found.shares[name]))
                    for name, times in found.latency_ms.items()
                ],
            ),
        ]
    )


def _systems(found: Summary, *, narrow: bool = False) -> str:
    return "\n\n".join(
        [
            by_measure("system", found.means, spread, width=3 if narrow else None),
            "Paired differences, auto less each; * where the 95 % interval excludes 0.",
            by_measure(
                "auto less",
                found.differences,
                gain if narrow else gain_spread,
                width=4 if narrow else None,
            ),
        ]
    )


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a router is worth using, and why, in a sentence or two."""

    better: bool
    says: str


def verdict(report: Report) -> Verdict | None:
    """Compare the router with always taking fusion, on the test splits; None without any.

    If fusion does not keep the goal's bounds, the simple route is compared instead.
    """
    found, quality = report.evaluation, report.choices.quality
    if found is None:
        return None
    bounded = not keeps(report.fixed[str(Route.FUSION)], report.choices.goal)
    rival = f"always {report.policy.simple if bounded else Route.FUSION}"
    gained = found.differences[rival][quality]
    # A router may be meant to save time; the goal's weight says what saved time is worth.
    auto_ms, rival_ms = (found.latency_ms[name][0] for name in (AUTO, rival))
    bought = report.choices.goal.latency_weight * (rival_ms - auto_ms)
    better = gained.low + max(bought, 0.0) > 0  # better answers may take longer
    known = "better" if gained.low > 0 else "worse" if gained.high < 0 else "not better"
    says = f"{known.capitalize()} than {rival}: {quality} {gain_spread(gained)} on the test split."
    if bought:
        says += f" The median question takes {auto_ms:.1f} ms instead of {rival_ms:.1f}."
    if not better:
        says += f" Do not use this router; use {rival.removeprefix('always ')} instead."
    order = (*routes(report.policy.simple), Route.STEPS)
    routes_taken = dict(zip(order, found.shares[AUTO], strict=True))
    if constant := [str(route) for route, taken in routes_taken.items() if taken == 1]:
        says += f" It sends every question to {constant[0]}, which needs no router."
    return Verdict(better, says)


def headline(found: Summary) -> str:
    """An evaluation in a few sentences."""
    said = f"{found.questions} questions, {found.disagreements} disagreements."
    if not math.isnan(found.auc):
        said += f" The router's AUC is {share(found.auc)}"
        if found.calibration is not None:
            said += f" and its ECE {share(found.calibration.ece_mass)}"
        said += "."
    said += f" {gap(found)}"
    if AUTO in found.shares:
        simple, fusion, graph, steps = map(percent, found.shares[AUTO])
        said += f" Routes: {simple} simple, {fusion} fusion, {graph} graph, {steps} steps."
    return said


def gap(found: Summary) -> str:
    """How close the router comes to the oracle, in words."""
    closed = found.gap_closed[QUALITY]
    if math.isnan(closed):
        return f"No choice of routes beats the best fixed route in {QUALITY}."
    return (
        f"The router closes {percent(closed)} of the gap between the best fixed route and the "
        f"oracle in {QUALITY}."
    )


def _transfer(report: Report) -> str:
    if report.evaluation is None:
        return ""
    said = []
    if report.transfer or report.untried:
        rows = []
        for name, part in report.transfer.items():
            arms = [name for name in part.means if name.startswith("always ")]
            better = max(arms, key=lambda arm: part.means[arm][QUALITY].mean)
            rows.append(
                (
                    name,
                    str(part.questions),
                    spread(part.means[AUTO][QUALITY]),
                    better,
                    gain_spread(part.differences[better][QUALITY]),
                    share(part.means[ORACLE][QUALITY].mean),
                    share(part.auc),
                    "-" if part.calibration is None else share(part.calibration.ece_mass),
                )
            )
        header = ("tested on", "questions", f"auto, {QUALITY}", "best fixed")
        said += [
            "## Transfer",
            "Each dataset judged by a router that learned from the other ones alone.",
            table((*header, "auto less best fixed", "oracle", "AUC", "ECE"), rows),
        ]
        for name, why in report.untried.items():
            said.append(f"The dataset {escape(name)} could not be tried: {escape(why)}")
    if away := away_section(report):
        said.append(away)
    said += [
        "## Near duplicates",
        f"{report.near_duplicates} test questions share most of their words with a question that "
        "was learned from.",
    ]
    return "\n\n".join(said)
