"""As OpenAI's client uploads files and makes documents of them."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.types.vector_stores import VectorStoreFile
from starlette.testclient import TestClient

from tests.live import FAKED, Live
from tests.service.fakes import Serve, official
from wye.backends.documents import HeadedDocument, document_of
from wye.service.api.files import MOST_FILES
from wye.service.collections import Collection
from wye.service.http.edge import Scope
from wye.service.http.keys import new_key
from wye.service.ingest import bodies
from wye.service.settings import ServeSettings

NOTES = b"# The Iron Bridge\n\nThomas Pritchard designed the Iron Bridge. It was cast in 1779.\n"


@pytest.fixture
def client(start: Serve) -> TestClient:
    return start()


def sent(ai: OpenAI, content: bytes, name: str = "notes.md") -> VectorStoreFile:
    """Once it is a document."""
    files = ai.vector_stores.files
    return files.upload_and_poll(
        vector_store_id="default", file=(name, content), poll_interval_ms=20
    )


def attach(ai: OpenAI, file: str, **more: Any) -> VectorStoreFile:  # noqa: ANN401
    return ai.vector_stores.files.create(file_id=file, vector_store_id="default", **more)


def hit_ids(ai: OpenAI, filters: Any = None) -> set[str]:  # noqa: ANN401 - JSON
    page = ai.vector_stores.search(
        "default",
        query="Iron Bridge",
        filters=filters or openai.omit,
        ranking_options={"ranker": "wye-hybrid"},  # type: ignore[arg-type]
    )
    return {one.file_id for one in page}


def test_a_file_is_kept_until_it_is_deleted(ai: OpenAI) -> None:
    file = ai.files.create(file=("a/notes.md", NOTES), purpose="assistants")
    assert (file.filename, file.bytes, file.status) == ("notes.md", len(NOTES), "processed")
    assert file.expires_at == file.created_at + 86_400
    assert ai.files.retrieve(file.id) == file
    assert ai.files.content(file.id).content == NOTES
    other = ai.files.create(file=("x.txt", b"A bridge."), purpose="user_data")
    assert [one.id for one in ai.files.list()] == [other.id, file.id]
    assert [one.id for one in ai.files.list(limit=1, order="asc")] == [file.id, other.id]
    assert [one.id for one in ai.files.list(purpose="assistants")] == [file.id]
    assert ai.files.delete(file.id).deleted
    for ask in (ai.files.retrieve, ai.files.content, ai.files.delete):
        with pytest.raises(openai.NotFoundError, match="has no uploaded file"):
            ask(file.id)


def test_documents_are_files(ai: OpenAI) -> None:
    page = ai.vector_stores.files.list("default", limit=1)
    assert [one.id for one in page.data] == ["mostar"]
    assert [one.id for one in page] == ["mostar", "tower"], "page by page"
    with pytest.raises(openai.UnprocessableEntityError, match="completed"):
        ai.vector_stores.files.list("default", filter="failed")
    one = ai.vector_stores.files.retrieve("tower", vector_store_id="default")
    assert (one.status, one.attributes) == ("completed", {"y": 1894})
    (text,) = ai.vector_stores.files.content("tower", vector_store_id="default")
    assert text.text == "Tower Bridge crosses the Thames in London."
    assert ai.vector_stores.files.delete("tower", vector_store_id="default").deleted
    assert not ai.vector_stores.files.delete("tower", vector_store_id="default").deleted
    with pytest.raises(openai.NotFoundError, match="no document 'tower'"):
        ai.vector_stores.files.retrieve("tower", vector_store_id="default")


def test_an_upload_becomes_a_document_that_is_found(ai: OpenAI) -> None:
    done = sent(ai, NOTES)
    assert (done.status, done.last_error, done.vector_store_id) == ("completed", None, "default")
    pages = ai.vector_stores.files.content(done.id, vector_store_id="default")
    assert "Thomas Pritchard" in " ".join(one.text or "" for one in pages)
    assert done.id in [one.id for one in ai.vector_stores.files.list("default")]
    assert done.id in hit_ids(ai)
    # The document stays without the file, and the file without the document.
    ai.files.delete(done.id)
    assert ai.vector_stores.files.retrieve(done.id, vector_store_id="default") == done
    assert ai.vector_stores.files.delete(done.id, vector_store_id="default").deleted
    with pytest.raises(openai.NotFoundError):
        ai.vector_stores.files.retrieve(done.id, vector_store_id="default")


def test_attributes_are_metadata_to_filter_by(ai: OpenAI) -> None:
    file = ai.files.create(file=("notes.txt", NOTES), purpose="assistants")
    done = ai.vector_stores.files.create_and_poll(
        file.id, vector_store_id="default", attributes={"year": 1779, "cast": True}
    )
    assert done.attributes == {"year": 1779, "cast": True}
    assert hit_ids(ai, {"type": "eq", "key": "year", "value": 1779}) == {file.id}
    assert attach(ai, file.id, attributes={"year": 1780}).attributes == {"year": 1780}


@pytest.mark.parametrize(
    ("content", "says"), [(b"\xff\xfe\xff", "UTF-16"), (b"", "is empty"), (b" \n", "is empty")]
)
def test_what_cannot_be_read_is_refused_and_says_why(ai: OpenAI, content: bytes, says: str) -> None:
    with pytest.raises(openai.UnprocessableEntityError, match=says):
        sent(ai, content, "notes.txt")
    (bad,) = ai.files.list()
    with pytest.raises(openai.NotFoundError):
        ai.vector_stores.files.retrieve(bad.id, vector_store_id="default")


def test_a_long_file_is_in_progress_until_its_job_has_ended(ai: OpenAI) -> None:
    long = " ".join(f"Sentence {n} is about bridges and towers." for n in range(3_000)).encode()
    file = ai.files.create(file=("long.txt", long), purpose="assistants")
    begun = attach(ai, file.id, attributes={"y": 3})
    assert (begun.status, begun.attributes) == ("in_progress", {"y": 3})
    ended = ai.vector_stores.files.poll(file.id, vector_store_id="default", poll_interval_ms=20)
    assert ended.status == "completed"
    assert ended.usage_bytes > 0.9 * len(long)


@pytest.mark.parametrize("sentences", [1, 3_000], ids=["at once", "as a job"])
def test_a_completed_file_is_searched(
    sentences: int, start: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    renew = Collection.renew

    def late(self: Collection) -> bool:
        time.sleep(0.3)
        return renew(self)

    monkeypatch.setattr(Collection, "renew", late)
    ai = official(start())
    text = "The Iron Bridge was cast. " * sentences
    done = sent(ai, text.encode(), "long.txt")
    assert done.status == "completed"
    assert done.id in hit_ids(ai)


def test_no_document_of_a_file_is_made_on_the_event_loop(
    ai: OpenAI, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def elsewhere(*hit_ids: Any) -> HeadedDocument:  # noqa: ANN401
        with pytest.raises(RuntimeError, match="no running event loop"):
            asyncio.get_running_loop()
        made.append(hit_ids)
        return document_of(*hit_ids)

    monkeypatch.setattr(bodies, "document_of", elsewhere)
    assert sent(ai, NOTES).status == "completed"
    reply = client.post("/v1/documents", files={"file": ("notes.md", NOTES)}, data={"id": "own"})
    assert reply.status_code == 201
    assert len(made) == 2


def test_what_is_not_offered_says_so(ai: OpenAI) -> None:
    for ask in (
        lambda: ai.vector_stores.create(name="x"),
        lambda: ai.vector_stores.update("default", name="x"),
        lambda: ai.vector_stores.delete("default"),
    ):
        with pytest.raises(openai.APIStatusError, match="lists those it supports"):
            ask()
    with pytest.raises(openai.NotFoundError, match="nothing at this address"):
        ai.vector_stores.file_batches.create("default", file_ids=["file-1"])


@pytest.mark.parametrize(
    ("name", "purpose", "says"),
    [
        ("", "assistants", "Send a form with only `file`"),
        ("x.exe", "assistants", "has an unsupported type"),
        ("x.jsonl", "assistants", "Send it to /v1/documents"),
        ("x.txt", "batch", "`purpose` must be one of"),
    ],
)
def test_a_useless_file_is_refused_at_once(ai: OpenAI, name: str, purpose: str, says: str) -> None:
    with pytest.raises(openai.APIStatusError, match=says) as refused:
        ai.files.create(file=(name, b"x"), purpose=purpose)  # type: ignore[arg-type]
    assert refused.value.status_code in (415, 422)
    assert ai.files.list().data == []


def test_what_cannot_be_attached_is_refused(ai: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="no uploaded file"):
        attach(ai, "../jobs")
    file = ai.files.create(file=("x.txt", b"A bridge."), purpose="assistants")
    static = {"max_chunk_size_tokens": 100, "chunk_overlap_tokens": 0}
    with pytest.raises(openai.UnprocessableEntityError, match="chunking_strategy"):
        attach(ai, file.id, chunking_strategy={"type": "static", "static": static})
    with pytest.raises(openai.UnprocessableEntityError, match="metadata"):
        attach(ai, file.id, attributes={"k": "x" * 100_000})


def test_an_id_that_goes_on_is_no_upload(ai: OpenAI, client: TestClient) -> None:
    file = ai.files.create(file=("x.txt", b"A bridge."), purpose="assistants").id
    store = "/v1/vector_stores/default"
    for odd in (f"{file}.{'a' * 400}", f"{file}.json/x", f"{file}.", f"file-{'0' * 24}.%00"):
        assert client.get(f"{store}/files/{odd}").status_code == 404
        assert client.delete(f"{store}/files/{odd}").json()["deleted"] is False
        assert client.get(f"/v1/files/{odd[:64]}").status_code == 404
    for odd in (f"{file}.json/x", f"{file}.x\0"):
        assert client.post(f"{store}/files", json={"file_id": odd}).status_code == 404
    assert ai.files.retrieve(file).id == file


@pytest.mark.parametrize("left", [None, b"", NOTES[:30]])
def test_a_file_that_lost_content_is_gone(ai: OpenAI, folder: Path, left: bytes | None) -> None:
    file = ai.files.create(file=("notes.md", NOTES), purpose="assistants")
    (content,) = (folder / "files").rglob("*.content")
    content.unlink() if left is None else content.write_bytes(left)
    assert list(ai.files.list()) == []
    with pytest.raises(openai.NotFoundError, match="no uploaded file"):
        ai.files.content(file.id)
    with pytest.raises(openai.NotFoundError, match="no uploaded file"):
        attach(ai, file.id)


def test_the_uploads_of_a_key_have_bounds(start: Serve) -> None:
    client = start(upload_bytes=2_048)
    ai = official(client)
    for _ in range(7):
        ai.files.create(file=("x.txt", b"x" * 1_024), purpose="assistants")
    ai.files.create(file=("x.txt", b"x" * 1_024), purpose="assistants")
    with pytest.raises(openai.UnprocessableEntityError, match=f"{MOST_FILES} uploaded files"):
        ai.files.create(file=("x.txt", b"x"), purpose="assistants")
    ai.files.delete(ai.files.list().data[0].id)
    ai.files.create(file=("x.txt", b"x"), purpose="assistants")
    with pytest.raises(openai.APIStatusError, match="A body may have 2,048 bytes"):
        ai.files.create(file=("x.txt", b"x" * 4_096), purpose="assistants")


def test_files_go_with_age(start: Serve) -> None:
    ai = official(start(keep_seconds=0))
    with pytest.raises(openai.UnprocessableEntityError, match="Send a form with only"):
        ai.files.create(
            file=("x.txt", b"A bridge."),
            purpose="assistants",
            expires_after={"anchor": "created_at", "seconds": 3_600},
        )
    expired = ai.files.create(file=("x.txt", b"A bridge."), purpose="assistants")
    assert ai.files.list().data == []
    with pytest.raises(openai.NotFoundError):
        attach(ai, expired.id)


def test_a_clock_that_jumps_deletes_no_upload(
    start: Serve, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ai, now, start_of_clock = official(start()), time.time, time.monotonic
    first = ai.files.create(file=("x.txt", b"A bridge."), purpose="assistants")
    files = "wye.service.api.files.time"
    for hours, are_deleted in ((0.0, False), (0.9, False), (1.1, True)):
        with monkeypatch.context() as patch:
            patch.setattr(f"{files}.time", lambda: now() + 3 * 86_400)
            patch.setattr(f"{files}.monotonic", lambda by=hours: start_of_clock() + 3_600 * by)
            ai.files.create(file=("y.txt", b"A bridge."), purpose="assistants")
        assert (first.id in {file.id for file in ai.files.list().data}) != are_deleted
    assert first.id not in {path.stem for path in folder.glob("files/*/*")}


def test_keys_see_their_own_files_and_readers_send_none(start: Serve) -> None:
    keys = [new_key(name, [Scope.WRITE]) for name in ("ada", "ben")]
    keys.append(new_key("reader", [Scope.READ]))
    filtered = new_key("part", [Scope.READ], filter_={"type": "gt", "key": "y", "value": 1})
    client = start(ServeSettings(keys=tuple(str(key) for _, key in [*keys, filtered])))
    ada, ben, reader, part = (official(client, secret) for secret, _ in [*keys, filtered])
    file = ada.files.create(file=("x.txt", b"A bridge."), purpose="assistants")
    assert ben.files.list().data == reader.files.list().data == []
    for ask in (ben.files.retrieve, ben.files.content, ben.files.delete, reader.files.retrieve):
        with pytest.raises(openai.NotFoundError):
            ask(file.id)
    with pytest.raises(openai.NotFoundError):
        attach(ben, file.id)
    for key in (reader, part):
        with pytest.raises(openai.PermissionDeniedError):
            key.files.create(file=("x.txt", b"A bridge."), purpose="assistants")
        with pytest.raises(openai.PermissionDeniedError):
            attach(key, file.id)
    attach(ada, file.id)
    assert ben.vector_stores.files.retrieve(file.id, vector_store_id="default").status
    with pytest.raises(openai.NotFoundError):
        part.vector_stores.files.retrieve(file.id, vector_store_id="default")


@pytest.fixture
def server(folder: Path) -> Iterator[list[Live]]:
    """Servers of one index, one after another: `server[0]` is the one that runs."""
    made = [Live(["serve", "--index", str(folder)], program=FAKED)]
    yield made
    made[0].kill()


async def test_what_was_acknowledged_outlives_kill_9(server: list[Live], folder: Path) -> None:
    first = OpenAI(base_url=f"{server[0].url}/v1", api_key="none", max_retries=0)
    file = first.files.create(file=("notes.md", NOTES), purpose="assistants")
    server[0].kill()
    server[0] = Live(["serve", "--index", str(folder)], program=FAKED)
    async with AsyncOpenAI(base_url=f"{server[0].url}/v1", api_key="none", max_retries=0) as ai:
        assert await ai.files.retrieve(file.id) == file
        done: VectorStoreFile = await ai.vector_stores.files.create_and_poll(
            file.id, vector_store_id="default"
        )
        assert done.status == "completed"
