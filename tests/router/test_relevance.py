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
from wye.router.relevance import (
    ANSWER_EVIDENCE,
    ASKING_WORDS,
    FEW,
    FIRST,
    PASSAGE_EVIDENCE,
    Curve,
    CurveSum,
    Evidence,
    Judgement,
    RelevanceModel,
    RouteRanking,
    evidence_on,
    likely,
)
from wye.router.relevance_files import RELEVANCE, load_relevance, relevance_json
from wye.router.settings import MODELS, RELEVANCE_MODEL
from wye.router.types import ABSTAIN_BELOW, SURE_FROM, USUAL, Route, answered

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
    return Evidence(to_judge, np.zeros(len(texts)), np.full(len(texts), math.nan))


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
    assert math.isnan(of_answer(found, "cosine"))
    assert math.isnan(of_answer(found, "sentence"))


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
    latest = evidence("the latest remote work rules", [("Rules", "Remote work is allowed.")])
    assert latest.least == ABSTAIN_BELOW
    ordered = evidence("When was S-207 ordered?", [("S-207", "Datum: 03.05.2031; Menge: 4")])
    assert ordered.least == ABSTAIN_BELOW  # the code's row has a day, in whatever words
    assert evidence("When was S-207 ordered?", [("S-207", "Menge: 4")]).least == 0


def test_who_asks_for_a_code_alone_wants_what_has_it() -> None:
    found = evidence("E-9140?", [("", "E-9140: no water"), ("", "E-2207: no oil")])
    assert (of_answer(found, "beside"), of_answer(found, "joint")) == (1, 1)


def doubter() -> RelevanceModel:
    """Its curves believe nothing."""
    flat = Curve(np.zeros(1), np.zeros(1), 0.0)
    passages, answers = (
        dict.fromkeys(ROUTES, CurveSum(-9.0, dict.fromkeys(names, flat)))
        for names in (PASSAGE_EVIDENCE, ANSWER_EVIDENCE)
    )
    return replace(model(), passages=passages, answers=answers)


def judged(question: str, texts: list[tuple[str, str]]) -> Judgement:
    return doubter().judge([RouteRanking(question, Route.DENSE, ranking(0.1, 0.1), texts)])[0]


def test_a_code_alone_is_answered_however_it_is_written_where_a_passage_has_it() -> None:
    texts = [("Part", "Ask for VLV-3391 at the counter."), ("Part", "VLV-4420 is a nut.")]
    for question in ("VLV3391", "vlv-3391"):
        assert judged(question, texts).relevance == pytest.approx((SURE_FROM, 0), abs=0.001)
        assert judged(question, texts).answerability == SURE_FROM
    assert judged("Is VLV-3391 a nut?", texts).answerability == pytest.approx(0, abs=0.001)
    assert judged("VLV-9999", texts).answerability == pytest.approx(0, abs=0.001)


def believed(question: str, texts: list[tuple[str, str]]) -> float:
    """Answerability by curves that believe everything."""
    to_judge = RouteRanking(question, Route.DENSE, ranking(*[0.1] * len(texts)), texts)
    believer = replace(model(), answers=dict.fromkeys(ROUTES, CurveSum(9.0, {})))
    (judgement,) = believer.judge([to_judge])
    assert judgement.answerability is not None
    return judgement.answerability


def test_a_question_about_a_code_that_no_passage_has_is_called_absent() -> None:
    pumps = "AHU-11 serves the kitchen from 12 May, and T-4 9 the bath."
    texts = [("Pumps", pumps), ("Hall", "AHU-13.")]
    assert believed("Which room does AHU-12 serve?", texts) < ABSTAIN_BELOW
    for question in ("Which room does AHU-11 serve?", "What are AHU-12 and AHU13?", "Since 400?"):
        assert believed(question, texts) > SURE_FROM


def test_a_question_about_a_year_that_no_first_passage_has_is_called_absent() -> None:
    texts = [("Budget 2031", "The harbour gets 4,000 euros."), ("Fares", "From 2030-04 it is 5.")]
    absent = ("Budget of the harbour in 2029?", "fares from 2030 to 2032")
    here = ("Budget of the harbour in 2031?", "Fares 2030", "Season 2029/30?")
    assert all(believed(question, texts) < ABSTAIN_BELOW for question in absent)
    assert all(believed(question, texts) > SURE_FROM for question in here)


