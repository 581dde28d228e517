"""Readers of Markdown and HTML: their text without the markup, and headings."""

import datetime
import json
import quopri
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from html import unescape
from itertools import chain
from typing import Any, BinaryIO

from wye.backends.readers.decode import decoded, encoding_of_mark, known_encoding
from wye.backends.readers.drafts import (
    DEFAULT,
    HEADER,
    ROW,
    BadFileError,
    Block,
    Draft,
    Limits,
    Options,
    document,
    flat,
    one_line,
)

_FRONT = re.compile(
    r"---[ \t]*\r?\n(?=[\w\"'][^\n]*:)(.*?)\r?\n(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.S
)
_LONGEST_FRONT = 16_384


def front_matter(text: str) -> tuple[dict[str, Any], str]:
    """Metadata from the YAML at the beginning of a text, and the rest of the text.

    Nested keys are joined by dots, dates become ISO 8601, and all but values and lists of values is
    left out.

    Raises:
        BadFileError: The front matter is not YAML, too long, or uses aliases.
    """
    match = _FRONT.match(text)
    if not match:
        return {}, text
    if len(match[1]) > _LONGEST_FRONT:
        raise BadFileError(f"has front matter of more than {_LONGEST_FRONT:,} characters")
    import yaml  # noqa: PLC0415

    try:
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(match[1])):
            raise BadFileError("has front matter with aliases (*), which are not supported")
        value = yaml.safe_load(match[1])
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        position = f", line {mark.line + 2}" if mark else ""
        reason = getattr(error, "problem", None) or type(error).__name__
        raise BadFileError(f"has front matter that is not YAML{position}: {reason}") from error
    if not isinstance(value, dict):
        raise BadFileError("has front matter whose lines are not like `author: Jane`")
    entries = ((name, _metadata(entry)) for name, entry in flat(value))
    return {name: entry for name, entry in entries if entry not in (None, [])}, text[match.end() :]


def _metadata(entry: object) -> object:
    """A value, or the values in a list; None for anything else."""
    if isinstance(entry, list):
        return [value for value in map(_plain, entry) if value is not None]
    return _plain(entry)


def _plain(value: object) -> object:
    value = value.isoformat() if isinstance(value, datetime.date) else value
    return value if isinstance(value, str | int | float) else None


