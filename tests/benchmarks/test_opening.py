from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from backends.store.index import Index
from backends.store.ingest import ingest
from backends.types import Passage, Query
from benchmarks import opening
from benchmarks.hashing import HashAnalyser
from router.adapters import Questions
from router.settings import load_settings
from router.types import AnalysedQuestions


class Same(Questions):
    """Gives every question the same vector."""

    def __init__(self) -> None:
        pass

    def analyse(
        self,
        texts: Sequence[str],
        wanted: Callable[[str], bool] | None = None,
        *,
        features: bool = False,
    ) -> AnalysedQuestions:
        return AnalysedQuestions([Query(text, np.ones(8, np.float32)) for text in texts])


def test_every_stage_is_timed_and_they_add_up(tmp_path: Path) -> None:
    analyser = HashAnalyser()
    index = Index.create(tmp_path, analyser.dimension, analyser.fingerprint)
    ingest(index, [Passage("a", "Avon", "The Avon meets the Severn.")], analyser)
    seconds = opening.open_once(load_settings(), tmp_path, Same())
    whole = seconds.pop("all of it")
    assert list(seconds) == [
        "read the version",
        "first answer, dense",
        "first answer, lexical",
        "first answer, graph",
    ]
    assert min(seconds.values()) > 0
    assert sum(seconds.values()) <= whole


def test_a_folder_without_an_index_is_a_sentence_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert opening.main([str(tmp_path / "none")]) == 2
    assert "There is no index" in capsys.readouterr().err
