"""A server that has an index dealt to others: it answers as one, and says who is missing."""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from time import sleep
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

from backends.store.ingest import ingest
from backends.types import Passage
from router.errors import ShardError
from router.session import Session
from router.settings import load_settings
from router.sharding.calls import FOREIGN, LATE, Shards
from router.types import Route
from service.app import build
from service.errors import ServiceError
from service.http.keys import Scope, new_key
from service.settings import ServeSettings, ServiceSettings
from service.sharded import HttpShard, ShardCalls, shard_urls
from tests.live import inside, listening, until

pytestmark = pytest.mark.usefixtures("fake_models")
QUESTION = "Who met Ada and Babbage?"


def passages() -> list[Passage]:
    names = ["Ada", "Babbage", "Menabrea", "Turin", "Plana", "Quetelet"]
    return [
        Passage(f"p{n}", name, f"{name} met {names[n - 1]} and {names[n - 2]} there.", {"n": n})
        for n, name in enumerate(names)
    ]


def made(folder: Path, own: list[Passage]) -> Path:
    with Session.create(load_settings(), folder) as session:
        ingest(session.index, own, session.analyser)
    return folder


def server(folder: Path) -> ServiceSettings:
    return ServiceSettings(index=folder)


@pytest.fixture
def shards(tmp_path: Path) -> Iterator[tuple[list[str], ExitStack]]:
    """Addresses of two shards, and what stops the second."""
    folders = [made(tmp_path / f"{n}", passages()[n::2]) for n in range(2)]
    with listening(build(server(folders[0]))) as first, ExitStack() as stack:
        second = stack.enter_context(listening(build(server(folders[1]))))
        yield [first, second], stack


@pytest.fixture
def client(shards: tuple[list[str], ExitStack]) -> Iterator[TestClient]:
    serve = ServeSettings(
        shards=tuple(f"library={url}" for url in shards[0]), refresh_seconds=0.05, shard_ms=20_000
    )
    with inside(build(ServiceSettings(serve=serve))) as opened:
        yield opened


def ask(client: TestClient, route: str, **more: object) -> dict[str, Any]:
    body = {"question": QUESTION, "route": route, "k": 10, **more}
    reply = client.post("/v1/retrieve", json=body)
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


@pytest.mark.parametrize("route", ["dense", "lexical", "hybrid", "graph", "fusion"])
def test_it_answers_as_one_index(client: TestClient, tmp_path: Path, route: str) -> None:
    with inside(build(server(made(tmp_path / "whole", passages())))) as whole:
        expected = ask(whole, route)["passages"]
    found = ask(client, route)
    assert "missing" not in found
    assert {p["id"]: p["text"] for p in found["passages"]} == {p["id"]: p["text"] for p in expected}
    if route in ("dense", "lexical", "hybrid"):
        assert [p["id"] for p in found["passages"]] == [p["id"] for p in expected]
    kept = ask(client, route, filter={"type": "lt", "key": "n", "value": 3})
    assert {p["id"] for p in kept["passages"]} <= {"p0", "p1", "p2"}


def test_a_shard_that_was_written_to_answers_all_routes(
    client: TestClient, shards: tuple[list[str], ExitStack]
) -> None:
    new = {"title": "Galileo", "text": "Galileo met Ada and Babbage."}
    with httpx.Client(base_url=shards[0][0]) as shard:
        assert shard.put("/v1/documents/p9", json=new).is_success
        assert shard.delete("/v1/documents/p0").is_success
    until(lambda: "p9" in {p["id"] for p in ask(client, "dense")["passages"]})
    for route in ("dense", "lexical", "hybrid", "graph", "fusion", "steps"):
        found = ask(client, route, explain=True)
        assert "missing" not in found
        assert "p9" in {p["id"] for p in found["passages"]}
        assert "p0" not in {p["id"] for p in found["passages"]}


