"""The guide to remote arms has every kind and every key, and its files can be read and work."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from service.arms.kinds import KINDS
from tests.docs.examples import ROOT, blocks
from tests.service.arms.fakes import Remote
from tests.service.arms.stores import ROWS, VECTORS, arm_of, ask

GUIDE = ROOT / "docs" / "guides" / "remote-arms.md"
TABLES: dict[str, dict[str, Any]] = {
    name: table
    for file in blocks(GUIDE.name, GUIDE.read_text("utf-8"))
    if file.language == "toml"
    for name, table in tomllib.loads(file.text)["arms"].items()
}


@pytest.fixture(name="remote")
def _remote() -> Iterator[Remote]:
    made = Remote()
    yield made
    made.close()


def test_the_guide_has_every_kind_and_every_key() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    named = {*re.findall(r"`([a-z_-]+)`", text)}
    assert {*KINDS} <= named
    for kind in KINDS.values():
        assert {*kind.Config.model_fields} <= named, kind


def test_every_table_of_it_can_be_read() -> None:
    assert {"lightrag", "notes", "graphrag", "wiki", "qdrant", "opensearch", "store"} == {*TABLES}
    for table in TABLES.values():
        assert KINDS[table["kind"]].Config.model_validate(table)


REPLIES: dict[str, tuple[Any, Any]] = {
    "qdrant": (
        {"query": VECTORS["tower"], "limit": 4, "with_payload": True},
        {
            "status": "ok",
            "result": {
                "points": [
                    {"id": id_, "score": 0.9, "payload": {"text": text, "title": title, **facts}}
                    for id_, title, text, facts in ROWS
                ]
            },
        },
    ),
    "opensearch": (
        {
            "size": 4,
            "query": {"multi_match": {"query": "tower", "fields": ["title^2", "body"]}},
        },
        {
            "timed_out": False,
            "hits": {
                "hits": [
                    {"_id": id_, "_score": 3.5, "_source": {"body": text, "title": title}}
                    for id_, title, text, _ in ROWS
                ]
            },
        },
    ),
    "store": (
        {"query": "tower", "max_num_results": 4},
        {
            "object": "vector_store.search_results.page",
            "data": [
                {
                    "file_id": id_,
                    "filename": title,
                    "score": 0.9,
                    "attributes": facts,
                    "content": [{"type": "text", "text": text}],
                }
                for id_, title, text, facts in ROWS
            ],
        },
    ),
}
"""Name of a table -> the request that its service expects, and the reply by its own reference."""


@pytest.mark.parametrize("name", REPLIES)
def test_its_tables_ask_and_read_the_stores_of_others(
    remote: Remote, tmp_path: Path, name: str
) -> None:
    request, remote.reply = REPLIES[name]
    path = "/" + TABLES[name]["url"].split("/", 3)[3]
    call = ask(arm_of(tmp_path, **{**TABLES[name], "url": f"{remote.url}{path}"}), "tower")
    assert call.reason == ""
    assert [(hit.id, hit.title, hit.text) for hit in call.hits] == [row[:3] for row in ROWS]
    assert (remote.paths, remote.asked) == ([path], [request])
