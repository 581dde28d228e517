"""What an analysis consists of."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from featurizer.constituency.tree import Tree

Float32 = NDArray[np.float32]
Span = tuple[int, int]
T = TypeVar("T")
# Work that pauses after each small part of it, and returns what came of it in the end.
Steps = Generator[None, None, T]


@dataclass(frozen=True, slots=True)
class EntityMention:
    """A named entity as the tagger found it.

    Attributes:
        label: The tagger's, e.g. "PERSON".
        span: Character offsets in the analysed text, end exclusive; so in all that follows.
    """

    text: str
    label: str
    span: Span


@dataclass(frozen=True, slots=True)
class NounPhrase:
    """A base noun phrase.

    Attributes:
        key: Normalised: lower case, no determiners, head lemmatised, at most five words.
    """

    key: str
    span: Span


@dataclass(frozen=True, slots=True)
class Token:
    """A word or a mark of punctuation.

    Attributes:
        tag: Penn Treebank tag.
        pos: Universal part of speech.
        dep: Relation to its head, "ROOT" for what has none.
        head: Place of its head among the tokens; its own place when it has none.
        entity: Label of the named entity or number that it is part of, or "".
        begins_entity: Whether it is the first token of that.
        like_num: Whether it is a number, in digits or words.
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
    like_num: bool


@dataclass(frozen=True, slots=True)
class Parse:
    """What one spaCy run says of one text, in the text's order.

    Attributes:
        sentences: Without surrounding whitespace.
        entities: Without ordinals and cardinals.
        tokens: Without white space; empty unless asked for.
        token_sentences: Where each sentence with a token begins and ends among them.
        unread: Characters at the end of the text that were not parsed.
    """

    text: str
    sentences: tuple[Span, ...]
    entities: tuple[EntityMention, ...]
    phrases: tuple[NounPhrase, ...]
    tokens: tuple[Token, ...] = ()
    token_sentences: tuple[Span, ...] = ()
    unread: int = 0


def finished(steps: Steps[T]) -> T:
    """What comes of steps that are done without a pause."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


class TitledText(Protocol):
    """A passage to be analysed."""

    @property
    def title(self) -> str:
        """May be empty."""
        ...

    @property
    def text(self) -> str:
        """Never empty."""
        ...


@dataclass(frozen=True, slots=True)
class SentenceAnalysis:
    """A sentence of a passage with what it mentions.

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
    """A passage as the index stores it.

    Attributes:
        vector: (d,) float32, unit length, of title and text together.
        sentences: Those that mention an entity or a noun phrase, in order.
    """

    vector: Float32
    sentences: tuple[SentenceAnalysis, ...]


@dataclass(frozen=True, slots=True)
class Syntax:
    """How a question is built: the tokens of its one parse, and a tree over each sentence's.

    Attributes:
        sentences: Where each sentence begins and ends among the tokens.
        trees: One for each sentence, ROOT on top, over its tokens and their tags; none where nobody
            asked for them.
        flat: Whether each tree is flat for want of a better; see `constituency.parser`.
        unread: Characters at the end of the text that no token stands for.
    """

    tokens: tuple[Token, ...]
    sentences: tuple[Span, ...]
    trees: tuple[Tree, ...]
    flat: tuple[bool, ...]
    unread: int
