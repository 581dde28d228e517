"""Questions taken apart over HTTP: read as they really are."""

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.fakes import ReadingAnalyser
from tests.live import inside
from tests.service.fakes import retrieve
from wye.backends.store.ingest import ingest
from wye.backends.types import Passage
from wye.router.session import Session
from wye.router.steps import OUT_OF_TIME
from wye.service.app import build
from wye.service.settings import ServiceSettings

NESTED = "Who leads the country where the composer of Finlandia was born?"
COMPARED = "Which film is older, Alpha or Omega?"
PLAIN = "What did Sibelius compose?"
PASSAGES = (
    Passage("finlandia", "Finlandia", "Finlandia was composed by Sibelius.", {"y": 1899}),
    Passage("sibelius", "Sibelius", "Sibelius was born in Finland, a country.", {"y": 1865}),
    Passage("finland", "Finland", "The country Finland is led by Niinistö.", {"y": 1917}),
    Passage("sweden", "Sweden", "The country Sweden is led by Kristersson.", {"y": 1523}),
    Passage("alpha", "Alpha", "Alpha is a film by Lee.", {"y": 1930}),
    Passage("omega", "Omega", "Omega is a film by Bo.", {"y": 1940}),
)
YEARS = {passage.id: int(str(passage.metadata["y"])) for passage in PASSAGES}
SETTINGS = ServiceSettings()


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    made = tmp_path_factory.mktemp("steps") / "index"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("wye.router.session.Analyser", ReadingAnalyser)
        with Session.create(SETTINGS, made) as session:
            ingest(session.index, PASSAGES, session.analyser)
        opened = partial(Session.open, SETTINGS, made)
        with inside(build(SETTINGS, {"default": opened})) as client:
            yield client


def ask(client: TestClient, question: str, **body: Any) -> dict[str, Any]:  # noqa: ANN401
    return retrieve(client, question, **{"route": "steps", "k": 4, "explain": True, **body})


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
        filtered = answer_of(ask(client, question, filter=everything))
        assert filtered == answer_of(ask(client, question))


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