def test_a_question_about_a_day_that_no_first_passage_has_is_not_surely_answered() -> None:
    texts = [("Rota", "from: 2031-05-05; to: 2031-05-11; keeper: Amira")]
    assert believed("Who keeps watch on 9 May 2031?", texts) > SURE_FROM
    assert ABSTAIN_BELOW < believed("Who keeps watch on 19 May 2031?", texts) < SURE_FROM


def test_what_another_language_may_say_is_not_called_absent() -> None:
    page = (
        "Hütte",
        "Der Schlüssel der Hütte Saffron hängt im Büro, und das ist auch nachts offen.",
    )
    lamp = ("Lamp", "The lamp is red.")
    assert judged("Where is the key of Saffron?", [page, lamp]).answerability == ABSTAIN_BELOW
    for question in ("Where is the key of Tern?", "Where is the key of Saffron in 2029?"):
        assert (judged(question, [page, lamp]).answerability or 0) < ABSTAIN_BELOW


def test_a_german_question_is_not_called_absent_for_another_form_of_a_word() -> None:
    """Its small words are in every German passage, so they are no reason."""
    page = ("Fähre", "Die Fähre nach Sandholm ist täglich da, und Fahrräder sind auf ihr frei.")
    texts = [page, ("Lamp", "The lamp is red.")]
    for question in ("Was kostet ein Fahrrad?", "Wer steuert die Faehre?"):
        assert judged(question, texts).answerability == ABSTAIN_BELOW
    assert (judged("Wer ist das auf der Bank?", texts).answerability or 0) < ABSTAIN_BELOW


def test_what_no_passage_says_by_the_word_of_the_question_is_not_surely_answered() -> None:
    texts = [("Depot", "Quill owns the press in the old depot, and is its tenant until 2034.")]
    assert believed("Who is the landlord of the old depot?", texts) < SURE_FROM
    assert believed("Who is the tenant of the old depot?", texts) > SURE_FROM
    assert believed("Who owns the press?", texts) > SURE_FROM
    assert believed("Who owns the press?", [("Press", "The press is old.")]) < SURE_FROM


ROW = ("Holt, Amira", "DECT: 4471; last inspection: May; phone: 12; ext.: 7")


@pytest.mark.parametrize(
    ("question", "others", "is_absent"),
    [
        ("What is the salary of Amira Holt?", [("Pay", "The salary is paid in May.")], True),
        ("When was Amira Holt inspected?", [], False),
        ("What is Amira Holt's telephone?", [], False),
        ("What is the DECT number of Amira Holt?", [], False),
        ("What is the salary of Amira Holt?", [("", "Holt, Amira: her salary is 9.")], False),
        ("Who is Amira Holt?", [], False),
        ("Which car does Amira Holt clean?", [("Cars", "Amira Holt has to clean one.")], False),
        ("What is the phone of the mother of the inspector Amira Holt?", [], False),
        ("Which mast has the inspected Amira Holt?", [("Masts", "One was inspected.")], True),
        ("What is Amira Holt's extension?", [], False),
        ("What does Amira Holt stand for?", [], False),
        ("How old is Amira Holt?", [], False),
        ("Which car has Amira Holt?", [("DECT", "Their car is red.")], False),
        ("Which car has Amira Holt?", [("", "Amira Holt has a boat.")], True),
    ],
)
def test_what_the_row_that_is_asked_about_does_not_say_is_absent(
    question: str, others: list[tuple[str, str]], *, is_absent: bool
) -> None:
    assert (believed(question, [ROW, *others]) < ABSTAIN_BELOW) == is_absent


def test_a_row_with_a_name_may_say_who_when_or_what_it_is() -> None:
    row = ("K-17", "keeper: Amira Holt; mast: 9 m")
    assert believed("Who looks after K-17?", [row]) >= ABSTAIN_BELOW
    assert believed("What does K-17 weigh?", [row]) < ABSTAIN_BELOW
    assert believed("Who looks after K-17?", [("K-17", "keeper: none; mast: 9 m")]) < ABSTAIN_BELOW
    dated = ("K-17", "ends: 9 May 2031; mast: 9 m")
    assert believed("When does loan K-17 run out?", [row]) < ABSTAIN_BELOW
    assert believed("When does loan K-17 run out?", [dated]) >= ABSTAIN_BELOW
    assert believed("What is on trolley K-17?", [row]) >= ABSTAIN_BELOW
    assert believed("Price K-17", [row]) < ABSTAIN_BELOW


