"""Clients of servers without models: of engines that only seem so, and of real indexes."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI
from pydantic import SecretStr
from starlette.testclient import TestClient

from tests.live import inside
from tests.service.fakes import Endpoint, Library, Serve, Shelf, official, stored
from wye.backends.store.ingest import ingest
from wye.backends.types import Passage
from wye.router.session import Session
from wye.service.app import build
from wye.service.settings import DocumentSettings, GeneratorSettings, ServeSettings, ServiceSettings

BRIDGES = (
    Passage("mostar", "Stari Most", "The Old Bridge spans the Neretva in Mostar.", {"y": 1566}),
    Passage("tower", "Tower Bridge", "Tower Bridge crosses the Thames in London.", {"y": 1894}),
)


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(stored(tmp_path / "index"))


@pytest.fixture
def library() -> Library:
    return Library()


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Makes clients of servers that are ready: `serve(library, burst=3, ...)`."""
    with ExitStack() as stack:

        def start(
            *libraries: Library,
            engines: Mapping[str, Library] | None = None,
            generator: GeneratorSettings | None = None,
            documents: DocumentSettings | None = None,
            arms: Path | None = None,
            ready: bool = True,
            **options: Any,  # noqa: ANN401
        ) -> TestClient:
            named = engines or {"default": libraries[0]}
            settings = ServiceSettings(
                serve=replace(ServeSettings(refresh_seconds=0.02), **options),
                generator=generator or GeneratorSettings(),
                documents=documents or DocumentSettings(),
                arms=arms,
            )
            app = build(settings, {name: lambda e=e: e for name, e in named.items()})  # type: ignore[misc]
            opened = inside(app) if ready else TestClient(app, base_url="http://localhost")
            client = stack.enter_context(opened)
            for library in named.values():
                library.batches.clear()
            return client

        yield start


@pytest.fixture
def client(serve: Serve, library: Library) -> TestClient:
    return serve(library)


@pytest.fixture
def ai(client: TestClient) -> OpenAI:
    return official(client)


@pytest.fixture
def writing(serve: Serve, library: Library, with_model: GeneratorSettings) -> TestClient:
    return serve(library, generator=with_model)


@pytest.fixture
def folder(tmp_path: Path, fake_models: None) -> Path:
    target = Session.create(ServiceSettings(), tmp_path / "index")
    ingest(target.index, BRIDGES, target.analyser)
    return tmp_path / "index"


@pytest.fixture
def start(folder: Path) -> Iterator[Serve]:
    """Makes clients of servers of that index: `start(jobs=3, ...)`."""
    with ExitStack() as stack:

        def one(serve: ServeSettings | None = None, **options: Any) -> TestClient:  # noqa: ANN401
            settings = ServiceSettings(
                serve=serve or ServeSettings(refresh_seconds=0.05),
                documents=DocumentSettings(**options),
            )
            app = build(settings, {"default": partial(Session.open, settings, folder)})
            return stack.enter_context(inside(app))

        yield one


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "requests.jsonl"


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    made = Endpoint()
    yield made
    made.close()


@pytest.fixture
def with_model(endpoint: Endpoint) -> GeneratorSettings:
    return GeneratorSettings(
        url=endpoint.url, model="tiny", key=SecretStr("sk-secret"), timeout_seconds=5, retries=2
    )
