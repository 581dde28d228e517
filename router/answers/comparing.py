"""Answers questions that compare two things, by a date or by their countries."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

from router.answers.countries import COUNTRIES
from router.answers.expected import YES_NO, Expected
from router.answers.sentences import sentences_of
from router.answers.titles import head, plain

Moment = tuple[int, int, int]
"""Year, month and day; 0 if not known."""

_WORD = re.compile(r"\w+")
# "1900May 5": some texts lack the dash between two dates.
_YEAR = re.compile(r"(?<!\d)(1\d{3}|20\d{2}|[3-9]\d{2}(?!\d))")
# The time of these is linear in the text: a lookahead is not tried again, and where no year follows
# "born", all up to the end of the clause matches without one.
_LIFE = re.compile(r"\((?=([^()]*)\))[^()]*?\d{3}")
_DASH = re.compile(r"[–—-]|(?<=\d{4})(?=[A-Z\d])")  # noqa: RUF001
_CLAUSE = r"(?:[^.;)]*?(?<!\d)(1\d{3}|20\d{2})|[^.;)]*)"
_BORN = re.compile(rf"\bborn\b{_CLAUSE}", re.IGNORECASE)
_DIED = re.compile(rf"\b(?:died|death)\b{_CLAUSE}", re.IGNORECASE)
_MONTHS = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
_EARLIER = re.compile(r"\b(?:first|earlier|older|oldest|before|earliest|eldest)\b", re.IGNORECASE)
_LATER = re.compile(
    r"\b(?:later|last|latest|younger|youngest|recent|recently|newer|after)\b", re.IGNORECASE
)
_AGE = re.compile(r"\b(?:younger|youngest|older|oldest|elder|eldest|born)\b", re.IGNORECASE)
_DEATH = re.compile(r"\b(?:died|dies|die|death)\b", re.IGNORECASE)
_SAME = re.compile(
    r"\bsame (?:nationality|country|countries)|(?:from|in) the same country", re.IGNORECASE
)
_MAKER = re.compile(
    r"\b(director|performer|composer|author|writer|singer|producer)s?\b", re.IGNORECASE
)
# Role -> the word before the person's name in a passage about a work.
_MADE = {
    "director": "directed",
    "performer": "by",
    "singer": "by",
    "composer": "composed",
    "author": "written",
    "writer": "written",
    "producer": "produced",
}
# Characters before a year that are searched for its day and month; penalty of a name without cue.
_BEFORE = 20
_FAR = 5_000
_ARTICLES = ("", "the ")
# How many places a question is split at: each is compared with all titles.
_SPLITS = 20


@dataclass(frozen=True, slots=True)
class Fact:
    """What was found about one of the two things.

    Attributes:
        name: Its name as the question writes it.
        passage: Index of the passage with the fact, from 0.
        sentence: The sentence with the fact.
        value: What is compared: a date, or countries.
    """

    name: str
    passage: int
    sentence: str
    value: Moment | frozenset[str]


@dataclass(frozen=True, slots=True)
class ComparedAnswer:
    """An answer by comparison, with the two facts behind it."""

    answer: str
    facts: tuple[Fact, Fact]


@dataclass(frozen=True, slots=True)
class _Named:
    """One of the two things as the question writes it, and the index of its passage."""

    name: str
    passage: int


def compare(
    question: str, asked: Expected, passages: Sequence[tuple[str, str]]
) -> ComparedAnswer | None:
    """Answer a question that compares two things; None if too little is known about them.

    Args:
        passages: Title and text of each, best first.
    """
    two = _two(question, [title for title, _ in passages])
    if two is None:
        return None
    rest = question
    for one in two:
        rest = rest.replace(one.name, " ")
    if maker := _MAKER.search(rest):
        made_by = [_maker(passages, one.passage, maker[1].lower()) for one in two]
        two = _Named(two[0].name, made_by[0]), _Named(two[1].name, made_by[1])
    if any(one.passage < 0 for one in two):
        return None
    if asked.form == YES_NO:
        return _same_country(two, passages) if _SAME.search(rest) else None
    return _by_date(two, passages, rest, made=maker is not None)


def _same_country(
    two: tuple[_Named, _Named], passages: Sequence[tuple[str, str]]
) -> ComparedAnswer | None:
    one, other = (_countries(each, passages[each.passage][1]) for each in two)
    if one is None or other is None:
        return None
    shared = frozenset(COUNTRIES.values()).intersection(*(fact.value for fact in (one, other)))
    return ComparedAnswer("yes" if shared else "no", (one, other))


def _by_date(
    two: tuple[_Named, _Named], passages: Sequence[tuple[str, str]], rest: str, *, made: bool
) -> ComparedAnswer | None:
    """The earlier or later of the two, by their dates or, if made, by the dates of their makers."""
    early, late = _EARLIER.search(rest), _LATER.search(rest)
    lives = "born" if made or _AGE.search(rest) else ""
    told = "died" if _DEATH.search(rest) else lives
    one, other = (_dated(each, passages[each.passage][1], told) for each in two)
    if told == "born" and one is None and other is None:  # what is older need not be alive
        one, other = (_dated(each, passages[each.passage][1], "") for each in two)
    if one is None or other is None or one.value == other.value or not (early or late):
        return None
    is_late = late is not None and not (early and early.start() > late.start())
    first, last = sorted((one, other), key=lambda fact: [*fact.value])
    return ComparedAnswer((last if is_late else first).name, (one, other))


def _two(question: str, titles: Sequence[str]) -> tuple[_Named, _Named] | None:
    """The two titles around an "or" or "and", with the longest names if there are several pairs."""
    text = question.rstrip(" ?")
    heads = [
        {
            name.removeprefix(article)
            for name in (head(title), plain(title))
            for article in _ARTICLES
        }
        - {""}
        for title in titles
    ]
    found: dict[int, tuple[_Named, _Named]] = {}
    for split in islice(re.finditer(r"\s(?:or|and)\s", text), _SPLITS):
        left, right = text[: split.start()].rstrip(" ,"), text[split.end() :]
        first, second = _at_end(left, heads), _at_start(right, heads)
        if second is None and right.lower().startswith("the "):
            second = _at_start(right[4:], heads)
        if first and second and first.passage != second.passage:
            found.setdefault(len(first.name) + len(second.name), (first, second))
    return found[max(found)] if found else None


def _at_end(text: str, heads: Sequence[set[str]]) -> _Named | None:
    """The longest title that a text ends with."""
    own = f" {plain(text)}"
    count, place = _longest(heads, lambda name: own.endswith(f" {name}"))
    if not count:
        return None
    start = [*_WORD.finditer(text)][-count].start()
    if start and text[start - 1] in "\"'“(":
        start -= 1
    return _Named(text[start:].strip(), place)


def _at_start(text: str, heads: Sequence[set[str]]) -> _Named | None:
    """The longest title that a text begins with."""
    own = f"{plain(text)} "
    count, place = _longest(heads, lambda name: own.startswith(f"{name} "))
    if not count:
        return None
    words = [*_WORD.finditer(text)]
    end = len(text) if count == len(words) else words[count - 1].end()
    if text[end : end + 1] in tuple(")!\"'”"):
        end += 1
    return _Named(text[:end].strip(), place)


def _longest(heads: Sequence[set[str]], is_there: Callable[[str], bool]) -> tuple[int, int]:
    """Number of words and passage of the longest title that is there; 0 words if none is."""
    known = [(len(name), -n, name) for n, own in enumerate(heads) for name in own if is_there(name)]
    _, place, name = max(known, default=(0, 0, ""))
    return len(name.split()), -place


def _maker(passages: Sequence[tuple[str, str]], place: int, role: str) -> int:
    """Index of the passage about the maker of a passage's subject; -1 if there is none."""
    own, cue = f" {plain(passages[place][1])} ", f" {_MADE[role]} "
    found = []
    for other, (title, _) in enumerate(passages):
        name = head(title)
        at = own.find(f" {name} ") if name and other != place else -1
        if at >= 0:
            before = own.rfind(cue, 0, at + 1)
            found.append((at - before if before >= 0 else _FAR + at, other))
    return min(found, default=(0, -1))[1]


