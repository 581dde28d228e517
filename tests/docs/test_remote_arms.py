"""The guide to remote arms has every kind and every key, and its files can be read."""

import re
import tomllib

import pytest

from tests.docs.examples import ROOT, blocks
from wye.service.arms.kinds import KINDS

GUIDE = ROOT / "docs" / "guides" / "remote-arms.md"
RECIPES = ROOT / "deploy" / "arms" / "recipes.toml"


def test_the_guide_has_every_kind_and_every_key() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    named = {*re.findall(r"`([a-z_-]+)`", text)}
    assert {*KINDS} <= named
    for kind in KINDS.values():
        assert {*kind.model_fields} <= named, kind


def test_every_file_of_it_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    files = [
        one.text for one in blocks(GUIDE.name, GUIDE.read_text("utf-8")) if one.language == "toml"
    ]
    assert len(files) == 1
    for file in (*files, RECIPES.read_text("utf-8")):
        for table in tomllib.loads(file)["arms"].values():
            if "key_env" in table:
                monkeypatch.setenv(table["key_env"], "secret")
            assert KINDS[table["kind"]].model_validate(table)
