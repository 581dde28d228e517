"""Probabilities of relevance: what speaks for a passage, and what a model makes of it."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wye.backends.text import content_terms
from wye.backends.types import RankedHit, Ranking, Source
from wye.router.errors import ModelFileError
from wye.router.relevance import (
    ANSWER_EVIDENCE,
    FIRST,
    PASSAGE_EVIDENCE,
    RELEVANCE,
    Curve,
    CurveSum,
    Evidence,
    Judgement,
    RelevanceModel,
    RouteRanking,
    evidence_on,
    likely,
    load_relevance,
    relevance_json,
)
from wye.router.settings import MODELS, RELEVANCE_MODEL
from wye.router.types import USUAL, FusedHit, Route

ROUTES = [route for route in USUAL if route != Route.AUTO]
TEXTS = st.text(st.sampled_from("aegilnorsty 's\u2019-éß北.,"), max_size=40)


def curves(names: tuple[str, ...]) -> CurveSum:
    line = Curve(np.array([0.0, 1.0]), np.array([0.0, 2.0]), 1.0)
    return CurveSum(-2.0, dict.fromkeys(names, line))


def model() -> RelevanceModel:
    return RelevanceModel(
        100,
        "tests",
        dict.fromkeys(ROUTES, curves(PASSAGE_EVIDENCE)),
        dict.fromkeys(ROUTES, curves(ANSWER_EVIDENCE)),
    )


def ranking(*scores: float, candidates: int = 1000) -> Ranking:
    hits = (RankedHit(f"p{n}", score, n) for n, score in enumerate(scores, start=1))
    return Ranking("dense", tuple(hits), candidates)


@given(TEXTS, st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=7))
def test_evidence_is_what_terms_say(question: str, texts: list[tuple[str, str]]) -> None:
    found = Evidence(question, np.zeros(len(texts)), texts)
    asked = set(content_terms(question))
    held = [asked & set(content_terms(f"{title}\n{text}")) for title, text in texts]
    called = [set(content_terms(title)) for title, _ in texts]
    shares = [len(own) / len(asked) if asked else 0.0 for own in held]
    titles = [len(own & asked) / len(own) if own else math.nan for own in called]
    np.testing.assert_allclose(found.passages[:, 2], shares)
    np.testing.assert_allclose(found.passages[:, 3], titles)
    together = len(set().union(*held[:FIRST])) / len(asked) if asked else 0.0
    known = [title for title in titles[:FIRST] if not math.isnan(title)]
    best = max(known, default=math.nan)
    np.testing.assert_allclose(found.answer[1:4], [max(shares[:FIRST]), together, best])
    assert np.isnan([*found.passages[:, 4], found.answer[4]]).all()
    near = np.array([math.nan, *np.linspace(0.2, 0.8, len(texts) - 1)])
    found = Evidence(question, np.zeros(len(texts)), texts, near)
    np.testing.assert_array_equal(found.passages[:, 4], near)
    known = [cosine for cosine in near[:FIRST].tolist() if not math.isnan(cosine)]
    np.testing.assert_array_equal(found.answer[4], max(known, default=math.nan))


@given(st.lists(st.floats(-2, 2), min_size=5, max_size=5), st.integers(0, 4), st.floats(0, 2))
def test_more_evidence_never_makes_a_passage_less_likely(
    evidence: list[float], column: int, more: float
) -> None:
    one = np.array([evidence])
    other = one.copy()
    other[0, column] += more
    own = curves(PASSAGE_EVIDENCE)
    assert own(other)[0] >= own(one)[0]


def test_unknown_evidence_adds_what_is_said_of_it() -> None:
    own = curves(PASSAGE_EVIDENCE)
    known, unknown = own(np.array([[0.5] * 5, [0.5, 0.5, 0.5, math.nan, 0.5]]))
    assert known == unknown  # 1.0 is said of the unknown, which is what 0.5 adds


def test_a_question_is_judged_the_same_whatever_else_is_asked_for() -> None:
    texts = [("Bridge", "A bridge over a river."), ("Sea", "Salt water.")] * 3
    all_six = RouteRanking(
        "Which bridge?", Route.DENSE, ranking(0.9, 0.8, 0.7, 0.6, 0.5, 0.4), texts
    )
    five = RouteRanking("Which bridge?", Route.DENSE, ranking(0.9, 0.8, 0.7, 0.6, 0.5), texts[:5])
    none = RouteRanking("Which?", Route.DENSE, ranking(), [])
    sea = RouteRanking("Which sea?", Route.LEXICAL, ranking(7.0, 6.0), texts[:2])
    whole, first, nothing, other = model().judge([all_six, five, none, sea])
    assert whole.relevance[:5] == first.relevance
    assert whole.answerability == first.answerability
    assert nothing == Judgement()
    for one, found in ((all_six, whole), (sea, other)):
        assert model().judge([one]) == [found]
    assert other != model().judge([replace(sea, question="Which bridge?")])[0]


def test_lists_that_were_not_cut_off_are_judged_by_their_cosines() -> None:
    hits = (
        FusedHit("a", 0.3, 1, (Source("dense", 2, 0.7, 0.1), Source("lexical", 1, 9.0, 0.2))),
        FusedHit("b", 0.1, 2, (Source("lexical", 2, 8.0, 0.1),)),
    )
    texts = [("", "")] * 3

    def scores_and_cosines(route: Route, own: Ranking) -> tuple[Route, list[list[float]]]:
        judged_as, found = evidence_on(RouteRanking("", route, own, texts[: len(own.hits)]), 100)
        return judged_as, found.passages[:, [0, 4]].T.tolist()

    few = Ranking("fusion", hits, candidates=100)
    route, found = scores_and_cosines(Route.FUSION, few)
    assert route == Route.DENSE
    np.testing.assert_array_equal(found, [[0.7, math.nan]] * 2)
    many = Ranking("fusion", hits, candidates=101)
    route, found = scores_and_cosines(Route.FUSION, many)
    assert route == Route.FUSION
    np.testing.assert_array_equal(found, [[0.3, 0.1], [0.7, math.nan]])
    route, found = scores_and_cosines(Route.GRAPH, ranking(0.5, 0.25, 0.0))
    np.testing.assert_allclose(found, [[0.0, math.log(0.5), math.log(1e-6)], [math.nan] * 3])
    assert scores_and_cosines(Route.DENSE, ranking(0.5))[1] == [[0.5], [0.5]]


def test_a_passage_that_the_dense_list_lacks_is_as_near_as_the_end_of_that_list() -> None:
    near = [0.7, math.nan, 0.6, 0.5, 0.4, math.nan]
    hits = [
        FusedHit(f"p{n}", 1 / n, n, () if math.isnan(one) else (Source("dense", n, one, 0.1),))
        for n, one in enumerate(near, start=1)
    ]
    texts = [("", "")] * 6
    whole = Ranking("fusion", tuple(hits), 200)
    dense = ranking(0.7, 0.6, 0.5, 0.4, 0.3, 0.2)

    def cosines(*told: object) -> list[float]:
        found = evidence_on(RouteRanking("", Route.FUSION, *told), 5)[1]  # type: ignore[arg-type]
        return [*map(float, found.passages[:, 4])]

    assert cosines(whole, texts, dense) == [0.7, 0.3, 0.6, 0.5, 0.4, 0.3]
    five = replace(whole, hits=whole.hits[:5])
    assert cosines(five, texts[:5], dense) == [0.7, 0.3, 0.6, 0.5, 0.4]
    np.testing.assert_array_equal(cosines(five, texts[:5], ranking()), near[:5])
    np.testing.assert_array_equal(cosines(five, texts[:5]), near[:5])


def test_hits_that_are_unlikely_are_left_out() -> None:
    kept, relevance = likely(ranking(3, 2, 1), (0.9, 0.1, 0.5), 0.4, 5)
    assert [(hit.id, hit.rank) for hit in kept.hits] == [("p1", 1), ("p3", 2)]
    assert relevance == (0.9, 0.5)
    assert likely(ranking(3, 2, 1), (0.9, 0.1, 0.5), 0.0, 2)[1] == (0.9, 0.1)


def test_a_model_is_read_as_it_was_written(tmp_path: Path) -> None:
    (tmp_path / RELEVANCE).write_text(relevance_json(model()))
    assert relevance_json(load_relevance(tmp_path)) == relevance_json(model())


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda text: text[:50], "is damaged"),
        (lambda text: text.replace('"format": 2', '"format": 1'), "this build reads 2"),
        (lambda text: text.replace('"bias"', '"bIas"'), "is damaged"),
        (lambda text: text.replace('"dense"', '"dance"'), "is damaged"),
        (lambda text: text.replace(" 2.0", " -1.0"), "never fall"),
    ],
)
def test_a_damaged_model_is_refused(
    tmp_path: Path, spoil: Callable[[str], str], message: str
) -> None:
    with pytest.raises(ModelFileError, match="cannot be read"):
        load_relevance(tmp_path)
    (tmp_path / RELEVANCE).write_text(spoil(relevance_json(model())))
    with pytest.raises(ModelFileError, match=message):
        load_relevance(tmp_path)


def test_the_model_that_ships_is_whole() -> None:
    shipped = load_relevance(MODELS / RELEVANCE_MODEL)
    assert set(shipped.passages) == set(shipped.answers) == set(ROUTES)
    assert len(json.loads((MODELS / RELEVANCE_MODEL / RELEVANCE).read_text())["made_with"]) == 16
