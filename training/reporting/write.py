"""Writes a report: Markdown with its plots beside it, one HTML file, and all numbers as JSON."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from training.evaluation.held_out import AUTO
from training.evaluation.measures import write_json
from training.reporting import final_sections as final
from training.reporting import learned_sections as learned
from training.reporting.blocks import Figure, Section
from training.reporting.contents import RouterReport
from training.reporting.evaluated import Evaluated, evaluate
from training.reporting.final_sections import QUALITY, gap
from training.reporting.formats import share
from training.reporting.html import html
from training.reporting.markdown import markdown
from training.reporting.numbers import numbers


def write_report(folder: Path, report: RouterReport) -> None:
    """Write `report.md` with its plots, `report.html` and `report.json`.

    The same report gives the same bytes.

    Args:
        folder: Made when it is missing; older reports in it are replaced.
        report: What to say.
    """
    found = evaluate(report)
    parts = list(sections(report, found))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.md").write_text(markdown(report.title, parts), encoding="utf-8")
    (folder / "report.html").write_text(html(report.title, parts), encoding="utf-8")
    for block in chain.from_iterable(part.blocks for part in parts):
        if isinstance(block, Figure):
            (folder / f"{block.name}.svg").write_text(block.svg, encoding="utf-8")
    write_json(folder / "report.json", numbers(report, found))


def sections(report: RouterReport, found: Evaluated | None) -> Iterator[Section]:
    """A report in parts; without a final evaluation, it says so."""
    yield _opening(report, found)
    yield learned.data(report)
    yield learned.scorer(report)
    yield learned.calibration(report)
    yield learned.thresholds(report)
    yield learned.front(report)
    if found is not None:
        yield from final.evaluation(found)
    yield final.stages(report)
    if found is not None and (found.transfer or report.untried):
        yield final.transfer(report, found)
    if found is not None:
        yield final.duplicates(report)
    yield final.reproduction(report)


def _opening(report: RouterReport, found: Evaluated | None) -> Section:
    fitted = report.fitted
    said = (
        "A router gives each question a score from 0 to 1: how likely it is that the graph arm is "
        f"needed and {fitted.policy.simple} retrieval is not enough. Two thresholds make a route "
        "of it."
    )
    if found is None:
        return Section(
            "What this is",
            [said, "No dataset has a test split, so that the router has not been judged."],
        )
    overall = found.overall
    means = ", ".join(
        f"{name} {share(overall.means[name][QUALITY].mean)}"
        for name in ("always dense", "always graph", AUTO, "oracle")
    )
    return Section(
        "What this is",
        [
            said,
            f"{QUALITY} on {overall.questions} test questions: {means}. {gap(overall)}",
        ],
    )