def test_what_a_label_of_the_row_with_the_name_says_is_not_absent() -> None:
    asked = list[str]()

    def says(name: str, text: str) -> bool:
        asked.append(f"{name} in {text}")
        return True

    def answerability(question: str, *texts: tuple[str, str]) -> float:
        known = RouteRanking(question, Route.DENSE, ranking(*[0.1] * len(texts)), texts, says=says)
        return doubter().judge([known])[0].answerability or 0.0

    call, page = ("Nordvik", "call: K-17; berth: Quay 7"), ("K-17", "Of the K-17 nothing is known.")
    assert answerability("K-17 belongs to which ship?", call, page) == ABSTAIN_BELOW
    assert answerability("Where does Nordvik moor?", call, page) == ABSTAIN_BELOW
    assert asked == [f"{name} in {call[1]}" for name in ("K-17", "Nordvik")]
    assert answerability("Which berth has K-17?", call) == ABSTAIN_BELOW
    for question in ("Where does Nordvik moor in 2030?", "Where moors K-18?", "Where sits Ida?"):
        assert answerability(question, call, page) < ABSTAIN_BELOW
    assert answerability("Where does K-17 moor?", page, call) < ABSTAIN_BELOW
    assert len(asked) == 2


def test_what_is_near_a_question_without_a_name_is_not_called_absent() -> None:
    texts = [("Can I charge an electric car?", "Four posts stand behind the hall.")]
    for question, least in (
        ("where do I load my van", ABSTAIN_BELOW),
        ("where do I load my Vanetta", ABSTAIN_BELOW),
        ("where did Una Vane load", 0.0),  # nobody has that name
        ("who opened the Hall", 0.0),  # a name, of which that is not said
    ):
        assert evidence(question, texts, sentences=[0.4]).least == least
        assert evidence(question, texts, sentences=[0.3]).least == 0.0


def test_another_row_with_the_title_of_the_first_may_say_what_is_asked() -> None:
    rows = [("Ivo Lund", "course: ropes; no: 7"), ("Ivo Lund", "team: yard; since: 2019")]
    assert evidence("when did Ivo Lund join", rows).least == ABSTAIN_BELOW
    assert evidence("when did Ivo Lund join", rows[:1]).least == 0.0
    assert evidence("when did Ivo Lund join", [rows[0], ("Odd Lie", rows[1][1])]).least == 0.0


def test_a_row_that_leads_to_what_is_asked_is_not_silent() -> None:
    texts = [
        ("Heron", "code: H-4; checked: I. Lund"),
        ("Ivo Lund", "trade: welder; school day: Tuesday"),
    ]
    question = "school day of who oils the Heron"
    assert evidence(question, texts).most < ABSTAIN_BELOW
    followed = evidence(question, texts, hops={"p2": 0.7})
    assert (followed.least, followed.most) == (ABSTAIN_BELOW, 1.0)


def test_the_name_of_a_file_says_what_its_rows_are() -> None:
    question, hits = "Which bicycle has Amira Holt?", ranking(0.1).hits
    for id_, most in (("hr/bicycles.csv:4", 1), ("hr/staff.csv:4", ABSTAIN_BELOW)):
        row = RouteRanking(question, Route.DENSE, Ranking("", (hits[0]._replace(id=id_),)), [ROW])
        assert math.nextafter(most, 1) >= evidence_on(row, 100)[1].most >= math.nextafter(most, 0)


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


def test_what_has_all_words_of_a_question_is_never_called_absent() -> None:
    texts = [("Smoker", "The smoker opens at noon."), ("Lamp", "The lamp is red.")]
    assert judged("When does the smoker open?", texts).answerability == ABSTAIN_BELOW
    assert judged("Which lamp is red?", texts).answerability == ABSTAIN_BELOW
    assert judged("Which smoker is red?", texts).answerability == pytest.approx(0, abs=0.001)


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
        judged_as, found = evidence_on(RouteRanking("", route, own, texts[: len(own.hits)]), 100)
        return judged_as, found.passages[:, [0, COSINE]].T.tolist()

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
        found = evidence_on(RouteRanking("", Route.FUSION, *told), 5)[1]  # type: ignore[arg-type]
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
