import stat
from pathlib import Path

import pytest

from wye.service.cli import run
from wye.service.http.edge import Scope
from wye.service.http.keys import KeyRing


def test_a_new_key_is_printed_once_and_stored_as_a_hash(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "keys.txt"
    assert (
        run(["keys", "new", "--name", "ada", "--scopes", "read, write", "--file", str(path)]) == 0
    )
    printed = capsys.readouterr()
    secret = printed.out.strip()
    assert secret.startswith("wye_")
    assert secret not in printed.err + path.read_text(encoding="utf-8")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    key = KeyRing(path=path).find(secret)
    assert key is not None
    assert (key.name, key.may(Scope.WRITE)) == ("ada", True)


def test_without_a_file_the_line_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["keys", "new"]) == 0
    printed = capsys.readouterr()
    line = printed.err.strip().splitlines()[-1]
    assert KeyRing([line]).find(printed.out.strip()) is not None


def test_a_key_can_be_bound(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "keys.txt"
    bound = ["--collection", "docs", "--collection", "wiki", "--filter", "acl=public"]
    bound += ["--max-cost-per-day", "2.5"]
    assert run(["keys", "new", *bound, "--file", str(path)]) == 0
    key = KeyRing(path=path).find(capsys.readouterr().out.strip())
    assert key is not None
    assert key.collections == ("docs", "wiki")
    assert key.max_cost_per_day == 2.5
    assert key.filter == '{"type":"eq","key":"acl","value":"public"}'


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--scopes", "fly"], "There is no scope 'fly'"),
        (["--scopes", ""], "needs a scope"),
        (["--name", "a b"], "cannot be called 'a b'"),
        (["--scopes", "write", "--filter", "acl=public"], "can only read"),
        (["--filter", '{"type": "about"}'], "filter.type must be one of"),
        (["--filter", "null"], "is neither a comparison"),
        (["--collection", "a b"], "collection cannot be called 'a b'"),
        (["--file", "/proc/nowhere/keys"], "cannot be written"),
    ],
)
def test_mistakes(capsys: pytest.CaptureFixture[str], arguments: list[str], says: str) -> None:
    assert run(["keys", "new", *arguments]) == 2
    assert says in capsys.readouterr().err
