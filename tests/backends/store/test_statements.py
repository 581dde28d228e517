"""Statements take the place of a passage's sentences, and are stored and deleted with it."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.backends.store.conftest import Counting
from tests.docs.examples import ROOT
from tests.fakes import Wye, speaking
from tests.hashing import HashAnalyser
from wye.backends.documents import checked_passage, chunk_passage, parse_record
from wye.backends.errors import SourceError
from wye.backends.index_source import IndexSource
from wye.backends.store.corpus import read_corpus
from wye.backends.store.index import PassageStore
from wye.backends.store.ingest import ingest
from wye.backends.store.repair import repair
from wye.backends.store.schema import NAMES, STATEMENTS, passage_schema, to_analyses
from wye.backends.types import Passage, Statement
from wye.router.session import Session
from wye.router.settings import load_settings
from wye.router.types import Ask, Reply, Route

GIVEN: tuple[Statement, ...] = ("Anna met Bob.", "it was late", ("Bob", "paints", "Carl"))
PASSAGE = Passage("a", "Anna", "Anna met Bob who paints Carl.", statements=GIVEN)
PLAIN = Passage("b", "Bob", "Bob met Dora.")
TOWNS = ("Bihac", "Jajce", "Konjic", "Livno", "Mostar", "Travnik")


@pytest.fixture
def index(tmp_path: Path) -> PassageStore:
    analyser = HashAnalyser()
    made = PassageStore.create(tmp_path / "index", analyser.dimension, analyser.fingerprint)
    ingest(made, [PASSAGE, PLAIN], analyser)
    return made


def sentences(index: PassageStore) -> dict[str, list[tuple[str, tuple[str, ...]]]]:
    rows = index.newest().snapshot().to_table(columns=["id", "vector", "sentences"])
    return {
        id_: [(sentence.text, sentence.entities) for sentence in analysis.sentences]
        for id_, analysis in zip(rows["id"].to_pylist(), to_analyses(rows), strict=True)
    }


def test_they_are_sentences_and_those_without_a_mention_are_left_out(index: PassageStore) -> None:
    stored = sentences(index)
    assert stored["a"] == [("Anna met Bob.", ("Anna", "Bob")), ("Bob paints Carl", ("Bob", "Carl"))]
    assert [text for text, _ in stored["b"]] == ["Bob met Dora."]
    assert not repair(index.path, dry_run=True).damage


def test_only_other_statements_are_analysed_again(index: PassageStore) -> None:
    watched = Counting()
    assert ingest(index, [PASSAGE, PLAIN], watched).unchanged == 2
    moved = replace(PASSAGE, metadata={"year": 2031})
    assert (ingest(index, [moved], watched).updated, watched.analysed) == (1, [])
    assert len(sentences(index)["a"]) == 2
    fewer = replace(moved, statements=GIVEN[:1])
    assert ingest(index, [fewer], watched).updated == 1
    assert "a" in watched.analysed
    assert sentences(index)["a"] == [("Anna met Bob.", ("Anna", "Bob"))]


@pytest.mark.parametrize("name", ["hash", "other"])
def test_another_index_takes_them_along(index: PassageStore, tmp_path: Path, name: str) -> None:
    analyser, source = HashAnalyser(name=name), IndexSource(index.path)
    new = PassageStore.create(tmp_path / "new", analyser.dimension, analyser.fingerprint)
    ingest(new, source.passages(), analyser)
    assert sentences(new) == sentences(index)
    assert [p.statements for p in IndexSource(new.path).passages()] == [GIVEN, ()]


def test_an_index_without_the_columns_reads_as_before_and_refuses_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def former(*arguments: object) -> pa.Schema:
        schema = passage_schema(*arguments)  # type: ignore[arg-type]
        return pa.schema([f for f in schema if f.name not in (STATEMENTS, NAMES)], schema.metadata)

    monkeypatch.setattr("wye.backends.store.index.passage_schema", former)
    analyser = HashAnalyser()
    old = PassageStore.create(tmp_path / "old", analyser.dimension, analyser.fingerprint)
    assert ingest(old, [PLAIN], analyser).added == 1
    assert [passage.id for passage in IndexSource(old.path).passages()] == ["b"]
    with pytest.raises(SourceError, match=r"made before passages had statements.*OLD --index NEW"):
        ingest(old, [PASSAGE], analyser)
    with pytest.raises(SourceError, match=r"made before passages had names.*OLD --index NEW"):
        ingest(old, [PLAIN], analyser, entity_vectors=True)
    assert np.isnan(read_corpus(PassageStore.open(old.path)).surface_vectors(["Anna"])).all()


def test_a_record_has_them_cleaned_and_once() -> None:
    given = [" Anna\u0007  met Bob.", "Anna met Bob.", ["Bob", "paints", "Carl"]]
    record = {"_id": "a", "text": "x", "statements": given}
    passage = parse_record(record)
    assert passage.statements == ("Anna met Bob.", ("Bob", "paints", "Carl"))
    assert checked_passage(passage).statements == passage.statements
    (only,) = chunk_passage(passage, 100)
    assert only.statements == passage.statements
    with pytest.raises(SourceError, match="has statements, so it is not cut"):
        [*chunk_passage(replace(passage, text="word. " * 50), 10)]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("Anna", "statements is a string, not a list"),
        ([1], "statement 1 is neither"),
        ([["Bob", "paints"]], "neither a text nor a triple"),
        ([" \n"], "neither a text nor a triple"),
        ([["Bob", "", "Carl"]], "neither a text nor a triple"),
        (["x"] * 257, "there are 257 statements; at most 256"),
    ],
)
def test_what_is_no_statement_is_refused(value: object, why: str) -> None:
    with pytest.raises(SourceError, match=why):
        parse_record({"_id": "a", "text": "x", "statements": value})


def town(name: str, kind: str) -> dict[str, Any]:
    after = TOWNS[(TOWNS.index(name) + 1) % len(TOWNS)]
    text = f"{name} is a town. It is known for plums. A road leads from there to {after}."
    units: list[Any] = [
        f"{name} is a town.",
        f"{name} is known for plums.",
        f"A road leads to {after}.",
    ]
    facts: list[Any] = [[name, "is known for", "plums"], [name, "has a road to", after]]
    given = {"units": units, "facts": facts}.get(kind)
    fields: dict[str, Any] = {"_id": name, "title": name, "text": text, "metadata": {}}
    return {**fields, "statements": given} if given else fields


def replies(instructions: str, passage: str) -> str:
    """What a model makes of a passage about a town, with items that are of no use."""
    name = passage.partition(".")[0]
    kind = "facts" if '"facts"' in instructions else "units"
    useless = [["Paris", "is in", "France"], [name, 1, name], "Paris is big.", [name], "", "…"]
    return f"```json\n{json.dumps({kind: [*town(name, kind)['statements'], *useless]})}\n```"


@pytest.mark.usefixtures("fake_models")
@pytest.mark.parametrize(("kind", "route"), [("units", Route.CLUE), ("facts", Route.GRAPH)])
def test_the_example_script_has_a_model_write_them_and_arms_go_by_them(
    wye: Wye,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    route: Route,
) -> None:
    before, file, after = tmp_path / "before", tmp_path / "made.jsonl", tmp_path / "after"
    plain = tmp_path / "plain.jsonl"
    plain.write_text("\n".join(json.dumps(town(name, "")) for name in TOWNS), "utf-8")
    assert wye("index", plain, "--index", before)[0] == 0

    def extract(*earlier: Path) -> list[dict[str, Any]]:
        done = subprocess.run(
            [sys.executable, ROOT / "docs/examples/extract.py", kind, before, *earlier],
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "WYE_GENERATOR__URL": endpoint.url,
                "WYE_GENERATOR__MODEL": "reader",
            },
            capture_output=True,
            encoding="utf-8",
            check=True,
        )
        file.write_text(file.read_text("utf-8") + done.stdout, "utf-8")
        return [json.loads(line) for line in done.stdout.splitlines()]

    file.touch()
    with speaking(replies) as endpoint:
        assert extract() == [town(name, kind) for name in TOWNS]
        assert extract(file) == []
    assert wye("index", file, "--index", after)[0] == 0
    monkeypatch.setenv("WYE_GRAPH__ACTIVATION", "facts" if kind == "facts" else "bridging")
    question = "Which town does a road from Livno lead to?"

    def reply_over(index: Path) -> Reply:
        with Session.open(load_settings(), index) as session:
            (reply,) = session.gateway.search([question], Ask(route, 3, explain=True))
        return reply

    reply = reply_over(after)
    if route == Route.CLUE:  # which explains nothing
        assert reply.ranking != reply_over(before).ranking
        return
    assert reply.explanation is not None
    bridges = {note.bridge.sentence for note in reply.explanation.entities if note.bridge}
    stated = [one for name in TOWNS for one in town(name, kind)["statements"]]
    assert bridges
    assert bridges <= {one if isinstance(one, str) else " ".join(one) for one in stated}
