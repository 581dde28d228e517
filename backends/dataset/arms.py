"""The text arms over a dataset: Lance's indices propose passages, the arms' scores rank them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import TYPE_CHECKING, cast

import numpy as np

from wye.backends.dataset.version import DatasetVersion, Matches, Row, length_of
from wye.backends.dense import DenseRetriever
from wye.backends.lexical import NO_TERM, LexicalRetriever, LexicalSettings, idf_of
from wye.backends.numerics import RequestError, require_k
from wye.backends.text import content_terms
from wye.backends.types import Float32, Int32, Int64, Mask, Query, RankedHit, Ranking, Scores

if TYPE_CHECKING:
    from wye.backends.strings import Words

PROPOSED = 200
"""Passages that each index proposes for a question, at least."""


MOST_WITH = 2_000
"""Most passages with a word that are looked at."""


class Numbers:
    """Numbers of passages in the order in which they were met: a dataset has no rows by id."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self._numbers: dict[str, int] = {}

    def of(self, ids: Iterable[str]) -> Int64:
        """Their numbers; new ones get the next."""
        numbers = []
        for id_ in ids:
            if id_ not in self._numbers:
                self._numbers[id_] = len(self.ids)
                self.ids.append(id_)
            numbers.append(self._numbers[id_])
        return np.array(numbers, np.int64)


@dataclass(frozen=True)
class Narrowed:
    """The passages that take part in a search, in place of a mask over all of them.

    Attributes:
        predicate: Lance's condition on their labels; None for all.
        ids: The only ones that may be ranked; None for all.
    """

    predicate: str | None = None
    ids: tuple[str, ...] | None = None


def narrowed(allowed: object) -> Narrowed:
    """What a snapshot over a dataset returned in place of a mask."""
    if allowed is None:
        return Narrowed()
    if not isinstance(allowed, Narrowed):
        raise RequestError("A dataset is searched under a predicate, not under a mask.")
    return allowed


class DatasetDense(DenseRetriever):
    """The dense arm; scores are exact, and which passages are scored depends on Lance's index."""

    deepest = 0

    def __init__(self, version: DatasetVersion) -> None:
        """Search a version."""
        self._version = version
        self._matches: dict[tuple[bytes, Narrowed], tuple[int, Matches]] = {}

    def search(
        self, queries: Sequence[Query], k: int, allowed: Mask | None = None
    ) -> list[Ranking]:
        """At most k passages for each question.

        Raises:
            RequestError: k is below 1, or a vector does not fit this index.
        """
        require_k(k)
        matches = [self.matches(query.vector, k, narrowed(allowed)) for query in queries]
        return [ranked(self.name, each, k, self._version.count) for each in matches]

    def matches(self, vector: Float32, k: int, allowed: Narrowed) -> Matches:
        """The best k passages or more; those of an earlier call are used again."""
        if vector.shape != (self._version.dimension,):
            raise RequestError(
                f"A question's vector has shape {vector.shape}; this index holds vectors of "
                f"{self._version.dimension} numbers."
            )
        key = vector.tobytes(), allowed
        depth, matches = self._matches.get(key, (0, Matches()))
        if depth < k:
            depth = max(k, PROPOSED)
            matches = (
                self._version.nearest(vector, depth, allowed.predicate)
                if allowed.ids is None
                else self._of(vector, allowed)
            )
            matches = sorted_by_score(matches)
            self._version.note(matches)
            self._matches[key] = depth, matches
        return matches

    def _of(self, vector: Float32, allowed: Narrowed) -> Matches:
        """All of some passages."""
        addresses = self._version.addresses(allowed.ids or (), allowed.predicate)
        rows = self._version.rows(addresses.values())
        scores = [float(row.vector @ vector) for row in rows]
        return Matches([row.address for row in rows], [row.id for row in rows], scores)


