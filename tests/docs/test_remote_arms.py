"""The guide to remote arms has every kind and every key."""

import re

from service.arms.registry import KINDS
from tests.docs.examples import ROOT


def test_the_guide_has_every_kind_and_every_key() -> None:
    text = (ROOT / "docs" / "guides" / "remote-arms.md").read_text(encoding="utf-8")
    named = {*re.findall(r"`([a-z_]+)`", text)}
    assert {*KINDS} <= named
    for kind in KINDS.values():
        assert {*kind.Config.model_fields} <= named, kind
