"""Servers over real indexes, with hashes for models; and files to send them."""

import io
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import docx
import pytest
from starlette.testclient import TestClient

from backends.store.ingest import ingest
from backends.types import Passage
from router.session import Session
from service.app import build
from service.settings import DocumentSettings, ServeSettings, ServiceSettings
from tests.live import PATIENCE

BRIDGES = (
    Passage("mostar", "Stari Most", "The Old Bridge spans the Neretva in Mostar.", {"y": 1566}),
    Passage("tower", "Tower Bridge", "Tower Bridge crosses the Thames in London.", {"y": 1894}),
)

Start = Callable[..., TestClient]


@pytest.fixture
def folder(tmp_path: Path, fake_models: None) -> Path:
    """An index with two documents."""
    target = Session.create(ServiceSettings(), tmp_path / "index")
    ingest(target.index, BRIDGES, target.analyser)
    return tmp_path / "index"


@pytest.fixture
def start(folder: Path) -> Iterator[Start]:
    """Makes clients of servers of that index: `start(jobs=3, ...)`."""
    with ExitStack() as stack:

        def one(serve: ServeSettings | None = None, **options: Any) -> TestClient:  # noqa: ANN401
            settings = ServiceSettings(
                serve=serve or ServeSettings(refresh_seconds=0.05),
                documents=DocumentSettings(**options),
            )
            app = build(settings, {"default": partial(Session.open, settings, folder)})
            client = stack.enter_context(TestClient(app, base_url="http://localhost"))
            while client.get("/ready").status_code != 200:
                time.sleep(0.005)
            return client

        yield one


@pytest.fixture
def client(start: Start) -> TestClient:
    return start(direct_passages=8, group_passages=8)


def lines(count: int, start: int = 0) -> str:
    """Documents as JSON lines."""
    rows = (
        f'{{"_id": "d{n:05d}", "text": "Bridge number {n} is in Town{n}."}}\n'
        for n in range(start, start + count)
    )
    return "".join(rows)


def pdf(*pages: str) -> bytes:
    """A PDF file with a line of text on each page."""
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
    written, places = b"%PDF-1.4\n", []
    for number, body in enumerate(bodies, 1):
        places.append(len(written))
        written += f"{number} 0 obj\n{body}\nendobj\n".encode()
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    end = (
        f"xref\n0 {len(bodies) + 1}\n0000000000 65535 f \n{table}"
        f"trailer << /Size {len(bodies) + 1} /Root 1 0 R >>\nstartxref\n{len(written)}\n%%EOF\n"
    )
    return written + end.encode()


def word(paragraphs: Sequence[str], cells: Sequence[str] = (), title: str = "") -> bytes:
    """A DOCX file."""
    document = docx.Document()
    document.core_properties.title = title
    for text in paragraphs:
        document.add_paragraph(text)
    if cells:
        row = document.add_table(1, len(cells)).rows[0]
        for cell, text in zip(row.cells, cells, strict=True):
            cell.text = text
    kept = io.BytesIO()
    document.save(kept)
    return kept.getvalue()


def finished(client: TestClient, job: str) -> dict[str, Any]:
    """A job when it has ended."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        found: dict[str, Any] = client.get(f"/v1/jobs/{job}").json()
        if found["state"] in ("done", "failed", "cancelled"):
            return found
        time.sleep(0.02)
    raise AssertionError(f"{job} did not end: {found}")


@pytest.fixture
def make_lines() -> Callable[..., str]:
    return lines


@pytest.fixture
def make_pdf() -> Callable[..., bytes]:
    return pdf


@pytest.fixture
def make_word() -> Callable[..., bytes]:
    return word


@pytest.fixture
def wait_for() -> Callable[[TestClient, str], dict[str, Any]]:
    return finished
