"""The plan of a question: which descriptions in it to resolve first, innermost first.

"Who leads the country where the composer of Finlandia was born?" has two: "the composer of
Finlandia", and around it "the country where … was born". A name found for the inner one replaces
it, and the question has one hop less. Questions that compare, or ask what two things have in
common, have parallel parts. The plan is derived from the constituency tree, or from a tree built
from the dependencies, which needs no further model.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

from wye.featurizer.plan_dependencies import dependency_tree
from wye.featurizer.plan_nouns import MAKERS, OFFICES
from wye.featurizer.plan_parts import parts
from wye.featurizer.plan_phrases import ParsedSentence, Phrase, descriptions
from wye.featurizer.spacy.parser import token_count
from wye.featurizer.types import Span, Token

LEVELS = 3
STEPS = 6
LONG = 14

_FIRST = re.compile(r"\W*\w+(?:['\N{RIGHT SINGLE QUOTATION MARK}]s)?")
_LINK = re.compile(
    r"\b(?:of|for|in|at|behind|to|from|on|by|with|after|before|during|between|and|or|both|than|"
    r"who|whom|whose|that|which|where|when|\w{3,}ing)\b|['\N{RIGHT SINGLE QUOTATION MARK},]|"
    rf"\b(?:{'|'.join(sorted(OFFICES | MAKERS))})\b(?! of\b)"
)
"""Words that link a description to what it describes."""
_ASKS_FOR_ALL = re.compile(r"\W*(?:who|what)(?:'s| is| was| are| were) ")
"""The beginning of a question that asks for the whole rest: "What is the capital of …?"."""
_OR = re.compile(r",? or (?:the |an? )?", re.IGNORECASE)
_ARTICLE = re.compile(r"\b(?:the|an?) $", re.IGNORECASE)
_DESCRIBED = r"(?:the|an?) (?:[\w'-]+ ){1,3}?(?:of|where|which|whose|whom|who|that|by|for)\b"
_NESTED = re.compile(rf"\b{_DESCRIBED}(?: \w+)? {_DESCRIBED}", re.IGNORECASE)


def may_have_plan(question: str) -> bool:
    """Whether a question may have a plan, judged by its words without a parse.

    It was True for all of some thousand questions that have a plan.
    """
    text = question.lower()
    if token_count(text) >= LONG:
        return True
    first = _FIRST.match(text)
    links = len(_LINK.findall(text, first.end() if first else 0))
    return links > bool(_ASKS_FOR_ALL.match(text))


def is_nested(question: str) -> bool:
    """Whether a description stands in another one, as in "the employer of the inventor of …".

    It is judged by words without a parse.
    """
    return _NESTED.search(question) is not None


@dataclass(frozen=True, slots=True)
class Step:
    """A phrase of a question that can be resolved by itself.

    Attributes:
        span: Character offsets of the phrase in the question.
        kind: "bridge", a description by a preposition or a clause; "possessive"; "comparison" or
            "intersection", one of several parallel parts.
        wanted: The type of its answer: a key of `plan_nouns.TYPES`, or "free".
        named: Whether it is a name already, which needs no replacement.
        inside: Steps within its phrase, in order.
    """

    span: Span
    kind: str
    wanted: str
    named: bool = False
    inside: tuple["Step", ...] = ()

    @property
    def level(self) -> int:
        """Levels of nesting from the innermost step to this one, at least 1."""
        return 1 + max((step.level for step in self.inside), default=0)


@dataclass(frozen=True, slots=True)
class Plan:
    """The outermost steps of a question, in order; none if there is nothing to resolve.

    There are at most `STEPS` in all, in at most `LEVELS` levels.

    Attributes:
        open: Whether a question of `LONG` tokens or more has no step: it describes something
            without a name, and a search for the whole question finds that.
    """

    steps: tuple[Step, ...] = ()
    open: bool = False

    def levels(self) -> tuple[tuple[Step, ...], ...]:
        """All steps by level, the innermost first."""
        found = sorted(walk(self.steps), key=lambda step: (step.level, step.span))
        return tuple(tuple(group) for _, group in groupby(found, key=lambda step: step.level))


def walk(steps: Sequence[Step]) -> Iterator[Step]:
    """All steps, including those inside others, outer before inner."""
    for step in steps:
        yield step
        yield from walk(step.inside)


def filled(question: str, puts: Iterable[tuple[Span, str]], span: Span) -> str:
    """A span of a question with replaced phrases, which are in order and do not overlap."""
    text, place = "", span[0]
    for (start, end), words in puts:
        text += question[place:start] + words
        place = end
    return text + question[place : span[1]]


def plan_by_dependencies(tokens: Sequence[Token], sentences: Sequence[Span]) -> Plan:
    """The plan of a question by its dependencies, without constituency trees.

    Args:
        sentences: Token range (start, end) of each sentence.
    """
    own = ((tokens[start:end], start) for start, end in sentences)
    return _plan(ParsedSentence(part, dependency_tree(part, start)) for part, start in own)


def with_names(plan: Plan, question: str, names: Sequence[Span]) -> Plan:
    """The plan with its phrases fitted to known names, which a parser may cut.

    In "Which is older, Kingdom in the Clouds or The Witch's Curse?" it may find "Kingdom" and "The
    Witch". A phrase grows by a name that it cuts, and is dropped where it is part of one. Two names
    with "or" between them are compared.

    Args:
        names: Spans of the names, in order, without overlaps.
    """
    names = [(start, _closed(question, start, end)) for start, end in names]
    steps = [fitted for step in plan.steps if (fitted := _fitted(step, names))]
    for pair in pairwise(names):
        if not _OR.fullmatch(question[pair[0][1] : pair[1][0]]) or _compares(steps, pair):
            continue
        spans = [(_with_article(question, start), end) for start, end in pair]
        wanted = next((step.wanted for step in steps if step.kind == "comparison"), "free")
        beside = spans[0][0], spans[1][1]
        steps = [
            *(s for s in steps if s.kind != "comparison" and not _overlap(s.span, beside)),
            *(Step(span, "comparison", wanted, named=True) for span in spans),
        ]
    steps.sort(key=lambda step: step.span)
    return plan if _cross(steps) else Plan(tuple(_bounded(steps)), plan.open and not steps)


def _fitted(step: Step, names: Sequence[Span]) -> Step | None:
    """The step, grown by the names that it cuts; None where it is part of one."""
    (start, end), compared = step.span, step.kind == "comparison"
    for first, last in names:
        within = first <= start and end <= last
        if within and (first, last) != step.span and not compared:
            return None
        if _overlap((first, last), (start, end)):
            start, end = min(start, first), max(end, last)
    inside = tuple(fitted for one in step.inside if (fitted := _fitted(one, names)))
    return replace(step, span=(start, end), inside=inside)


def _compares(steps: Sequence[Step], names: Sequence[Span]) -> bool:
    """Whether each of some names is in a compared part of its own."""
    parts = [step.span for step in steps if step.kind == "comparison"]
    found = [next((p for p in parts if _overlap(name, p)), None) for name in names]
    return None not in found and len({*found}) == len(names)


def _overlap(one: Span, other: Span) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _cross(steps: Sequence[Step]) -> bool:
    """Whether any two steps that stand side by side overlap, at any level."""
    beside = any(_overlap(one.span, other.span) for one, other in pairwise(steps))
    return beside or any(_cross(step.inside) for step in steps)


def _closed(question: str, start: int, end: int) -> int:
    """The end of a name, behind the bracket that it lacks."""
    opened = question.count("(", start, end) > question.count(")", start, end)
    return end + (opened and question[end : end + 1] == ")")


def _with_article(question: str, start: int) -> int:
    """The start of a name, with the article before it."""
    article = _ARTICLE.search(question, 0, start)
    return article.start() if article else start


def _plan(sentences: Iterable[ParsedSentence]) -> Plan:
    steps: list[Step] = []
    tokens = 0
    for sentence in sentences:
        tokens += len(sentence.tokens)
        beside = parts(sentence)
        phrases = [p for p in descriptions(sentence) if not _joins(p, beside)]
        steps += _nested(sentence.tokens, beside, phrases)
    return Plan(tuple(_bounded(steps)), open=not steps and tokens >= LONG)


def _nested(
    tokens: Sequence[Token], parts: Sequence[Phrase], phrases: Sequence[Phrase]
) -> list[Step]:
    """Phrases as nested steps; of two that cross, a parallel part or the shorter one is kept."""
    kept: list[Phrase] = []
    for phrase in (*parts, *sorted(phrases, key=lambda p: (p.end - p.start, p.start))):
        if not any(_crosses(phrase, other) for other in kept):
            kept.append(phrase)
    # Innermost first: a later step takes in the earlier ones within it.
    made: list[tuple[Phrase, Step]] = []
    for phrase in sorted(kept, key=lambda p: (p.end - p.start, p.start)):
        inner = [pair for pair in made if phrase.start <= pair[0].start < phrase.end]
        made = [pair for pair in made if pair not in inner]
        span = tokens[phrase.start].span[0], tokens[phrase.end - 1].span[1]
        inside = tuple(step for _, step in sorted(inner, key=lambda pair: pair[0].start))
        made.append((phrase, Step(span, phrase.kind, phrase.wanted, phrase.named, inside)))
    return [step for _, step in sorted(made, key=lambda pair: pair[0].start)]


def _joins(phrase: Phrase, parts: Sequence[Phrase]) -> bool:
    """Whether a phrase contains all compared parts, as if they were one thing."""
    return len(parts) > 1 and all(
        part.kind == "comparison" and phrase.start <= part.start and part.end <= phrase.end
        for part in parts
    )


def _crosses(one: Phrase, other: Phrase) -> bool:
    """Whether two phrases are equal, or overlap without one containing the other."""
    if (one.start, one.end) == (other.start, other.end):
        return True
    inside = other.start <= one.start and one.end <= other.end
    around = one.start <= other.start and other.end <= one.end
    return one.start < other.end and other.start < one.end and not inside and not around


def _bounded(steps: Sequence[Step]) -> list[Step]:
    """The innermost `LEVELS` levels, and of those the first `STEPS` steps."""
    ordered = sorted(walk(steps), key=lambda step: (step.level, step.span))
    kept = {step for step in ordered[:STEPS] if step.level <= LEVELS}
    # Inner steps come first, so every kept step has all of its inner steps.
    inner = {below for step in kept for below in step.inside}
    return sorted(kept - inner, key=lambda step: step.span)
