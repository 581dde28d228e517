"""Attacks with documents to be stored."""

import io
import json
import signal
import subprocess
import time
import zipfile
from collections.abc import Callable
from contextlib import suppress

import docx
from pypdf import PdfWriter

from benchmarks.attacks.target import AttackOutcome, Target, longest, wait_until

_NDJSON = {"content-type": "application/x-ndjson"}


def document_of_quotes(target: Target) -> AttackOutcome:
    """While 96 kB of quotes are stored, no question waits for more than 2 s."""
    with target.probing() as seen:
        started = time.monotonic()
        body = {"text": '"' * 96_000}
        status, said = target.send("PUT", "/v1/documents/quotes", json=body, timeout=120)
        if status == 202:
            target.has_ended(json.loads(said)["id"])
        taken = time.monotonic() - started
    wait, statuses = longest(seen)
    said = f"longest wait {wait:.1f} s, {statuses}; stored in {taken:.1f} s with {status}"
    return AttackOutcome(wait < 2 and {*statuses} == {200}, said)


def sigterm_while_busy(target: Target) -> AttackOutcome:
    """SIGTERM ends all processes within SHUTDOWN_SECONDS, whatever they analyse."""
    with target.serve(SERVE__SHUTDOWN_SECONDS="3") as server:
        server.wait()
        files = {"file": ("a.txt", b'."""' * 200_000)}
        status, _ = target.send("POST", "/v1/documents", key=None, server=server, files=files)
        time.sleep(4)
        started = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            server.process.wait(12)
        taken = time.monotonic() - started
        ended = server.process.poll() is not None
        time.sleep(2)
        orphans = len(server.family()) if ended else 0
    seen = f"sent with {status}; {'ended' if ended else 'alive'} after {taken:.1f} s"
    return AttackOutcome(ended and not orphans and status == 202, f"{seen}, {orphans} orphans")


def row_of_another_document(target: Target) -> AttackOutcome:
    """A document whose id looks like another's chunk neither damages it nor is damaged by it."""
    mine = "I am a document of my own and must survive."
    long = "A sentence of the long document. " * 400

    def text_of(id_: str) -> str:
        status, text = target.send("GET", f"/v1/documents/{id_}")
        parts = json.loads(text)["passages"] if status == 200 else []
        return " ".join(part["text"] for part in parts)

    first = target.put("parts%230001", mine)
    target.put("parts", long)
    survived = first >= 400 or text_of("parts%230001") == mine
    target.put("whole", long)
    before = text_of("whole")
    second = target.put("whole%230001", mine)
    whole = text_of("whole") == before != ""
    said = f"before: {first}, {'kept' if survived else 'lost'}"
    said += f"; after: {second}, {'whole' if whole else 'a part replaced'}"
    return AttackOutcome(survived and whole, said)


def body_of_numbers(target: Target) -> AttackOutcome:
    """A body of 6 MB of JSON is refused, and nobody waits while it is read."""
    body = '{"text": "t", "metadata": {"a": [' + "1," * 3_000_000 + "1]}}"
    with target.probing() as seen:
        kind = {"content-type": "application/json"}
        status, _ = target.send("PUT", "/v1/documents/numbers", content=body.encode(), headers=kind)
        content = b"{}," * 2_000_000
        many, _ = target.send("POST", "/v1/documents/delete", content=content, headers=kind)
    small = target.put("numbers", "t", metadata={"a": [1] * 100_000})
    wait, _ = longest(seen)
    held = 400 <= status < 500 and many == 413 and 400 <= small < 500 and wait < 1
    return AttackOutcome(
        held, f"PUT {status}, deletion {many}, metadata of 200 kB {small}; wait {wait:.1f} s"
    )


def newline_in_id(target: Target) -> AttackOutcome:
    """A document can be read and deleted by any id that is accepted."""
    status, _ = target.send("POST", "/v1/documents", json={"id": "new\nline", "text": "A bridge."})
    read, _ = target.send("GET", "/v1/documents/new%0Aline")
    target.send("POST", "/v1/documents/delete", json={"ids": ["new\nline"]})
    return AttackOutcome(status >= 400 or read == 200, f"stored with {status}, read with {read}")


def terminal_controls(target: Target) -> AttackOutcome:
    """A title's C1 controls and bidi overrides do not reach the terminal."""
    target.put("controls", "Wombatine.", title="\u009b31mred \u202egnp.exe")
    words = ("search", "wombatine", "--route", "lexical", "--index", str(target.ready().index))
    shown = target.run(*words).stdout
    found = [f"U+{ord(c):04X}" for c in shown if c in "\u009b\u202e"]
    target.send("DELETE", "/v1/documents/controls")
    return AttackOutcome("red" in shown and not found, f"printed {', '.join(found) or 'none'}")


