"""Names in a text, by their capitals, without a parser."""

import re
from functools import lru_cache
from typing import NamedTuple

from wye.backends.lexical import content_terms
from wye.featurizer.feature import words

_MONTH = (
    r"(?:January|February|March|April|May|June|July|August|September|October|November|December"
    r"|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\.?"
)
_DATE = re.compile(
    rf"\b\d{{1,2}}(?:st|nd|rd|th)? (?:of )?{_MONTH},? \d{{3,4}}\b|\b{_MONTH} \d{{1,2}}"
    rf"(?:st|nd|rd|th)?,? \d{{4}}\b|\b{_MONTH},? \d{{4}}\b|\b\d{{1,2}} {_MONTH}\b"
    rf"|\b{_MONTH} \d{{1,2}}\b|\b(?:early |late |mid[- ])?1?\d{{3}}s\b|\b\d{{1,2}}(?:st|nd|rd|th)"
    r" century(?: (?:BC|AD|BCE|CE))?\b|\b\d{1,4} (?:BC|AD|BCE|CE)\b|\b(?:AD )?[12]\d{3}\b"
)
_TOKEN = re.compile(r"[^\W_]+(?:[.'’&-][^\W_]+)*\.?|[^\w\s]")  # noqa: RUF001
_JOINTS = words("of de la le du van von der den and & bin ibn al el da di do dos das y e")
_INITIAL = re.compile(r"(?:[A-Z]\.)+|[A-Z]|(?:Dr|Mr|Mrs|Ms|St|Jr|Sr|Lt|Col|Gen|Capt)\.")
_LONGEST = 8
"""Most words of a name."""


class _Token(NamedTuple):
    """A word or punctuation mark; `is_function` if it has no content term."""

    text: str
    start: int
    end: int
    is_function: bool

    @property
    def is_capital(self) -> bool:
        return self.text[0].isupper() or (self.text[0].isdigit() and len(self.text) < 3)


def names_in(text: str) -> list[str]:
    """Runs of capitalised words, which "of", "de" and the like may join, in their order.

    Dates are not names. One with "and" is followed by its halves, which may be two names.
    """
    dated = bytearray(len(text))  # 1 for each character of a date
    for match in _DATE.finditer(text):
        dated[match.start() : match.end()] = b"\1" * len(match[0])
    tokens = [
        token._replace(text=",") if 1 in dated[token.start : token.end] else token
        for token in _tokens(text)
    ]
    names: list[str] = []
    at = 0
    while at < len(tokens):
        end = _end_of_name(tokens, at)
        if end > at:
            spans = [(at, end)]
            joint = next((n for n in range(at, end) if tokens[n].text in ("and", "of")), None)
            if joint is not None and tokens[joint].text == "and":
                spans += [(at, joint), (joint + 1, end)]
            names += [text[tokens[a].start : tokens[b - 1].end] for a, b in spans]
        at = max(end, at + 1)
    return names


def _end_of_name(tokens: list[_Token], at: int) -> int:
    """Index after the last token of the name that begins at `at`; `at` if none does."""
    if not tokens[at].is_capital or tokens[at].is_function:
        return at
    end = at + 1
    while end < len(tokens) and end - at < _LONGEST:
        token = tokens[end]
        if token.is_capital and not (token.is_function and len(token.text) > 3):
            end += 1
        elif token.text in _JOINTS and end + 1 < len(tokens) and tokens[end + 1].is_capital:
            end += 2
        else:
            break
    return end


@lru_cache(maxsize=20_000)
def _is_function(word: str) -> bool:
    return not content_terms(word)


def _tokens(text: str) -> list[_Token]:
    tokens = []
    for match in _TOKEN.finditer(text):
        word, end = match[0], match.end()
        if len(word) > 1 and word.endswith(".") and not _INITIAL.fullmatch(word):
            word, end = word[:-1], end - 1
        tokens.append(_Token(word, match.start(), end, _is_function(word)))
    return tokens
