"""Engines without models, and clients of apps made of them."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from backends.filters import Columns, parse_filter
from backends.types import Hit, Passage, Ranking
from router.types import Reply, Route
from service.app import build
from service.settings import GeneratorSettings, ServeSettings, ServiceSettings

LIBRARY = (
    Passage(
        "mostar", "Stari Most", "The Old Bridge spans the Neretva. It is in Mostar.", {"y": 1566}
    ),
    Passage("neretva", "Neretva", "The Neretva is a river. It flows into the Adriatic.", {"y": 1}),
    Passage("tower", "Tower Bridge", "Tower Bridge crosses the Thames in London.", {"y": 1894}),
)


class Library:
    """An engine and gateway in one: ranks passages by how many words they share with a question.

    Attributes:
        failing: Routes that raise.
        poison: A word that no route but dense survives.
        seconds: Route -> how long a batch over it takes.
        batches: Route and questions of every search since it was loaded.
        newer: What `successor` gives next.
    """

    def __init__(self, passages: Sequence[Passage] = LIBRARY, version: int = 1) -> None:
        self.version = version
        self.failing: set[Route] = set()
        self.poison = ""
        self.seconds: dict[Route, float] = {}
        self.batches: list[tuple[Route, list[str]]] = []
        self.newer: Library | None = None
        self.closed = False
        self._passages = {passage.id: passage for passage in passages}

    @property
    def gateway(self) -> "Library":
        return self

    @property
    def count(self) -> int:
        return len(self._passages)

    def build(self) -> None:
        self.batches = []

    def passages(self, ids: Sequence[str]) -> Mapping[str, Passage]:
        return {id_: self._passages[id_] for id_ in ids}

    def successor(self) -> "Library | None":
        newer, self.newer = self.newer, None
        return newer

    def close(self) -> None:
        self.closed = True

    def search(
        self,
        questions: Sequence[str],
        route: Route,
        k: int,
        filter: object | None = None,  # noqa: A002 - the gateway's word
        *,
        explain: bool = False,
    ) -> list[Reply]:
        self.batches.append((route, list(questions)))
        time.sleep(self.seconds.get(route, 0))
        if route in self.failing:
            raise RuntimeError("the arm is broken")
        if self.poison and route != Route.DENSE and any(self.poison in q for q in questions):
            raise RuntimeError("a question that breaks the arm")
        return [self._answer(question, route, k, filter) for question in questions]

    def _answer(self, question: str, route: Route, k: int, filter_: object | None) -> Reply:
        rows = list(self._passages.values())
        if filter_ is not None:
            mask = parse_filter(filter_).mask(Columns([passage.metadata for passage in rows]))
            rows = [passage for passage, kept in zip(rows, mask, strict=True) if kept]
        words = set(question.lower().strip("?").split())
        scored = [
            (-len(words & set(f"{p.title} {p.text}".lower().replace(".", "").split())), p.id)
            for p in rows
        ]
        hits = tuple(
            Hit(id_, float(-score), rank)
            for rank, (score, id_) in enumerate(sorted(scored)[:k], start=1)
        )
        ranking = Ranking(str(route), hits, len(rows))
        seconds = {"parsing": 0.001, str(route): 0.002}
        return Reply(question, route, ranking, {str(route): ranking}, seconds, self.version)


@pytest.fixture
def library() -> Library:
    return Library()


@pytest.fixture
def make_library() -> type[Library]:
    """For tests that need several, or others than the one of `library`."""
    return Library


Serve = Callable[..., TestClient]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Makes clients of servers that are ready: `serve(library, burst=3, ...)`."""
    with ExitStack() as stack:

        def start(
            *libraries: Library,
            engines: Mapping[str, Library] | None = None,
            generator: GeneratorSettings | None = None,
            ready: bool = True,
            **options: Any,  # noqa: ANN401
        ) -> TestClient:
            named = engines or {"default": libraries[0]}
            settings = ServiceSettings(
                serve=replace(ServeSettings(refresh_seconds=0.02), **options),
                generator=generator or GeneratorSettings(),
            )
            app = build(settings, {name: lambda e=e: e for name, e in named.items()})  # type: ignore[misc]
            client = stack.enter_context(TestClient(app, base_url="http://localhost"))
            while ready and client.get("/ready").status_code != 200:
                time.sleep(0.005)
            for library in named.values():
                library.batches.clear()
            return client

        yield start


@pytest.fixture
def client(serve: Serve, library: Library) -> TestClient:
    return serve(library)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "requests.jsonl"
