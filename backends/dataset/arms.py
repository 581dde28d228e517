"""The text arms over a dataset: Lance's indices propose passages, the arms' scores rank them."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, repeat
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from wye.backends.dataset.columns import Row
from wye.backends.dataset.version import DatasetVersion
from wye.backends.dataset.words import TERM
from wye.backends.dense import DenseRetriever
from wye.backends.lexical import NO_TERM, LexicalRetriever, LexicalSettings, idf_of
from wye.backends.text import content_terms
from wye.backends.types import Float32, Int32, Int64, Mask, Query, RankedHit, Ranking, Scores

if TYPE_CHECKING:
    from wye.backends.arrays import Words

LEAST = 34  # to this depth is ranked at least; an index proposes a fifth more, twice is no better
DEPTH = 100  # to this depth a graph's text hits are ranked, and the lists that are fused
FIRST_READ = 50  # of these the first that are read, and the last, which scores are compared with
MOST_WITH = 2_000  # most passages with a word that are looked at
POOL = ThreadPoolExecutor(8, "wye-lance")
"""Threads that wait for Lance, so that searches that do not need each other go side by side."""


class Numbers:
    """Numbers of texts in the order in which they were met; threads may share it."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.known: dict[str, int] = {}
        self._lock = Lock()

    def of(self, texts: Iterable[str]) -> Int64:
        """Their numbers; new ones get the next."""
        wanted = [*texts]
        with self._lock:
            for text in wanted:
                if text not in self.known:
                    self.known[text] = len(self.texts)
                    self.texts.append(text)
        return np.array([self.known[text] for text in wanted], np.int64)


@dataclass(frozen=True)
class Narrowed:
    """The passages that take part in a search, in place of a mask over all of them."""

    predicate: str | None = None  # Lance's condition on their labels; None for all
    ids: tuple[str, ...] | None = None  # the only ones that may be ranked; None for all


def narrowed(allowed: object) -> Narrowed:
    """What a snapshot over a dataset returned in place of a mask."""
    return Narrowed() if allowed is None else cast("Narrowed", allowed)


class Match(NamedTuple):
    """A passage that an index proposed; sorted, the best is first, ties by id."""

    below: float  # the score, negated
    id: str
    address: int


class Matches(NamedTuple):
    """What an index proposed."""

    read: list[Match]  # those that were read and scored
    proposed: int  # how many it proposed


def matches_of(rows: Sequence[Row], scores: Float32, proposed: int) -> Matches:
    """Rows by their scores (n,), of all that were proposed."""
    scored = zip(rows, scores.tolist(), strict=True)
    return Matches(sorted(Match(-score, row.id, row.address) for row, score in scored), proposed)


class Searches:
    """The searches of one arm for one batch; each runs once, in a thread."""

    def __init__(self, search: Callable[[Query, int, Narrowed], Matches], most: int) -> None:
        self._search, self._most = search, max(most, FIRST_READ)
        self._begun: dict[tuple[str, bytes, Narrowed], tuple[int, Future[Matches]]] = {}

    def begin(self, query: Query, k: int, allowed: Narrowed) -> Future[Matches]:
        """Begin to search for the best k passages or more, unless that was begun already."""
        key = query.text, query.vector.tobytes(), allowed
        depth, future = self._begun.get(key, (0, None))
        if future is None or depth < k:
            depth = max(k, LEAST)
            future = POOL.submit(self._search, query, depth, allowed)
            self._begun[key] = depth, future
        return future

    def to_read(self, addresses: Sequence[int], depth: int) -> Sequence[int]:
        """Which of the addresses that an index proposed have their rows read, to rank to a depth.

        Beyond the hits that a reply may have, only the row at that depth: what a list adds to a
        fused score is what is above its last hit.
        """
        most = self._most
        return addresses if depth <= most else (*addresses[:most], *addresses[most:depth][-1:])


