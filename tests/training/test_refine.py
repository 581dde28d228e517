"""Knowledge units and facts that a language model extracts, over a real connection."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import wye as wye_api
from backends.store.extracted import ExtractedStore
from router.session import Session
from router.settings import load_settings
from router.types import Route
from tests.fakes import LanguageModel, speaking
from training.refine import (
    GIVEN_UP,
    LONGEST_ITEM,
    LONGEST_PASSAGE,
    MOST_ITEMS,
    PATIENCE,
    UselessReplyError,
    parse,
)

pytestmark = pytest.mark.usefixtures("fake_models")

TOWNS = ("Mostar", "Jajce", "Travnik", "Livno", "Konjic", "Bihac")
TEXT = "{} is a town. It is known for plums. A road leads from there to {}."
Wye = Callable[..., tuple[int, str, str]]


def extracts(instructions: str, passage: str) -> str:
    """What a good model makes of a passage about a town."""
    town, last = passage.partition(".")[0], passage.rstrip(".").split()[-1]
    if "triples" in instructions:
        triples = [[town, "is known for", "plums"], [town, "has a road to", last]]
        return json.dumps({"entities": [town, last], "triples": triples})
    units = [f"{town} is a town.", f"{town} is known for plums.", f"A road leads to {last}."]
    return f"```json\n{json.dumps({'units': units})}\n```"


@pytest.fixture
def endpoint() -> Iterator[LanguageModel]:
    with speaking(extracts) as model:
        yield model


@pytest.fixture
def index(tmp_path: Path) -> Path:
    folder = tmp_path / "index"
    with wye_api.create(folder) as made:
        made.add(
            wye_api.Document(town, town, TEXT.format(town, TOWNS[(n + 1) % len(TOWNS)]))
            for n, town in enumerate(TOWNS)
        )
    return folder


@pytest.fixture
def refine(wye: Wye, index: Path, endpoint: LanguageModel) -> Callable[..., tuple[int, str, str]]:
    def call(*arguments: str, agree: bool = True) -> tuple[int, str, str]:
        given = ("--generator-url", endpoint.url, "--generator-model", "reader")
        return wye("refine", "--index", index, *given, *arguments, *(["--yes"] if agree else []))

    return call


def kept(index: Path, kind: str = "units") -> dict[str, list[object]]:
    with Session.open(load_settings(), index) as session:
        store = ExtractedStore(index, session.index.fingerprint)
        assert all(one.analysed for one in store.read(kind))  # type: ignore[arg-type]
        return {one.id: list(one.items) for one in store.read(kind)}  # type: ignore[arg-type]


def test_units_are_extracted_once_and_clue_goes_by_them(
    refine: Wye, wye: Wye, index: Path, endpoint: LanguageModel
) -> None:
    code, out, err = refine("units")
    assert code == 0, err
    assert "Asks for the units of 6 of 6 passages: about " in err
    assert "18 units of 6 passages; 0 of 6 were extracted before" in out
    assert "30 tokens sent and 12 received." in out
    asked = endpoint.requests[0]
    assert asked["temperature"] == 0
    town = asked["messages"][1]["content"].partition(".")[0]
    assert asked["messages"][1]["content"].startswith(f"{town}. {town} is a town. It is known")
    assert kept(index)["Livno"] == [
        "Livno is a town.",
        "Livno is known for plums.",
        "A road leads to Konjic.",
    ]
    code, out, err = refine("units")
    assert (code, err) == (0, "")
    assert "0 units of 0 passages; 6 of 6 were extracted before; 0 tokens sent" in out
    assert len(endpoint.requests) == 6
    _, out, _ = wye("info", "--index", index, "--json")
    assert json.loads(out)["extracted"] == {
        "units": 18,
        "passages with units": 6,
        "units by": "reader",
    }
    units = {unit for of_passage in kept(index).values() for unit in of_passage}
    assert bridges(index, Route.CLUE) <= units
    assert bridges(index, Route.CLUE) - {f"{town} is a town." for town in TOWNS}


def bridges(index: Path, route: Route) -> set[str]:
    """The sentences that led to what is found for a question about Livno."""
    with Session.open(load_settings(), index) as session:
        question = "Which town does a road from Livno lead to?"
        (reply,) = session.gateway.search([question], route, 3, explain=True)
        assert reply.explanation is not None
        return {note.bridge.sentence for note in reply.explanation.entities if note.bridge}


def test_the_graph_goes_by_facts_where_it_is_told_to(
    refine: Wye, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = refine("facts")
    assert code == 0, err
    assert "12 facts of 6 passages" in out
    assert kept(index, "facts")["Jajce"] == [
        ["Jajce", "is known for", "plums"],
        ["Jajce", "has a road to", "Travnik"],
    ]
    assert all("." in one for one in bridges(index, Route.GRAPH))
    monkeypatch.setenv("WYE_GRAPH__ACTIVATION", "facts")
    told = bridges(index, Route.GRAPH)
    assert told
    assert all("is known for plums" in one or "has a road to" in one for one in told)
    assert not any("." in one for one in told)


def test_new_and_changed_passages_are_asked_about_and_deleted_ones_dropped(
    refine: Wye, index: Path, endpoint: LanguageModel
) -> None:
    refine("units")
    with wye_api.open(index) as opened:
        opened.add([wye_api.Document("Livno", "Livno", "Livno is a city. Livno has horses.")])
        opened.add([wye_api.Document("Tuzla", "Tuzla", "Tuzla is a town near Livno.")])
        opened.delete(["Bihac"])
    endpoint.say = lambda _, passage: json.dumps([f"{passage.split('.')[0]} is there."])
    code, out, _ = refine("units")
    assert code == 0
    assert "2 units of 2 passages; 4 of 6 were extracted before" in out
    found = kept(index)
    assert (found["Livno"], found["Tuzla"]) == (["Livno is there."], ["Tuzla is there."])
    assert "Bihac" not in found
    # What another model said before counts until this one has been asked.
    code, out, _ = refine("units", "--generator-model", "another")
    assert "6 units of 6 passages; 0 of 6 were extracted before" in out


def test_a_share_is_read_and_the_rest_keeps_its_sentences(
    refine: Wye, index: Path, endpoint: LanguageModel
) -> None:
    code, out, err = refine("units", "--alpha", "0.5", "--by", "random", "--seed", "3")
    assert code == 0, err
    assert "of 3 passages" in out
    assert len(endpoint.requests) == 3
    code, out, _ = refine("units")
    assert "9 units of 3 passages; 3 of 6 were extracted before" in out
    assert "6 passages" in refine("units", "--drop")[1]
    assert kept(index) == {}


def test_the_price_is_told_first_and_nobody_to_be_asked_agrees_to_nothing(
    refine: Wye, endpoint: LanguageModel
) -> None:
    prices = ("--price-sent", "1000", "--price-received", "2000")
    for given, told in ((prices, "to receive, which cost about 1."), ((), "to receive.\n")):
        code, _, err = refine("units", *given, agree=False)
        assert (code, told in err, "agree with --yes" in err) == (2, True, True)
        assert endpoint.requests == []
    code, out, _ = refine("units", *prices)
    assert code == 0
    assert "30 tokens sent and 12 received, which cost 0.054." in out


def test_what_a_mistake_says(wye: Wye, refine: Wye, index: Path) -> None:
    assert "KIND is one of units, facts" in refine("words")[2]
    assert "Which language model?" in wye("refine", "--index", index)[2]
    assert "Which index?" in wye("refine")[2]


def test_useless_replies_are_counted_and_asked_again(
    refine: Wye, index: Path, endpoint: LanguageModel
) -> None:
    hostile: list[str | bytes | int] = [
        "I cannot do that.",
        json.dumps({"units": ["Paris is the capital of France."]}),
        "[" * 100_000,
        b'{"choices": [{"message": {"content": "' + b"x" * 2_000_000 + b'"}}]}',
        json.dumps({"units": ["Konjic is a\ud800 town.\u202e", 5, ["Konjic"], "", "x" * 600]}),
        500,
    ]
    left = list(hostile)
    endpoint.say = lambda *_: left.pop(0) if left else 500
    code, out, err = refine("units", "--at-once", "1")
    assert code == 0, err
    assert "not a JSON list (2)" in out
    assert "its units were not in the passage (1)" in out
    assert "the endpoint did not answer (2)" in out
    assert "of the wrong form (3)" in out
    assert f"over {LONGEST_ITEM} characters (1)" in out
    (only,) = kept(index).values()
    assert only == ["Konjic is a? town."]
    endpoint.say = extracts
    assert "15 units of 5 passages; 1 of 6 were extracted before" in refine("units")[1]


def test_a_model_that_is_of_no_use_and_one_that_is_silent_end_it(
    refine: Wye, endpoint: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert PATIENCE > len(TOWNS) > GIVEN_UP
    endpoint.say = lambda *_: 404
    code, _, err = refine("units")
    assert code == 2
    assert "check the url" in err
    assert f"the endpoint did not answer ({GIVEN_UP})" in err
    monkeypatch.setattr("training.refine.PATIENCE", 3)
    endpoint.say = lambda *_: "no"
    code, _, err = refine("units")
    assert code == 2
    assert "3 replies in a row were unusable, the last one because: not a JSON list" in err


def test_a_passage_that_is_too_long_is_not_asked_about(
    refine: Wye, index: Path, endpoint: LanguageModel
) -> None:
    with wye_api.open(index) as opened:
        text = "Como is a lake. " * (LONGEST_PASSAGE // 16 + 1)
        opened.add([wye_api.Passage("long", "Long", text)])
    code, out, _ = refine("units")
    assert code == 0
    assert f"over {LONGEST_PASSAGE:,} characters (1)" in out
    assert len(endpoint.requests) == 6


KILLED = """
import sys
from tests.hashing import FakeAnalyser
import router.session
router.session.Analyser = FakeAnalyser
from service.cli import run
sys.exit(run(sys.argv[1:]))
"""


def test_a_run_that_is_killed_goes_on_where_it_was(
    refine: Wye, index: Path, endpoint: LanguageModel
) -> None:
    running: list[subprocess.Popen[bytes]] = []

    def kills(*messages: str) -> str:
        if len(endpoint.requests) == 4:
            os.kill(running[0].pid, signal.SIGKILL)
        return extracts(*messages)

    endpoint.say = kills
    command = ["refine", "units", "--index", str(index), "--at-once", "1"]
    given = ["--generator-url", endpoint.url, "--generator-model", "reader", "--yes"]
    running.append(subprocess.Popen([sys.executable, "-c", KILLED, *command, *given]))
    assert running[0].wait(120) == -signal.SIGKILL
    assert len(endpoint.requests) == 4
    code, out, err = refine("units")
    assert code == 0, err
    assert "9 units of 3 passages; 3 of 6 were extracted before" in out
    assert len(endpoint.requests) == 7
    assert len(kept(index)) == 6


PASSAGE = "Ada Lovelace. She was born in London in 1815 and wrote about engines."


def test_replies_are_read_in_the_forms_that_models_write() -> None:
    born = "Ada Lovelace was born in London."
    for said in (
        json.dumps({"units": [born]}),
        json.dumps([born]),
        f'Here it is: {{"knowledge units": ["{born}", ]}} Done.',
        f'```json\n["{born}",\n"{born}"]\n```',
    ):
        assert parse("units", said, PASSAGE) == ([born], {})
    triple = ["Ada Lovelace", "was born in", "London"]
    said = json.dumps({"entities": ["Ada"], "triples": [triple, ["Ada", "x"], "Ada", [1, 2, 3]]})
    items, left_out = parse("facts", said, PASSAGE)
    assert items == [triple]
    assert left_out == {"of the wrong form": 3}
    assert parse("units", '{"units": []}', PASSAGE) == ([], {})
    many = [f"Ada Lovelace wrote {n} engines." for n in range(MOST_ITEMS + 2)]
    items, left_out = parse("units", json.dumps(many), PASSAGE)
    assert len(items) == MOST_ITEMS
    assert left_out == {f"beyond {MOST_ITEMS} of a passage": 2}
    for said in ("", "null", '{"units": "Ada"}', "{" * 9, '{"other": ["Ada"]}'):
        with pytest.raises(UselessReplyError, match="not a JSON list"):
            parse("units", said, PASSAGE)
