"""Which names may replace a phrase, judged by how they are written."""

import re

from wye.featurizer.feature import words

_WORD = re.compile(r"\w+")
_ARTICLES = ("the", "a", "an")
_MONTHS = words(
    "january february march april may june july august september october november december jan "
    "feb mar apr jun jul aug sep sept oct nov dec"
)
_DAYS = words("monday tuesday wednesday thursday friday saturday sunday")
_SPANS = words("century centuries decade decades year years month months day days week weeks")
_DATE_WORDS = (
    _MONTHS
    | _DAYS
    | _SPANS
    | words(
        "the a an of in on and to from until early late mid around about circa c ca bc ad bce ce"
    )
)
_NUMBERS = words(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety "
    "hundred hundreds thousand thousands million millions billion billions dozen dozens half"
)
_DIGITS = re.compile(r"\d+(?:s|st|nd|rd|th)?")
_CAPITAL = re.compile(r"[^\W\d_][^\W\d_]+")


def fits(name: str, wanted: str) -> bool:
    """Whether a name looks like the wanted type, a key of `plan_nouns.TYPES`, "free" or "".

    "date" takes dates only, "number" and "free" anything, all others neither dates nor quantities.
    """
    if wanted in ("free", "number"):
        return True
    return is_date(name) if wanted == "date" else not (is_date(name) or is_quantity(name))


def is_date(name: str) -> bool:
    """Whether a name is like "May 1865", "the 12th century" or "1990s", not "Euro 2008", "May"."""
    own = _WORD.findall(name.lower())
    numbers = [word for word in own if _DIGITS.fullmatch(word)]
    told = bool(numbers) or not _DAYS.isdisjoint(own) or not _SPANS.isdisjoint(own)
    known = (word in _DATE_WORDS or word in _NUMBERS or word in numbers for word in own)
    return told and all(known)


def is_quantity(name: str) -> bool:
    """Whether a name is like "less than seven metres" or "42 km", not "Alpha 7"."""
    own = _WORD.findall(name)
    capital = any(word[0].isupper() and _CAPITAL.fullmatch(word) for word in own)
    return not capital and any(word in _NUMBERS or word[0].isdigit() for word in own)


def plain_words(text: str) -> str:
    """The words of a text in lower case, without a leading article, for comparing names."""
    found = _WORD.findall(text.lower().replace("'s", ""))
    return " ".join(found[1:] if found[:1] and found[0] in _ARTICLES else found)
