"""The plan of a question: which descriptions in it have to be resolved first, from the inside out.

"Who leads the country where the composer of Finlandia was born?" holds two: "the composer of
Finlandia", and around it "the country where … was born". What is found for the inner one is put in
its place, and the question has a hop less. Questions that compare, or ask for what two things have
in common, have parts that stand side by side. All of it is read off the constituency tree, or off
one that is made of the dependencies, which takes no further model.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from featurizer.plan_dependencies import dependency_tree
from featurizer.plan_nouns import MAKERS, OFFICES
from featurizer.plan_parts import parts
from featurizer.plan_phrases import ParsedSentence, Phrase, descriptions
from featurizer.spacy_parser import token_count
from featurizer.types import Span, Syntax, Token

LEVELS = 3
STEPS = 6
LONG = 14

_FIRST = re.compile(r"\W*\w+(?:['\N{RIGHT SINGLE QUOTATION MARK}]s)?")
_LINK = re.compile(
    r"\b(?:of|for|in|at|behind|to|from|on|by|with|after|before|during|between|and|or|both|than|"
    r"who|whom|whose|that|which|where|when|\w{3,}ing)\b|['\N{RIGHT SINGLE QUOTATION MARK},]|"
    rf"\b(?:{'|'.join(sorted(OFFICES | MAKERS))})\b(?! of\b)"
)
"""What joins a description to what it describes."""
_ASKS_FOR_ALL = re.compile(r"\W*(?:who|what)(?:'s| is| was| are| were) ")
"""What follows is asked for itself: "What is the capital of …?"."""


def may_have_plan(question: str) -> bool:
    """Whether a question can have a plan, as far as its words say; nothing is parsed.

    Of some thousand questions that have one, none was found of which this says no.
    """
    text = question.lower()
    if token_count(text) >= LONG:
        return True
    first = _FIRST.match(text)
    links = len(_LINK.findall(text, first.end() if first else 0))
    return links > bool(_ASKS_FOR_ALL.match(text))


@dataclass(frozen=True, slots=True)
class Step:
    """A phrase of a question that can be asked for by itself.

    Attributes:
        span: Of its phrase, character offsets in the question.
        kind: "bridge", a description by a preposition or a clause; "possessive"; "comparison" or
            "intersection", a part beside others.
        wanted: The type of what it stands for: a key of `plan_nouns.TYPES`, or "free".
        named: Whether it is a name already, so that nothing needs to be put in its place.
        inside: Steps within its phrase, in order.
    """

    span: Span
    kind: str
    wanted: str
    named: bool = False
    inside: tuple["Step", ...] = ()

    @property
    def level(self) -> int:
        """Steps from the innermost to this one, at least 1."""
        return 1 + max((step.level for step in self.inside), default=0)


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps of a question that are in no other, in order; none where there is nothing to resolve.

    There are at most `STEPS` in all, in at most `LEVELS` levels.

    Attributes:
        open: Whether there is none in a question of `LONG` tokens or more: it describes something
            without a name, and what is found for all of it names what.
    """

    steps: tuple[Step, ...] = ()
    open: bool = False

    def levels(self) -> tuple[tuple[Step, ...], ...]:
        """All steps from the inside out: first those without steps inside."""
        found = sorted(walk(self.steps), key=lambda step: (step.level, step.span))
        return tuple(tuple(group) for _, group in groupby(found, key=lambda step: step.level))


def walk(steps: Sequence[Step]) -> Iterator[Step]:
    """Steps with all that are inside, the outer before the inner."""
    for step in steps:
        yield step
        yield from walk(step.inside)


def filled(question: str, puts: Iterable[tuple[Span, str]], span: Span) -> str:
    """A stretch of a question with other words in places, which are in order and apart."""
    text, place = "", span[0]
    for (start, end), words in puts:
        text += question[place:start] + words
        place = end
    return text + question[place : span[1]]


def plan_of(syntax: Syntax) -> Plan:
    """The plan of a question, a pure function of its tokens and trees.

    Raises:
        ValueError: There are no trees, because nobody asked for them.
    """
    return _plan(
        ParsedSentence(syntax.tokens[start:end], tree)
        for (start, end), tree in zip(syntax.sentences, syntax.trees, strict=True)
    )


def plan_by_dependencies(tokens: Sequence[Token], sentences: Sequence[Span]) -> Plan:
    """The same off the dependencies, for a question without trees.

    Args:
        sentences: Where each sentence begins and ends among the tokens.
    """
    own = ((tokens[start:end], start) for start, end in sentences)
    return _plan(ParsedSentence(part, dependency_tree(part, start)) for part, start in own)


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
    """Phrases as steps within each other; of two that cross, a part or the shorter one stays."""
    kept: list[Phrase] = []
    for phrase in (*parts, *sorted(phrases, key=lambda p: (p.end - p.start, p.start))):
        if not any(_crosses(phrase, other) for other in kept):
            kept.append(phrase)
    # From the inside out: what is made last takes in what lies within.
    made: list[tuple[Phrase, Step]] = []
    for phrase in sorted(kept, key=lambda p: (p.end - p.start, p.start)):
        inner = [pair for pair in made if phrase.start <= pair[0].start < phrase.end]
        made = [pair for pair in made if pair not in inner]
        span = tokens[phrase.start].span[0], tokens[phrase.end - 1].span[1]
        inside = tuple(step for _, step in sorted(inner, key=lambda pair: pair[0].start))
        made.append((phrase, Step(span, phrase.kind, phrase.wanted, phrase.named, inside)))
    return [step for _, step in sorted(made, key=lambda pair: pair[0].start)]


def _joins(phrase: Phrase, parts: Sequence[Phrase]) -> bool:
    """Whether a phrase holds all that is compared, as if that were one thing."""
    return len(parts) > 1 and all(
        part.kind == "comparison" and phrase.start <= part.start and part.end <= phrase.end
        for part in parts
    )


def _crosses(one: Phrase, other: Phrase) -> bool:
    """Whether two phrases share tokens and neither holds the other, or they are the same."""
    if (one.start, one.end) == (other.start, other.end):
        return True
    inside = other.start <= one.start and one.end <= other.end
    around = one.start <= other.start and other.end <= one.end
    return one.start < other.end and other.start < one.end and not inside and not around


def _bounded(steps: Sequence[Step]) -> list[Step]:
    """The innermost `LEVELS` levels, and of those the first `STEPS` steps."""
    ordered = sorted(walk(steps), key=lambda step: (step.level, step.span))
    kept = {step for step in ordered[:STEPS] if step.level <= LEVELS}
    # The inner come first, so that what is kept has all that is inside of it.
    inner = {below for step in kept for below in step.inside}
    return sorted(kept - inner, key=lambda step: step.span)
