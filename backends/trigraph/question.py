"""The graph of a question: a few passages of a corpus, and what they mention.

Some 150 passages rank as the whole corpus does: the best by similarity and by BM25, those of the
names in the question, those of the names that bridging reached from there, and those that mention
or are titled by names in the first of all. Only these are read, so a question costs the same in any
corpus, and a deletion or a filter leaves nothing to undo. It is the same code over arrays in memory
(`InMemory`) and over a dataset that Lance searches (`backends.dataset.question`).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from wye.backends.arrays import distinct
from wye.backends.numerics import products_of, top_rows
from wye.backends.store.corpus import Corpus
from wye.backends.trigraph.graph import FilteredGraph, RowNumbers, TriGraph
from wye.backends.types import Float32, Float64, Int32, Int64, Mask, Query, Scores

HEADS = 10  # how many of the passages with the best prior bring in others by the names in them
HUB = 2000  # number of passages with an entity above which it says next to nothing
MOST_NAMING = 100  # passages may mention a title before it leads nowhere


@dataclass(frozen=True, slots=True)
class Sentences:
    """The sentences of some passages; entities and sentences are numbers of the corpus."""

    rows: Int64  # (s,) the sentences, in the order of passages
    passage: Int64  # (s,) the passage of each
    sentence: Int64  # (x,) for each mention the position of its sentence, ascending
    entity: Int64  # (x,) what is mentioned; each pair occurs once
    similarity: Callable[[Int64], Float32]  # to the question, from positions


@dataclass(frozen=True, slots=True)
class Edges:
    """What c passages mention."""

    passages: Int64  # (c,) numbers of the passages, in the order of their ids
    passage: Int64  # (x,) position of the passage of each mention
    entity: Int64  # (x,) what it mentions; each pair occurs once
    count: Float64  # (x,) in how many sentences it does, and once more in its title
    title_passage: Int64  # (t,) position of a passage, for each entity that is a title
    title_entity: Int64  # (t,) the entity

    def with_others(self, others: "Edges", order: Int64) -> "Edges":
        """The edges of these and of other passages, in an order (c,) of both by their ids."""
        position = np.empty_like(order)
        position[order] = np.arange(len(order))
        shift = len(self.passages)
        return Edges(
            np.concatenate([self.passages, others.passages])[order],
            position[np.concatenate([self.passage, others.passage + shift])],
            np.concatenate([self.entity, others.entity]),
            np.concatenate([self.count, others.count]),
            position[np.concatenate([self.title_passage, others.title_passage + shift])],
            np.concatenate([self.title_entity, others.title_entity]),
        )


class PassageSource(Protocol):
    """A corpus as one question sees it; passages and entities are numbers.

    What a filter does not let through is nowhere.
    """

    @property
    def scale(self) -> "Scale":
        """How close passages are to the question; `text_hits` sets it."""

    def text_hits(self, most: int) -> Int64:
        """The passages with the best similarity and with the best BM25, so many of each."""

    def mentioning(self, entities: Int64, most: int) -> Int64:
        """Of the passages that mention some entities, those closest to the question."""

    def led_to(self, reached: Int64, names: Int64, most: int) -> Int64:
        """Passages that mention what was reached, and that mention or are titled by first names.

        At most so many are taken of each of the three, those closest to the question.
        """

    def degree(self, entities: Int64) -> Int64:
        """(a,) how many passages mention each entity."""

    def title_counts(self, entities: Int64) -> Int64:
        """(a,) how many passages have each entity as their title."""

    def sentences(self, passages: Int64) -> Sentences:
        """The sentences of some passages."""

    def edges(self, passages: Int64) -> Edges:
        """What some passages mention."""

    def by_id(self, passages: Int64) -> Int64:
        """(c,) positions of some passages in the order of their ids."""

    def consecutive(self, passages: Int64) -> Int64:
        """(j, 2) positions of the passages that are consecutive chunks of one document."""

    def scores(self, passages: Int64) -> tuple[Float32, Float32]:
        """(c,) similarity and BM25 of some passages."""

    # What second hops need

    def entity(self, key: str) -> int | None:
        """The entity with a key; None if there is none."""

    def key(self, entity: int) -> str:
        """The key of an entity."""

    def named(self, entities: Int64, rare: int) -> tuple[Int64, Int64, Mask]:
        """Passages titled by each of some entities, and the first of those that mention rare ones.

        Returns (p,) position of the entity, the passage, and whether the entity is its title.
        """

    def documents(self, passages: Int64) -> list[str]:
        """Documents of passages."""

    def texts(self, passages: Int64) -> list[str]:
        """Texts of passages."""

    # What explanations say

    def ids(self, passages: Int64) -> list[str]:
        """Ids of passages."""

    def numbers(self, ids: Sequence[str]) -> Int64:
        """Numbers of passages, in the given order; unknown ids are left out."""

    def name(self, entity: int) -> str:
        """The name of an entity, as it is displayed."""

    def statements(self, sentences: Int64) -> list[tuple[str, str]]:
        """The id of the passage of each of some sentences, and its text."""


def union(*several: Int64) -> Int64:
    """Each number once, ascending."""
    return distinct(np.concatenate([np.empty(0, np.int64), *several]))


class Scale:
    """How close passages are to a question, from the similarity and BM25 of the text hits."""

    def __init__(self, similar: Float32, lexical: Float32) -> None:
        several = similar if len(similar) else np.zeros(1)
        self._low, self._high = float(several.min()), float(several.max())
        self._best = float(lexical.max(initial=0))

    def similarity(self, similar: Float32) -> Float64:
        """Similarities scaled to [0, 1] and clipped; 1 if all text hits have the same."""
        if self._high <= self._low:
            return np.ones(len(similar))
        scaled = (similar.astype(np.float64) - self._low) / (self._high - self._low)
        return np.clip(scaled, 0, 1, out=scaled)

    def lexical(self, lexical: Float32) -> Float64:
        """BM25 as a share of the best."""
        return lexical.astype(np.float64) / (self._best or 1.0)

    def closeness(self, similar: Float32, lexical: Float32) -> Float64:
        """Both, added."""
        return self.similarity(similar) + self.lexical(lexical)


class InMemory:
    """A corpus in memory as a `PassageSource`."""

    def __init__(
        self,
        corpus: Corpus,
        graph: TriGraph,
        filtered: FilteredGraph,
        query: Query | None = None,
        scores: tuple[Scores, Float32 | None] | None = None,
    ) -> None:
        """Take a question and its scores; without them, passages are only described."""
        self._corpus, self._graph, self._filtered = corpus, graph, filtered
        self._allowed = filtered.allowed
        nothing = np.empty(0, np.float32)
        self._query = query or Query("", nothing)
        self._similar, self._lexical = scores or (Scores(None, nothing), None)
        self.scale = Scale(nothing, nothing)

    def text_hits(self, most: int) -> Int64:
        """See `PassageSource`; all passages, if `most` is 0."""
        near, values = self._similar
        if near is None:
            near = np.arange(len(self._corpus), dtype=np.int64)
            if self._allowed is not None:
                near, values = near[self._allowed], values[self._allowed]
        if not most:
            hits = self._corpus.by_id
            hits = hits if self._allowed is None else hits[self._allowed[hits]]
        elif self._lexical is None:
            hits = np.sort(self._best(near, values, most))
        else:
            lexical = self._lexical
            if self._allowed is not None:
                lexical = np.where(self._allowed, lexical, np.float32(0))
            best = top_rows(lexical, most, self._corpus.order)
            hits = union(self._best(near, values, most), best[lexical[best] > 0])
        self.scale = Scale(*self.scores(hits))
        return hits

    def mentioning(self, entities: Int64, most: int) -> Int64:
        """See `PassageSource`; entities that many passages mention add none."""
        telling = entities[self._graph.degrees[entities] <= HUB]
        return self._closest(self._filtered.mentions(telling)[0], most)

    def led_to(self, reached: Int64, names: Int64, most: int) -> Int64:
        """See `PassageSource`."""
        titled = self._closest(self._filtered.titles(names)[0], most)
        return union(self.mentioning(reached, most), self.mentioning(names, most), titled)

    def _closest(self, rows: RowNumbers, most: int) -> Int64:
        is_one = np.zeros(len(self._corpus), bool)  # takes a third of the time of sorting them
        is_one[rows] = True
        passages = np.flatnonzero(is_one)
        if len(passages) <= most:
            return passages
        return self._best(passages, self.scale.closeness(*self.scores(passages)), most)

    def _best(self, passages: Int64, values: Float32 | Float64, most: int) -> Int64:
        """So many of some passages with the highest values, ties by id."""
        order = self._corpus.order
        return passages[top_rows(values, most, None if order is None else order[passages])]

    def degree(self, entities: Int64) -> Int64:
        """See `PassageSource`."""
        return self._filtered.degree(entities)

    def title_counts(self, entities: Int64) -> Int64:
        """See `PassageSource`."""
        return self._filtered.titles(entities)[1]

    def sentences(self, passages: Int64) -> Sentences:
        """See `PassageSource`."""
        corpus, query = self._corpus, self._query
        rows = self._graph.sentences_in(passages[self.by_id(passages)])
        sentence, entity = self._graph.mentions.pairs(rows)
        return Sentences(
            rows,
            corpus.sentence_passage[rows].astype(np.int64),
            sentence,
            entity.astype(np.int64),
            lambda positions: products_of(corpus.sentence_vectors, rows[positions], query.vector),
        )

    def edges(self, passages: Int64) -> Edges:
        """See `PassageSource`."""
        passages = passages[self.by_id(passages)]
        passage, entity, counts = self._graph.mentioned_in(passages)
        titled, title_entity = self._graph.titles.pairs(passages)
        titles = titled, title_entity.astype(np.int64)
        return Edges(passages, passage, entity, counts.astype(np.float64), *titles)

    def by_id(self, passages: Int64) -> Int64:
        """See `PassageSource`; passages are numbered so, but for late ones."""
        order = self._corpus.order
        return np.argsort(passages if order is None else order[passages])

    def consecutive(self, passages: Int64) -> Int64:
        """See `PassageSource`."""
        documents = map(self._corpus.documents.__getitem__, passages.tolist())
        return consecutive(documents, self._corpus.chunks[passages])

    def scores(self, passages: Int64) -> tuple[Float32, Float32]:
        """See `PassageSource`."""
        rows, values = self._similar
        if rows is None:
            similar = values[passages]
        else:
            similar = products_of(self._corpus.vectors, passages, self._query.vector)
        lexical = self._lexical
        return similar, np.zeros_like(similar) if lexical is None else lexical[passages]

    def entity(self, key: str) -> int | None:
        """See `PassageSource`."""
        entity = self._graph.keys.find(key)
        return entity if entity >= 0 else None

    def key(self, entity: int) -> str:
        """See `PassageSource`."""
        return self._graph.keys[entity]

    def named(self, entities: Int64, rare: int) -> tuple[Int64, Int64, Mask]:
        """See `PassageSource`."""
        is_rare = np.flatnonzero(self.degree(entities) <= rare)
        titled, titles = self._filtered.titles(entities)
        mentioned, mentions = self._filtered.mentions(entities[is_rare])
        pair = [np.repeat(np.arange(len(entities)), titles), np.repeat(is_rare, mentions)]
        is_titled = np.arange(len(titled) + len(mentioned)) < len(titled)
        return np.concatenate(pair), np.concatenate([titled, mentioned], dtype=np.int64), is_titled

    def documents(self, passages: Int64) -> list[str]:
        """See `PassageSource`."""
        return [self._corpus.documents[row] for row in passages.tolist()]

    def texts(self, passages: Int64) -> list[str]:
        """See `PassageSource`."""
        return self._corpus.texts(passages)

    def ids(self, passages: Int64) -> list[str]:
        """See `PassageSource`."""
        return [self._corpus.ids[row] for row in passages.tolist()]

    def numbers(self, ids: Sequence[str]) -> Int64:
        """See `PassageSource`."""
        return np.array(self._corpus.rows(ids), np.int64)

    def name(self, entity: int) -> str:
        """See `PassageSource`."""
        return self._graph.display_names.of(entity)

    def statements(self, sentences: Int64) -> list[tuple[str, str]]:
        """See `PassageSource`."""
        ids = self.ids(self._corpus.sentence_passage[sentences].astype(np.int64))
        texts = self._corpus.sentence_texts(sentences) if len(sentences) else []
        return [*zip(ids, texts, strict=True)]


def consecutive(documents: Iterable[str], chunks: Int32 | Int64) -> Int64:
    """(j, 2) positions of passages that are consecutive chunks of one document."""
    if not chunks.any():
        return np.empty((0, 2), np.int64)
    positions = {name: n for n, name in enumerate(zip(documents, chunks.tolist(), strict=True))}
    next_to = {n: positions.get((name, chunk + 1), -1) for (name, chunk), n in positions.items()}
    return np.array([pair for pair in next_to.items() if pair[1] >= 0], np.int64).reshape(-1, 2)
