"""What was trained and reported on questions made by hand."""

from dataclasses import replace

import pytest

from tests.training.made import QUICK, WIDTH, D, questions_of
from wye.training.fit.router import Choices, Fitted, fit
from wye.training.held_out import run_systems, summarise
from wye.training.labels import ALL_GOLD, compared
from wye.training.report import Report, make_report


@pytest.fixture(scope="session")
def fitted() -> Fitted:
    choices = Choices(success=ALL_GOLD, recipe=QUICK, simple=D)
    questions = questions_of({"one": 90, "other": 60}, "train", "dev")
    found = compared(questions, D, choices.success)
    names = tuple(f"f{column}" for column in range(WIDTH))
    return fit(replace(questions, names=names), found, choices)


@pytest.fixture(scope="session")
def report(fitted: Fitted) -> Report:
    questions = questions_of({"one": 40, "other": 20}, "test", seed=1)
    scores = fitted.scorer.scores(questions.features)
    systems = run_systems(questions, scores, fitted.policy)
    disagreement = compared(questions, D, fitted.choices.success)
    return make_report(fitted, summarise(systems, questions, scores, disagreement))


@pytest.fixture(scope="session")
def unjudged(fitted: Fitted) -> Report:
    return make_report(fitted, None)
