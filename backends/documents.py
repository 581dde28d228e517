"""Documents from files, checked and cleaned, and long ones cut into chunks of whole sentences."""

import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePath
from typing import NoReturn

from backends.errors import SourceError
from backends.types import Metadata, Passage, Scalar

CHUNK_WORDS = 200
# A longer passage is chunked even where nobody asked: one vector says little about so much text,
# and parsers stop at a million characters.
LONGEST_WORDS = 2_000

HEADING_JOINT = " > "
"""Between the headings in the title of a chunk."""

# Sections that have less than such a part of a chunk stay together.
_FEW = 4

# Letters that count as one word where spaces do not tell: Chinese text, base64, a line of dashes.
_LETTERS_PER_WORD = 16

_PARAGRAPH_END = re.compile(r"\n\s*\n")
_SENTENCE_END = re.compile(r"""(?<=[.!?…])["'”’)\]]*\s+(?=[^a-z\s])|(?<=[。！？])""")  # noqa: RUF001
_ABBREVIATION = re.compile(
    r"(?:\b[A-Z]|\b(?:al|approx|ca|cf|co|corp|dr|e\.g|etc|fig|i\.e|inc|jr|ltd|mr|mrs|ms|no|prof|sr"
    r"|st|vol|vs))\.$",
    re.IGNORECASE,
)
_LONGEST_ABBREVIATION = 8


def split_sentences(text: str) -> list[str]:
    """Sentences of a text by punctuation, without a parser: good enough to chunk by.

    Splits after ., !, ? or … before whitespace and anything but a small letter, except after an
    initial or a common abbreviation, and after the full stops of Chinese and Japanese.
    """
    sentences = []
    start = 0
    for end in _SENTENCE_END.finditer(text):
        before = text[max(start, end.start() - _LONGEST_ABBREVIATION) : end.start()]
        if not _ABBREVIATION.search(before):
            sentences.append(text[start : end.end()].strip())
            start = end.end()
    return [sentence for sentence in (*sentences, text[start:].strip()) if sentence]


def count_words(text: str) -> int:
    """Words of a text, a very long word counting as several."""
    return sum(map(_weight, text.split()))


def chunk_text(text: str, words: int) -> list[str]:
    """Cut a text at sentence ends into chunks of at most `words` words.

    Chunks hold as many sentences as fit. A sentence that alone is longer is cut between words, and
    a word that alone is longer between letters. Joined, the chunks give all words in order; within
    one, runs of whitespace become a space, or an empty line between paragraphs.

    Args:
        text: Of any length.
        words: At least 1, as counted by `count_words`.

    Returns:
        The text itself if it is short enough, otherwise at least two chunks.
    """
    if count_words(text) <= words:
        return [text]
    chunks: list[str] = []
    room = 0
    for paragraph in _PARAGRAPH_END.split(text):
        joint = "\n\n"
        sentences = split_sentences(paragraph)
        for piece in (piece for sentence in sentences for piece in _cut(sentence, words)):
            weight = count_words(piece)
            if weight <= room:
                chunks[-1] += joint + piece
                room -= weight
            else:
                chunks.append(piece)
                room = words - weight
            joint = " "
    return chunks


@dataclass(frozen=True, slots=True)
class HeadedDocument(Passage):
    """A document whose headings are known.

    Attributes:
        blocks: Its text, as headings and what stands between them.
    """

    blocks: Sequence[Block] = ()


def chunk_passage(passage: Passage, words: int) -> Iterator[Passage]:
    """The chunks of a passage that is a document, or the passage itself if it is short enough.

    Chunk i has the id `<document>#<i>`, i counted from 0 with at least four digits, and the title
    and metadata of its document. Where headings are known, a chunk begins at one if it can, and the
    title goes on with those that it stands under, as in "Handbook > Install > Linux".
    """
    if not isinstance(passage, HeadedDocument):
        parts = [((), text) for text in chunk_text(passage.text, words)]
    elif count_words(passage.text) <= words:
        parts = [((), passage.text)]
    else:
        parts = [
            (headings, text)
            for headings, section in _sections(passage.blocks, words)
            for text in chunk_text(section, words)
        ]
    if len(parts) == 1:
        yield Passage(passage.id, passage.title, passage.text, passage.metadata)
        return
    for number, (headings, text) in enumerate(parts):
        id_ = f"{passage.id}#{number:04d}"
        title = HEADING_JOINT.join(filter(None, (passage.title, *headings)))
        yield Passage(id_, title, text, passage.metadata, passage.id, number)


