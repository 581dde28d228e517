import errno
import gc
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

import wye.service.collections
from tests.hashing import HashAnalyser
from tests.live import until
from tests.service.conftest import BRIDGES
from tests.service.fakes import Library, Serve
from wye.backends.errors import FilterError
from wye.backends.filters import Fixed
from wye.backends.store.documents import Removal, remove
from wye.backends.store.index import PassageStore
from wye.backends.store.ingest import ingest
from wye.backends.types import Passage
from wye.featurizer.analyser import token_count
from wye.router.errors import ModelFileError
from wye.router.session import Session
from wye.router.settings import load_settings
from wye.router.types import Ask, Decision, Route, Thresholds
from wye.service.batching import Entry, Later
from wye.service.collections import (
    BASE,
    INDEX,
    THRESHOLDS,
    Collection,
    QueuedQuestion,
    SearchParams,
    SearchResult,
)
from wye.service.http.edge import Scope
from wye.service.http.keys import new_key
from wye.service.http.problems import Problem
from wye.service.logs import LOG
from wye.service.settings import ServeSettings


@pytest.fixture
def collection(library: Library) -> Collection:
    made = Collection("c", lambda: library)
    made.load()
    return made


def test_what_is_not_loaded_says_so(library: Library) -> None:
    collection = Collection("c", lambda: library)
    assert not collection.renew()
    assert "router" not in collection.facts()
    with pytest.raises(Problem, match="not loaded yet"):
        _ = collection.session
    library.failing = {Route.DENSE}
    with pytest.raises(RuntimeError):
        collection.load()
    with pytest.raises(Problem, match=r"not loaded yet \(the arm is broken\)"):
        _ = collection.session


