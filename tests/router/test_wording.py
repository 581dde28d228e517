"""What a question's wording asks for, on every route."""

import random
from collections.abc import Iterator, Sequence
from itertools import pairwise, product
from pathlib import Path

import pytest

from wye.backends.types import Passage
from wye.router.session import Session
from wye.router.settings import load_settings
from wye.router.types import FURTHER, Ask, Route
from wye.router.wording import CODE, DESCRIBED, MOST_PASSAGES, NEWEST, question_in

pytestmark = pytest.mark.usefixtures("fake_models")
ROUTES = [Route.DENSE, Route.LEXICAL, Route.HYBRID, Route.GRAPH, Route.FUSION, Route.STEPS]
KINDS = (
    *("E-{0}", "VLV{0}", "heron.flush_{0}", "{0}", "TK_{0}_B", "closeGate{0}", "{1}-QRT"),
    *("tides.v{0}", "/etc/heron{0}.conf", "v{2}.{3}.{0}", "#{0}", "KLM_{1}"),
    *("clerk{0}@heron.example", "10.{2}.{3}.{0}", "0266-1{0}", "openGate{1}"),
)


def made_up_codes(count: int) -> list[str]:
    """Codes of many kinds, from a fixed seed."""
    draw = random.Random(7)
    letters = ["".join(each) for each in product("BCDFG", "HKLMN", "PRSTV")]
    draw.shuffle(letters)
    codes = []
    for row, number in enumerate(draw.sample(range(2100, 9999), count)):
        kind = KINDS[row % len(KINDS)]
        name = letters[row // 2 % len(letters)]
        name = name.capitalize() if kind.startswith("open") else name
        codes.append(kind.format(number, name, draw.randint(1, 9), draw.randint(1, 99)))
    return codes


CODES = made_up_codes(200)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    texts = [f"Notice about {code}: have the clerk look at it." for code in CODES]
    passages = [Passage(f"p{row:03}", "Notice", text) for row, text in enumerate(texts)]
    with Session.create(load_settings(), tmp_path / "index") as target:
        target.ingest(passages)
    with Session.open(load_settings(), tmp_path / "index") as session:
        yield session


@pytest.mark.parametrize("route", ROUTES)
def test_a_passage_with_a_rare_code_is_first_on_every_route(session: Session, route: Route) -> None:
    questions = [f"What should one do about {code}?" for code in CODES]
    replies = session.gateway.search(questions, Ask(route, 3))
    assert [reply.ranking.hits[0].id for reply in replies] == [f"p{n:03}" for n in range(200)]
    for reply in replies:
        hits = reply.ranking.hits
        assert [hit.rank for hit in hits] == [*range(1, len(hits) + 1)]
        assert all(one.score >= other.score for one, other in pairwise(hits))
        assert hits[0].sources[-1].retriever == CODE
        assert sum(source.share for source in hits[0].sources) == pytest.approx(hits[0].score)


def test_what_has_two_common_codes_is_first_where_few_have_both(tmp_path: Path) -> None:
    texts = ["RX-81 ran.", "5 May 2031: no work.", "RX-82 ran."] * (MOST_PASSAGES + 1)
    rows = [Passage(f"r{n:02}", "Log", text) for n, text in enumerate(texts)]
    rows.append(Passage("s", "log-of-RX-81", "2031-05-05 12:10 grip was renewed"))
    with Session.create(load_settings(), tmp_path / "index") as target:
        target.ingest(rows)
    with Session.open(load_settings(), tmp_path / "index") as session:
        questions = ["What was RX-81 on 5 May 2031?", "What was RX-82 on 5 May 2031?"]
        both, neither = session.gateway.search(questions, Ask(Route.DENSE, 3))
        assert both.ranking.hits[0].id == "s"
        lists = {source.retriever for hit in neither.ranking.hits for source in hit.sources}
        assert CODE not in lists


def test_a_filter_holds_for_codes_and_a_common_one_is_a_word_like_others(tmp_path: Path) -> None:
    texts = [f"{'RX-81' if n <= MOST_PASSAGES else 'RX-82'} was seen." for n in range(6)]
    rows = [Passage(f"r{n}", "Log", text, {"n": n}) for n, text in enumerate(texts)]
    with Session.create(load_settings(), tmp_path / "index") as target:
        target.ingest(rows)
    with Session.open(load_settings(), tmp_path / "index") as session:

        def first(question: str, **kept: object) -> list[str]:
            ask = Ask(Route.DENSE, 6, kept.get("filter"))
            (reply,) = session.gateway.search([question], ask)
            lifted = [h for h in reply.ranking.hits if CODE in {one[0] for one in h.sources}]
            return sorted(hit.id for hit in lifted)

        assert first("Where is RX-82?") == ["r4", "r5"]
        assert first("Where is rx 82 or RX82?") == ["r4", "r5"]
        assert first("Where is RX-81?") == []
        few = {"type": "lt", "key": "n", "value": 2}
        assert first("Where is RX-81?", filter=few) == ["r0", "r1"]
        assert first("Where is RX-82?", filter=few) == []


def ranked(
    folder: Path, rows: Sequence[Passage], question: str, route: Route
) -> tuple[list[str], dict[str, str]]:
    """Ids in their order, and the last source of each hit that has one."""
    with Session.create(load_settings(), folder) as target:
        target.ingest(rows)
    with Session.open(load_settings(), folder) as session:
        (reply,) = session.gateway.search([question], Ask(route, 9))
        hits = reply.ranking.hits
        return [hit.id for hit in hits], {h.id: h.sources[-1].retriever for h in hits if h.sources}


@pytest.mark.parametrize("route", [Route.DENSE, Route.HYBRID])
@pytest.mark.parametrize(
    "versions",
    [
        {"a": ("Fares (2038)", {}), "b": ("Fares (2041)", {}), "c": ("Fares (2039)", {})},
        {"a": ("Fares, version 2", {}), "b": ("Fares, version 10", {}), "c": ("Fares v3", {})},
        {"a": ("Fares", {"date": "2038-02-01"}), "b": ("Fares", {"date": "2038-11-01"})},
        {"a": ("Fares", {"modified": "2038-02-01"}), "b": ("Fares", {"modified": "2039-01-01"})},
    ],
)
def test_the_newest_version_comes_before_the_others_if_it_is_asked_for(
    tmp_path: Path, route: Route, versions: dict[str, tuple[str, dict[str, str]]]
) -> None:
    rows = [
        Passage(id_, title, f"A crossing costs {len(id_)} crowns for adults.", data)
        for id_, (title, data) in versions.items()
    ]
    other = Passage("z", "Mooring", "Boats are tied up at the western quay.", {"date": "2050"})
    ids, sources = ranked(tmp_path / "i", [*rows, other], "What are the current fares?", route)
    of_versions = [id_ for id_ in ids if id_ != "z"]
    assert of_versions[0] == "b"
    assert sources["b"] == NEWEST or [*sources.values()].count(NEWEST) == 0
    plain, _ = ranked(tmp_path / "j", [*rows, other], "What are the fares of version 2?", route)
    assert sorted(plain) == sorted(ids)


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("Where did the sculptor Ida Brandt live?", "s"),
        ("Where did the pilot Ida Brandt live?", "p"),
        ("Where did Ida Brandt, the pilot, live?", "p"),
    ],
)
def test_a_description_decides_between_namesakes(tmp_path: Path, question: str, first: str) -> None:
    rows = [
        Passage("p", "Ida Brandt (pilot)", "Ida Brandt was a pilot. She lived in Ostervik."),
        Passage("s", "Ida Brandt (sculptor)", "Ida Brandt was a sculptor. She lived in Malm."),
    ]
    seen: set[str] = set()
    for route in ROUTES:
        ids, sources = ranked(tmp_path / route, rows, question, route)
        assert ids[0] == first
        seen.update(sources.values())
    assert DESCRIBED in seen or first == "p"


