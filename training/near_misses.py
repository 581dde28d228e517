"""Questions that a corpus cannot answer although it knows the name in them.

A pattern is a judged question without its name, such as "Who founded …?", with those of its other
words that stand in its relevant passages. A name of another question takes the place of the one
that was there. The new question has no answer if no passage that has the name has any of these
words. Nothing is drawn by chance: the order of names and patterns is that of a hash.
"""

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from wye.backends.text import content_terms
from wye.router.answers import names_in

_Value = TypeVar("_Value", str, "Pattern")
TRIES = 60
"""Names or patterns that are tried for each question."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A question with a gap where its name was.

    Attributes:
        before: The text before the gap.
        after: The text after it.
        name: The name that was there.
        others: Content terms of all its names.
        attributes: Its other content terms that its relevant passages have; never empty.
    """

    before: str
    after: str
    name: str
    others: frozenset[str]
    attributes: frozenset[str]

    def __str__(self) -> str:
        return self.with_name("…")  # the same in every run, which the order of a set is not

    def with_name(self, name: str) -> str:
        """The question about something else."""
        return f"{self.before}{name}{self.after}"


def pattern_of(question: str, passages: Iterable[tuple[str, str]]) -> Pattern | None:
    """The pattern of a question; None if its relevant passages have no name or other word of it.

    Args:
        passages: Titles and texts of its relevant passages.
    """
    whole = "\n".join(f"{title}\n{text}" for title, text in passages)
    names = names_in(question)
    name = next((name for name in names if name in whole and content_terms(name)), None)
    if name is None:
        return None
    others = frozenset(content_terms(" ".join(names)))
    attributes = frozenset(content_terms(question)) - others
    before, _, after = question.partition(name)
    pattern = Pattern(before, after, name, others, attributes & frozenset(content_terms(whole)))
    return pattern if pattern.attributes else None


def near_misses(
    patterns: Sequence[Pattern],
    foreign: Sequence[Pattern],
    passages: Iterable[tuple[str, str]],
) -> list[str]:
    """Questions about the names of some patterns that no passage answers.

    Each pattern gives at most two: it takes the name of another, and its name goes into one of the
    patterns of other corpora.

    Args:
        patterns: Those of questions that the corpus answers.
        foreign: Those of questions about other corpora.
        passages: Titles and texts of all passages of the corpus.
    """
    terms = [frozenset(content_terms(f"{title}\n{text}")) for title, text in passages]
    rows: dict[str, set[int]] = {}
    for row, of_passage in enumerate(terms):
        for term in of_passage:
            rows.setdefault(term, set()).add(row)

    def is_near_miss(pattern: Pattern, name: str) -> bool:
        of_name = frozenset(content_terms(name))
        if of_name & (pattern.others | pattern.attributes):
            return False
        having = set[int].intersection(*(rows.get(term, set()) for term in of_name))
        return bool(having) and not any(pattern.attributes & terms[row] for row in having)

    questions: dict[str, None] = {}
    names = sorted({pattern.name for pattern in patterns})
    for pattern in patterns:
        own = ((pattern, name) for name in _shuffled(names, pattern.before))
        other = ((one, pattern.name) for one in _shuffled(foreign, pattern.name))
        for pairs in (own, other):
            fits = (pair for pair in islice(pairs, TRIES) if is_near_miss(*pair))
            questions.update((one.with_name(name), None) for one, name in islice(fits, 1))
    return [*questions]


def _shuffled(values: Sequence[_Value], seed: str) -> list[_Value]:
    return sorted(values, key=lambda value: zlib.crc32(f"{seed}\n{value}".encode()))