def _sections(
    blocks: Sequence[Block], words: int, above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], str]]:
    """The text of blocks in parts, with the headings that each stands under.

    A section stays whole if it is short enough; those that are very short stay together.
    """
    top = min((level for level, _ in blocks if level), default=0)
    starts = [place for place, (level, _) in enumerate(blocks) if level == top and level]
    ends = [0, *starts, len(blocks)]
    group: Sequence[Block] = ()
    for part in (blocks[start:end] for start, end in pairwise(ends)):
        weight = sum(count_words(text) for _, text in group)
        if weight < words // _FEW and weight + sum(count_words(text) for _, text in part) <= words:
            group = [*group, *part]
            continue
        yield from _section(group, words, above, top)
        group = part
    yield from _section(group, words, above, top)


def _section(
    blocks: Sequence[Block], words: int, above: tuple[str, ...], top: int
) -> Iterator[tuple[tuple[str, ...], str]]:
    """What stands under one heading, or several short sections."""
    if not blocks:
        return
    levels = [level for level, _ in blocks]
    if top and levels[0] == top and levels.count(top) == 1:
        above = (*above, blocks[0][1])
        # A heading over nothing is a text of its own.
        blocks = blocks[1:] or [(0, blocks[0][1])]
    text = joined(blocks)
    if count_words(text) <= words or not any(level for level, _ in blocks):
        yield above, text
    else:
        yield from _sections(blocks, words, above)


def joined(blocks: Iterable[Block]) -> str:
    """Blocks as one text, with empty lines between them."""
    return "\n\n".join(text for _, text in blocks)


def _cut(sentence: str, words: int) -> list[str]:
    """A sentence in pieces of at most `words` words; normally just one."""
    pieces: list[list[str]] = [[]]
    room = words
    longest = words * _LETTERS_PER_WORD
    for word in sentence.split():
        for start in range(0, len(word), longest):
            part = word[start : start + longest]
            if _weight(part) > room:
                pieces.append([])
                room = words
            pieces[-1].append(part)
            room -= _weight(part)
    return [" ".join(piece) for piece in pieces if piece]


