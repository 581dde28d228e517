"""Turns a numpydoc docstring into paragraphs of connected prose.

Formulas, code, doctests, tables, version notes, references and cross-reference markup go;
the summary, the extended summary, the notes and the parameter descriptions that read as
prose stay. Every function here is pure: the same docstring gives the same paragraphs.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from itertools import pairwise

PROSE_SECTIONS = frozenset({"", "Notes", "Warnings"})
"""Sections read as running text; "" is what stands before the first header."""

FIELD_SECTIONS = frozenset({"Parameters", "Other Parameters", "Attributes", "Returns"})
"""Sections read as a list of named fields, each with a description."""

CONTENT_DIRECTIVES = frozenset({"note", "warning", "tip", "important", "legacy", "topic"})
"""Directives whose body is kept as text; the body of any other directive is dropped."""

MIN_FIELD_WORDS = 15
"""A field's description with fewer words than this is not prose worth keeping."""

MAX_POINTER_WORDS = 30
"""A sentence that points at another page of the manual is dropped up to this length."""

_INLINE: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r":(?:doi|DOI|arxiv|arXiv|math:numref):`[^`]*`", ""),
        (r":[\w:]+:`~?([^`<]*?)\s*<[^`>]*>`", r"\1"),
        (r":[\w:]+:`~(?:[\w]+\.)*([^`]+)`", r"\1"),
        (r":[\w:]+:`\.?([^`]+)`", r"\1"),
        (r"`([^`<]+?)\s*<[^`>]*>`_{1,2}", r"\1"),
        (r"``([^`]*)``", r"\1"),
        (r"`~?([^`]*)`_?", r"\1"),
        (r"\s*\[[A-Za-z0-9]*\d\]_(?:,|\s*and)?(?=\s*\[)", ""),
        (r"\s*\[[\w.:+-]+\]_", ""),
        (r"\*\*([^*\s](?:[^*]*[^*\s])?)\*\*", r"\1"),
        (r"(?<![\w*])\*([^*\s](?:[^*]*[^*\s])?)\*(?![\w*])", r"\1"),
        (r"\|(\w+)\|", r"\1"),
        (r"\s+", " "),
        (r"\s+([,.;:])(?=\s|$)", r"\1"),
        (r"\(\s*\)|\[\s*\]", ""),
    )
)

_MATH_ROLE = re.compile(r":math:`([^`]*)`")
_TEX_GROUP = re.compile(r"\\(?:mathbf|mathrm|mathit|text|left|right|,|;|!|quad|rm|bf)\b|\\[,;! ]")
_DIRECTIVE = re.compile(r"^(\s*)\.\. ([\w-]+)::(.*)$")
_COMMENT = re.compile(r"^(\s*)\.\. (?:\[|_|\|)")
_RULE = re.compile(r"^\s*(?:[=\-~^]{3,}|(?:[=\-]{2,}\s+)+[=\-]{2,}|\+[-=+]+\+|\|.*\|)\s*$")
_BULLET = re.compile(r"^\s*(?:[-*+•]|\d+[.)]|\(?[a-z0-9]\))\s+")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9`'(])")
_SIGNATURE = re.compile(r"^[A-Za-z_]\w*\(.*\)$")
_POINTER = re.compile(r"sphx_glr_|\bUser Guide\b|\b[Gg]lossary\b")
_FIELD_HEAD = re.compile(r"^\*{0,2}[A-Za-z_][\w.]*(?:\s*,\s*\*{0,2}[A-Za-z_.][\w.]*)*\s*(?::.*)?$")


@dataclass(frozen=True)
class Section:
    """One section of a docstring: its header ("" for the preamble) and its lines."""

    name: str
    lines: tuple[str, ...]


def paragraphs(docstring: str) -> list[str]:
    """Gives the docstring's prose, one paragraph a string, in reading order."""
    sections = split_sections(inspect.cleandoc(docstring))
    prose = [p for s in sections if s.name in PROSE_SECTIONS for p in section_prose(s.lines)]
    fields = [p for s in sections if s.name in FIELD_SECTIONS for p in field_prose(s.lines)]
    return prose + fields


def split_sections(docstring: str) -> list[Section]:
    """Splits a cleaned docstring at its underlined headers, the preamble first."""
    lines = docstring.splitlines()
    heads = [
        i
        for i, (line, below) in enumerate(pairwise(lines))
        if re.match(r"\S", line) and re.fullmatch(r"-{3,}\s*", below)
    ]
    starts = [0, *(head + 2 for head in heads)]
    ends = [*heads, len(lines)]
    names = ["", *(lines[head].strip() for head in heads)]
    return [
        Section(name, tuple(lines[start:end]))
        for name, start, end in zip(names, starts, ends, strict=True)
    ]


def section_prose(lines: tuple[str, ...]) -> list[str]:
    """Gives the paragraphs of a running-text section that read as prose."""
    cleaned = (clean_block(block) for block in blocks(drop_directives(list(lines))))
    return [text for text in cleaned if text]


def field_prose(lines: tuple[str, ...]) -> list[str]:
    """Gives "name: description" for each field whose description reads as prose."""
    out = []
    for name, body in split_fields(lines):
        text = " ".join(section_prose(tuple(body)))
        if word_count(text) >= MIN_FIELD_WORDS:
            out.append(f"{name}: {text}" if name else text)
    return out


def split_fields(lines: tuple[str, ...]) -> list[tuple[str, list[str]]]:
    """Splits a field section into (names, description lines) pairs."""
    fields: list[tuple[str, list[str]]] = []
    for line in lines:
        if line.strip() and not line.startswith(" "):
            name = line.split(":")[0].strip() if _FIELD_HEAD.match(line) else ""
            fields.append((name.replace("*", "").replace("`", ""), []))
        elif fields:
            fields[-1][1].append(line)
    return fields


