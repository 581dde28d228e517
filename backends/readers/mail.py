"""Readers of mails: a single one (.eml), and a mailbox of many (.mbox)."""

import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import replace
from email import message_from_bytes, policy
from email.message import EmailMessage
from email.utils import getaddresses, parsedate_to_datetime
from typing import Any, BinaryIO, cast

from wye.backends.readers.drafts import BadFileError, Block, Draft, Limits, document, one_line
from wye.backends.readers.markup import html_blocks

# A line that begins with "From " and is not escaped may be a mail's own: no header follows it.
_BETWEEN = re.compile(rb"(?:\A|\n\n(?=From [^\n]*\n[!-9;-~]+:))From [^\n]*\n")
_ESCAPED = re.compile(rb"^>(>*From )", re.M)
_QUOTED = re.compile(r"\s?>")
_INTRODUCTION = re.compile(r"\b(?:wrote|schrieb|écrit)\b[^:]{0,80}:\s*$")
# What programs write above the whole mail that is answered: a line, or the mail's own header.
_ORIGINAL = re.compile(r"\s*-{2,}\s*(?:Original Message|Ursprüngliche Nachricht)\s*-{2,}\s*", re.I)
_SENDER = re.compile(r"[\s*]*(?:From|Von|De|Da|Van|Från|Fra)\s*:[\s*]*\S")
_SENT = re.compile(
    r"[\s*]*(?:Sent|Date|Gesendet|Datum|Envoyé|Enviado|Inviato|Data|Verzonden|Skickat|Sendt)\s*:"
)
_HEADER_LINES = 4
# A text beside so much longer HTML is a stub, such as "See the HTML part".
_STUB = 0.5
_DEEPEST = 20
_MOST_PEOPLE = 64


def attachments(message: EmailMessage) -> Iterator[tuple[str, bytes]]:
    """Name and content of each file that is attached to a mail, but for mails that it forwards."""
    for part in message.iter_attachments() if message.is_multipart() else ():
        name, attached = one_line(part.get_filename() or ""), part.get_payload(decode=True)
        if name and isinstance(attached, bytes):
            yield name, attached


def mbox(file: BinaryIO, limits: Limits) -> Iterator[tuple[Draft, EmailMessage]]:
    """A document per mail; what a mail quotes is left out if it answers one before it."""
    known: set[str] = set()
    for number, content in enumerate(_messages(file), 1):
        try:
            draft, message = eml(content, limits, known)
        except BadFileError as error:
            yield Draft(line=number, error=str(error)), EmailMessage()
            continue
        id_ = str(draft.metadata.get("message_id", ""))
        known.add(id_)
        yield replace(draft, id=id_, line=number), message


def _messages(file: BinaryIO) -> Iterator[bytes]:
    """The mails of a mailbox, without the lines between them."""
    content = file.read().replace(b"\r\n", b"\n")
    if not content.startswith(b"From "):
        raise BadFileError("is no mailbox: its first line does not begin with 'From '")
    for mail in _BETWEEN.split(content)[1:]:
        yield _ESCAPED.sub(rb"\1", mail)


def eml(content: bytes, limits: Limits, known: Collection[str] = ()) -> tuple[Draft, EmailMessage]:
    """One mail: its text, then, under a heading of its own, what it quotes but of known mails."""
    message = message_from_bytes(content, policy=policy.default)
    if not message.keys():
        raise BadFileError("is no mail: it has no header, such as `From: jane@example.org`")
    metadata = _headers(message)
    files: list[str] = []
    blocks = [(0, _from_and_to(metadata))]
    blocks += _parts(message, files, str(metadata.get("in_reply_to", "")) in known)
    if files:
        metadata["attachments"] = files
        blocks.append((0, f"Attachments: {', '.join(files)}"))
    title = metadata.get("subject", "Mail")
    return document(blocks, limits, title=title, metadata=metadata), message


def _headers(message: EmailMessage) -> dict[str, Any]:
    """Metadata of a mail: who wrote it to whom, when, and in answer to what."""
    metadata: dict[str, Any] = {}
    for name in ("From", "To", "Cc", "Subject", "Date", "Message-ID", "In-Reply-To"):
        # A malformed header raises any of these, and is left out.
        with suppress(ValueError, TypeError, IndexError, AttributeError, OverflowError):
            value: Any = one_line(str(message.get(name, "")))
            if name in ("From", "To", "Cc"):
                pairs = getaddresses([value])[:_MOST_PEOPLE]
                people = [f"{who} <{address}>" if who else address for who, address in pairs]
                value = people[0] if name == "From" else [person for person in people if person]
            elif name == "Date":
                value = parsedate_to_datetime(value).isoformat()
            elif name != "Subject":
                value = value.strip("<>")
            if value:
                metadata[name.lower().replace("-", "_")] = value
    return metadata


