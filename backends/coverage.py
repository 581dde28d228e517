"""Which words and known names of a question occur in the first passages of a ranking."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WordCoverage:
    """Where a content word of a question occurs in the first passages.

    Attributes:
        term: The word as the lexical arm's term.
        weight: Its inverse document frequency.
        titles: Bit i is set if it occurs in the title of passage i.
        texts: Bit i is set if it occurs in the title or the text of passage i.
    """

    term: str
    weight: float
    titles: int
    texts: int


@dataclass(frozen=True, slots=True)
class NameCoverage:
    """Where an entity that a question's words name occurs in the first passages.

    Attributes:
        mention: The name as written in the question.
        value: Confidence that the entity is meant, above 0 and at most 1.
        degree: How many allowed passages mention it.
        titled: How many of these have it as their title.
        titles: Bit i is set if it is the title of passage i.
        texts: Bit i is set if passage i mentions it.
    """

    mention: str
    value: float
    degree: int
    titled: int
    titles: int
    texts: int


@dataclass(frozen=True, slots=True)
class Coverage:
    """Which words and names of a question the text arms' first passages have; needs no parse.

    Attributes:
        scores: Scores of the first passages, descending.
        words: The question's content words, repeats kept.
        names: Entities that its words name.
    """

    scores: tuple[float, ...] = ()
    words: tuple[WordCoverage, ...] = ()
    names: tuple[NameCoverage, ...] = ()


def bits(flags: Iterable[bool]) -> int:
    """A number whose bit i is flag i."""
    found = 0
    for place, flag in enumerate(flags):
        if flag:
            found |= 1 << place
    return found
