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

# Letters that count as one word where spaces do not tell: Chinese text, base64, a line of dashes.
_LETTERS_PER_WORD = 16

# Characters that are looked at in one go; other threads have their turn in between.
_PIECE = 1 << 18

_PARAGRAPH_END = re.compile(r"\n\s*\n")
_SENTENCE_END = re.compile(r"""(?<=[.!?…])["'”’)\]]*\s+(?=[^a-z\s])|(?<=[。！？])""")  # noqa: RUF001
_ABBREVIATION = re.compile(
    r"(?:\b[A-Z]|\b(?:al|approx|ca|cf|co|corp|dr|e\.g|etc|fig|i\.e|inc|jr|ltd|mr|mrs|ms|no|prof|sr"
    r"|st|vol|vs))\.$",
    re.IGNORECASE,
)
_LONGEST_ABBREVIATION = 8

PART_ID = "#[0-9]{4,}$"
"""How the id of a chunk ends and that of no whole document, as DataFusion's SQL has it."""
_PART = re.compile(r"#[0-9]{4,}\Z")


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
        sentences = chain.from_iterable(map(split_sentences, _windows(paragraph)))
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


def chunk_passage(passage: Passage, words: int) -> Iterator[Passage]:
    """The chunks of a passage that is a document, or the passage itself if it is short enough.

    Chunk i has the id `<document>#<i>`, i counted from 0 with at least four digits, and the title
    and metadata of its document. A document whose own id ends like that is always a chunk, so that
    an id is never both a document's and a chunk's of another: each says whose passage it is.
    """
    texts = chunk_text(passage.text, words)
    if len(texts) == 1 and not is_part_id(passage.id):
        yield passage
        return
    for number, text in enumerate(texts):
        id_ = f"{passage.id}#{number:04d}"
        yield Passage(id_, passage.title, text, passage.metadata, passage.id, number)


def is_part_id(id_: str) -> bool:
    """Whether an id ends as those of chunks do."""
    return _PART.search(id_) is not None


def _windows(paragraph: str) -> Iterator[str]:
    """A paragraph in pieces, each read in one go; normally just one."""
    start = 0
    while len(paragraph) - start > _PIECE:
        end = paragraph.rfind(" ", start + 1, start + _PIECE)
        end = end if end > 0 else start + _PIECE
        yield paragraph[start:end]
        start = end
    yield paragraph[start:]


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

# Of the metadata of a document, which each of its passages has, and each hit returns.
METADATA_BYTES = 16_384
MOST_KEYS = 64
MOST_VALUES = 256
_LONGEST_NUMBER = 1_024  # bits

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BREAKS = ("\r\n", "\r", "\x0b", "\x0c", "\x85")
# Controls other than tab and newline; overrides of direction, with which a text reads as another;
# and halves of surrogate pairs, which no UTF-8 holds.
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202d\u202e\ud800-\udfff]")
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

    Title, text and metadata are cleaned.

    Args:
        record: Has `_id` or `id` (a string, or an integer that is taken as one) and `text`; may
            have `title` and `metadata` (flat: strings, numbers, booleans, null or lists of them, of
            at most `METADATA_BYTES`).

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
    return Passage(_id(record), title, text, clean_metadata(record.get("metadata")))


def clean(text: str) -> str:
    """A text without control characters, overrides of direction and halves of surrogates.

    Tabs stay, and line breaks of all kinds become newlines.
    """
    for each in _BREAKS:
        text = text.replace(each, "\n")
    pieces = (text[start : start + _PIECE] for start in range(0, len(text), _PIECE))
    return "".join(_UNPRINTABLE.sub("", piece) for piece in pieces)


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
    if clean(value) != value or "\n" in value or "\t" in value:
        raise SourceError(f"_id {value!r:.80} holds a control character or half a surrogate pair")
    return value


def _string(record: Mapping[str, object], key: str) -> str:
    """A string field; missing and null are empty."""
    value = record.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise SourceError(f"{key} is {_kind(value)}, not a string")
    return value


def clean_metadata(value: object) -> Metadata:
    """Metadata, checked and cleaned; missing and null are empty.

    Raises:
        SourceError: It is no flat object, or more than is kept with each passage.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise SourceError(f"metadata is {_kind(value)}, not an object")
    if len(value) > MOST_KEYS:
        raise SourceError(f"metadata has {len(value):,} keys; at most {MOST_KEYS} are stored")
    metadata = {clean(str(key)): _metadata_value(str(key), entry) for key, entry in value.items()}
    if (
        metadata
        and (size := len(json.dumps(metadata, ensure_ascii=False).encode())) > METADATA_BYTES
    ):
        raise SourceError(
            f"metadata has {size:,} bytes as JSON; at most {METADATA_BYTES:,} are stored"
        )
    return metadata


def _metadata_value(key: str, value: object) -> Scalar | list[Scalar]:
    """One value of metadata, or a list of them."""
    if not isinstance(value, list | tuple):
        return _scalar(key, value)
    if len(value) > MOST_VALUES:
        raise SourceError(
            f"metadata {key!r:.80} has {len(value):,} values; at most {MOST_VALUES} are stored"
        )
    return [_scalar(key, entry) for entry in value]


def _scalar(key: str, value: object) -> Scalar:
    """A string, number, boolean or null."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise SourceError(f"metadata {key!r} is {value}, which JSON cannot say")
    if isinstance(value, int) and value.bit_length() > _LONGEST_NUMBER:
        raise SourceError(f"metadata {key!r} is a number of more than 300 digits")
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
