"""Lexical retrieval: passages by BM25.

Lance's own full-text index was the alternative. It takes in a small change three times faster, but
answers twenty times more slowly, and its scores depend on the order in which rows were written: the
same content would not always give the same answer.
"""

import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from string import ascii_lowercase
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from wye.backends.arrays import TermNumbers, Words, pack_strings, unpack_strings
from wye.backends.errors import BackendError
from wye.backends.notations import IS_DAY, WITHIN, digraphs, months_in, notations
from wye.backends.numerics import rank_rows, top_rows
from wye.backends.text import (
    STOPWORDS,
    cells_of,
    content_terms,
    german_words,
    singular,
    terms,
    without_request,
)
from wye.backends.types import (
    Arrays,
    Float32,
    Float64,
    Int32,
    Int64,
    Mask,
    Query,
    Ranking,
    RowHits,
    Scores,
    WordCoverage,
)

LACKING_FROM, WRONG_FROM = 6, 8
"""Letters from which a word may lack a letter, and have a wrong one or one too many; shorter words
have too many others near them ("solver", "silver")."""
MOST_UNKNOWN = 5  # with more unknown words, a question is of another subject or language
_PLAIN_WORD = re.compile(r"(?<![\w'\u2019-])[a-z]{5,20}(?![\w'\u2019-])")
_GERMAN_ENDINGS = ("ern", "en", "er", "es", "e", "n", "s")
_ENDINGS = ("s", "es", "d", "ed", "ing", "ly")
NO_TERM = "no term of the question occurs in the corpus"


class RequestError(BackendError, ValueError):
    """A setting of BM25 that has no meaning."""


@dataclass(frozen=True, slots=True)
class LexicalSettings:
    """How text becomes terms, and terms become scores.

    The defaults were chosen on the train and dev questions of five data sets. The Snowball
    stemmer was no better there than the three plural rules of "s", and needs one more dependency.

    Attributes:
        k1: Saturation of term frequency; at least 0.
        b: Degree of length normalisation, 0 to 1.
        stemmer: "s" removes plural endings (Harman 1991); "none" leaves words as they are.
    """

    k1: float = 0.9
    b: float = 0.4
    stemmer: Literal["s", "none"] = "s"
    stopwords: tuple[str, ...] = STOPWORDS  # in the form that `terms` has before stemming

    def __post_init__(self) -> None:
        if self.k1 < 0 or not 0 <= self.b <= 1:
            raise RequestError(
                f"BM25 with k1={self.k1} and b={self.b} is undefined. Use k1 >= 0 and 0 <= b <= 1."
            )


@dataclass(frozen=True, slots=True)
class _Part:
    """What passages that were read together have of which terms."""

    terms: Int32  # numbers of the terms of the passages, end to end, repeats kept
    lengths: Int32  # (n,) number of terms of each passage
    extra: Int32  # (n,) how many of them are notations
    starts: Int64  # (v + 1,) with the next two, as `_postings` returns them
    rows: Int32  # (m,) rows of passages
    frequencies: NDArray[np.unsignedinteger[Any]]  # (m,) term frequencies

    def span(self, number: int) -> slice:
        """Where a term's postings are; nowhere for that of a word added since, or -1."""
        starts = self.starts
        return slice(*starts[number : number + 2]) if 0 <= number < len(starts) - 1 else slice(0)


