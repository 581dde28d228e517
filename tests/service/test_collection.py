import gc
import time
import weakref
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backends.build import ingest
from backends.types import Passage
from router.container import Container, Ingestion
from router.settings import load_settings
from router.types import Route
from service.collection import Collection, Place, places
from service.errors import ServiceError
from service.problems import Problem

if TYPE_CHECKING:
    from tests.service.conftest import Library


def test_places_are_named_or_the_default() -> None:
    assert places(["a=/x", "b=/y=z"], None) == [Place("a", Path("/x")), Place("b", Path("/y=z"))]
    assert places(["/x"], Path("/other")) == [Place("default", Path("/x"))]
    assert places([], Path("/other")) == [Place("default", Path("/other"))]


@pytest.mark.parametrize(
    ("named", "says"),
    [
        ([], "Serve what"),
        (["a b=/x"], "cannot be called 'a b'"),
        (["../a=/x"], "cannot be called"),
        (["=/x"], "cannot be called ''"),
        (["a="], "has no folder"),
        (["/x", "/y"], "Two collections are called 'default'"),
    ],
)
def test_places_that_make_no_sense(named: list[str], says: str) -> None:
    with pytest.raises(ServiceError, match=says):
        places(named, None)


def test_what_is_not_loaded_says_so(library: "Library") -> None:
    collection = Collection("c", lambda: library)
    assert not collection.renew()
    with pytest.raises(Problem, match="not loaded yet"):
        _ = collection.engine
    library.failing = {Route.DENSE}
    with pytest.raises(RuntimeError):
        collection.load()
    with pytest.raises(Problem, match=r"not loaded yet \(the arm is broken\)"):
        _ = collection.engine


def test_a_version_that_cannot_be_opened_leaves_the_one_there_is(
    library: "Library", monkeypatch: pytest.MonkeyPatch
) -> None:
    collection = Collection("c", lambda: library)
    collection.load()

    def broken() -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr(library, "successor", broken)
    assert not collection.renew()
    assert collection.engine is library
    assert collection.facts()["error"] == "the disk is gone"


@pytest.mark.usefixtures("fake_models")
def test_a_real_index_is_followed_while_it_is_searched(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    settings = load_settings()

    def add(*passages: Passage) -> None:
        target = Ingestion(settings, folder)
        ingest(target.index, passages, target.passages)
        target.close()

    add(Passage("a", "Ada", "Ada met Babbage."))
    collection = Collection("c", lambda: Container(settings, folder))
    collection.load()
    before = collection.engine
    assert not collection.renew()
    add(Passage("b", "Babbage", "Babbage built engines."))
    assert before.passages(["b"]) == {}
    assert collection.renew()
    after = collection.engine
    assert (before.count, after.count) == (1, 2)
    assert before.passages(["a"])["a"].text == after.passages(["a"])["a"].text
    assert [*after.passages(["b", "zz"])] == ["b"]
    for engine, found in ((before, {"a"}), (after, {"a", "b"})):
        for route in (Route.DENSE, Route.GRAPH):
            (reply,) = engine.gateway.search(["Babbage"], route, 9)
            assert {hit.id for hit in reply.ranking.hits} == found
    collection.close()


@pytest.mark.usefixtures("fake_models")
def test_a_version_that_is_searched_no_longer_takes_no_memory(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    target = Ingestion(load_settings(), folder)
    ingest(target.index, [Passage("a", "Ada", "Ada met Babbage.")], target.passages)
    collection = Collection("c", lambda: Container(load_settings(), folder))
    collection.load()
    engine = collection.engine
    assert isinstance(engine, Container)
    former = [weakref.ref(part) for part in (engine.snapshot, engine.snapshot.graph)]
    del engine
    ingest(target.index, [Passage("b", "Babbage", "He built engines.")], target.passages)
    assert collection.renew()
    gc.disable()
    try:
        collection.forget()
        assert [part() for part in former] == [None, None]
    finally:
        gc.enable()
    (reply,) = collection.engine.gateway.search(["Ada"], Route.GRAPH, 9)
    assert len(reply.ranking.hits) == 2


@pytest.mark.usefixtures("fake_models")
def test_an_empty_index_is_served_and_filled_later(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    settings = load_settings()
    target = Ingestion(settings, folder)
    collection = Collection("c", lambda: Container(settings, folder))
    collection.load()
    assert collection.facts()["passages"] == 0
    ingest(target.index, [Passage("a", "Ada", "Ada met Babbage.")], target.passages)
    assert collection.renew()
    (reply,) = collection.engine.gateway.search(["Ada"], Route.GRAPH, 9)
    assert [hit.id for hit in reply.ranking.hits] == ["a"]
    started = time.monotonic()
    assert not collection.renew()
    assert time.monotonic() - started < 5
