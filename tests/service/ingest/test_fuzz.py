"""Whatever is sent to be stored, it is stored or refused with the reason; nothing is a fault."""

import io
import json
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote_from_bytes

import pytest
from httpx2 import Response
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from tests.service.fakes import Serve
from tests.service.ingest.files import make_pdf, make_word
from tests.service.strategies import ANY, HEADS, HOSTILE, JSON, METADATA

few = settings(max_examples=12, suppress_health_check=list(HealthCheck), database=None)
some = settings(max_examples=60, suppress_health_check=list(HealthCheck), database=None)
KINDS = (".txt", ".md", ".jsonl", ".ndjson", ".TXT", ".exe", "", ".txt.", ".pdf/a.txt")


@pytest.fixture
def client(start: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    """Of a server that takes little, and leaves nothing behind of what it put aside."""
    aside = tmp_path / "aside"
    aside.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(aside))
    bounds = {"upload_bytes": 1 << 20, "characters": 20_000, "unpacked_mb": 1}
    client = start(files=4, read_seconds=5, direct_passages=1_000, **bounds)
    yield client
    assert list(aside.iterdir()) == []
    reply = client.post("/v1/retrieve", json={"question": "Stari Most", "route": "lexical"})
    assert "mostar" in [passage["id"] for passage in reply.json()["passages"]]


def settled(reply: Response) -> None:
    """A reply is a success, or a problem that is the sender's."""
    assert reply.status_code < 500, reply.text
    kind = reply.headers["content-type"]
    assert (kind == "application/problem+json") == (reply.status_code >= 400), reply.text


RECORDS = st.fixed_dictionaries(
    {},
    optional={
        "_id": ANY | HOSTILE | st.just("mostar2") | JSON,
        "id": ANY | HOSTILE | JSON,
        "text": ANY | HOSTILE | st.just("A bridge.") | JSON,
        "title": ANY | HOSTILE | JSON,
        "metadata": METADATA | JSON,
    },
)
# Nothing is wrong with them but what the text or the metadata hold.
GOOD = st.fixed_dictionaries(
    {
        "id": st.sampled_from(["x", "y", "x#0000", "x#0001"]),
        "text": (ANY | HOSTILE).map("A bridge {}.".format),
    },
    optional={"title": ANY | HOSTILE, "metadata": METADATA},
)
LINES = st.lists(
    (RECORDS | GOOD).map(lambda record: json.dumps(record).encode()) | st.binary(max_size=40),
    max_size=5,
).map(b"\n".join)
TEXTS = st.sampled_from(
    [
        *(b"", b"\x00" * 20, b"A bridge.\x00In Mostar."),
        *(b"\xff\xfe" + "A bridge.".encode("utf-16-le"), b"A bridge " + b"\xed\xa0\x80"),
        *(b"\xef\xbb\xbf", b"\x1b[31mred\x1b[0m \x7f\x85", b"word " * 5_000, b"x" * 30_000),
        *("\u2028\u200b\ufeff\u202e".encode(), b"PK\x03\x04", b"%PDF-1.7"),
    ]
)
WRITTEN = ANY.map(lambda text: f"A bridge {text}.".encode("utf-8", "surrogatepass"))
CONTENTS = WRITTEN | TEXTS | LINES | st.binary(max_size=200)


@dataclass(frozen=True)
class Part:
    """Of a form, as bytes: no client in its right mind would write some of them."""

    field: bytes
    filename: bytes | None
    headers: tuple[bytes, ...]
    content: bytes

    def __bytes__(self) -> bytes:
        disposition = b'form-data; name="' + self.field + b'"'
        if self.filename is not None:
            disposition += b'; filename="' + self.filename + b'"'
        lines = [b"Content-Disposition: " + disposition, *self.headers, b"", self.content]
        return b"\r\n".join(lines)


