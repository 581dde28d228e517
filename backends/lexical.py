"""Lexical retrieval: passages by BM25.

Lance's own full-text index was the alternative. It takes in a small change three times faster, but
answers twenty times more slowly, and its scores depend on the order in which rows were written: the
same content would not always give the same answer.
"""

import math
import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from wye.backends.layers import Layers
from wye.backends.notations import digraphs, months_in, notations
from wye.backends.numerics import (
    RequestError,
    postings,
    rank_rows,
    require_k,
    require_mask,
    top_rows,
)
from wye.backends.store.derived import Arrays, pack_strings, unpack_strings
from wye.backends.strings import TermNumbers, Words
from wye.backends.text import STOPWORDS, content_terms, singular, terms, without_request
from wye.backends.types import (
    Float32,
    Int32,
    Int64,
    Mask,
    Query,
    Ranking,
    RowHits,
    Scores,
    WordCoverage,
    bits,
)

_POSTINGS_AT_ONCE = 2**20

_WEIGHTS = ("starts", "passages", "values")
NO_TERM = "no term of the question occurs in the corpus"


@dataclass(frozen=True, slots=True)
class LexicalSettings:
    """How text becomes terms, and terms become scores.

    The defaults were chosen on the train and dev questions of five data sets. The Snowball
    stemmer was no better there than the three plural rules of "s", and needs one more dependency.

    Attributes:
        k1: Saturation of term frequency; at least 0.
        b: Degree of length normalisation, 0 to 1.
        stemmer: "s" removes plural endings (Harman 1991); "none" leaves words as they are.
        stopwords: Words left out of passages and questions, in the form that `terms` gives them
            before stemming.
    """

    k1: float = 0.9
    b: float = 0.4
    stemmer: Literal["s", "none"] = "s"
    stopwords: tuple[str, ...] = STOPWORDS

    def __post_init__(self) -> None:
        if self.k1 < 0 or not 0 <= self.b <= 1:
            raise RequestError(
                f"BM25 with k1={self.k1} and b={self.b} is undefined. Use k1 >= 0 and 0 <= b <= 1."
            )
        if self.stemmer not in ("s", "none"):
            raise RequestError(f"There is no stemmer {self.stemmer!r}. Choose s or none.")


