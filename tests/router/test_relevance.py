"""Probabilities of relevance: what speaks for a passage, and what a model makes of it."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wye.backends.text import content_terms
from wye.backends.types import RankedHit, Ranking, Source
from wye.router.errors import ModelFileError
from wye.router.match import ASKING_WORDS, FIRST, RouteRanking
from wye.router.relevance import (
    ANSWER_EVIDENCE,
    FEW,
    PASSAGE_EVIDENCE,
    Curve,
    CurveSum,
    Evidence,
    Judgement,
    RelevanceModel,
    evidence_on,
    likely,
)
from wye.router.relevance_files import RELEVANCE, load_relevance, relevance_json
from wye.router.settings import MODELS, RELEVANCE_MODEL
from wye.router.types import SURE_FROM, USUAL, Route, answered

ROUTES = [*(str(route) for route in USUAL if route != Route.AUTO), FEW]
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


def evidence(
    question: str,
    texts: list[tuple[str, str]],
    **known: Any,  # noqa: ANN401 - fields of `RouteRanking`
) -> Evidence:
    """Evidence on texts whose scores and cosines are 0 and unknown."""
    to_judge = RouteRanking(question, Route.HYBRID, ranking(*[0.0] * len(texts)), texts, **known)
    return evidence_on(to_judge, 100)


def column(found: Evidence, name: str) -> list[float]:
    return [*map(float, found.passages[:, PASSAGE_EVIDENCE.index(name)])]


def of_answer(found: Evidence, name: str) -> float:
    return float(found.answer[ANSWER_EVIDENCE.index(name)])


@given(TEXTS, st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=7))
def test_evidence_is_what_terms_say(question: str, texts: list[tuple[str, str]]) -> None:
    found = evidence(question, texts)
    asked = set(content_terms(question))
    wanted = asked - ASKING_WORDS or asked
    held = [wanted & set(content_terms(f"{title}\n{text}")) for title, text in texts]
    called = [set(content_terms(title)) for title, _ in texts]
    shares = [len(own) / len(wanted) if wanted else 0.0 for own in held]
    titles = [len(own & asked) / len(own) if own else math.nan for own in called]
    np.testing.assert_allclose(column(found, "coverage"), shares)
    np.testing.assert_allclose(column(found, "title"), titles)
    together = len(set().union(*held[:FIRST])) / len(wanted) if wanted else 0.0
    has_forms = any(len(term) > 3 for term in wanted)  # words in other forms count, too
    assert of_answer(found, "together") >= together - 1e-9
    assert has_forms or of_answer(found, "together") == pytest.approx(together)
    assert all(math.isnan(of_answer(found, name)) for name in ("cosine", "sentence"))


def test_a_name_alone_is_no_evidence() -> None:
    question = "What is the salary of Amira Holt?"
    texts = [
        ("Amira Holt", "team: harbour; room: Q2.04"),
        ("Pay", "The salary is paid on the 25th."),
        ("Amira Holt's salary", "It rose in May."),
    ]
    known, elsewhere, both = (evidence(question, texts[:n]) for n in (1, 2, 3))
    assert of_answer(known, "together") == pytest.approx(2 / 3)
    assert [of_answer(found, "beside") for found in (known, elsewhere, both)] == [0, 1, 1]
    assert [of_answer(found, "joint") for found in (known, elsewhere, both)] == [0, 0, 1]


def test_what_no_passage_writes_with_a_small_letter_is_a_name_however_it_is_typed() -> None:
    texts = [("", "Ring Amira or write to amira@harbour.example. The salary is paid in May.")]
    found = evidence("amira salary bonus", texts)
    assert of_answer(found, "beside") == 0.5  # salary, of salary and bonus


def test_rare_words_count_more_and_words_of_a_request_do_not_count() -> None:
    weights = {"boiler": 1.0, "e": 1.0, "9140": 8.0}
    found = evidence("Please explain E-9140, boiler", [("", "E-9140: no water")], weights=weights)
    assert column(found, "coverage") == pytest.approx([0.9])
    assert of_answer(found, "beside") == 0  # the boiler; the code is a name


def test_who_asks_for_a_code_alone_wants_what_has_it() -> None:
    found = evidence("E-9140?", [("", "E-9140: no water"), ("", "E-2207: no oil")])
    assert (of_answer(found, "beside"), of_answer(found, "joint")) == (1, 1)


def test_a_code_alone_is_answered_however_it_is_written_where_a_passage_has_it() -> None:
    texts = [("Part", "Ask for VLV-3391 at the counter."), ("Part", "VLV-4420 is a nut.")]
    nothing = dict.fromkeys(ROUTES, CurveSum(-9.0, {}))  # curves that believe nothing

    def judged(question: str) -> tuple[float, ...]:
        to_judge = RouteRanking(question, Route.DENSE, ranking(0.1, 0.1), texts)
        (judgement,) = RelevanceModel(100, "tests", nothing, nothing).judge([to_judge])
        return (judgement.answerability or 0.0, *judgement.relevance)

    for question in ("VLV3391", "vlv-3391"):
        assert judged(question) == pytest.approx((SURE_FROM, SURE_FROM, 0), abs=0.001)
    for question in ("Is VLV-3391 a nut?", "VLV-9999"):
        assert judged(question) == pytest.approx((0, 0, 0), abs=0.001)


ROW = ("Holt, Amira", "DECT: 4471; last inspection: May; phone: 12; ext.: 7")


def test_what_is_said_of_the_names_counts_apart_for_rows_and_text() -> None:
    question = "Which mast and sail has Amira Holt?"
    page, sails = ("", "Amira Holt has a Mast."), ("Holt", "Their sail is red.")
    cases = [([ROW], 0, math.nan), ([ROW, page], 0.5, math.nan), ([page, ROW], math.nan, 0.5)]
    cases += [([ROW, page, sails], 1, math.nan), ([("", "They have a mast.")], math.nan, math.nan)]
    for texts, row, text in cases:
        found = evidence(question, texts)
        values = of_answer(found, "row"), of_answer(found, "text")
        assert values == pytest.approx((row, text), nan_ok=True)


@pytest.mark.parametrize(
    "question", ["What is wrong with {}?", "{}: how was it solved", "{} result", "Is {} paid?"]
)
def test_a_row_answers_what_the_state_of_its_name_is(question: str) -> None:
    row = ("K-17", "Kind: ketch; Mast: split; Sail: red")
    assert math.isnan(of_answer(evidence(question.format("K-17"), [row]), "row"))
    assert of_answer(evidence("What is the length of K-17?", [row]), "row") == 0


def test_words_with_a_digit_count_alone() -> None:
    texts = [("Sail 15", "It is 9 m long."), ("Week 40", "The sails dry.")]
    for question, share in (("sail 15 in week 40", 1), ("sail 16, week 40", 0.5), ("sail 16", 0)):
        assert of_answer(evidence(question, texts), "number") == share
    assert math.isnan(of_answer(evidence("Which sail is long?", texts), "number"))


def test_a_passage_that_an_earlier_one_names() -> None:
    texts = [
        ("Finlandia", "A poem by Jean Sibelius."),
        ("Jean Sibelius (composer)", "Born in Hämeenlinna."),
        ("Sibelius", ""),
        ("Jean", "Trousers."),
        ("", ""),
        ("Poem by Jean", ""),
    ]
    assert column(evidence("Who wrote Finlandia?", texts), "named") == [0, 1, 1, 1, 0, 1]
    found = evidence("Who wrote Finlandia?", texts, names=["Jean Sibelius"])
    assert column(found, "title")[1] == pytest.approx(2 / 3)


def test_words_that_no_passage_above_has_and_names_that_lead_to_a_passage_count() -> None:
    texts = [("", "The red lamp."), ("", "A red boat."), ("", "The boat sank.")]
    found = evidence("Which red boat sank?", texts, hops={"p3": 0.7})
    assert column(found, "added") == pytest.approx([1 / 3, 1 / 3, 1 / 3])
    assert column(found, "left") == pytest.approx([math.nan, 2 / 3, 1 / 3], nan_ok=True)
    assert column(found, "hop") == [0, 0, 0.7]


def test_the_nearest_sentence_counts_among_the_first_passages() -> None:
    found = evidence("Who?", [("", "")] * 7, sentences=[0.3, 0.6, 0.2, 0.1, 0.1, 0.9])
    assert of_answer(found, "sentence") == 0.6


@pytest.mark.parametrize(
    ("answerability", "bound", "verdict"),
    [(None, 0.9, None), (0.05, 0.1, "no"), (0.05, 0.0, "unsure"), (0.9, 0.1, "yes")],
)
def test_an_answer_is_given_doubted_or_refused(
    answerability: float | None, bound: float, verdict: str | None
) -> None:
    assert answered(answerability, bound) == verdict


COLUMNS, COSINE = len(PASSAGE_EVIDENCE), PASSAGE_EVIDENCE.index("cosine")


@given(
    st.lists(st.floats(-2, 2), min_size=COLUMNS, max_size=COLUMNS),
    st.integers(0, COLUMNS - 1),
    st.floats(0, 2),
)
def test_more_evidence_never_makes_a_passage_less_likely(
    values: list[float], column: int, more: float
) -> None:
    one = np.array([values])
    other = one.copy()
    other[0, column] += more
    own = curves(PASSAGE_EVIDENCE)
    assert own(other)[0] >= own(one)[0]


def test_unknown_evidence_adds_what_is_said_of_it() -> None:
    own = curves(PASSAGE_EVIDENCE)
    known, unknown = own(np.array([[0.5] * 9, [0.5] * 3 + [math.nan] + [0.5] * 5]))
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


def test_lists_that_were_not_cut_off_have_curves_of_their_own() -> None:
    hits = (
        RankedHit("a", 0.3, 1, (Source("dense", 2, 0.7, 0.1), Source("lexical", 1, 9.0, 0.2))),
        RankedHit("b", 0.1, 2, (Source("lexical", 2, 8.0, 0.1),)),
    )
    texts = [("", "")] * 3

    def scores_and_cosines(route: Route, own: Ranking) -> tuple[str, list[list[float]]]:
        found = evidence_on(RouteRanking("", route, own, texts[: len(own.hits)]), 100)
        return found.curves, found.passages[:, [0, COSINE]].T.tolist()

    few = Ranking("fusion", hits, candidates=100)
    route, found = scores_and_cosines(Route.FUSION, few)
    assert route == FEW
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
        RankedHit(f"p{n}", 1 / n, n, () if math.isnan(one) else (Source("dense", n, one, 0.1),))
        for n, one in enumerate(near, start=1)
    ]
    texts = [("", "")] * 6
    whole = Ranking("fusion", tuple(hits), 200)
    dense = ranking(0.7, 0.6, 0.5, 0.4, 0.3, 0.2)

    def cosines(*told: object) -> list[float]:
        found = evidence_on(RouteRanking("", Route.FUSION, *told), 5)  # type: ignore[arg-type]
        return [*map(float, found.passages[:, COSINE])]

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
        (lambda text: text.replace('"format": 6', '"format": 5'), "this build reads 6"),
        (lambda text: text.replace('"bias"', '"bIas"'), "is damaged"),
        (lambda text: text.replace('"dense"', '"dance"'), "is damaged"),
        (lambda text: text.replace(" 2.0", " -1.0"), "never fall"),
    ],
)
def test_a_bad_model_is_refused(tmp_path: Path, spoil: Callable[[str], str], message: str) -> None:
    with pytest.raises(ModelFileError, match="cannot be read"):
        load_relevance(tmp_path)
    (tmp_path / RELEVANCE).write_text(spoil(relevance_json(model())))
    with pytest.raises(ModelFileError, match=message):
        load_relevance(tmp_path)


def test_the_model_that_ships_is_whole() -> None:
    shipped = load_relevance(MODELS / RELEVANCE_MODEL)
    assert set(shipped.passages) == set(shipped.answers) == set(ROUTES)
    assert len(json.loads((MODELS / RELEVANCE_MODEL / RELEVANCE).read_text())["made_with"]) == 16
