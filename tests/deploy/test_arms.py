"""The example of an arms file can be read."""

from pathlib import Path

import pytest

from wye.service.arms.file import read_arms

EXAMPLE = Path(__file__).parents[2] / "deploy" / "arms" / "wye.toml"


def test_it_declares_arms(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LIGHTRAG_API_KEY", "OPENSEARCH_KEY"):
        monkeypatch.setenv(name, "secret")
    found = read_arms(EXAMPLE, ["docs", "tickets"], 5.0)
    assert {name: [arm.name for arm in arms] for name, arms in found.items()} == {
        "docs": ["lightrag"],
        "tickets": ["tickets"],
    }
