import ast
import inspect
from dataclasses import replace
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.training.made import CountingProgress, write_dataset
from wye.backends.sources import DocumentSource
from wye.backends.store.ingest import ingest
from wye.backends.types import Ranking, Silent
from wye.router.fusion import FusionSettings, fuse_all, fuse_text
from wye.router.gateway import Gateway
from wye.router.session import Session
from wye.router.settings import load_settings
from wye.router.types import FURTHER, Ask, Route
from wye.training.data import Dataset, Judgements, QuestionSource, parse_source, read_dataset
from wye.training.errors import SplitError
from wye.training.evaluation_set import EvaluationSet
from wye.training.replay import (
    TRAINING_SPLITS,
    Replay,
    Replays,
    TrainingReplay,
    key_of,
    replay_dataset,
    replay_demo,
)

DEMO = Path(str(files("wye.service"))) / "demo"
pytestmark = pytest.mark.usefixtures("fake_models")


def rankings_of(replay: Replay, arm: Route) -> list[Ranking]:
    return [row.run.results.rankings[arm] for row in replay.questions]


def judgements_of(replay: Replay) -> Judgements:
    return {row.question.id: row.gold for row in replay.questions}


@pytest.fixture
def index(tmp_path: Path) -> Path:
    folder = tmp_path / "index"
    ingestion = Session.create(load_settings(), folder)
    ingest(ingestion.index, DocumentSource(DEMO).passages(), ingestion.analyser)
    ingestion.close()
    return folder


@pytest.fixture
def container(index: Path) -> Session:
    return Session.open(load_settings(), index)


@pytest.fixture
def dataset() -> Dataset:
    return read_dataset(DEMO, "train", limit=10)


def test_a_replay_says_what_the_gateway_says(
    container: Session, dataset: Dataset, tmp_path: Path
) -> None:
    counter = CountingProgress()
    replay = replay_dataset(container, dataset, tmp_path, depth=20, progress=counter)
    assert (counter.total, counter.steps, counter.closed) == (10, 10, True)
    texts = [question.text for question in dataset.questions]
    assert [one.question.text for one in replay.questions] == texts
    assert judgements_of(replay) == dataset.judgements
    for arm in (Route.DENSE, Route.LEXICAL, Route.GRAPH):
        asked = container.gateway.search(texts, Ask(arm, 20))
        assert rankings_of(replay, arm) == [reply.ranking for reply in asked]
    assert [one.question.group for one in replay.questions] == ["demo"] * 10
    assert {"dense", "lexical", "graph"} <= {*replay.questions[0].run.seconds}


def test_fusion_of_a_replay_is_the_fusion_that_serves(
    container: Session, dataset: Dataset, tmp_path: Path
) -> None:
    settings = container.settings.fusion
    replay = replay_dataset(container, dataset, tmp_path, depth=settings.depth)
    texts = [question.text for question in dataset.questions]
    results = [row.run.results for row in replay.questions]
    fused = fuse_all(results, settings, [None] * len(texts), 10)
    served = container.gateway.search(texts, Ask(Route.FUSION, 10))
    assert fused == [reply.ranking for reply in served]
    text_alone = container.gateway.search(texts, Ask(Route.HYBRID, 10))
    assert fuse_text(results, settings, 10) == [reply.ranking for reply in text_alone]


def test_a_further_arm_is_replayed_where_fusion_has_its_list(
    index: Path, dataset: Dataset, tmp_path: Path
) -> None:
    fusion = FusionSettings("rrf", lists=(Route.DENSE, Route.GRAPH, *FURTHER))
    with Session.open(load_settings(fusion=fusion), index) as session:
        replay = replay_dataset(session, dataset, tmp_path, depth=fusion.depth)
        texts = [question.text for question in dataset.questions]
        for arm in FURTHER:
            asked = session.gateway.search(texts, Ask(arm, fusion.depth))
            assert rankings_of(replay, arm) == [reply.ranking for reply in asked]
        served = session.gateway.search(texts, Ask(Route.FUSION, 10))
    fused = fuse_all([row.run.results for row in replay.questions], fusion, [None] * len(texts), 10)
    assert fused == [reply.ranking for reply in served]
    # What adds up scores knows no scale for them, and does without.
    assert fuse_all(
        [row.run.results for row in replay.questions], FusionSettings(), [None] * len(texts), 10
    )


def test_steps_of_a_replay_are_those_that_serve(
    index: Path, tmp_path: Path, reading_models: None
) -> None:
    with Session.open(load_settings(), index) as session:
        dataset = read_dataset(DEMO, "train", limit=20)
        replay = replay_dataset(session, dataset, tmp_path)
        texts = [question.text for question in dataset.questions]
        served = session.gateway.search(texts, Ask(Route.STEPS, 10))
    taken = [reply.searches > 0 for reply in served]
    assert 0 < sum(taken) < len(taken)
    assert [one.run.planned for one in replay.questions] == taken
    questions = EvaluationSet((replay,), np.zeros((len(replay), 0)))
    for ranking, reply in zip(questions.rankings(Route.STEPS), served, strict=True):
        pairs = [(hit.id, hit.score) for hit in ranking.hits[:10]]
        assert pairs == [(hit.id, hit.score) for hit in reply.ranking.hits]
    for one in replay.questions:
        assert {"fusing", "steps"} <= {*one.run.seconds}
        if one.run.steps is not None:
            assert one.run.steps.hits


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    texts: list[str] = []
    retrieve_all = Gateway.retrieve_all

    def counting(own: Gateway, questions: list[str], *rest: Any) -> object:  # noqa: ANN401
        texts.extend(questions)
        return retrieve_all(own, questions, *rest)

    monkeypatch.setattr(Gateway, "retrieve_all", counting)
    return texts


