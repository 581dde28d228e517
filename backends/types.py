"""Data types of this folder's interface: passages, queries and rankings."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, NamedTuple, Protocol, overload

import numpy as np
from numpy.typing import NDArray

Float16 = NDArray[np.float16]
Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
UInt8 = NDArray[np.uint8]
Mask = NDArray[np.bool_]
Arrays = Mapping[str, NDArray[Any]]

Scalar = str | int | float | bool | None
Metadata = Mapping[str, Scalar | Sequence[Scalar]]


class Scores(NamedTuple):
    """An arm's scores of passages for one question."""

    rows: Int64 | None  # (m,) rows of the scored passages, ascending; None for all of them
    values: Float32  # (m,) score of each


Statement = str | tuple[str, str, str]
"""Something that a text says: a short sentence, or a triple of head, relation and tail."""


@dataclass(frozen=True, slots=True)
class Passage:
    """One unit of retrieval: a short document, or one chunk of a longer one.

    Attributes:
        metadata: Flat JSON values, or lists of them, to filter by.
        statements: What was extracted from the text beforehand; in the graph they take the place of
            its sentences. Clue-RAG's knowledge units are sentences, EA-GraphRAG's facts triples.
    """

    id: str  # unique in an index
    title: str  # may be empty
    text: str  # never empty
    metadata: Metadata = field(default_factory=dict)
    document: str = ""  # the document this is a chunk of; equal to `id` for an unchunked document
    chunk: int = 0  # 0-based position within the document
    statements: tuple[Statement, ...] = ()

    def __post_init__(self) -> None:
        if not self.document:
            object.__setattr__(self, "document", self.id)

    @property
    def analysed(self) -> tuple[str, str, tuple[Statement, ...]]:
        """What of it is analysed."""
        return self.title, self.text, self.statements


class AnalysedSentence(Protocol):
    """A sentence of a passage with its mentions."""

    @property
    def text(self) -> str:
        """The sentence."""

    @property
    def entities(self) -> tuple[str, ...]:
        """Surfaces of its named entities in order, repeats kept."""

    @property
    def phrases(self) -> tuple[str, ...]:
        """Its noun phrases, normalised, in order, repeats kept."""

    @property
    def vector(self) -> Float32:
        """(d,) unit vector."""


class AnalysedPassage(Protocol):
    """What an index stores of a passage besides its text."""

    @property
    def vector(self) -> Float32:
        """(d,) unit vector of title and text together."""

    @property
    def sentences(self) -> Sequence[AnalysedSentence]:
        """Sentences that mention an entity or a noun phrase, in order."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class IndexedPassage(Passage):
    """A passage of another index, as it is there and as it is to be, with its analysis there."""

    stored: Passage = field(repr=False)
    analysis: AnalysedPassage = field(repr=False)
    fingerprint: Mapping[str, str] = field(repr=False)  # the models that made it

    def is_of(self, fingerprint: Mapping[str, str]) -> bool:
        """Whether these models analysed just what is to be analysed of it now."""
        return self.analysed == self.stored.analysed and self.fingerprint == dict(fingerprint)


class PassageAnalyser(Protocol):
    """Analyses passages for `ingest`; the featurizer's `Analyser` implements it."""

    @property
    def fingerprint(self) -> Mapping[str, str]:
        """What stored rows depend on (encoder, parser, their versions); pinned in the index."""

    def analyse(self, passages: Sequence[Passage]) -> Iterable[AnalysedPassage]:
        """One analysis per passage, in order, yielded when it is done.

        An analysis depends on its own passage alone, not on the batch.
        """

    def encode_surfaces(self, surfaces: Sequence[str]) -> Float32:
        """(n, d) unit vectors of entity surfaces, in order."""


@dataclass(frozen=True, slots=True)
class Mention:
    """A span of a question that may name an entity of the graph."""

    text: str  # as written; for a noun phrase its normalised form
    kind: str  # "entity" for a named entity of the tagger, "phrase" for a noun phrase
    vector: Float32 | None = None  # (d,) float32 unit vector; None where it was not encoded


@dataclass(frozen=True, slots=True)
class Query:
    """An analysed question."""

    text: str
    vector: Float32  # (d,) float32, unit length
    mentions: tuple[Mention, ...] = ()  # named entities and noun phrases found by the parser


class Source(NamedTuple):
    """One list's part in a passage's fused score."""

    retriever: str  # name of the arm
    rank: int  # 1-based rank in that arm's list
    score: float  # the arm's own score
    share: float  # what the list added to the fused score, such as w / (rrf_k + rank)


class RankedHit(NamedTuple):
    """One retrieved passage. A tuple, since hundreds are made for each question."""

    id: str
    score: float  # higher is better; comparable within one ranking only
    rank: int  # 1-based
    sources: tuple[Source, ...] = ()  # in a fused ranking, the lists that had it, by arm