def upload_client_leaves(target: Target) -> AttackOutcome:
    """A document is not stored if its sender leaves while it is analysed."""
    server = target.ready()
    body = {"text": '"' * 96_000}
    status, _ = target.send("PUT", "/v1/documents/left", json=body, timeout=0.5)
    started = time.monotonic()
    said = wait_until(
        lambda: any("/v1/documents/left" in line and "PUT" in line for line in server.lines), 120
    )
    taken = time.monotonic() - started
    found, _ = target.send("GET", "/v1/documents/left")
    target.send("DELETE", "/v1/documents/left")
    seen = f"ended {taken:.1f} s after its sender left; then GET {found}"
    return AttackOutcome(status == 0 and said and found == 404 and taken < 5, seen)


def empty_password_pdf(target: Target) -> AttackOutcome:
    """A PDF file with an empty password, which any reader opens, is accepted."""
    writer = PdfWriter()
    writer.add_blank_page(300, 300)
    writer.append(io.BytesIO(_PDF))
    writer.encrypt("", "owner", algorithm="RC4-128")
    kept = io.BytesIO()
    writer.write(kept)
    status, text = _upload(target, "locked.pdf", kept.getvalue())
    return AttackOutcome(status == 201, f"{status} {_detail(text)}")


def docx_entity(target: Target) -> AttackOutcome:
    """A DOCX file with an external entity is refused, or read to its end."""
    kind = '<!DOCTYPE w:document [<!ENTITY nobody SYSTEM "file:///etc/hostname">]><w:document '
    content = _docx(
        lambda xml: xml.replace("<w:document ", kind, 1).replace("MIDDLE", "middle &nobody; ENDING")
    )
    status, _ = _upload(target, "entity.docx", content)
    _, stored = target.send("GET", "/v1/documents/entity.docx")
    whole = "LAST" in stored and "ENDING" in stored
    return AttackOutcome(400 <= status < 500 or whole, f"{status} {'whole' if whole else 'cut'}")


def gridspan(target: Target) -> AttackOutcome:
    """A table cell that spans 2,000,000,000 columns costs neither seconds nor a gigabyte."""
    cell = (
        '<w:tbl><w:tblGrid><w:gridCol/></w:tblGrid><w:tr><w:tc><w:tcPr><w:gridSpan w:val="'
        '2000000000"/></w:tcPr><w:p><w:r><w:t>A bridge.</w:t></w:r></w:p></w:tc></w:tr></w:tbl>'
    )
    content = _docx(lambda xml: xml.replace("<w:sectPr", cell + "<w:sectPr"))
    started = time.monotonic()
    status, text = _upload(target, "wide.docx", content)
    taken = time.monotonic() - started
    return AttackOutcome(
        taken < 5 and status < 500, f"{status} after {taken:.1f} s {_detail(text)}"
    )


def _upload(target: Target, name: str, content: bytes) -> tuple[int, str]:
    reply = target.send("POST", "/v1/documents", files={"file": (name, content)})
    target.ready()  # restarts it if that killed it
    return reply


def _detail(text: str) -> str:
    with suppress(ValueError):
        return str(json.loads(text).get("detail", ""))[:90]
    return text[:90]


def _docx(change: Callable[[str], str]) -> bytes:
    """A DOCX file of three paragraphs with changed XML."""
    document, made, kept = docx.Document(), io.BytesIO(), io.BytesIO()
    for text in ("FIRST bridge.", "MIDDLE", "LAST bridge."):
        document.add_paragraph(text)
    document.save(made)
    with zipfile.ZipFile(made) as source, zipfile.ZipFile(kept, "w") as packed:
        for name in source.namelist():
            content = source.read(name)
            if name == "word/document.xml":
                content = change(content.decode()).encode()
            packed.writestr(name, content)
    return kept.getvalue()


def _pdf(text: str) -> bytes:
    drawn = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET"
    return (
        "%PDF-1.4\n1 0 obj << /Type /Catalog /Pages 2 0 R >> endobj\n"
        "2 0 obj << /Type /Pages /Kids [4 0 R] /Count 1 >> endobj\n"
        "3 0 obj << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> endobj\n"
        "4 0 obj << /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 5 0 R "
        "/Resources << /Font << /F1 3 0 R >> >> >> endobj\n"
        f"5 0 obj << /Length {len(drawn)} >>\nstream\n{drawn}\nendstream endobj\n"
        "trailer << /Size 6 /Root 1 0 R >>\nstartxref\n0\n%%EOF\n"
    ).encode()


_PDF = _pdf("A bridge in Ulm.")

ATTACKS = (
    document_of_quotes,
    sigterm_while_busy,
    row_of_another_document,
    body_of_numbers,
    newline_in_id,
    terminal_controls,
    upload_client_leaves,
    empty_password_pdf,
    docx_entity,
    gridspan,
)
