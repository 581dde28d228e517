"""A writer that is killed leaves a whole version behind, and running it again completes it.

A few moments of what `python -m benchmarks crash` does at many.
"""

from pathlib import Path

import pytest

from benchmarks.crash import OPERATIONS, Bench


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_index_survives_the_death_of_its_writer(operation: str, tmp_path: Path) -> None:
    bench = Bench(operation, tmp_path)
    assert bench.commits > 5
    for moment in (0.3, 0.7):
        trial = bench.trial(moment)
        assert trial.survived, trial
