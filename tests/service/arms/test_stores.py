"""Objects of Python as arms, among them the example that calls a tool of an MCP server."""

import asyncio
import json
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

from tests.docs.examples import ROOT
from tests.live import listening
from tests.service.arms.stores import ROWS, arm_of, ask, compared
from tests.service.fakes import Library
from wye.backends.errors import FilterError
from wye.service.app import build
from wye.service.arms.file import read_arms
from wye.service.errors import ServiceError
from wye.service.settings import ServiceSettings


def test_the_example_for_mcp_calls_a_tool(
    tmp_path: Path, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "examples"))
    keys = {"kind": "python", "target": "mcp_arm:Tool"}
    with listening(build(ServiceSettings(), {"default": lambda: library})) as url:
        monkeypatch.setenv("TOOL_URL", f"{url}/mcp")
        call = ask(arm_of(tmp_path, **keys), "Which river is the Neretva?", k=2)
        assert call.reason == ""
        assert [hit.id for hit in call.hits][:1] == ["neretva"]
        assert all(hit.text for hit in call.hits)
        monkeypatch.setattr("mcp_arm.TOOL", "nope")
        assert "failed" in ask(arm_of(tmp_path, **keys), "Which?").reason
    assert ask(arm_of(tmp_path, **keys), "Which?").hits == ()


class Searches:
    def search(self, question: str, k: int) -> list[dict[str, object]]:
        return [{"id": id_, "text": text, "title": title} for id_, title, text, _ in ROWS[:k]]


class Filters(Searches):
    async def search(  # type: ignore[override]
        self, question: str, k: int, filter_: object
    ) -> list[dict[str, object]]:
        return [{"id": i, "text": text, "metadata": facts} for i, _, text, facts in ROWS]


class Sleeps:
    def search(self, question: str, k: int) -> list[object]:
        time.sleep(0.3)
        return []


class Fails:
    def search(self, question: str, k: int) -> object:
        return 3


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    made = ModuleType("their_code")
    made.__dict__.update(
        Searches=Searches, filters=Filters(), Sleeps=Sleeps, Fails=Fails, nothing=object()
    )
    monkeypatch.setitem(sys.modules, "their_code", made)
    return made


@pytest.mark.usefixtures("module")
def test_an_object_of_python_searches(tmp_path: Path) -> None:
    call = ask(arm_of(tmp_path, kind="python", target="their_code:Searches"), "?", k=2)
    assert [(hit.id, hit.title) for hit in call.hits] == [row[:2] for row in ROWS[:2]]
    only = compared("eq", "kind", "town")
    keys = {"kind": "python", "target": "their_code:filters", "filters": True}
    assert [hit.id for hit in ask(arm_of(tmp_path, **keys), "?", only).hits] == ["essen"]
    with pytest.raises(FilterError, match="kind 'python' cannot filter"):
        arm_of(tmp_path, kind="python", target="their_code:Searches").check_filter()
    assert ask(arm_of(tmp_path, kind="python", target="their_code:Fails"), "?").reason == (
        "sent an unreadable reply: it is not a list"
    )


@pytest.mark.usefixtures("module")
def test_one_that_takes_long_holds_nobody_up(tmp_path: Path) -> None:
    arm = arm_of(tmp_path, kind="python", target="their_code:Sleeps", timeout_ms=50)

    async def beside() -> float:
        started = time.perf_counter()
        call = await arm.search("?", 2, None, 5.0)
        assert call.outcome == "timeout"
        await arm.close()
        return time.perf_counter() - started

    assert asyncio.run(beside()) < 0.25


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("their_code:nope", r"target: their_code:nope cannot be loaded \(AttributeError"),
        ("no_such_module:x", "target: no_such_module:x cannot be loaded"),
        ("their_code:nothing", "target: their_code:nothing has no search"),
        ("their_code", "target: string should match"),
    ],
)
@pytest.mark.usefixtures("module")
def test_what_is_no_search_is_refused(tmp_path: Path, target: str, says: str) -> None:
    path = tmp_path / "wye.toml"
    keys = {"kind": "python", "role": "list", "target": target}
    text = "\n".join(f"{key} = {json.dumps(value)}" for key, value in keys.items())
    path.write_text(f"[arms.far]\n{text}", encoding="utf-8")
    with pytest.raises(ServiceError, match=says):
        read_arms(path, ["docs"], 5.0)