def _dated(one: _Named, body: str, told: str) -> Fact | None:
    """The first date in a passage: of birth ("born"), of death ("died") or any ("")."""
    for sentence in sentences_of(body):
        moment = _moment(sentence, _YEAR.search(sentence)) if not told else _life(sentence, told)
        if moment:
            return Fact(one.name, one.passage, sentence, moment)
    return None


def _life(sentence: str, told: str) -> Moment | None:
    """A date of birth or death, from brackets after the name, else from words such as "born"."""
    brackets = _LIFE.search(sentence)
    parts = _DASH.split(brackets[1]) if brackets else []
    if parts and told == "born" and (moment := _moment(parts[0], _YEAR.search(parts[0]))):
        return moment
    if len(parts) > 1 and told == "died":
        years = [*_YEAR.finditer(parts[-1])]
        if years:
            return _moment(parts[-1], years[-1])
    found = (_BORN if told == "born" else _DIED).finditer(sentence)
    year = next((match[1] for match in found if match[1]), None)
    return (int(year), 0, 0) if year else None


def _moment(text: str, year: re.Match[str] | None) -> Moment | None:
    """The date that ends with a year, "5 May 1900" or "May 5, 1900"."""
    if year is None:
        return None
    month = day = 0
    for word in _WORD.findall(text[max(0, year.start() - _BEFORE) : year.start()].lower()):
        if word in _MONTHS:
            month = _MONTHS.index(word) + 1
        elif word.isdecimal() and len(word) < len("100"):
            day = int(word)
    return int(year[1]), month, day if month else 0


def _countries(one: _Named, body: str) -> Fact | None:
    """The countries in the first sentence that has any."""
    for sentence in sentences_of(body):
        words = _WORD.findall(sentence.replace("U.S.", "US"))
        named = (*words, *(f"{first} {second}" for first, second in pairwise(words)))
        lands = (COUNTRIES.get(word.lower()) for word in named if word[0].isupper())
        if found := frozenset(land for land in lands if land):
            return Fact(one.name, one.passage, sentence, found)
    return None