def test_a_shard_that_is_lost_is_missing(
    client: TestClient, shards: tuple[list[str], ExitStack]
) -> None:
    urls, stack = shards
    assert len(ask(client, "dense")["passages"]) == 6
    stack.close()
    until(lambda: "missing" in ask(client, "fusion"))
    found = ask(client, "fusion")
    assert {p["id"] for p in found["passages"]} == {"p0", "p2", "p4"}
    assert [one["arm"] for one in found["missing"]] == [urls[1]]
    assert found["degraded"].startswith(f"degraded: the shard {urls[1]} ")
    assert client.get("/ready").status_code == 200


def test_one_that_hangs_holds_up_no_reply(
    shards: tuple[list[str], ExitStack], monkeypatch: pytest.MonkeyPatch
) -> None:
    urls, _ = shards
    hangs, goes_on = threading.Event(), threading.Event()
    call = ShardCalls.call

    def hanging(self: ShardCalls, session: Session, name: str, arguments: dict[str, Any]) -> Any:  # noqa: ANN401
        if hangs.is_set() and session.folder.name == "1":
            goes_on.wait()
        return call(self, session, name, arguments)

    monkeypatch.setattr(ShardCalls, "call", hanging)
    serve = ServeSettings(
        shards=tuple(f"library={url}" for url in urls), shard_ms=2_000, refresh_seconds=0.05
    )
    try:
        with inside(build(ServiceSettings(serve=serve))) as client:
            hangs.set()
            for route in ("graph", "fusion", "steps", "lexical"):
                found = ask(client, route)
                assert {p["id"] for p in found["passages"]} <= {"p0", "p2", "p4"}
                assert [one["arm"] for one in found["missing"]] == [urls[1]]
            assert found["degraded"].startswith(f"degraded: the shard {urls[1]} did not answer in")
            goes_on.set()
            until(lambda: "missing" not in ask(client, "dense"))
    finally:
        goes_on.set()


def test_one_that_is_slow_at_each_call_holds_up_no_reply_beyond_its_deadline(
    shards: tuple[list[str], ExitStack], monkeypatch: pytest.MonkeyPatch
) -> None:
    urls, _ = shards
    call, delay = ShardCalls.call, [0.0]

    def slow(self: ShardCalls, session: Session, name: str, arguments: dict[str, Any]) -> Any:  # noqa: ANN401
        sleep(delay[0] if session.folder.name == "1" else 0)
        return call(self, session, name, arguments)

    monkeypatch.setattr(ShardCalls, "call", slow)
    serve = ServeSettings(shards=tuple(f"library={url}" for url in urls), shard_ms=20_000)
    with inside(build(ServiceSettings(serve=serve))) as client:
        delay[0] = 0.8
        found = ask(client, "graph", deadline_ms=4_000)
        assert {p["id"] for p in found["passages"]} == {"p0", "p2", "p4"}
        assert [(one["arm"], one["reason"]) for one in found["missing"]] == [(urls[1], LATE)]
        assert found["degraded"] == f"degraded: the shard {urls[1]} {LATE}; answered without"
        # It is there for the next question, and for one with more time it is not too slow.
        found = ask(client, "dense", deadline_ms=20_000)
        assert (len(found["passages"]), "missing" in found) == (6, False)


def test_shards_that_fail_while_it_loads_cost_it_no_route(
    shards: tuple[list[str], ExitStack], monkeypatch: pytest.MonkeyPatch
) -> None:
    call, fails = ShardCalls.call, threading.Event()

    def failing(self: ShardCalls, session: Session, name: str, arguments: dict[str, Any]) -> Any:  # noqa: ANN401
        if fails.is_set() and name != "about":
            raise ValueError(name)
        return call(self, session, name, arguments)

    monkeypatch.setattr(ShardCalls, "call", failing)
    serve = ServeSettings(
        shards=tuple(f"library={url}" for url in shards[0]), shard_ms=20_000, refresh_seconds=0.05
    )
    fails.set()
    app = build(ServiceSettings(serve=serve))
    with inside(app) as client:
        reply = client.post("/v1/retrieve", json={"question": QUESTION, "route": "dense"})
        assert reply.status_code != 409, reply.text
        assert all(url in reply.text for url in shards[0]), "it says who is missing"
        fails.clear()
        collection = app.state.service.collections["library"]
        until(lambda: not collection.cold)
        assert Route.DENSE not in collection.unavailable
        until(lambda: len(ask(client, "dense")["passages"]) == 6)


