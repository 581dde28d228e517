"""The text of a PDF or DOCX file: a program of its own, since such files come from anybody.

python -m service.ingest.extract KIND LIMITS < FILE

Prints one JSON object: `title` and `text`, or `error` with what is wrong. It opens no other file,
writes none, and the system ends it when it takes too much time or memory; `sandbox` runs it.
"""

import json
import resource
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import BinaryIO

# Parts of a DOCX file; a real one has dozens.
_MOST_PARTS = 10_000


@dataclass(frozen=True, slots=True)
class Limits:
    """What reading one file may take: `seconds` of processor time, `memory_bytes` of address space.

    `pages` are a PDF file's, `unpacked_bytes` a DOCX file's when it is decompressed.
    """

    pages: int
    characters: int
    unpacked_bytes: int
    seconds: int
    memory_bytes: int

    def __str__(self) -> str:
        """As an argument of the program."""
        return json.dumps(asdict(self))


class BadFileError(Exception):
    """The file cannot be read; says why."""


def pdf(file: BinaryIO, limits: Limits) -> tuple[str, str]:
    """Title and text of a PDF file.

    Raises:
        BadFileError: It is locked or too long.
    """
    from pypdf import PdfReader  # noqa: PLC0415 - one kind of file needs one library

    reader = PdfReader(file)
    if reader.is_encrypted:
        raise BadFileError("is encrypted; save it without a password")
    pages = len(reader.pages)
    if pages > limits.pages:
        raise BadFileError(f"has {pages:,} pages, and {limits.pages:,} are read; send it in parts")
    text = _joined((page.extract_text() for page in reader.pages), limits)
    title = reader.metadata.title if reader.metadata else None
    return (title if isinstance(title, str) else "", text)


def docx(file: BinaryIO, limits: Limits) -> tuple[str, str]:
    """Title and text of a DOCX file, tables included, in the order of the document.

    Raises:
        BadFileError: It is no such file, or too much when it is decompressed.
    """
    _check_archive(file, limits)
    from docx import Document  # noqa: PLC0415

    document = Document(file)
    return document.core_properties.title, _joined(_blocks(document.iter_inner_content()), limits)


def _blocks(content: Iterable[object]) -> Iterator[str]:
    from docx.table import Table  # noqa: PLC0415
    from docx.text.paragraph import Paragraph  # noqa: PLC0415

    for block in content:
        if isinstance(block, Paragraph):
            yield block.text
        elif isinstance(block, Table):
            for row in block.rows:
                # A cell that spans columns is there once for each.
                yield " | ".join(dict.fromkeys(cell.text.strip() for cell in row.cells))


def _check_archive(file: BinaryIO, limits: Limits) -> None:
    """Look at what an archive says of itself; Python unpacks no more of a part than is said."""
    try:
        with zipfile.ZipFile(file) as archive:
            parts = archive.infolist()
    except zipfile.BadZipFile as error:
        raise BadFileError("is not a DOCX file") from error
    if any(part.flag_bits & 1 for part in parts):
        raise BadFileError("is encrypted; save it without a password")
    unpacked = sum(part.file_size for part in parts)
    if len(parts) > _MOST_PARTS or unpacked > limits.unpacked_bytes:
        raise BadFileError(
            f"unpacks to {unpacked:,} bytes in {len(parts):,} parts, and "
            f"{limits.unpacked_bytes:,} bytes in {_MOST_PARTS:,} are read"
        )
    file.seek(0)


def _joined(blocks: Iterable[str], limits: Limits) -> str:
    """Paragraphs as one text."""
    found: list[str] = []
    length = 0
    for block in blocks:
        length += len(block) + 2
        if length > limits.characters:
            raise BadFileError(
                f"holds more than the {limits.characters:,} characters that are read; send it in "
                "parts"
            )
        found.append(block)
    return "\n\n".join(block for block in found if block.strip())


_KINDS: Mapping[str, Callable[[BinaryIO, Limits], tuple[str, str]]] = {"pdf": pdf, "docx": docx}


def main(kind: str, limits: Limits) -> dict[str, str]:
    """What to print of a "pdf" or "docx" on standard input, read under limits."""
    resource.setrlimit(resource.RLIMIT_CPU, (limits.seconds, limits.seconds))
    resource.setrlimit(resource.RLIMIT_AS, (limits.memory_bytes, limits.memory_bytes))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    try:
        title, text = _KINDS[kind](sys.stdin.buffer, limits)
    except BadFileError as error:
        return {"error": str(error)}
    except MemoryError:
        return {"error": "takes more memory to read than is allowed here"}
    except RecursionError:
        return {"error": f"is nested too deeply for a {kind.upper()} file"}
    except Exception as error:  # noqa: BLE001 - a damaged file fails in any way it likes
        return {"error": f"cannot be read as a {kind.upper()} file ({type(error).__name__})"}
    return {"title": title, "text": text}


if __name__ == "__main__":
    found = main(sys.argv[1], Limits(**json.loads(sys.argv[2])))
    # ASCII, since a damaged file may hold what no encoding can write.
    sys.stdout.write(json.dumps(found))
