from pathlib import Path

import pytest

from training.data.replay import read_training
from training.data.replaying import replay_demo

pytestmark = pytest.mark.usefixtures("fake_models")


def test_train_and_dev_of_the_demo_are_replayed_once(tmp_path: Path) -> None:
    files = replay_demo(tmp_path)
    assert [(read_training(file).split, len(read_training(file))) for file in files] == [
        ("dev", 24),
        ("train", 60),
    ]
    before = [file.stat().st_mtime_ns for file in files]
    assert replay_demo(tmp_path) == files
    assert [file.stat().st_mtime_ns for file in files] == before
