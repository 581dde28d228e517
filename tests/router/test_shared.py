from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from featurizer.analyser import Analyser, AnalyserSettings
from featurizer.constituency.parser import open_syntax_parser
from router.errors import ModelFileError
from router.query_performance import schema_id
from router.session import ModelCache


class Counted(Analyser):
    """Loads nothing, and counts how often it is closed."""

    def __init__(self, settings: AnalyserSettings) -> None:
        self.settings = settings
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


class Maker:
    """Makes them, and remembers."""

    def __init__(self) -> None:
        self.made: list[Counted] = []

    def __call__(self, settings: AnalyserSettings) -> Counted:
        self.made.append(Counted(settings))
        return self.made[-1]


@pytest.fixture
def make() -> Maker:
    return Maker()


def test_equal_settings_are_loaded_once(make: Maker) -> None:
    models = ModelCache()
    first = models.analyser(AnalyserSettings(), make)
    second = models.analyser(replace(AnalyserSettings()), make)
    other = models.analyser(AnalyserSettings(title_in_text=True), make)
    assert first is second
    assert other is not first
    assert len(make.made) == 2


def test_what_is_shared_is_closed_once(make: Maker) -> None:
    models = ModelCache()
    for title_in_text in (False, True, False):
        models.analyser(AnalyserSettings(title_in_text=title_in_text), make)
    models.close()
    models.close()
    assert [each.closed for each in make.made] == [1, 1]


def test_what_cannot_be_loaded_is_tried_again(make: Maker) -> None:
    def broken(settings: AnalyserSettings) -> Analyser:
        raise OSError("the disk is gone")

    models = ModelCache()
    with pytest.raises(OSError, match="gone"):
        models.analyser(AnalyserSettings(), broken)
    models.analyser(AnalyserSettings(), make)
    assert len(make.made) == 1


def test_a_router_is_loaded_once_for_equal_folders_and_schemas(
    tmp_path: Path, handmade_router: Callable[[Path, str, float], Path]
) -> None:
    folder = handmade_router(tmp_path / "models", "words", 1.0)
    other = handmade_router(tmp_path / "models", "words", 2.0)
    own = AnalyserSettings()
    schema = schema_id(open_syntax_parser(own.pipeline, own.constituency).fingerprint)
    models = ModelCache()
    first = models.router(folder, schema)
    assert models.router(folder.parent / "." / folder.name, schema) is first
    assert models.router(other, schema) is not first
    with pytest.raises(ModelFileError, match="was trained with feature schema"):
        models.router(folder, "another")
