"""The notebooks run from top to bottom on the demo corpus, and print what is committed.

`python tests/notebooks/test_threshold_tuning.py` runs them, and writes what they print.
"""

import base64
import os
import re
import sys
from pathlib import Path
from unittest.mock import patch

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat import NotebookNode

from wye.router.settings import DEFAULT_ROUTER

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
LARGEST = 400_000
# What only a notebook that runs can show, and where somebody's files are.
WIDGET = "application/vnd.jupyter.widget-view+json"


def read(path: Path) -> NotebookNode:
    found: NotebookNode = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    return found


def executed(path: Path) -> NotebookNode:
    """A notebook with what it prints, without widgets, progress, and what differs each time."""
    notebook = read(path)
    own = {name: value for name, value in os.environ.items() if not name.startswith("WYE_")}
    settings = {
        **own,
        "PYTHONPATH": str(ROOT),
        "WYE_ROUTER__MODEL": DEFAULT_ROUTER,
        # Not all processors have bfloat16.
        "WYE_ANALYSER__ENCODER__DTYPE": "float32",
    }
    with patch.dict(os.environ, settings, clear=True):
        NotebookClient(notebook, timeout=1_800, resources={"metadata": {"path": ROOT}}).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [
                output
                for output in cell.outputs
                if output.get("name") != "stderr" and WIDGET not in output.get("data", {})
            ]
    notebook.metadata.pop("widgets", None)
    notebook.metadata["language_info"] = {"name": "python"}
    return notebook


def structure(notebook: NotebookNode) -> dict[str, list[tuple[str, list[str]]]]:
    """Cell -> for each output its kind, and the words in it where it is text.

    What a cell prints and what it shows come over two channels, in either order.
    """
    return {
        cell.id: sorted(
            (kind, re.findall(r"[^\W\d_]{2,}", text) if kind.startswith("text") else [])
            for output in cell.outputs
            for kind, text in output.get("data", {"text": output.get("text")}).items()
        )
        for cell in notebook.cells
        if cell.cell_type == "code"
    }


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_prints_what_is_committed(path: Path) -> None:
    assert structure(executed(path)) == structure(read(path))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_what_is_committed_can_be_read_without_running_it(path: Path) -> None:
    notebook = read(path)
    outputs = [one for cell in notebook.cells for one in cell.get("outputs", [])]
    pictures = [one.data["image/png"] for one in outputs if "image/png" in one.get("data", {})]
    assert len(pictures) == 1
    assert all(base64.b64decode(one).startswith(b"\x89PNG") for one in pictures)
    assert path.stat().st_size < LARGEST
    assert not [one for one in outputs if one.output_type == "error"]
    assert str(ROOT) not in path.read_text(encoding="utf-8")


if __name__ == "__main__":
    for one in NOTEBOOKS:
        nbformat.write(executed(one), one)  # type: ignore[no-untyped-call]
    sys.exit()
