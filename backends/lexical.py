"""BM25 weights as bm25s computes them, for all passages at once instead of one after the other."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import bm25s
import numpy as np
from bm25s.scoring import _select_idf_scorer, _select_tfc_scorer
from scipy import sparse

from backends.numerics import RequestError, make_ranking, ragged, require_k, require_mask, top_rows
from backends.types import Float32, Int32, Int64, Mask, Query, Ranking
from backends.words import Words


def weigh(model: bm25s.BM25, terms: Int32, lengths: Int32, vocabulary: int) -> bm25s.BM25:
    """Give a model the weights that its `index` would compute, bit for bit.

    bm25s scores single passages in a loop, which is most of the time of indexing where the terms
    are known already; its formulas are used here as they are.

    Args:
        model: With its parameters set.
        terms: (m,) numbers of the terms of n passages, end to end, repeats kept.
        lengths: (n,) terms of each passage.
        vocabulary: Numbers that there are; each occurs.
    """
    ends = np.cumsum(lengths, dtype=np.int64)
    counts = sparse.csr_array(
        (np.ones(len(terms), np.float32), terms, np.concatenate([[0], ends])),
        shape=(len(lengths), vocabulary),
    )
    counts.sum_duplicates()
    by_term = counts.tocsc()
    by_term.sort_indices()
    passages = np.diff(by_term.indptr)
    idf_of, tfc_of = _select_idf_scorer(model.idf_method), _select_tfc_scorer(model.method)
    known, place = np.unique(passages, return_inverse=True)
    idf = np.array([idf_of(int(df), N=len(lengths)) for df in known], model.dtype)[place]
    tfc = tfc_of(
        tf_array=by_term.data,
        l_d=lengths[by_term.indices].astype(np.float64),
        l_avg=lengths.mean(),
        k1=model.k1,
        b=model.b,
        delta=model.delta,
    )
    model.nonoccurrence_array = None
    model.scores = {
        "data": (np.repeat(idf, passages) * tfc).astype(model.dtype),
        "indices": by_term.indices.astype(np.int32),
        "indptr": by_term.indptr.astype(np.int64),
        "num_docs": len(lengths),
    }
    return model


# Lexical retrieval: passages by BM25, through bm25s.
#
# Lance's own full-text index would be the other choice. It takes in a small change three times
# sooner, but answers twenty times later, and its scores depend on how the rows came in: the same
# content, written in another order, would not give the same answer.


# Chinese characters and Japanese kana are written without spaces: each is a word of its own.
_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")
_POSSESSIVE = re.compile(r"(?<=\w)['\u2019]s\b")

_STOPWORDS = """
    a an and are as at be been being between both but by did do does for from had has have how if
    in into is it no not of on or same such than that the their then there these they this to was
    were what when where which who whom whose why will with