def test_thresholds_that_cannot_be_used_leave_those_there_are(
    library: Library, collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors: list[str] = []
    monkeypatch.setattr(LOG, "error", lambda event, extra: errors.append(extra["error"]))
    library.with_thresholds = ModelFileError("thresholds.json is not JSON.")
    for _ in range(3):
        assert not collection.renew()
    assert collection.session is library
    assert collection.facts()["error"] == collection.error == "thresholds.json is not JSON."
    assert errors == ["thresholds.json is not JSON."], "once, not at every look"
    assert collection.faults[INDEX] == ""
    newer = Library(version=2)
    library.newer = newer
    assert collection.renew(), "a version does not wait for thresholds"
    assert collection.session is newer
    assert not collection.renew()
    assert collection.faults[THRESHOLDS] == ""
    assert "error" not in collection.facts()


def test_both_may_be_newer_at_once(library: Library, collection: Collection) -> None:
    library.newer, library.with_thresholds = Library(version=2), Thresholds(0.1, 0.2)
    assert collection.renew()
    assert collection.session.version == 2


Add = Callable[..., None]


@pytest.fixture
def add(tmp_path: Path, fake_models: None) -> Add:
    def write(*passages: Passage) -> None:
        target = Session.create(load_settings(), tmp_path / "index")
        ingest(target.index, passages, target.analyser)
        target.close()

    return write


@pytest.fixture
def real(tmp_path: Path, add: Add) -> Iterator[Collection]:
    made = Collection("c", lambda: Session.open(load_settings(), tmp_path / "index"))
    yield made
    made.close()


class FakeDeriving:
    started = 0
    is_running = False

    def __init__(self, *given: object) -> None:
        FakeDeriving.started += 1

    def is_alive(self) -> bool:
        return self.is_running

    def kill(self) -> None:
        self.is_running = False

    def join(self) -> None:
        assert not self.is_running


def test_a_later_base_is_made_once_one_is_due(
    library: Library, collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wye.service.collections, "start_deriving", FakeDeriving)
    FakeDeriving.started = 0
    library.settings = load_settings()

    def started(due: int) -> int:
        library.changed = due
        collection.renew()
        return FakeDeriving.started

    assert started(0) == 0
    monkeypatch.setattr(FakeDeriving, "is_running", True)
    assert started(5) == started(50) == 1, "it is under way"
    monkeypatch.setattr(FakeDeriving, "is_running", False)
    assert started(10) == 1, "it could not be kept"
    assert started(11) == 2
    assert started(0) == 2
    assert started(5) == 3
    assert started(0) == 3
    library.quiet = 60.0
    assert started(5) == 3, "it was written a moment ago"
    collection._changed_at -= 61
    assert started(5) == 4
    collection.close()


def test_a_process_that_cannot_be_started_is_told_and_tried_again(
    library: Library, collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*given: object) -> None:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    errors: list[str] = []
    monkeypatch.setattr(LOG, "error", lambda event, extra: errors.append(extra["of"]))
    library.settings, library.changed = load_settings(), 5
    with monkeypatch.context() as patched:
        patched.setattr(wye.service.collections, "start_deriving", refuse)
        library.with_thresholds = Thresholds(0.1, 0.2)
        assert collection.renew(), "what else is newer is used"
        assert not collection.renew()
    assert errors == [BASE], "once, not at every look"
    assert "no process can be started" in str(collection.facts()["error"])
    monkeypatch.setattr(wye.service.collections, "start_deriving", FakeDeriving)
    FakeDeriving.started = 0
    assert not collection.renew()
    assert (FakeDeriving.started, collection.error) == (1, "")


ADA, BABBAGE = Passage("a", "Ada", "Ada met Babbage."), Passage("b", "Babbage", "He built.")


def test_a_real_index_is_followed_while_it_is_searched(add: Add, real: Collection) -> None:
    add(ADA)
    real.load()
    before = real.session
    assert not real.renew()
    with pytest.MonkeyPatch.context() as patch:  # a poll opens nothing while nothing is written
        patch.setattr(PassageStore, "open", lambda *_: pytest.fail("opened"))
        assert not real.renew()
    add(BABBAGE)
    assert before.snapshot.passages(["b"]) == {}
    assert real.renew()
    after = real.session
    assert (before.count, after.count) == (1, 2)
    assert before.snapshot.passages(["a"])["a"].text == after.snapshot.passages(["a"])["a"].text
    for session, ids in ((before, {"a"}), (after, {"a", "b"})):
        for route in (Route.DENSE, Route.GRAPH):
            (reply,) = session.gateway.search(["Babbage"], Ask(route, 9))
            assert {hit.id for hit in reply.ranking.hits} == ids


def test_what_is_deleted_while_a_process_loads_is_in_none_of_its_replies(
    add: Add, real: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(ADA, BABBAGE)
    counts = []

    def warm_up(session: Session, _: Route) -> None:
        counts.append(session.count)
        remove(session.folder, Removal(ids=("b",)))

    monkeypatch.setattr(real, "_warm_up", warm_up)
    real.load()
    assert (counts[0], real.session.count) == (2, 1)


def test_a_version_that_is_searched_no_longer_takes_no_memory(add: Add, real: Collection) -> None:
    add(ADA)
    real.load()
    session = real.session
    assert isinstance(session, Session)
    former = [weakref.ref(part) for part in (session.snapshot, session.snapshot.graph)]
    del session
    add(BABBAGE)
    gc.disable()
    try:
        assert real.renew()
        assert [part() for part in former] == [None, None]
    finally:
        gc.enable()
    (reply,) = real.session.gateway.search(["Ada"], Ask(Route.GRAPH, 9))
    assert len(reply.ranking.hits) == 2


def test_an_error_ends_neither_the_following_of_keys_nor_that_of_versions(
    serve: Serve, library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Collection) -> bool:
        raise RuntimeError("can't start new thread")

    file = tmp_path / "keys.txt"
    (secret, key), (other, stays) = (new_key(name, [Scope.WRITE]) for name in ("ada", "bob"))
    file.write_text(f"{key}\n{stays}\n")
    client = serve(library, keys_file=file)
    client.headers["x-api-key"] = other

    def version() -> int:
        (facts,) = client.get("/ready").json()["collections"]
        return int(facts["index_version"])

    with monkeypatch.context() as patched:
        patched.setattr(Collection, "renew", broken)
        library.newer = Library(version=2)
        (tmp_path / "next.txt").write_text(f"{stays}\n")
        (tmp_path / "next.txt").replace(file)  # never empty
        until(lambda: client.get("/v1/jobs", headers={"x-api-key": secret}).status_code == 401)
        assert version() == 1
    until(lambda: version() == 2)


def test_a_deletion_by_another_process_is_followed_within_a_second(
    start: Serve, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[bool] = []
    renew = Collection.renew

    def noted(self: Collection) -> bool:
        looks.append(renew(self))
        return looks[-1]

    def takes(passage: Passage) -> float:
        """Seconds until a deletion that comes right after a look is followed."""
        last, body = len(looks), {"question": passage.title, "route": "lexical"}
        until(lambda: len(looks) > last)
        assert client.post("/v1/retrieve", json=body).json()["passages"][0]["id"] == passage.id
        begun = time.monotonic()
        remove(folder, Removal(ids=(passage.id,)))
        until(lambda: passage.id not in client.post("/v1/retrieve", json=body).text)
        return time.monotonic() - begun

    monkeypatch.setattr(Collection, "renew", noted)
    client = start(ServeSettings())
    # A busy machine may be slower for one of them.
    assert min(map(takes, BRIDGES)) < 1


GRAPH = SearchParams(Route.GRAPH, 2, collection="c")
AUTO = SearchParams(Route.AUTO, 2, collection="c")
STEPS = SearchParams(Route.STEPS, 2, collection="c")


def searcher(library: Library, **options: Any) -> Collection:  # noqa: ANN401
    collection = Collection("c", lambda: library, **options)
    collection.load()
    library.batches.clear()
    return collection


def entries(*texts: str, seconds: float = 60) -> list[Entry[QueuedQuestion]]:
    now = monotonic()
    return [Entry(QueuedQuestion(text, "id"), now + seconds) for text in texts]


def replies(results: Sequence[object]) -> list[SearchResult]:
    assert all(isinstance(result, SearchResult) for result in results), results
    return [result for result in results if isinstance(result, SearchResult)]


def test_filters_are_compared_as_written() -> None:
    one, true, again = (
        SearchParams(Route.DENSE, 5, {"type": "eq", "key": "y", "value": value}, collection="c")
        for value in (1, True, 1)
    )
    assert one != true
    assert one == again
    assert hash(one) == hash(again)
    assert SearchParams(Route.DENSE, 5, collection="c") != one
    # Only of a request's own filter is said which keys passages have.
    asked = {"type": "and", "filters": [{"type": "eq", "key": "y", "value": 1}]}
    fixed = Fixed({"type": "eq", "key": "y", "value": 1})
    of_request, of_key = (
        SearchParams(Route.DENSE, 5, each, collection="c") for each in (asked, fixed)
    )
    assert of_request != of_key


def test_a_batch_is_one_search(library: Library) -> None:
    results = replies(searcher(library).work(GRAPH, entries("the river", "the bridge")))
    assert library.batches == [(Route.GRAPH, ["the river", "the bridge"])]
    assert [result.reply.question for result in results] == ["the river", "the bridge"]
    assert {*results[0].passages} == {hit.id for hit in results[0].reply.ranking.hits}
    assert results[0].degraded == ""


def test_one_bad_question_takes_no_other_with_it(library: Library) -> None:
    library.poison = "xyzzy"
    texts = ["the river", "say xyzzy", "the bridge", "the tower", "london"]
    results = replies(searcher(library).work(GRAPH, entries(*texts)))
    assert [result.reply.question for result in results] == texts
    assert [bool(result.degraded) for result in results] == [False, True, False, False, False]


def test_what_goes_in_steps_is_for_later_where_it_has_company(library: Library) -> None:
    library.later = "later"
    engine = searcher(library)
    (alone,) = replies(engine.work(AUTO, entries("later alone")))
    assert alone.reply.question == "later alone"
    together = entries("the river", "later one", "the bridge", "later two")
    first, second, third, fourth = engine.work(AUTO, together)
    assert isinstance(second, Later)
    assert isinstance(fourth, Later)
    assert second.finish is fourth.finish
    assert second.weight == 3 * token_count("later one")
    assert [each.reply.question for each in replies([first, third])] == ["the river", "the bridge"]
    for later, entry in ((fourth, together[3]), (second, together[1])):
        (result,) = replies(later.finish([entry]))
        assert result.entry is entry
        assert result.reply.question == entry.item.text
        assert result.reply == replies(engine.work(AUTO, entries(entry.item.text)))[0].reply


def test_what_fails_in_steps_is_answered_over_dense(library: Library) -> None:
    library.later = "later"
    engine, together = searcher(library), entries("the river", "later")
    library.failing = {Route.STEPS}
    _, later = engine.work(AUTO, together)
    assert isinstance(later, Later)
    (result,) = replies(later.finish(together[1:]))
    assert result.degraded == "degraded: auto failed (RuntimeError); dense instead"


def test_a_mistake_of_the_user_is_no_reason_to_degrade(library: Library) -> None:
    params = SearchParams(Route.GRAPH, 2, {"type": "like"}, collection="c")
    results = searcher(library).work(params, entries("a", "b"))
    assert [type(result) for result in results] == [FilterError, FilterError]


def test_what_would_be_late_goes_over_dense_and_says_so(library: Library) -> None:
    slow = searcher(library)
    library.seconds = {Route.GRAPH: 0.2}
    slow.work(GRAPH, entries("to learn from"))
    library.batches.clear()
    hasty, patient = entries("hasty", seconds=0.05), entries("patient")
    first, second = replies(slow.work(GRAPH, [*hasty, *patient]))
    assert library.batches == [(Route.DENSE, ["hasty"]), (Route.GRAPH, ["patient"])]
    assert first.degraded.startswith("degraded: graph takes about ")
    assert first.degraded.endswith("more than the deadline leaves; dense instead")
    assert second.degraded == ""


def test_steps_are_to_stop_in_time_and_not_replaced_for_their_slowness(library: Library) -> None:
    slow = searcher(library)
    library.seconds = {Route.STEPS: 0.2}
    slow.work(STEPS, entries("to learn from"))
    library.batches.clear()
    library.allowed_ms.clear()
    (result,) = replies(slow.work(STEPS, entries("hasty", seconds=0.1)))
    assert (result.reply.route, result.degraded) == (Route.STEPS, "")
    slow.work(STEPS, entries("one", seconds=60) + entries("two", seconds=8))
    slow.work(GRAPH, entries("another route"))
    hasty, both, other = library.allowed_ms
    assert hasty is not None
    assert both is not None
    assert (0 < hasty <= 50, 3_000 < both <= 4_000) == (True, True)
    assert other is None


def test_steps_are_replaced_where_not_even_fusion_is_in_time(library: Library) -> None:
    slow = searcher(library)
    library.seconds = {Route.FUSION: 0.2}
    slow.work(SearchParams(Route.FUSION, 2, collection="c"), entries("to learn from"))
    (late,) = replies(slow.work(STEPS, entries("hasty", seconds=0.05)))
    assert (late.reply.route, late.degraded[:9]) == (Route.DENSE, "degraded:")


def test_a_route_that_was_slow_is_tried_again(library: Library) -> None:
    now = [100.0]
    slow = searcher(library, clock=lambda: now[0])
    library.seconds = {Route.GRAPH: 0.1}
    slow.work(GRAPH, [Entry(QueuedQuestion("learn", "id"), now[0] + 60)])
    library.seconds = {}

    def hasty() -> Route:
        entry = Entry(QueuedQuestion("hasty", "id"), now[0] + 0.05)
        return replies(slow.work(GRAPH, [entry]))[0].reply.route

    assert hasty() == Route.DENSE
    now[0] += 60
    assert hasty() == Route.GRAPH


def test_a_cut_batch_goes_by_one_policy(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thresholds that are replaced while one question fails its neighbours are for the next."""
    collection = Collection("c", lambda: library)
    collection.load()
    library.poison = "poison"

    def decide(session: Library, questions: Sequence[str], ask: Ask) -> list[Decision]:
        if collection.session is library:
            library.with_thresholds = Thresholds(0.0, 0.1)
            assert collection.renew()
        return decided(session, questions, ask)

    decided = Library.decide
    monkeypatch.setattr(Library, "decide", decide)
    for limits in (Thresholds(0.4, 0.7), Thresholds(0.0, 0.1)):
        results = replies(collection.work(AUTO, entries("a river", "poison", "why")))
        decisions = [result.reply.decision for result in results]
        assert {each.thresholds for each in decisions if each is not None} == {limits}


def test_what_follows_is_encoded_ahead_where_vectors_are_wanted(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[Sequence[str]] = []
    monkeypatch.setattr(HashAnalyser, "encode_ahead", lambda _, texts: begun.append(texts))
    engine = searcher(library)
    for params in (GRAPH, SearchParams(Route.LEXICAL, 2, collection="c"), AUTO):
        engine.begin(params, entries("the river", "the bridge"))
    assert begun == [["the river", "the bridge"]] * 2
