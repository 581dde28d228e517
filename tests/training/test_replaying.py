import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.fakes import ReadingAnalyser
from tests.training.made import CountingProgress, write_dataset
from wye.backends.sources import DocumentSource
from wye.backends.store.ingest import ingest
from wye.backends.types import Silent
from wye.router.fusion import FusionSettings, fuse_all, fuse_text
from wye.router.gateway import Gateway
from wye.router.session import Session
from wye.router.settings import load_settings
from wye.router.types import FURTHER, Ask, Route
from wye.training.data import Dataset, read_dataset
from wye.training.errors import SplitError, TrainingError
from wye.training.evaluation_set import EvaluationSet
from wye.training.replay import read_training
from wye.training.replaying import (
    QuestionSource,
    Replays,
    key_of,
    parse_source,
    replay_dataset,
    replay_demo,
)

DEMO = Path(str(files("wye.service"))) / "demo"
FUSION = FusionSettings()

pytestmark = pytest.mark.usefixtures("fake_models")


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
    path = replay_dataset(container, dataset, tmp_path / "replays", depth=20, progress=counter)
    assert (counter.total, counter.steps, counter.closed) == (10, 10, True)
    replay = read_training(path)
    texts = [question.text for question in dataset.questions]
    assert [one.question.text for one in replay.questions] == texts
    assert replay.judgements == dataset.judgements
    for arm in (Route.DENSE, Route.LEXICAL, Route.GRAPH):
        asked = container.gateway.search(texts, Ask(arm, 20))
        assert replay.rankings(arm) == [reply.ranking for reply in asked]
    assert [one.question.group for one in replay.questions] == ["demo"] * 10
    assert {"dense", "lexical", "graph"} <= {*replay.questions[0].seconds}


def test_a_question_is_replayed_with_its_filter(
    container: Session, dataset: Dataset, tmp_path: Path
) -> None:
    one, other = dataset.questions[:2]
    (hit,) = container.gateway.search([one.text], Ask(Route.LEXICAL, 1))[0].ranking.hits
    title = container.passages([hit.id])[hit.id].metadata
    key, value = next(iter(title.items()))
    without = {"type": "ne", "key": key, "value": value}
    filtered = replace(dataset, filters={one.id: without})
    replay = read_training(replay_dataset(container, filtered, tmp_path / "filtered", depth=20))
    for arm in (Route.DENSE, Route.LEXICAL, Route.GRAPH):
        kept = container.gateway.search([one.text], Ask(arm, 20, without))[0].ranking
        free = container.gateway.search([other.text], Ask(arm, 20))[0].ranking
        assert replay.rankings(arm)[:2] == [kept, free]
    assert hit.id not in [h.id for h in replay.rankings(Route.LEXICAL)[0].hits]
    assert key_of(container, filtered) != key_of(container, dataset)
    assert key_of(container, replace(dataset, filters={})) == key_of(container, dataset)


def test_fusion_of_a_replay_is_the_fusion_that_serves(
    container: Session, dataset: Dataset, tmp_path: Path
) -> None:
    settings = container.settings.fusion
    path = replay_dataset(container, dataset, tmp_path, depth=settings.depth)
    replay = read_training(path)
    texts = [question.text for question in dataset.questions]
    fused = fuse_all(replay.results, settings, [None] * len(texts), 10)
    served = container.gateway.search(texts, Ask(Route.FUSION, 10))
    assert fused == [reply.ranking for reply in served]
    text_alone = container.gateway.search(texts, Ask(Route.HYBRID, 10))
    assert fuse_text(replay.results, settings, 10) == [reply.ranking for reply in text_alone]


def test_a_further_arm_is_replayed_where_fusion_has_its_list(
    index: Path, dataset: Dataset, tmp_path: Path
) -> None:
    fusion = FusionSettings("rrf", lists=(Route.DENSE, Route.GRAPH, *FURTHER))
    with Session.open(load_settings(fusion=fusion), index) as session:
        replay = read_training(replay_dataset(session, dataset, tmp_path, depth=fusion.depth))
        texts = [question.text for question in dataset.questions]
        for arm in FURTHER:
            asked = session.gateway.search(texts, Ask(arm, fusion.depth))
            assert replay.rankings(arm) == [reply.ranking for reply in asked]
        served = session.gateway.search(texts, Ask(Route.FUSION, 10))
    fused = fuse_all(replay.results, fusion, [None] * len(texts), 10)
    assert fused == [reply.ranking for reply in served]
    # What adds up scores knows no scale for them, and does without.
    assert fuse_all(replay.results, FusionSettings(), [None] * len(texts), 10)