"""
STOPWORDS = tuple(_STOPWORDS.split())
"""English function and question words. Question words are nearly absent from passages, so that
their idf is high, and say nothing about the subject: leaving them out raises every measure."""

NO_TERM = "no term of the question occurs in the corpus"


@dataclass(frozen=True, slots=True)
class LexicalSettings:
    """How text becomes terms, and terms become scores.

    The defaults were chosen on the train and dev questions of five data sets. The Snowball
    stemmer was no better there than the three plural rules of "s", and needs one more dependency.

    Attributes:
        k1: Saturation of term frequency; at least 0.
        b: Share of length normalisation, 0 to 1.
        method: Variant of BM25 as named by Kamphuis et al. (ECIR 2020).
        stemmer: "s" takes plural endings off (Harman 1991); "none" leaves words as they are.
        stopwords: Words left out of passages and questions, in the form `terms` gives them
            before stemming.
    """

    k1: float = 0.9
    b: float = 0.4
    method: Literal["lucene", "robertson", "atire"] = "lucene"
    stemmer: Literal["s", "none"] = "s"
    stopwords: tuple[str, ...] = STOPWORDS

    def __post_init__(self) -> None:
        if self.k1 < 0 or not 0 <= self.b <= 1:
            raise RequestError(
                f"BM25 with k1={self.k1} and b={self.b} is undefined. Use k1 >= 0 and 0 <= b <= 1."
            )
        if self.method not in ("lucene", "robertson", "atire"):
            raise RequestError(
                f"There is no BM25 variant {self.method!r} here. Choose lucene, robertson or atire."
            )
        if self.stemmer not in ("s", "none"):
            raise RequestError(f"There is no stemmer {self.stemmer!r}. Choose s or none.")


class LexicalRetriever:
    """The lexical arm over one version of the index.

    Only passages with a score above 0 are returned: a passage that shares no term with the
    question is no answer to it. `candidates` counts those of them that the filter allows. A term
    that a question repeats counts as often as it is repeated.
    """

    name = "lexical"

    def __init__(
        self,
        ids: Sequence[str],
        texts: Iterable[str],
        settings: LexicalSettings | None = None,
        after: "tuple[LexicalRetriever, Int64] | None" = None,
    ) -> None:
        """Tokenise and weigh a corpus; reads the texts once, in order.

        Args:
            ids: n passage ids in ascending order.
            texts: What to match of each passage (title and text), in the order of the ids.
            settings: The defaults when left out.
            after: A retriever of an earlier version with the same settings, and (n,) where each
                passage lies when those of `texts` are laid behind the earlier version's. Only what
                is new has to be read then; the rankings are the same.

        Raises:
            RequestError: There are not as many texts as ids.
        """
        self.ids = ids
        self.settings = settings or LexicalSettings()
        self._stopwords = frozenset(self.settings.stopwords)
        self._words: Words = Words() if after is None else after[0]._words
        read = [self._number(text) for text in texts]
        self._terms = np.concatenate([np.empty(0, np.int32), *read])
        self._lengths = np.array([len(passage) for passage in read], np.int32)
        if after is not None:
            self._follow(*after)
        if len(self._lengths) != len(ids):
            raise RequestError(
                f"{len(ids)} passage ids came with {len(self._lengths)} texts. "
                "Give one text per id."
            )
        # Numbers without a gap, for the terms that occur in this version.
        self._columns = np.full(len(self._words), -1, np.int32)
        occurring = np.flatnonzero(np.bincount(self._terms, minlength=len(self._words)))
        self._columns[occurring] = np.arange(len(occurring), dtype=np.int32)
        self._model = bm25s.BM25(
            k1=self.settings.k1, b=self.settings.b, method=self.settings.method, backend="numpy"
        )
        self._vocabulary = len(occurring)
        if self._vocabulary:  # the mean length is 0 without a single term
            weigh(self._model, self._columns[self._terms], self._lengths, self._vocabulary)

    @property
    def is_worn(self) -> bool:
        """Whether a later version is better read from nothing, since most terms are out of use."""
        return self._words.are_worn(self._terms)

    @property
    def index_bytes(self) -> int:
        """Memory of the term weights and of the vocabulary; 0 for a corpus without a term."""
        if not self._vocabulary:
            return 0
        weights = sum(
            int(self._model.scores[part].nbytes) for part in ("data", "indices", "indptr")
        )
        terms = self._terms.nbytes + self._lengths.nbytes + self._columns.nbytes
        return weights + terms + self._words.bytes

    def search(
        self, queries: Sequence[Query], k: int, allowed: Mask | None = None
    ) -> list[Ranking]:
        """At most k passages for each question, by BM25 score.

        Args:
            queries: b questions; only their text is read.
            k: At least 1.
            allowed: (n,) mask over the passages, or None for all. It removes passages and does
                not change the scores of the others.

        Raises:
            RequestError: k is below 1, or the mask does not fit this index.
        """
        require_k(k)
        require_mask(allowed, len(self.ids))
        return [self._rank(query.text, k, allowed) for query in queries]

    def scores(self, queries: Sequence[Query]) -> Float32:
        """BM25 of every passage for every question; 0 where no term is shared.

        Args:
            queries: b questions; only their text is read.

        Returns:
            (n, b) float32.
        """
        columns = np.zeros((len(queries), len(self.ids)), dtype=np.float32)
        for query, column in zip(queries, columns, strict=True):
            known = self._known(query.text)
            if known:
                column[:] = self._model.get_scores_from_ids(known)
        return columns.T

    def _rank(self, text: str, k: int, allowed: Mask | None) -> Ranking:
        known = self._known(text)
        if not known:
            return Ranking(self.name, (), 0, NO_TERM)
        scores = self._model.get_scores_from_ids(known)
        matching = scores > 0 if allowed is None else (scores > 0) & allowed
        rows = np.flatnonzero(matching)
        best = rows[top_rows(scores[rows], k)]
        return make_ranking(self.name, self.ids, best, scores[best], candidates=len(rows))

    def _known(self, text: str) -> list[int]:
        """Numbers of the terms of a question that occur in the corpus, repeats kept."""
        found = terms(text, self.settings.stemmer, self._stopwords)
        numbers = [self._words.find(term) for term in found]
        # A later version may have numbered further words since.
        columns = [self._columns[n] for n in numbers if 0 <= n < len(self._columns)]
        return [int(column) for column in columns if column >= 0]

    def _number(self, text: str) -> Int32:
        """Numbers of a passage's terms, new terms taking the next number."""
        found = terms(text, self.settings.stemmer, self._stopwords)
        return np.array([self._words.number(term) for term in found], np.int32)

    def _follow(self, before: "LexicalRetriever", source: Int64) -> None:
        """Lay what was read behind an earlier version's terms, and put all of it in order."""
        terms = np.concatenate([before._terms, self._terms])
        lengths = np.concatenate([before._lengths, self._lengths])
        self._terms = terms[ragged(lengths, source)]
        self._lengths = lengths[source]


def terms(text: str, stemmer: str = "s", stopwords: frozenset[str] = frozenset()) -> list[str]:
    """Terms of a text in order, repeats kept.

    Compatibility forms are unified (NFKD), case and accents folded away and a possessive 's
    dropped. Words are runs of letters and digits, so that an identifier falls apart at its
    underscores; a Chinese character or a kana is a word of its own. Emoji and punctuation are not
    words.

    Args:
        text: Any string, also an empty one.
        stemmer: "s" or "none".
        stopwords: Left out, compared before stemming.
    """
    words = _WORD.findall(_POSSESSIVE.sub("", _fold(text)))
    kept = [word for word in words if word not in stopwords] if stopwords else words
    return [_singular(word) for word in kept] if stemmer == "s" else kept


def _fold(text: str) -> str:
    if text.isascii():
        return text.lower()
    plain = unicodedata.normalize("NFKD", text).casefold()
    return plain.translate(_WITHOUT_MARKS)


class _WithoutMarks(dict[int, int | None]):
    """Every character as it is, combining marks as nothing; filled on first use."""

    def __missing__(self, code: int) -> int | None:
        kept = None if unicodedata.combining(chr(code)) else code
        self[code] = kept
        return kept


_WITHOUT_MARKS = _WithoutMarks()


def _singular(word: str) -> str:
    """The S stemmer: the first rule whose ending fits decides (Harman 1991, table 1)."""
    if len(word) <= 3 or word[-1] != "s":
        return word
    if word.endswith("ies"):
        return word if word[-4] in "ae" else word[:-3] + "y"
    if word.endswith("es"):
        return word if word[-3] in "aeo" else word[:-1]
    return word if word[-2] in "us" else word[:-1]
