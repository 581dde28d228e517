"""Whether passages have what a question asks for: an amount, a size, an age, somebody's name.

"How much does the crane cost?" is hardly answered by passages about the crane without an amount.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from wye.backends.notations import notations
from wye.backends.text import cells_of, folded_words

_WHO = re.compile(r"\bwho(?:m|se)?\b", re.IGNORECASE)
_FULL_NAME = re.compile(r"[^\W\d_a-z][\w'\u2019-]+(?: [^\W\d_a-z][\w'\u2019.-]*)+")
_OTHER = re.compile(r"\b(?:who|whose|whom|why|where|when)\b", re.IGNORECASE)
_KEY = re.compile(r"[\d.]+([a-z]+)|(\+)\d+")


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of value.

    Attributes:
        question: Finds what asks for one.
        units: Units of numbers that are one, as notations have them; "+" is a telephone's.
        words: Words beside which numbers are.
    """

    question: re.Pattern[str]
    units: frozenset[str]
    words: frozenset[str]


def _kind(question: str, units: str, words: str) -> _Kind:
    pattern = re.compile(rf"\b(?:{question})\b", re.IGNORECASE)
    return _Kind(pattern, frozenset(units.split()), frozenset(words.split()))


_LENGTHS = "mm cm m km"
_OF_LENGTHS = "depth feet foot ft height inch inches length metres meters miles width yards"
_TIMES = "age aged born built day days founded hour hours month months old since until week weeks"
_YEARS = "year years"
_KINDS = (
    _kind("how (?:tall|deep|wide)|height", _LENGTHS, _OF_LENGTHS),
    _kind("how long", f"{_LENGTHS} h min sec", f"{_OF_LENGTHS} {_TIMES} {_YEARS} minutes seconds"),
    _kind("how old", "", f"{_TIMES} {_YEARS}"),
    _kind("how heavy|weighs?|weight", "kg g", "lb lbs pounds stone t tonnes tons weighs weight"),
    _kind("litres|liters", "l ml", "litres liters"),
    _kind(
        "(?:tele)?phone|extension|mobile",
        "+",
        "call dial ext extension mobile number phone ring tel telephone",
    ),
    _kind(
        "costs?|prices?|priced|pay|paid|premium|salary|wages?|earns?|rent|fees?|how much money|"
        "how much (?:is|was|are|were|does|did|do|will)",
        "eur usd gbp percent",
        "amount amounts budget charge chf cost costs dkk fee fees free kr nok paid pay pence pln "
        "premium price prices quid rate rent salary sek sum total wage wages",
    ),
)


def lacks_value(question: str, texts: Iterable[str]) -> bool:
    """Whether a question asks for a kind of value that none of some texts has.

    False for a question for anything else, such as a person or a day.
    """
    if _OTHER.search(question):
        return False
    kind = next((kind for kind in _KINDS if kind.question.search(question)), None)
    return kind is not None and not any(_has_value(kind, text) for text in texts)


def _has_value(kind: _Kind, text: str) -> bool:
    keys = map(_KEY.fullmatch, notations(text))
    units = {key[1] or key[2] for key in keys if key}
    has_word = any(map(str.isdigit, text)) and not kind.words.isdisjoint(folded_words(text))
    return has_word or not kind.units.isdisjoint(units)


def names_somebody(title: str, text: str, question: str) -> bool:
    """Whether a question asks who, and a row's title or cell is a full name that it does not have.

    Args:
        text: Of the row.
    """
    values = [title, *(value for _, value in cells_of(text))]
    names = [value for value in values if _FULL_NAME.fullmatch(value)]
    return bool(_WHO.search(question)) and any(name not in question for name in names)
