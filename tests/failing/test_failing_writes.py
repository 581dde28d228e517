"""Any one file operation of a write fails, or all from there on: nothing acknowledged is lost."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.failing.writes import KINDS, MODES, SILENTLY

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if sys.platform != "linux":
        pytest.skip("replaces functions of Linux")
    compiler = shutil.which("cc")
    if compiler is None:
        if os.environ.get("CI"):
            pytest.fail("There is no C compiler; .ci/run installs one.")
        pytest.skip("needs a C compiler (Debian: gcc and libc6-dev)")
    made = tmp_path_factory.mktemp("failing") / "failing.so"
    options = ["-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o", str(made)]
    subprocess.run([compiler, *options, str(HERE / "failing.c"), "-ldl"], check=True)
    return made


def write(library: Path, folder: Path, mode: str, sample: str, kinds: list[str]) -> None:
    """Run kinds of writes on a disk that fails, and check that nothing was lost."""
    words = ["-m", "tests.failing.writes", str(folder), mode, sample, *kinds]
    done = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env={**os.environ, "LD_PRELOAD": str(library), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    reports = [json.loads(line) for line in done.stdout.splitlines()]
    assert [report["kind"] for report in reports] == kinds
    for report in reports:
        assert report["faults"] == [], report
        assert report["sorts"]["write"] > 0
        assert report["sorts"]["fsync"] > 0
        assert report["steps"] > 0
        if mode != SILENTLY:  # some ends are errors, and what is only a cache need not be written
            assert report["steps"] >= 8
            # Without room on the disk what is derived stays in memory. The last operations of a job
            # are of one that was accepted, which is tried again.
            always_done = report["kind"] == "derive" or (sample, report["kind"]) == ("some", "job")
            assert report["ends"].keys() > {"done"} or always_done


def test_some_failing_operations_lose_nothing(library: Path, tmp_path: Path) -> None:
    write(library, tmp_path, "once", "some", [*KINDS])


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS)
def test_no_failure_loses_anything(library: Path, tmp_path: Path, kind: str, mode: str) -> None:
    if (kind, mode) == ("derive", SILENTLY):
        pytest.skip("derived files are a cache, and no commit states their sizes")
    write(library, tmp_path, mode, "all", [kind])
