"""Files from anybody: good ones are read, bad ones refused, and none stalls or escapes."""

import io
import json
import resource
import signal
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from pypdf import PdfReader, PdfWriter
from starlette.requests import Request
from starlette.testclient import TestClient

from tests.service.fakes import Serve
from tests.service.ingest.files import make_pdf, make_word
from wye.service.http.problems import Problem
from wye.service.ingest.bodies import FileReader
from wye.service.ingest.forms import base_name
from wye.service.settings import DocumentSettings


def send(client: TestClient, name: str, content: bytes, **fields: str) -> "tuple[int, str]":
    reply = client.post("/v1/documents", files={"file": (name, content)}, data=fields)
    assert reply.status_code < 500, reply.text
    return reply.status_code, reply.text


def test_each_kind_of_file_is_a_document(client: TestClient) -> None:
    files = [
        ("file", ("plain.txt", b"\xef\xbb\xbfA bridge in Graz.")),
        ("file", ("notes.md", b"# Bridges\nA bridge in Linz.")),
        ("file", ("two.pdf", make_pdf("A bridge in Ulm.", "A bridge in Bern."))),
        ("file", ("memo.docx", make_word(["A bridge in Bonn."], ["Pons", "1209"], "Memo"))),
        ("file", ("more.jsonl", b'{"_id": "j1", "text": "A bridge in Prague."}')),
    ]
    reply = client.post("/v1/documents", files=files, data={"metadata": '{"source": "form"}'})
    assert reply.status_code == 201, reply.text
    assert reply.json()["documents"] == ["plain.txt", "notes.md", "two.pdf", "memo.docx", "j1"]

    def stored(id_: str) -> tuple[str, str]:
        document = client.get(f"/v1/documents/{id_}").json()
        assert document["metadata"] == {"source": "form"}
        return document["title"], document["passages"][0]["text"]

    assert stored("plain.txt") == ("plain", "A bridge in Graz.")
    assert stored("notes.md") == ("Bridges", "A bridge in Linz.")
    assert stored("two.pdf") == ("two", "A bridge in Ulm.\n\nA bridge in Bern.")
    assert stored("memo.docx") == ("Memo", "A bridge in Bonn.\n\nPons | 1209")


def test_each_file_of_an_upload_has_a_result(client: TestClient) -> None:
    line = b'{"_id": "7", "text": "A bridge."}'
    files = [
        ("file", ("a.jsonl", line + b"\nnonsense\n")),
        ("file", ("b.jsonl", line)),
        ("file", ("c.pdf", b"nothing")),
        ("file", ("d.txt", b"A gate.")),
        ("file", ("e.csv", b"name,role\nAda,cook,1\nBen,smith\n")),
        ("file", ("f.txt", b"")),
    ]
    reply = client.post("/v1/documents", files=files)
    assert (reply.status_code, reply.json()["documents"]) == (201, ["7", "d.txt", "e.csv:3"])
    a, b, c, d, e, f = reply.json()["files"]
    assert (a["documents"], a["error"], "line 2: not JSON" in a["skipped"][0]) == (1, "", True)
    assert "'b.jsonl' cannot be stored: id '7' is in a.jsonl as well" in b["error"]
    assert "is no PDF file, or a damaged one" in c["error"]
    assert d == {"name": "d.txt", "documents": 1, "error": "", "skipped": []}
    assert e["skipped"] == ["row 2: has 3 fields, but the header has 2"]
    assert f["error"] == "'f.txt' is empty."


def test_a_file_of_no_known_kind_refuses_no_other(client: TestClient) -> None:
    files = [("file", (name, b"A gate.")) for name in ("tool.exe", "notes/2031/a.md", "x" * 300)]
    reply = client.post("/v1/documents", files=files, data={"modified": "2031-03-01T10:00:00Z"})
    assert (reply.status_code, reply.json()["documents"]) == (201, ["notes/2031/a.md"])
    tool, note, long = reply.json()["files"]
    assert ("has an unsupported type" in tool["error"], note["error"]) == (True, "")
    assert "too long a name" in long["error"]
    alone = [send(client, name, b"A gate.")[0] for name in ("tool.exe", "x" * 300 + ".txt")]
    assert alone == [415, 422]
    path = {"path": "notes/2031/a.md", "folder": "notes/2031", "modified": "2031-03-01"}
    assert client.get("/v1/documents/notes/2031/a.md").json()["metadata"] == path
    assert client.get("/v1/documents/notes%2F2031%2Fa.md").json()["metadata"] == path


