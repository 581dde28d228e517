from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import pytest

from tests.hashing import HashAnalyser
from tests.router.fakes import ByLength, FakeAnalyser, FakeArms, FakeGraph, FakeModels
from wye.backends import dense
from wye.backends.dense import DenseSettings
from wye.backends.lexical import LexicalRetriever
from wye.backends.store.index import PassageStore
from wye.backends.store.ingest import ingest
from wye.backends.trigraph import retriever as trigraph
from wye.backends.trigraph.seeds import SeedFinder
from wye.backends.types import Float32, Float64, Passage
from wye.featurizer.types import EntityMention, NounPhrase, Parse
from wye.router.batch import Batch
from wye.router.evidence import COLUMNS, TEXT_SIGNALS
from wye.router.fusion import FusionSettings
from wye.router.gateway import Gateway
from wye.router.settings import Settings
from wye.router.snapshot import Snapshot
from wye.router.types import Ask, Route

QUESTIONS = ["one", "two", "three"]
HASHES = HashAnalyser()
LIBRARY = (
    Passage("mostar", "Stari Most", "Stari Most spans the Neretva. It is in Mostar."),
    Passage("neretva", "Neretva", "The Neretva is a river. It flows into the Adriatic."),
    Passage("tower", "Tower Bridge", "Tower Bridge crosses the Thames in London."),
)


@pytest.fixture
def arms() -> FakeArms:
    return FakeArms(10)


@pytest.fixture
def batch(arms: FakeArms) -> Batch:
    return Batch(arms.snapshot, FakeModels(), QUESTIONS, FusionSettings(), ahead=[Route.GRAPH])


def test_what_was_found_is_not_sought_again_unless_deeper(arms: FakeArms, batch: Batch) -> None:
    assert [len(r.hits) for r in batch.search(Route.DENSE, [0, 2], 5)] == [5, 5]
    assert [len(r.hits) for r in batch.search(Route.DENSE, [2, 1, 0], 3)] == [3, 3, 3]
    assert [len(r.hits) for r in batch.search(Route.DENSE, [0], 7)] == [7]
    batch.search(Route.LEXICAL, [0], 1)
    assert arms.log == [
        ("dense", ["one", "three"], 5),
        ("dense", ["two"], 3),
        ("dense", ["one"], 7),
        ("lexical", ["one"], 1),
    ]
    assert {name: len(r.hits) for name, r in batch.arms_of(0).items()} == {"dense": 7, "lexical": 1}
    assert batch.search(Route.DENSE, [], 9) == []


def test_a_forecast_walks_no_graph_and_its_list_serves_again(arms: FakeArms, batch: Batch) -> None:
    found = batch.results([Route.DENSE], [2, 0], 6, seeds=True)
    assert [one.query.text for one in found] == ["three", "one"]
    assert [{*one.rankings} for one in found] == [{Route.DENSE}] * 2
    assert [seed.mention for one in found for seed in one.seeds] == ["three", "one"]
    again = batch.results([Route.DENSE, Route.LEXICAL], [0], 6)
    assert again[0].rankings[Route.DENSE] is found[1].rankings[Route.DENSE]
    assert [name for name, _, _ in arms.log] == ["dense", "lexical"]


def test_time_is_that_of_these_questions_alone(batch: Batch) -> None:
    batch.search(Route.DENSE, [1], 2)
    seconds = [{*own} for own in batch.seconds]
    assert seconds == [{"encoding"}, {"encoding", "dense"}, {"encoding"}]


def test_only_what_the_graph_was_asked_is_explained(batch: Batch) -> None:
    (ranking,) = batch.search(Route.GRAPH, [0], 3)
    assert batch.explain(0, ranking) is not None
    assert batch.explain(1, ranking) is None
    assert [("explaining" in seconds) for seconds in batch.seconds[:2]] == [True, False]


class Hashed(FakeAnalyser):
    """Gives questions vectors of the library's kind."""

    def encode_questions(self, texts: Sequence[str]) -> Float32:
        return HASHES.encode_surfaces(texts)


class ToFusion(ByLength):
    """Looks at the corpus, and finds every question middling."""

    @property
    def needs(self) -> tuple[str, ...]:
        return ("dense_best", "seed_count", "word_length_max")

    def score(self, features: Float64) -> list[float]:
        return [0.5] * len(features)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("route", [Route.AUTO, Route.FUSION, Route.GRAPH])