def _weight(word: str) -> int:
    """How many words a run of letters counts as."""
    return -(-len(word) // _LETTERS_PER_WORD)


BEIR_CORPUS = "corpus.jsonl"
TEXT_SUFFIXES = (".txt", ".md")

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BREAK = re.compile(r"\r\n?|\x0b|\x0c")
# C0 controls other than tab and newline, DEL, and halves of surrogate pairs, which no UTF-8 holds.
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0e-\x1f\x7f\ud800-\udfff]")
_HEADING = re.compile(r"^#{1,6}[ \t]+(.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line, or a whole text file, that gave no passage.

    Attributes:
        line: 1-based; None for a text file as a whole.
    """

    file: str
    line: int | None
    reason: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.reason}"


OnBad = Callable[[BadLine], None]


def refuse(bad: BadLine) -> NoReturn:
    """Stop at the first bad line; the strict way to read.

    Raises:
        SourceError: Always; names file, line and reason.
    """
    raise SourceError(f"{bad}. Correct it, or read leniently to skip such lines.")


def read_passages(
    path: str | Path, *, chunk_words: int | None = None, on_bad: OnBad = refuse
) -> Iterator[Passage]:
    """Passages of a source, in the order of its lines, or of its file names.

    The lines of `.jsonl` files stay whole unless `chunk_words` is given or they exceed
    `LONGEST_WORDS`; text files are chunked by `CHUNK_WORDS` unless `chunk_words` says otherwise.
    A text file's id is its name, or its path below the folder that is read. Memory holds one line
    or one text file at a time, and the ids met so far in a `.jsonl` file.

    Args:
        path: A BEIR folder, a `.jsonl`, `.txt` or `.md` file, or a folder of text files at any
            depth; names that begin with a dot are passed over.
        chunk_words: Longest chunk, in words.
        on_bad: Told of every line that gives no passage; by default the first ends the reading.

    Raises:
        SourceError: There is no such file, or it is of no kind that we read; at the call, not at
            the first passage.
    """
    source = Path(path)
    if source.is_dir() and (source / BEIR_CORPUS).is_file():
        source = source / BEIR_CORPUS
    if source.is_dir():
        documents = _text_folder(source, on_bad)
        words = chunk_words or CHUNK_WORDS
    elif not source.exists():
        raise SourceError(f"There is no file or folder {source}. Check the path.")
    elif source.suffix.lower() == ".jsonl":
        documents = _jsonl(source, on_bad)
        words = chunk_words or LONGEST_WORDS
    elif source.suffix.lower() in TEXT_SUFFIXES:
        documents = _text_files([(source.name, source)], on_bad)
        words = chunk_words or CHUNK_WORDS
    else:
        raise SourceError(
            f"{source} is not a file we read. Give a .jsonl, .txt or .md file, a folder of text "
            f"files, or a BEIR folder with {BEIR_CORPUS}."
        )
    return (chunk for document in documents for chunk in chunk_passage(document, words))


def parse_record(record: object) -> Passage:
    """The passage that a JSON object describes.

    Control characters other than tab and newline are dropped from title, text and metadata.

    Args:
        record: Has `_id` or `id` (a string, or an integer that is taken as one) and `text`; may
            have `title` and `metadata` (flat: strings, numbers, booleans, null or lists of them).

    Raises:
        SourceError: It does not; says which field and why.
    """
    if not isinstance(record, Mapping):
        raise SourceError(f"is {_kind(record)}, not an object")
    if "text" not in record:
        raise SourceError("text is missing")
    text = clean(_string(record, "text"))
    if not text.strip():
        raise SourceError("text is empty")
    title = " ".join(clean(_string(record, "title")).split())
    return Passage(_id(record), title, text, _metadata(record.get("metadata")))


def clean(text: str) -> str:
    """A text without carriage returns, control characters and halves of surrogate pairs."""
    return _UNPRINTABLE.sub("", _BREAK.sub("\n", text))


def _jsonl(path: Path, on_bad: OnBad) -> Iterator[Passage]:
    """One passage a line."""
    met: set[str] = set()
    for number, line in _lines(path):
        try:
            passage = parse_record(_json(line))
            if passage.id in met:
                raise SourceError(f"id {passage.id!r} came up before in this file")
        except SourceError as error:
            on_bad(BadLine(str(path), number, str(error)))
            continue
        met.add(passage.id)
        yield passage


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Numbered lines that are not blank, without a byte order mark."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                content = (line.removeprefix(_BYTE_ORDER_MARK) if number == 1 else line).strip()
                if content:
                    yield number, content
    except OSError as error:
        raise SourceError(
            f"{path} cannot be read: {error}. Check the disk and the rights."
        ) from error


def _json(line: bytes) -> object:
    """What a line of JSON says; NaN and infinities are not JSON."""
    try:
        return json.loads(_decode(line), parse_constant=_not_json)
    except json.JSONDecodeError as error:
        raise SourceError(f"not JSON: {error.msg} at column {error.colno}") from error
    except ValueError as error:  # a number of thousands of digits
        raise SourceError(f"not JSON that we read: {error}") from error
    except RecursionError as error:
        raise SourceError("not JSON that we read: nested too deeply") from error


def _not_json(name: str) -> NoReturn:
    raise SourceError(f"not JSON: {name} is not a number")


def _decode(content: bytes) -> str:
    """Text of UTF-8 bytes."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SourceError(
            f"not UTF-8: byte {error.start} is 0x{content[error.start]:02x}"
        ) from error


