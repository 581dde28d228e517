"""What a report says of the test splits, and how to get it again."""

import math
from collections.abc import Iterator

from router.types import Route
from training.evaluation.held_out import AUTO, COLUMNS, ORACLE, HeldOutOutcomes
from training.reporting.blocks import Block, Code, Section, Table
from training.reporting.contents import PERCENTILES, RouterReport
from training.reporting.evaluated import Evaluated
from training.reporting.formats import milliseconds, percent, share, signed_spread, spread
from training.reporting.summary import Summary

QUALITY = "nDCG@10"


def evaluation(found: Evaluated) -> Iterator[Section]:
    """All questions, then each part of them."""
    yield Section(
        "Final evaluation",
        [
            "On the test splits, which nothing was chosen on, with 95 % bootstrap intervals over "
            "questions. The random router takes each route as often as auto does. The oracle takes "
            "the route whose ranking has the best nDCG@10, which nobody can know. Rivals have "
            "thresholds solved as the router's are.",
            *_quality(found.overall),
        ],
    )
    yield Section("Latency and routes", [_latency(found.overall)], level=3)
    if len(found.parts) > 1:
        for name, part in found.parts.items():
            yield Section(name, _quality(part), level=3)


def _quality(found: Summary) -> list[Block]:
    return [
        _headline(found),
        Table(
            ("contender", *COLUMNS),
            [(name, *map(spread, cells.values())) for name, cells in found.means.items()],
        ),
        "Paired differences, auto less each; * where the 95 % interval excludes 0.",
        Table(
            ("auto less", *COLUMNS),
            [
                (name, *map(signed_spread, cells.values()))
                for name, cells in found.differences.items()
            ],
        ),
    ]


def _headline(found: Summary) -> str:
    said = f"{found.questions} questions, {found.disagreements} disagreements."
    if not math.isnan(found.auc):
        said += f" The router's AUC is {share(found.auc)}"
        if found.calibration is not None:
            said += f" and its ECE {share(found.calibration.ece_mass)}"
        said += "."
    said += f" {gap(found)}"
    if AUTO in found.shares:
        simple, fusion, graph = map(percent, found.shares[AUTO])
        said += f" Routes: {simple} simple, {fusion} fusion, {graph} graph."
    return said


def gap(found: Summary) -> str:
    """How near the router comes to the oracle, in words."""
    closed = found.gap_closed[QUALITY]
    if math.isnan(closed):
        return f"No choice of routes beats the better fixed arm in {QUALITY}."
    return (
        f"The router closes {percent(closed)} of the gap between the better fixed arm and the "
        f"oracle in {QUALITY}."
    )


def _latency(found: Summary) -> Table:
    return Table(
        ("contender", *(f"p{p} ms" for p in PERCENTILES), "simple", "fusion", "graph"),
        [
            (name, *map(milliseconds, times), *map(percent, found.shares[name]))
            for name, times in found.latency_ms.items()
        ],
    )


def stages(report: RouterReport) -> Section:
    """Latency of each stage."""
    return Section(
        "Stages",
        [
            "Milliseconds of each stage over all questions, each asked alone, on the machine that "
            "ran them.",
            Table(
                ("stage", *(f"p{p} ms" for p in PERCENTILES)),
                [
                    (name, *(f"{value:.2f}" for value in times))
                    for name, times in report.stages.items()
                ],
            ),
        ],
        level=3,
    )


def transfer(report: RouterReport, found: Evaluated) -> Section:
    """Each dataset by routers that learned from the others."""
    rows = []
    for name, summary in found.transfer.items():
        better = better_arm(report.transfer[name])
        rows.append(
            (
                name,
                str(summary.questions),
                spread(summary.means[AUTO][QUALITY]),
                better,
                signed_spread(summary.differences[better][QUALITY]),
                share(summary.means[ORACLE][QUALITY].mean),
                share(summary.auc),
                "-" if summary.calibration is None else share(summary.calibration.ece_mass),
            )
        )
    blocks: list[Block] = [
        "Each dataset judged by a router that learned from the other ones alone.",
        Table(
            (
                "tested on",
                "questions",
                f"auto, {QUALITY}",
                "better arm",
                "auto less better arm",
                "oracle",
                "AUC",
                "ECE",
            ),
            rows,
        ),
    ]
    blocks += [f"{name} could not be tried: {why}" for name, why in report.untried.items()]
    return Section("Transfer", blocks)


def better_arm(judged: HeldOutOutcomes) -> str:
    """The better of the dense and the graph arm, as the contender that always takes it."""
    column = COLUMNS.index(QUALITY)
    names = [f"always {route}" for route in (Route.DENSE, Route.GRAPH)]
    return max(names, key=lambda name: judged.contenders[name].values[:, column].mean())


def duplicates(report: RouterReport) -> Section:
    """How many test questions training has nearly seen; a report quotes no question."""
    count = len(report.near_duplicates)
    return Section(
        "Near duplicates",
        [
            f"{count} test questions share most of their words with a question that was learned "
            "from."
        ],
    )


def reproduction(report: RouterReport) -> Section:
    """The command, its versions and its time."""
    blocks: list[Block] = [Code(report.command)]
    if report.versions:
        blocks.append(Table(("part", "version"), list(report.versions.items()), words=2))
    if report.seconds:
        blocks.append(
            Table(("stage", "seconds"), [(n, f"{s:.1f}") for n, s in report.seconds.items()])
        )
    return Section("Reproduce", blocks)