@pytest.mark.parametrize("filter_", [None, {"type": "ne", "key": "topic", "value": "opera"}])
@pytest.mark.parametrize("kind", ["exact", "compressed"])
def test_nothing_is_computed_twice_for_a_question(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    count: int,
    route: Route,
    filter_: object,
    kind: Literal["exact", "compressed"],
) -> None:
    index = PassageStore.create(tmp_path, HASHES.dimension, HASHES.fingerprint)
    ingest(index, LIBRARY, HASHES)
    settings = Settings(dense=DenseSettings(kind=kind))
    snapshot = Snapshot.open(index.newest(), settings)
    gateway = Gateway(snapshot, FakeModels(Hashed(), ToFusion()), FusionSettings())
    calls: Counter[str] = Counter()

    def counted(owner: Any, name: str, call: str = "") -> None:  # noqa: ANN401
        original = getattr(owner, name)

        def wrapper(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            calls[call or name] += len(args[1]) if call else 1
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, wrapper)

    counted(SeedFinder, "find")
    if kind == "exact":
        counted(dense, "products_of_all", "similarities")
    else:
        counted(dense.DenseRetriever, "_proposed")
    counted(LexicalRetriever, "score")
    counted(trigraph, "bridge")
    counted(trigraph, "walk")
    counted(trigraph, "FilteredGraph")
    gateway.search(["Where is Stari Most?"], Ask(Route.FUSION, 3))  # builds the arms
    calls.clear()
    questions = ["Where is Stari Most?", "Does the Neretva reach Mostar?", "Who crosses London?"]
    replies = gateway.search(questions[:count], Ask(route, 3, filter_, explain=True))
    assert all(reply.explanation and reply.explanation.seeds for reply in replies)
    similarities = "similarities" if kind == "exact" else "_proposed"
    each = ("find", similarities, "score", "bridge", "walk")
    assert calls == {**dict.fromkeys(each, count), "FilteredGraph": 1}


@pytest.mark.parametrize(
    ("question", "is_parsed"), [("Where is Stari Most?", False), ("Is it there?", True)]
)
def test_a_question_whose_words_name_an_entity_is_not_parsed_for_the_graph(
    tmp_path: Path, question: str, *, is_parsed: bool
) -> None:
    index = PassageStore.create(tmp_path, HASHES.dimension, HASHES.fingerprint)
    ingest(index, LIBRARY, HASHES)
    snapshot, words = Snapshot.open(index.newest(), Settings()), Hashed()
    (reply,) = Gateway(snapshot, FakeModels(words), FusionSettings()).search(
        [question], Ask(Route.FUSION, 3)
    )
    assert ("parsing" in reply.seconds) == is_parsed


T = TypeVar("T")
TEXTS = ["Oslo beside Oslo", "a copper lamp", "who"]
EVERYONE = range(3)
NAMED = {"Oslo beside Oslo": ["Oslo", "Oslo", "Rome"]}
PHRASES = {"Oslo beside Oslo": ["Oslo"], "a copper lamp": ["copper lamp", "copper lamp"]}


class Naming(FakeAnalyser):
    """Finds the names and noun phrases above."""

    def parse_questions(self, texts: Sequence[str], *, tokens: bool = False) -> list[Parse]:
        return [
            replace(
                parse,
                entities=tuple(EntityMention(n, "", (0, 1)) for n in NAMED.get(parse.text, [])),
                phrases=tuple(NounPhrase(n, (0, 1)) for n in PHRASES.get(parse.text, [])),
            )
            for parse in super().parse_questions(texts, tokens=tokens)
        ]

    def encode_surfaces(self, surfaces: Sequence[str]) -> Float32:
        self.calls.append((" ".join(surfaces), len(surfaces)))
        return np.full((len(surfaces), 2), 7, np.float32)


@pytest.fixture
def models() -> Naming:
    return Naming()


@pytest.fixture
def named(models: Naming) -> Batch:
    return Batch(FakeArms(4).snapshot, FakeModels(models), TEXTS, FusionSettings())


