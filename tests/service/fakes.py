"""Engines without models, and a language model's endpoint that fails as it is told to."""

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from openai import OpenAI
from starlette.testclient import TestClient

from tests.hashing import FakeAnalyser, HashAnalyser
from tests.live import LocalServer, send
from tests.stored import fetch
from wye.backends.filters import Columns, parse_filter
from wye.backends.lexical import LexicalRetriever
from wye.backends.store.index import PassageStore
from wye.backends.store.ingest import ingest
from wye.backends.trigraph import explanation
from wye.backends.types import Passage, RankedHit, Ranking, Source
from wye.featurizer.analyser import Analyser, AnalyserSettings
from wye.router.errors import ModelFileError
from wye.router.fusion import FusionSettings
from wye.router.gateway import BatchReplies, Gateway
from wye.router.policy import Policy
from wye.router.relevance import likely
from wye.router.rerank import Reranker
from wye.router.session import IndexModels, Session
from wye.router.types import (
    BASELINE,
    Ask,
    Candidate,
    ChainStep,
    Contribution,
    Decision,
    Reply,
    Route,
    Thresholds,
)

Serve = Callable[..., TestClient]


def official(client: TestClient, key: str = "none") -> OpenAI:
    return OpenAI(base_url="http://localhost/v1", api_key=key, http_client=client, max_retries=0)


def retrieve(
    client: TestClient, question: str, headers: Mapping[str, str] | None = None, **fields: object
) -> dict[str, Any]:
    body = {"question": question, **fields}
    reply = client.post("/v1/retrieve", json=body, headers=headers)
    assert reply.status_code == 200, reply.text
    content: dict[str, Any] = reply.json()
    return content


LIBRARY = (
    Passage(
        "mostar", "Stari Most", "The Old Bridge spans the Neretva. It is in Mostar.", {"y": 1566}
    ),
    Passage("neretva", "Neretva", "The Neretva is a river. It flows into the Adriatic.", {"y": 1}),
    Passage("tower", "Tower Bridge", "Tower Bridge crosses the Thames in London.", {"y": 1894}),
)
CHAIN = (
    ChainStep(
        "the <b>bridge</b>",
        "the <b>bridge</b>",
        1,
        (
            Candidate("Stari Most", 0.8, "mostar"),
            Candidate(
                "Neretva", 0.6, "mostar", 4, "The Old Bridge spans the Neretva.", put_in=True
            ),
        ),
        "place",
    ),
)
TREE = "(ROOT (SBARQ (WHNP (WP What)) (SQ (VBZ is) (NP (PRP it))) (. ?)))"


