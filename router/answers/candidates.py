"""Finds candidates for a short answer: the dates, numbers, names and phrases of a sentence."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from backends.lexical import content_terms
from featurizer.feature import words

DATE, NUMBER, NAME, PHRASE = "date", "number", "name", "phrase"
_MONTH = (
    r"(?:January|February|March|April|May|June|July|August|September|October|November|December"
    r"|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\.?"
)
_DATE = re.compile(
    rf"\b\d{{1,2}}(?:st|nd|rd|th)? (?:of )?{_MONTH},? \d{{3,4}}\b|\b{_MONTH} \d{{1,2}}"
    rf"(?:st|nd|rd|th)?,? \d{{4}}\b|\b{_MONTH},? \d{{4}}\b|\b\d{{1,2}} {_MONTH}\b"
    rf"|\b{_MONTH} \d{{1,2}}\b|\b(?:early |late |mid[- ])?1?\d{{3}}s\b|\b\d{{1,2}}(?:st|nd|rd|th)"
    r" century(?: (?:BC|AD|BCE|CE))?\b|\b\d{1,4} (?:BC|AD|BCE|CE)\b|\b(?:AD )?[12]\d{3}\b"
    r"|(?<![\w.,$])[1-9]\d{2}\b(?![.,]\d)"
)
_DIGIT = re.compile(r"\d")
_NUMBER = re.compile(
    r"(?<![\w.,$])[$€£]?\d+(?:[.,]\d+)*(?:%| ?(?:percent|million|billion|km|m|miles|feet|meters"
    r"|metres|kg|years))?(?!\w)|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|"
    r"twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen|twenty|thirty|forty|"
    r"fifty|sixty|seventy|eighty|ninety|hundred)(?:-\w+)?\b",
    re.IGNORECASE,
)
_TOKEN = re.compile(r"[^\W_]+(?:[.'’&-][^\W_]+)*\.?|[^\w\s]")  # noqa: RUF001
_JOINTS = words("of the de la le du van von der den and & bin ibn al el da di do dos das y e")
_INITIAL = re.compile(r"(?:[A-Z]\.)+|[A-Z]|(?:Dr|Mr|Mrs|Ms|St|Jr|Sr|Lt|Col|Gen|Capt)\.")
_LONGEST = 8
_LONGEST_PHRASE = 4


class AnswerToken(NamedTuple):
    """A word or punctuation mark of a sentence, with its character offsets.

    Attributes:
        function: Whether it has no content term.
    """

    text: str
    start: int
    end: int
    function: bool


class AnswerCandidate(NamedTuple):
    """A span of a sentence.

    Attributes:
        kind: "date", "number", "name" or "phrase".
        start: Character offset in the sentence.
        first: Index of its first token.
        last: Index after its last token.
    """

    text: str
    kind: str
    start: int
    first: int
    last: int


@lru_cache(maxsize=20_000)
def _is_function(word: str) -> bool:
    return not content_terms(word)


def tokens_of(sentence: str) -> list[AnswerToken]:
    """The words and punctuation marks of a sentence."""
    found = []
    for match in _TOKEN.finditer(sentence):
        text, end = match[0], match.end()
        if len(text) > 1 and text.endswith(".") and not _INITIAL.fullmatch(text):
            text, end = text[:-1], end - 1
        found.append(AnswerToken(text, match.start(), end, _is_function(text)))
    return found


def candidates(sentence: str, tokens: list[AnswerToken]) -> list[AnswerCandidate]:
    """All candidates of a sentence: dates and numbers, then names and phrases."""
    starts, ends = [token.start for token in tokens], [token.end for token in tokens]

    def within(start: int, end: int) -> tuple[int, int]:
        first = bisect_right(ends, start)
        return first, max(bisect_left(starts, end), first + 1)

    found = []
    taken = bytearray(len(sentence))  # 1 for each character of a date or number
    # A date has a digit; without one, skip its pattern, which is the slowest.
    patterns = ((DATE, _DATE), (NUMBER, _NUMBER))[not _DIGIT.search(sentence) :]
    for kind, pattern in patterns:
        for match in pattern.finditer(sentence):
            start, end = match.span()
            if 1 not in taken[start:end]:
                taken[start:end] = b"\1" * (end - start)
                found.append(AnswerCandidate(match[0], kind, start, *within(start, end)))
    dated = [False] * len(tokens)
    for one in found:
        for place in range(one.first, min(one.last, len(tokens))):
            dated[place] = one.kind == DATE
    found += _spans(sentence, tokens, dated)
    return found


def _spans(
    sentence: str, tokens: list[AnswerToken], dated: list[bool]
) -> Iterator[AnswerCandidate]:
    """Names, which are capitalised, and phrases of words in lower case."""
    place, size = 0, len(tokens)
    while place < size:
        token = tokens[place]
        if dated[place] or not token.text[0].isalnum() or (token.function and not _named(token)):
            place += 1
            continue
        end = place + 1
        if _named(token) and not token.function:
            while end < size and end - place < _LONGEST and not dated[end]:
                if _named(tokens[end]) and not (tokens[end].function and len(tokens[end].text) > 3):
                    end += 1
                elif (
                    tokens[end].text in _JOINTS
                    and end + 1 < size
                    and _named(tokens[end + 1])
                    and not dated[end + 1]
                ):
                    end += 2
                else:
                    break
            yield _made(sentence, tokens, NAME, place, end)
            joint = next((p for p in range(place, end) if tokens[p].text in ("and", "of")), None)
            if joint is not None and tokens[joint].text == "and":
                yield _made(sentence, tokens, NAME, place, joint)
                yield _made(sentence, tokens, NAME, joint + 1, end)
        elif not _named(token) and not token.function and token.text[0].isalpha():
            while (
                end < size
                and end - place < _LONGEST_PHRASE
                and not tokens[end].function
                and not _named(tokens[end])
                and not dated[end]
                and tokens[end].text[0].isalnum()
            ):
                end += 1
            yield _made(sentence, tokens, PHRASE, place, end)
            if end - place > 2:
                yield _made(sentence, tokens, PHRASE, end - 2, end)
            if end - place > 1:
                yield _made(sentence, tokens, PHRASE, end - 1, end)
        place = end


def _named(token: AnswerToken) -> bool:
    return token.text[0].isupper() or (token.text[0].isdigit() and len(token.text) < 3)


def _made(
    sentence: str, tokens: list[AnswerToken], kind: str, first: int, last: int
) -> AnswerCandidate:
    start, end = tokens[first].start, tokens[last - 1].end
    return AnswerCandidate(sentence[start:end], kind, start, first, last)