def _joined(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _with_front_matter(
    metadata: dict[str, Any], blocks: Iterable[Block], limits: Limits, note: str = ""
) -> Draft:
    stated = metadata.get("title")
    if title := one_line(stated) if isinstance(stated, str) else "":
        del metadata["title"]
    return replace(document(blocks, limits, title=title, metadata=metadata), note=note)


def markdown(file: BinaryIO, limits: Limits, options: Options = DEFAULT) -> Iterator[Draft]:
    """A Markdown file, tables and front matter included."""
    content, note = decoded(file.read(), options.encoding)
    metadata, text = front_matter(content)
    pairs = ((name, value) for name, value in metadata.items() if name != "title")
    fields = "; ".join(f"{name}: {_joined(value)}" for name, value in pairs)
    yield _with_front_matter(metadata, chain(_markdown(text), [(0, fields)]), limits, note)


def _markdown(text: str) -> Iterator[Block]:
    from markdown_it import MarkdownIt  # noqa: PLC0415

    level = 0
    cells: list[str] | None = None  # of the current table row
    mark = ""  # of the list item that begins here
    is_header = False
    # By default the parser drops text nested deeper than 20. Beyond Python's limit it raises.
    parser = MarkdownIt("commonmark", {"maxNesting": sys.maxsize}).enable("table")
    for token in parser.parse(text):
        kind = token.type
        if kind == "heading_open":
            level = int(token.tag[1])
        elif kind == "heading_close":
            level = 0
        elif kind == "inline":
            content = _inline(token.children or ())
            if cells is not None:
                cells.append(one_line(content))
            else:
                yield (level, content) if level else (0, mark + content)
                mark = ""
        elif kind in ("fence", "code_block"):
            yield 0, mark + token.content.rstrip()
            mark = ""
        elif kind == "html_block":
            yield from html_blocks(token.content)
        elif kind == "list_item_open":
            mark = f"{token.info}. " if token.info else "- "
        elif kind == "tr_open":
            cells = []
        elif kind == "thead_open":
            is_header = True
        elif kind == "tr_close":
            yield HEADER if is_header else ROW, _row(cells or ())
            cells, is_header = None, False


def notebook(file: BinaryIO, limits: Limits, _: Options = DEFAULT) -> Iterator[Draft]:
    """The notes, the code and the printed results of a Jupyter notebook."""
    yield document(_cells(json.load(file)["cells"]), limits)


def _cells(cells: Iterable[Mapping[str, Any]]) -> Iterator[Block]:
    for cell in cells:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            yield from _markdown(source)
        else:
            yield 0, source
        for output in cell.get("outputs", ()):
            yield 0, "".join(output.get("text") or output.get("data", {}).get("text/plain", ""))


def _row(cells: Iterable[str]) -> str:
    return " | ".join(cell for cell in cells if cell)


def _inline(tokens: Iterable[Any]) -> str:
    pieces = []
    for token in tokens:
        if token.type in ("softbreak", "hardbreak"):
            pieces.append("\n")
        elif token.type == "image":
            pieces.append(_inline(token.children or ()))
        elif token.type in ("text", "code_inline", "text_special"):
            pieces.append(token.content)
    return "".join(pieces)


# Elements that are not part of a page's text.
_LEFT_OUT = frozenset(
    """aside button canvas dialog footer form head iframe math nav noscript object script
    select style svg template textarea""".split()  # noqa: SIM905 - names read better as words
)
_BLOCKS = frozenset(
    """address article blockquote body br center dd details div dl dt fieldset figcaption
    figure header hr li main ol p pre section summary tbody tfoot thead ul""".split()  # noqa: SIM905 - names read better as words
)
_HEADINGS = frozenset(f"h{level}" for level in range(1, 7))
# What mails quote, by the marks of the programs that people write them with; the outermost.
_QUOTE = "self::blockquote or contains(@class, 'gmail_quote') or contains(@class, 'yahoo_quoted')"
_QUOTES = f".//*[{_QUOTE}][not(ancestor::*[{_QUOTE}])]"
_INVISIBLE = re.compile(
    r"\b(?:display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0)\b", re.I
)
_CHARSET = re.compile(rb"""<meta[^>]{0,200}charset|<\?xml[^>]{0,100}encoding""", re.I)
_LONGEST_HEAD = 4_096


def html(file: BinaryIO, limits: Limits, options: Options = DEFAULT) -> Iterator[Draft]:
    """The main text of a page, without navigation, scripts, forms, what is hidden and the like.

    The title is the only heading of the highest level, or else the content of <title>.
    """
    content = file.read()
    source: str | bytes = content
    metadata: dict[str, Any] = {}
    note = ""
    try:
        metadata, source = front_matter(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        # A page may state its encoding, which the parser reads, unless a mark does.
        if encoding_of_mark(content) or not _CHARSET.search(content, 0, _LONGEST_HEAD):
            source, note = decoded(content, options.encoding)
    blocks = [*html_blocks(source)]
    draft = _with_front_matter(metadata, blocks, limits, note)
    if not draft.title:
        root = _parsed(source)
        named = root.find(".//title") if root is not None else None
        title = one_line("".join(named.itertext())) if named is not None else ""
        draft = replace(draft, title=title)
    yield draft


def _parsed(source: str | bytes) -> Any:  # noqa: ANN401 - lxml has no types
    from lxml import etree  # noqa: PLC0415

    # lxml refuses a string that states another encoding, so it gets bytes.
    encoding = "utf-8" if isinstance(source, str) else None
    content = source.encode("utf-8", "replace") if isinstance(source, str) else source
    parser = etree.HTMLParser(
        encoding=encoding, remove_comments=True, remove_pis=True, no_network=True, huge_tree=True
    )
    root = etree.fromstring(content, parser) if content.strip() else None
    # lxml leaves deeper elements out of the tree.
    if any(error.type_name == "ERR_RESOURCE_LIMIT" for error in parser.error_log):
        raise BadFileError("is nested too deeply")
    return root


def html_blocks(source: str | bytes, quotes: list[Block] | None = None) -> Iterator[Block]:
    """The main text of a page; bytes are decoded as the page states.

    Args:
        quotes: Gets the blocks that a mail quotes, which are then not among the others.

    Raises:
        BadFileError: It is nested too deeply.
    """
    from lxml import etree  # noqa: PLC0415

    root = _parsed(source)
    if root is None:
        return
    mains = root.findall(".//main") or root.findall(".//*[@role='main']")
    if not mains:
        mains = root.findall(".//article")
    if len(mains) == 1 and "".join(mains[0].itertext()).strip():
        root = mains[0]
    page = _Page()
    if quotes is not None:
        for quote in root.xpath(_QUOTES):
            quotes += html_blocks(etree.tostring(quote, encoding="unicode", with_tail=False))
            quote.clear(keep_tail=True)
    walker = etree.iterwalk(root, events=("start", "end"))
    for event, element in walker:
        is_skipped = element.tag in _LEFT_OUT or _is_unseen(element)
        if event == "start" and is_skipped:
            walker.skip_subtree()
        elif event == "start":
            yield from page.begin(element.tag)
            page.say(element.text)
        else:
            if not is_skipped:
                yield from page.end(element.tag)
            if element is not root:
                page.say(element.tail)
    yield from page.flush()


class _Page:
    """The current block of a page that is being read."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._level = self._rows = self._pre = 0
        self._is_first = self._is_header = False

    def say(self, text: str | None) -> None:
        """Append text to the block."""
        self._pieces.append(text or "")

    def begin(self, tag: str) -> Iterator[Block]:
        """Handle an opening tag."""
        yield from self._border(tag)
        self._rows += tag == "tr"
        self._pre += tag == "pre"
        if tag == "table":
            self._is_first = True
        elif tag == "tr":
            self._is_header, self._is_first = self._is_first, False
        elif tag == "td":
            self._is_header = False  # a row with names has no other cells
        elif tag in _HEADINGS:
            self._level = int(tag[1])
        elif tag == "li" and not self._rows:
            self.say("- ")

    def end(self, tag: str) -> Iterator[Block]:
        """Handle a closing tag."""
        if tag in ("td", "th"):
            self.say(" | ")
        yield from self._border(tag)
        self._rows -= tag == "tr"
        self._pre -= tag == "pre"
        if tag in _HEADINGS:
            self._level = 0

    def _border(self, tag: str) -> Iterator[Block]:
        # The cells of a row are one block, whatever they contain.
        if tag in _HEADINGS or tag in ("tr", "table") or (tag in _BLOCKS and not self._rows):
            yield from self.flush()
        elif tag in _BLOCKS:
            self.say(" ")

    def flush(self) -> Iterator[Block]:
        """End the block and yield it, unless it is empty."""
        text = "".join(self._pieces)
        self._pieces.clear()
        text = text.strip("\n") if self._pre else one_line(text).strip("| ")
        if text and text != "-":
            level = HEADER if self._is_header else ROW
            yield level if self._rows else self._level, text


def _is_unseen(element: Any) -> bool:  # noqa: ANN401 - lxml has no types
    """Whether an element is not shown, or is the link mark beside a heading."""
    if element.tag == "a" and "headerlink" in (element.get("class") or ""):
        return True
    is_hidden = "hidden" in element.attrib or element.get("aria-hidden") == "true"
    return is_hidden or _INVISIBLE.search(element.get("style") or "") is not None


_CUE = re.compile(r"[\d:]+:\d\d[.,]\d+ +-->")
_SPEAKER = re.compile(r"<v(?:\.[^ <>]*)? ([^<>]+)>")
_TAG = re.compile(r"<[^<>]*>")


def subtitles(file: BinaryIO, limits: Limits, options: Options = DEFAULT) -> Iterator[Draft]:
    """What is said in a transcript with times (WebVTT or SubRip), a line for each cue."""
    text, note = decoded(file.read(), options.encoding)
    lines: list[str] = []
    for block in re.split(r"\n\s*\n", "\n".join(text.splitlines())):
        rows = block.strip().splitlines()
        cue = next((n for n, row in enumerate(rows[:2]) if _CUE.match(row)), None)
        if cue is not None:
            words = _SPEAKER.sub(r"\1: ", " ".join(rows[cue + 1 :]))
            line = one_line(unescape(_TAG.sub("", words)))
            lines += [line] if line not in lines[-1:] else []  # captions that roll repeat it
    if not any(lines):
        raise BadFileError("has no cue, as in `00:00:01.000 --> 00:00:04.000`")
    yield replace(document(((ROW, line) for line in lines), limits), note=note)


_CARDS = {*("VEVENT", "VTODO", "VJOURNAL", "VCARD")}
_UNSAID = {*("UID", "DTSTAMP", "SEQUENCE", "PRODID", "VERSION", "REV", "N", "PHOTO", "LOGO", "KEY")}
_LABELS = {"DTSTART": "start", "DTEND": "end", "TEL": "phone"}
_STAMP = re.compile(r"([12]\d{3})-?([01]\d)-?([0-3]\d)(?:T(\d\d):?(\d\d).*)?")
_FOLD, _SLASHED = re.compile(r"\r?\n[ \t]"), re.compile(r"\\([nN])|\\(.)")
_QUOTED = re.compile(
    r"^([^:\n]{0,99};(?:ENCODING=)?QUOTED-PRINTABLE\b[^:\n]{0,99}:)((?:.*=\r?\n)*.*)", re.I | re.M
)
_STATED = re.compile(r";CHARSET=([\w-]+)", re.I)


def _unquoted(line: re.Match[str]) -> str:
    """A line in quoted-printable as text, by the encoding that it states."""
    with suppress(LookupError, BadFileError):
        encoding = known_encoding("".join(_STATED.findall(line[1])[:1]))
        return line[1] + one_line(decoded(quopri.decodestring(line[2].encode()), encoding)[0])
    return line[0]


def cards(file: BinaryIO, limits: Limits, options: Options = DEFAULT) -> Iterator[Draft]:
    """The entries of a calendar or an address book, each as a row of what it says.

    Source: RFC 5545 and RFC 6350, of which lines may be broken within a word, and vCard 2.1, of
    which lines may be in quoted-printable.
    """
    text, note = decoded(file.read(), options.encoding)
    cells: list[tuple[str, str]] = []
    number, inside = 0, [""]
    for line in [*_FOLD.sub("", _QUOTED.sub(_unquoted, text)).splitlines(), "END:"]:
        head, _, value = line.partition(":")
        name = head.partition(";")[0].rpartition(".")[2].strip().upper()
        if name == "BEGIN":
            inside.append(value.strip().upper())
        elif name == "END":
            if cells and (inside[-1] in _CARDS or not value):
                title = next((entry for of, entry in cells if of in ("summary", "fn")), "")
                rest = "; ".join(f"{of}: {entry}" for of, entry in cells if entry != title)
                number += 1
                draft = document([(0, rest or title)], limits, title=title)
                yield replace(draft, line=number, note=note if number == 1 else "")
                cells = []
            del inside[max(1, len(inside) - 1) :]
        elif inside[-1] in _CARDS and name not in _UNSAID and not name.startswith("X-"):
            entry = _SLASHED.sub(lambda sign: " " if sign[1] else sign[2], value).strip(" ;")
            if when := _STAMP.fullmatch(entry):
                day, time = "-".join(when.group(1, 2, 3)), ":".join(filter(None, when.group(4, 5)))
                entry = f"{day} {time}".strip()
            if entry := one_line(entry.removeprefix("mailto:")):
                cells.append((_LABELS.get(name, name.lower()), entry))
    if not number:
        raise BadFileError("has no event and no card, as in `BEGIN:VEVENT`")
