"""Knowledge units and facts: a script has a language model extract them, `wye refine` stores."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import wye as wye_api
from tests.docs.examples import ROOT
from tests.fakes import speaking
from tests.hashing import FakeAnalyser
from wye.backends.papers.extracted import ExtractedStore, Kind
from wye.backends.store.writer import writer_lock
from wye.router.session import Session
from wye.router.settings import load_settings
from wye.router.types import Ask, Route

pytestmark = pytest.mark.usefixtures("fake_models")

TOWNS = ("Mostar", "Jajce", "Travnik", "Livno", "Konjic", "Bihac")
TEXT = "{} is a town. It is known for plums. A road leads from there to {}."
Wye = Callable[..., tuple[int, str, str]]
Line = dict[str, Any]


def line(town: str, **items: object) -> Line:
    last = TOWNS[(TOWNS.index(town) + 1) % len(TOWNS)]
    return {"id": town, "title": town, "text": TEXT.format(town, last), **items}


def units(town: str) -> Line:
    last = TOWNS[(TOWNS.index(town) + 1) % len(TOWNS)]
    texts = [f"{town} is a town.", f"{town} is known for plums.", f"A road leads to {last}."]
    return line(town, units=texts)


def facts(town: str) -> Line:
    last = TOWNS[(TOWNS.index(town) + 1) % len(TOWNS)]
    triples = [[town, "is known for", "plums"], [town, "has a road to", last]]
    return line(town, facts=triples)


@pytest.fixture
def index(tmp_path: Path) -> Path:
    folder = tmp_path / "index"
    with wye_api.create(folder) as made:
        made.add(wye_api.Document(town, town, units(town)["text"]) for town in TOWNS)
    return folder


@pytest.fixture
def refine(wye: Wye, index: Path, tmp_path: Path) -> Callable[..., tuple[int, str, str]]:
    """Stores lines, given as values or as they stand in the file."""

    def call(kind: str, lines: Sequence[Line | str], name: str = "a.jsonl") -> tuple[int, str, str]:
        file = tmp_path / name
        texts = [one if isinstance(one, str) else json.dumps(one) for one in lines]
        file.write_text("\n".join(texts), encoding="utf-8")
        return wye("refine", kind, file, "--index", index)

    return call


def stored(index: Path, kind: Kind = "units") -> dict[str, list[object]]:
    with Session.open(load_settings(), index) as session:
        extractions = ExtractedStore(index, session.index.fingerprint).read(kind)
        assert all(one.analysed for one in extractions)
        return {one.id: list(one.items) for one in extractions}


def bridges(index: Path, route: Route) -> set[str]:
    """The sentences that led to what is found for a question about Livno."""
    with Session.open(load_settings(), index) as session:
        question = "Which town does a road from Livno lead to?"
        (reply,) = session.gateway.search([question], Ask(route, 3, explain=True))
        assert reply.explanation is not None
        return {note.bridge.sentence for note in reply.explanation.entities if note.bridge}


def test_units_are_stored_and_clue_goes_by_them(refine: Wye, wye: Wye, index: Path) -> None:
    assert refine("units", [*map(units, TOWNS)]) == (
        0,
        "Stored 18 units of 6 passages, 0 of which had the same before.\n",
        "",
    )
    assert stored(index)["Livno"] == units("Livno")["units"]
    out = wye("info", "--index", index, "--json")[1]
    assert json.loads(out)["extracted"] == {
        "units": 18,
        "passages with units": 6,
        "units from": "a.jsonl",
    }
    texts = {text for town in TOWNS for text in units(town)["units"]}
    assert bridges(index, Route.CLUE) <= texts
    assert bridges(index, Route.CLUE) - {f"{town} is a town." for town in TOWNS}
    assert "6 passages" in wye("refine", "units", "--drop", "--index", index)[1]
    assert stored(index) == {}


def test_the_graph_goes_by_facts_where_it_is_set_to(
    refine: Wye, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "12 facts of 6 passages" in refine("facts", [*map(facts, TOWNS)])[1]
    assert stored(index, "facts")["Jajce"] == facts("Jajce")["facts"]
    assert all("." in one for one in bridges(index, Route.GRAPH))
    monkeypatch.setenv("WYE_GRAPH__ACTIVATION", "facts")
    sentences = bridges(index, Route.GRAPH)
    assert sentences
    assert all("is known for plums" in one or "has a road to" in one for one in sentences)
    assert not any("." in one for one in sentences)


def test_later_files_add_and_replace(
    refine: Wye, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refine("units", [units("Livno"), units("Jajce"), units("Bihac")])
    with wye_api.open(index) as opened:
        opened.delete(["Bihac"])
    analysed: list[int] = []
    analyse = FakeAnalyser.analyse

    def counts(self: FakeAnalyser, passages: Any) -> Any:  # noqa: ANN401
        analysed.append(len(passages))
        return analyse(self, passages)

    monkeypatch.setattr(FakeAnalyser, "analyse", counts)
    other = line("Jajce", units=["Jajce has a\u0007  fall. ", "Jajce has a fall.", "\ud800Jajce."])
    code, out, _ = refine(
        "units", ["", *map(units, ("Jajce", "Livno", "Konjic")), other], "b.jsonl"
    )
    assert (code, out) == (
        0,
        "Stored 8 units of 3 passages, 1 of which had the same before.\n",
    )
    assert analysed == [5]
    found = stored(index)
    assert {*found} == {"Livno", "Jajce", "Konjic"}
    assert found["Jajce"] == ["Jajce has a fall.", "Jajce."]


def test_an_index_with_other_models_has_copied_items_analysed(refine: Wye, index: Path) -> None:
    refine("units", [units("Livno"), units("Jajce")])
    with Session.open(load_settings(), index) as session:
        store = ExtractedStore(index, {"encoder": "former"})
        ours = ExtractedStore(index, session.index.fingerprint)
        store.keep("units", [(one, []) for one in ours.read("units")])
        assert [one.analysed for one in ours.read("units")] == [False, False]
    assert "1 of which had the same before" in refine("units", [units("Livno")])[1]
    assert {*stored(index)} == {"Livno", "Jajce"}


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("{", "not JSON: "),
        ("[" * 100_000, "nested too deeply"),
        ("[]", "is not an object"),
        ('{"id": 7}', "id, text and, if there is one, title must be strings"),
        (units("Livno") | {"id": "Atlantis"}, "no passage of the index has the id 'Atlantis'"),
        (units("Livno") | {"text": "\ud800"}, "has another title or text in the index"),
        (units("Livno") | {"title": "Duvno"}, "passage 'Livno' has another title or text"),
        (line("Livno", facts=[]), "units is missing, or is not a list"),
        (line("Livno", units=[["Livno"]]), "['Livno'] in units is not a text that is not empty"),
        (line("Livno", units=["\u200b\ud800"]), "in units is not a text that is not empty"),
    ],
)
def test_a_wrong_line_is_named_and_nothing_is_stored(
    refine: Wye, index: Path, tmp_path: Path, wrong: Line | str, says: str
) -> None:
    code, out, err = refine("units", [units("Jajce"), "", wrong])
    assert (code, out) == (2, "")
    assert f"{tmp_path / 'a.jsonl'}:3: " in err
    assert says in err
    assert "Nothing was stored." in err
    assert not (index / "extracted.sqlite3").exists()


@pytest.mark.parametrize(
    "wrong", ["Livno", ["Livno", "is"], ["Livno", 1, "x"], ["Livno", "is", ""]]
)
def test_a_fact_is_three_texts(refine: Wye, wrong: object) -> None:
    code, _, err = refine("facts", [line("Livno", facts=[wrong])])
    assert (code, "is not a list of head, relation and tail" in err) == (2, True)


def test_a_file_is_stored_whole_or_not_at_all(
    refine: Wye, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refine("units", [units("Livno")])
    monkeypatch.setattr("wye.backends.papers.extractions._WINDOW", 2)
    analyse, calls = FakeAnalyser.analyse, list[int]()

    def fails(self: FakeAnalyser, passages: Any) -> Any:  # noqa: ANN401
        calls.append(len(passages))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return analyse(self, passages)

    monkeypatch.setattr(FakeAnalyser, "analyse", fails)
    assert refine("units", [*map(units, TOWNS)])[0] == 130
    assert (calls, {*stored(index)}) == ([6, 6], {"Livno"})


def test_nothing_is_stored_while_somebody_else_writes(refine: Wye, index: Path) -> None:
    with writer_lock(index):
        code, _, err = refine("units", [units("Livno")])
    assert (code, "is being written by process" in err) == (2, True)
    assert stored(index) == {}


def test_what_a_mistake_says(wye: Wye, index: Path, tmp_path: Path) -> None:
    assert "KIND is one of units, facts" in wye("refine", "words", "--index", index)[2]
    for given in ((), ("x.jsonl", "--drop")):
        code, _, err = wye("refine", "units", *given, "--index", index)
        assert (code, "Give either a FILE" in err) == (2, True)
    assert "Which index?" in wye("refine", "units", "x.jsonl")[2]
    for missing in (tmp_path / "none.jsonl", tmp_path):
        code, out, err = wye("refine", "units", missing, "--index", index)
        assert (code, out, str(missing) in err) == (2, "", True)
    for option in ("--alpha=0.5", "--generator-url=http://a/v1", "--yes"):
        code, _, err = wye("refine", "units", option)
        assert (code, "was removed" in err, "docs/examples/extract.py" in err) == (2, True, True)


def replies(instructions: str, passage: str) -> str:
    """What a model makes of a passage about a town, with items that are of no use."""
    town = passage.partition(".")[0]
    if '"facts"' in instructions:
        useless = [["Paris", "is in", "France"], [town, "is"], [town, 1, town], town]
        return json.dumps({"facts": [*facts(town)["facts"], *useless]})
    items = [*units(town)["units"], "Paris is big.", [town], "", "…"]
    return f"```json\n{json.dumps({'units': items})}\n```"


@pytest.mark.parametrize(("kind", "expected"), [("units", units), ("facts", facts)])
def test_the_example_script_fills_the_file(
    wye: Wye, index: Path, tmp_path: Path, kind: str, expected: Callable[[str], Line]
) -> None:
    file = tmp_path / "made.jsonl"
    with speaking(replies) as endpoint:

        def extract(*earlier: Path) -> tuple[list[Line], str]:
            done = subprocess.run(
                [sys.executable, ROOT / "docs/examples/extract.py", kind, index, *earlier],
                env={
                    **os.environ,
                    "PYTHONPATH": str(ROOT),
                    "WYE_GENERATOR__URL": endpoint.url,
                    "WYE_GENERATOR__MODEL": "reader",
                    "WYE_GENERATOR__KEY": "secret",
                },
                capture_output=True,
                encoding="utf-8",
                check=True,
            )
            with file.open("a", encoding="utf-8") as lines:
                lines.write(done.stdout)
            return [json.loads(one) for one in done.stdout.splitlines()], done.stderr

        lines, err = extract()
        assert (lines, err) == ([expected(town) for town in sorted(TOWNS)], "")
        asked = endpoint.requests[0]
        assert (asked["path"], asked["key"], asked["model"], asked["temperature"]) == (
            "/v1/chat/completions",
            "Bearer secret",
            "reader",
            0,
        )
        assert "6 passages" in wye("refine", kind, file, "--index", index)[1]
        with wye_api.open(index) as opened:
            opened.add([wye_api.Document("Tuzla", "Tuzla", "Tuzla is a town near Livno.")])
            opened.add([wye_api.Document("Zenica", "Zenica", "Zenica is a town near Livno.")])
        endpoint.requests.clear()
        endpoint.say = lambda _, passage: (
            "no" if passage.startswith("Zenica") else json.dumps({kind: []})
        )
        ((line,), err) = extract(file)
        assert (line["id"], line[kind], len(endpoint.requests)) == ("Tuzla", [], 2)
        assert err.startswith("Zenica: the reply is of no use (")
    assert "7 passages, 6 of which" in wye("refine", kind, file, "--index", index)[1]
