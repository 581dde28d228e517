"""The program that reads untrusted files; `sandbox` runs it.

python -m wye.backends.readers.extract < SOCKET

A request is the extensions of files, limits and options, with the open files and one more. For
each, the program forks a process that reads the files and writes what it finds to the last, in
lines of JSON. That process opens no other file, and the system ends it when it takes too much time
or memory.
"""

import importlib
import json
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from email.message import EmailMessage
from io import BytesIO
from pathlib import PurePath
from select import select
from typing import BinaryIO

from wye.backends.readers import mail, markup, office, opendocument, tables
from wye.backends.readers.drafts import BadFileError, Draft, Limits, Options

DraftReader = Callable[[BinaryIO, Limits, Options], Iterator[Draft]]
"""A `BadFileError` of it says why: it is no such file, damaged, encrypted or beyond the limits."""


def eml(file: BinaryIO, limits: Limits, options: Options) -> Iterator[Draft]:
    """A mail, and the documents of attached files; one that cannot be read is an error."""
    draft, message = mail.eml(file.read(), limits)
    yield draft
    yield from _attached(message, "", 0, limits, options)


def mbox(file: BinaryIO, limits: Limits, options: Options) -> Iterator[Draft]:
    """The mails of a mailbox, each with its attached files as of `eml`."""
    for draft, message in mail.mbox(file, limits):
        yield draft
        yield from _attached(message, f"{draft.id or draft.line}:", draft.line, limits, options)


def _attached(
    message: EmailMessage, mail_id: str, line: int, limits: Limits, options: Options
) -> Iterator[Draft]:
    for number, (name, attached) in enumerate(mail.attachments(message), 1):
        path = PurePath(name)
        if (suffix := path.suffix.lower()) not in READERS or suffix in (".eml", ".mbox"):
            continue
        for draft in _drafts(BytesIO(attached), suffix, limits, options):
            part = draft.id or draft.line
            yield replace(
                draft,
                id=f"{mail_id}{name}:{part}" if part else f"{mail_id}{name}",
                line=line or draft.line or number,
                title=draft.title or path.stem,
                error=f"{name} {draft.error}" if draft.error else "",
            )


READERS: Mapping[str, tuple[DraftReader, str]] = {
    ".md": (markup.markdown, "markdown_it"),
    ".ipynb": (markup.notebook, "markdown_it"),
    ".html": (markup.html, "lxml.etree"),
    ".htm": (markup.html, "lxml.etree"),
    ".vtt": (markup.subtitles, "html"),
    ".srt": (markup.subtitles, "html"),
    ".ics": (markup.cards, "html"),
    ".vcf": (markup.cards, "html"),
    ".csv": (tables.csv, "csv"),
    ".tsv": (tables.csv, "csv"),
    ".xlsx": (office.xlsx, "openpyxl"),
    ".ods": (opendocument.ods, "lxml.etree"),
    ".pdf": (office.pdf, "pypdf"),
    ".docx": (office.docx, "docx"),
    ".pptx": (office.pptx, "pptx"),
    ".odt": (opendocument.odt, "lxml.etree"),
    ".odp": (opendocument.odp, "lxml.etree"),
    ".rtf": (office.rtf, "striprtf.striprtf"),
    ".epub": (office.epub, "lxml.etree"),
    ".eml": (eml, "email.parser"),
    ".mbox": (mbox, "email.parser"),
}
"""Extension -> reader, and the library that it loads, which takes long."""

MOST_FILES = 64  # files of a request

_LONGEST_REQUEST = 1 << 16
_BLOCKS = 4_096  # blocks of a line: whoever reads it does nothing else while it is parsed


def read(
    sources: Sequence[BinaryIO],
    target: BinaryIO,
    suffixes: Sequence[str],
    limits: Limits,
    options: Options,
) -> None:
    """Write the documents of files, all within the limits of one; each ends with a line of null.

    The last document of a file that cannot be read is an error.
    """
    resource.setrlimit(resource.RLIMIT_CPU, (limits.seconds, limits.seconds))
    resource.setrlimit(resource.RLIMIT_AS, (limits.memory_bytes, limits.memory_bytes))
    resource.setrlimit(resource.RLIMIT_FSIZE, (limits.unpacked_bytes, limits.unpacked_bytes))
    for source, suffix in zip(sources, suffixes, strict=True):
        for draft in _drafts(source, suffix, limits, options):
            write(target, draft)
        target.write(b"null\n")


def _drafts(source: BinaryIO, suffix: str, limits: Limits, options: Options) -> Iterator[Draft]:
    """The documents of a file; the last one is an error if the rest cannot be read."""
    try:
        yield from READERS[suffix][0](source, limits, options)
        return
    except BadFileError as error:
        reason = str(error)
    except MemoryError:
        reason = "needs more memory to read than is allowed here"
    except RecursionError:
        reason = "is nested too deeply"
    except Exception:  # noqa: BLE001 - a damaged file may raise anything
        kind = f"{suffix.lstrip('.').upper()} file"
        reason = f"is no {kind}, or a damaged one; if a program can open it, save it there again"
    yield Draft(error=reason)


def write(target: BinaryIO, draft: Draft) -> None:
    """Write a document: its blocks as lists, `_BLOCKS` to a line, and the rest as an object."""
    blocks = draft.blocks
    pieces = [blocks[start : start + _BLOCKS] for start in range(0, len(blocks), _BLOCKS)]
    for value in (*pieces, asdict(replace(draft, blocks=()))):
        # ASCII, since a damaged file may hold lone surrogates, which UTF-8 cannot encode.
        target.write(json.dumps(value).encode() + b"\n")


def serve(requests: socket.socket) -> None:
    """Answer each request with the exit code of the process that read the file."""
    while True:
        message, files, _, _ = socket.recv_fds(requests, _LONGEST_REQUEST, MOST_FILES + 1)
        if not message:
            return
        request = json.loads(message)
        # Loaded before the fork, so that the next file of this kind need not load it again.
        for suffix in {*request["suffixes"]}:
            importlib.import_module(READERS[suffix][1])
        ended, is_alive = os.pipe()
        child = os.fork()
        if not child:
            code = 1
            try:
                requests.close()
                sources = [os.fdopen(file, "rb") for file in files[:-1]]
                limits, options = Limits(**request["limits"]), Options(**request["options"])
                with os.fdopen(files[-1], "wb") as target:
                    read(sources, target, request["suffixes"], limits, options)
                code = 0
            finally:
                os._exit(code)
        for file in (*files, is_alive):
            os.close(file)
        ready, _, _ = select([ended, requests.fileno()], [], [])
        if ended not in ready:  # the caller is gone, and may not have ended this process
            os.killpg(0, signal.SIGKILL)
        os.close(ended)
        _, status = os.waitpid(child, 0)
        requests.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    # Nobody reads what libraries print about a file.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    with socket.socket(fileno=sys.stdin.fileno()) as served:
        serve(served)
