"""Documents as they are stored: checked, cleaned, and cut into chunks of whole sentences.

What cannot be stored is a `SourceError`, which says which field and why.
"""

import json
import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from pathlib import PurePath

from wye.backends.errors import SourceError
from wye.backends.readers.drafts import (
    HEADER,
    PARAGRAPH,
    ROW,
    BadFileError,
    Block,
    Draft,
    flat,
    mended,
)
from wye.backends.text import HEADING_JOINT, is_blank, split_sentences
from wye.backends.types import Metadata, Passage, Scalar, Statement

LONGEST_TITLE = 1_024
_PIECE = 1 << 18  # characters at a time; other threads may run in between
# Limits of a document's metadata, which is stored with each passage and returned with each hit.
METADATA_BYTES = 16_384
MOST_KEYS = 64
MOST_VALUES = 256
_LONGEST_NUMBER = 1_024  # bits

_BREAKS = ("\r\n", "\r", "\x0b", "\x0c", "\x85")
# Control characters other than tab and newline; direction overrides, which can disguise a text;
# lone surrogates, which UTF-8 cannot encode; soft hyphens and spaces without width.
_UNPRINTABLE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202d\u202e\ud800-\udfff\xad\u200b\u2060\ufeff]"
)

CHUNK_WORDS = 200
# Longer passages are always chunked: one vector says little about so much text, and parsers stop at
# a million characters.
LONGEST_WORDS = 2_000
_FEW = 4  # sections shorter than 1 / _FEW of a chunk are joined

# Letters that count as one word where there are no spaces: Chinese text, base64, a line of dashes.
_LETTERS_PER_WORD = 16

_PARAGRAPH_END = re.compile(r"\n\s*\n")
_CHUNK_ID = re.compile(r"#[0-9]{4,}\Z")


@dataclass(frozen=True, slots=True)
class HeadedDocument(Passage):
    """A document whose headings are known."""

    blocks: Sequence[Block] = ()  # its headings, its tables, and the text between them
    has_pages: bool = False  # whether a passage is what stands under a heading of the highest level


def parse_record(record: object) -> Passage:
    """The passage that a JSON object describes, cleaned, or a `SourceError`.

    It has `_id` or `id` (a string, or an integer, which becomes one) and `text`; it may have
    `title` (at most `LONGEST_TITLE` characters), `metadata` (flat: strings, numbers, booleans, null
    or lists of them, of at most `METADATA_BYTES`), and `statements` (a list of texts, and of
    triples of them).
    """
    if not isinstance(record, Mapping):
        raise SourceError(f"is {_kind(record)}, not an object")
    if "text" not in record:
        raise SourceError("text is missing")
    text = clean(_string(record, "text"))
    if is_blank(text):
        raise SourceError("text is empty")
    title = _title(record)
    _limit("title", len(title), "characters", LONGEST_TITLE)  # every passage of the document has it
    statements = _statements(record.get("statements"))
    metadata = clean_metadata(record.get("metadata"))
    return Passage(_id(record), title, text, metadata, statements=statements)


def _statements(value: object) -> tuple[Statement, ...]:
    """Distinct statements, cleaned, each on one line; empty if they are missing or null."""
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        raise SourceError(f"statements is {_kind(value)}, not a list")
    if len(value) > MOST_VALUES:
        raise SourceError(
            f"there are {len(value):,} statements; at most {MOST_VALUES} are stored for a passage"
        )
    return tuple(dict.fromkeys(map(_statement, value)))


def _statement(value: object) -> Statement:
    parts = [value] if isinstance(value, str) else value
    if isinstance(parts, list | tuple) and all(isinstance(part, str) for part in parts):
        texts = [" ".join(clean(part).split()) for part in parts]
        if not any(map(is_blank, texts)) and (isinstance(value, str) or len(texts) == 3):
            return texts[0] if isinstance(value, str) else (texts[0], texts[1], texts[2])
    raise SourceError(f"statement {value!r:.80} is neither a text nor a triple of texts")


