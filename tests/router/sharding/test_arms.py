"""Shards together find what one index finds, and what is left of them when one is lost."""

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np
import pytest

import router.sharding.graph
import router.sharding.shard
from backends.errors import FilterError
from backends.filters import parse_filter
from backends.store.index import PassageStore
from backends.store.ingest import ingest
from backends.types import Passage, Ranking
from benchmarks.hashing import FakeAnalyser, HashAnalyser
from featurizer.analyser import AnalyserSettings
from router.batch import Batch
from router.errors import ShardError
from router.gateway import Gateway
from router.reading import QuestionReading
from router.session import Session, Snapshot
from router.settings import Settings, load_settings
from router.sharding.arms import ShardedArms
from router.sharding.calls import LATE, LOST, Call, Shards
from router.sharding.shard import Shard
from router.types import Reply, Route

pytestmark = pytest.mark.usefixtures("fake_models")
NAMES = [f"Name{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
QUESTIONS = ["Who met Namea and Nameq?", "Where is Namez with Nameb?", "nothing that is named here"]


class Wire:
    """A shard behind JSON, that can be slow, and lost at some calls; it counts its messages."""

    def __init__(self, name: str, shard: Shard) -> None:
        self.name = name
        self.shard = shard
        self.is_lost = False
        self.fails: set[str] = set()
        self.delay = 0.0
        self.count = 0

    def call(self, calls: Sequence[Call]) -> list[Any]:
        self.count += 1
        if {name for name, _ in calls} & self.fails:
            self.is_lost = True
        if self.is_lost:
            raise ShardError("is lost")
        sleep(self.delay)
        found = [self.shard.call(*one) for one in json.loads(json.dumps(calls))]
        answers: list[Any] = json.loads(json.dumps(found))
        return answers

    def close(self) -> None:
        self.is_lost = True


def corpus(count: int) -> list[Passage]:
    """Passages whose every name is tagged, so that shards lose no link."""
    draw = random.Random(7)
    return [
        Passage(
            f"p{number:03}",
            NAMES[number] if number < len(NAMES) else "",
            " ".join(f"{a} met {b} by {c}." for a, b, c in (draw.sample(NAMES, 3) for _ in "123")),
            # Of three shards, one has "n" as numbers, one as text, and one lacks it.
            {"even": number % 2 == 0}
            | ({} if number % 3 == 2 else {"n": (number, f"{number}")[number % 3]}),
        )
        for number in range(count)
    ]


def made(folder: Path, passages: Sequence[Passage]) -> Path:
    analyser = HashAnalyser()
    pins = FakeAnalyser(AnalyserSettings()).fingerprint
    ingest(
        PassageStore.create(folder, analyser.dimension, pins),
        passages,
        FakeAnalyser(AnalyserSettings()),
    )
    return folder


@pytest.fixture
def settings() -> Settings:
    return load_settings()


@pytest.fixture
def whole(tmp_path: Path, settings: Settings) -> Iterator[Session]:
    with Session.open(settings, made(tmp_path / "whole", corpus(60))) as session:
        yield session


@pytest.fixture
def wires(tmp_path: Path, settings: Settings) -> list[Wire]:
    folders = [made(tmp_path / f"{n}", corpus(60)[n::3]) for n in range(3)]
    snapshots = [Snapshot(PassageStore.open(folder), settings) for folder in folders]
    return [Wire(f"s{n}", Shard(snapshot)) for n, snapshot in enumerate(snapshots)]


@pytest.fixture
def arms(wires: list[Wire], settings: Settings) -> Iterator[ShardedArms]:
    shards = Shards(wires)
    yield ShardedArms(shards, settings)
    shards.close()


Ask = Callable[..., list[Ranking]]


@pytest.fixture
def ask(arms: ShardedArms, whole: Session, settings: Settings) -> Ask:
    gateway = Gateway(lambda: arms, lambda: whole.analyser, settings.fusion)

    def search(route: Route, filter_: object | None = None, k: int = 10) -> list[Ranking]:
        replies: list[Reply] = gateway.search(QUESTIONS, route, k, filter_)
        return [reply.ranking for reply in replies]

    return search


def same(ours: Sequence[Ranking], replies: Sequence[Reply], tolerance: float) -> None:
    for own, reply in zip(ours, replies, strict=True):
        expected = reply.ranking
        assert (own.candidates, own.degraded) == (expected.candidates, expected.degraded)
        scores = {hit.id: hit.score for hit in expected.hits}
        found = {hit.id: hit.score for hit in own.hits}
        assert found.keys() == scores.keys()
        near = [found[id_] for id_ in scores]
        np.testing.assert_allclose(near, [*scores.values()], rtol=tolerance, atol=1e-7)


EVEN = {"type": "eq", "key": "even", "value": True}
FILTERS = [
    None,
    EVEN,
    {"type": "or", "filters": [EVEN, {"type": "gt", "key": "n", "value": "4"}]},
]


def test_a_filter_that_nothing_on_any_shard_can_pass_is_refused(
    ask: Ask, wires: list[Wire]
) -> None:
    filter_ = {**EVEN, "key": "evn"}
    with pytest.raises(FilterError, match="Did you mean even"):
        ask(Route.LEXICAL, filter_)
    with pytest.raises(FilterError, match="but the values of 'even' are booleans"):
        ask(Route.LEXICAL, {**EVEN, "value": "true"})
    wires[1].is_lost = True  # it might have the key
    assert not any(ranking.hits for ranking in ask(Route.LEXICAL, filter_))


@pytest.mark.parametrize("filter_", FILTERS)
@pytest.mark.parametrize("route", [Route.DENSE, Route.LEXICAL])
def test_text_arms_are_those_of_one_index(
    ask: Ask, whole: Session, route: Route, filter_: object
) -> None:
    same(ask(route, filter_), whole.gateway.search(QUESTIONS, route, 10, filter_), 1e-6)


@pytest.mark.parametrize("filter_", FILTERS)
def test_the_graph_is_that_of_one_index_where_no_link_is_lost_and_all_is_exchanged(
    ask: Ask, whole: Session, filter_: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"ROUNDS": 20, "EXCHANGED": 10_000, "COMPARED": 10_000}.items():
        monkeypatch.setattr(router.sharding.graph, name, value)
    same(
        ask(Route.GRAPH, filter_, 99),
        whole.gateway.search(QUESTIONS, Route.GRAPH, 99, filter_),
        0.02,
    )


@pytest.mark.parametrize("filter_", FILTERS)
def test_the_graph_explains_itself_as_that_of_one_index(
    arms: ShardedArms,
    whole: Session,
    settings: Settings,
    filter_: object,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in {"ROUNDS": 20, "EXCHANGED": 10_000, "COMPARED": 10_000}.items():
        monkeypatch.setattr(router.sharding.graph, name, value)
    gateway = Gateway(lambda: arms, lambda: whole.analyser, settings.fusion)
    moved = 0
    for own, other in zip(
        gateway.search(QUESTIONS, Route.GRAPH, 99, filter_, explain=True),
        whole.gateway.search(QUESTIONS, Route.GRAPH, 99, filter_, explain=True),
        strict=True,
    ):
        found, expected = own.explanation, other.explanation
        assert found is not None
        assert expected is not None
        assert found.seeds == expected.seeds
        entities, reached = ({one.entity: one for one in of.entities} for of in (found, expected))
        assert entities.keys() == reached.keys()
        for name, one in entities.items():
            bridge, its = one.bridge, reached[name].bridge
            assert replace(one, value=0, weight=0, bridge=None) == replace(
                reached[name], value=0, weight=0, bridge=None
            )
            assert (one.value, one.weight) == pytest.approx(
                (reached[name].value, reached[name].weight), rel=1e-5
            )
            assert (bridge is None) == (its is None)
            if bridge is not None and its is not None:  # which of equally near ones is chance
                assert bridge.similarity == pytest.approx(its.similarity, rel=1e-5)
                assert bridge.sentence in whole.passages([bridge.passage])[bridge.passage].text
                assert bridge.source in reached
        passages = {one.id: one for one in expected.passages}
        assert [one.id for one in found.passages] == [hit.id for hit in own.ranking.hits]
        for note in found.passages:
            assert {*note.entities} == {*passages[note.id].entities}
            assert note.named_in == passages[note.id].named_in
            moved += bool(note.named_in)
            assert (note.prior, note.pagerank) == pytest.approx(
                (passages[note.id].prior, passages[note.id].pagerank), rel=0.02, abs=1e-7
            )
    assert moved > 5


def test_an_explanation_is_one_of_what_is_left(
    arms: ShardedArms, wires: list[Wire], whole: Session, settings: Settings
) -> None:
    wires[1].fails = {"explain"}
    gateway = Gateway(lambda: arms, lambda: whole.analyser, settings.fusion)
    replies = gateway.search(QUESTIONS, Route.GRAPH, 99, explain=True)
    told = [reply.explanation for reply in replies if reply.explanation]
    bridges = [entity.bridge for one in told for entity in one.entities if entity.bridge]
    assert {bridge.sentence == LOST for bridge in bridges} == {True, False}
    assert len(told[-1].passages) == 40
    assert not any(vars(wire.shard)["_walks"] for wire in (wires[0], wires[2]))


def test_a_few_rounds_give_nearly_the_same(ask: Ask, whole: Session) -> None:
    for own, reply in zip(
        ask(Route.FUSION), whole.gateway.search(QUESTIONS, Route.FUSION, 10), strict=True
    ):
        first = [{hit.id for hit in ranking.hits[:5]} for ranking in (own, reply.ranking)]
        assert len(first[0] & first[1]) >= 4


def test_a_name_that_a_filter_hides_does_not_hide_a_shorter_one(wires: list[Wire]) -> None:
    shard, text = wires[0].shard, ["Who", "met", NAMES[0]]
    ((link,),) = shard.names([text])
    assert link[2] == NAMES[0].lower()
    assert shard.names([text], EVEN) == [[link]]
    assert shard.names([text], {"type": "eq", "key": "even", "value": "never"}) == [[]]


def test_keys_are_found_while_those_that_were_found_before_are_forgotten(
    wires: list[Wire], monkeypatch: pytest.MonkeyPatch
) -> None:
    shard = wires[0].shard
    monkeypatch.setattr(router.sharding.shard, "_KNOWN", 2)
    asked = [name.lower() for name in NAMES[:4]]
    expected = [shard.entities([key]) for key in asked]
    for _ in range(2):
        assert shard.entities([*asked, "unheard of"])[:4] == [one for (one,) in expected]


def test_what_is_left_answers_when_one_is_lost(
    ask: Ask, arms: ShardedArms, wires: list[Wire]
) -> None:
    before = ask(Route.DENSE, k=99)[0]
    wires[1].is_lost = True
    for route in (Route.DENSE, Route.LEXICAL, Route.GRAPH, Route.FUSION):
        found = ask(route, k=99)[0]
        assert {hit.id for hit in found.hits} <= {p.id for n in (0, 2) for p in corpus(60)[n::3]}
        assert found.hits
    assert arms.shards.missing == {"s1": "is lost"}
    assert len(arms) == 40
    wires[1].is_lost = False
    assert arms.shards.revive()
    assert ask(Route.DENSE, k=99)[0] == before
    assert not arms.shards.revive()
    for wire in wires:
        wire.is_lost = True
    with pytest.raises(ShardError, match="No shard answers: s0 is lost; s1 is lost; s2 is lost"):
        ask(Route.DENSE)


def test_one_lost_in_the_midst_of_a_walk(ask: Ask, wires: list[Wire]) -> None:
    wires[2].fails = {"masses"}
    assert ask(Route.GRAPH)[0].hits
    assert not vars(wires[0].shard)["_walks"]


def test_passages_and_what_is_asked_of_them(arms: ShardedArms, whole: Session) -> None:
    ids = [passage.id for passage in corpus(60)[:7]]
    assert arms.fetch(ids) == whole.passages(ids)
    assert arms.texts(ids) == whole.snapshot.texts(ids)
    (ours,), (theirs,) = (each.words_in(QUESTIONS[:1], [ids]) for each in (arms, whole.snapshot))
    assert [(w.term, w.titles, w.texts) for w in ours] == [
        (w.term, w.titles, w.texts) for w in theirs
    ]
    np.testing.assert_allclose([w.weight for w in ours], [w.weight for w in theirs])
    vector = np.ones(8, np.float32)
    found = [*arms.passages.names("p003", vector, 2)]
    expected = [*whole.snapshot.passages.names("p003", vector, 2)]
    assert [name for name, _ in found] == [name for name, _ in expected]
    texts = (
        [of.passages.sentence(row) for _, row in names if row >= 0]
        for of, names in ((arms, found), (whole.snapshot, expected))
    )
    assert next(texts) == next(texts)
    assert arms.allowed(None) is None
    assert parse_filter(FILTERS[1])
    with pytest.raises(ShardError, match="is not available on a sharded index"):
        arms.further(Route.CLUE)


@pytest.mark.parametrize("filter_", FILTERS)
def test_questions_of_a_batch_share_calls_and_have_the_answers_of_each_alone(
    arms: ShardedArms,
    wires: list[Wire],
    whole: Session,
    filter_: object,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(router.sharding.shard, "WALKS", 16)
    texts = [f"Who met {a} and {b}?" for a, b in zip(NAMES, NAMES[5:], strict=False)] + QUESTIONS

    def found(questions: Sequence[str]) -> tuple[list[tuple[object, ...]], int]:
        before = wires[0].count
        reading = QuestionReading(questions, lambda: whole.analyser)
        own = ShardedArms(arms.shards, load_settings())
        batch, places = Batch(own, reading, filter_), range(len(questions))
        graph = batch.results((Route.GRAPH, Route.DENSE), places, 10)
        covered = batch.coverage(places)
        return [*zip(graph, covered, batch.hybrid(places, 10), strict=True)], (
            wires[0].count - before
        )

    together, calls = found(texts)
    alone = [found([text]) for text in texts]
    assert repr(together) == repr([own for (own,), _ in alone])
    assert calls < 2 * max(count for _, count in alone)


def test_no_question_waits_longer_for_a_slow_shard_than_it_has_time(
    arms: ShardedArms, wires: list[Wire], whole: Session, settings: Settings
) -> None:
    seconds, wires[1].delay = 3.0, 0.8
    started = monotonic()
    own = arms.within(started + seconds)
    gateway = Gateway(lambda: own, lambda: whole.analyser, settings.fusion)
    replies = gateway.search(QUESTIONS, Route.GRAPH, 99)
    assert monotonic() - started < seconds
    assert {len(reply.ranking.hits) for reply in replies} == {40}
    assert own.shards.lost == own.shards.missing == {"s1": LATE}
    # The next question has time for it.
    wires[1].delay = 0
    assert not arms.shards.missing
    own = arms.within(monotonic() + 20)
    assert len(gateway.search(QUESTIONS[:1], Route.DENSE, 99)[0].ranking.hits) == 60
    assert not own.shards.lost
    # After its time there is nothing to be asked.
    own = arms.within(monotonic())
    with pytest.raises(ShardError, match=f"No shard answers: s0 {LATE}; s1 {LATE}"):
        gateway.search(QUESTIONS, Route.DENSE, 99)


def test_one_that_is_there_again_takes_no_part_in_a_batch_that_it_was_left_out_of(
    arms: ShardedArms, wires: list[Wire]
) -> None:
    shards = arms.within(monotonic() + 60).shards
    for is_lost in (True, False):
        wires[2].is_lost = is_lost
        assert arms.shards.revive()
        assert [*shards.ask("frequencies", terms=["namea"])] == ["s0", "s1"]
        assert shards.lost == {"s2": "is lost"}
    assert not arms.shards.missing


def test_what_a_lost_shard_has_is_a_placeholder(arms: ShardedArms, wires: list[Wire]) -> None:
    wires[1].is_lost = True
    assert arms.texts(["p001", "p000"])[0] == ("", LOST)
    (words,) = arms.words_in(["Namea met Nameb"], [["p001", "p000"]])
    assert not any((word.titles | word.texts) & 1 for word in words)
    assert any(word.texts & 2 for word in words)
