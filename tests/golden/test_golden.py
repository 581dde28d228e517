"""The product does what it did when it was frozen; `freeze.py` says when that may change."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

from tests.golden.collect import COLLECTORS, LEFT_OUT, SLOW, index_demo, masked, read_questions
from tests.golden.compare import EVERYTHING, TOLERANCE, TRAINED, differences, report
from tests.golden.product import ROOT, entering, environment
from tests.golden.store import FOLDER, read, rounded

# Files of each collector; a file that is missing here would not be looked at.
FILES = {
    "answers": {"answers.json.gz", "requests.json.gz"},
    "large": {"large.json.gz"},
    "training": {"thresholds.json"},
    "evaluation": {"eval.json.gz"},
    "features": {"features.json.gz"},
    "openapi": {"openapi.json.gz"},
    "settings": {"settings.json"},
    "training_network": {"train-network.json.gz"},
}
# These may lose anything, and gain or change nothing.
DESCRIPTIONS = ("openapi.json.gz", "settings.json")
# Keys that the product does not have any more; all else in a reply must be as it was.
REMOVED = ("everywhere", "missing", "nearest_change", "percentile", "reference", "short_answer")
NEED_NO_INDEX = ("features", "openapi", "settings")
NO_INDEX = Path("nowhere")


@pytest.fixture(scope="session")
def demo_index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of the demo corpus, made once for all processes that test."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    index = folder / "golden" / "index"
    with FileLock(folder / "golden.lock"):
        if not index.exists():
            index.parent.mkdir()
            index_demo(index.parent)
    return index


@pytest.mark.parametrize(
    "collector",
    [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in COLLECTORS],
)
def test_nothing_has_changed(
    collector: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """In a process of its own: the app sets up logs and more for all of its process."""
    index = NO_INDEX if collector in NEED_NO_INDEX else request.getfixturevalue("demo_index")
    done = subprocess.run(
        [sys.executable, "-m", "tests.golden.collect", collector, index, tmp_path],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    assert {path.name for path in tmp_path.iterdir()} == FILES[collector]
    reports = []
    for name in sorted(FILES[collector]):
        tolerance = TRAINED if name.startswith("train") else TOLERANCE
        removed = EVERYTHING if name in DESCRIPTIONS else REMOVED
        found = differences(read(name), read(name, tmp_path), tolerance, removed)
        if found:
            reports.append(report(name, found))
    assert not reports, "\n".join(reports)


def test_every_golden_file_is_compared_and_all_are_small() -> None:
    found = {path.name: path.stat().st_size for path in FOLDER.iterdir()}
    assert set(found) == set().union(*FILES.values())
    assert set(FILES) == set(COLLECTORS)
    assert sum(found.values()) < 3_000_000


def test_there_are_two_hundred_questions_and_all_are_frozen() -> None:
    questions = read_questions()
    answers = read("answers.json.gz")
    assert isinstance(answers, dict)
    assert len(questions) == 200
    assert {row["id"] for row in questions} == set(answers)


def test_a_path_that_is_never_taken_is_noticed() -> None:
    taken = "tests.golden.test_golden:rounded"
    with entering([taken]):
        rounded(0.5)
    never = "tests.golden.store:read"
    with (
        pytest.raises(RuntimeError, match=rf"^Never entered: {never}\.$"),
        entering([taken, never]),
    ):
        rounded(0.5)


def test_what_is_left_out_still_has_its_keys() -> None:
    value = {"timings_ms": {"total": 3.5, "dense": [1, None]}, "score": 0.5}
    times = {"total": LEFT_OUT, "dense": [LEFT_OUT, None]}
    assert masked(value) == {"timings_ms": times, "score": 0.5}
