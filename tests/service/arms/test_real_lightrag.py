"""LightRAG's server as it is; skipped where it is not installed, see lightrag.py."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live import inside
from tests.service.arms.lightrag import KEY, ROOT, SERVER, lightrag
from tests.service.arms.stores import arm_of, ask, recipe, recipes
from tests.service.fakes import Library
from wye.backends.errors import FilterError
from wye.featurizer.analyser import Analyser, AnalyserSettings
from wye.service.app import build
from wye.service.arms.arm import RemoteArm
from wye.service.settings import ServiceSettings

pytestmark = pytest.mark.skipif(
    not SERVER.exists(),
    reason="lightrag-server is not installed; see tests/service/arms/lightrag.py",
)

ISLAND = "Which captain had once claimed the island where the James Caird came ashore?"
PASSAGES = 24


@pytest.fixture(scope="module")
def documents() -> dict[str, str]:
    """Of the demo, by the names of files: those that the question is about, and some others."""
    lines = (ROOT / "service" / "demo" / "corpus.jsonl").read_text("utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    rows.sort(key=lambda row: not ("James Caird" in row["text"] or "South Georgia" in row["text"]))
    return {f"notes/{row['_id']}.md": f"{row['title']}\n\n{row['text']}" for row in rows[:PASSAGES]}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, documents: dict[str, str]) -> Iterator[str]:
    """Its address; its vectors are by our encoder."""
    analyser = Analyser(AnalyserSettings())
    folder = tmp_path_factory.mktemp("lightrag")
    with lightrag(folder, documents, lambda texts: analyser.encode_questions(list(texts))) as url:
        yield url


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIGHTRAG_API_KEY", KEY)


def lightrag_arm(folder: Path, url: str, **changes: Any) -> RemoteArm:  # noqa: ANN401
    return arm_of(folder, **recipe("lightrag", url, timeout_ms=20_000, **changes))


def request(mode: str) -> dict[str, str]:
    return {**recipes()["lightrag"]["request"], "mode": mode}


@pytest.mark.parametrize("mode", ["local", "global", "hybrid", "naive", "mix"])
def test_its_chunks_are_passages(
    server: str, tmp_path: Path, documents: dict[str, str], mode: str
) -> None:
    call = ask(lightrag_arm(tmp_path, server, request=request(mode)), ISLAND, k=5)
    assert (call.reason, call.note, call.spent) == ("", "", 0.02)
    assert 1 <= len(call.hits) <= 5
    assert len({hit.id for hit in call.hits}) == len(call.hits)
    texts = {path.rpartition("/")[2]: text for path, text in documents.items()}
    for hit in call.hits:
        assert hit.text == texts[hit.title.rpartition("/")[2]]
    assert any("James Caird" in hit.text for hit in call.hits)


def test_short_questions_and_such_without_an_answer(server: str, tmp_path: Path) -> None:
    for question, outcome in {"?": "refused", "it": "refused", "zzz qqq": "ok"}.items():
        for mode in ("naive", "mix"):
            call = ask(lightrag_arm(tmp_path, server, request=request(mode)), question)
            assert (call.outcome, str(call.state)) == (outcome, "closed"), (question, mode)


def test_it_cannot_filter_and_asks_for_its_key(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(FilterError, match="no place for a filter"):
        ask(lightrag_arm(tmp_path, server), ISLAND, {"type": "eq", "key": "a", "value": 1})
    monkeypatch.setenv("LIGHTRAG_API_KEY", "another")
    call = ask(lightrag_arm(tmp_path, server), ISLAND)
    assert (call.outcome, call.reason) == ("refused", "rejects our key (403)")


def test_it_takes_the_graphs_place(server: str, tmp_path: Path, library: Library) -> None:
    lightrag_arm(tmp_path, server)
    settings = ServiceSettings(arms=tmp_path / "wye.toml")
    with inside(build(settings, {"default": lambda: library})) as client:
        replies = {
            route: client.post(
                "/v1/retrieve", json={"question": ISLAND, "route": route, "deadline_ms": 30_000}
            ).json()
            for route in ("graph", "fusion", "dense")
        }
    assert [replies[route]["missing"] for route in ("graph", "fusion")] == [[], []]
    assert replies["graph"]["passages"][0]["id"].startswith("far:")
    assert {"hybrid", "far"} == {*replies["fusion"]["arms"]}
    assert (replies["fusion"]["spent"], replies["dense"].get("spent")) == (0.02, None)
