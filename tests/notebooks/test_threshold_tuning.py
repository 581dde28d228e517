"""The notebooks run from top to bottom on the demo corpus, in a kernel of their own."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from featurizer.constituency.parser import open_syntax_parser
from router.model_files import TrainedRouter, save_router
from router.policy import Policy
from router.query_performance import NAMES, schema_id
from router.scorer import Linear, Scorer, Standard
from router.settings import DEFAULT_ROUTER, MODELS, load_settings
from router.types import Thresholds

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.fixture(scope="module")
def router(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The shipped one; where there is none, one that goes by the number of words."""
    if (MODELS / DEFAULT_ROUTER).is_dir():
        return DEFAULT_ROUTER
    own = load_settings().analyser
    parser = open_syntax_parser(own.pipeline, own.constituency)
    scorer = Scorer(
        names=("words",),
        columns=np.array([NAMES.index("words")]),
        width=len(NAMES),
        standard=Standard(np.array([10.0]), np.array([5.0]), 5.0),
        members=(Linear({"head.weight": np.array([[1.0]]), "head.bias": np.array([0.0])}),),
    )
    draft = TrainedRouter(
        scorer,
        Policy(Thresholds(0.4, 0.6)),
        schema_id(parser.fingerprint),
        card="# Router: words\n",
        training={},
        notes={},
    )
    return str(save_router(tmp_path_factory.mktemp("models"), "words", draft))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_runs(notebook: Path, router: str) -> None:
    command = [sys.executable, "-m", "pytest", "--nbmake", "-p", "no:cacheprovider", "-q"]
    done = subprocess.run(
        [*command, "-p", "no:xdist", str(notebook)],
        cwd=ROOT,
        env={**os.environ, "WYE_ROUTER__MODEL": router},
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
