import json
from importlib.resources import files
from pathlib import Path

import pytest

from benchmarks import indexing

DEMO = str(files("service") / "demo")
RIVAL = {
    "passages": 1000,
    "seconds": {"parsing": 10.0, "encoding": 70.0, "total": 88.0},
    "cpu_seconds": {"parsing": 10.0, "encoding": 69.0, "total": 86.0},
}


@pytest.mark.slow
def test_it_starts(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    rival, output = tmp_path / "rival.json", tmp_path / "indexing.json"
    rival.write_text(json.dumps(RIVAL))
    options = ["--modes", "one thread", "--rival", str(rival), "--output", str(output)]
    indexing.main([DEMO, *options])
    printed = capfd.readouterr().out
    assert (
        "reference LinearRAG: wall                10.000     70.000          -      8.000"
        in printed
    )
    assert "opened to first answer" in printed
    written = json.loads(output.read_text())
    assert written["modes"]["one thread"]["added"] == written["passages"]
