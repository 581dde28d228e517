"""Which versions other processes search, whether they live or were killed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from service.refresh import ServedVersions


def test_processes_that_live_are_waited_for(tmp_path: Path) -> None:
    mine, other = ServedVersions(tmp_path), ServedVersions(tmp_path)
    assert mine.behind(1) == []
    mine.announce(3)
    other.announce(2)
    assert (len(mine.behind(3)), mine.behind(2)) == (1, [])
    other.announce(3)
    assert mine.behind(3) == []
    other.leave()
    assert mine.behind(9) == []
    with pytest.raises(FileNotFoundError):
        ServedVersions(tmp_path / "nowhere").announce(1)


def test_a_process_that_was_killed_is_waited_for_no_longer(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from service.refresh import ServedVersions\n"
        "ServedVersions(Path(sys.argv[1])).announce(1); print('x', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        mine = ServedVersions(tmp_path)
        assert len(mine.behind(2)) == 1
        process.kill()
        process.wait()
        assert mine.behind(2) == []
    assert list((tmp_path / "jobs" / "readers").iterdir()) == []