def test_an_upload_is_read_as_told(client: TestClient) -> None:
    def text(id_: str) -> str:
        return str(client.get(f"/v1/documents/{id_}").json()["passages"][0]["text"])

    assert send(client, "a.conf", b"gate = caf\xe9", as_text=".conf", encoding="cp1252")[0] == 201
    assert text("a.conf") == "gate = café"
    table = b"1,Ada,cook\n2,Ben,smith\n"
    assert send(client, "staff.csv", table, header="false")[0] == 201
    assert text("staff.csv:1") == "1; cook"
    table = b"who,what,more\nAda,cook,x\nBen,smith,y\n"
    columns = {"text_column": "what", "title_column": "who"}
    assert send(client, "roles.csv", table, **columns)[0] == 201
    assert client.get("/v1/documents/roles.csv:2").json()["title"] == "Ada"
    assert text("roles.csv:2") == "cook"


def test_ids_in_addresses_are_composed(client: TestClient) -> None:
    assert send(client, "caf\u00e9.txt", b"A gate.")[0] == 201
    for method in ("GET", "DELETE"):
        assert client.request(method, "/v1/documents/cafe\u0301.txt").status_code == 200


def test_a_file_can_be_given_an_id(client: TestClient) -> None:
    assert send(client, "a.txt", b"A bridge.", id="my/own id", chunk_words="50")[0] == 201
    assert client.get("/v1/documents/my/own id").json()["title"] == "a"
    assert send(client, "a.txt", b"A bridge.", id=" ")[0] == 422
    assert send(client, "a.txt", b"A bridge.", id="x" * 600)[0] == 422


@pytest.mark.parametrize(
    "name", ["../../etc/passwd.txt", "/etc/passwd.txt", "C:\\x\\passwd.txt", "..\\passwd.txt"]
)
def test_folders_in_names_are_dropped(name: str, client: TestClient, tmp_path: Path) -> None:
    before = set(tmp_path.rglob("*.txt"))
    assert send(client, name, b"Not a password.")[0] == 201
    assert client.get("/v1/documents/passwd.txt").status_code == 200
    assert set(tmp_path.rglob("*.txt")) == before


@pytest.mark.parametrize("name", [None, "", "..", "a/..", ". .", "x\x00.txt", "x\n.txt"])
def test_names_that_are_none(name: str | None) -> None:
    with pytest.raises(Problem, match="needs a name"):
        base_name(name)


def test_locked_and_textless_pdfs(client: TestClient) -> None:
    for algorithm in ("RC4-128", "AES-256"):
        for password in ("secret", ""):
            writer = PdfWriter(clone_from=PdfReader(io.BytesIO(make_pdf("Hidden."))))
            writer.encrypt(password, "owner", algorithm=algorithm)
            buffer = io.BytesIO()
            writer.write(buffer)
            status, reply = send(client, "a.pdf", buffer.getvalue())
            if password:
                assert (status, "is encrypted" in reply) == (422, True)
            else:
                assert client.get("/v1/documents/a.pdf").json()["passages"][0]["text"] == "Hidden."
    assert "contains no text" in send(client, "a.pdf", make_pdf(""))[1]


def test_files_that_are_too_much(start: Serve) -> None:
    client = start(pages=3, characters=40, unpacked_mb=1, files=2)
    assert "has 4 pages, but the limit is 3" in send(client, "a.pdf", make_pdf(*"abcd"))[1]
    assert "more than 40 characters" in send(client, "a.pdf", make_pdf("x" * 50))[1]
    assert "more than 40 characters" in send(client, "a.docx", make_word(["x" * 50]))[1]
    three = [("file", (f"{n}.txt", b"A bridge.")) for n in range(3)]
    assert client.post("/v1/documents", files=three).status_code == 400