LOG = """09:14:02 gate GTE-2218 opened
09:14:05 gate GTE-2218 reported PLC_STALL_7
09:14:09 operator called
09:15:00 gate closed by hand
"""


def test_the_question_of_a_pasted_log_is_found_with_the_codes_of_the_rest() -> None:
    asked = question_in(f"{LOG}Why does the gate stop half way?")
    assert asked == "Why does the gate stop half way? (PLC_STALL_7, GTE-2218)"
    assert question_in(f"What is wrong?\n{LOG}") == "What is wrong? (PLC_STALL_7, GTE-2218)"
    assert question_in(f"{LOG}Please explain this message.").startswith("Please explain this")
    assert question_in(LOG) == LOG
    short = "The gate stops half way. Why?"
    assert question_in(short) == short


def test_a_reply_has_the_whole_text_as_its_question(session: Session) -> None:
    text = LOG.replace("PLC_STALL_7", CODES[0]) + "What should one do?"
    (reply,) = session.gateway.search([text], Ask(Route.DENSE, 1))
    assert (reply.question, reply.ranking.hits[0].id) == (text, "p000")


def test_a_reply_says_what_was_searched(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(session.analyser), "is_word", lambda *_: False)
    question = "What should the clrek do?"
    for route, searched in ((Route.LEXICAL, "What should the clerk do?"), (Route.DENSE, "")):
        (reply,) = session.gateway.search([question], Ask(route, 1))
        assert (reply.question, reply.searched) == (question, searched)


@pytest.mark.parametrize("route", [*ROUTES, *FURTHER])
def test_copies_come_last(route: Route, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wye.router.wording.LEAST_COSINE", -2.0)  # so only the words count
    texts = [f"Rinse the sluice. Printed on {n} May." if n < 9 else f"At {n}." for n in range(13)]
    with Session.create(load_settings(), tmp_path / "index") as target:
        rows = [Passage(f"r{n:02}", "Sluices", text, {"n": n}) for n, text in enumerate(texts)]
        target.ingest(rows)
    allowed = {"type": "gt", "key": "n", "value": 2}
    asks = [Ask(route, 12, allowed, duplicates=choice) for choice in ("keep", "fold")]
    with Session.open(load_settings(), tmp_path / "index") as session:
        kept, reply = (session.gateway.search(["Which sluice is rinsed?"], ask)[0] for ask in asks)
    first, *copies = [i for i in kept.ranking.ids() if i < "r09"]
    assert reply.ranking.ids() == [*(i for i in kept.ranking.ids() if i not in copies), *copies]
    assert reply.duplicates == {first: tuple(copies)}
    assert [*reply.ranking.scores] == sorted(reply.ranking.scores, reverse=True)
