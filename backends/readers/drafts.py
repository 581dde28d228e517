"""What a reader takes and returns, in plain types."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from typing import Any

from wye.backends.text import folded_words

Block = tuple[int, str]
"""Level of a heading (1 for the highest, 0 for other text, or one of the two below), and the text,
which is not empty."""

HEADER, ROW = -1, -2
"""Levels of a table's row of names, which every chunk repeats, and of other rows and lines, which
are not cut."""

# A longer heading is taken for a paragraph that was only styled as one.
LONGEST_HEADING = 200
_SPACES = re.compile(r"\s+")
_LONGEST_LABEL = 40


class BadFileError(Exception):
    """The file, or one record of it, cannot be read; says why."""


DEEPEST = 64  # levels of objects within objects that are read
PARAGRAPH = "\n\n"
_BROKEN = re.compile(r"(\w+)-\n[ \t]*(\w+)")
_WORD = re.compile(r"\w+")


def flat(
    value: Mapping[str, object],
    joint: str = ".",
    longest: int = 1 << 30,
    prefix: str = "",
    at: int = 0,
) -> Iterator[tuple[str, object]]:
    """Name and value of each entry of a nested object; names of several levels are joined.

    Args:
        longest: An object whose joined name is that long is a value.

    Raises:
        BadFileError: It has more than `DEEPEST` levels.
    """
    if at > DEEPEST:
        raise BadFileError("is nested too deeply")
    for key, entry in value.items():
        name = f"{prefix}{key}"
        if isinstance(entry, Mapping) and len(name) < longest:
            yield from flat(entry, joint, longest, f"{name}{joint}", at + 1)
        else:
            yield name, entry


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits for reading one file.

    Attributes:
        unpacked_bytes: Bytes of a decompressed DOCX file, and of all output for a file.
    """

    pages: int = 2_000  # pages of a PDF file
    characters: int = 5_000_000  # characters of one document
    unpacked_bytes: int = 256 << 20
    seconds: int = 30  # processor time
    memory_bytes: int = 1 << 30  # address space


@dataclass(frozen=True, slots=True)
class Options:
    """What is known of files in advance; by default it is found out.

    Attributes:
        text_columns: Columns of a table that are the text, apart from which nothing is.
        has_header: Whether the first row of a table names its columns; None to find out.
    """

    encoding: str = ""  # of texts that are not Unicode
    text_columns: Sequence[str] = ()
    title_column: str = ""  # column of a table that is the title
    has_header: bool | None = None


DEFAULT = Options()


@dataclass(frozen=True, slots=True)
class Draft:
    """One document as it is in a file, before it is checked and cleaned.

    Attributes:
        note: How the file was understood, where it could be meant otherwise; on the first of it.
        has_pages: Whether each section under a heading of the highest level, such as a slide, is a
            passage of its own.
    """

    title: str = ""  # empty if the file has none
    blocks: Sequence[Block] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)  # as in the file, not checked yet
    id: str = ""  # of a row, unique in its file; empty if the file has no ids
    line: int = 0  # 1-based line in a file of several documents; 0 for a file of one
    error: str = ""  # why this is no document; empty if it is one
    note: str = ""
    has_pages: bool = False


def document(
    blocks: Iterable[Block], limits: Limits, *, title: str = "", metadata: Mapping[str, Any] = {}
) -> Draft:
    """The document of a file with a single one.

    If there is no title, it is the first heading, provided that its level is the highest and no
    other heading has that level.

    Args:
        title: Title that the file states apart from its headings.

    Raises:
        BadFileError: It is too long, or has no text.
    """
    cleaned: list[Block] = []
    length = 0
    for level, text in blocks:
        if not text.strip():
            continue
        is_heading = level > 0 and len(text) <= LONGEST_HEADING
        cleaned.append((level, one_line(text)) if is_heading else (min(level, 0), text.strip("\n")))
        length += len(text) + 2
        if length > limits.characters:
            raise BadFileError(f"has more than {limits.characters:,} characters; split it")
    top = min((level for level, _ in cleaned if level > 0), default=0)
    if top and not title and [level for level, _ in cleaned].count(top) == 1:
        position = next(n for n, (level, _) in enumerate(cleaned) if level == top)
        if not any(level > 0 for level, _ in cleaned[:position]):
            title = cleaned[position][1]
    if cleaned and cleaned[0] == (top, title) and len(cleaned) > 1:
        del cleaned[0]
    return Draft(title, cleaned, metadata)


def one_line(text: str) -> str:
    """A text on one line, with single spaces."""
    return _SPACES.sub(" ", text).strip()


def scalar(text: str) -> str | int | float | bool:
    """The value of a table cell or an option: a number, a boolean, or else a string.

    A number in a form that Python would not print, such as 007 or 1e5, stays a string.
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


_LABELS = files("wye.backends.readers").joinpath("labels.txt").read_text("utf-8")
_ENGLISH = {
    word: english
    for english, _, words in (line.partition(": ") for line in _LABELS.splitlines())
    for word in words.split()
}
"""What labels of columns mean that are German, French or shortened, folded: those that English has
too, such as "stock" or "Art", are left out."""


@lru_cache(1024)
def in_english(label: str) -> str:
    """A label with what its German, French or shortened words mean, which the encoder cannot know.

    "Betrag" is "Betrag (amount)".
    """
    words = folded_words(label)
    meanings = [*filter(None, dict.fromkeys(map(_meaning, words)))]
    whole = f"{label} ({' '.join(each for each in meanings if each not in words)})"
    return whole if len(label) + 3 < len(whole) <= _LONGEST_LABEL else label


def _meaning(word: str) -> str:
    """English for a word, or for the parts of a compound that ends with a known one."""
    if word in _ENGLISH:
        return _ENGLISH[word]
    for at in range(3, len(word) - 1):
        if word[at:] in _ENGLISH and (len(word) - at > 4 or word[at:] == "nr"):
            before = _ENGLISH.get(word[:at]) or _ENGLISH.get(word[: at - 1], "")
            return f"{before} {_ENGLISH[word[at:]]}".strip()
    return ""


def mended(blocks: Sequence[Block]) -> list[Block]:
    """Blocks without the hyphens at ends of lines in words that they have whole elsewhere."""
    words = {word.casefold() for _, text in blocks for word in _WORD.findall(text)}

    def whole(match: re.Match[str]) -> str:
        word = match[1] + match[2]
        return word if word.casefold() in words else match[0]

    return [(level, _BROKEN.sub(whole, text)) for level, text in blocks]