class Library(Session, Gateway):
    """A session and its gateway in one, with nothing loaded.

    It ranks passages by how many words they share with a question.

    Attributes:
        failing: Routes that raise.
        poison: A word that no route but dense survives.
        later: A word of questions that are answered last.
        seconds: Route -> how long a batch over it takes.
        batches: Route and questions of every search since it was loaded.
        allowed_ms: How long each search might take, as it was told.
        has_no_router: Whether nothing here can choose a route.
        newer: What `reload` gives next.
        thresholds: That scores are held against.
        chain: Of every answer over steps.
        changed: Passages on top of its base where these are many.
        with_thresholds: Of what `reload_thresholds` gives next, or what it raises from now on.
    """

    models: IndexModels

    def __init__(self, passages: Sequence[Passage] = LIBRARY, version: int = 1) -> None:
        self._version = version
        self._folder = Path("/nonexistent/library")
        self.failing: set[Route] = set()
        self.poison = ""
        self.later = ""
        self.seconds: dict[Route, float] = {}
        self.batches: list[tuple[Route, list[str]]] = []
        self.allowed_ms: list[float | None] = []
        self.newer: Library | None = None
        self.has_no_router = False
        self.thresholds = Thresholds(0.4, 0.7)
        self.chain: tuple[ChainStep, ...] = CHAIN
        self.with_thresholds: Thresholds | Exception | None = None
        self.closed = False
        self.changed = 0
        self.quiet = 0.0
        # Remote, since it has no files by which a change could be seen.
        index = SimpleNamespace(fault="", is_remote=True, check_files=lambda: None)
        self.index = cast("PassageStore", index)
        self._passages = {passage.id: passage for passage in passages}

    @property
    def version(self) -> int:
        return self._version

    @property
    def folder(self) -> Path:
        return self._folder

    def store_in(self, folder: Path) -> None:
        self._folder = stored(folder, [*self._passages.values()])

    @property
    def analyser(self) -> Analyser:
        return cast("Analyser", HashAnalyser())

    @property
    def gateway(self) -> "Library":
        return self

    @property
    def reranker(self) -> Reranker:
        texts = [f"{passage.title}\n{passage.text}" for passage in self._passages.values()]
        lexical = LexicalRetriever([*self._passages], texts)
        analyser = cast("Analyser", FakeAnalyser(AnalyserSettings()))
        return Reranker(analyser, lexical, FusionSettings(), None)

    @property
    def count(self) -> int:
        return len(self._passages)

    @property
    def policy(self) -> Policy | None:
        return None if self.has_no_router else Policy(self.thresholds)

    @property
    def router_name(self) -> str:
        return "" if self.has_no_router else "words/v1"

    def build(self) -> None:
        self.batches = []

    @property
    def snapshot(self) -> Any:  # noqa: ANN401
        """One without a corpus, so that an ingest reads the dataset itself."""
        return SimpleNamespace(corpus=None, due=self._due, passages=self.passages)

    def _due(self, quiet: float) -> int:
        return self.changed if quiet >= self.quiet else 0

    def passages(self, ids: Sequence[str]) -> dict[str, Passage]:
        return {id_: self._passages[id_] for id_ in ids if id_ in self._passages}

    def reload(self) -> "Library | None":
        newer, self.newer = self.newer, None
        return newer

    def reload_thresholds(self) -> "Library | None":
        newer = self.with_thresholds
        if isinstance(newer, Exception):
            raise newer
        if newer is None:
            return None
        self.with_thresholds = None
        later = copy(self)
        later.thresholds = newer
        return later

    def close(self) -> None:
        self.closed = True

    def begin(self, questions: Sequence[str], ask: Ask) -> Iterator[BatchReplies]:
        route = ask.route
        self.batches.append((route, list(questions)))
        self.allowed_ms.append(ask.step_ms)
        if route == Route.AUTO and self.has_no_router:
            raise ModelFileError("There is no router model here; train one.")
        time.sleep(self.seconds.get(route, 0))
        if route in self.failing:
            raise RuntimeError("the arm is broken")
        if self.poison and route != Route.DENSE and any(self.poison in q for q in questions):
            raise RuntimeError("a question that breaks the arm")
        if route == Route.AUTO:
            decisions = self.decide(questions, ask)
            replies = [
                replace(
                    self._answer(
                        question,
                        Route.HYBRID
                        if ask.text_only and decision.route != Route.DENSE
                        else decision.route,
                        ask.k,
                        ask.filter,
                    ),
                    decision=decision,
                )
                for question, decision in zip(questions, decisions, strict=True)
            ]
        else:
            replies = [self._answer(question, route, ask.k, ask.filter) for question in questions]
        replies = [_likely(reply, ask.min_relevance, ask.k) for reply in replies]
        replies_by_row = dict(enumerate(map(_explained, replies) if ask.explain else replies))
        later = [
            row
            for row, reply in replies_by_row.items()
            if route == Route.AUTO and self.later in reply.question.split()
        ]

        def finish(places: Sequence[int]) -> dict[int, Reply]:
            if places:
                self.batches.append((Route.STEPS, [questions[row] for row in places]))
            if places and Route.STEPS in self.failing:
                raise RuntimeError("steps are broken")
            return {row: replies_by_row[row] for row in places}

        at_once = {p: one for p, one in replies_by_row.items() if p not in later}
        yield BatchReplies(at_once, later, finish)

    def decide(self, questions: Sequence[str], ask: Ask = Ask()) -> list[Decision]:  # noqa: B008
        if self.poison and any(self.poison in question for question in questions):
            raise RuntimeError("a question that breaks the router")
        return [self._decision(len(q.split()) / 10, explain=ask.explain) for q in questions]

    def _decision(self, score: float, *, explain: bool) -> Decision:
        low, high = self.thresholds.low, self.thresholds.high
        route = Route.GRAPH if score >= high else Route.FUSION if score > low else Route.DENSE
        return Decision(
            route,
            score,
            2.0,
            self.thresholds,
            "score",
            "words/v1",
            (Contribution(BASELINE, 0.5), Contribution("words", 1.5, 10 * score))
            if explain
            else (),
            (TREE,) if explain else (),
            Route.DENSE,
            "How it is built speaks for the graph." if explain else "",
        )

    def _answer(self, question: str, route: Route, k: int, filter_: object | None) -> Reply:
        rows = list(self._passages.values())
        if filter_ is not None:
            mask = parse_filter(filter_).mask(Columns([passage.metadata for passage in rows]))
            rows = [passage for passage, passes in zip(rows, mask, strict=True) if passes]
        words = set(question.lower().strip("?").split())
        scored = [
            (-len(words & set(f"{p.title} {p.text}".lower().replace(".", "").split())), p.id)
            for p in rows
        ]
        hits = tuple(
            RankedHit(id_, float(-score), rank)
            for rank, (score, id_) in enumerate(sorted(scored)[:k], start=1)
        )
        ranking = Ranking(str(route), hits, len(rows))
        arms = {str(route): ranking}
        chain: tuple[ChainStep, ...] = ()
        if route in (Route.FUSION, Route.STEPS):
            arms = {arm: replace(ranking, retriever=arm) for arm in ("dense", "graph")}
            ranking = replace(ranking, hits=tuple(_fused(hit) for hit in hits))
        seconds = {"parsing": 0.001, **dict.fromkeys(arms, 0.002)}
        if route == Route.STEPS:
            chain = self.chain
        return Reply(
            question, route, ranking, arms, seconds, self.version, chain=chain, searches=len(chain)
        )


