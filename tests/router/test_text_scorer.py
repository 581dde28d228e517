"""Scores of a reranker behind a real connection, and what clue and facts make of them."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wye
from tests.live import LocalServer, inside, send
from wye.backends.papers.units import MOST_READ
from wye.router.errors import RerankerError, SettingsError
from wye.router.session import Session
from wye.router.settings import RerankerSettings, load_settings
from wye.router.text_scorer import LONGEST_BODY, EndpointScorer
from wye.router.types import Ask, Route
from wye.service.app import build
from wye.service.settings import load_settings as load_service_settings

Say = Callable[[Mapping[str, Any]], object]


@contextmanager
def endpoint(say: Say) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Speaks /rerank; what it was asked is listed."""
    asked: list[dict[str, Any]] = []

    def answer(to: BaseHTTPRequestHandler, content: bytes) -> None:
        body = json.loads(content)
        asked.append(body | {"path": to.path})
        said = say(body)
        reply = said if isinstance(said, bytes) else json.dumps(said).encode()
        send(to, 500 if said is None else 200, reply)

    with closing(LocalServer(answer)) as server:
        yield f"{server.url}/v1", asked


def scores(of: Sequence[float]) -> dict[str, object]:
    found = [{"index": place, "relevance_score": score} for place, score in enumerate(of)]
    return {"results": sorted(found, key=lambda one: -one["relevance_score"])}


def plums(body: Mapping[str, Any]) -> dict[str, object]:
    """Texts that speak of plums are what is wanted."""
    return scores([float("plums" in text) for text in body["documents"]])


def test_scores_come_in_the_order_of_the_texts() -> None:
    with endpoint(lambda body: scores([0.5, 2, -1])) as (url, asked):
        found = EndpointScorer(f"{url}/", "reader").score("Which?", ["a", "b", "c"])
        assert found.tolist() == [0.5, 2, -1]
        assert EndpointScorer(url, "reader").score("Which?", []).shape == (0,)
    assert asked == [
        {"path": "/v1/rerank", "model": "reader", "query": "Which?", "documents": ["a", "b", "c"]}
    ]
    with pytest.raises(RerankerError, match="did not answer"):
        EndpointScorer(url, "").score("Which?", ["a"])


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (None, "did not answer"),
        (b"<html>", "did not send a reranker's scores"),
        ({"results": [{"index": 7, "relevance_score": 1}]}, "did not send a reranker's scores"),
        ({"results": [{"index": -1, "relevance_score": 1}]}, "did not send a reranker's scores"),
        ({"results": [{"index": 0}]}, "did not send a reranker's scores"),
        ({"results": []}, "did not score all 2"),
        (scores([float("nan"), 1.0]), "did not score all 2"),
        (b"[" * 100_000, "did not send a reranker's scores"),
        (b" " * (LONGEST_BODY + 1), "more than"),
    ],
)
def test_a_reply_that_is_none_is_refused(said: object, why: str) -> None:
    with endpoint(lambda body: said) as (url, _), pytest.raises(RerankerError, match=why):
        EndpointScorer(url, "").score("Which?", ["a", "b"])


def test_anything_but_an_address_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="give the address of an API that has /rerank"):
        RerankerSettings(str(tmp_path))


@pytest.mark.parametrize(("route", "activation"), [(Route.CLUE, "eq5"), (Route.GRAPH, "facts")])
def test_what_it_reads_decides_where_clue_and_facts_start(
    route: Route,
    activation: str,
    tmp_path: Path,
    fake_models: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    towns = ("Mostar", "Jajce", "Travnik", "Livno", "Konjic")
    with wye.create(tmp_path) as made:
        told = {town: f"{town} is a town. Boats of {town} sail." for town in towns}
        told["Livno"] = "Livno is known for plums."
        made.add([wye.Document(town, town, text) for town, text in told.items()])
        many = (f"Como likes Mostar and {n} more." for n in range(2 * MOST_READ))
        made.add([wye.Document(f"n{n}", "", text) for n, text in enumerate(many)])
    monkeypatch.setenv("WYE_GRAPH__ACTIVATION", activation)
    with endpoint(plums) as (url, asked):
        monkeypatch.setenv("WYE_RERANKER__MODEL", url)
        with Session.open(load_settings(), tmp_path) as session:
            question = "Which town of Livno or Mostar is known for fruit?"
            search = session.gateway.search
            found = [search([question], Ask(route, 5))[0].ranking.hits for _ in range(2)]
    assert found[0] == found[1]
    assert asked
    assert all(0 < len(body["documents"]) <= MOST_READ for body in asked)
    if route is Route.CLUE:
        assert found[0][0].id == "Livno"


def test_a_server_has_it_too_and_answers_without_it_where_it_fails(
    tmp_path: Path, fake_models: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with wye.create(tmp_path) as made:
        made.add([wye.Document(name, name, f"{name} met Bo.") for name in ("Ada", "Eve")])
    body = {"question": "Who met Ada?", "route": "clue"}
    with endpoint(plums) as (url, asked):
        monkeypatch.setenv("WYE_RERANKER__MODEL", url)
        settings = load_service_settings(index=tmp_path)
        with inside(build(settings)) as client:
            reply = client.post("/v1/retrieve", json=body).json()
            assert (reply["degraded"], bool(asked)) == ("", True)
    with inside(build(settings)) as client:  # nothing answers there any more
        reply = client.post("/v1/retrieve", json=body).json()
    assert reply["passages"]
    assert "clue failed (RerankerError)" in reply["degraded"]


def test_without_it_nothing_is_scored(tmp_path: Path, fake_models: None) -> None:
    with wye.create(tmp_path) as made:
        made.add([wye.Document("a", "Ada", "Ada is here.")])
    with Session.open(load_settings(), tmp_path) as session:
        assert session.snapshot.graph.scorer is None
        (reply,) = session.gateway.search(["Ada?"], Ask(Route.CLUE, 1))
        assert np.isfinite(reply.ranking.hits[0].score)
