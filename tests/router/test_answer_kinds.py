"""Which questions ask for a kind of value, and which texts have one."""

import pytest

from wye.router.answer_kinds import lacks_value, names_somebody

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
}


@pytest.mark.parametrize(("question", "text"), SAID.items())
def test_a_value_of_the_kind_that_is_asked_for(question: str, text: str) -> None:
    assert not lacks_value(question, ["Of something else.", text])
    others = (
        "Gate 3 opens at 7:30, by the boat, the bell, the tank, the course, Ember and Ilse Ohm."
    )
    assert lacks_value(question, [others])


@pytest.mark.parametrize(
    "question", ["Who paid for the crane?", "When does the price rise?", "How high is the share?"]
)
def test_a_question_for_anything_else_lacks_no_value(question: str) -> None:
    assert not lacks_value(question, ["The crane."])


@pytest.mark.parametrize(
    ("title", "text", "question", "is_one"),
    [
        ("K-12", "holder: Ilse Ohm; copies: 2", "who has K-12", True),
        ("Ilse Ohm", "ext: 2044", "Whose extension is 2044?", True),
        ("Ilse Ohm", "ext: 2044", "Who manages Ilse Ohm?", False),
        ("K-12", "holder: Ilse Ohm; copies: 2", "Where is K-12?", False),
        ("K-12", "room: B2; copies: 2", "Who has K-12?", False),
    ],
)
def test_who_a_row_names(title: str, text: str, question: str, is_one: bool) -> None:
    assert names_somebody(title, text, question) is is_one
