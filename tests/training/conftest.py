"""What was trained and reported on questions made by hand."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes import ReadingAnalyser
from tests.training.made import WIDTH, D, Line, questions_of
from wye.training.fit.router import Choices, Fitted, TrainingSet, fit
from wye.training.held_out import HeldOutEvaluation, run_systems
from wye.training.labels import ALL_GOLD, compared
from wye.training.report import Report, make_report


@pytest.fixture
def no_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wye.router.session.Analyser", ReadingAnalyser)


@pytest.fixture(scope="session")
def fitted() -> Fitted:
    choices = Choices(success=ALL_GOLD, kind="linear", simple=D)
    questions = questions_of({"one": 90, "other": 60}, "train", "dev")
    found = compared(questions, D, choices.success, choices.fusion)
    names = tuple(f"f{column}" for column in range(WIDTH))
    return fit(TrainingSet(questions, found.labels, better=found.better), names, choices)


@pytest.fixture(scope="session")
def held_out(fitted: Fitted) -> HeldOutEvaluation:
    fusion, success = fitted.choices.fusion, fitted.choices.success
    material = questions_of({"one": 40, "other": 20}, "test", seed=1)

    return run_systems(
        material,
        fitted.scorer.scores(material.features),
        fitted.policy,
        compared(material, D, success, fusion),
        fusion=fusion,
    )


@pytest.fixture(scope="session")
def report(fitted: Fitted, held_out: HeldOutEvaluation) -> Report:
    return report_of(fitted, held_out)


@pytest.fixture(scope="session")
def unjudged(fitted: Fitted) -> Report:
    return report_of(fitted, None)


def report_of(fitted: Fitted, held_out: HeldOutEvaluation | None) -> Report:
    facts = {
        "schema_id": "9f2c",
        "command": "wye train --questions one --questions other",
        "seconds": {"training": 1.25},
        "versions": {"wye": "0.1.0"},
    }
    return make_report(fitted, held_out, facts)


@pytest.fixture
def write_log(tmp_path: Path) -> Callable[..., Path]:
    """Write lines, which may be text that is none, to a file."""

    def write(*lines: Line | str, name: str = "log.jsonl") -> Path:
        path = tmp_path / name
        texts = (one if isinstance(one, str) else json.dumps(one) + "\n" for one in lines)
        path.write_text("".join(texts), encoding="utf-8")
        return path

    return write