NAMES = (
    st.sampled_from([b"a.txt", b"b.md", b"c.jsonl"])
    | st.sampled_from(
        [
            *(b"../../etc/cron.d/a.txt", b"..\\..\\a.md", b"a\x00.txt", b"\x00"),
            *(b"a.txt\r\nX-Injected: 1", b'a".txt', b"a;b=c.txt", b"\xff\xfe.txt"),
            *("\u202etxt.exe".encode(), b"CON.txt", b".txt", b"a" * 300 + b".txt", b"", b"%00.txt"),
            b"=?utf-8?q?a?=.txt",
        ]
    )
    | st.builds(
        lambda stem, kind: (stem + kind).encode("utf-8", "surrogatepass"),
        ANY,
        st.sampled_from(KINDS),
    )
)
HEADERS = st.lists(
    st.sampled_from(
        [
            *(b"Content-Type: text/plain", b"Content-Type: application/pdf"),
            *(b"Content-Type: multipart/mixed; boundary=x", b"Content-Type: \xff"),
            *(b"Content-Type: text/plain; charset=utf-7", b"Content-Transfer-Encoding: base64"),
            *(b"Content-Encoding: gzip", b"Content-Disposition: form-data; name=id"),
            *(b"X-Large: " + b"x" * 100_000, b"no colon at all", b": no name"),
        ]
    ),
    max_size=3,
).map(tuple)
PLAIN = st.builds(
    Part, st.just(b"file"), st.sampled_from([b"a.txt", b"b.md"]), st.just(()), WRITTEN
)
FILES = PLAIN | st.builds(
    Part, st.sampled_from([b"file", b"files[]", b""]), NAMES, HEADERS, CONTENTS
)
FIELDS = st.builds(
    Part,
    st.sampled_from([b"id", b"metadata", b"chunk_words", b"collection", b"nonsense", b"file"]),
    st.none(),
    HEADERS,
    st.sampled_from([b"x", b"default", b"{}", b'{"a": [1e999]}', b"[" * 5_000, b"\xff", b"9" * 99])
    | st.binary(max_size=30)
    | JSON.map(lambda value: json.dumps(value).encode()),
)


def form(parts: Sequence[Part], boundary: bytes = b"edge") -> bytes:
    pieces = b"".join(b"--" + boundary + b"\r\n" + bytes(part) + b"\r\n" for part in parts)
    return pieces + b"--" + boundary + b"--\r\n"


def post(client: TestClient, content: bytes, kind: bytes) -> Response:
    headers = [(b"content-type", kind)]
    return client.post("/v1/documents", content=content, headers=headers)


BOMB = b"[" * 100_000


@some
@given(parts=st.lists(FILES, max_size=4) | st.lists(FILES | FIELDS, max_size=6))
@example(parts=[Part(b"file", b"a.txt", (), b"A bridge.")] * 2)
@example(parts=[Part(b"id", None, (), b"x")] * 4 + [Part(b"file", b"a.txt", (), b"A bridge.")])
@example(parts=[Part(b"file", b"a.jsonl", (), BOMB)])
def test_no_form_is_a_fault(client: TestClient, parts: list[Part]) -> None:
    settled(post(client, form(parts), b"multipart/form-data; boundary=edge"))


@some
@given(
    parts=st.lists(FILES | FIELDS, min_size=1, max_size=3),
    kind=st.sampled_from(
        [
            *(b"multipart/form-data; boundary=edge", b"multipart/form-data; boundary=other"),
            b'multipart/form-data; boundary=""',
            b"multipart/form-data; boundary=" + b"x" * 5_000,
            *(b"multipart/form-data; boundary=\xff", b"multipart/form-data"),
            b"multipart/form-data; boundary=edge; charset=undefined",
            b"multipart/form-data; boundary=edge; charset=punycode",
            b"multipart/form-data; boundary=edge; charset=hex",
            b"multipart/form-data; boundary=edge; charset=a\x00b",
            *(b"multipart/mixed; boundary=edge", b"application/x-www-form-urlencoded"),
            *(b"application/json", b"application/x-ndjson", b"text/plain", b"", b";;;"),
        ]
    ),
    cut=st.floats(0, 1),
    plain_ends=st.booleans(),
)
def test_no_broken_form_is_a_fault(
    client: TestClient, parts: list[Part], kind: bytes, cut: float, plain_ends: bool
) -> None:
    whole = form(parts)
    content = whole[: int(cut * len(whole))]
    settled(post(client, content.replace(b"\r\n", b"\n") if plain_ends else content, kind))


@some
@given(content=CONTENTS)
@example(content=BOMB)
@example(content=b'{"_id": "x", "text": "A bridge.", "metadata": ' + BOMB + b"}")
def test_no_lines_are_a_fault(client: TestClient, content: bytes) -> None:
    settled(post(client, content, b"application/x-ndjson"))


