"""Builds tables as Markdown, and shows them on a terminal."""

import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence

from rich.console import Console
from rich.markdown import Markdown

from wye.training.measures import Interval

FILE_WIDTH = 120
# An underscore within a word, as in names of features, is not markup.
_MARKUP = re.compile(r"[\\`*\[\]<>&|!~#]|(?<![^\W_])_|_(?![^\W_])")


def escape(text: str) -> str:
    """Escape a text, such as a dataset's name, to one line without markup."""
    line = "".join(c if c.isprintable() else " " for c in text)
    return _MARKUP.sub(lambda match: f"\\{match[0]}", line)


def table(header: Sequence[str], rows: Sequence[Sequence[str]], words: int = 1) -> str:
    """A table whose first `words` columns are text, and the others numbers."""

    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join([*map(escape, cells[:words]), *cells[words:]])} |"

    rule = ["---"] * words + ["---:"] * (len(header) - words)
    return "\n".join([line(header), f"| {' | '.join(rule)} |", *map(line, rows)])


def by_measure(
    first: str,
    cells: Mapping[str, Mapping[str, Interval]],
    form: Callable[[Interval], str],
    width: int,
) -> str:
    """Tables with a row for each system and a column for each measure, at most `width` each."""
    measures = list(next(iter(cells.values()), ()))
    tables = []
    for at in range(0, len(measures), width):
        columns = measures[at : at + width]
        rows = [(name, *(form(row[measure]) for measure in columns)) for name, row in cells.items()]
        tables.append(table((first, *columns), rows))
    return "\n\n".join(tables)


def share(value: float) -> str:
    """A share without its leading 0; a dash for NaN."""
    if math.isnan(value):
        return "-"
    return f"{value:.3f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.2f}"


def spread(cell: Interval) -> str:
    """A mean with its interval."""
    return f"{share(cell.mean)} [{share(cell.low)} {share(cell.high)}]"


def gain(cell: Interval) -> str:
    """A paired difference; * if its interval excludes 0."""
    return f"{_signed(cell.mean)}{_star(cell)}"


def gain_spread(cell: Interval) -> str:
    """A paired difference with its interval; * if that excludes 0."""
    return f"{_signed(cell.mean)} [{_signed(cell.low)} {_signed(cell.high)}]{_star(cell)}"


def percent(value: float) -> str:
    """A share in percent; a dash for NaN."""
    return "-" if math.isnan(value) else f"{100 * value:.0f} %"


def _signed(value: float) -> str:
    return f"{value:+.3f}".replace("0.", ".", 1)


def _star(cell: Interval) -> str:
    return "*" if cell.low > 0 or cell.high < 0 else ""


def show(text: str, console: Console | None = None) -> None:
    """Print Markdown; if that is not on a terminal, with room for tables."""
    console = console or Console(highlight=False, width=None if sys.stdout.isatty() else FILE_WIDTH)
    console.print(Markdown(text, hyperlinks=False))
