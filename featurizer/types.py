"""What an analysis consists of."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Float32 = NDArray[np.float32]
Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class EntityMention:
    """A named entity as the tagger found it.

    Attributes:
        text: Surface form.
        label: The tagger's, e.g. "PERSON".
        span: Character offsets in the analysed text, end exclusive.
    """

    text: str
    label: str
    span: Span


@dataclass(frozen=True, slots=True)
class NounPhrase:
    """A base noun phrase.

    Attributes:
        key: Normalised: lower case, no determiners, head lemmatised, at most five words.
        span: Character offsets in the analysed text, end exclusive.
    """

    key: str
    span: Span


@dataclass(frozen=True, slots=True)
class Parse:
    """What one spaCy run says of one text.

    Attributes:
        text: As given.
        sentences: Character spans, in order, without surrounding whitespace.
        entities: In order; ordinals and cardinals are left out.
        phrases: In order.
    """

    text: str
    sentences: tuple[Span, ...]
    entities: tuple[EntityMention, ...]
    phrases: tuple[NounPhrase, ...]


@dataclass(frozen=True, slots=True)
class SentenceAnalysis:
    """A sentence of a passage with what it mentions.

    Attributes:
        text: The sentence.
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
class QuestionMention:
    """A stretch of a question that may name something in the corpus.

    Attributes:
        text: Surface of an entity, key of a noun phrase.
        kind: "entity" or "phrase".
        vector: (d,) float32 unit vector, or None when nobody asked for it.
    """

    text: str
    kind: str
    vector: Float32 | None


@dataclass(frozen=True, slots=True)
class Analysis:
    """A question: one parse, one encoder call.

    Attributes:
        parse: Sentences, entities and noun phrases.
        vector: (d,) float32, unit length.
        mentions: Entities, then noun phrases, each once, in order of appearance.
    """

    parse: Parse
    vector: Float32
    mentions: tuple[QuestionMention, ...]
