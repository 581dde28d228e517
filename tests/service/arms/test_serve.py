"""An arms file on the command line."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.service.arms.fakes import arms_file, table
from wye.service.doctor import Health, examine
from wye.service.settings import load_settings

Wye = Callable[..., tuple[int, str, str]]
MISTAKE = table("http://127.0.0.1:1", price=-1)
SAYS = "wye.toml: [arms.far] price: "


def test_a_mistake_ends_the_command(folder: Path, wye: Wye, tmp_path: Path) -> None:
    path = arms_file(tmp_path, MISTAKE)
    code, _, err = wye("serve", "--index", folder, "--port", "0", "--arms", path)
    assert (code, SAYS in err) == (2, True)


def test_the_file_of_the_working_folder_counts(
    folder: Path, wye: Wye, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(arms_file(tmp_path, MISTAKE).parent)
    code, _, err = wye("serve", "--index", folder, "--port", "0")
    assert (code, SAYS in err) == (2, True)


def test_the_doctor_reads_it(folder: Path, tmp_path: Path) -> None:
    for mistake, health in ((MISTAKE, Health.BAD), (table("http://x"), Health.GOOD)):
        settings = load_settings(index=folder, arms=arms_file(tmp_path, mistake))
        (finding,) = [one for one in examine(settings) if one.subject == "remote arms"]
        assert finding.state == health, finding
    assert "declares far (http) of default" in finding.says
