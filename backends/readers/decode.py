"""Text of bytes: by their mark, as UTF-8, or in the encoding that a detector is sure of."""

import codecs
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain

from wye.backends.readers.drafts import BadFileError

# That of UTF-32 in little-endian order begins with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_WESTERN = "cp1252"
# Fewer bytes are too few to be sure of an encoding, and more tell nothing new.
_FEWEST_BYTES = 16
_SAMPLE = 1 << 16
_SURE = 0.5
_PUNCTUATION = frozenset("“”‘’„‚«»–—…•€£§°©®™·½¼¾×±²³µ¿¡\u00a0")  # noqa: RUF001 - of many texts
_ACCENTED = re.compile(r"[^\x00-\x7f]")
_WORD = re.compile(r"[^\W\d_]+")
_BEFORE_LATIN = re.compile(rb"[\x80-\x9f]")


def known_encoding(name: str) -> str:
    """The usual name of an encoding, "" for none; a `LookupError` if it is not known."""
    try:
        "".encode(name or "utf-8")
    except ValueError as error:  # a NUL in the name, or a codec that encodes nothing
        raise LookupError(name) from error
    return codecs.lookup(name).name if name else ""


def encoding_of_mark(content: bytes) -> str:
    """The encoding that the first bytes state; "" if they state none."""
    return next((name for mark, name in _MARKS if content.startswith(mark)), "")


def decoded(content: bytes, encoding: str = "") -> tuple[str, str]:
    """The text of bytes, and a note if its encoding is a guess.

    Args:
        encoding: What is no Unicode is decoded by it; "" to find out which it is.

    Raises:
        BadFileError: The content is not in that encoding, or it is not certain in which it is.
    """
    marked = encoding_of_mark(content)
    if marked:
        try:
            return content.decode(marked).removeprefix("\ufeff"), ""
        except UnicodeDecodeError as error:
            raise BadFileError(f"is not {marked.upper()}: {error.reason}") from error
    try:
        return content.decode(), ""
    except UnicodeDecodeError as error:
        reason = f"is not UTF-8: byte {error.start} is 0x{content[error.start]:02x}"
    guess, is_sure = (encoding, True) if encoding else _guessed(content)
    if guess and not is_sure:
        reason = f"{reason}. It may be {guess}; then give --encoding {guess}"
    with suppress(UnicodeError):
        if is_sure:
            note = "" if encoding else f"read as {guess}, since it is not UTF-8"
            return content.decode(guess), note
    raise BadFileError(f"{reason}, nor {encoding}" if encoding else reason)


def _guessed(content: bytes) -> tuple[str, bool]:
    """The likely encoding of bytes, "" if there is none, and whether it is certain."""
    from charset_normalizer import from_bytes  # noqa: PLC0415

    matches = from_bytes(content[:_SAMPLE])
    best = matches.best()
    if best is None or b"\0" in content or best.encoding.startswith("utf"):
        return "", False
    guess, is_sure = best.encoding, best.coherence >= _SURE
    text = content.decode(_WESTERN, "replace")
    accented = _ACCENTED.findall(text)
    letters = sum(map(len, _WORD.findall(text)))
    # The encodings of Central and Western Europe differ in a few letters, and the latter is the
    # one that programs write; in a text of another script most letters are not ASCII.
    is_western = 0 < len(accented) < 0.2 * letters and all(
        letter.isalpha() or letter in _PUNCTUATION for letter in accented
    )
    # In those of DOS, letters come before 0xa0, and frames of tables after.
    is_windows = guess.startswith(("cp4", "cp7", "cp8")) and not _BEFORE_LATIN.search(content)
    is_tie = is_windows or any(
        match.encoding == _WESTERN and match.coherence >= best.coherence for match in matches
    )
    if is_western and (is_tie or _WESTERN in best.could_be_from_charset or not is_sure):
        guess, is_sure = _WESTERN, True
    return guess, is_sure and len(content) >= _FEWEST_BYTES


def utf8_lines(file: Iterable[bytes], encoding: str = "") -> Iterator[bytes]:
    """The lines of a file in UTF-8, from what its mark states or the encoding, if there is one.

    Raises:
        OSError: The file cannot be read.
        BadFileError: It is not in the encoding that its mark states.
    """
    lines = iter(file)
    first = next(lines, b"")
    if encoding_of_mark(first) not in ("", "utf-8"):
        text, _ = decoded(b"".join((first, *lines)))
        yield from text.encode("utf-8", "replace").split(b"\n")
        return
    for line in chain([first] if first else [], lines):
        with suppress(BadFileError):
            yield decoded(line, encoding)[0].encode() if encoding else line
            continue
        yield line