def test_a_file_that_stalls_is_given_up_and_searching_goes_on(
    start: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # A page tree that leads back to itself, and a reader that is slow on top of that.
    looped = make_pdf("a").replace(b"/Kids [4 0 R] /Count 1", b"/Kids [2 0 R] /Count 9")
    client = start(read_seconds=1)
    assert send(client, "loop.pdf", looped)[0] in (201, 422)
    package = tmp_path / "slow" / "pypdf"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        "class PdfReader:\n    def __init__(self, file):\n        while True:\n            pass\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{package.parent}:{Path(__file__).parents[3]}")
    started = time.monotonic()
    status, reply = send(client, "slow.pdf", make_pdf("a"))
    assert (status, "could not be read within 1 s" in reply) == (422, True)
    assert time.monotonic() - started < 10
    assert client.post("/v1/retrieve", json={"question": "x", "route": "dense"}).is_success


def test_forms_say_what_is_wrong_with_them(client: TestClient) -> None:
    fields_only = {"id": (None, b"x")}
    assert "has no file" in client.post("/v1/documents", files=fields_only).json()["detail"]
    file = {"file": ("a.txt", b"A bridge.")}
    for fields, says in [
        ({"nonsense": "1"}, "body.nonsense: There is no such field"),
        ({"as_text": "conf"}, "'conf' is no suffix, as in .conf"),
        ({"modified": "yesterday"}, "send a day, as in 2026-03-01"),
        ({"header": "maybe"}, "body.header: Input should be a valid boolean"),
        *(
            ({"encoding": name}, "it is not known, as cp1252 is")
            for name in ("klingon", "hex", "undefined", "\0")
        ),
        ({"metadata": "[1]"}, "flat JSON object"),
        ({"metadata": '{"a": [{"b": 1}]}'}, "flat JSON object"),
        ({"metadata": "{"}, "flat JSON object"),
        ({"chunk_words": "many"}, "body.chunk_words: Input should be a valid integer"),
        ({"chunk_words": "5"}, "greater than or equal to 20"),
        ({"collection": "nope"}, "There is no collection"),
    ]:
        reply = client.post("/v1/documents", files=file, data=fields)
        assert reply.status_code in (404, 422)
        assert says in reply.json()["detail"], fields
    strange = {"content-type": "multipart/form-data; boundary=x; charset=undefined"}
    reply = client.post("/v1/documents", content=FORM, headers=strange)
    assert (reply.status_code, "charset" in reply.json()["detail"]) == (400, True)
    broken = {"content-type": "multipart/form-data; boundary=x"}
    assert client.post("/v1/documents", content=b"nonsense", headers=broken).status_code < 500
    assert client.post(
        "/v1/documents", content=b"x", headers={"content-type": "multipart/form-data"}
    ).status_code in (400, 422)
    assert client.post("/v1/files", content=b"x").status_code == 415


FORM = b"".join(
    b'--x\r\nContent-Disposition: form-data; name="file"; filename="%s"\r\n\r\nA bridge.\r\n' % name
    for name in (b"a.txt", b"b.txt")
)
NDJSON = {"content-type": "application/x-ndjson"}
LINE = json.dumps({"_id": "x", "text": "A bridge. " * 2_000}).encode() + b"\n"


