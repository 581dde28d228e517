"""The guide's commands for training are run, as they stand there, on a small town."""

import re
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.harness import DEMO
from tests.docs.examples import block_with, perform
from tests.fakes import ReadingAnalyser, Wye, speaking
from tests.hashing import HashAnalyser
from tests.training.made import write_town
from tests.training.test_questions import told, writes_well
from wye.backends.types import Float32
from wye.featurizer.analyser import AnalyserSettings
from wye.training.data import read_dataset


class Bags(HashAnalyser):
    """Vectors that are alike where words are, so that dense search has its questions too."""

    def _vector(self, text: str) -> Float32:
        words = re.findall(r"\w+|[^\w\s]", text.lower())
        seeds = (np.random.default_rng(zlib.crc32(word.encode())) for word in words)
        summed = np.sum(
            [seed.standard_normal(self.dimension, np.float32) for seed in seeds], axis=0
        )
        return np.asarray(summed / np.linalg.norm(summed), np.float32)


class WordAnalyser(ReadingAnalyser):
    def __init__(self, settings: AnalyserSettings) -> None:
        super().__init__(settings)
        self._hash = Bags(64)


def test_a_router_is_trained_and_used(
    tmp_path: Path, wye: Wye, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("wye.router.session.Analyser", WordAnalyser)
    write_town(tmp_path / "my-questions", streets=64)
    assert wye("index", "my-questions", "--index", "my-index")[0] == 0
    perform(block_with("wye train --index"), wye, monkeypatch)
    assert (tmp_path / "models" / "mine" / "v1" / "CARD.md").is_file()


def test_questions_are_written(tmp_path: Path, wye: Wye, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("wye.router.session.Analyser", WordAnalyser)
    assert wye("index", DEMO, "--index", "my-index")[0] == 0
    with speaking(writes_well) as endpoint:
        endpoint.say = lambda _, passages: told(
            f"What is said {zlib.crc32(passages.encode())} times?", passages.split()[-1]
        )
        block = block_with("wye train --write-questions")
        text = block.text.replace("http://127.0.0.1:8080/v1", endpoint.url)
        perform(replace(block, text=text), wye, monkeypatch)
    assert len(read_dataset(tmp_path / "written", "dev").questions) == 66