class LexicalRetriever:
    """The lexical arm over one version of the index.

    Only passages with a score above 0 are returned, that is, those that share a term with the
    question. `candidates` counts those of them that the filter allows. A term that a question
    repeats counts as often as it occurs.
    """

    name = "lexical"
    deepest = sys.maxsize
    """`rank` of `scores` gives the same passages as `search`, for any k."""

    def __init__(
        self,
        ids: Sequence[str],
        texts: Iterable[str],
        settings: LexicalSettings | None = None,
        words: Words | None = None,
    ) -> None:
        """Tokenise a corpus and compute its weights. The texts are read once, in order.

        Args:
            ids: n passage ids in ascending order.
            texts: Title and text of each passage as one string, in the order of the ids.
            words: A vocabulary that is added to; None for a new one.

        Raises:
            RequestError: The numbers of texts and ids differ.
        """
        self.ids = ids
        self.settings = settings or LexicalSettings()
        self._stopwords = frozenset(self.settings.stopwords)
        self._words = Words() if words is None else words
        self._terms, self._lengths, self._extra = self._reader().read(texts)
        if len(self._lengths) != len(ids):
            raise RequestError(
                f"{len(ids)} passage ids came with {len(self._lengths)} texts. "
                "Give one text per id."
            )
        starts, rows, self.frequencies = postings(self._terms, self._lengths, len(self._words))
        k1, b = self.settings.k1, self.settings.b
        # Each term's postings, as `postings` returns them, with weights instead of frequencies.
        values = bm25(starts, rows, self.frequencies, self._lengths - self._extra, k1=k1, b=b)
        self._weights: tuple[Int32 | Int64, Int32, Float32] = starts, rows, values

    @classmethod
    def from_arrays(
        cls, ids: Sequence[str], arrays: Arrays, settings: LexicalSettings | None = None
    ) -> Self:
        """Restore a retriever from its `to_arrays`, with the same passages and settings."""
        self = cls.__new__(cls)
        self.ids = ids
        self.settings = settings or LexicalSettings()
        self._stopwords = frozenset(self.settings.stopwords)
        self._words = Words(unpack_strings("words", arrays))
        self._terms, self._lengths = arrays["terms"], arrays["lengths"]
        self._extra, self.frequencies = arrays["extra"], arrays["frequencies"]
        starts, rows, values = (arrays[f"weights.{name}"] for name in _WEIGHTS)
        self._weights = starts, rows, values
        return self

    def to_arrays(self) -> Arrays:
        """All derived arrays, for `from_arrays`."""
        return {
            **pack_strings("words", self._words.strings),
            "terms": self._terms,
            "lengths": self._lengths,
            "extra": self._extra,
            "frequencies": self.frequencies,
            **{f"weights.{name}": of for name, of in zip(_WEIGHTS, self._weights, strict=True)},
        }

    def frequencies_of(self, number: int) -> tuple[Int32, NDArray[np.unsignedinteger]]:
        """Rows of the passages with a term, by its number, and its frequency in each."""
        span = self._span(number)
        return self._weights[1][span], self.frequencies[span]

    def _span(self, number: int) -> slice:
        """Where a term's postings are; nowhere for that of a word added since, or -1."""
        starts = self._weights[0]
        return slice(*starts[number : number + 2]) if 0 <= number < len(starts) - 1 else slice(0)

    def terms_of(self, row: int) -> Int32:
        """Numbers of a passage's terms, repeats kept."""
        return self._terms[self._starts[row] : self._starts[row + 1]]

    def search(
        self, queries: Sequence[Query], k: int, allowed: Mask | None = None
    ) -> list[Ranking]:
        """At most k passages for each question, by BM25 score.

        Args:
            queries: Questions, of which only the text is used.
            allowed: (n,) mask over the passages, or None for all. It does not change the scores of
                the allowed passages.

        Raises:
            RequestError: k is below 1, or the mask does not fit this index.
        """
        require_k(k)
        return [self.rank(scores, k, allowed) for scores in self.scores(queries)]

    def scores(self, queries: Sequence[Query], allowed: Mask | None = None) -> list[Scores]:
        """(n,) BM25 of every passage, for each question; the mask is ignored."""
        del allowed
        return [Scores(None, self.score(query)) for query in queries]

    def score(self, query: Query) -> Float32:
        """(n,) BM25 of every passage; 0 where no term is shared, above 0 elsewhere."""
        scores = np.zeros(len(self.ids), np.float32)
        _, rows, weights = self._weights
        for term in self._terms_in(query.text):
            span = self._span(self._words.find(term))
            np.add.at(scores, rows[span], weights[span])
        return scores

    def score_texts(self, question: str, texts: Iterable[str]) -> Float32:
        """(n,) BM25 of n texts that need not be in the index.

        Document frequencies and the mean length are those of the index, without these texts. A
        term that the index lacks has a document frequency of 0.
        """
        k1, b = self.settings.k1, self.settings.b
        question_terms = self._terms_in(question)
        idf = {term: self._idf(self._words.find(term)) for term in question_terms}
        scores = []
        for text in texts:
            in_text = terms(text, self.settings.stemmer, self._stopwords)
            frequencies = Counter([*in_text, *self._terms_of(notations(text))])
            norm = k1 * ((1 - b) + b * len(in_text) / (self.mean_length or 1.0))
            scores.append(
                math.fsum(
                    idf[term] * frequencies[term] / (norm + frequencies[term])
                    for term in question_terms
                    if frequencies[term]
                )
            )
        return np.array(scores, np.float32)

    def rank(self, scores: Scores, k: int, allowed: Mask | None = None) -> Ranking:
        """At most k passages by one question's `scores`.

        Raises:
            RequestError: k is below 1, or the mask does not fit this index.
        """
        require_k(k)
        require_mask(allowed, len(self.ids))
        values = scores.values
        candidates = int(np.count_nonzero(values))
        if not candidates:
            return Ranking(self.name, (), 0, NO_TERM)
        if allowed is not None or candidates < k:
            rows = np.flatnonzero(values if allowed is None else allowed & (values > 0))
            return rank_rows(self.name, self.ids, values, rows, k)
        # The best k have a word of the question anyway, so there is no need to list all that do.
        best = top_rows(values, k)
        return Ranking(self.name, RowHits(self.ids, best, values[best]), candidates)

    def words_in(
        self, text: str, rows: Sequence[int], titles: Sequence[str]
    ) -> tuple[WordCoverage, ...]:
        """Which of a few passages have each content word of a question.

        Args:
            titles: Titles of the same passages; empty if they do not matter.
        """
        words = content_terms(text)
        numbers = np.array([self._words.find(word) for word in words], np.int64)
        in_rows = [np.empty(0, np.int32), *map(self.terms_of, rows)]
        owners = np.repeat(np.arange(len(rows)), [len(terms_) for terms_ in in_rows[1:]])
        word, at = np.nonzero(numbers[:, None] == np.concatenate(in_rows))
        in_texts = [0] * len(words)
        for number, owner in zip(word.tolist(), owners[at].tolist(), strict=True):
            in_texts[number] |= 1 << owner
        heads = [frozenset(terms(title)) for title in titles]
        return tuple(
            WordCoverage(word, self._idf(number), bits([word in head for head in heads]), texts)
            for word, number, texts in zip(words, numbers.tolist(), in_texts, strict=True)
        )

    def word_weights(self, text: str) -> dict[str, float]:
        """Content word of a question -> its inverse document frequency."""
        return {word: self._idf(self._words.find(word)) for word in content_terms(text)}

    def rows_with(self, word: str) -> Int64:
        """Rows of the passages with a word or a notation, ascending."""
        rows, _ = self.frequencies_of(self._words.find(self._term(word)))
        return rows.astype(np.int64)

    def _term(self, word: str) -> str:
        return singular(word) if self.settings.stemmer == "s" else word

    def _terms_in(self, question: str) -> list[str]:
        """The terms of a question without the request at its start, and its notations."""
        question = without_request(question)
        in_words = terms(question, self.settings.stemmer, self._stopwords)
        # A passage with "ö" has "oe" too, so the word would count twice.
        twice = {
            self._term(digraph)
            for digraph, word in digraphs(question).items()
            if self.passages_with(self._words.find(self._term(word)))
        }
        further = self._terms_of(question_notations(question))
        return [*in_words, *(term for term in further if term not in twice)]

    def _terms_of(self, words: Iterable[str]) -> list[str]:
        return [self._term(word) for word in words if word not in self._stopwords]

    def _reader(self) -> TermNumbers:
        return TermNumbers(self._words, self.settings.stemmer, self._stopwords)

    @cached_property
    def _starts(self) -> Int64:
        """(n + 1,) offsets of each passage's terms."""
        return np.concatenate([[0], np.cumsum(self._lengths, dtype=np.int64)])

    @property
    def mean_length(self) -> float:
        """Mean number of terms of a passage, without notations."""
        return float((self._lengths - self._extra).mean()) if len(self._lengths) else 0.0

    def passages_with(self, number: int) -> int:
        """Document frequency of a term, by its number."""
        return len(self.frequencies_of(number)[0])

    def _idf(self, number: int) -> float:
        """Inverse document frequency of a term, by its number."""
        return idf_of(self.passages_with(number), len(self.ids))