def _likely(reply: Reply, least: float, k: int) -> Reply:
    """As if relevance fell with the rank, and as if nobody here knew of cake."""
    relevance = tuple(0.9**hit.rank for hit in reply.ranking.hits)
    ranking, relevance = likely(reply.ranking, relevance, least, k)
    answerability = 0.02 if "cake" in reply.question else 0.95
    return replace(reply, ranking=ranking, relevance=relevance, answerability=answerability)


def _fused(hit: RankedHit) -> RankedHit:
    share = 0.5 / (60 + hit.rank)
    sources = tuple(Source(arm, hit.rank, hit.score, share) for arm in ("dense", "graph"))
    return RankedHit(hit.id, 2 * share, hit.rank, sources)


def _explained(reply: Reply) -> Reply:
    """As if the graph had gone from the bridge to its river."""
    if "graph" not in reply.arms:
        return reply
    bridge = explanation.BridgeNote(
        "Stari Most", "mostar", "The Old Bridge spans the Neretva.", 0.8
    )
    return replace(
        reply,
        explanation=explanation.Explanation(
            (explanation.SeedNote("Old Bridge", "Stari Most", 0.9, "nearest"),),
            (
                explanation.EntityNote("Stari Most", 1, 0.9, 0.9, 1, None),
                explanation.EntityNote("Neretva", 2, 0.7, 0.7, 2, bridge),
            ),
            tuple(
                explanation.PassageNote(hit.id, 0.2, 0.3, ("Neretva",), "mostar")
                if hit.id == "neretva"
                else explanation.PassageNote(hit.id, 0.2, 0.3, ())
                for hit in reply.ranking.hits
            ),
        ),
    )


