"""Builds reports as Markdown, and shows them as a page or on a terminal."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from html import escape as escape_html
from pathlib import Path
from string import Template

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from rich.console import Console
from rich.markdown import Markdown

from training.evaluation.bootstrap import Interval

INK = "#7f7f80"
"""Grey of lines and text in a plot, for light and dark backgrounds; a page replaces it."""
FILE_WIDTH = 120
_TEMPLATES = Path(__file__).with_name("templates")
# An underscore within a word, as in names of features, is not markup.
_MARKUP = re.compile(r"[\\`*\[\]<>&|!~#]|(?<![^\W_])_|_(?![^\W_])")


def fill(template: str, **parts: object) -> str:
    """Fill a file of `templates`; empty parts leave no gap."""
    text = (_TEMPLATES / template).read_text(encoding="utf-8").format(**parts)
    return re.sub(r"\n{3,}", "\n\n", text)


def escape(text: str) -> str:
    """Escape a text, such as a dataset's name, to one line without markup."""
    line = "".join(c if c.isprintable() else " " for c in text)
    return _MARKUP.sub(lambda found: f"\\{found[0]}", line)


def code(text: str) -> str:
    """Text as a code block."""
    return "\n".join(f"    {line}" for line in text.splitlines())


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
    width: int | None = None,
) -> str:
    """Tables with a row for each system and a column for each measure, at most `width` each."""
    measures = list(next(iter(cells.values()), ()))
    width = width or len(measures) or 1
    tables = []
    for at in range(0, len(measures), width):
        part = measures[at : at + width]
        rows = [(name, *(form(row[measure]) for measure in part)) for name, row in cells.items()]
        tables.append(table((first, *part), rows))
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


def milliseconds(value: float) -> str:
    """Milliseconds, with one decimal below 100."""
    return f"{value:.1f}" if value < 100 else f"{value:.0f}"


def _signed(value: float) -> str:
    return f"{value:+.3f}".replace("0.", ".", 1)


def _star(cell: Interval) -> str:
    return "*" if cell.low > 0 or cell.high < 0 else ""


def to_html(title: str, text: str, plots: Mapping[str, str]) -> str:
    """A self-contained page, for light and dark mode.

    HTML in the text is shown as text, addresses are not links, and plots are the only images.

    Args:
        plots: Name of an image -> the SVG that replaces it.
    """
    parser = MarkdownIt("commonmark", {"html": False}).enable("table").disable(["link", "autolink"])
    parser.add_render_rule("image", _plot)
    page = Template((_TEMPLATES / "page.html").read_text(encoding="utf-8"))
    body = parser.render(text, {"plots": plots})
    return page.substitute(title=escape_html(title), body=body)


def _plot(_: RendererHTML, tokens: Sequence[Token], at: int, __: OptionsDict, env: EnvType) -> str:
    name, caption = str(tokens[at].attrs["src"]), escape_html(tokens[at].content)
    svg = env["plots"].get(name)
    if svg is None:
        return caption
    # Ids must be unique in the page, but two plots may use the same one.
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{Path(name).stem}-", svg)
    return f"{svg.replace(INK, 'currentColor')}<small>{caption}</small>"


def wide_console() -> Console:
    """Standard output, with room for tables if it is not a terminal."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = FILE_WIDTH
    return console


def show(text: str, console: Console | None = None) -> None:
    """Print Markdown."""
    (console or wide_console()).print(Markdown(text, hyperlinks=False))
