"""Questions taken apart over HTTP: read as they really are, in an index with hostile passages."""

import itertools
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from tests.fakes import ReadingAnalyser
from tests.live import inside
from wye.backends.store.ingest import ingest
from wye.backends.types import Passage
from wye.router.session import Session
from wye.router.steps import OUT_OF_TIME
from wye.router.types import Ask, Route
from wye.service.app import build
from wye.service.settings import ServiceSettings

NESTED = "Who leads the country where the composer of Finlandia was born?"
COMPARED = "Which film is older, Alpha or Omega?"
PLAIN = "What did Sibelius compose?"
SCRIPT = "<script>alert('x')</script>"
PASSAGES = (
    Passage("finlandia", "Finlandia", "Finlandia was composed by Sibelius.", {"y": 1899}),
    Passage("sibelius", "Sibelius", "Sibelius was born in Finland, a country.", {"y": 1865}),
    Passage("finland", "Finland", "The country Finland is led by Niinistö.", {"y": 1917}),
    Passage("sweden", "Sweden", "The country Sweden is led by Kristersson.", {"y": 1523}),
    Passage("alpha", "Alpha", "Alpha is a film by Lee.", {"y": 1930}),
    Passage("omega", "Omega", "Omega is a film by Bo.", {"y": 1940}),
    Passage("markup", SCRIPT, f"{SCRIPT} The composer of Finlandia was Script.", {"y": 2000}),
    Passage("quotes", "\"Quotes\" & 'more'", 'The composer "Quotes" of Finlandia.', {"y": 2001}),
    Passage("long", "X" * 10_000, f"The composer of Finlandia was {'Y' * 10_000}.", {"y": 2002}),
    Passage(
        "script", "作曲家シベリウス", "Finlandia の作曲家 composer は Sibelius です。", {"y": 2003}
    ),
)
YEARS = {passage.id: int(str(passage.metadata["y"])) for passage in PASSAGES}
SETTINGS = ServiceSettings()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    made = tmp_path_factory.mktemp("steps") / "index"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("wye.router.session.Analyser", ReadingAnalyser)
        with Session.create(SETTINGS, made) as session:
            ingest(session.index, PASSAGES, session.analyser)
        yield made


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[TestClient]:
    opened = partial(Session.open, SETTINGS, folder)
    with inside(build(SETTINGS, {"default": opened})) as client:
        yield client


def ask(client: TestClient, question: str, **body: Any) -> dict[str, Any]:  # noqa: ANN401
    request = {"question": question, "route": "steps", "k": 4, "explain": True, **body}
    reply = client.post("/v1/retrieve", json=request)
    assert reply.status_code == 200, reply.text
    content: dict[str, Any] = reply.json()
    return content


def answer_of(reply: dict[str, Any]) -> tuple[Any, Any, str]:
    return reply["passages"], reply["steps"], reply["degraded"]


def givers(reply: dict[str, Any]) -> set[str]:
    """The passages that gave a name."""
    return {one["passage"] for step in reply["steps"] for one in step["candidates"]}


@pytest.mark.parametrize("question", [NESTED, COMPARED])
@pytest.mark.parametrize("year", [1850, 1910, 1935])
def test_what_a_filter_keeps_out_gives_no_name_in_any_step(
    client: TestClient, question: str, year: int
) -> None:
    free = ask(client, question)
    older = {"type": "lt", "key": "y", "value": year}
    newer = {"type": "gte", "key": "y", "value": year}
    for filter_, allowed in (
        (older, {id_ for id_, year_of_row in YEARS.items() if year_of_row < year}),
        (newer, {id_ for id_, year_of_row in YEARS.items() if year_of_row >= year}),
    ):
        reply = ask(client, question, filter=filter_)
        assert givers(reply) | {passage["id"] for passage in reply["passages"]} <= allowed
        for step in reply["steps"]:
            for one in step["candidates"]:
                assert one["row"] < 0 or one["sentence"]
    assert givers(free), "there is something to keep out"


def test_a_filter_that_lets_everything_through_changes_nothing(client: TestClient) -> None:
    everything = {"type": "gte", "key": "y", "value": 0}
    for question in (NESTED, COMPARED, PLAIN):
        assert answer_of(ask(client, question, filter=everything)) == answer_of(
            ask(client, question)
        )


def test_a_deadline_leaves_what_is_done_by_then_and_says_so(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wye.router.gateway.perf_counter", itertools.count(step=60).__next__)
    late = ask(client, NESTED, route="steps")
    assert late["degraded"] == OUT_OF_TIME
    fused = ask(client, NESTED, route="fusion")
    assert [p["id"] for p in late["passages"]] == [p["id"] for p in fused["passages"]]
    assert late["steps"] == []
    monkeypatch.undo()
    assert ask(client, NESTED, deadline_ms=60_000)["degraded"] == ""


def test_hostile_names_are_words_to_search_for_or_nothing(client: TestClient) -> None:
    reply = ask(client, NESTED, filter={"type": "gte", "key": "y", "value": 2000})
    named = givers(reply)
    assert len(named) >= 2
    assert named <= {"markup", "quotes", "script"}, "a title of 10,000 letters gives none"
    for step in reply["steps"]:
        assert len(step["asked"]) < len(NESTED) + 200
        for one in step["candidates"]:
            assert len(one["name"]) <= 80
            assert 0 <= one["confidence"] <= 1
    assert len(reply["passages"]) == 4


@given(
    st.permutations([NESTED, COMPARED, PLAIN, NESTED]),
    st.integers(1, 4),
    st.sampled_from([None, {"type": "gte", "key": "y", "value": 1865}]),
)
@settings(max_examples=20)
def test_neither_order_nor_batch_changes_an_answer(
    folder: Path, questions: list[str], size: int, filter_: object
) -> None:
    with Session.open(SETTINGS, folder) as session:

        def search(texts: list[str]) -> list[Any]:
            replies = session.gateway.search(texts, Ask(Route.STEPS, 4, filter_, explain=True))
            return [(reply.ranking, reply.chain, reply.searches) for reply in replies]

        alone = {text: search([text])[0] for text in {*questions}}
        together = [
            one
            for at in range(0, len(questions), size)
            for one in search(questions[at : at + size])
        ]
    assert together == [alone[text] for text in questions]
