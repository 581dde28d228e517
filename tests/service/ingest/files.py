import io
from collections.abc import Sequence
from typing import Any

import docx
from httpx2 import Client

from tests.live import until

NDJSON = {"content-type": "application/x-ndjson"}


def make_lines(count: int, start: int = 0) -> str:
    rows = (
        f'{{"_id": "d{n:05d}", "text": "Bridge number {n} is in Town{n}."}}\n'
        for n in range(start, start + count)
    )
    return "".join(rows)


def send(client: Client, count: int, start: int = 0) -> str:
    """The job of an upload of so many lines."""
    sent = client.post("/v1/documents", content=make_lines(count, start), headers=NDJSON)
    assert sent.status_code == 202
    return str(sent.json()["id"])


def make_pdf(*pages: str) -> bytes:
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(len(pages)))
    bodies = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for n, text in enumerate(pages):
        drawn = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET"
        bodies += [
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] "
            f"/Resources << /Font << /F1 3 0 R >> >> /Contents {5 + 2 * n} 0 R >>",
            f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream",
        ]
    written, offsets = b"%PDF-1.4\n", []
    for number, body in enumerate(bodies, 1):
        offsets.append(len(written))
        written += f"{number} 0 obj\n{body}\nendobj\n".encode()
    table = "".join(f"{offset:010d} 00000 n \n" for offset in offsets)
    end = (
        f"xref\n0 {len(bodies) + 1}\n0000000000 65535 f \n{table}"
        f"trailer << /Size {len(bodies) + 1} /Root 1 0 R >>\nstartxref\n{len(written)}\n%%EOF\n"
    )
    return written + end.encode()


def make_word(paragraphs: Sequence[str], cells: Sequence[str] = (), title: str = "") -> bytes:
    document = docx.Document()
    document.core_properties.title = title
    for text in paragraphs:
        document.add_paragraph(text)
    if cells:
        row = document.add_table(1, len(cells)).rows[0]
        for cell, text in zip(row.cells, cells, strict=True):
            cell.text = text
    return saved(document).getvalue()


def saved(made: Any) -> io.BytesIO:  # noqa: ANN401 - a document, workbook or presentation
    file = io.BytesIO()
    made.save(file)
    file.seek(0)
    return file


def wait_for(client: Client, job: str) -> dict[str, Any]:
    def ended() -> dict[str, Any] | None:
        status: dict[str, Any] = client.get(f"/v1/jobs/{job}").json()
        return status if status["state"] in ("done", "failed", "cancelled") else None

    return until(ended) or {}
