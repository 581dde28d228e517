from collections.abc import Sequence
from time import monotonic
from typing import Any

import pytest

from tests.hashing import HashAnalyser
from tests.service.fakes import Library
from wye.backends.errors import FilterError
from wye.backends.filters import Fixed
from wye.featurizer.analyser import token_count
from wye.router.types import Ask, Decision, Route, Thresholds
from wye.service.batching import Entry, Later
from wye.service.collections import Collection, QueuedQuestion, SearchParams, SearchResult

GRAPH = SearchParams(Route.GRAPH, 2, collection="c")
AUTO = SearchParams(Route.AUTO, 2, collection="c")


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


def test_steps_are_to_stop_in_time_and_are_not_replaced_for_their_own_slowness(
    library: Library,
) -> None:
    slow = searcher(library)
    library.seconds = {Route.STEPS: 0.2}
    steps = SearchParams(Route.STEPS, 2, collection="c")
    slow.work(steps, entries("to learn from"))
    library.batches.clear()
    library.allowed_ms.clear()
    (result,) = replies(slow.work(steps, entries("hasty", seconds=0.1)))
    assert (result.reply.route, result.degraded) == (Route.STEPS, "")
    slow.work(steps, entries("one", seconds=60) + entries("two", seconds=8))
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
    (late,) = replies(
        slow.work(SearchParams(Route.STEPS, 2, collection="c"), entries("hasty", seconds=0.05))
    )
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


def test_a_batch_that_is_cut_up_goes_by_one_policy(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
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
