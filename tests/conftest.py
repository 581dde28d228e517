import logging
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

from tests.fakes import ReadingAnalyser, Router, Wye, line, syntax_parser
from tests.hashing import FakeAnalyser
from tests.service.arms.fakes import Remote
from wye.featurizer.analyser import AnalyserSettings
from wye.router.evidence import COLUMNS, schema_id
from wye.router.model_files import TrainedRouter, save_router
from wye.router.policy import Policy
from wye.router.scorer import Scorer, Standard
from wye.router.types import Route, Thresholds
from wye.service.cli import run

# A busy machine is not a failing test.
settings.register_profile("wye", deadline=None)
settings.load_profile("wye")


@pytest.fixture(autouse=True)
def own_log() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in ("wye", "uvicorn", "mcp")]
    before = [(logger.handlers, logger.level, logger.propagate) for logger in loggers]
    yield
    for logger, (handlers, level, propagate) in zip(loggers, before, strict=True):
        logger.handlers, logger.propagate = handlers, propagate
        logger.setLevel(level)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """What asynchronous tests run on, as the server does."""
    return "asyncio"


@pytest.fixture
def fake_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have sessions use `FakeAnalyser`, so that no models are loaded."""
    monkeypatch.setattr("wye.router.session.Analyser", FakeAnalyser)


@pytest.fixture
def reading_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have sessions use `ReadingAnalyser`: questions are really parsed, but not encoded."""
    monkeypatch.setattr("wye.router.session.Analyser", ReadingAnalyser)


@pytest.fixture(scope="session")
def handmade_router() -> Router:
    """Writes a router whose logit is one feature minus an offset.

    Scores up to 0.4 take lexical, those from 0.6 the graph.
    """

    def write(models: Path, feature: str, offset: float) -> Path:
        own = AnalyserSettings()
        scorer = Scorer(
            names=(feature,),
            columns=np.array([COLUMNS.index(feature)]),
            standard=Standard(np.zeros(1), np.ones(1), 50.0),
            members=(line([1], -offset),),
        )
        schema = schema_id(syntax_parser(own).fingerprint)
        policy = Policy(Thresholds(0.4, 0.6), Route.LEXICAL)
        return save_router(
            models, "handmade", TrainedRouter(scorer, policy, schema, "# By hand\n", {}, {})
        )

    return write


@pytest.fixture
def wye(capsys: pytest.CaptureFixture[str]) -> Wye:
    """Runs a command; returns its exit code, standard output and standard error."""

    def call(*arguments: str | Path) -> tuple[int, str, str]:
        code = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def remote() -> Iterator[Remote]:
    with closing(Remote()) as made:
        yield made


def _forget_settings() -> None:
    for name in [name for name in os.environ if name.upper().startswith("WYE_")]:
        del os.environ[name]


@pytest.fixture(autouse=True, scope="session")
def _no_settings_from_outside() -> None:
    _forget_settings()


@pytest.fixture(autouse=True)
def _no_settings_from_other_tests() -> Iterator[None]:
    """Unset the variables that `wye serve` sets in this process."""
    yield
    _forget_settings()