class DatasetDense(DenseRetriever):
    """The dense arm; scores are exact, and which passages are scored depends on Lance's index."""

    deepest = 0

    def __init__(self, version: DatasetVersion, most: int = DEPTH) -> None:
        """Search a version for replies of at most `most` hits."""
        self._version = version
        self.searches = Searches(self._matches, most)

    def search(
        self, queries: Sequence[Query], k: int, allowed: Mask | None = None
    ) -> list[Ranking]:
        """At most k passages for each question."""
        begun = [self.searches.begin(query, k, narrowed(allowed)) for query in queries]
        return [ranked(self.name, each.result().read, k, self._version.count) for each in begun]

    def _matches(self, query: Query, k: int, allowed: Narrowed) -> Matches:
        version = self._version
        if allowed.ids is None:
            addresses = version.nearest(query.vector, k + k // 5, allowed.predicate)
            rows = version.rows(self.searches.to_read(addresses, k))
        else:
            addresses = [*version.addresses(allowed.ids, allowed.predicate).values()]
            rows = version.rows(addresses)
        if not rows:
            return Matches([], 0)
        cosines = np.stack([row.vector for row in rows]).astype(np.float32) @ query.vector
        return matches_of(rows, cosines, len(addresses))


class Terms:
    """Numbers for the terms that questions have, which `LexicalRetriever` goes by.

    Attributes:
        of: Question -> its terms, of those that were looked up.
    """

    def __init__(self, version: DatasetVersion) -> None:
        self._version, self._numbers = version, Numbers()
        self.of: dict[str, list[str]] = {}

    def find(self, term: str) -> int:
        """A term's number, -1 for one that no passage has."""
        return int(self._numbers.of([term])[0]) if self._version.words(TERM, [term]) else -1

    def passages(self, number: int) -> int:
        """How many passages have the term with a number."""
        term = self._numbers.texts[number]
        return self._version.words(TERM, [term])[term].passages

    def numbers(self, terms: Iterable[str]) -> Int32:
        """Numbers of the terms that have one, -1 for the others."""
        return np.fromiter(map(self._numbers.known.get, terms, repeat(-1)), np.int32)


class CountedLexical(LexicalRetriever):
    """BM25 of some rows, with the frequencies of the whole corpus."""

    def __init__(
        self,
        version: DatasetVersion,
        settings: LexicalSettings,
        terms: Terms,
        rows: Sequence[Row] = (),
    ) -> None:
        """Score rows.

        Args:
            terms: Shared by the arms of a batch.
            rows: Ascending by id.
        """
        self.ids = [row.id for row in rows]
        self.settings, self.terms = settings, terms
        self._stopwords = frozenset(settings.stopwords)
        self._version, self._rows = version, rows
        self._words = cast("Words", terms)  # all that is asked of it is `find`

    @property
    def mean_length(self) -> float:
        """Mean number of terms of a passage, without notations."""
        about = self._version.about
        return about.terms / about.passages if about.passages else 0.0

    def _idf(self, number: int) -> float:
        return idf_of(self.passages_with(number), self._version.about.passages)

    def passages_with(self, number: int) -> int:
        """Document frequency of a term, by its number."""
        return self.terms.passages(number) if number >= 0 else 0

    def respelt(self, questions: Sequence[str], is_word: Callable[[str], bool]) -> list[str]:
        """As in memory; the questions' words are looked up with their names, in one query."""
        self.learn(questions)
        return super().respelt(questions, is_word)

    def counts_of(self, words: Iterable[str]) -> dict[str, int]:
        """Word -> how many passages have it, for those words that some passage has."""
        terms = {word: self._term(word) for word in words}
        known = self._version.words(TERM, [*terms.values()])
        return {word: known[term].passages for word, term in terms.items() if term in known}

    def learn(self, texts: Sequence[str]) -> None:
        """Look up the names and the terms of some questions in one query, unless it was done."""
        if new := [text for text in texts if text not in self.terms.of]:
            in_texts = {text: self._terms_in(text) for text in new}
            every = [*chain.from_iterable((*content_terms(t), *in_texts[t]) for t in new)]
            self._version.learn(new, every)
            for term in every:
                self.terms.find(term)
            self.terms.of.update(in_texts)

    def weights(self, question: str) -> dict[str, float]:
        """Term of a question -> its inverse document frequency times how often it is repeated."""
        self.learn([question])
        weights: dict[str, float] = {}
        for term in self.terms.of[question]:
            if (number := self._words.find(term)) >= 0:
                weights[term] = weights.get(term, 0.0) + self._idf(number)
        return weights

    def score(self, query: Query, rows: Sequence[Row] | None = None) -> Float32:
        """(n,) BM25 of every row, or of given ones."""
        rows = self._rows if rows is None else rows
        weights, (k1, b) = self.weights(query.text), (self.settings.k1, self.settings.b)
        counts = np.array([[*map(row.terms.get, weights, repeat(0))] for row in rows], np.float64)
        counts = counts.reshape(len(rows), len(weights))
        lengths = np.array([row.length for row in rows], np.float64)
        norms = k1 * ((1 - b) + b * lengths / (self.mean_length or 1.0))
        shares = counts / (norms[:, None] + counts)
        return (shares @ np.array([*weights.values()], np.float64)).astype(np.float32)

    def scores(self, queries: Sequence[Query], allowed: Mask | None = None) -> list[Scores]:
        """(n,) BM25 of every row, for each question; the mask is ignored."""
        del allowed
        return [Scores(None, self.score(query)) for query in queries]

    def terms_of(self, row: int) -> Int32:
        """Numbers of the row's terms that were looked up."""
        return self.terms.numbers(self._rows[row].terms)


class DatasetLexical(CountedLexical):
    """The lexical arm."""

    deepest = 0

    def __init__(
        self,
        version: DatasetVersion,
        settings: LexicalSettings,
        numbers: Numbers,
        most: int = DEPTH,
    ) -> None:
        """Search a version for replies of at most `most` hits.

        Args:
            numbers: Gives ids of passages a number.
        """
        super().__init__(version, settings, Terms(version))
        self._numbers = numbers
        self.searches = Searches(self._matches, most)

    def search(
        self, queries: Sequence[Query], k: int, allowed: Mask | None = None
    ) -> list[Ranking]:
        """At most k passages for each question that share a word with it, by BM25."""
        self.learn([query.text for query in queries])
        begun = [self.begin(query.text, k, narrowed(allowed)) for query in queries]
        rankings = []
        for matches, proposed in (each.result() for each in begun):
            reason = () if matches else (NO_TERM,)
            rankings.append(ranked(self.name, matches, k, proposed, *reason))
        return rankings

    def begin(self, question: str, k: int, allowed: Narrowed) -> Future[Matches]:
        """See `Searches.begin`; what is searched for depends on the question's text alone."""
        return self.searches.begin(Query(question, np.zeros(0, np.float32)), k, allowed)

    def _matches(self, query: Query, k: int, allowed: Narrowed) -> Matches:
        weights = self.weights(query.text)
        addresses = self._version.with_terms([*weights], k + k // 5, allowed.predicate)
        rows = self._version.rows(self.searches.to_read(addresses, k))
        return matches_of(rows, self.score(query, rows), len(addresses))

    def rows_with(self, word: str) -> Int64:
        """Numbers of the passages with a word or a notation, at most `MOST_WITH`, ascending."""
        addresses = self._version.with_terms([self._term(word)], MOST_WITH, None)
        return np.sort(self._numbers.of(row.id for row in self._version.rows(addresses)))


def ranked(
    name: str, matches: Sequence[Match], k: int, candidates: int, reason: str = ""
) -> Ranking:
    """The first k matches."""
    hits = (RankedHit(m.id, -m.below, n) for n, m in enumerate(matches[:k], start=1))
    return Ranking(name, tuple(hits), candidates, reason)