class LayeredLexicalRetriever(LexicalRetriever):
    """The lexical arm over a version in two layers. Weights are computed per question.

    Every added passage changes every weight, but not the base's term frequencies and lengths, from
    which they are computed.
    """

    def __init__(
        self, ids: Sequence[str], layers: Layers, base: LexicalRetriever, texts: Iterable[str]
    ) -> None:
        """Tokenise the added passages.

        Args:
            ids: n passage ids in ascending order.
            layers: Which rows are of the base, and which were added.
            base: The base version's retriever, with the same settings.
            texts: Title and text of each added passage.
        """
        self.ids, self.settings = ids, base.settings
        self._stopwords = base._stopwords
        self._layers, self._base = layers, base
        no_ids, words = [""] * len(layers.added), Words(base._words)
        self._added = LexicalRetriever(no_ids, texts, base.settings, words)
        self._words = words
        deleted_terms = [np.unique(base.terms_of(row)) for row in layers.deleted.tolist()]
        self._deleted_terms = np.sort(np.concatenate([np.empty(0, np.int32), *deleted_terms]))
        k1, b, mean = self.settings.k1, self.settings.b, self.mean_length or 1.0
        self._norms = [
            k1 * ((1 - b) + b * (arm._lengths - arm._extra).astype(np.float64) / mean)
            for arm in (base, self._added)
        ]

    @property
    def mean_length(self) -> float:
        """Mean number of terms of a passage, without notations."""
        base, added = (arm._lengths - arm._extra for arm in (self._base, self._added))
        total = int(base.sum()) - int(base[self._layers.deleted].sum()) + int(added.sum())
        return total / max(len(self.ids), 1)

    def score(self, query: Query) -> Float32:
        """(n,) BM25 of every passage; 0 where no term is shared, above 0 elsewhere."""
        scores = [np.zeros(len(norms), np.float32) for norms in self._norms]
        for term in self._terms_in(query.text):
            number = self._words.find(term)
            idf = np.float32(self._idf(number))
            for layer_scores, norms, arm in zip(
                scores, self._norms, (self._base, self._added), strict=True
            ):
                rows, frequencies = arm.frequencies_of(number)
                weights = frequencies / (norms[rows] + frequencies) * idf
                np.add.at(layer_scores, rows, weights.astype(np.float32))
        return self._layers.lay(scores[0], scores[1])

    def rows_with(self, word: str) -> Int64:
        """Rows of the passages with a word or a notation, ascending."""
        number = self._words.find(self._term(word))
        has_it = [np.zeros(len(norms), np.float32) for norms in self._norms]
        for layer, arm in zip(has_it, (self._base, self._added), strict=True):
            layer[arm.frequencies_of(number)[0]] = 1
        return np.flatnonzero(self._layers.lay(has_it[0], has_it[1]))

    def terms_of(self, row: int) -> Int32:
        """Numbers of a passage's terms, repeats kept."""
        is_added, layer_row = self._layers.locate(row)
        return (self._added if is_added else self._base).terms_of(layer_row)

    def passages_with(self, number: int) -> int:
        """Document frequency of a term, by its number."""
        first, last = np.searchsorted(self._deleted_terms, [number, number + 1])
        both = self._base.passages_with(number) + self._added.passages_with(number)
        return int(both - (last - first))