class LexicalRetriever:
    """The lexical arm over one version of the index.

    Only passages with a score above 0 are returned, that is, those that share a term with the
    question. `candidates` counts those of them that the filter allows. A term that a question
    repeats counts as often as it occurs.

    Every late passage changes every weight, but no term frequencies and lengths. So weights are
    computed of these when a question has a term, and kept.
    """

    name = "lexical"
    deepest = sys.maxsize
    """`rank` of `scores` gives the same passages as `search`, for any k."""
    _order: Int64 | None = None
    _gone: Int64 = np.empty(0, np.int64)

    def __init__(
        self,
        ids: Sequence[str],
        texts: Iterable[str],
        settings: LexicalSettings | None = None,
        base: "LexicalRetriever | None" = None,
        *,
        order: Int64 | None = None,
        present: Mask | None = None,
    ) -> None:
        """Tokenise passages. The texts are read once, in order.

        Args:
            ids: n passage ids, in ascending order unless there is another.
            texts: Title and text of each passage as one string; only of those after a base's.
            base: A retriever of the passages that come first, with the same settings.
            order: (n,) position of each passage in the order of ids; None if they are in it.
            present: (n,) which passages there are; None for all.
        """
        settings = settings or LexicalSettings()
        words = Words(base._words if base else None)
        read = TermNumbers(words, settings.stemmer, frozenset(settings.stopwords)).read(texts)
        starts, rows, frequencies = _postings(*read[:2], len(words))
        parts = base._parts if base else ()
        rows += np.int32(sum(len(part.lengths) for part in parts))
        self._set(ids, settings, words, (*parts, _Part(*read, starts, rows, frequencies)))
        self._order = order
        self._gone = self._gone if present is None else np.flatnonzero(~present)

    def _set(
        self, ids: Sequence[str], settings: LexicalSettings, words: Words, parts: Sequence[_Part]
    ) -> None:
        self.ids, self.settings, self._words, self._parts = ids, settings, words, (*parts,)
        self._stopwords = frozenset(settings.stopwords)
        self._weights: dict[int, Sequence[tuple[Int32, Float32]]] = {}
        self._idfs: dict[int, float] = {}

    @classmethod
    def from_arrays(
        cls, ids: Sequence[str], arrays: Arrays, settings: LexicalSettings | None = None
    ) -> Self:
        """Restore a retriever from its `to_arrays`, with the same passages and settings."""
        self = cls.__new__(cls)
        part = _Part(*(arrays[each.name] for each in fields(_Part)))
        words = Words(unpack_strings("words", arrays))
        self._set(ids, settings or LexicalSettings(), words, [part])
        return self

    def to_arrays(self) -> Arrays:
        """All derived arrays, for `from_arrays`; there must be no base."""
        (part,) = self._parts
        arrays = {each.name: getattr(part, each.name) for each in fields(_Part)}
        return {**pack_strings("words", self._words.strings), **arrays}

    def terms_of(self, row: int) -> Int32:
        """Numbers of a passage's terms, repeats kept."""
        for part, starts in zip(self._parts, self._starts, strict=True):
            if row < len(part.lengths):
                return part.terms[starts[row] : starts[row + 1]]
            row -= len(part.lengths)
        raise IndexError(row)

    def search(
        self, queries: Sequence[Query], k: int, allowed: Mask | None = None
    ) -> list[Ranking]:
        """At most k passages for each question's text, by BM25.

        The mask `allowed` (n,) does not change the scores of the allowed passages.
        """
        return [self.rank(scores, k, allowed) for scores in self.scores(queries)]

    def scores(self, queries: Sequence[Query], allowed: Mask | None = None) -> list[Scores]:
        """(n,) BM25 of every passage, for each question; the mask is ignored."""
        del allowed
        return [Scores(None, self.score(query)) for query in queries]

    def score(self, query: Query) -> Float32:
        """(n,) BM25 of every passage; 0 where no term is shared, above 0 elsewhere."""
        scores = np.zeros(len(self.ids), np.float32)
        for term in self._terms_in(query.text):
            for rows, weights in self._weights_of(self._words.find(term)):
                np.add.at(scores, rows, weights)
        scores[self._gone] = 0
        return scores

    def _weights_of(self, number: int) -> Sequence[tuple[Int32, Float32]]:
        """The passages with a term, by its number, and its BM25 weight in each.

        weight(t, p) = ln(1 + (n - df + 0.5) / (df + 0.5)) · tf / (tf + k1·(1 - b + b·|p| / mean))

        Source: the variant of Lucene with exact lengths, as Kamphuis et al. (ECIR 2020) write it.
        """
        if number not in self._weights:
            idf, weights = np.float32(self._idf(number)), []
            for part in self._parts:
                span = part.span(number)
                rows, frequencies = part.rows[span], part.frequencies[span]
                shares = frequencies / (self._norms[rows] + frequencies)
                weights.append((rows, (shares * idf).astype(np.float32)))
            self._weights[number] = weights
        return self._weights[number]

    def score_texts(self, question: str, texts: Iterable[str]) -> Float32:
        """(n,) BM25 of any n texts, by the frequencies and the mean length of the index."""
        k1, b = self.settings.k1, self.settings.b
        question_terms = self._terms_in(question)
        idf = {term: self._idf(self._words.find(term)) for term in question_terms}
        scores = []
        for text in texts:
            in_text = terms(text, self.settings.stemmer, self._stopwords)
            frequencies = Counter([*in_text, *self._terms_of(notations(text))])
            norm = k1 * ((1 - b) + b * len(in_text) / (self.mean_length or 1.0))
            shared = [(idf[term], frequencies[term]) for term in question_terms]
            scores.append(math.fsum(weight * tf / (norm + tf) for weight, tf in shared if tf))
        return np.array(scores, np.float32)

    def rank(self, scores: Scores, k: int, allowed: Mask | None = None) -> Ranking:
        """At most k passages by one question's `scores`."""
        values = scores.values
        candidates = int(np.count_nonzero(values))
        if not candidates:
            return Ranking(self.name, (), 0, NO_TERM)
        if allowed is not None or candidates < k:
            rows = np.flatnonzero(values if allowed is None else allowed & (values > 0))
            return rank_rows(self.name, self.ids, values, rows, k, order=self._order)
        # The best k have a word of the question anyway, so there is no need to list all that do.
        best = top_rows(values, k, self._order)
        return Ranking(self.name, RowHits(self.ids, best, values[best]), candidates)

    def words_in(
        self, text: str, rows: Sequence[int], titles: Sequence[str]
    ) -> tuple[WordCoverage, ...]:
        """Which of a few passages have each content word of a question, also in their titles."""
        words = content_terms(text)
        numbers = np.array([self._words.find(word) for word in words], np.int64)
        in_rows = [np.empty(0, np.int32), *map(self.terms_of, rows)]
        owners = np.repeat(np.arange(len(rows)), [len(terms_) for terms_ in in_rows[1:]])
        word, at = np.nonzero(numbers[:, None] == np.concatenate(in_rows))
        in_texts = [0] * len(words)
        for number, owner in zip(word.tolist(), owners[at].tolist(), strict=True):
            in_texts[number] |= 1 << owner
        in_titles = dict.fromkeys(words, 0)
        for row, title in enumerate(titles):
            for term in in_titles.keys() & terms(title):
                in_titles[term] |= 1 << row
        return tuple(
            WordCoverage(word, self._idf(number), in_titles[word], texts)
            for word, number, texts in zip(words, numbers.tolist(), in_texts, strict=True)
        )

    def word_weights(self, text: str) -> dict[str, float]:
        """Content word of a question -> its inverse document frequency."""
        return {word: self._idf(self._words.find(word)) for word in content_terms(text)}

    def rows_with(self, word: str) -> Int64:
        """Rows of the passages with a word or a notation, ascending."""
        number = self._words.find(self._term(word))
        rows = np.concatenate([part.rows[part.span(number)] for part in self._parts])
        return (rows[~np.isin(rows, self._gone)] if len(self._gone) else rows).astype(np.int64)

    def _term(self, word: str) -> str:
        return singular(word) if self.settings.stemmer == "s" else word

    def _terms_in(self, question: str) -> list[str]:
        """The terms of a question without the request at its start, and its notations."""
        question = without_request(question)
        german = german_words(question)
        in_words = terms(question, self.settings.stemmer, self._stopwords | german)
        for word in [word for word in in_words if german and not self.counts_of([word])]:
            bare = next((word.removesuffix(e) for e in _GERMAN_ENDINGS if word.endswith(e)), word)
            in_words += self.counts_of([bare, *(bare + ending for ending in _GERMAN_ENDINGS)])
        # A passage with "ö" has "oe" too, so the word would count twice.
        spelt = digraphs(question)
        known = self.counts_of(spelt.values()) if spelt else {}
        twice = {self._term(digraph) for digraph, word in spelt.items() if word in known}
        further = self._terms_of(question_notations(question))
        return [*in_words, *(term for term in further if term not in twice)]

    def _terms_of(self, words: Iterable[str]) -> list[str]:
        return [self._term(word) for word in words if word not in self._stopwords]

    @cached_property
    def _gone_terms(self) -> Int32:
        """The distinct terms of each passage that is gone, ascending."""
        terms_of = (np.unique(self.terms_of(row)) for row in self._gone.tolist())
        return np.sort(np.concatenate([np.empty(0, np.int32), *terms_of]))

    @cached_property
    def _starts(self) -> list[Int64]:
        """(n + 1,) offsets of each passage's terms, for each part."""
        ends = (np.cumsum(part.lengths, dtype=np.int64) for part in self._parts)
        return [np.concatenate([[0], each]) for each in ends]

    @cached_property
    def _norms(self) -> Float64:
        """(n,) what is added to a term's frequency to divide it by."""
        k1, b, mean = self.settings.k1, self.settings.b, self.mean_length or 1.0
        return k1 * ((1 - b) + b * self._lengths.astype(np.float64) / mean)

    @property
    def _lengths(self) -> Int32:
        return np.concatenate([part.lengths - part.extra for part in self._parts])

    @cached_property
    def mean_length(self) -> float:
        """Mean number of terms of a passage, without notations."""
        lengths, count = self._lengths, len(self.ids) - len(self._gone)
        total = int(lengths.sum()) - int(lengths[self._gone].sum())
        return total / max(count, 1)

    def respelt(self, questions: Sequence[str], is_word: Callable[[str], bool]) -> list[str]:
        """Questions with their misspelt words as the corpus writes them.

        A word in small letters is misspelt if no passage has it and it is no word of a language by
        `is_word` either, nor a form of one. It stands for the word at one of `_misspellings` that
        most passages have, unless two such words are in as many. Beyond `MOST_UNKNOWN` words that
        no passage has, none is read otherwise, nor is any of German, with its many forms.
        """
        return [self._respelt(question, is_word) for question in questions]

    def _respelt(self, question: str, is_word: Callable[[str], bool]) -> str:
        words = dict.fromkeys(() if german_words(question) else _PLAIN_WORD.findall(question))
        known = self.counts_of(words) if words else {}
        unknown, meant = [word for word in words if word not in known], {}
        for word in unknown if len(unknown) <= MOST_UNKNOWN else ():
            forms = [word, *(word.removesuffix(ending) for ending in _ENDINGS)]
            if not any(map(is_word, dict.fromkeys(forms))):
                counts = self.counts_of(_misspellings(word))
                most = max(counts.values(), default=0)
                likely = [other for other, count in counts.items() if count == most]
                if len({*map(self._term, likely)}) == 1:
                    meant[word] = likely[0]
        return _PLAIN_WORD.sub(lambda match: meant.get(match[0], match[0]), question)

    def counts_of(self, words: Iterable[str]) -> dict[str, int]:
        """Word -> how many passages have it, for those words that some passage has."""
        numbers = {word: self._words.find(self._term(word)) for word in words}
        counts = {word: self.passages_with(n) for word, n in numbers.items() if n >= 0}
        return {word: count for word, count in counts.items() if count}

    def passages_with(self, number: int) -> int:
        """Document frequency of a term, by its number."""
        first, last = np.searchsorted(self._gone_terms, [number, number + 1])
        return sum(len(part.rows[part.span(number)]) for part in self._parts) - int(last - first)

    def _idf(self, number: int) -> float:
        """Inverse document frequency of a term, by its number."""
        if number not in self._idfs:
            self._idfs[number] = idf_of(self.passages_with(number), len(self.ids) - len(self._gone))
        return self._idfs[number]


