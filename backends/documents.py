"""Documents as they are stored: checked and cleaned."""

import json
import math
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath

from wye.backends.chunks import HeadedDocument, joined
from wye.backends.errors import SourceError
from wye.backends.readers.drafts import ROW, Block, Draft
from wye.backends.text import FUNCTION_WORDS, is_blank
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
_BROKEN = re.compile(r"(\w+)-\n[ \t]*(\w+)")
_WORD = re.compile(r"\w+")


def parse_record(record: object) -> Passage:
    """The passage that a JSON object describes.

    Title, text and metadata are cleaned.

    Args:
        record: Has `_id` or `id` (a string, or an integer, which becomes one) and `text`; may have
            `title` (at most `LONGEST_TITLE` characters) and `metadata` (flat: strings, numbers,
            booleans, null or lists of them, of at most `METADATA_BYTES`), and `statements` (a list
            of texts, and of triples of them).

    Raises:
        SourceError: The record is not like that; says which field and why.
    """
    if not isinstance(record, Mapping):
        raise SourceError(f"is {_kind(record)}, not an object")
    if "text" not in record:
        raise SourceError("text is missing")
    text = clean(_string(record, "text"))
    if is_blank(text):
        raise SourceError("text is empty")
    title = _title(record)
    if len(title) > LONGEST_TITLE:  # every passage of the document has it
        raise SourceError(
            f"title has {len(title):,} characters; at most {LONGEST_TITLE:,} are stored"
        )
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
    """A passage that is not to be cut, cleaned as a document is.

    Raises:
        SourceError: It cannot be stored; says which field and why.
    """
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


def _mended(blocks: Sequence[Block]) -> list[Block]:
    """Blocks without the hyphens at ends of lines in words that they have whole elsewhere."""
    words = {word.casefold() for _, text in blocks for word in _WORD.findall(text)}

    def whole(match: re.Match[str]) -> str:
        word = match[1] + match[2]
        return word if word.casefold() in words else match[0]

    return [(level, _BROKEN.sub(whole, text)) for level, text in blocks]


def document_of(draft: Draft, file: str) -> HeadedDocument:
    """The document of what a reader returned.

    A row's own id is unique only in its file, so the id here begins with the file's.

    Args:
        file: The file's id; its name is the title of a file that has none.

    Raises:
        SourceError: It has no text, or something that cannot be stored; says why.
    """
    if draft.error:
        raise SourceError(draft.error)
    cleaned = [(level, clean(text)) for level, text in draft.blocks]
    # How far a line of a program is indented means something.
    blocks = [
        (n, text.rstrip() if n == ROW else text.strip()) for n, text in cleaned if text.strip()
    ]
    if any("-\n" in text for _, text in blocks):
        blocks = _mended(blocks)
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
    """Check and clean metadata; empty if it is missing or null.

    Raises:
        SourceError: It is no flat object, or exceeds a limit.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise SourceError(f"metadata is {_kind(value)}, not an object")
    value = dict(_flat(value, "", 0))
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


def _flat(value: Mapping[object, object], prefix: str, depth: int) -> Iterator[tuple[str, object]]:
    """The entries of a nested object; keys are joined by dots."""
    if depth > MOST_KEYS:
        raise SourceError("metadata is nested too deeply")
    for key, entry in value.items():
        name = f"{prefix}{key}"
        if isinstance(entry, Mapping):
            yield from _flat(entry, f"{name}.", depth + 1)
        else:
            yield name, entry


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


# Frequent words that English lacks: German, French, Spanish, Italian, Portuguese, Dutch, Polish.
_FOREIGN_WORDS = frozenset(
    """aan auch auf avec che com como con czy dans das dei del della den der des die dla du een ein
    eine el elle est et für gli het il ist jak jest la las le les los mais mit na nicht nie non não
    och oder ou para pas por pour que qui się sind sont sur te um uma und une van voor von zijn zu
    zum è é""".split()  # noqa: SIM905 - words read better as words
)
_LETTERS = re.compile(r"[^\W\d_]+")
_GLANCED_WORDS = 400
_FEWEST_WORDS = 8


def looks_foreign(text: str) -> bool:
    """Whether a text is surely not English: in another script, or of another language's words."""
    words = [word.casefold() for word in _LETTERS.findall(text[: 16 * _GLANCED_WORDS])]
    letters = "".join(words)
    if sum(letter > "\u036f" for letter in letters) > len(letters) / 2:
        return True
    foreign = sum(word in _FOREIGN_WORDS for word in words)
    english = sum(word in FUNCTION_WORDS for word in words)
    return len(words) >= _FEWEST_WORDS and foreign > 2 * english and foreign > len(words) // 16