@pytest.mark.parametrize("kind", ["form", "lines"])
def test_a_temporary_disk_that_is_full_is_no_fault_of_ours(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str
) -> None:
    """As many bytes to a file as fit; a form of 2 MB rolls over from memory to disk."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "aside"))
    (tmp_path / "aside").mkdir()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
    try:
        if kind == "form":
            reply = client.post("/v1/documents", files={"file": ("a.jsonl", LINE * 100)})
        else:
            reply = client.post("/v1/documents", content=LINE * 100, headers=NDJSON)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    assert (reply.status_code, reply.headers["retry-after"]) == (503, "30")
    assert reply.json()["type"] == "urn:wye:problem:not-writable"
    assert "a temporary folder (TMPDIR)" in reply.json()["detail"]
    assert list((tmp_path / "aside").iterdir()) == []


def test_a_temporary_disk_that_is_gone_is_told(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    reply = client.post("/v1/documents", content=LINE, headers=NDJSON)
    assert (reply.status_code, reply.json()["type"]) == (503, "urn:wye:problem:not-writable")


def test_uploads_at_once_have_so_much_room_together() -> None:
    space = FileReader(DocumentSettings(upload_bytes=1_000))

    def asking(length: str | None) -> Request:
        headers = [] if length is None else [(b"content-length", length.encode())]
        return Request({"type": "http", "headers": headers})

    with ExitStack() as stack:
        for length in ("1000", "1000", "1000", "999"):
            stack.enter_context(space.reserve(asking(length)))
        for too_long in ("2", None):
            with pytest.raises(Problem, match="use all of the space") as refused:
                stack.enter_context(space.reserve(asking(too_long)))
            assert (refused.value.status, refused.value.headers["retry-after"]) == (503, "5")
    with space.reserve(asking(None)):  # one that does not say may have all of it
        pass


@pytest.mark.parametrize(
    "metadata",
    [{"a": [1] * 257}, {"a": "é" * 9_000}, {str(n): 1 for n in range(65)}, {"a": [{"b": 1}]}],
)
def test_metadata_is_bounded_every_way_in(client: TestClient, metadata: dict[str, object]) -> None:
    one = {"id": "x", "text": "A bridge.", "metadata": metadata}
    replies = [
        client.post("/v1/documents", json={"documents": [one]}),
        client.put("/v1/documents/x", json={"text": "A bridge.", "metadata": metadata}),
        client.post("/v1/documents", content=json.dumps(one), headers=NDJSON),
        client.post(
            "/v1/documents",
            files={"file": ("a.txt", b"A bridge.")},
            data={"metadata": json.dumps(metadata)},
        ),
    ]
    assert [reply.status_code for reply in replies] == [422] * 4
    assert all("metadata" in reply.json()["detail"] for reply in replies)


def test_metadata_of_a_form_and_of_a_line_are_bounded_together(client: TestClient) -> None:
    halves = [{f"{half}{n}": 1 for n in range(40)} for half in "ab"]
    line = json.dumps({"_id": "x", "text": "A bridge.", "metadata": halves[0]}).encode()
    file = {"file": ("a.jsonl", line)}
    reply = client.post("/v1/documents", files=file, data={"metadata": json.dumps(halves[1])})
    assert (reply.status_code, "80 keys" in reply.json()["detail"]) == (422, True)


def test_ids_that_no_address_could_name_are_refused(client: TestClient) -> None:
    for id_ in ("new\nline", "a\tb", "a\u009bb", "a\u202eb"):
        one = {"id": id_, "text": "A bridge."}
        assert client.post("/v1/documents", json={"documents": [one]}).status_code == 422
        sent = client.post("/v1/documents", content=json.dumps(one), headers=NDJSON)
        assert sent.status_code == 422


def test_a_form_that_breaks_off_is_refused_as_a_whole(client: TestClient) -> None:
    kind = {"content-type": "multipart/form-data; boundary=x"}
    for broken in (FORM, FORM[:-4], FORM + b"--x\r\n", FORM + b"--x-", FORM + b"--y--\r\n"):
        reply = client.post("/v1/documents", content=broken, headers=kind)
        assert (reply.status_code, "breaks off" in reply.json()["detail"]) == (400, True), broken
    assert client.get("/v1/documents").json()["total"] == 2
    for whole in (FORM + b"--x--\r\n", FORM + b"--x--"):
        reply = client.post("/v1/documents", content=whole, headers=kind)
        assert reply.json()["documents"] == ["a.txt", "b.txt"]


def test_a_table_of_json_is_rows(client: TestClient) -> None:
    rows = b'[{"host": "web-1", "ip": "10.0.0.1"}, {"host": "web-2", "ip": "10.0.0.2"}]'
    assert send(client, "hosts.json", rows)[0] == 201
    assert client.get("/v1/documents/hosts.json:2").json()["title"] == "web-2"
    assert send(client, "db.jsonl", b'{"host": "db-1", "ip": "10.0.0.3"}\n')[0] == 201
    row = client.get("/v1/documents/db.jsonl:1").json()
    assert (row["title"], row["passages"][0]["text"]) == ("db-1", "ip: 10.0.0.3")
    status, why = send(client, "long.json", b"[" + b"1," * 100_000 + b"1]")
    assert (status, "send it as .jsonl" in why) == (422, True)
    status, why = send(client, "hosts.json", rows, text_column="what")
    assert (status, "has no column" in why) == (422, True)
