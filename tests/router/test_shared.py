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


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Counted]:
    """Every analyser that is loaded."""
    found: list[Counted] = []

    def make(settings: AnalyserSettings) -> Counted:
        found.append(Counted(settings))
        return found[-1]

    monkeypatch.setattr("router.session.Analyser", make)
    return found


def test_equal_settings_are_loaded_once(made: list[Counted]) -> None:
    models = ModelCache()
    first = models.analyser(AnalyserSettings())
    assert models.analyser(replace(AnalyserSettings())) is first
    assert models.analyser(AnalyserSettings(title_in_text=True)) is not first
    assert len(made) == 2


def test_what_is_shared_is_closed_once(made: list[Counted]) -> None:
    with ModelCache() as models:
        for title_in_text in (False, True, False):
            models.analyser(AnalyserSettings(title_in_text=title_in_text))
    models.close()
    assert [each.closed for each in made] == [1, 1]


def test_what_cannot_be_loaded_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(settings: AnalyserSettings) -> Analyser:
        raise OSError("the disk is gone")

    models = ModelCache()
    monkeypatch.setattr("router.session.Analyser", broken)
    with pytest.raises(OSError, match="gone"):
        models.analyser(AnalyserSettings())
    monkeypatch.setattr("router.session.Analyser", Counted)
    assert isinstance(models.analyser(AnalyserSettings()), Counted)


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
