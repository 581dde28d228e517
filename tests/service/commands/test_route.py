"""`wye route`, and `wye search --route auto`, which takes the route that it names."""

import json
from pathlib import Path

import pytest

from tests.fakes import Router, Wye
from wye.backends.store.ingest import ingest
from wye.backends.types import Passage
from wye.router.session import Session
from wye.router.settings import load_settings

SHORT = "Who met Ada?"
LONG = "Which of the two engines that Babbage built did Ada describe in 1843?"
pytestmark = pytest.mark.usefixtures("reading_models")


@pytest.fixture
def index(tmp_path: Path) -> Path:
    place = tmp_path / "index"
    target = Session.create(load_settings(), place)
    rows = [Passage("a", "Ada", "Ada met Babbage in London.")]
    rows += [Passage("b", "Babbage", "Babbage built two engines.")]
    ingest(target.index, rows, target.analyser)
    return place


@pytest.fixture
def by_length(tmp_path: Path, handmade_router: Router, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = handmade_router(tmp_path / "models", "words", 8.0)
    monkeypatch.setenv("WYE_ROUTER__MODEL", str(folder))


@pytest.mark.usefixtures("by_length")
def test_the_plan_of_a_question_is_shown_where_reasons_are(wye: Wye) -> None:
    question = "Who met the designer of Winter Lantern?"
    _, out, _ = wye("route", question, "--explain")
    assert "step 1  the designer of Winter Lantern  person, bridge" in out
    (result,) = json.loads(wye("route", question, "--explain", "--json")[1])
    (step,) = result["decision"]["plan"]["steps"]
    assert question[slice(*step["span"])] == "the designer of Winter Lantern"
    assert "step 1" not in wye("route", question)[1]


@pytest.mark.usefixtures("by_length")
def test_searching_takes_the_route_that_is_named(
    index: Path, wye: Wye, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", iter([f"{SHORT}\n", f"{LONG}\n"]))
    routed = json.loads(wye("route", "-", "--json")[1])
    unasked = ("contributions", "trees", "plan")
    assert [one["decision"][name] for one in routed for name in unasked] == [None] * 6
    monkeypatch.setattr("sys.stdin", iter([f"{SHORT}\n", f"{LONG}\n"]))
    command = ("search", "-", "--index", index, "--route", "auto", "--json")
    replies = json.loads(wye(*command)[1])
    assert [reply["route"] for reply in replies] == ["lexical", "graph"]
    assert [reply["decision"] for reply in replies] == [one["decision"] for one in routed]
    code, out, _ = wye("search", SHORT, "--index", index, "--route", "auto", "--explain")
    assert (code, "lexical" in out, "words" in out) == (0, True, True)


def test_a_router_that_asks_the_corpus_is_given_an_index(
    index: Path, tmp_path: Path, wye: Wye, handmade_router: Router, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = handmade_router(tmp_path / "models", "seed_count", 0.5)
    monkeypatch.setenv("WYE_ROUTER__MODEL", str(folder))
    code, _, err = wye("route", SHORT)
    assert (code, "Name its index with --index DIR or WYE_INDEX." in err) == (2, True)
    (result,) = json.loads(wye("route", SHORT, "--index", index, "--json")[1])
    monkeypatch.setenv("WYE_INDEX", str(index))
    assert json.loads(wye("route", SHORT, "--json")[1]) == [result]
    (reply,) = json.loads(wye("search", SHORT, "--route", "auto", "--json")[1])
    assert reply["decision"] == result["decision"]


@pytest.mark.usefixtures("by_length")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["route", " "], "The question is empty"),
        (["route", "Who?", "--index", "missing"], "There is no index at"),
    ],
)
def test_mistakes_are_one_sentence(wye: Wye, arguments: list[str], says: str) -> None:
    code, out, err = wye(*arguments)
    assert (code, out, says in err) == (2, "", True)


def test_no_router(index: Path, wye: Wye, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WYE_ROUTER__MODEL", "nobody/v1")
    for command in (["route", "Who?"], ["search", "Who?", "--route", "auto"]):
        code, _, err = wye(*command, "--index", index)
        assert (code, "There is no router 'nobody/v1'" in err) == (2, True)
