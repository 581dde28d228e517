"""What a question's wording asks for, on every route."""

import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from wye.backends.store.ingest import ingest
from wye.backends.types import Passage
from wye.router.session import Session
from wye.router.settings import load_settings
from wye.router.types import Ask, Route
from wye.router.wording import CODE, MOST_PASSAGES

pytestmark = pytest.mark.usefixtures("fake_models")

ROUTES = [Route.DENSE, Route.LEXICAL, Route.HYBRID, Route.GRAPH, Route.FUSION, Route.STEPS]


def made_up_codes(count: int) -> list[str]:
    """Codes of many kinds, from a fixed seed."""
    draw = random.Random(7)
    kinds = (
        lambda n: f"E-{n}",
        lambda n: f"VLV{n}",
        lambda n: f"heron.flush_{n}",
        lambda n: f"{n}",
        lambda n: f"TK_{n}_B",
        lambda n: f"closeGate{n}",
    )
    numbers = draw.sample(range(2100, 9999), count)
    return [kinds[row % len(kinds)](number) for row, number in enumerate(numbers)]


CODES = made_up_codes(36)


@pytest.fixture(scope="module")
def passages() -> list[Passage]:
    return [
        Passage(f"p{row:02}", "Notice", f"Notice about {code}: have the clerk look at it.")
        for row, code in enumerate(CODES)
    ]


@pytest.fixture
def session(tmp_path: Path, passages: list[Passage]) -> Iterator[Session]:
    with Session.create(load_settings(), tmp_path / "index") as target:
        ingest(target.index, passages, target.analyser)
    with Session.open(load_settings(), tmp_path / "index") as session:
        yield session


@pytest.mark.parametrize("route", ROUTES)
def test_the_passage_with_a_rare_code_is_first_on_every_route(
    session: Session, route: Route
) -> None:
    questions = [f"What should one do about {code}?" for code in CODES]
    replies = session.gateway.search(questions, Ask(route, 3))
    assert [reply.ranking.hits[0].id for reply in replies] == [f"p{n:02}" for n in range(36)]
    for reply in replies:
        hits = reply.ranking.hits
        assert [hit.rank for hit in hits] == [*range(1, len(hits) + 1)]
        assert all(one.score >= other.score for one, other in pairwise(hits))
        assert hits[0].sources[-1].retriever == CODE
        assert sum(source.share for source in hits[0].sources) == pytest.approx(hits[0].score)


def test_a_filter_holds_for_codes_and_a_common_one_is_a_word_like_others(tmp_path: Path) -> None:
    rows = [
        Passage(f"r{n}", "Log", f"{'RX-81' if n <= MOST_PASSAGES else 'RX-82'} was seen.", {"n": n})
        for n in range(6)
    ]
    with Session.create(load_settings(), tmp_path / "index") as target:
        ingest(target.index, rows, target.analyser)
    with Session.open(load_settings(), tmp_path / "index") as session:

        def first(question: str, **kept: object) -> list[str]:
            ask = Ask(Route.DENSE, 6, kept.get("filter"))
            (reply,) = session.gateway.search([question], ask)
            lifted = [h for h in reply.ranking.hits if h.sources and h.sources[-1][0] == CODE]
            return sorted(hit.id for hit in lifted)

        assert first("Where is RX-82?") == ["r4", "r5"]
        assert first("Where is rx 82 or RX82?") == ["r4", "r5"]
        assert first("Where is RX-81?") == []
        assert first("Where is RX-81?", filter={"type": "lt", "key": "n", "value": 2}) == [
            "r0",
            "r1",
        ]
        assert first("Where is RX-82?", filter={"type": "lt", "key": "n", "value": 2}) == []
