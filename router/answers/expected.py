"""What kind of answer a question asks for, judged by its words."""

import re
from dataclasses import dataclass

from backends.lexical import content_terms
from featurizer.feature import words
from featurizer.plan_nouns import wanted

PERSON, PLACE, DATE, NUMBER, FREE = "person", "place", "date", "number", "free"
YES_NO, CHOICE, OPEN = "yes-no", "choice", "open"

_WORD = re.compile(r"\w+")
_AUXILIARIES = words("is are was were do does did has have had can could will would should")
_ARTICLES = words("the a an his her its their")
_ENDS = words(
    "of is are was were do does did has have had in on for to by from with at that which who "
    "can could will would should be s"
)
# Words of a question -> words that passages use for the same thing.
_TOLD: dict[str, str] = {
    **dict.fromkeys(("birth", "birthplace", "birthday", "birthdate", "born"), "born"),
    **dict.fromkeys(("death", "die", "died", "dead"), "died dying death"),
    **dict.fromkeys(("director", "direct"), "directed"),
    **dict.fromkeys(("author", "writer", "write", "screenwriter", "wrote"), "written wrote writer"),
    **dict.fromkeys(("composer", "compose"), "composed music"),
    **dict.fromkeys(("producer", "produce"), "produced"),
    **dict.fromkeys(("founder", "found", "established", "start"), "founded established"),
    **dict.fromkeys(("sing", "sang", "performer", "singer", "sung"), "recorded performed by sung"),
    **dict.fromkeys(("play", "played", "portray"), "played portrayed role as starring voiced"),
    **dict.fromkeys(("father", "mother", "parent"), "son daughter child"),
    **dict.fromkeys(("grandfather", "grandmother"), "son daughter child grandson"),
    **dict.fromkeys(("child", "son", "daughter"), "son daughter child father mother"),
    **dict.fromkeys(("husband", "wife", "spouse"), "married husband wife widow"),
    **dict.fromkeys(("sibling", "brother", "sister"), "brother sister"),
    **dict.fromkeys(("graduate", "educated", "study", "education"), "graduated educated studied"),
    **dict.fromkeys(("burial", "buried"), "buried"),
    **dict.fromkeys(("located", "location"), "in located"),
    **dict.fromkeys(("come", "came", "released", "release", "publication"), "released published"),
    **dict.fromkeys(("award", "prize"), "won received awarded"),
    **dict.fromkeys(("work", "worked", "employer"), "worked works professor"),
}


@dataclass(frozen=True, slots=True)
class Expected:
    """What a question asks for.

    Attributes:
        form: "open", "yes-no", or "choice" between two things that the question names.
        type: Type of the answer, a key of `plan_nouns.TYPES` or "free".
        noun: The noun that is asked for, such as "occupation", in lower case; "" if there is none.
        terms: Content terms of the question.
        cues: Words in a passage that may indicate the answer.
        first: Cues of the first word of the question that has any; they indicate the last hop.
        hops: 2 if the words suggest that one fact leads to another, else 1.
        born: Whether the question is about a birth.
        died: Whether the question is about a death.
    """

    form: str
    type: str
    noun: str
    terms: frozenset[str]
    cues: frozenset[str]
    first: frozenset[str]
    hops: int = 1
    born: bool = False
    died: bool = False


def expected(question: str) -> Expected:
    """Read a question in English, with or without capitals and a question mark."""
    lower = [word.lower() for word in _WORD.findall(question)]
    terms = frozenset(content_terms(question))
    type_, noun = _type(lower)
    form = OPEN
    if lower[:1] and lower[0] in _AUXILIARIES:
        form = YES_NO
    elif " or " in question.lower() or "out of" in question.lower() or "between" in lower[:4]:
        form = CHOICE
    cues = frozenset(cue for word in {*lower, *terms} for cue in _TOLD.get(word, "").split())
    grand = any(word.startswith(("grand", "step")) for word in lower) or "law" in lower
    told = [_TOLD.get(word) or _TOLD.get(next(iter(content_terms(word)), "")) for word in lower]
    first = frozenset(next((cue for cue in told if cue), "").split())
    return Expected(
        form,
        type_,
        noun,
        terms,
        cues,
        first,
        min(2, max(1, sum(map(bool, told)) + 2 * grand)),
        born=not {"born", "birth", "birthplace", "birthday", "birthdate"}.isdisjoint(lower),
        died=not {"die", "died", "death", "dies"}.isdisjoint(lower),
    )


def _type(lower: list[str]) -> tuple[str, str]:
    """Type and noun of the answer, from the first question word and the noun after it."""
    asking = ("who", "whom", "whose", "when", "where", "how", "what", "which")
    place = next((place for place, word in enumerate(lower) if word in asking), None)
    if place is None:
        return FREE, ""
    word, rest = lower[place], lower[place + 1 :]
    if word in ("who", "whom", "whose"):
        return PERSON, ""
    if word == "when":
        return DATE, ""
    if word == "where":
        return PLACE, ""
    if word == "how":
        many = rest[:1] and rest[0] in ("many", "much", "old", "long", "tall", "far", "high", "big")
        return (NUMBER, rest[1] if len(rest) > 1 else "") if many else (FREE, "")
    noun = _noun(rest)
    if noun == "s":
        noun = ""
    singular = next(iter(content_terms(noun)), noun)
    return wanted(singular), noun


def _noun(rest: list[str]) -> str:
    """The head of the first phrase: "place" for "is the place of birth", "city" for "city was"."""
    start = 0
    while start < len(rest) and rest[start] in _ENDS | _ARTICLES:
        start += 1
    if not start and rest and wanted(rest[0]) != FREE:
        return rest[0]
    end = start
    while end < len(rest) and rest[end] not in _ENDS:
        end += 1
    # "What is X's occupation?": the noun comes after the possessive.
    if start and end < len(rest) - 1 and rest[end] == "s":
        return rest[-1]
    return rest[end - 1] if end > start else ""
