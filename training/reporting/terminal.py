"""The final evaluation as tables for a terminal."""

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from training.evaluation.held_out import AUTO, COLUMNS, HeldOutOutcomes
from training.reporting.contents import PERCENTILES
from training.reporting.final_sections import gap
from training.reporting.formats import milliseconds, percent, share, signed, spread
from training.reporting.summary import Summary, summarise

_SPLIT = 5
"""So many columns with intervals fit on a line."""


def show(console: Console, judged: HeldOutOutcomes) -> None:
    """Print means with intervals, paired differences, latency and routes.

    Args:
        console: Some 110 columns wide, or rows take several lines.
        judged: Every contender.
    """
    found = summarise(judged)
    title = f"{found.questions} test questions, 95 % bootstrap intervals"
    for columns in (COLUMNS[:_SPLIT], COLUMNS[_SPLIT:]):
        table = _table(title, "contender", columns)
        for name, cells in found.means.items():
            _row(table, name, [spread(cells[column]) for column in columns])
        console.print(table)
        title = ""
    table = _table(
        "Paired differences; * where the 95 % interval excludes 0",
        "auto less",
        [column.replace("-", "-\n").replace("@", "\n@") for column in COLUMNS],
    )
    for name, cells in found.differences.items():
        _row(table, name, [signed(cells[column]) for column in COLUMNS])
    console.print(table)
    console.print(_latency(found))
    console.print(gap(found), markup=False)
    ece = "-" if found.calibration is None else share(found.calibration.ece_mass)
    console.print(
        f"On {found.disagreements} disagreements: AUC {share(found.auc)}, ECE {ece}.", markup=False
    )


def _latency(found: Summary) -> Table:
    columns = [*(f"p{p} ms" for p in PERCENTILES), "simple", "fusion", "graph"]
    table = _table("Latency of a question asked alone, and routes taken", "contender", columns)
    for name, times in found.latency_ms.items():
        _row(table, name, [*map(milliseconds, times), *map(percent, found.shares[name])])
    return table


def _table(title: str, first: str, columns: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.add_column(first, no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _row(table: Table, name: str, cells: Sequence[str]) -> None:
    # Brackets are Rich's markup, unless they are escaped.
    escaped = [cell.replace("[", "\\[") for cell in cells]
    table.add_row(name, *escaped, style="bold" if name == AUTO else "")