def checked_passage(passage: Passage) -> Passage:
    """A passage that is not to be cut, cleaned as a document is."""
    fields = parse_record({"id": passage.id, "text": passage.text, "metadata": passage.metadata})
    title = _title({"title": passage.title})  # with headings it may be longer than a document's
    document = _id({"id": passage.document})
    text, metadata = fields.text, fields.metadata
    return replace(
        passage, id=fields.id, title=title, text=text, metadata=metadata, document=document
    )


def clean(text: str) -> str:
    """A text without control characters, direction overrides, lone surrogates, and soft hyphens.

    Tabs stay, line breaks of all kinds become newlines, and letters and their marks are one
    character where Unicode has it (NFC).
    """
    for line_break in _BREAKS:
        text = text.replace(line_break, "\n")
    text = unicodedata.normalize("NFC", text.replace("\xad\n", ""))
    pieces = (text[start : start + _PIECE] for start in range(0, len(text), _PIECE))
    return "".join(_UNPRINTABLE.sub("", piece) for piece in pieces)


def document_of(draft: Draft, file: str) -> HeadedDocument:
    """The document of what a reader returned of a file, whose id is given.

    Its name is the title of a file that has none. A row's own id is unique only in its file, so the
    id here begins with the file's.
    """
    if draft.error:
        raise SourceError(draft.error)
    cleaned = [(level, clean(text)) for level, text in draft.blocks]
    # How far a line of a program is indented means something.
    filled = [(level, text) for level, text in cleaned if text.strip()]
    blocks = [(level, text.rstrip() if level == ROW else text.strip()) for level, text in filled]
    if any("-\n" in text for _, text in blocks):
        blocks = mended(blocks)
    if not blocks:
        raise SourceError("contains no text; scanned pages need OCR first")
    passage = parse_record(
        {
            "id": f"{file}:{draft.id or draft.line}" if draft.line else file,
            "title": (draft.title or ("" if draft.line else PurePath(file).stem))[:LONGEST_TITLE],
            "text": joined(blocks),
            "metadata": draft.metadata,
        }
    )
    fields = passage.id, passage.title, passage.text, passage.metadata
    return HeadedDocument(*fields, blocks=blocks, has_pages=draft.has_pages)


def _id(record: Mapping[str, object]) -> str:
    """The id of a record, composed (NFC) but not cleaned: two ids could become one."""
    value = record.get("_id", record.get("id"))
    if value is None:
        raise SourceError("_id is missing")
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise SourceError(f"_id is {_kind(value)}, not a string")
    if not value.strip():
        raise SourceError("_id is empty")
    value = unicodedata.normalize("NFC", value)
    if clean(value) != value or "\n" in value or "\t" in value:
        raise SourceError(
            f"_id {value!r:.80} contains a control character or an unpaired surrogate"
        )
    return value


def _title(record: Mapping[str, object]) -> str:
    """The title of a record, cleaned, on one line."""
    return " ".join(clean(_string(record, "title")).split())


def _string(record: Mapping[str, object], key: str) -> str:
    """A string field; "" if it is missing or null."""
    value = record.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise SourceError(f"{key} is {_kind(value)}, not a string")
    return value