class CountedLexical(LexicalRetriever):
    """BM25 of some rows, with the frequencies of the whole corpus."""

    def __init__(
        self, version: DatasetVersion, settings: LexicalSettings, rows: Sequence[Row] = ()
    ) -> None:
        """Score rows.

        Args:
            rows: Ascending by id.
        """
        self.ids = [row.id for row in rows]
        self.settings = settings
        self._stopwords = frozenset(settings.stopwords)
        self._version, self._rows = version, rows
        self._words = cast("Words", version.terms)  # all that is asked of it is `find`

    @property
    def mean_length(self) -> float:
        """Mean number of terms of a passage, without notations."""
        about = self._version.words.about
        return about.terms / about.passages if about.passages else 0.0

    def _idf(self, number: int) -> float:
        return idf_of(self.passages_with(number), self._version.words.about.passages)

    def passages_with(self, number: int) -> int:
        """Document frequency of a term, by its number."""
        return self._version.terms.passages[number] if number >= 0 else 0

    def learn(self, texts: Iterable[str]) -> None:
        """Look up the frequencies of all words of some questions in one query."""
        terms = chain.from_iterable((*content_terms(t), *self._terms_in(t)) for t in texts)
        self._version.terms.learn(terms)

    def terms_in(self, question: str) -> list[str]:
        """The terms of a question that some passage has."""
        self.learn([question])
        return [term for term in self._terms_in(question) if self._words.find(term) >= 0]

    def weights(self, question: str) -> dict[str, float]:
        """Term of a question -> its inverse document frequency times how often it is repeated."""
        weights: dict[str, float] = {}
        for term in self.terms_in(question):
            weights[term] = weights.get(term, 0.0) + self._idf(self._words.find(term))
        return weights

    def score_of(
        self, weights: Mapping[str, float], counts: Mapping[str, int], length: int
    ) -> float:
        """BM25 of a passage.

        Args:
            weights: See `weights`.
            counts: How often each term occurs in it.
            length: Number of its terms.
        """
        k1, b = self.settings.k1, self.settings.b
        norm = k1 * ((1 - b) + b * length / (self.mean_length or 1.0))
        present = ((weight, counts.get(term, 0)) for term, weight in weights.items())
        return float(np.float32(sum(w * n / (norm + n) for w, n in present if n)))

    def score(self, query: Query) -> Float32:
        """(n,) BM25 of every row."""
        weights = self.weights(query.text)
        scores = [self.score_of(weights, row.counts, row.length) for row in self._rows]
        return np.array(scores, np.float32)

    def scores(self, queries: Sequence[Query], allowed: Mask | None = None) -> list[Scores]:
        """(n,) BM25 of every row, for each question; the mask is ignored."""
        del allowed
        return [Scores(None, self.score(query)) for query in queries]

    def terms_of(self, row: int) -> Int32:
        """Numbers of the row's terms that were looked up."""
        numbers = map(self._version.terms.numbers.get, self._rows[row].counts, repeat(-1))
        return np.fromiter(numbers, np.int32)


class DatasetLexical(CountedLexical):
    """The lexical arm."""

    deepest = 0

    def __init__(
        self, version: DatasetVersion, settings: LexicalSettings, numbers: "Numbers"
    ) -> None:
        """Search a version; `numbers` gives passages without rows a number."""
        super().__init__(version, settings)
        self._numbers = numbers
        self._matches: dict[tuple[str, Narrowed], tuple[int, Matches]] = {}

    def search(
        self, queries: Sequence[Query], k: int, allowed: Mask | None = None
    ) -> list[Ranking]:
        """At most k passages for each question that share a word with it, by BM25.

        Raises:
            RequestError: k is below 1.
        """
        require_k(k)
        self.learn(query.text for query in queries)
        rankings = []
        for query in queries:
            matches = self.matches(query.text, k, narrowed(allowed))
            if not matches.ids:
                rankings.append(Ranking(self.name, (), 0, NO_TERM))
                continue
            rankings.append(ranked(self.name, matches, k, len(matches.ids)))
        return rankings

    def matches(self, question: str, k: int, allowed: Narrowed) -> Matches:
        """The best k passages or more, scored anew; those of an earlier call are used again."""
        depth, matches = self._matches.get((question, allowed), (0, Matches()))
        if depth < k:
            depth, weights = max(2 * k, PROPOSED), self.weights(question)
            found = self._version.with_terms([*weights], depth, allowed.predicate)
            scores = []
            for tokens in found.tokens:
                counts: dict[str, int] = {}
                for term in filter(weights.__contains__, tokens.split()):
                    counts[term] = counts.get(term, 0) + 1
                scores.append(self.score_of(weights, counts, length_of(tokens)))
            matches = sorted_by_score(Matches(found.addresses, found.ids, scores))
            self._version.note(matches)
            self._matches[question, allowed] = depth, matches
        return matches

    def rows_with(self, word: str) -> Int64:
        """Numbers of the passages with a word or a notation, at most `MOST_WITH`, ascending."""
        found = self._version.with_terms([self._term(word)], MOST_WITH, None)
        self._version.note(found)
        return np.sort(self._numbers.of(found.ids))


def sorted_by_score(matches: Matches) -> Matches:
    """Matches with the highest score first, ties by id."""
    fields = zip(matches.scores, matches.ids, matches.addresses, strict=True)
    ordered = sorted(fields, key=lambda each: (-each[0], each[1]))
    ids, addresses = [id_ for _, id_, _ in ordered], [address for _, _, address in ordered]
    return Matches(addresses, ids, [score for score, _, _ in ordered])


def ranked(name: str, matches: Matches, k: int, candidates: int) -> Ranking:
    """The first k matches."""
    pairs = zip(matches.ids[:k], matches.scores, strict=False)
    hits = (RankedHit(id_, score, n) for n, (id_, score) in enumerate(pairs, start=1))
    return Ranking(name, tuple(hits), candidates)
