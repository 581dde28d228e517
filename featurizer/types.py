"""Data types of an analysis."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from wye.featurizer.constituency.tree import Tree

Float32 = NDArray[np.float32]
Span = tuple[int, int]
T = TypeVar("T")
# A computation that pauses after each small part, and returns its result at the end.
Steps = Generator[None, None, T]


@dataclass(frozen=True, slots=True)
class EntityMention:
    """A named entity found by the tagger."""

    text: str
    label: str  # the tagger's label, e.g. "PERSON".
    span: Span  # character offsets in the analysed text, end exclusive, as in the classes below


@dataclass(frozen=True, slots=True)
class NounPhrase:
    """A base noun phrase with its key: lower case, no determiners, its head lemmatised."""

    key: str
    span: Span


@dataclass(frozen=True, slots=True)
class Token:
    """A word or a punctuation mark."""

    text: str
    lemma: str
    tag: str  # penn Treebank tag
    pos: str  # universal part of speech
    dep: str  # relation to the head, "ROOT" for a root
    head: int  # position of the head among the tokens; a root's own position
    span: Span
    entity: str  # label of the named entity or number that the token is part of, or ""
    begins_entity: bool  # whether it is the first token of that entity
    is_stop: bool


@dataclass(frozen=True, slots=True)
class Parse:
    """The spaCy analysis of one text, in the text's order."""

    text: str
    sentences: tuple[Span, ...]  # character spans without surrounding whitespace
    entities: tuple[EntityMention, ...]  # named entities without ordinals and cardinals
    phrases: tuple[NounPhrase, ...]
    tokens: tuple[Token, ...] = ()  # tokens without whitespace; empty unless they were requested
    token_sentences: tuple[Span, ...] = ()  # token ranges of those that have a token


def finished(steps: Steps[T]) -> T:
    """Run the steps without pausing and return their result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


class TitledText(Protocol):
    """A passage to be analysed."""

    @property
    def title(self) -> str:
        """The title, which may be empty."""

    @property
    def text(self) -> str:
        """The text, which is never empty."""


@dataclass(frozen=True, slots=True)
class SentenceAnalysis:
    """A sentence of a passage with its mentions."""

    text: str
    entities: tuple[str, ...]  # surfaces of its named entities in order, repeats kept
    phrases: tuple[str, ...]  # keys of its noun phrases in order, repeats kept
    vector: Float32  # (d,) float32, unit length


@dataclass(frozen=True, slots=True)
class PassageAnalysis:
    """The analysis of a passage that the index stores."""

    vector: Float32  # (d,) float32, unit length, of title and text together
    sentences: tuple[SentenceAnalysis, ...]  # those with an entity or a noun phrase, in order


@dataclass(frozen=True, slots=True)
class Syntax:
    """The syntax of a question: its tokens, and a constituency tree for each sentence.

    Attributes:
        trees: One tree per sentence, ROOT on top, over its tokens and their tags; empty unless
            trees were requested.
    """

    tokens: tuple[Token, ...]
    sentences: tuple[Span, ...]  # token range (start, end) of each sentence
    trees: tuple[Tree, ...] = ()