def _text_folder(folder: Path, on_bad: OnBad) -> Iterator[Passage]:
    """The text files at any depth, in the order of their paths, without following links."""
    files = _walk(folder)
    first = next(files, None)
    if first is None:
        raise SourceError(
            f"{folder} holds neither {BEIR_CORPUS} nor any {' or '.join(TEXT_SUFFIXES)} file. "
            "Check the path."
        )
    return _text_files(chain([first], files), on_bad)


def _walk(folder: Path) -> Iterator[tuple[str, Path]]:
    """Relative and full paths of text files."""
    for here, folders, files in os.walk(folder, onerror=_unreadable):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            path = Path(here, name)
            if path.suffix.lower() in TEXT_SUFFIXES and not name.startswith("."):
                yield path.relative_to(folder).as_posix(), path


def _unreadable(error: OSError) -> NoReturn:
    raise SourceError(f"A folder cannot be read: {error}. Check the rights.") from error


def _text_files(files: Iterable[tuple[str, Path]], on_bad: OnBad) -> Iterator[Passage]:
    """One passage a file."""
    for name, path in files:
        try:
            yield _text_file(name, path)
        except SourceError as error:
            on_bad(BadLine(str(path), None, str(error)))


def _text_file(name: str, path: Path) -> Passage:
    """A text file as one document."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SourceError(f"cannot be read: {error}") from error
    return text_document(name, content)


def text_document(name: str, content: bytes) -> Passage:
    """The content of a text file as one document, whose id is the file's name.

    The first heading of Markdown is its title.

    Raises:
        SourceError: It is empty, or not UTF-8.
    """
    path = PurePath(name)
    text = clean(_decode(content.removeprefix(_BYTE_ORDER_MARK))).strip()
    title = path.stem
    heading = _HEADING.search(text) if path.suffix.lower() == ".md" else None
    if heading:
        title = heading[1].strip().rstrip("#").rstrip() or title
        if heading.start() == 0:  # otherwise something stands above, and it is part of the text
            text = text[heading.end() :].strip()
    return parse_record({"id": name, "title": title, "text": text})


def _id(record: Mapping[str, object]) -> str:
    """The id of a record; it may not be repaired, or two could become one."""
    value = record.get("_id", record.get("id"))
    if value is None:
        raise SourceError("_id is missing")
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise SourceError(f"_id is {_kind(value)}, not a string")
    if not value.strip():
        raise SourceError("_id is empty")
    if clean(value) != value:
        raise SourceError(f"_id {value!r} holds a control character or half a surrogate pair")
    return value


def _string(record: Mapping[str, object], key: str) -> str:
    """A string field; missing and null are empty."""
    value = record.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise SourceError(f"{key} is {_kind(value)}, not a string")
    return value


def _metadata(value: object) -> Metadata:
    """Checked and cleaned metadata; missing and null are empty."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise SourceError(f"metadata is {_kind(value)}, not an object")
    return {clean(str(key)): _metadata_value(str(key), entry) for key, entry in value.items()}


def _metadata_value(key: str, value: object) -> Scalar | list[Scalar]:
    """One value of metadata, or a list of them."""
    if isinstance(value, list | tuple):
        return [_scalar(key, entry) for entry in value]
    return _scalar(key, value)


def _scalar(key: str, value: object) -> Scalar:
    """A string, number, boolean or null."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise SourceError(f"metadata {key!r} is {value}, which JSON cannot say")
    if value is None or isinstance(value, bool | int | float):
        return value
    raise SourceError(
        f"metadata {key!r} holds {_kind(value)}; only strings, numbers, booleans, null and lists "
        "of these can be stored"
    )


def _kind(value: object) -> str:
    """What a value of JSON is, in words."""
    kinds = {bool: "a boolean", int: "a number", float: "a number", str: "a string"}
    kinds |= {list: "a list", dict: "an object", type(None): "null"}
    return kinds.get(type(value), f"a {type(value).__name__}")