def _from_and_to(metadata: dict[str, Any]) -> str:
    """Who wrote to whom and when, as a text that can be searched."""
    people = {"From": [metadata.get("from", "")]}
    people |= {name: metadata.get(name.lower(), []) for name in ("To", "Cc")}
    lines = [f"{name}: {', '.join(each)}" for name, each in people.items()]
    lines.append(f"Date: {metadata.get('date', '')[:10]}")
    return "\n".join(line for line in lines if not line.endswith(": "))


def _parts(
    message: EmailMessage, files: list[str], is_quote_known: bool, depth: int = 0
) -> Iterator[Block]:
    """The text of a mail, of those that it forwards, and the names of attached files."""
    if depth > _DEEPEST:
        raise BadFileError("is nested too deeply")
    yield from _body(message, is_quote_known)
    for part in message.iter_attachments() if message.is_multipart() else ():
        if part.get_content_type() == "message/rfc822":
            for forwarded in cast("list[EmailMessage]", part.get_payload()):
                metadata = _headers(forwarded)
                yield 1, f"Forwarded: {metadata.get('subject', 'a mail')}"
                yield 0, _from_and_to(metadata)
                yield from _parts(forwarded, files, is_quote_known, depth + 1)
        elif name := one_line(part.get_filename() or ""):
            files.append(name)


def _body(message: EmailMessage, is_quote_known: bool) -> Iterator[Block]:
    """What a mail says itself, and what it quotes under a heading."""
    new, quoted = _without_quotes(_content(message, "plain"))
    blocks = [*_paragraphs(new)], [*_paragraphs(quoted)]
    html_quotes: list[Block] = []
    html: list[Block] = []
    try:
        html += html_blocks(_content(message, "html"), html_quotes)
    except BadFileError:
        if not any(blocks):
            raise
    start = _forwarded_from([text for _, text in html])
    html, html_quotes = html[:start], html[start:] + html_quotes
    if _words(blocks[0] + blocks[1]) < _STUB * _words(html + html_quotes):
        blocks = html, html_quotes
    yield from blocks[0]
    if blocks[1] and not is_quote_known:
        yield 1, "Quoted from an earlier mail"
        yield from ((min(level, 0), text) for level, text in blocks[1])


def _content(message: EmailMessage, kind: str) -> str:
    """The text of a mail's body in plain text or HTML; "" without such a part."""
    part = cast("EmailMessage | None", message.get_body((kind,)))
    if part is None:
        return ""
    try:
        return str(part.get_content())
    except (LookupError, UnicodeError):  # an unknown charset
        payload = part.get_payload(decode=True)
        return payload.decode("utf-8", "replace") if isinstance(payload, bytes) else ""


def _words(blocks: list[Block]) -> int:
    return sum(len(text.split()) for _, text in blocks)


def _paragraphs(text: str) -> Iterator[Block]:
    return ((0, paragraph) for paragraph in re.split(r"\n\s*\n", text) if paragraph.strip())


def _forwarded_from(lines: list[str]) -> int:
    """Number of lines before the header of an earlier mail, such as "From: …", "Sent: …"."""
    for number, line in enumerate(lines):
        below = lines[number + 1 : number + _HEADER_LINES]
        if _ORIGINAL.fullmatch(line) or (_SENDER.match(line) and any(map(_SENT.match, below))):
            return number
    return len(lines)


def _without_quotes(text: str) -> tuple[str, str]:
    """What a mail says itself, and what it quotes."""
    new: list[str] = []
    quoted: list[str] = []
    lines = text.replace("\r\n", "\n").split("\n")
    end = _forwarded_from(lines)
    for line in lines[:end]:
        if line == "-- ":
            continue  # a signature follows, which says who writes
        if _QUOTED.match(line):
            while new and not new[-1].strip():
                new.pop()
            if new and _INTRODUCTION.search(new[-1]):
                is_broken = len(new) > 1 and new[-2].startswith(("On ", "Am "))
                del new[-2 if is_broken and not new[-1].startswith(("On ", "Am ")) else -1 :]
            new.append("")
            quoted.append(line.lstrip("> "))
        else:
            new.append(line)
    quoted += [line for line in lines[end:] if not _ORIGINAL.fullmatch(line)]
    return "\n".join(new), "\n".join(quoted)