def test_one_of_other_models_is_not_asked(shards: tuple[list[str], ExitStack]) -> None:
    urls, _ = shards
    clients = [HttpShard(url, 10) for url in urls]
    pins = clients[0].call([("about", {})])[0]["pins"]
    dealt = Shards(clients, pins)
    assert not dealt.missing
    about = [{"pins": {"encoder": "another"}}]
    clients[1].call = lambda calls: about[: len(calls)]  # type: ignore[method-assign]
    assert dealt.revive()
    assert (dealt.missing, [*dealt.about]) == ({urls[1]: FOREIGN}, [urls[0]])
    dealt.close()


def test_an_explanation_says_what_led_there(client: TestClient) -> None:
    told = ask(client, "graph", explain=True)["explanation"]
    assert [seed["entity"] for seed in told["seeds"]] == ["Ada", "Babbage"]
    assert [one["id"] for one in told["passages"]]
    assert any(one["bridge"] and "met" in one["bridge"]["sentence"] for one in told["entities"])


def test_what_takes_the_index_itself_is_refused(client: TestClient) -> None:
    documents = {"documents": [{"id": "new", "text": "Ada met Babbage."}]}
    reply = client.post("/v1/documents", json=documents)
    assert (reply.status_code, "spread over other servers" in reply.text) == (409, True)
    assert client.post("/v1/shard", json={"calls": [["about", {}]]}).status_code == 404
    for route in ("clue", "zoom"):
        reply = client.post("/v1/retrieve", json={"question": QUESTION, "route": route})
        assert (reply.status_code, "on a sharded index" in reply.text) == (409, True)


def test_a_key_with_a_filter_is_told_which_collections_there_are(
    shards: tuple[list[str], ExitStack], tmp_path: Path
) -> None:
    secret, key = new_key("ada", [Scope.READ], filter_={"type": "lt", "key": "n", "value": 3})
    serve = ServeSettings(
        indexes=(f"own={made(tmp_path / 'own', passages())}",),
        shards=tuple(f"library={url}" for url in shards[0]),
        keys=(str(key),),
    )
    with inside(build(ServiceSettings(serve=serve))) as client:
        client.headers["x-api-key"] = secret
        reply = client.get("/v1/vector_stores")
        assert reply.status_code == 200, reply.text
        told = {store["id"]: store["file_counts"]["total"] for store in reply.json()["data"]}
        assert told == {"own": 3, "library": 0}


def test_only_calls_that_there_are_are_answered(shards: tuple[list[str], ExitStack]) -> None:
    shard = HttpShard(shards[0][0], 10)
    assert [one["passages"] for one in shard.call([("about", {})] * 2)] == [3, 3]
    for name, arguments in (("call", {}), ("rank", {"walk": "x", "k": 1}), ("rank", {"j": 1})):
        with pytest.raises(ShardError, match="answered with status 4"):
            shard.call([("about", {}), (name, arguments)])
    nobody = HttpShard("http://127.0.0.1:9", 1)
    with pytest.raises(ShardError, match="cannot be reached"):
        nobody.call([("about", {})])
    with socket.create_server(("127.0.0.1", 0)) as silent:
        late = HttpShard(f"http://127.0.0.1:{silent.getsockname()[1]}", 0.2)
        with pytest.raises(ShardError, match="did not answer in time"):
            late.call([("about", {})])
    for each in (shard, nobody, late):
        each.close()


def test_addresses_by_collection() -> None:
    entries = ("z=http://a:1", "b=http://b:1/", "b=https://c")
    found = shard_urls(ServeSettings(shards=entries))
    # The first that is named is the one that is searched where a request names none.
    assert [*found.items()] == [("z", ["http://a:1"]), ("b", ["http://b:1", "https://c"])]
    for wrong in ("b=ftp://c", "b c=http://d", "nothing"):
        with pytest.raises(ServiceError):
            shard_urls(ServeSettings(shards=(wrong,)))
