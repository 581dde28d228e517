"""What a reader is given and what it finds, in plain types."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Block = tuple[int, str]
"""The level of a heading, 1 for the highest, or 0 for other text; and the text, never empty."""

# A longer one is a paragraph that somebody made a heading for its looks.
LONGEST_HEADING = 200
_SPACES = re.compile(r"\s+")


class BadFileError(Exception):
    """The file, or one record of it, cannot be read; says why."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What reading one file may take.

    Attributes:
        pages: Of a PDF file.
        characters: Of one document.
        unpacked_bytes: Of a DOCX file when it is decompressed, and of all that is found in a file.
        seconds: Of processor time.
        memory_bytes: Of address space.
    """

    pages: int = 2_000
    characters: int = 5_000_000
    unpacked_bytes: int = 256 << 20
    seconds: int = 30
    memory_bytes: int = 1 << 30


@dataclass(frozen=True, slots=True)
class Found:
    """One document of a file.

    Attributes:
        title: Empty where the file has none.
        metadata: As the file has it; not checked yet.
        id: Empty where the file has none.
        line: 1-based place in a file of several documents; 0 for a file that is one.
        error: Why this line is no document; empty for one that is.
    """

    title: str = ""
    blocks: Sequence[Block] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    id: str = ""
    line: int = 0
    error: str = ""


def document(
    blocks: Iterable[Block], limits: Limits, *, title: str = "", metadata: Mapping[str, Any] = {}
) -> Found:
    """A file that is one document.

    A heading above all others, at the beginning, is its title, unless there is one.

    Args:
        title: What else the file is called.

    Raises:
        BadFileError: It is too long, or has no text.
    """
    kept: list[Block] = []
    length = 0
    for level, text in blocks:
        if not text.strip():
            continue
        is_heading = level and len(text) <= LONGEST_HEADING
        kept.append((level, one_line(text)) if is_heading else (0, text.strip("\n")))
        length += len(text) + 2
        if length > limits.characters:
            raise BadFileError(
                f"holds more than the {limits.characters:,} characters that are read; send it in "
                "parts"
            )
    top = min((level for level, _ in kept if level), default=0)
    if top and not title and [level for level, _ in kept].count(top) == 1:
        place = next(n for n, (level, _) in enumerate(kept) if level == top)
        if not any(level for level, _ in kept[:place]):
            title = kept[place][1]
    if kept and kept[0] == (top, title) and len(kept) > 1:
        del kept[0]
    return Found(title, kept, metadata)


def one_line(text: str) -> str:
    """A text with single spaces."""
    return _SPACES.sub(" ", text).strip()


def scalar(text: str) -> str | int | float | bool:
    """A value as it is written in a table or an option: a number, true or false, or a text.

    What would be written otherwise as a number, as in 007 or 1e5, is a text.
    """
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            value = kind(text)
        except ValueError:
            continue
        if str(value) == text and abs(value) < float("inf"):
            return value
    return text
