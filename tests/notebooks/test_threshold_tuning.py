"""The notebooks run from top to bottom on the demo corpus, in a kernel of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from router.settings import DEFAULT_ROUTER

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_runs(notebook: Path) -> None:
    command = [sys.executable, "-m", "pytest", "--nbmake", "-p", "no:cacheprovider", "-q"]
    done = subprocess.run(
        [*command, "-p", "no:xdist", str(notebook)],
        cwd=ROOT,
        env={**os.environ, "WYE_ROUTER__MODEL": DEFAULT_ROUTER},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_nothing_that_was_printed_is_kept(notebook: Path) -> None:
    text = notebook.read_text(encoding="utf-8")
    assert '"execution_count": null' in text
    assert '"output_type"' not in text
