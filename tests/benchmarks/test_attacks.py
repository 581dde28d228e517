"""The attacks that take seconds, on the program as it is here, without models."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.attacks import ATTACKS, attempt
from benchmarks.attacks.target import Target, attacked

ROOT = Path(__file__).parents[2]
PROGRAM = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
import router.session
from tests.hashing import FakeAnalyser
router.session.Analyser = FakeAnalyser
from service.cli import main
main()
"""
# What is about the cost of models, about several processes, or about patience is left to the
# benchmark.
LEFT_OUT = {
    "document_of_quotes",
    "endless_keepalive",
    "metrics_folder",
    "reader_hogs",
    "sigterm_two_workers",
    "sigterm_while_busy",
    "slow_header",
    "upload_client_leaves",
}

SLOW = {
    "body_of_numbers",
    "cors_star",
    "damaged_data_file",
    "half_written_job",
    "newest_manifest_gone",
    "paths_without_key",
    "terminal_controls",
    "too_many_connections",
}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with attacked([sys.executable, "-c", PROGRAM], tmp_path_factory.mktemp("attacked")) as made:
        yield made


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name in SLOW else ())
        for name in sorted({*ATTACKS} - LEFT_OUT)
    ],
)
def test_an_attack_is_held_off(name: str, target: Target) -> None:
    outcome = attempt(name, target)
    assert outcome.held, outcome.seen
