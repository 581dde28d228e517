"""Uploaded files as documents: what their names may be, and what is read of each kind."""

import asyncio
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from backends.errors import SourceError
from backends.sources import BadLine, clean, parse_record, read_passages, text_document
from backends.types import Passage
from service.documents.sandbox import Sandbox, bad_file
from service.problems import Problem

LONGEST_NAME = 255
# Names of files whose lines are documents each.
LINES = (".jsonl", ".ndjson")
TEXTS = (".txt", ".md")
PARSED: Mapping[str, str] = {".pdf": "pdf", ".docx": "docx"}
KINDS = (*TEXTS, *PARSED, *LINES)

_SEPARATORS = re.compile(r"[/\\]")
# Of JSON in one line; more at once would keep everything else waiting while it is parsed.
_LONGEST_LINE = 4_194_304
_LONGEST_TITLE = 1_024


def base_name(given: str | None) -> str:
    """The last part of a file's name as a client gives it; what stands before it is dropped.

    A name becomes an id and is never used as a path.

    Raises:
        Problem: There is none, it is too long, or not of a kind that is read.
    """
    name = _SEPARATORS.split(given or "")[-1]
    if not name.strip(". ") or clean(name) != name:
        raise Problem(422, "bad-file", "An uploaded file needs a name, as in `notes.txt`.")
    if len(name) > LONGEST_NAME:
        raise Problem(
            422, "bad-file", f"'{name:.40}…' is too long a name; {LONGEST_NAME} characters may be."
        )
    if suffix_of(name) not in KINDS:
        raise Problem(
            415,
            "file-type",
            f"'{name:.80}' is of no kind that is read; send {', '.join(KINDS)}.",
        )
    return name


def suffix_of(name: str) -> str:
    """Its ending in small letters, with the dot."""
    return Path(name).suffix.lower()


async def read_file(path: Path, name: str, sandbox: Sandbox) -> Passage:
    """The document in a text, PDF or DOCX file.

    Args:
        path: Where it was put.
        name: From `base_name`; becomes the id.
        sandbox: Reads what is not plain text.

    Raises:
        Problem: What is wrong with it.
    """
    suffix = suffix_of(name)
    if not path.stat().st_size:
        raise bad_file(name, "is empty")
    try:
        if suffix in TEXTS:
            return await asyncio.to_thread(lambda: text_document(name, path.read_bytes()))
        title, text = await sandbox.read(path, PARSED[suffix], name)
        if not text.strip():
            raise bad_file(name, "holds no text; pictures of pages have to be recognised first")
        return parse_record(
            {"id": name, "title": title[:_LONGEST_TITLE] or Path(name).stem, "text": text}
        )
    except SourceError as error:
        raise bad_file(name, str(error)) from error


def read_lines(path: Path, name: str) -> Iterator[Passage]:
    """The documents in a file of JSON lines.

    Args:
        path: Where it was put; ends in .jsonl.
        name: For messages.

    Raises:
        Problem: With the number of the first line that is none.
    """

    def refuse(bad: BadLine) -> None:
        raise bad_file(name, f"cannot be read: line {bad.line}: {bad.reason}")

    with path.open("rb") as file:
        number = 0
        while line := file.readline(_LONGEST_LINE + 1):
            number += 1
            if len(line) > _LONGEST_LINE:
                raise bad_file(
                    name, f"cannot be read: line {number} has more than {_LONGEST_LINE:,} bytes"
                )
    if not number:
        raise bad_file(name, "is empty")
    # Whole documents: they are cut into passages later, as those of other kinds.
    yield from read_passages(path, chunk_words=_LONGEST_LINE, on_bad=refuse)


def with_metadata(passage: Passage, metadata: Mapping[str, object]) -> Passage:
    """A document with further metadata, which its own goes on top of."""
    if not metadata:
        return passage
    record = {"id": passage.id, "text": passage.text, "metadata": {**metadata, **passage.metadata}}
    return replace(passage, metadata=parse_record(record).metadata)