def drop_directives(lines: list[str]) -> list[str]:
    """Drops comments, footnotes and directives, keeping what notes and warnings say."""
    out: list[str] = []
    index = 0
    while index < len(lines):
        directive = _DIRECTIVE.match(lines[index])
        marker = directive or _COMMENT.match(lines[index])
        if marker is None:
            out.append(lines[index])
            index += 1
            continue
        end = body_end(lines, index, len(marker.group(1)))
        if directive and directive.group(2) in CONTENT_DIRECTIVES:
            out += ["", directive.group(3).strip()]
            out += drop_directives(dedent(lines[index + 1 : end]))
        out.append("")
        index = end
    return out


def body_end(lines: list[str], start: int, indent: int) -> int:
    """Finds the first line after `start` that no longer belongs to its indented body."""
    end = start + 1
    while end < len(lines) and (not lines[end].strip() or indent_of(lines[end]) > indent):
        end += 1
    return end


def indent_of(line: str) -> int:
    """Counts the leading spaces of a line."""
    return len(line) - len(line.lstrip(" "))


def dedent(lines: list[str]) -> list[str]:
    """Removes the smallest indentation that all non-blank lines share."""
    indents = [indent_of(line) for line in lines if line.strip()]
    cut = min(indents, default=0)
    return [line[cut:] for line in lines]


def drop_literals(lines: list[str]) -> list[str]:
    """Drops the indented code that follows a line ending in "::"."""
    out: list[str] = []
    index = 0
    while index < len(lines):
        line = lines[index]
        out.append(line)
        index += 1
        if line.rstrip().endswith("::"):
            index = body_end(lines, index - 1, indent_of(line))
            out.append("")
    return out


def blocks(lines: list[str]) -> list[list[str]]:
    """Groups lines into blocks separated by blank lines, code blocks left out."""
    out: list[list[str]] = [[]]
    for line in drop_literals(lines):
        if line.strip():
            out[-1].append(line)
        else:
            out.append([])
    return [block for block in out if block]


def clean_block(block: list[str]) -> str:
    """Turns one block of lines into plain text; "" where it is code, a table or a signature."""
    if any(_RULE.match(line) or line.lstrip().startswith((">>>", "...")) for line in block):
        return ""
    text = " ".join(join_bullets(block))
    return "" if _SIGNATURE.match(text) else strip_inline(text)


def join_bullets(block: list[str]) -> list[str]:
    """Strips list markers and ends each item with a full stop so that sentences split."""
    out: list[str] = []
    for line in block:
        text = line.strip()
        if _BULLET.match(line):
            if out and not out[-1].endswith((".", ":", ";", ",", "!", "?")):
                out[-1] += "."
            text = _BULLET.sub("", line).strip()
        out.append(text)
    return out


def strip_inline(text: str) -> str:
    """Removes inline markup: roles, quotes, emphasis, footnote marks and TeX commands."""
    text = _MATH_ROLE.sub(lambda m: plain_tex(m.group(1)), text)
    for pattern, replacement in _INLINE:
        text = pattern.sub(replacement, text)
    text = re.sub(r"\\ |`|\\(?=\W)", "", text)
    return drop_pointers(re.sub(r":{2,}(?=\s|$)", ":", text).strip())


def drop_pointers(text: str) -> str:
    """Drops the sentences that only point at another page of the manual."""
    kept = (
        sentence
        for sentence in sentences(text)
        if not (_POINTER.search(sentence) and len(sentence.split()) <= MAX_POINTER_WORDS)
    )
    return " ".join(kept)


def plain_tex(tex: str) -> str:
    """Writes a short TeX formula as plain characters: commands lose their backslash."""
    text = _TEX_GROUP.sub(" ", tex)
    text = re.sub(r"\\([A-Za-z]+)", r" \1 ", text)
    return re.sub(r"\s+", " ", re.sub(r"[{}\\$]", "", text)).strip()


def word_count(text: str) -> int:
    """Counts the words of a text: runs of at least two letters, so symbols do not count."""
    return len(re.findall(r"[A-Za-z]{2,}", text))


def sentences(text: str) -> list[str]:
    """Splits a paragraph into sentences at closing punctuation before a new start."""
    return _SENTENCE_END.split(text)
