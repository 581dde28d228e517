import stat
from pathlib import Path

import pytest

from service.errors import ServiceError
from service.http.keys import KeyRing, Scope, append_key, new_key, parse_key, read_keys


def test_a_key_opens_what_its_hash_was_stored_for() -> None:
    secret, key = new_key("ada", [Scope.READ])
    other, _ = new_key("ada", [Scope.READ])
    ring = KeyRing([str(key)])
    assert ring.find(secret) == key
    assert ring.find(other) is None
    assert ring.find("") is None
    assert secret not in str(key)


@pytest.mark.parametrize(
    ("own", "opens"),
    [
        ([Scope.READ], [Scope.READ]),
        ([Scope.WRITE], [Scope.READ, Scope.WRITE]),
        ([Scope.ADMIN], [Scope.READ, Scope.WRITE, Scope.ADMIN]),
        ([Scope.READ, Scope.WRITE], [Scope.READ, Scope.WRITE]),
    ],
)
def test_scopes_include_those_before_them(own: list[Scope], opens: list[Scope]) -> None:
    _, key = new_key("ada", own)
    assert [scope for scope in Scope if key.may(scope)] == opens


def test_a_line_is_read_as_it_was_written() -> None:
    _, key = new_key("ada.b-1", [Scope.WRITE, Scope.READ])
    assert str(key).startswith("ada.b-1 read+write sha256:")
    assert parse_key(str(key), "here") == key


@pytest.mark.parametrize("line", ["wye_secretsecret", "ada fly sha256:" + "0" * 64, "ada read x"])
def test_what_is_no_hash_is_refused_without_being_repeated(line: str) -> None:
    with pytest.raises(ServiceError, match=r"keys\.txt:3 is no hashed API key") as error:
        parse_key(line, "keys.txt:3")
    assert line not in str(error.value)


@pytest.mark.parametrize(("name", "scopes"), [("a b", [Scope.READ]), ("", [Scope.READ]), ("a", [])])
def test_keys_that_could_not_be_stored(name: str, scopes: list[Scope]) -> None:
    with pytest.raises(ServiceError, match=r"cannot be called|without scopes"):
        new_key(name, scopes)


def test_a_file_is_its_owners_alone_and_has_each_name_once(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "keys.txt"
    _, key = new_key("ada", [Scope.READ])
    append_key(path, key)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_keys(path) == [key]
    with pytest.raises(ServiceError, match="has a key called 'ada' already"):
        append_key(path, key)


def test_a_key_taken_out_of_the_file_stops_working(tmp_path: Path) -> None:
    path = tmp_path / "keys.txt"
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
    assert ring, "a server whose keys are gone is closed, not open"


def test_a_broken_file_leaves_the_keys_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "keys.txt"
    secret, key = new_key("ada", [Scope.READ])
    append_key(path, key)
    ring = KeyRing(path=path)
    path.write_text("garbage\n", encoding="utf-8")
    with pytest.raises(ServiceError, match=":1 is no hashed API key"):
        ring.reload()
    assert ring.find(secret) == key


def test_a_file_without_keys_is_no_way_to_open_a_server(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="holds no API key"):
        KeyRing(path=tmp_path / "missing.txt")
