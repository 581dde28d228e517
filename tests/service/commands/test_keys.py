import stat
from pathlib import Path

import pytest

from tests.fakes import Wye
from wye.service.http.edge import Scope
from wye.service.http.keys import KeyRing


def test_a_new_key_is_printed_once_and_stored_as_a_hash(tmp_path: Path, wye: Wye) -> None:
    path = tmp_path / "keys.txt"
    words = ("--name", "ada", "--scopes", "read, write", "--file", path)
    code, out, err = wye("keys", "new", *words)
    secret = out.strip()
    assert (code, secret.startswith("wye_")) == (0, True)
    assert secret not in err + path.read_text(encoding="utf-8")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    key = KeyRing(path=path).find(secret)
    assert key is not None
    assert (key.name, key.may(Scope.WRITE)) == ("ada", True)


def test_without_a_file_the_line_is_shown(wye: Wye) -> None:
    code, out, err = wye("keys", "new")
    line = err.strip().splitlines()[-1]
    assert code == 0
    assert KeyRing([line]).find(out.strip()) is not None


def test_a_key_can_be_bound(tmp_path: Path, wye: Wye) -> None:
    path = tmp_path / "keys.txt"
    bound = ["--collection", "docs", "--collection", "wiki", "--filter", "acl=public"]
    bound += ["--max-cost-per-day", "2.5"]
    code, out, _ = wye("keys", "new", *bound, "--file", path)
    key = KeyRing(path=path).find(out.strip())
    assert code == 0
    assert key is not None
    assert key.collections == ("docs", "wiki")
    assert key.max_cost_per_day == 2.5
    assert key.filter == '{"type":"eq","key":"acl","value":"public"}'


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--scopes", "fly"], "There is no scope 'fly'"),
        (["--filter", '{"type": "about"}'], "filter.type must be one of"),
        (["--filter", "null"], "is neither a comparison"),
        (["--file", "/proc/nowhere/keys"], "cannot be written"),
    ],
)
def test_mistakes(wye: Wye, arguments: list[str], says: str) -> None:
    code, _, err = wye("keys", "new", *arguments)
    assert (code, says in err) == (2, True)