def test_steps_of_a_replay_are_those_that_serve(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wye.router.session.Analyser", ReadingAnalyser)
    with Session.open(load_settings(), index) as session:
        dataset = read_dataset(DEMO, "train", limit=20)
        replay = read_training(replay_dataset(session, dataset, tmp_path))
        texts = [question.text for question in dataset.questions]
        served = session.gateway.search(texts, Ask(Route.STEPS, 10))
    taken = [reply.searches > 0 for reply in served]
    assert 0 < sum(taken) < len(taken)
    assert [one.steps is not None for one in replay.questions] == taken
    questions = EvaluationSet((replay,), np.zeros((len(replay), 0)))
    for own, reply in zip(questions.rankings(Route.STEPS, FUSION), served, strict=True):
        pairs = [(hit.id, hit.score) for hit in own.hits[:10]]
        assert pairs == [(hit.id, hit.score) for hit in reply.ranking.hits]
    for one in replay.questions:
        assert {"fusing", "steps"} <= {*one.seconds}
        if one.steps is not None:
            assert one.steps.hits


def test_it_is_made_again_only_when_it_would_be_another(
    container: Session, dataset: Dataset, tmp_path: Path, index: Path
) -> None:
    path = replay_dataset(container, dataset, tmp_path)
    written = path.stat().st_mtime_ns
    assert replay_dataset(container, dataset, tmp_path).stat().st_mtime_ns == written
    key = key_of(container, dataset)
    other = load_settings(graph={"steps": 2})
    assert key_of(Session.open(other, index), dataset) != key
    searches_by = load_settings(fusion={"depth": 50})
    assert key_of(Session.open(searches_by, index), dataset) != key
    assert key_of(container, dataset, depth=7) != key
    assert key_of(container, read_dataset(DEMO, "train", limit=9)) != key
    replay_dataset(container, dataset, tmp_path, depth=7)
    assert path.stat().st_mtime_ns != written
    assert not [*tmp_path.glob("*.partial")]


def test_what_was_answered_is_not_asked_again(
    container: Session, dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = read_training(replay_dataset(container, dataset, tmp_path / "whole"))

    asked: list[str] = []
    retrieve_all = Gateway.retrieve_all

    def counting(own: Gateway, texts: list[str], *rest: Any) -> object:  # noqa: ANN401 - as given
        asked.extend(texts)
        if len(asked) == 7:
            raise KeyboardInterrupt
        return retrieve_all(own, texts, *rest)

    monkeypatch.setattr(Gateway, "retrieve_all", counting)
    with pytest.raises(KeyboardInterrupt):
        replay_dataset(container, dataset, tmp_path / "cut")
    before = len(asked)
    found = read_training(replay_dataset(container, dataset, tmp_path / "cut"))
    assert len(asked) - before == 1 + 10 - 5  # one to warm up, and all but the five that are kept
    assert found.judgements == whole.judgements
    for arm in (Route.DENSE, Route.GRAPH):
        assert found.rankings(arm) == whole.rankings(arm)


SCRIPT = """
import sys
from pathlib import Path
from wye.router import session as composition
from tests.fakes import FakeAnalyser
composition.Analyser = FakeAnalyser
from wye.router.session import Session
from wye.router.settings import load_settings
from wye.training import replaying
from wye.training.data import read_dataset
dataset, index, out = map(Path, sys.argv[1:])
with Session.open(load_settings(), index) as session:
    replaying.replay_dataset(session, read_dataset(dataset, "train"), out)
"""


def test_a_killed_run_leaves_whole_files_and_the_next_one_ends_it(
    index: Path, tmp_path: Path, container: Session
) -> None:
    out = tmp_path / "replays"
    command = [sys.executable, "-c", SCRIPT, str(DEMO), str(index), str(out)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    waited = time.monotonic() + 60
    while process.poll() is None and not list(out.rglob("*.partial")):
        assert time.monotonic() < waited
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not [*out.rglob("*.jsonl.gz")]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    (path,) = out.rglob("*.jsonl.gz")
    found = read_training(path)
    assert [one.question for one in found.questions] == [
        one.question
        for one in read_training(
            replay_dataset(container, read_dataset(DEMO, "train"), tmp_path / "again")
        ).questions
    ]


def test_train_and_dev_of_the_demo_are_replayed_once(tmp_path: Path) -> None:
    files = replay_demo(tmp_path)
    assert [(read_training(file).split, len(read_training(file))) for file in files] == [
        ("dev", 24),
        ("train", 60),
    ]
    before = [file.stat().st_mtime_ns for file in files]
    assert replay_demo(tmp_path) == files
    assert [file.stat().st_mtime_ns for file in files] == before


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    judged = {split: ["q\ta\t1"] for split in ("train", "test")}
    return write_dataset(tmp_path / "tiny", [], [("q", "Who met Babbage?")], judged)


def test_a_dataset_may_name_its_index(tiny: Path, tmp_path: Path) -> None:
    default = tmp_path / "index"
    assert parse_source(str(tiny), default) == QuestionSource(tiny, default)
    assert parse_source(f"{tiny}={tmp_path / 'own'}", default).index == tmp_path / "own"
    assert parse_source(f"{tiny}={tmp_path / 'own'}", None).name == "tiny"
    assert [QuestionSource(tiny, default).has(split) for split in ("train", "dev")] == [
        True,
        False,
    ]


def test_what_is_no_source_is_refused(tiny: Path, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"Which index answers .* Give --index DIR"):
        parse_source(str(tiny), None)
    with pytest.raises(TrainingError, match="There is no folder"):
        parse_source(str(tmp_path / "missing"), tmp_path)


@pytest.mark.parametrize("split", ["test", "Test", "validation"])
def test_nothing_is_learned_from_other_splits(tiny: Path, tmp_path: Path, split: str) -> None:
    replays = Replays(load_settings(), tmp_path / "replays", Silent)
    # There is no index at all: nothing is opened, and no question asked.
    with pytest.raises(SplitError, match="final evaluation only; learn from dev and train"):
        replays.training([QuestionSource(tiny, tmp_path / "index")], split)
    assert not (tmp_path / "replays").exists()


def test_a_split_that_a_source_lacks_is_left_out(tiny: Path, tmp_path: Path) -> None:
    replays = Replays(load_settings(), tmp_path / "replays", Silent)
    assert replays.training([QuestionSource(tiny, tmp_path / "index")], "dev") == []
    assert replays.final([QuestionSource(tiny, tmp_path / "index")], "other") == []