def idf_of(passages: int, total: int) -> float:
    """Inverse document frequency of a term that so many of all passages have."""
    return math.log(1 + (total - passages + 0.5) / (passages + 0.5))


def question_notations(question: str) -> list[str]:
    """As `notations`, but a month alone counts only where the question names no day or year."""
    keys = [key for key in notations(question) if not _MONTH_ALONE.fullmatch(key)]
    return [*keys, *months_in(question)]


_MONTH_ALONE = re.compile("--[0-9]{2}")


def bm25(
    starts: Int32 | Int64,
    passages: Int32,
    frequencies: NDArray[np.unsignedinteger],
    lengths: Int32,
    *,
    k1: float,
    b: float,
) -> Float32:
    """BM25 weight of every posting.

    weight(t, p) = ln(1 + (n - df + 0.5) / (df + 0.5)) · tf / (tf + k1·(1 - b + b·|p| / mean |p|))

    Source: the variant of Lucene with exact lengths, as Kamphuis et al. (ECIR 2020) write it.

    Args:
        starts: (v + 1,), with passages and often as `postings` returns them.
        lengths: (n,) number of terms of each passage.
        k1: Saturation of term frequency; at least 0.
        b: Share of length normalisation, 0 to 1.

    Returns:
        (m,) weights.
    """
    n, mean = len(lengths), (lengths.mean() if len(lengths) else 0.0) or 1.0
    passage_counts = np.diff(starts)
    distinct_counts, position = np.unique(passage_counts, return_inverse=True)
    idf = [math.log(1 + (n - df + 0.5) / (df + 0.5)) for df in distinct_counts.tolist()]
    values = np.repeat(np.array(idf, np.float32)[position], passage_counts)
    for first in range(0, len(values), _POSTINGS_AT_ONCE):
        rows = slice(first, first + _POSTINGS_AT_ONCE)
        length = lengths[passages[rows]].astype(np.float64)
        values[rows] *= frequencies[rows] / (k1 * ((1 - b) + b * length / mean) + frequencies[rows])
    return values
