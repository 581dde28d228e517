from pathlib import Path

import numpy as np
import pytest

from wye.featurizer.analyser import AnalyserSettings
from wye.featurizer.registry import FEATURE_NAMES
from wye.training.data import feature_cache
from wye.training.data.feature_cache import FeatureCache, cached_features
from wye.training.errors import TrainingError

TEXTS = ["Who rowed?", "Where is the ferry?", "Who rowed?", "Is it \ud800 here?", ""]


class Counted:
    """Stands where models would be: features are lengths, and it writes down who was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.fail_at = -1

    def features(self, texts: list[str], settings: AnalyserSettings) -> np.ndarray:
        if len(self.asked) == self.fail_at:
            raise KeyboardInterrupt
        self.asked += texts
        return np.array([[len(text), text.count(" ")] for text in texts], np.float64)


class Named:
    fingerprint = {"parser": "none"}  # noqa: RUF012


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    counted = Counted()
    monkeypatch.setattr(feature_cache, "_features", counted.features)
    monkeypatch.setattr(feature_cache, "_parser", lambda settings: Named())
    return counted


def test_each_question_is_computed_once(counted: Counted, tmp_path: Path) -> None:
    first = cached_features(TEXTS, tmp_path, AnalyserSettings(), batch=2)
    assert first.tolist() == [[10, 1], [19, 3], [10, 1], [13, 3], [0, 0]]
    assert counted.asked == [TEXTS[0], TEXTS[1], TEXTS[3], TEXTS[4]]
    again = cached_features([*TEXTS[::-1], "new"], tmp_path, AnalyserSettings())
    assert counted.asked[4:] == ["new"]
    assert again[:5].tobytes() == first[::-1].tobytes()


def test_a_killed_run_goes_on_where_it_was(counted: Counted, tmp_path: Path) -> None:
    texts = [f"question {n}" for n in range(10)]
    counted.fail_at = 6
    with pytest.raises(KeyboardInterrupt):
        cached_features(texts, tmp_path, AnalyserSettings(), batch=2)
    counted.fail_at = -1
    done: list[int] = []
    cached_features(texts, tmp_path, AnalyserSettings(), batch=2, progress=done.append)
    assert counted.asked == texts
    assert done == [6, 2, 2]


def test_another_schema_has_other_files(tmp_path: Path) -> None:
    FeatureCache(tmp_path, "one").add(["a"], np.ones((1, 2)))
    assert FeatureCache(tmp_path, "one").missing(["a"]) == []
    assert FeatureCache(tmp_path, "other").missing(["a"]) == ["a"]
    # What a process was writing when it was killed is nobody's concern.
    (tmp_path / "one" / "half.tmp").write_bytes(b"PK")
    assert FeatureCache(tmp_path, "one").matrix(["a"]).tolist() == [[1, 1]]


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    FeatureCache(tmp_path, "one").add(["a"], np.ones((1, 2)))
    (file,) = (tmp_path / "one").glob("*.npz")
    file.write_bytes(b"nothing")
    with pytest.raises(TrainingError, match=rf"{file.name} is damaged .* delete it"):
        FeatureCache(tmp_path, "one")


def test_no_questions_have_no_features(counted: Counted, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="no questions"):
        cached_features([], tmp_path, AnalyserSettings())


def test_with_the_models(tmp_path: Path) -> None:
    texts = ["Who rowed the ferry?", "Where?"]
    one = cached_features(texts, tmp_path, AnalyserSettings())
    assert one.shape == (2, len(FEATURE_NAMES))
    assert np.array_equal(one[::-1], cached_features(texts[::-1], tmp_path, AnalyserSettings()))
    (schema,) = tmp_path.iterdir()
    assert len(schema.name) == 16
