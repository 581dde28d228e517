"""Seeds: the entities that a question names, where a walk starts."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from wye.backends.errors import BackendError
from wye.backends.store.corpus import Corpus
from wye.backends.text import entity_key, starts_like_a_name, stretch, tokenise
from wye.backends.trigraph.graph import TriGraph
from wye.backends.trigraph.names import Link, NameTrie
from wye.backends.trigraph.settings import SeedSettings
from wye.backends.types import Float32, Int64, Query

MIN_VALUE = 1e-6  # a seed has at least this value, even if the floor is lower
NONE = -1  # stands for an entity that there is not; entities of a dataset may be below 0
Degree = Callable[[Int64], Int64]  # (a,) entities -> (a,) numbers of passages that mention them


@dataclass(frozen=True, slots=True)
class Seed:
    """An entity that the question names.

    Attributes:
        origin: "name" for a tagged mention with the same key, "nearest" for a tagged mention with a
            similar vector, "vocabulary" for words found in the vocabulary, "phrase" for a noun
            phrase.
    """

    entity: int
    value: float  # in (0, 1], the value that bridging starts with
    mention: str
    origin: str


@dataclass(frozen=True, slots=True)
class SeedStats:
    """A seed, and how specific it is: an entity that is everywhere points nowhere.

    So many allowed passages mention it, and so many of these have it as their title.
    """

    mention: str
    value: float
    origin: str
    passages: int
    titles: int


class SeedFinder:
    """Finds seeds in analysed questions."""

    def __init__(self, graph: TriGraph, corpus: Corpus, settings: SeedSettings) -> None:
        """Prepare for a graph; a `BackendError` if it lacks entity vectors that are needed."""
        self._graph = graph
        self._settings = settings
        self._vectors = _entity_vectors(graph, corpus) if settings.nearest else None

    def needs_vector(self, mention: str) -> bool:
        """Whether a tagged mention can only be linked by its vector."""
        return self._vectors is not None and self._entity(mention) == NONE

    def find(
        self, query: Query, degree: Degree, words: Sequence[Seed] | None = None
    ) -> tuple[Seed, ...]:
        """Seeds in the order in which they are found, each entity once, with its best value.

        Where the words suffice, mentions are not used: beside a name that is spelt as one, a tagger
        finds dates, nationalities and the like, from which a walk spreads too far. An entity that
        no allowed passage mentions, by `degree`, is no seed.
        """
        words = self.in_words(query, degree) if words is None else words
        if self.suffice(words):
            return tuple(words)
        return _best([*self._tagged(query, degree), *words, *self._phrases(query)], degree)

    def in_words(self, query: Query, degree: Degree) -> tuple[Seed, ...]:
        """Seeds found in the question's words alone, which needs no parse."""
        return _best(self._in_vocabulary(query, degree), degree)

    def suffice(self, seeds: Sequence[Seed]) -> bool:
        """Whether the seeds in the words suffice, so that no parse is needed.

        At least one of them must be spelt as a name. They never suffice where noun phrases are
        entities too, since these may be what a question is about.
        """
        return not self._graph.has_phrases and any(seed.value >= 1 for seed in seeds)

    def _entity(self, mention: str) -> int:
        entity = self._graph.keys.find(entity_key(mention))
        return NONE if entity != NONE and self._graph.is_phrase[entity] else entity

    def _tagged(self, query: Query, degree: Degree) -> list[Seed]:
        seeds = []
        for mention in query.mentions:
            if mention.kind != "entity":
                continue
            entity = self._entity(mention.text)
            if entity != NONE:
                seeds.append(Seed(entity, 1.0, mention.text, "name"))
            elif self._vectors is not None and len(self._vectors) and mention.vector is not None:
                # An entity that the filter excludes must not hide the nearest allowed one.
                usable = degree(np.arange(len(self._vectors))) > 0
                similarity = np.where(usable, self._vectors @ mention.vector, -1)
                entity = int(similarity.argmax())
                value = min(float(similarity[entity]), 1.0)
                if value >= max(self._settings.similarity_floor, MIN_VALUE):
                    seeds.append(Seed(entity, value, mention.text, "nearest"))
        return seeds

    def _in_vocabulary(self, query: Query, degree: Degree) -> list[Seed]:
        if not self._settings.vocabulary:
            return []
        tokens = tokenise(query.text)
        seeds = []
        for link in _allowed_names(self._graph.names, tokens, degree):
            value = confidence(tokens, link.start, link.start + link.length, self._settings)
            words = stretch(query.text, link.start, link.length)
            seeds.append(Seed(link.entity, value, words, "vocabulary"))
        return seeds

    def _phrases(self, query: Query) -> list[Seed]:
        seeds = []
        for mention in query.mentions:
            entity = self._graph.keys.find(entity_key(mention.text))
            if mention.kind == "phrase" and entity != NONE and self._graph.is_phrase[entity]:
                seeds.append(Seed(entity, self._settings.noun_phrase, mention.text, "phrase"))
        return seeds


def confidence(tokens: Sequence[str], start: int, end: int, settings: SeedSettings) -> float:
    """Value of a seed that the tokens from start to end of a question name."""
    # The first word of a question is capitalised anyway, so it tells nothing.
    if any(starts_like_a_name(token) for token in tokens[max(start, 1) : end]):
        return 1.0
    # An article before the word is part of the name: "the godfather".
    single = end - start == 1 and (start == 0 or tokens[start - 1].casefold() != "the")
    return settings.lower_case_word if single else settings.lower_case_name


def _allowed_names(names: NameTrie, tokens: Sequence[str], degree: Degree) -> list[Link]:
    """Names of entities that allowed passages mention, also under longer names of others."""
    while True:
        links = names.find(tokens)
        degrees = degree(np.array([link.entity for link in links], np.int64)).tolist()
        hidden = [link.entity for link, times in zip(links, degrees, strict=True) if not times]
        if not hidden:
            return links
        names = names.without(hidden)


def _best(seeds: Sequence[Seed], degree: Degree) -> tuple[Seed, ...]:
    usable = degree(np.array([seed.entity for seed in seeds], np.int64)) > 0
    best: dict[int, Seed] = {}
    for seed in itertools.compress(seeds, usable.tolist()):
        known = best.get(seed.entity)
        if known is None or known.value < seed.value:
            best[seed.entity] = seed
    return tuple(best.values())


def _entity_vectors(graph: TriGraph, corpus: Corpus) -> Float32:
    vectors = corpus.surface_vectors(graph.display_names.all())
    missing = np.isnan(vectors).any(axis=1)
    if len(vectors) and missing.all():
        raise BackendError(
            "This index has no vectors of names, by which LinearRAG links a question. Make one "
            "that has, with `wye index SOURCE --index DIR --preset linearrag`, or use no preset."
        )
    vectors[missing] = 0
    return vectors
