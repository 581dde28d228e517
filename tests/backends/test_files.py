"""Files are whole or absent, and equal values are equal text."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wye.backends.files import canonical_json, rounded_json, write_atomically

scalar = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
)
value = st.recursive(
    scalar | st.text(), lambda part: st.lists(part) | st.dictionaries(st.text(), part), max_leaves=9
)


def test_an_older_file_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"older")
    with write_atomically(path) as file:
        file.write(b"newer")
        file.flush()
        assert path.read_bytes() == b"older"
    assert path.read_bytes() == b"newer"
    with pytest.raises(ValueError, match="closed"), write_atomically(path) as file:
        file.close()
    assert path.read_bytes() == b"newer"
    assert list(tmp_path.iterdir()) == [path]


def test_content_and_name_are_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []

    def note(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink())

    monkeypatch.setattr(os, "fsync", note)
    with write_atomically(tmp_path / "file") as file:
        file.write(b"x")
    assert [path.parent for path in synced] == [tmp_path, tmp_path.parent]


@given(value)
@pytest.mark.parametrize("indent", [None, 2])
def test_json_gives_back_whatever_the_order_of_keys(indent: int | None, value: object) -> None:
    text = canonical_json(value, indent=indent)
    assert json.loads(text) == value
    if isinstance(value, dict):
        assert text == canonical_json(dict(reversed(value.items())), indent=indent)


def test_what_json_has_no_word_for_is_refused() -> None:
    assert canonical_json({"b": 1.0, "a": [1, "é"]}) == '{"a":[1,"é"],"b":1.0}'
    with pytest.raises(ValueError, match="Out of range"):
        canonical_json([float("nan")])


def test_json_is_sorted_and_rounded() -> None:
    text = rounded_json({"b": 0.12345678, "a": [1, {"d": 2.0, "c": "é"}]})
    assert text == rounded_json({"a": (1, {"c": "é", "d": 2.0}), "b": 0.12345681})
    assert '"é"' in text
    assert "0.123457" in text