class RowHits(Sequence[RankedHit]):
    """Hits as arrays; `RankedHit`s are made when they are used, since most lists are only fused.

    Attributes:
        ids: Ids of all passages of the version, ascending.
        rows: (m,) rows of the hits, best first.
        scores: (m,) score of each hit.
    """

    __slots__ = ("_cached", "ids", "rows", "scores")

    def __init__(self, ids: Sequence[str], rows: Int64, scores: NDArray[np.floating]) -> None:
        self.ids, self.rows, self.scores = ids, rows, scores
        self._cached: tuple[RankedHit, ...] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> RankedHit: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[RankedHit]: ...

    def __getitem__(self, index: int | slice) -> RankedHit | Sequence[RankedHit]:
        if isinstance(index, slice):
            is_head = not index.start and index.step is None
            return self._head(index) if is_head else self._hits()[index]
        if self._cached is not None:
            return self._cached[index]
        return self.make(np.array([range(len(self))[index]]))[0]

    def __iter__(self) -> Iterator[RankedHit]:
        return iter(self._hits())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, tuple | RowHits):
            return NotImplemented
        return self._hits() == tuple(other)

    def __hash__(self) -> int:
        return hash(self._hits())

    def __repr__(self) -> str:
        return repr(self._hits())

    def _hits(self) -> tuple[RankedHit, ...]:
        if self._cached is None:
            self._cached = self.make(np.arange(len(self)))
        return self._cached

    def _head(self, first: slice) -> "RowHits":
        return RowHits(self.ids, self.rows[first], self.scores[first])

    def make(self, positions: Int64) -> tuple[RankedHit, ...]:
        """The hits at (n,) positions in the ranking, from 0."""
        ids = [self.ids[row] for row in self.rows[positions].tolist()]
        ranks, scores = (positions + 1).tolist(), self.scores[positions].tolist()
        fields = zip(ids, scores, ranks, repeat(()), strict=False)
        return tuple(map(tuple.__new__, repeat(RankedHit), fields))


@dataclass(frozen=True, slots=True)
class Ranking:
    """The answer of one retriever to one query."""

    retriever: str
    hits: Sequence[RankedHit]  # best first; ties in score are broken by id
    candidates: int = 0  # how many passages the arm could have returned (after filters)
    degraded: str = ""  # why this is not what was asked for, or ""

    def ids(self, most: int | None = None) -> list[str]:
        """Ids of the hits, or of the first ones, in order."""
        if isinstance(self.hits, RowHits):
            return [self.hits.ids[row] for row in self.hits.rows[:most].tolist()]
        return [hit.id for hit in self.hits[:most]]

    def at(self, positions: Sequence[int]) -> tuple[RankedHit, ...]:
        """The hits at some positions, from 0."""
        if isinstance(self.hits, RowHits):
            return self.hits.make(np.array(positions, np.int64))
        return tuple(self.hits[position] for position in positions)

    @property
    def scores(self) -> Float64:
        """(m,) scores of the hits."""
        if isinstance(self.hits, RowHits):
            return self.hits.scores.astype(np.float64)
        return np.array([hit.score for hit in self.hits], np.float64)


class TextScorer(Protocol):
    """A model that scores texts for a question, such as a cross-encoder."""

    def score(self, question: str, texts: Sequence[str]) -> Float32:
        """(n,) how well each of n texts fits a question; higher is better."""


class Retriever(Protocol):
    """One way of ranking the passages of one index version, for batches of queries."""

    @property
    def name(self) -> str:
        """Name of the arm: dense, lexical or graph."""

    def search(
        self, queries: Sequence[Query], k: int, allowed: Mask | None = None
    ) -> list[Ranking]:
        """At most k hits for each query, in order of the queries.

        Args:
            k: At least 1. If it exceeds the number of passages, all of them are returned.
            allowed: (n,) mask over the version's passages in id order. A passage that is not
                allowed is neither returned nor used to find another.
        """


@dataclass(frozen=True, slots=True)
class WordCoverage:
    """Where a content word of a question occurs in the first passages."""

    term: str  # the word as the lexical arm's term
    weight: float  # its inverse document frequency
    titles: int  # bit i is set if it occurs in the title of passage i
    texts: int  # bit i is set if it occurs in the title or the text of passage i


@dataclass(frozen=True, slots=True)
class NameCoverage:
    """Where an entity that a question's words name occurs in the first passages."""

    mention: str  # the name as written in the question
    value: float  # confidence that the entity is meant, above 0 and at most 1
    degree: int  # how many allowed passages mention it
    titled: int  # how many of these have it as their title
    titles: int  # bit i is set if it is the title of passage i
    texts: int  # bit i is set if passage i mentions it


@dataclass(frozen=True, slots=True)
class Coverage:
    """Which words and names of a question the text arms' first passages have; needs no parse."""

    scores: tuple[float, ...] = ()  # scores of the first passages, descending
    words: tuple[WordCoverage, ...] = ()  # the question's content words, repeats kept
    names: tuple[NameCoverage, ...] = ()  # entities that its words name


def bits(flags: Iterable[bool]) -> int:
    """A number whose bit i is flag i."""
    number = 0
    for position, flag in enumerate(flags):
        if flag:
            number |= 1 << position
    return number


class Progress(Protocol):
    """A counter with a label; the command line draws it as a bar."""

    def start(self, total: int | None, label: str) -> None:
        """Begin a stage of `total` steps, or None if the number is unknown."""

    def advance(self, steps: int) -> None:
        """Count more steps as done."""

    def close(self) -> None:
        """End the stage, finished or not."""


class Silent:
    """Progress that is not shown."""

    def start(self, total: int | None, label: str) -> None:
        """Do nothing."""

    def advance(self, steps: int) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""
