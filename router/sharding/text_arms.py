"""The text arms over all shards, and how their answers are merged."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from backends.coverage import bits
from backends.lexical import NO_TERM, LexicalSettings, terms
from backends.types import Float32, Mask, Query, RankedHit, Ranking, Scores
from router.sharding.calls import Answers, Shards
from router.types import Route


@dataclass(frozen=True, slots=True)
class Allowed:
    """Takes the place of a mask: which passages are allowed."""

    filter: object | None
    ids: tuple[str, ...] | None = None


class _TextArm:
    """A text arm over all shards, which keep its scores."""

    deepest = 0

    def __init__(self, shards: Shards) -> None:
        self._shards = shards

    def scores(self, queries: Sequence[Query], allowed: Mask | None = None) -> list[Scores]:
        """Not supported: scores stay on the shards."""
        raise NotImplementedError

    def rank(self, scores: Scores, k: int, allowed: Mask | None = None) -> Ranking:
        """Not supported, since there are no scores here."""
        raise NotImplementedError


class ShardedDense(_TextArm):
    """The dense arm over all shards."""

    name = str(Route.DENSE)

    def search(
        self, queries: Sequence[Query], k: int, allowed: Mask | None = None
    ) -> list[Ranking]:
        """At most k passages for each question."""
        vectors = [listed(query.vector) for query in queries]
        found = self._shards.ask("dense", vectors=vectors, k=k, **filter_of(allowed, ids=True))
        return _merged(self.name, found.values(), k)


class ShardedLexical(_TextArm):
    """The lexical arm, with the BM25 statistics of all shards."""

    name = str(Route.LEXICAL)

    def __init__(self, shards: Shards, settings: LexicalSettings) -> None:
        super().__init__(shards)
        self._settings = settings
        self._idf: dict[str, float] = {}

    @property
    def mean(self) -> float:
        """Mean number of terms of a passage."""
        return self._shards.total("terms") / max(1, self._shards.total("passages"))

    def idf(self, asked: Iterable[str]) -> dict[str, float]:
        """Inverse document frequency of terms, at least of those asked for."""
        unknown = [term for term in dict.fromkeys(asked) if term not in self._idf]
        found = self._shards.ask("frequencies", terms=unknown).values() if unknown else ()
        size = self._shards.total("passages")
        for term, counts in zip(unknown, zip(*found, strict=True), strict=True):
            self._idf[term] = math.log(1 + (size - sum(counts) + 0.5) / (sum(counts) + 0.5))
        return self._idf

    def weighed(self, texts: Sequence[str]) -> list[list[tuple[str, float]]]:
        """The terms of questions with their weights."""
        own = self._settings
        asked = [terms(text, own.stemmer, frozenset(own.stopwords)) for text in texts]
        weights = self.idf(term for each in asked for term in each)
        return [[(term, weights[term]) for term in each] for each in asked]

    def search(
        self, queries: Sequence[Query], k: int, allowed: Mask | None = None
    ) -> list[Ranking]:
        """At most k passages for each question."""
        asked = self.weighed([query.text for query in queries])
        given = {"questions": asked, "mean": self.mean, "k": k, **filter_of(allowed)}
        return _merged(self.name, self._shards.ask("lexical", **given).values(), k, NO_TERM)


def listed(vector: Float32) -> list[float]:
    """A vector as a call sends it."""
    found: list[float] = np.asarray(vector, np.float32).tolist()
    return found


def filter_of(allowed: object, *, ids: bool = False) -> dict[str, Any]:
    """The arguments of a call that say which passages are allowed."""
    if not isinstance(allowed, Allowed):
        return {}
    named = {"ids": list(allowed.ids)} if ids and allowed.ids is not None else {}
    return {"filter": allowed.filter, **named}


def by_id(answers: Answers) -> dict[str, Any]:
    """What all shards said of passages, by id."""
    return {id_: found for answer in answers.values() for id_, found in answer.items()}


def bits_of(found: Mapping[str, Any], ids: Sequence[str], place: int) -> tuple[int, int]:
    """For both flags at a place of what was found, which passages have it; lost ones do not."""
    flags = [found[id_][place] if id_ in found else (False, False) for id_ in ids]
    titles, texts = ([bool(one[side]) for one in flags] for side in (0, 1))
    return bits(titles), bits(texts)


def _merged(
    name: str, answers: Iterable[Sequence[tuple[Any, int]]], k: int, none: str = ""
) -> list[Ranking]:
    """Merge the lists of all shards, for each question."""
    merged = []
    for own in zip(*answers, strict=True):
        hits = [(id_, score) for found, _ in own for id_, score in found]
        candidates = sum(size for _, size in own)
        merged.append(ranking_of(name, hits, k, candidates, "" if candidates else none))
    return merged


def ranking_of(
    name: str, hits: Iterable[tuple[str, float]], k: int, candidates: int, degraded: str = ""
) -> Ranking:
    """The k best hits; ties break by id."""
    best = sorted(hits, key=lambda hit: (-hit[1], hit[0]))[:k]
    ranked = tuple(RankedHit(id_, score, rank) for rank, (id_, score) in enumerate(best, 1))
    return Ranking(name, ranked, candidates, degraded)
