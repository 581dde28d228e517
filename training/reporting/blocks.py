"""What a report consists of, whatever it is written as."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Code:
    """Text to be copied as it is.

    Attributes:
        text: One or more lines.
    """

    text: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table; its first columns hold words, the others numbers.

    Attributes:
        header: Of the columns.
        rows: Cells, as many in each row as there are columns.
        words: How many columns hold words.
    """

    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    words: int = 1


@dataclass(frozen=True, slots=True)
class Figure:
    """A plot.

    Attributes:
        name: Of its file, without ending.
        svg: The plot; its lines and letters are `training.reporting.plots.INK`.
        caption: What it shows.
    """

    name: str
    svg: str
    caption: str


Block = str | Code | Table | Figure
"""A string is a paragraph."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a report.

    Attributes:
        title: Its heading.
        blocks: In order.
        level: 2 for a part, 3 for a part of a part.
    """

    title: str
    blocks: Sequence[Block]
    level: int = 2
