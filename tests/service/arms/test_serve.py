"""An arms file on the command line."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.service.arms.fakes import arms_file, table

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
