"""Rules that bound answerability: what is never called absent, and what is never surely there."""

from typing import Any

import pytest

from tests.router.test_relevance import ROW, evidence, ranking
from wye.backends.types import Ranking
from wye.router.bounds import bounded
from wye.router.match import RouteRanking
from wye.router.relevance import evidence_on
from wye.router.types import ABSTAIN_BELOW, SURE_FROM, Route


def doubted(question: str, texts: list[tuple[str, str]], **known: Any) -> float:  # noqa: ANN401
    """Answerability where the curves believe nothing."""
    return bounded(0.0, evidence(question, texts, **known).match)


def believed(question: str, texts: list[tuple[str, str]], **known: Any) -> float:  # noqa: ANN401
    """Answerability where the curves believe everything."""
    return bounded(1.0, evidence(question, texts, **known).match)


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
    text = "Der Schlüssel der Hütte Saffron hängt im Büro, und das ist auch nachts offen."
    page, lamp = ("Hütte", text), ("Lamp", "The lamp is red.")
    assert doubted("Where is the key of Saffron?", [page, lamp]) == ABSTAIN_BELOW
    for question in ("Where is the key of Tern?", "Where is the key of Saffron in 2029?"):
        assert doubted(question, [page, lamp]) < ABSTAIN_BELOW


def test_a_german_question_is_not_called_absent_for_another_form_of_a_word() -> None:
    """Its small words are in every German passage, so they are no reason."""
    page = ("Fähre", "Die Fähre nach Sandholm ist täglich da, und Fahrräder sind auf ihr frei.")
    texts = [page, ("Lamp", "The lamp is red.")]
    for question in ("Was kostet ein Fahrrad?", "Wer steuert die Faehre?"):
        assert doubted(question, texts) == ABSTAIN_BELOW
    assert doubted("Wer ist das auf der Bank?", texts) < ABSTAIN_BELOW


def test_another_thing_of_that_height_is_no_value_of_the_one_that_is_asked_for() -> None:
    texts = [("", "Der Kran ist grün."), ("", "Das Tor ist 9 m hoch."), ("", "It is 9 m tall.")]
    assert believed("Wie hoch ist der Kran?", texts) < SURE_FROM < believed("Tor: wie hoch?", texts)
    assert believed("How tall is the Kran?", texts) < SURE_FROM


def test_what_no_passage_says_by_the_word_of_the_question_is_not_surely_answered() -> None:
    texts = [("Depot", "Quill owns the press in the old depot, and is its tenant until 2034.")]
    assert believed("Who is the landlord of the old depot?", texts) < SURE_FROM
    assert believed("Who is the tenant of the old depot?", texts) > SURE_FROM
    assert believed("Who owns the press?", texts) > SURE_FROM
    assert believed("Who owns the press?", [("Press", "The press is old.")]) < SURE_FROM


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
    compared = list[str]()

    def fits(name: str, text: str) -> bool:
        compared.append(f"{name} in {text}")
        return True

    def answerability(question: str, *texts: tuple[str, str]) -> float:
        return doubted(question, [*texts], label_fits=fits)

    call, page = ("Nordvik", "call: K-17; berth: Quay 7"), ("K-17", "Of the K-17 nothing is known.")
    assert answerability("K-17 belongs to which ship?", call, page) == ABSTAIN_BELOW
    assert answerability("Where does Nordvik moor?", call, page) == ABSTAIN_BELOW
    assert compared == [f"{name} in {call[1]}" for name in ("K-17", "Nordvik")]
    assert answerability("Which berth has K-17?", call) == ABSTAIN_BELOW
    for question in ("Where does Nordvik moor in 2030?", "Where moors K-18?", "Where sits Ida?"):
        assert answerability(question, call, page) < ABSTAIN_BELOW
    assert answerability("Where does K-17 moor?", page, call) < ABSTAIN_BELOW
    assert len(compared) == 2


def test_what_is_near_a_question_without_a_name_is_not_called_absent() -> None:
    texts = [("Can I charge an electric car?", "Four posts stand behind the hall.")]
    for question, least in (
        ("where do I load my van", ABSTAIN_BELOW),
        ("where do I load my Vanetta", ABSTAIN_BELOW),
        ("where did Una Vane load", 0.0),  # nobody has that name
        ("who opened the Hall", 0.0),  # a name, of which that is not said
    ):
        assert doubted(question, texts, sentences=[0.4]) == least
        assert doubted(question, texts, sentences=[0.3]) == 0.0


def test_another_row_with_the_title_of_the_first_may_say_what_is_asked() -> None:
    rows = [("Ivo Lund", "course: ropes; no: 7"), ("Ivo Lund", "team: yard; since: 2019")]
    assert doubted("when did Ivo Lund join", rows) == ABSTAIN_BELOW
    assert doubted("when did Ivo Lund join", rows[:1]) == 0.0
    assert doubted("when did Ivo Lund join", [rows[0], ("Odd Lie", rows[1][1])]) == 0.0


def test_a_row_that_leads_to_what_is_asked_is_not_silent() -> None:
    lund = "Ivo Lund", "trade: welder; school day: Tuesday"
    texts = [("Heron", "code: H-4; checked: I. Lund"), lund]
    question = "school day of who oils the Heron"
    assert believed(question, texts) < ABSTAIN_BELOW
    assert doubted(question, texts, hops={"p2": 0.7}) == ABSTAIN_BELOW
    assert believed(question, texts, hops={"p2": 0.7}) == 1.0


def test_the_name_of_a_file_says_what_its_rows_are() -> None:
    for id_, most in (("hr/bicycles.csv:4", 1), ("hr/staff.csv:4", ABSTAIN_BELOW)):
        hits = (ranking(0.1).hits[0]._replace(id=id_),)
        row = RouteRanking("Which bicycle has Amira Holt?", Route.DENSE, Ranking("", hits), [ROW])
        assert bounded(1.0, evidence_on(row, 100).match) == pytest.approx(most)


def test_what_has_all_words_of_a_question_is_never_called_absent() -> None:
    texts = [("Smoker", "The smoker opens at noon."), ("Lamp", "The lamp is red.")]
    assert doubted("When does the smoker open?", texts) == ABSTAIN_BELOW
    assert doubted("Which lamp is red?", texts) == ABSTAIN_BELOW
    assert doubted("Which smoker is red?", texts) == 0
    rules = [("Rules", "Remote work is allowed.")]
    assert doubted("the latest remote work rules", rules) == ABSTAIN_BELOW


def test_the_row_of_a_code_may_have_the_day_that_is_asked_for_in_whatever_words() -> None:
    question = "When was S-207 ordered?"
    assert doubted(question, [("S-207", "Datum: 03.05.2031; Menge: 4")]) == ABSTAIN_BELOW
    assert doubted(question, [("S-207", "Menge: 4")]) == 0
