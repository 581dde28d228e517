from dataclasses import replace
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest

from tests.training.made import QUICK, write_town
from wye.backends.types import Silent
from wye.router.settings import load_settings
from wye.router.types import Route
from wye.service.cli import run
from wye.training.data import QuestionSource
from wye.training.errors import DatasetError, FitError
from wye.training.fit.router import Choices, Fitted
from wye.training.report import make_report
from wye.training.run import TrainingRun, command_line

pytestmark = pytest.mark.usefixtures("reading_models")


@pytest.fixture
def source(tmp_path: Path) -> QuestionSource:
    found = QuestionSource(write_town(tmp_path / "town", streets=24), tmp_path / "index")
    assert run(["index", str(found.dataset), "--index", str(found.index)]) == 0
    return found


def run_of(cache: Path, *sources: QuestionSource) -> TrainingRun:
    choices = Choices(recipe=QUICK, simple=Route.LEXICAL, elsewhere=False)
    return TrainingRun(load_settings(), sources, choices, cache, Silent)


def scores(fitted: Fitted) -> np.ndarray:
    return fitted.scorer.logits(fitted.questions.features)


def test_learning_reads_no_test_question(source: QuestionSource, tmp_path: Path) -> None:
    before = run_of(tmp_path / "one", source).learn()
    # Of equal thresholds the fastest are taken, so both go by the same milliseconds.
    copytree(tmp_path / "one", tmp_path / "two")
    file = source.dataset / "qrels" / "test.tsv"
    file.write_text("no judgement at all", encoding="utf-8")
    damaged = run_of(tmp_path / "two", source)
    after = damaged.learn()
    assert (scores(before) == scores(after)).all()
    assert before.solution.thresholds == after.solution.thresholds
    with pytest.raises(DatasetError):
        damaged.evaluate(after)
    file.unlink()
    assert damaged.evaluate(after) is None


def test_what_was_learned_is_of_train_and_dev(source: QuestionSource, tmp_path: Path) -> None:
    fitted = run_of(tmp_path / "cache", source).learn()
    assert len(fitted.questions) == len(fitted.disagreement.labels) == 36
    assert {replay.split for replay in fitted.questions.replays} == {"train", "dev"}
    assert fitted.policy.simple == Route.LEXICAL
    assert any("disagree on" in warning for warning in fitted.disagreement.warnings)


def test_each_dataset_is_routed_by_one_that_learned_from_the_others(
    source: QuestionSource, tmp_path: Path
) -> None:
    other = write_town(tmp_path / "village", streets=24)
    # A question that both ask would be left out with either.
    lines = (other / "queries.jsonl").read_text(encoding="utf-8")
    asked = lines.replace("?", " today?").replace("painted", "lately painted")
    (other / "queries.jsonl").write_text(asked, encoding="utf-8")
    choices = Choices(recipe=QUICK, simple=Route.LEXICAL)
    sources = source, replace(source, dataset=other)
    own = TrainingRun(load_settings(), sources, choices, tmp_path / "cache", Silent)
    report = make_report(own.learn(), None)
    counts = {name: summary.questions for name, summary in report.left_out.items()}
    assert counts == {"town": 36, "village": 36}


def test_a_missing_split_is_named(source: QuestionSource, tmp_path: Path) -> None:
    for split in ("train", "dev"):
        (source.dataset / "qrels" / f"{split}.tsv").unlink()
    with pytest.raises(FitError, match=r"None of town has a train or a dev split; add qrels/tr"):
        run_of(tmp_path / "cache", source).learn()


def test_the_command_is_what_can_be_typed_again() -> None:
    typed = ["/somewhere/bin/wye", "train", "--questions", "my questions", "--name", "it"]
    assert command_line(typed) == "wye train --questions 'my questions' --name it"