def test_it_is_asked_again_only_when_replies_would_differ(
    container: Session, dataset: Dataset, tmp_path: Path, index: Path, asked: list[str]
) -> None:
    first = replay_dataset(container, dataset, tmp_path)
    assert len(asked) == 1 + 10  # one to warm up
    again = replay_dataset(container, dataset, tmp_path)
    assert rankings_of(again, Route.GRAPH) == rankings_of(first, Route.GRAPH)
    # Judgements are no part of replies.
    turned = replace(dataset, judgements={q.id: {"other": 1} for q in dataset.questions})
    assert judgements_of(replay_dataset(container, turned, tmp_path)) == turned.judgements
    assert len(asked) == 11
    key = key_of(container)
    assert key_of(Session.open(load_settings(graph={"steps": 2}), index)) != key
    assert key_of(Session.open(load_settings(fusion={"depth": 50}), index)) != key
    replay_dataset(container, dataset, tmp_path, depth=7)
    assert len(asked) == 22


def test_what_was_answered_is_not_asked_again(
    container: Session,
    dataset: Dataset,
    tmp_path: Path,
    asked: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("wye.training.replay.BLOCK", 4)
    whole = replay_dataset(container, dataset, tmp_path / "whole")
    asked.clear()
    counting = Gateway.retrieve_all

    def stopped(own: Gateway, *rest: Any) -> object:  # noqa: ANN401 - as given
        if len(asked) == 7:
            raise KeyboardInterrupt
        return counting(own, *rest)

    monkeypatch.setattr(Gateway, "retrieve_all", stopped)
    with pytest.raises(KeyboardInterrupt):
        replay_dataset(container, dataset, tmp_path / "cut")
    monkeypatch.setattr(Gateway, "retrieve_all", counting)
    asked.clear()
    found = replay_dataset(container, dataset, tmp_path / "cut")
    assert len(asked) == 2 + 6  # two blocks, each with one to warm up; the first four are kept
    assert judgements_of(found) == judgements_of(whole)
    for arm in (Route.DENSE, Route.GRAPH):
        assert rankings_of(found, arm) == rankings_of(whole, arm)


def test_a_damaged_reply_is_asked_for_again(
    container: Session, dataset: Dataset, tmp_path: Path, asked: list[str]
) -> None:
    whole = replay_dataset(container, dataset, tmp_path)
    for path in tmp_path.rglob("output.pkl"):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    asked.clear()
    found = replay_dataset(container, dataset, tmp_path)
    assert len(asked) == 11
    assert rankings_of(found, Route.DENSE) == rankings_of(whole, Route.DENSE)


def test_train_and_dev_of_the_demo_are_replayed_once(tmp_path: Path, asked: list[str]) -> None:
    replays = replay_demo(tmp_path)
    assert [(replay.split, len(replay)) for replay in replays] == [("dev", 24), ("train", 60)]
    asked.clear()
    again = replay_demo(tmp_path)
    assert [rankings_of(replay, Route.DENSE) for replay in again] == [
        rankings_of(replay, Route.DENSE) for replay in replays
    ]
    assert asked == []


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    judged = {split: ["q\ta\t1"] for split in ("train", "test")}
    return write_dataset(tmp_path / "tiny", [], [("q", "Who met Babbage?")], judged)


def test_a_dataset_may_name_its_index(tiny: Path, tmp_path: Path) -> None:
    default = tmp_path / "index"
    assert parse_source(str(tiny), default) == QuestionSource(tiny, default)
    assert parse_source(f"{tiny}={tmp_path / 'own'}", default).index == tmp_path / "own"
    assert parse_source(f"{tiny}={tmp_path / 'own'}", None).name == "tiny"
    assert [QuestionSource(tiny, default).has(split) for split in ("train", "dev")] == [True, False]


@pytest.mark.parametrize("split", ["test", "Test", "validation"])
def test_nothing_is_learned_from_other_splits(tiny: Path, tmp_path: Path, split: str) -> None:
    replays = Replays(load_settings(), tmp_path / "replays", Silent)
    # There is no index at all: nothing is opened, and no question asked.
    with pytest.raises(SplitError, match="final evaluation only; learn from train and dev"):
        replays.training([QuestionSource(tiny, tmp_path / "index")], split)
    assert not (tmp_path / "replays").exists()


def test_a_split_that_a_source_lacks_is_left_out(tiny: Path, tmp_path: Path) -> None:
    replays = Replays(load_settings(), tmp_path / "replays", Silent)
    assert replays.training([QuestionSource(tiny, tmp_path / "index")], "dev") == []
    assert replays.final([QuestionSource(tiny, tmp_path / "index")], "other") == []


def test_what_learns_takes_no_replay_but_one_to_learn_from() -> None:
    assert "test" not in TRAINING_SPLITS
    final = Replay("here", "test", ())
    with pytest.raises(SplitError, match="for the final evaluation only"):
        TrainingReplay(**vars(final))
    for name in ("wye.training.fit.router", "wye.training.labels", "wye.training.tuning"):
        tree = ast.parse(inspect.getsource(import_module(name)))
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        names |= {a.name for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) for a in n.names}
        names |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert not names & {"Replay", "final", "replay_dataset"}, name