@some
@given(
    body=st.one_of(
        GOOD,
        RECORDS,
        st.fixed_dictionaries({"documents": st.lists(GOOD, max_size=3)}),
        st.fixed_dictionaries({"documents": st.lists(RECORDS, max_size=3)}),
        st.dictionaries(
            st.sampled_from(["filter", "ids", "documents", "dry_run", "chunk_words", "collection"]),
            JSON,
        ),
        JSON,
    ),
    path=st.sampled_from(["/v1/documents", "/v1/documents/delete"]),
)
def test_no_json_is_a_fault(client: TestClient, body: object, path: str) -> None:
    content = json.dumps(body).encode()  # with Infinity and NaN, as Python writes them
    settled(client.post(path, content=content, headers={"content-type": "application/json"}))


@some
@given(name=st.binary(min_size=1, max_size=40), text=ANY | HOSTILE, metadata=METADATA, heads=HEADS)
@example(name=b"a\x00b", text="A bridge.", metadata={}, heads={})
@example(name=b"\xff\xfe", text="A bridge.", metadata={}, heads={})
@example(name=b"../../etc/passwd", text="A bridge.", metadata={}, heads={})
@example(name=b"new\nline", text="A bridge.", metadata={}, heads={})
@example(name=b"x", text="\ud800", metadata={}, heads={})
@example(name=b"x", text="A bridge.", metadata={"a": [1] * 100_000}, heads={})
def test_no_address_is_a_fault(
    client: TestClient, name: bytes, text: str, metadata: object, heads: dict[bytes, bytes]
) -> None:
    address = "/v1/documents/" + quote_from_bytes(name)
    headers = {**heads, b"content-type": b"application/json"}
    content = json.dumps({"text": text, "metadata": metadata})
    stored = client.put(address, content=content, headers=headers)
    settled(stored)
    read = client.get(address, headers=heads)
    settled(read)
    # What was acknowledged can be read by its address.
    assert not stored.is_success or read.status_code == 200, (stored.text, read.text)
    settled(client.delete(address))


# Each of these is read by a process of its own, so there are fewer.


@few
@given(data=st.data())
def test_no_pdf_is_a_fault(client: TestClient, data: st.DataObject) -> None:
    content = bytearray(make_pdf("A bridge in Ulm.", "A bridge in Bern."))
    for _ in range(data.draw(st.integers(1, 4))):
        start = int(len(content) * data.draw(SHARES))
        end = start + data.draw(st.integers(0, 60))
        content[start:end] = data.draw(st.binary(max_size=20) | PDF_WORDS)
    content = content[: int(len(content) * data.draw(SHARES))]
    settled(client.post("/v1/documents", files={"file": ("a.pdf", bytes(content))}))


# Of a file; sizes differ from run to run, since a word file holds the time.
SHARES = st.floats(0, 1) | st.just(1.0)
PDF_WORDS = st.sampled_from(
    [b" 1 0 R ", b" 99 0 R ", b"/Length 999999999 ", b"/Filter /FlateDecode ", b"<< ", b"[" * 500]
)


def word_file(parts: Sequence[tuple[str, bytes]]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts:
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def parts_of(content: bytes) -> list[tuple[str, bytes]]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return [(name, archive.read(name)) for name in archive.namelist()]


@few
@given(data=st.data())
def test_no_word_file_is_a_fault(client: TestClient, data: st.DataObject) -> None:
    good = make_word(["A bridge in Bonn."], ["Pons", "1209"])
    parts = parts_of(good)
    position = data.draw(st.integers(0, len(parts) - 1))
    name, content = parts[position]
    nested = word_file([("word/document.xml", good)])
    parts[position] = data.draw(
        st.sampled_from(
            [
                (name, b""),
                (name, content[: len(content) // 2]),
                (name, b"\xff\xfe" + content),
                (name, b"<a>" * 20_000),
                (name, b'<?xml version="1.0"?><!DOCTYPE x SYSTEM "file:///etc/passwd"><x/>'),
                (name, nested),
                (f"../../{name}", content),
                (name + "/" * 300, content),
                (name, b"\x00" * (3 << 20)),
            ]
        )
    )
    if data.draw(st.booleans()):
        parts.append(("inner.docx", nested))
    packed = word_file(parts)
    packed = packed[: int(len(packed) * data.draw(SHARES))]
    settled(client.post("/v1/documents", files={"file": ("a.docx", packed)}))
