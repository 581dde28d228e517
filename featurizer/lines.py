"""Lines of a text: which end a sentence, and which are rows of a table.

A parser for prose takes a list, a table or the head of a mail for one long sentence, and the end of
a line and the start of the next for one name. So texts are parsed block by block: a block is a row,
an item of a list, a heading, or the lines of a paragraph that is broken at a fixed width.
"""

import re
from collections.abc import Iterator

from wye.featurizer.types import Span

# A line of broken prose is at least so long.
_BROKEN_FROM = 45
_LINE = re.compile(r"[^\n]+")
_BEGINS_ITEM = re.compile(r"\s*(?:[-*•\u2013>|#]|\d+[.)]\s|\(?[a-z]\)\s|[^\W\d_][^:|]{0,30}:\s)")
_HANGING = frozenset(
    """a an and are as at be by for from has have in is it of on or than that the their to was
    with""".split()  # noqa: SIM905 - words read better as words
)
_LAST_WORD = re.compile(r"([^\W\d_]+)\s*$")
_CELL = re.compile(r"\s+\|\s+|^\|\s*|\s*\|$|;\s+")
_LABEL = re.compile(r"[^\W\d_][^:;|]{0,39}:\s+")
_LIST = re.compile(r",\s+")
_LONGEST_CELL = 60
_MOST_WORDS = 6
_NUMBER = re.compile(r"[\W\d]*\d[\W\d]*(?:\s*[^\W\d_]{1,12}\.?){0,2}")
_LETTER = re.compile(r"[^\W\d_]")
_QUANTITY = re.compile(r"\d[\d.,:/-]*\s+\S")


def blocks(text: str) -> Iterator[Span]:
    """Spans of the blocks of a text, in order, without the line breaks around them."""
    start = end = -1
    for line in _LINE.finditer(text):
        if not line[0].strip():
            continue
        if start >= 0 and not _continues(text[start:end].rpartition("\n")[2], line[0], text, line):
            yield start, end
            start = -1
        start = line.start() if start < 0 else start
        end = line.end()
    if start >= 0:
        yield start, end


def _continues(before: str, line: str, text: str, match: re.Match[str]) -> bool:
    """Whether a line goes on with the sentence of the line before it."""
    if text[: match.start()].endswith("\n\n") or " | " in before or " | " in line:
        return False
    if len(before.strip()) < _BROKEN_FROM or before.rstrip()[-1:] in ".!?:;" or cells(before):
        return False
    if _BEGINS_ITEM.match(line):
        return False
    first = line.lstrip()[:1]
    last = _LAST_WORD.search(before)
    hangs = before.rstrip()[-1:] == "," or (last is not None and last[1].lower() in _HANGING)
    return first.islower() or hangs


def cells(line: str) -> list[Span]:
    """Spans of the cells of a line, without labels; empty unless it is a row of short cells.

    Rows are "a | b | c" and "label: a; label: b".
    """
    bars = " | " in line
    if not bars and not ("; " in line and _LABEL.match(line)):
        return []
    spans, start, labels = [], 0, 0
    for joint in [*_CELL.finditer(line), None]:
        end = joint.start() if joint else len(line)
        label = _LABEL.match(line, start, end)
        labels += label is not None
        begin = label.end() if label else start
        if line[begin:end].strip():
            spans.append((begin, end))
        start = joint.end() if joint else end
    is_row = bars or labels * 2 > len(spans)
    short = all(end - begin <= 4 * _LONGEST_CELL for begin, end in spans)
    return spans if is_row and short else []


def cell_names(line: str) -> list[Span]:
    """Spans of the names in the cells of a row: what is short, and no number, quantity or word."""
    names = []
    for begin, end in cells(line):
        value = line[begin:end]
        parts, at = [], begin
        for part in _LIST.split(value):
            at = line.index(part, at)
            parts.append((at, at + len(part)))
            at += len(part)
        whole = [(begin, begin + len(value.rstrip()))]
        each = parts if len(parts) > 1 and all(is_name(line[a:z]) for a, z in parts) else whole
        names += [(a, z) for a, z in each if is_name(line[a:z])]
    return names


def is_name(value: str) -> bool:
    """Whether a cell's value may be a name: short, with a capital or a code, and no quantity."""
    if not _LETTER.search(value) or len(value) > _LONGEST_CELL or len(value.split()) > _MOST_WORDS:
        return False
    if _NUMBER.fullmatch(value) or _QUANTITY.match(value):
        return False
    first = value.lstrip("\"'(")[:1]
    return first.isupper() or any(c.isdigit() for c in value.split(maxsplit=1)[0])