def _misspellings(word: str) -> list[str]:
    """Words that one slip makes of a word, or it of them; the first letter stays.

    Two letters are swapped, or a letter is doubled or no longer. From `LACKING_FROM` letters on,
    one is put in before the last; from `WRONG_FROM` on, one inside is left out or replaced.
    """
    inside = range(1, len(word) - 1)
    slips = [word[:at] + word[at + 1] + word[at] + word[at + 2 :] for at in inside]
    slips += [word[:at] + word[at] + word[at:] for at in inside]
    slips += [word[:at] + word[at + 1 :] for at in range(1, len(word)) if word[at] == word[at - 1]]
    if len(word) >= LACKING_FROM:
        slips += [word[:at] + c + word[at:] for at in (*inside, -1) for c in ascii_lowercase]
    if len(word) >= WRONG_FROM:
        slips += [word[:at] + word[at + 1 :] for at in inside]
        slips += [word[:at] + c + word[at + 1 :] for at in inside for c in ascii_lowercase]
    return [*dict.fromkeys(slips)]


def idf_of(passages: int, total: int) -> float:
    """Inverse document frequency of a term that so many of all passages have."""
    return math.log(1 + (total - passages + 0.5) / (passages + 0.5))


def question_notations(question: str) -> list[str]:
    """As `notations`, with the periods of its days; a month counts if no day or year is named."""
    keys = [key for key in notations(question) if not _MONTH_ALONE.fullmatch(key)]
    keys += [f"{WITHIN}{key}" for key in keys if IS_DAY.fullmatch(key)]
    return [*keys, *months_in(question)]


