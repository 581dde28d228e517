"""What a question asks for, and whether a row says it."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from wye.backends.types import Float32
from wye.featurizer.analyser import AnalyserSettings
from wye.featurizer.encoder import EncodedText, EncoderSettings
from wye.featurizer.encoder_files import DEFAULT_ENCODER
from wye.featurizer.types import Span
from wye.router import answer_types

SAID = {
    "How tall is the crane at gate 3?": "The crane stands at gate 3. It is 14 m tall.",
    "How long is the boat?": "length: 9.2; berth: K2",
    "how long is the course": "The course takes 3 days.",
    "How old is Ember?": "Ember was born in 2019.",
    "How heavy is the bell?": "The bell: 420 kg.",
    "How many litres does the tank hold?": "The tank holds 900 l.",
    "What is Ilse Ohm's phone number?": "Ilse Ohm; ext.: 2044",
    "the mobile of Ilse Ohm": "Ilse Ohm, +31 6 1234 5678",
    "What does the crane cost?": "The crane was ordered for 12.500 €.",
    "price of the bell": "The bell is 30,000 kr.",
    "voltage of the crane": "The crane takes 400 V.",
    "How fast is the boat?": "top speed: 14; berth: K2",
    "how cold may the tank get": "The tank: down to minus 4 degrees.",
    "Was kostet der Kran?": "Der Kran: 12,50 €.",
    "Wie schwer ist die Glocke?": "Gewicht: 420",
    "Wie hoch ist die Miete?": "Miete: 900",
    "Wie hoch ist der Kran?": "Der Kran ist 9,8 m hoch.",
    "Welche Durchwahl hat Ilse?": "Ilse; Durchwahl: 2044",
}


@pytest.mark.parametrize(("question", "text"), SAID.items())
def test_a_value_of_the_kind_that_is_asked_for(question: str, text: str) -> None:
    assert not answer_types.lacks_value(question, ["Of something else.", text])
    others = "Gate 3 opens at 7:30, by the boat, bell, tank, course, Ember, Kran and Ilse Ohm."
    assert answer_types.lacks_value(question, [others])


@pytest.mark.parametrize(
    "question", ["Who paid for the crane?", "When does the price rise?", "How high is the share?"]
)
def test_a_question_for_anything_else_lacks_no_value(question: str) -> None:
    assert not answer_types.lacks_value(question, ["The crane."])


@pytest.mark.parametrize(
    ("title", "text", "question", "is_one"),
    [
        ("K-12", "holder: Ilse Ohm; copies: 2", "who has K-12", True),
        ("Ilse Ohm", "ext: 2044", "Whose extension is 2044?", True),
        ("Ilse Ohm", "ext: 2044", "Who manages Ilse Ohm?", False),
        ("K-12", "holder: Ilse Ohm; copies: 2", "Where is K-12?", False),
        ("K-12", "room: B2; copies: 2", "Who has K-12?", False),
        ("K-12", "room: B2; ends: 9 May 2031", "When does loan K-12 run out?", True),
        ("K-12", "room: B2; ends: 9 May 2031", "When did K-12 begin, by 9 May 2031?", False),
        ("Ilse Ohm", "room: B2; joined: 9 May 2031", "When was Ilse Ohm born?", False),
        ("Regatta", "start: 2031-05-09; place: pier", "What is planned on 9 May?", True),
        ("Regatta", "from: 2031-05-07; to: 2031-05-11", "What is planned on 9 May 2031?", True),
        ("Regatta", "start: 2031-05-09; place: pier", "What is planned on 8 May 2031?", False),
        ("K-12", "room: B2; ends: 9 May 2031", "What does K-12 cost on 9 May 2031?", False),
    ],
)
def test_who_or_when_a_row_says(title: str, text: str, question: str, is_one: bool) -> None:
    assert answer_types.has_person_or_day(title, text, question) is is_one


@pytest.mark.parametrize(
    ("question", "lacks"),
    [
        ("What did the club decide on 9 May 2031?", False),
        ("What did the club decide on 10 May 2031?", True),
        ("What was the fee in June 2031?", False),
        ("What was the fee in May 2030?", True),
        ("What was the fee on 10 May or in 2030?", False),
    ],
)
def test_a_day_or_a_month_of_a_year_that_no_text_has(question: str, lacks: bool) -> None:
    texts = "The club met on 09.05.2031.", "from: 2031-06-02; to: 2031-06-20; fee: 9"
    assert answer_types.lacks_date(question, texts) == lacks


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("How heavy is K-12?", ["How heavy"]),
        ("Is K-12 paid?", ["paid"]),
        ("has boat 12 been tarred", ["tarred"]),
        ("How often must K-12 be tarred?", ["How often", "tarred"]),
        ("Is Ilse Ohm married?", []),
        ("When was K-12 built?", []),
    ],
)
def test_words_of_a_question_that_an_answer_does_not_repeat(
    question: str, words: list[str]
) -> None:
    assert answer_types.words_not_repeated(question) == words


CALL = "vessel: Nordvik; berth: Quay 7; arrived: 4 May 2031; master: Sigrid Aune; fee: 90 €; ext: 3"


@pytest.mark.parametrize(
    ("question", "labels"),
    [
        ("K-12 belongs to which ship?", ("vessel", "berth", "arrived", "master", "fee", "ext")),
        ("When did K-12 come in?", ("berth", "arrived", "fee", "ext")),
        ("Who captained K-12?", ("vessel", "berth", "arrived", "master")),
        ("What does K-12 cost?", ("fee",)),
        ("What is the phone of K-12?", ("phone", "ext")),
        ("How tall is K-12?", ()),
    ],
)
def test_labels_of_values_that_may_be_asked_for(question: str, labels: tuple[str, ...]) -> None:
    assert answer_types.labels_of_type(question, CALL) == labels


class Paraphraser:
    """An analyser to which a ship is a vessel, and that puts whatever it encodes in `asked`."""

    def __init__(self, model: str = DEFAULT_ENCODER) -> None:
        self.settings, self.asked = AnalyserSettings(encoder=EncoderSettings(model)), list[str]()

    def encode_questions(self, texts: Sequence[str]) -> Float32:
        self.asked += texts
        return np.array([[1, 0] if "vessel" in t or "ship" in t else [0, 1] for t in texts], "f4")

    def encode_with_states(self, texts: Sequence[str]) -> list[EncodedText]:
        self.asked += texts
        return [EncodedText(text, np.zeros(2, "f4"), np.zeros((1, 2), "f4"), ()) for text in texts]

    def encode_parts(self, encoded: EncodedText, spans: Sequence[Span]) -> Float32:
        pieces = [encoded.text[start:end] for start, end in spans]
        assert pieces == encoded.text.removesuffix(", ").split(", ")
        return np.array([[1, 0] if "vessel" in piece else [0, 1] for piece in pieces], "f4")


def says(question: str, analyser: Paraphraser, name: str = "K-12") -> bool:
    (vector,) = Paraphraser().encode_questions([question])
    models: Any = SimpleNamespace(analyser=analyser)
    return answer_types.has_fitting_label(models, question, vector, name, CALL)


def test_a_row_says_by_a_label_what_is_asked_for_by_another_word() -> None:
    analyser = Paraphraser()
    assert says("K-12 belongs to which ship?", analyser)
    assert analyser.asked == [
        "the vessel, the berth, the arrived, the master, the fee, the ext, ",
        "the vessel of K-12",
        "the berth of K-12",
        "K-12",
    ]
    assert not says("Which ship costs as much as K-12?", Paraphraser())
    assert not says("K-12 belongs to which ship?", Paraphraser("another"))


def test_nothing_is_encoded_where_no_value_may_be_what_is_asked_for() -> None:
    analyser = Paraphraser()
    assert not says("How tall is the ship K-12?", analyser)
    assert not analyser.asked


def test_a_row_goes_by_the_value_that_the_question_names() -> None:
    """Its title is a code that nobody asks for, and the label of that value is not the answer."""
    analyser = Paraphraser()
    assert says("Which ship is Sigrid Aune on, at 90 and by Quay 7?", analyser, "S-7")
    assert [text for text in analyser.asked if "of" in text] == [
        "the vessel of Sigrid Aune",
        "the berth of Sigrid Aune",
    ]
    assert "master" not in analyser.asked[0]


def test_a_row_with_too_many_labels_to_compare_is_not_called_silent() -> None:
    wide = "; ".join(f"{kind}{number}: Aune" for number in range(7) for kind in "abcdefg")
    models: Any = SimpleNamespace(analyser=Paraphraser())
    known = models, "Which ship has K-12?", np.zeros(2, "f4"), "K-12", wide
    assert answer_types.has_fitting_label(*known)
    assert not models.analyser.asked


@pytest.mark.parametrize(
    ("label", "alone", "is_said"),
    [(0.78, 0.77, True), (0.75, 0.69, True), (0.75, 0.71, False), (0.73, 0.5, False)],
)
def test_a_label_may_be_less_near_where_it_brings_the_name_nearer(
    label: float, alone: float, *, is_said: bool
) -> None:
    class Near(Paraphraser):
        def encode_questions(self, texts: Sequence[str]) -> Float32:
            return np.array([[label if "the " in text else alone, 0] for text in texts], "f4")

    assert says("K-12 belongs to which ship?", Near()) is is_said


@pytest.mark.parametrize(
    ("question", "text", "says"),
    [
        ("where is the K-7 kept", "model: Aker; based at: north quay", True),
        ("where was Odile born", "team: yard; place: north quay", False),
        ("when did Odile join", "team: yard; since: 2019-04-01", True),
        ("when does Odile retire", "team: yard; since: 2019-04-01", False),
        ("who stands in for Odile", "person: Odile Marsh; deputy: Ivo Lund", True),
        ("what number do I call for Odile", "team: yard; phone: +41 79 555 01 52", True),
        ("what number has the seal of Odile", "team: yard; phone: +41 79 555 01 52", False),
    ],
)
def test_what_a_row_says_in_other_words(question: str, text: str, says: bool) -> None:
    assert answer_types.has_synonym(question, text) == says


@pytest.mark.parametrize(
    ("question", "word"),
    [
        ("Who is the landlord of the old depot?", "landlord"),
        ("When is Ada Holt's birthday?", "birthday"),
        ("Who insures the crane?", "insures"),
        ("What is the purpose of the crane?", ""),  # what it is for need not say so
        ("What is the weight of the crane?", ""),  # a value has units
        ("Who is the mentor of the trainee who broke it?", ""),
        ("Which crane is ours?", ""),
    ],
)
def test_a_question_asks_for_something_by_a_noun_or_a_verb(question: str, word: str) -> None:
    assert answer_types.relation_of(question) == word


TOOLS = [
    ("tools.csv:2", [("kept in", "yard"), ("keeper", "Ada")]),
    ("tools.csv:3", [("kept in", "hall"), ("last checked", "2031-02-03"), ("lent", "no")]),
    ("notes.md", []),
]


@pytest.mark.parametrize(
    ("question", "lacks"),
    [
        ("When was the pug mill checked?", True),
        ("Who is the keeper of the pug mill?", False),
        ("Which tool has no keeper?", True),
        ("Which tools are without a check?", True),
        ("Which tools have not been lent?", False),
        ("Which tool is blue?", False),
    ],
)
def test_empty_cells_are_told_by_other_rows_of_the_table(question: str, lacks: bool) -> None:
    ids, rows = zip(*TOOLS, strict=True)
    assert answer_types.lacks_cell(question, ids, rows) == lacks
    assert not answer_types.lacks_cell(question, ids[::-1], rows[::-1])
