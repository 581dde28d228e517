"""Any one file operation of a write fails, or all from there on: nothing acknowledged is lost."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.failing.writes import KINDS, MODES

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`failing.c`, compiled."""
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


def written(library: Path, folder: Path, kind: str, mode: str, every: int) -> None:
    words = ["-m", "tests.failing.writes", str(folder), kind, mode, str(every)]
    done = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env={**os.environ, "LD_PRELOAD": str(library), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["steps"] >= 40
    assert seen["outcomes"]["error"] > 0
    assert seen["faults"] == []


@pytest.mark.parametrize("kind", KINDS)
def test_some_failing_operations_lose_nothing(library: Path, tmp_path: Path, kind: str) -> None:
    written(library, tmp_path, kind, "once", 5)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS)
def test_no_failing_operation_loses_anything(
    library: Path, tmp_path: Path, kind: str, mode: str
) -> None:
    written(library, tmp_path, kind, mode, 1)