def test_each_step_is_taken_once(models: Naming, named: Batch) -> None:
    for _ in range(2):
        named.parse([0, 2])
        named.encode()
    assert models.calls == [("parse", 2), ("encode", 3)]
    named.parse(EVERYONE, tokens=True)
    named.parse([2, 1])
    assert models.calls[2:] == [("parse", 3)]
    assert [query.vector.tolist() for query in named.queries] == [[1, 1]] * 3
    assert [{*seconds} for seconds in named.seconds] == [{"parsing", "encoding"}] * 3


def test_the_encoder_is_started_once_and_waited_for(models: Naming, named: Batch) -> None:
    named.start()
    named.start()
    assert not len(named.queries[0].vector)
    named.encode()
    assert named.queries[0].vector.tolist() == [1, 1]
    assert models.calls == [("encode", 3)]


class Encoding(Naming):
    """Encodes only when it is waited for."""

    def __init__(self, *, has_parser: bool = True) -> None:
        super().__init__()
        self._has_parser = has_parser

    @property
    def has_parser(self) -> bool:
        return self._has_parser

    def beside(self, work: Callable[[], T]) -> "Future[T]":
        class Waiting(Future[T]):
            def result(self, timeout: float | None = None) -> T:
                del timeout
                return work()

        return Waiting()


NESTED = "who designed the bridge that spans the Neretva"


def models_run(questions: Sequence[str], models: Encoding) -> list[tuple[str, int]]:
    """The models in the order in which they ran for a router that reads the text arms' lists."""
    batch = Batch(
        FakeArms(4).snapshot, FakeModels(models), questions, FusionSettings(), ahead=[Route.GRAPH]
    )
    batch.columns(TEXT_SIGNALS, may_step=True)
    return models.calls


def test_a_question_that_may_have_a_plan_is_parsed_while_the_encoder_is_at_work() -> None:
    assert models_run([NESTED], Encoding()) == [("parse", 1), ("encode", 1)]
    # Loading the parser would take longer than the encoder does.
    assert models_run([NESTED], Encoding(has_parser=False)) == [("encode", 1)]


@pytest.mark.parametrize("questions", [["who"], [f"{NESTED} {'again ' * 40}"], [NESTED] * 2])
def test_what_has_no_plan_or_is_one_of_several_is_not_parsed_ahead(questions: list[str]) -> None:
    assert models_run(questions, Encoding()) == [("encode", len(questions))]


class Linking(FakeGraph):
    """Links by its vector what is called Rome."""

    def needs_vector(self, mention: str) -> bool:
        return mention == "Rome"


def test_mentions_are_each_there_once_and_those_that_need_it_are_encoded(models: Naming) -> None:
    arms = FakeArms(4)
    arms.graph = Linking(4, arms.log)
    batch = Batch(arms.snapshot, FakeModels(models), TEXTS, FusionSettings())
    batch.prepare(EVERYONE, [Route.GRAPH])
    batch.prepare(EVERYONE, [Route.GRAPH])
    assert models.calls == [("encode", 3), ("parse", 3), ("Rome", 1)]
    mentions = [[(m.text, m.kind) for m in query.mentions] for query in batch.queries]
    names = [("Oslo", "entity"), ("Rome", "entity"), ("Oslo", "phrase")]
    assert mentions == [names, [("copper lamp", "phrase")], []]
    vectors = [mention.vector for mention in batch.queries[0].mentions]
    assert [None if v is None else v.tolist() for v in vectors] == [None, [7, 7], None]


def test_columns_that_are_not_named_are_not_computed(models: Naming, named: Batch) -> None:
    def known(names: Sequence[str]) -> list[list[str]]:
        rows = ~np.isnan(named.columns(names))
        return [[COLUMNS[column] for column in np.flatnonzero(row)] for row in rows]

    assert known([]) == [[], [], []]
    assert models.calls == []
    assert known(["tokens"]) == [["tokens"]] * 3
    assert named.columns(["tokens"])[:, COLUMNS.index("tokens")].tolist() == [3, 3, 1]
    named.columns(["tokens"], trees=True)  # trees can be had without a feature of them
    assert known(["tree_depth"]) == [["tree_depth"]] * 3
    assert models.calls == [("parse", 3), ("trees", 3)]
    assert str(named.syntax([2], trees=True)[0].trees[0]) == "(ROOT (X who))"
