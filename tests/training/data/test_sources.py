from pathlib import Path

import pytest

from tests.training.made import write_dataset
from wye.backends.progress import Silent
from wye.router.settings import load_settings
from wye.training.data.replaying import QuestionSource, Replays, parse_source
from wye.training.errors import SplitError, TrainingError


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    judged = {split: ["q\ta\t1"] for split in ("train", "test")}
    return write_dataset(tmp_path / "tiny", [], [("q", "Who met Babbage?")], judged)


def test_a_dataset_may_name_its_index(dataset: Path, tmp_path: Path) -> None:
    default = tmp_path / "index"
    assert parse_source(str(dataset), default) == QuestionSource(dataset, default)
    assert parse_source(f"{dataset}={tmp_path / 'own'}", default).index == tmp_path / "own"
    assert parse_source(f"{dataset}={tmp_path / 'own'}", None).name == "tiny"
    assert [QuestionSource(dataset, default).has(split) for split in ("train", "dev")] == [
        True,
        False,
    ]


def test_what_is_no_source_is_refused(dataset: Path, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"Which index answers .* Give --index DIR"):
        parse_source(str(dataset), None)
    with pytest.raises(TrainingError, match="There is no folder"):
        parse_source(str(tmp_path / "missing"), tmp_path)


@pytest.mark.parametrize("split", ["test", "Test", "validation"])
def test_nothing_is_learned_from_other_splits(dataset: Path, tmp_path: Path, split: str) -> None:
    replays = Replays(load_settings(), tmp_path / "replays", Silent)
    # There is no index at all: nothing is opened, and no question asked.
    with pytest.raises(SplitError, match="final evaluation only; learn from dev and train"):
        replays.training([QuestionSource(dataset, tmp_path / "index")], split)
    assert not (tmp_path / "replays").exists()


def test_a_split_that_a_source_lacks_is_left_out(dataset: Path, tmp_path: Path) -> None:
    replays = Replays(load_settings(), tmp_path / "replays", Silent)
    assert replays.training([QuestionSource(dataset, tmp_path / "index")], "dev") == []
    assert replays.final([QuestionSource(dataset, tmp_path / "index")], "other") == []
