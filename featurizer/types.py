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
    """A named entity found by the tagger.

    Attributes:
        label: The tagger's label, e.g. "PERSON".
        span: Character offsets in the analysed text, end exclusive, as in the classes below.
    """

    text: str
    label: str
    span: Span


@dataclass(frozen=True, slots=True)
class NounPhrase:
    """A base noun phrase with its key: lower case, no determiners, its head lemmatised."""

    key: str
    span: Span


@dataclass(frozen=True, slots=True)
class Token:
    """A word or a punctuation mark.

    Attributes:
        tag: Penn Treebank tag.
        pos: Universal part of speech.
        dep: Relation to the head, "ROOT" for a root.
        head: Position of the head among the tokens; a root's own position.
        entity: Label of the named entity or number that the token is part of, or "".
        begins_entity: Whether it is the first token of that entity.
    """

    text: str
    lemma: str
    tag: str
    pos: str
    dep: str
    head: int
    span: Span
    entity: str
    begins_entity: bool
    is_stop: bool


@dataclass(frozen=True, slots=True)
class Parse:
    """The spaCy analysis of one text, in the text's order.

    Attributes:
        sentences: Character spans without surrounding whitespace.
        entities: Named entities without ordinals and cardinals.
        tokens: Tokens without whitespace; empty unless they were requested.
        token_sentences: Token range (start, end) of each sentence that has a token.
    """

    text: str
    sentences: tuple[Span, ...]
    entities: tuple[EntityMention, ...]
    phrases: tuple[NounPhrase, ...]
    tokens: tuple[Token, ...] = ()
    token_sentences: tuple[Span, ...] = ()


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
        ...

    @property
    def text(self) -> str:
        """The text, which is never empty."""
        ...


@dataclass(frozen=True, slots=True)
class SentenceAnalysis:
    """A sentence of a passage with its mentions.

    Attributes:
        entities: Surfaces of its named entities in order, repeats kept.
        phrases: Keys of its noun phrases in order, repeats kept.
        vector: (d,) float32, unit length.
    """

    text: str
    entities: tuple[str, ...]
    phrases: tuple[str, ...]
    vector: Float32


@dataclass(frozen=True, slots=True)
class PassageAnalysis:
    """The analysis of a passage that the index stores.

    Attributes:
        vector: (d,) float32, unit length, of title and text together.
        sentences: Sentences that mention an entity or a noun phrase, in order.
    """

    vector: Float32
    sentences: tuple[SentenceAnalysis, ...]


@dataclass(frozen=True, slots=True)
class Syntax:
    """The syntax of a question: its tokens, and a constituency tree for each sentence.

    Attributes:
        sentences: Token range (start, end) of each sentence.
        trees: One tree per sentence, ROOT on top, over its tokens and their tags; empty unless
            trees were requested.
    """

    tokens: tuple[Token, ...]
    sentences: tuple[Span, ...]
    trees: tuple[Tree, ...] = ()
