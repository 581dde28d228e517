import gc
import time
import weakref
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backends.store.ingest import ingest
from backends.types import Passage
from router.errors import ModelFileError
from router.session import Session
from router.settings import load_settings
from router.types import Route, Thresholds
from service.collections import INDEX, THRESHOLDS, Collection
from service.http.problems import Problem
from service.logs import LOG

if TYPE_CHECKING:
    from tests.service.conftest import Library


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

    monkeypatch.setattr(library, "reload", broken)
    assert not collection.renew()
    assert collection.engine is library
    assert collection.facts()["error"] == "the disk is gone"


def test_thresholds_that_were_replaced_are_those_of_later_questions(library: "Library") -> None:
    collection = Collection("c", lambda: library)
    assert (collection.router, collection.policy) == ("", None)
    collection.load()
    assert collection.facts()["thresholds"] == {"low": 0.4, "high": 0.7}
    assert not collection.renew()
    batch = collection.engine
    library.with_thresholds = Thresholds(0.0, 0.1)
    assert collection.renew()
    assert (collection.router, collection.facts()["thresholds"]) == (
        "words/v1",
        {"low": 0.0, "high": 0.1},
    )
    later = collection.engine
    for engine, route in ((batch, Route.DENSE), (later, Route.GRAPH)):
        (reply,) = engine.gateway.search(["What river?"], Route.AUTO, 1)
        assert reply.route == route
    collection.forget()
    assert not collection.renew()


def test_thresholds_that_cannot_be_used_leave_those_there_are(
    library: "Library", make_library: "type[Library]", monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(LOG, "error", lambda event, extra: told.append(extra["error"]))
    collection = Collection("c", lambda: library)
    collection.load()
    library.with_thresholds = ModelFileError("thresholds.json is not JSON.")
    for _ in range(3):
        assert not collection.renew()
    assert collection.engine is library
    assert collection.facts()["error"] == collection.error == "thresholds.json is not JSON."
    assert told == ["thresholds.json is not JSON."], "once, not at every look"
    assert collection.faults[INDEX] == ""
    newer = make_library(version=2)
    library.newer = newer
    assert collection.renew(), "a version does not wait for thresholds"
    assert collection.engine is newer
    assert not collection.renew()
    assert collection.faults[THRESHOLDS] == ""
    assert "error" not in collection.facts()


def test_both_may_be_newer_at_once(library: "Library", make_library: "type[Library]") -> None:
    collection = Collection("c", lambda: library)
    collection.load()
    library.newer, library.with_thresholds = make_library(version=2), Thresholds(0.1, 0.2)
    assert collection.renew()
    assert collection.engine.version == 2


@pytest.mark.usefixtures("fake_models")
def test_a_real_index_is_followed_while_it_is_searched(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    settings = load_settings()

    def add(*passages: Passage) -> None:
        target = Session.create(settings, folder)
        ingest(target.index, passages, target.passage_analyser)
        target.close()

    add(Passage("a", "Ada", "Ada met Babbage."))
    collection = Collection("c", lambda: Session.open(settings, folder))
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
    target = Session.create(load_settings(), folder)
    ingest(target.index, [Passage("a", "Ada", "Ada met Babbage.")], target.passage_analyser)
    collection = Collection("c", lambda: Session.open(load_settings(), folder))
    collection.load()
    engine = collection.engine
    assert isinstance(engine, Session)
    former = [weakref.ref(part) for part in (engine.snapshot, engine.snapshot.graph)]
    del engine
    ingest(target.index, [Passage("b", "Babbage", "He built engines.")], target.passage_analyser)
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
    target = Session.create(settings, folder)
    collection = Collection("c", lambda: Session.open(settings, folder))
    collection.load()
    assert collection.facts()["passages"] == 0
    ingest(target.index, [Passage("a", "Ada", "Ada met Babbage.")], target.passage_analyser)
    assert collection.renew()
    (reply,) = collection.engine.gateway.search(["Ada"], Route.GRAPH, 9)
    assert [hit.id for hit in reply.ranking.hits] == ["a"]
    started = time.monotonic()
    assert not collection.renew()
    assert time.monotonic() - started < 5
