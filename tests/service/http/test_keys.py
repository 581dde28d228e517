import json
import math
import stat
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wye.backends.errors import FilterError
from wye.service.errors import ServiceError
from wye.service.http.edge import Scope, is_loopback
from wye.service.http.keys import KeyRing, append_key, new_key, parse_key, read_keys


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys.txt"


@pytest.mark.parametrize("line", ["wye_secretsecret", "ada fly sha256:" + "0" * 64, "ada read x"])
def test_what_is_no_hash_is_refused_without_being_repeated(line: str) -> None:
    with pytest.raises(ServiceError, match=r"keys\.txt:3 is not a hashed API key") as error:
        parse_key(line, "keys.txt:3")
    assert line not in str(error.value)


@pytest.mark.parametrize(("name", "scopes"), [("a b", [Scope.READ]), ("", [Scope.READ]), ("a", [])])
def test_keys_that_could_not_be_stored(name: str, scopes: list[Scope]) -> None:
    with pytest.raises(ServiceError, match=r"cannot be called|needs a scope"):
        new_key(name, scopes)


def test_a_file_is_its_owners_alone_and_has_each_name_once(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "keys.txt"
    _, key = new_key("ada", [Scope.READ])
    append_key(path, key)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_keys(path) == ([key], [])
    with pytest.raises(ServiceError, match=r"already has a key called 'ada'"):
        append_key(path, key)


def test_a_key_taken_out_of_the_file_stops_working(path: Path) -> None:
    first, second = new_key("ada", [Scope.READ]), new_key("bob", [Scope.READ])
    for _, key in (first, second):
        append_key(path, key)
    ring = KeyRing(path=path)
    assert ring.find(first[0]) == first[1]
    path.write_text(f"# only bob\n\n{second[1]}\n", encoding="utf-8")
    ring.reload()
    assert ring.find(first[0]) is None
    assert ring.find(second[0]) == second[1]
    path.unlink()
    ring.reload()
    assert ring.find(second[0]) is None
    assert ring.is_required, "a server whose keys are gone is closed, not open"


def test_lines_that_cannot_be_read_open_nothing_and_the_others_go_on(path: Path) -> None:
    (boss, boss_key), (ada, ada_key) = (new_key(name, [Scope.READ]) for name in ("boss", "ada"))
    path.write_text(f"{boss_key}\n{ada_key}\n", encoding="utf-8")
    ring = KeyRing(path=path)
    assert (ring.find(boss), ring.fault) == (boss_key, "")
    path.write_bytes(f"garbage {boss}\n{ada_key}\n".encode() + b"\xff\xfe\n")
    ring.reload()
    assert ring.find(boss) is None, "it was taken out, whatever else stands there"
    assert ring.find(ada) == ada_key
    assert ring.fault.startswith("Line 1 of the keys file is not a hashed API key")
    assert "2 lines are like that" in ring.fault
    assert boss not in ring.fault
    assert str(path.parent) not in ring.fault
    path.write_text("garbage\n", encoding="utf-8")
    ring.reload()
    assert ring.find(ada) is None
    assert ring, "it is closed, not open"
    path.write_text(f"{ada_key}\n", encoding="utf-8")
    ring.reload()
    assert (ring.find(ada), ring.fault) == (ada_key, "")


LINES = st.text() | st.sampled_from(["ada read sha256:", " filter={", "# x", "\x85", "ada read"])


@given(st.lists(LINES), st.integers(0, 3))
def test_whatever_else_a_file_holds_a_whole_line_is_a_key(lines: list[str], position: int) -> None:
    secret, key = new_key("ada", [Scope.READ])
    noise = [line.replace("\n", " ").encode("utf-8", "replace") for line in lines]
    noise.insert(position, str(key).encode())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "keys.txt"
        path.write_bytes(b"\n".join(noise))
        ring = KeyRing(path=path)
    assert ring.find(secret) == key
    assert ring.keys == [key]


def test_a_file_that_cannot_be_read_opens_nothing(path: Path) -> None:
    secret, key = new_key("ada", [Scope.READ])
    append_key(path, key)
    ring = KeyRing(path=path)
    path.unlink()
    path.mkdir()
    ring.reload()
    assert ring.find(secret) is None
    assert "cannot be read (Is a directory)" in ring.fault


@pytest.mark.parametrize("mode", [0o666, 0o620, 0o602])
def test_a_file_that_others_can_write_takes_no_key(path: Path, mode: int) -> None:
    path.touch()
    path.chmod(mode)
    with pytest.raises(ServiceError, match="it may contain a key of theirs"):
        append_key(path, new_key("ada", [Scope.READ])[1])
    assert path.read_text(encoding="utf-8") == ""


COMPARED = st.builds(
    lambda key, value: {"type": "eq", "key": key, "value": value},
    st.text(),
    st.text() | st.integers(),
)


@given(
    filter_=COMPARED
    | st.builds(lambda parts: {"type": "or", "filters": parts}, st.lists(COMPARED, min_size=1)),
    collections=st.lists(
        st.from_regex(r"[A-Za-z0-9][\w.-]{0,9}", fullmatch=True).filter(str.isascii)
    ),
    cost=st.none() | st.floats(0, allow_infinity=False),
)
def test_what_a_key_is_bound_to_is_read_as_it_was_written(
    filter_: dict[str, object], collections: list[str], cost: float | None
) -> None:
    _, key = new_key("ada", [Scope.READ], collections, filter_, cost)
    line = str(key)
    assert parse_key(line, "here") == key
    assert "," not in line, "entries of WYE_SERVE__KEYS are parted by commas"
    assert len(line.splitlines()) == 1
    assert json.loads(json.dumps(key.within(None))) == {"type": "and", "filters": [filter_]}
    filter_value = {"type": "ne", "key": "k", "value": 1}
    assert json.loads(json.dumps(key.within(filter_value)))["filters"] == [filter_, filter_value]


def test_keys_that_are_bound_badly_are_none() -> None:
    good = str(new_key("ada", [Scope.READ], filter_={"type": "eq", "key": "a", "value": 1})[1])
    parse_key(good, "here")
    for bad in (
        good.replace("ada read", "ada write"),
        good.replace('"eq"', '"about"'),
        good[:-1],
        good + " collections=a",
        good + " max_cost_per_day=-1",
        good + " max_cost_per_day=much",
    ):
        with pytest.raises(ServiceError, match=r"^here"):
            parse_key(bad, "here")
    with pytest.raises(ServiceError, match="can only read"):
        new_key("ada", [Scope.WRITE], filter_={"type": "eq", "key": "a", "value": 1})
    with pytest.raises(ServiceError, match=r"collection cannot be called 'a b'"):
        new_key("ada", [Scope.READ], ["a b"])
    for amount in (-0.1, math.inf, math.nan):
        with pytest.raises(ServiceError, match="must be 0 or more"):
            new_key("ada", [Scope.WRITE], max_cost_per_day=amount)
    with pytest.raises(FilterError):
        new_key("ada", [Scope.READ], filter_={"type": "about"})


def test_a_file_without_keys_is_no_way_to_open_a_server(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="contains no API key"):
        KeyRing(path=tmp_path / "missing.txt")


@pytest.mark.parametrize(
    ("hosts", "is_ours"),
    [
        (("127.0.0.1", "127.1.2.3", "::1", "localhost"), True),
        (("0.0.0.0", "::", "192.168.1.2", "example.org", ""), False),
    ],
)
def test_who_can_reach_it(hosts: tuple[str, ...], is_ours: bool) -> None:
    assert {*map(is_loopback, hosts)} == {is_ours}