def stored(folder: Path, passages: Sequence[Passage] = LIBRARY) -> Path:
    analyser = HashAnalyser()
    index = PassageStore.create(folder, analyser.dimension, analyser.fingerprint)
    ingest(index, passages, analyser)
    return folder


class Shelf(Library):
    """A library whose passages are one version of a real index, and can be written to."""

    def __init__(self, folder: Path) -> None:
        self._index = index = PassageStore.open(folder)
        ids = index.snapshot().to_table(columns=["id"])["id"].to_pylist()
        super().__init__(fetch(index, ids), index.version)
        self._folder = folder

    def reload(self) -> "Library | None":
        return None if self._index.is_newest else Shelf(self._folder)


def piece(text: object, ending: object = None) -> dict[str, Any]:
    return {"choices": [{"delta": {"content": text}, "finish_reason": ending}]}


class Endpoint:
    """A language model's endpoint on a real socket, that fails as it is told to.

    Attributes:
        script: What each further request gets: "answer", "json", "slow", "stall", "break",
            "hang up", "half a refusal", or a status with its headers or with what writes its body;
            or what gives the events of a stream, bytes as they are. After the last, "answer".
        seen: Body and headers of each request.
        text: The answer, in words that are sent one by one.
    """

    def __init__(self) -> None:
        self.script: list[Any] = []
        self.seen: list[tuple[dict[str, Any], dict[str, str]]] = []
        self.text = "It crosses the Neretva [1] ."
        self.release = threading.Event()
        self._server = LocalServer(self._handle)
        self.url = f"{self._server.url}/v1"

    def close(self) -> None:
        self.release.set()
        self._server.close()

    def _handle(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        if request.command == "GET":
            self._reply(request, 200, {"data": [{"id": "tiny"}]})
            return
        self.seen.append((json.loads(body), dict(request.headers)))
        step = self.script.pop(0) if self.script else "answer"
        if callable(step) or (isinstance(step, tuple) and callable(step[1])):
            self._pour(request, *(step if isinstance(step, tuple) else (200, step)))
        elif isinstance(step, tuple):
            self._reply(request, step[0], {"error": {"message": "no luck"}}, **step[1])
        elif step == "json":
            message = {"message": {"content": self.text}, "finish_reason": "stop"}
            self._reply(request, 200, {"choices": [message]})
        elif step == "hang up":
            request.connection.close()
        elif step == "half a refusal":
            request.send_response(500)
            request.send_header("content-length", "100")
            request.end_headers()
            self.release.wait(10)
        else:
            self._pour(request, 200, lambda: self._answer(step))

    def _reply(
        self, to: BaseHTTPRequestHandler, status: int, content: object, **headers: str
    ) -> None:
        named = {"content-type": "application/json", **headers}
        send(to, status, json.dumps(content).encode(), **named)

    def _pour(
        self, request: BaseHTTPRequestHandler, status: int, events: Callable[[], Iterable[object]]
    ) -> None:
        request.send_response(status)
        made = iter(events())
        first = next(made)
        plain = isinstance(first, bytes) and first.startswith(b"{")
        kind = "application/json" if plain else "text/event-stream"
        request.send_header("content-type", kind)
        request.end_headers()
        with suppress(OSError):  # whoever asked has had enough
            for event in chain([first], made):
                text = (
                    event if isinstance(event, bytes) else f"data: {json.dumps(event)}\n\n".encode()
                )
                request.wfile.write(text)

    def _answer(self, step: str) -> Iterator[object]:
        """The events of an answer, which stops after two words if it is to stall or to break."""
        if step == "slow":
            self.release.wait(10)
        yield b": a comment, as proxies send them\n\n"
        for number, word in enumerate(self.text.split()):
            if number == 2 and step == "break":
                return
            if number == 2 and step == "stall":
                self.release.wait(10)
            yield piece(word + " ")
        yield piece(None, "stop")
        usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
        yield {"choices": [], "usage": usage}
        yield b"data: [DONE]\n\n"