_MONTH_ALONE = re.compile("--[0-9]{2}")


def _postings(
    numbers: Int32, lengths: Int32, vocabulary: int
) -> tuple[Int64, Int32, NDArray[np.unsignedinteger]]:
    """The passages of each term, with term frequencies.

    `numbers` (t,) are those of n passages' terms, end to end, of which each has `lengths` (n,).
    Returns (v + 1,) offset of each term's (m,) rows of passages, ascending, and (m,) term
    frequencies.
    """
    from scipy import sparse  # noqa: PLC0415 - takes .1 s, which a mapped index need not pay

    starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    # With offsets of 64 bits, SciPy would copy all numbers to that size.
    starts = starts.astype(np.int32) if len(numbers) < 2**31 else starts
    by_passage = sparse.csr_array(
        (np.ones(len(numbers), np.int32), numbers, starts), shape=(len(lengths), vocabulary)
    )
    by_term = by_passage.tocsc()
    by_term.sum_duplicates()
    smallest = np.min_scalar_type(int(by_term.data.max(initial=0)))
    starts, rows = by_term.indptr.astype(np.int64), by_term.indices.astype(np.int32)
    return starts, rows, by_term.data.astype(smallest)


_ONE_CELL, _JOINTS = re.compile(r"[^\n:;]{1,40}: [^\n]*"), re.compile(r"[\W_]+")


def searched_text(id_: str, title: str, text: str) -> str:
    """What words of a passage are searched for: its title, its text and the kind of a row.

    That is the last word of its file's name: a row of `paid_loans.csv` is a loan.
    """
    file, _, row = id_.partition(":")
    *_, kind = _JOINTS.split(file.rpartition("/")[2].rpartition(".")[0])
    is_row = row and kind.isalpha() and (cells_of(text) or _ONE_CELL.fullmatch(text))
    return "\n".join([title, text, *[kind] * bool(is_row)])
