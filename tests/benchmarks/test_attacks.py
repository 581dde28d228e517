"""The attacks that take seconds, on the program as it is here, without models."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.attacks import attempt
from benchmarks.attacks.target import Target, attacked

ROOT = Path(__file__).parents[2]
PROGRAM = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
import router.session
from benchmarks.hashing import FakeAnalyser
router.session.Analyser = FakeAnalyser
from service.cli import main
main()
"""
HELD = (
    "endless_answer",
    "endless_header",
    "half_written_job",
    "odd_generator",
    "upstream_error_text",
)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with attacked([sys.executable, "-c", PROGRAM], tmp_path_factory.mktemp("attacked")) as made:
        yield made


@pytest.mark.parametrize("name", HELD)
def test_an_attack_is_held_off(name: str, target: Target) -> None:
    outcome = attempt(name, target)
    assert outcome.held, outcome.seen
