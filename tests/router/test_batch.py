from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.hashing import HashAnalyser
from tests.router.fakes import ByLength, FakeAnalyser, FakeArms
from wye.backends import dense
from wye.backends.dense import DenseSettings
from wye.backends.lexical import LexicalRetriever
from wye.backends.store.index import PassageStore
from wye.backends.store.ingest import ingest
from wye.backends.trigraph import retriever as trigraph
from wye.backends.trigraph.seeds import SeedFinder
from wye.backends.trigraph.settings import TriGraphSettings
from wye.backends.types import Float32, Float64, Passage
from wye.router.batch import Batch
from wye.router.fusion import FusionSettings
from wye.router.gateway import Gateway
from wye.router.reading import QuestionReading
from wye.router.session import Snapshot
from wye.router.settings import Settings
from wye.router.types import Route

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
    return Batch(arms, QuestionReading(QUESTIONS, FakeAnalyser), None, [Route.GRAPH])


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


def test_a_forecast_walks_no_graph_and_its_dense_list_serves_again(
    arms: FakeArms, batch: Batch
) -> None:
    found = batch.results([Route.DENSE], [2, 0], 6, seeds=True)
    assert [one.query.text for one in found] == ["three", "one"]
    assert [{*one.rankings} for one in found] == [{Route.DENSE}] * 2
    assert [seed.mention for one in found for seed in one.seeds] == ["three", "one"]
    again = batch.results([Route.DENSE, Route.LEXICAL], [0], 6)
    assert again[0].rankings[Route.DENSE] is found[1].rankings[Route.DENSE]
    assert [name for name, _, _ in arms.log] == ["dense", "lexical"]


def test_time_is_that_of_these_questions_alone(batch: Batch) -> None:
    batch.search(Route.DENSE, [1], 2)
    seconds = [{*own} for own in batch.reading.seconds]
    assert seconds == [{"encoding"}, {"encoding", "dense"}, {"encoding"}]


def test_only_what_the_graph_was_asked_is_explained(batch: Batch) -> None:
    (ranking,) = batch.search(Route.GRAPH, [0], 3)
    assert batch.explain(0, ranking) is not None
    assert batch.explain(1, ranking) is None
    assert [("explaining" in seconds) for seconds in batch.reading.seconds[:2]] == [True, False]


class Hashed(FakeAnalyser):
    """Gives questions vectors of the library's kind."""

    def encode_questions(self, texts: Sequence[str]) -> Float32:
        return HASHES.encode_surfaces(texts)


class ToFusion(ByLength):
    """Looks at the corpus, and finds every question middling."""

    @property
    def needs(self) -> tuple[str, ...]:
        return ("dense_best", "seed_count", "word_length_mean")

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
    walk: Literal["full", "local"] = "full" if kind == "exact" else "local"
    settings = Settings(dense=DenseSettings(kind=kind), graph=TriGraphSettings(walk=walk))
    snapshot = Snapshot(index, settings)
    gateway = Gateway(lambda: snapshot, Hashed, FusionSettings(), ToFusion)
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
    counted(trigraph.TriGraphBatch, "run_pagerank")
    counted(trigraph.TriGraphRetriever, "filtered")
    gateway.search(["Where is Stari Most?"], Route.FUSION, 3)  # builds the arms
    calls.clear()
    questions = ["Where is Stari Most?", "Does the Neretva reach Mostar?", "Who crosses London?"]
    replies = gateway.search(questions[:count], route, 3, filter_, explain=True)
    assert all(reply.explanation and reply.explanation.seeds for reply in replies)
    each = ("find", "similarities" if kind == "exact" else "_proposed", "score", "bridge")
    once = ("run_pagerank", "filtered")
    assert calls == {**dict.fromkeys(each, count), **dict.fromkeys(once, 1)}


@pytest.mark.parametrize(
    ("question", "is_parsed"), [("Where is Stari Most?", False), ("Is it there?", True)]
)
def test_a_question_whose_words_name_an_entity_is_not_parsed_for_the_graph(
    tmp_path: Path, question: str, *, is_parsed: bool
) -> None:
    index = PassageStore.create(tmp_path, HASHES.dimension, HASHES.fingerprint)
    ingest(index, LIBRARY, HASHES)
    snapshot, words = Snapshot(index, Settings()), Hashed()
    (reply,) = Gateway(lambda: snapshot, lambda: words, FusionSettings()).search(
        [question], Route.FUSION, 3
    )
    assert ("parsing" in reply.seconds) == is_parsed