def clean_metadata(value: object) -> Metadata:
    """Check and clean metadata; empty if it is missing or null."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise SourceError(f"metadata is {_kind(value)}, not an object")
    if any(isinstance(entry, Mapping) for entry in value.values()):
        try:
            value = dict(flat(value))
        except BadFileError as error:
            raise SourceError(f"metadata {error}") from error
    _limit("metadata", len(value), "keys", MOST_KEYS)
    metadata = {clean(str(key)): _metadata_value(str(key), entry) for key, entry in value.items()}
    size = len(json.dumps(metadata, ensure_ascii=False).encode())
    _limit("metadata", size, "bytes as JSON", METADATA_BYTES)
    return metadata


def _limit(what: str, size: int, units: str, most: int) -> None:
    if size > most:
        raise SourceError(f"{what} has {size:,} {units}; at most {most:,} are stored")


def _metadata_value(key: str, value: object) -> Scalar | list[Scalar]:
    if not isinstance(value, list | tuple):
        return _scalar(key, value)
    _limit(f"metadata {key!r:.80}", len(value), "values", MOST_VALUES)
    return [_scalar(key, entry) for entry in value]


def _scalar(key: str, value: object) -> Scalar:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise SourceError(f"metadata {key!r} is {value}, which JSON cannot represent")
    if isinstance(value, int) and value.bit_length() > _LONGEST_NUMBER:
        raise SourceError(f"metadata {key!r} is a number of more than 300 digits")
    if value is None or isinstance(value, bool | int | float):
        return value
    raise SourceError(
        f"metadata {key!r} holds {_kind(value)}; only strings, numbers, booleans, null and lists "
        "of these can be stored"
    )


def _kind(value: object) -> str:
    """The kind of a JSON value, in words."""
    kinds = {bool: "a boolean", int: "a number", float: "a number", str: "a string"}
    kinds |= {list: "a list", dict: "an object", type(None): "null"}
    return kinds.get(type(value), f"a {type(value).__name__}")


def count_words(text: str) -> int:
    """Number of words of a text; a very long word counts as several."""
    return sum(map(_weight, text.split()))


def chunk_blocks(blocks: Sequence[Block], words: int) -> list[str]:
    """Cut blocks at sentence ends into chunks of at most `words` words; one if they are few.

    Chunks hold as many sentences as fit. A sentence that is too long by itself is cut between
    words, and such a word between letters. Joined, the chunks give all words in order. Within a
    chunk, a run of whitespace becomes a space, or an empty line between paragraphs. Rows of a table
    stay whole, and a chunk that one begins has the table's header.
    """
    if count_words(text := joined(blocks)) <= words:
        return [text]
    return _packed(_pieces_of_blocks(blocks, words), words)


def _pieces(text: str, words: int) -> Iterator[tuple[str, str, str]]:
    """The sentences of a text, each with what joins it to the one before; see `_packed`."""
    for paragraph in _PARAGRAPH_END.split(text):
        joint = PARAGRAPH
        sentences = chain.from_iterable(map(split_sentences, _windows(paragraph)))
        for piece in (piece for sentence in sentences for piece in _cut(sentence, words)):
            yield joint, piece, ""
            joint = " "


def _packed(pieces: Iterable[tuple[str, str, str]], words: int) -> list[str]:
    """Chunks of as many pieces as fit.

    A piece comes with what joins it to the one before, and what a chunk that it begins must repeat.
    """
    chunks: list[str] = []
    budget = 0
    for joint, piece, header in pieces:
        weight = count_words(piece)
        if weight <= budget:
            chunks[-1] += joint + piece
            budget -= weight
        else:
            chunks.append(f"{header}{joint}{piece}" if header else piece)
            budget = words - weight - count_words(header)
    return chunks


def _pieces_of_blocks(blocks: Sequence[Block], words: int) -> Iterator[tuple[str, str, str]]:
    header = ""
    for before, (level, text) in zip([(0, ""), *blocks], blocks, strict=False):
        if level not in (HEADER, ROW):
            header = ""
            yield from _pieces(text, words)
            continue
        # A header that is half a chunk would leave no room for rows.
        if level == HEADER:
            header = text if count_words(text) <= words // 2 else ""
        is_below = level == ROW and before[0] in (HEADER, ROW)
        pieces = [text] if count_words(text) <= LONGEST_WORDS else _cut(text, LONGEST_WORDS)
        for piece in pieces:
            yield "\n" if is_below else PARAGRAPH, piece, header if level == ROW else ""
            is_below = True


def chunk_passage(passage: Passage, words: int) -> Iterator[Passage]:
    """The chunks of a passage that is a document, or the passage itself if it is short enough.

    Chunk i has the id `<document>#<i>`, with i from 0 and at least four digits, and the title and
    metadata of its document. A document whose own id ends like that is always stored as chunks, so
    no id is both a document's and another document's chunk: each id says whose passage it is.

    Where headings are known, a chunk begins at one if possible, and the headings that it stands
    under are appended to its title, as in "Handbook > Install > Linux".
    """
    if words < 1:
        raise SourceError(f"chunk_words is {words}; a passage has at least 1 word")
    sections: Iterable[Section] = [((), [(0, passage.text)])]
    if isinstance(passage, HeadedDocument) and (
        passage.has_pages or count_words(passage.text) > words
    ):
        sections = _sections(passage.blocks, words, 0 if passage.has_pages else words // _FEW)
    texts = ((headings, chunk_blocks(section, words)) for headings, section in sections)
    chunks = [(headings, text) for headings, several in texts for text in several]
    if passage.statements and (len(chunks) > 1 or is_chunk_id(passage.id)):
        raise SourceError(
            f"{passage.id!r:.80} has statements, so it is not cut, and it is longer than {words} "
            "words or has the id of a chunk; give it in shorter records, each with its statements"
        )
    for number, (headings, text) in enumerate(chunks):
        title = HEADING_JOINT.join(filter(None, (passage.title, *headings)))
        if len(chunks) == 1 and not is_chunk_id(passage.id):
            yield Passage(passage.id, title, text, passage.metadata, statements=passage.statements)
        else:
            id_ = f"{passage.id}#{number:04d}"
            yield Passage(id_, title, text, passage.metadata, passage.id, number)


Section = tuple[tuple[str, ...], Sequence[Block]]


def _sections(
    blocks: Sequence[Block], words: int, few: int, above: tuple[str, ...] = ()
) -> Iterator[Section]:
    """Blocks in parts, each with its headings; those of fewer than `few` words are joined."""
    top = min((level for level, _ in blocks if level > 0), default=0)
    starts = [position for position, (level, _) in enumerate(blocks) if level == top and level]
    ends = [0, *starts, len(blocks)]
    group: Sequence[Block] = ()
    for new in (blocks[start:end] for start, end in pairwise(ends)):
        weight = sum(count_words(text) for _, text in group)
        if weight < few and weight + sum(count_words(text) for _, text in new) <= words:
            group = [*group, *new]
            continue
        yield from _section(group, words, few, above, top)
        group = new
    yield from _section(group, words, few, above, top)


def _section(
    blocks: Sequence[Block], words: int, few: int, above: tuple[str, ...], top: int
) -> Iterator[Section]:
    """The parts of one section, or of several short ones."""
    if not blocks:
        return
    levels = [level for level, _ in blocks]
    if top and levels[0] == top and levels.count(top) == 1:
        above = (*above, blocks[0][1])
        # A heading without text below becomes text itself.
        blocks = blocks[1:] or [(0, blocks[0][1])]
    if count_words(joined(blocks)) <= words or not any(level > 0 for level, _ in blocks):
        yield above, blocks
    else:
        yield from _sections(blocks, words, few, above)


def whole_documents(passages: Iterable[Passage], size: int) -> Iterator[list[Passage]]:
    """Split passages into windows of `size`, or more, so that none ends within a document."""
    window: list[Passage] = []
    for passage in passages:
        if len(window) >= size and passage.document != window[-1].document:
            yield window
            window = []
        window.append(passage)
    if window:
        yield window


def is_chunk_id(id_: str) -> bool:
    """Whether an id ends like that of a chunk."""
    return _CHUNK_ID.search(id_) is not None


def _windows(paragraph: str) -> Iterator[str]:
    """A paragraph in pieces of at most `_PIECE` characters; normally just one."""
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
    budget = words
    longest = words * _LETTERS_PER_WORD
    for word in sentence.split():
        for start in range(0, len(word), longest):
            bit = word[start : start + longest]
            if _weight(bit) > budget:
                pieces.append([])
                budget = words
            pieces[-1].append(bit)
            budget -= _weight(bit)
    return [" ".join(piece) for piece in pieces if piece]


def _weight(word: str) -> int:
    """The number of words that a run of letters counts as."""
    return -(-len(word) // _LETTERS_PER_WORD)


def joined(blocks: Iterable[Block]) -> str:
    """Blocks as one text, with empty lines between them, but not between a table's rows."""
    pieces: list[str] = []
    before = 0
    for level, text in blocks:
        is_below = level == ROW and before in (HEADER, ROW)
        pieces += ("\n" if is_below else PARAGRAPH, text)
        before = level
    return "".join(pieces[1:])
