"""How much of a question the first passages of a ranking hold: its words, and names it knows."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WordCoverage:
    """A content word of a question among the first passages.

    Attributes:
        term: As the lexical arm reads it.
        weight: Its inverse document frequency.
        titles: Bit i is set where it stands in the title of passage i.
        texts: Bit i is set where it stands in the title or the text of passage i.
    """

    term: str
    weight: float
    titles: int
    texts: int


@dataclass(frozen=True, slots=True)
class NameCoverage:
    """An entity that a question's words name, among the first passages.

    Attributes:
        mention: As the question has it.
        value: How sure it is that the name is meant, above 0 and at most 1.
        degree: How many passages mention it, of those that take part.
        titled: How many of them have it for a title.
        titles: Bit i is set where it is the title of passage i.
        texts: Bit i is set where passage i mentions it.
    """

    mention: str
    value: float
    degree: int
    titled: int
    titles: int
    texts: int


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the first passages of the text arms' ranking hold of a question; no parse is needed.

    Attributes:
        scores: Of the first passages, falling.
        words: The question's content words, repeats kept.
        names: Entities that its words name.
    """

    scores: tuple[float, ...] = ()
    words: tuple[WordCoverage, ...] = ()
    names: tuple[NameCoverage, ...] = ()


def bits(flags: list[bool]) -> int:
    """A number whose bit i is flag i."""
    return sum(1 << place for place, flag in enumerate(flags) if flag)
