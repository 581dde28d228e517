"""The client beside a server of a real index, and beside servers that misbehave."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from wye_client import Client, WyeError

from tests.live import LocalServer, listening, send
from wye.backends.store.ingest import ingest
from wye.backends.types import Passage
from wye.router.session import Session
from wye.service.app import build
from wye.service.http.edge import Scope
from wye.service.http.keys import new_key
from wye.service.settings import ServeSettings, ServiceSettings

BRIDGES = (
    Passage("mostar", "Stari Most", "The Old Bridge spans the Neretva in Mostar.", {"n": -2}),
    Passage("tower", "Tower Bridge", "Tower Bridge crosses the Thames in London.", {"n": -1}),
)
QUESTION = "Which bridge is in Mostar?"


@pytest.fixture
def folder(tmp_path: Path, fake_models: None) -> Path:
    with closing(Session.create(ServiceSettings(), tmp_path / "index")) as target:
        ingest(target.index, BRIDGES, target.analyser)
    return tmp_path / "index"


@pytest.fixture
def secret() -> tuple[str, str]:
    made, key = new_key("ada", [Scope.READ])
    return made, str(key)


@pytest.fixture
def url(folder: Path, secret: tuple[str, str]) -> Iterator[str]:
    settings = ServiceSettings(serve=ServeSettings(keys=(secret[1],)))
    with listening(build(settings, {"default": partial(Session.open, settings, folder)})) as url:
        yield url


def test_passages_are_found(url: str, secret: tuple[str, str]) -> None:
    with Client(url, secret[0]) as wye:
        hits = wye.search(QUESTION, route="dense", k=2)
        assert (hits.route, hits.decision.reason) == ("dense", "forced")
        assert [passage.rank for passage in hits.passages] == [1, 2]
        assert hits.raw["index"]["collection"] == "default"
        within = {"type": "gte", "key": "n", "value": -1}
        (passage,) = wye.search("bridge", route="lexical", filter=within).passages
        assert (passage.document, passage.metadata) == ("tower", {"n": -1})
        with pytest.raises(WyeError, match="no collection 'elsewhere'") as error:
            wye.search(QUESTION, collection="elsewhere")
        assert error.value.status == 404
        assert error.value.request_id


def test_a_key_comes_from_the_environment(
    url: str, secret: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Client(url) as wye, pytest.raises(WyeError, match="API key") as error:
        wye.search(QUESTION)
    assert error.value.status == 401
    monkeypatch.setenv("WYE_KEY", secret[0])
    with Client(url) as wye:
        assert wye.search(QUESTION, route="lexical").passages


Replies = list[tuple[int, dict[str, str], str]]
Server = Callable[[Replies], str]


@pytest.fixture
def scripted() -> Iterator[Server]:
    """Addresses of servers that give some replies in turn."""
    with ExitStack() as servers:

        def start(replies: Replies) -> str:
            def answer(to: BaseHTTPRequestHandler, _: bytes) -> None:
                status, headers, body = replies.pop(0)
                send(to, status, body.encode(), **headers)

            return servers.enter_context(closing(LocalServer(answer))).url

        yield start


FOUND = {
    "request_id": "r",
    "question": "x",
    "passages": [],
    "route": {"path": "dense", "reason": "forced", "new": 1},
    "degraded": "",
    "of a later version": True,
}


def test_who_is_refused_comes_again(scripted: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr("time.sleep", waits.append)
    busy = (503, {"retry-after": "3"}, '{"detail": "Busy."}')
    replies: Replies = [busy, (429, {}, "{}"), (200, {}, json.dumps(FOUND))]
    with Client(scripted(replies)) as wye:
        assert wye.search("x").route == "dense"
    assert 3 <= waits[0] <= 4.5
    assert 0 < waits[1] < 1
    with Client(scripted([busy] * 3)) as wye, pytest.raises(WyeError, match=r"Busy\.") as error:
        wye.search("x")
    assert error.value.status == 503
    long = (503, {"retry-after": "600"}, '{"detail": "Not today."}')
    with Client(scripted([long])) as wye, pytest.raises(WyeError, match="Not today"):
        wye.search("x")


@pytest.mark.parametrize("body", ["", "{", "[]", "null", '{"passages": 3}', '"x"'])
def test_what_is_not_wye_is_told(scripted: Server, body: str) -> None:
    url = scripted([(200, {}, body), (500, {}, body)])
    with Client(url) as wye:
        with pytest.raises(WyeError, match="is not Wye's"):
            wye.search("x")
        with pytest.raises(WyeError, match="The server replied 500"):
            wye.search("x")


def test_nobody_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    with Client("http://127.0.0.1:1") as wye, pytest.raises(WyeError, match="cannot be reached"):
        wye.search("x")
