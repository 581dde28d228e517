"""The probabilities that a passage of a reply is relevant, and that the corpus has an answer.

A route's scores are comparable within one reply only. Here they become probabilities, fitted on
judged questions, some of which their corpus cannot answer. Each probability is a sum of curves on
the logit scale, one for each kind of evidence. A curve never falls, so more evidence never makes a
passage less likely. Evidence needs no further model: it is the route's score and rank, cosines that
are known already, and which words of the question are in the passages.

Names and other words are told apart, since a passage that has only the name does not say what is
asked: "What is the salary of Amira?" is not answered where nothing beside her name fits.

The curves hold only for the encoder and the settings of the arms that they were fitted with.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import chain, filterfalse, pairwise

import numpy as np

from wye.backends.numerics import logistic
from wye.backends.text import (
    cells_of,
    content_terms,
    folded_words,
    german_words,
    looks_foreign,
    title_names,
    words_before_stemming,
    words_of,
)
from wye.backends.types import Float64, Mask, Ranking
from wye.router.asked import (
    MARKS,
    asked_for,
    between_blanks,
    given_without,
    has_piece,
    is_among,
    lacks_cell,
    lacks_date,
    lacks_value,
    says_in_other_words,
    says_who_or_when,
)
from wye.router.errors import ModelFileError
from wye.router.evidence import log_share
from wye.router.types import ABSTAIN_BELOW, FURTHER, SURE_FROM, Route
from wye.router.wording import has_form, having, is_only_codes, read_wording

FIRST = 5  # how many of the first passages are searched for an answer
ASKING_WORDS = frozenset(
    """about again all any anybody anyone away back before being both call called came can come
    could current currently describe done each either else ever every everyone explain find get
    give go goes going gone got had happen happened he her here him his i it its just kind
    latest let lie lies list many may me mean meaning meant might more most much must my need
    never newest no now often one only or other our out own people person please put really said
    say several she should show since some somebody someone still take taken tell thing through
    today too took until up us use used very vs want we went whatever whether whoever without
    would yet you your""".split()  # noqa: SIM905 - words read better as words
)
"""Words of a request, which an answer need not have; the newest of versions need not say so."""
_OF_MAIL = " wrote write written writes sent send sends mailed emailed sender "
"""What a text with the header of a mail says of whoever it is from."""
_YEAR = re.compile(r"(?<![\w./-])(?:1[5-9]|20)\d\d(?![\w/-]|\.\d)")
_DIGRAPH = re.compile("([aou])e")
_NEAR = 0.38  # cosine from which text has something to say to a question without a name
_FOLLOWED, _NEW_WORDS = 0.5, 2  # from this probability and so many words a hop says something
FEW = "few"  # name of the curves for fused lists that were not cut off, as in a small corpus
PASSAGE_EVIDENCE = (
    *("score", "rank", "coverage", "added"),
    *("left", "title", "cosine", "named", "hop"),
)
"""Evidence on one passage: the route's score (for the graph, ln of its share of the best), -ln of
its rank, the share of the question's content words that it has, of those that it has and none above
it, and of those that none above it has (unknown for the first), the share of its title's content
words that the question or a name found by steps has, its cosine, whether one of the first passages
above it names it, and the probability that the name in one of these leads to evidence, if the route
follows names."""
ANSWER_EVIDENCE = (
    *("together", "cosine", "sentence", "beside", "joint"),
    *("row", "text", "number"),
)
"""Evidence on the first passages: the share of the question's content words that they have
together, how far the highest cosine of a passage is above the last of the dense list (above 0 where
that was not fused), the highest cosine of a sentence, the highest share of the words beside the
names in one passage, the same times the share of the names in that passage, the share of the words
beside the names that is said of them (where the first passage is a row with them, and where not;
see `_said_of_names`), and the share of the words with a digit that the passages have together.
Shares are weighted by how rare words are."""


@dataclass(frozen=True, slots=True)
class Curve:
    """What one kind of evidence adds to a logit: linear between knots, constant beyond them."""

    knots: Float64  # rising, (m,)
    values: Float64  # never falling, (m,)
    unknown: float  # what is added where the evidence is missing (NaN)

    def __post_init__(self) -> None:
        if self.knots.ndim != 1 or not len(self.knots) or self.knots.shape != self.values.shape:
            raise ModelFileError("A curve has as many values as knots, and at least one.")
        if (np.diff(self.knots) <= 0).any() or (np.diff(self.values) < 0).any():
            raise ModelFileError("A curve's knots rise and its values never fall.")


@dataclass(frozen=True, slots=True)
class CurveSum:
    """A logit that is a sum of curves."""

    bias: float
    curves: Mapping[str, Curve]  # name of the evidence -> its curve, in the order of the columns

    def __call__(self, evidence: Float64) -> Float64:
        """(n, d) evidence to (n,) probabilities."""
        unknown, logits = np.isnan(evidence.T), np.full(len(evidence), self.bias)
        has_unknown = unknown.any()
        for row, curve in enumerate(self.curves.values()):
            added = np.interp(evidence[:, row], curve.knots, curve.values)
            logits += np.where(unknown[row], curve.unknown, added) if has_unknown else added
        return logistic(logits)


@dataclass(frozen=True, slots=True)
class Judgement:
    """The probabilities of a ranking.

    Attributes:
        relevance: Probability of each hit that a judge would mark it as evidence.
        answerability: Probability that the corpus has an answer; None without a hit.
    """

    relevance: tuple[float, ...] = ()
    answerability: float | None = None


@dataclass(frozen=True, slots=True)
class RelevanceModel:
    """The curves of each route.

    Attributes:
        depth: Hits of each list that were fused. A fused score says how far a passage is above the
            last of them, so it depends on this.
    """

    depth: int
    made_with: str  # digest of what the scores depend on; see `relevance_files.fingerprint`
    passages: Mapping[str, CurveSum]  # route, or `FEW` -> curves for the relevance of a passage
    answers: Mapping[str, CurveSum]  # route, or `FEW` -> curves for the answerability of a question

    def judge(self, rankings: Sequence["RouteRanking"]) -> list[Judgement]:
        """Probabilities of rankings, each with the same bits alone and with others.

        Args:
            rankings: Rankings with at least `FIRST` hits, if there are as many. Those of the routes
                in `FURTHER` get none.
        """
        evidence: dict[int, tuple[str, Evidence]] = {}
        for index, ranking in enumerate(rankings):
            if ranking.ranking.hits and ranking.route not in FURTHER:
                evidence[index] = evidence_on(ranking, self.depth)
        judgements = [Judgement()] * len(rankings)
        for route in {route for route, _ in evidence.values()}:
            of_route = {i: of_one for i, (curves, of_one) in evidence.items() if curves == route}
            passages = np.concatenate([of_one.passages for of_one in of_route.values()])
            relevance = self.passages[route](passages)
            answers = self.answers[route](np.stack([of_one.answer for of_one in of_route.values()]))
            end = 0
            for (index, of_one), answer in zip(of_route.items(), answers.tolist(), strict=True):
                begin, end = end, end + len(of_one.passages)
                sure = np.where(of_one.has_codes, SURE_FROM, 0.0)
                of_passages = tuple(np.maximum(relevance[begin:end], sure).tolist())
                bounded = min(max(answer, of_one.least), of_one.most)
                if bounded < ABSTAIN_BELOW and of_one.is_said_otherwise():
                    bounded = ABSTAIN_BELOW
                judgements[index] = Judgement(of_passages, bounded)
        return judgements


@dataclass(frozen=True, slots=True)
class RouteRanking:
    """A ranking to be judged.

    Attributes:
        sentences: The highest cosine of a sentence of each of the first hits; empty if not known.
        weights: Inverse document frequencies of the question's terms; without one, terms count the
            same.
        hops: Id of a passage that a name of another leads to -> probability that it is evidence.
        says: Of a name and the text of its row, `asked.says_by_label`; None if that cannot tell.
    """

    question: str
    route: Route  # the route that made it
    ranking: Ranking
    texts: Sequence[tuple[str, str]]  # title and text of each hit
    dense: Ranking | None = None  # the dense list, if it was fused with others
    sentences: Sequence[float] = ()
    weights: Mapping[str, float] = field(default_factory=dict)
    names: Sequence[str] = ()  # names that steps put into the question
    hops: Mapping[str, float] = field(default_factory=dict)
    says: Callable[[str, str], bool] | None = None


def likely(
    ranking: Ranking, relevance: tuple[float, ...], least: float, k: int
) -> tuple[Ranking, tuple[float, ...]]:
    """The first k hits whose relevance is at least `least`, with their relevance."""
    if not least:
        whole = len(ranking.hits) <= k
        return ranking if whole else replace(ranking, hits=ranking.hits[:k]), relevance[:k]
    pairs = zip(ranking.hits, relevance, strict=True)
    relevant = [(hit, value) for hit, value in pairs if value >= least][:k]
    hits = tuple(hit._replace(rank=rank) for rank, (hit, _) in enumerate(relevant, start=1))
    return replace(ranking, hits=hits), tuple(value for _, value in relevant)


def evidence_on(ranking: RouteRanking, depth: int) -> tuple[str, "Evidence"]:
    """The name of the curves that judge a ranking, and the evidence that they take.

    If the lists were not cut off at the depth (few passages, a filter, more hits wanted), fused
    scores have another zero than elsewhere. Such a ranking has curves of its own, whose scores are
    cosines.
    """
    route, scores = ranking.route, ranking.ranking.scores
    if route == Route.DENSE:
        return route, Evidence(ranking, scores, scores)
    curves, furthest = str(route), 0.0
    of_hits = ({each.retriever: each.score for each in hit.sources} for hit in ranking.ranking.hits)
    cosines = np.array([by_arm.get(Route.DENSE, math.nan) for by_arm in of_hits])
    if route == Route.GRAPH:
        scores = log_share(scores, scores[0])
    elif route != Route.LEXICAL:
        if not ranking.ranking.candidates > depth >= len(scores):
            curves, scores = FEW, cosines
        if ranking.dense and ranking.dense.hits:
            # A passage that the dense list lacks is at most as near as the last one that it has.
            furthest = float(ranking.dense.scores[:depth][-1])
            cosines = np.where(np.isnan(cosines), furthest, cosines)
    return curves, Evidence(ranking, scores, cosines, furthest)


class Evidence:
    """Evidence on the passages of a ranking.

    Attributes:
        passages: (n, d), columns as in `PASSAGE_EVIDENCE`.
        answer: (d,), as in `ANSWER_EVIDENCE`.
        has_codes: (n,) whether the question is codes alone and a passage has them all.
        least: Answerability at least, whatever the curves say: a question is never called absent
            while one of the first passages has all of its words, or is near it and it has no name,
            or while the first has the code that it asks who or when of, or a row of its title says
            in other words what it asks, or it leads to what does; it is answered where it is codes
            alone and one has them.
        most: Answerability at most: a question is called absent where the first passages have none
            of its codes, which the wording would have put there, lack a year that it names, or are
            led by a row with its names of which nothing else that it says is said, unless it asks
            who and the row has a person's name. It is never surely answered where those with most
            of its words have no value of the kind that it asks for, where none has the noun or verb
            by which it asks, or the first row has no cell of the column that it asks for.
    """

    def __init__(
        self, ranking: RouteRanking, scores: Float64, cosines: Float64, furthest: float = 0.0
    ) -> None:
        """Compare the t content words of a question with those of its passages.

        Args:
            scores: Scores (n,) by the route; NaN if not known.
            cosines: Cosines (n,) of the passages; NaN if not known.
            furthest: Cosine of the last passage of the dense list; 0 if it was not fused.
        """
        self._ranking, texts, question = ranking, ranking.texts, ranking.question
        every = sorted({*content_terms(question)})
        self._german = german_words(question)  # in which nouns have capitals as names do
        asking = ASKING_WORDS | self._german
        self._terms = terms = [term for term in every if term not in asking] or every
        self._weights = np.array([ranking.weights.get(term, 1.0) for term in terms])
        heads = [between_blanks(title) for title, _ in texts]
        bodies = [between_blanks(text) + _OF_MAIL * text.startswith("From: ") for _, text in texts]
        self._whole = whole = [head + body for head, body in zip(heads, bodies, strict=True)]
        self._cells = [cells_of(text) for _, text in texts[:FIRST]]
        forms = [[f" {word} " for word in words_of(term)] for term in terms]
        rows = [[any(map(text.__contains__, of_term)) for of_term in forms] for text in whole]
        self._has_term = np.array(rows, bool).reshape(len(texts), len(terms))
        self._codes = read_wording(question).codes
        self._has_code = having(self._codes, texts)
        is_codes = is_only_codes(question, terms, self._codes)
        self.has_codes: Mask = np.atleast_1d(self._has_code.all(axis=1) & is_codes)
        self.passages = self._on_passages(scores, cosines, _named_above(texts, bodies))
        self._first = first = self._first_in_any_form()
        together: Mask = np.atleast_1d(first.any(axis=0))
        is_name = self._are_names(together)
        # Who asks for a name or a code alone wants what has it.
        named, beside = self._weights * is_name, self._weights * (~is_name | is_name.all())
        rest = _share(first, beside)
        joint = rest * _share(first, named) if named.any() else rest
        of_row, of_text = self._said_of_names(first, is_name)
        answer = [
            _share(together[None], self._weights)[0] if terms else 0.0,
            np.fmax.reduce(cosines[:FIRST]) - furthest,
            max(ranking.sentences[:FIRST], default=math.nan),
            *map(np.fmax.reduce, (rest, joint)),
            *(of_row, of_text),
            _share(together[None], self._weights * [not term.isalpha() for term in terms])[0],
        ]
        self.answer: Float64 = np.array(answer)
        has_code = bool(self._has_code[:1].any())
        is_said = (has_code or of_row == 0) and says_who_or_when(*texts[0], question)
        same = [text for title, text in texts[:FIRST] if title == texts[0][0] != ""]
        says = any(says_in_other_words(question, text) for text in same or [texts[0][1]])
        says_so = says and (has_code or of_row == 0)
        says_so |= of_row == 0 and self._is_followed(first & ~is_name)
        big = {*content_terms(" ".join(filter(str.istitle, question.split()[1:])))}
        is_big = np.array([term in big for term in terms], bool)
        has_name = is_name.any() or is_big.sum() > 1 or (is_big & together).any()
        cosine = np.fmax.reduce([*cosines[:FIRST], *ranking.sentences[:FIRST]])
        is_near = cosine >= _NEAR and not has_name
        is_there = says_so or is_near or (has_code and is_said)
        is_there |= bool(terms and self._has_term[:FIRST].all(axis=1).any())
        self.least = SURE_FROM if self.has_codes[:FIRST].any() else ABSTAIN_BELOW * bool(is_there)
        self._leads = any(self._cells[:1]) and (has_code or not math.isnan(of_row))
        self.most = self._most(row_says_nothing=of_row == 0 and not is_said and not says_so)

    def _on_passages(self, scores: Float64, cosines: Float64, named: Float64) -> Float64:
        """The columns of `PASSAGE_EVIDENCE`."""
        ranking, has_term, weights = self._ranking, self._has_term, self._weights
        share = _share(has_term, weights) if self._terms else np.zeros(len(has_term))
        ranks = -np.log(np.arange(1.0, len(has_term) + 1))
        is_new = ~np.logical_or.accumulate(has_term, axis=0)[:-1]  # to each but the first
        is_new = np.concatenate([np.ones((1, len(weights)), bool), is_new])
        added, left = _share(has_term & is_new, weights), _share(is_new, weights)
        left[:1] = np.nan
        known = {*content_terms(ranking.question), *content_terms(" ".join(ranking.names))}
        about = _named_shares([title for title, _ in ranking.texts], known)
        hops = [ranking.hops.get(id_, 0.0) for id_ in ranking.ranking.ids()]
        return np.column_stack([scores, ranks, share, added, left, about, cosines, named, hops])

    def _first_in_any_form(self) -> Mask:
        """(m, t) which words the first passages have, in other forms or as parts of codes, too."""
        first = self._has_term[:FIRST].copy()
        for column in np.flatnonzero(~first.all(axis=0)).tolist():
            term, rows = self._terms[column], np.flatnonzero(~first[:, column]).tolist()
            if self._german:
                term = _DIGRAPH.sub(r"\1", term)
            if has_form(term, "".join([self._whole[row] for row in rows])):
                first[rows, column] = [has_form(term, self._whole[row]) for row in rows]
        for number, code in enumerate(self._codes):
            of_code = np.isin(self._terms, content_terms(code.text))
            first |= self._has_code[:FIRST, number, None] & of_code
        return first

    def _is_followed(self, has_word: Mask) -> bool:
        """Whether a passage that a name of the first row leads to has words that the row lacks."""
        hops = [self._ranking.hops.get(id_, 0.0) for id_ in self._ranking.ranking.ids(FIRST)]
        new: Mask = has_word & ~has_word[:1]
        return any(new[np.array(hops) >= _FOLLOWED].sum(axis=1) >= _NEW_WORDS)

    def is_said_otherwise(self) -> bool:
        """Whether the first row has a name of the question and says by a label what is asked.

        Or a passage that shares a word with the question is in another language than English.
        """
        says, texts = self._ranking.says, self._ranking.texts[:FIRST]
        if self._is_strange:
            return False
        if says and self._leads:
            codes = (c.text for c, has in zip(self._codes, self._has_code[0], strict=True) if has)
            if says(next(codes, texts[0][0]), texts[0][1]):
                return True
        sharing = np.flatnonzero(self._first.any(axis=1)).tolist()
        return any(looks_foreign(texts[row][1]) for row in sharing)

    def _most(self, *, row_says_nothing: bool) -> float:
        """Answerability at most, where the first row says nothing of its names, or something."""
        texts, question = self._ranking.texts, self._ranking.question
        is_spelt = np.array([bool(code.parts) for code in self._codes], bool)  # no number, no day
        is_strange = bool(is_spelt.any() and not self._has_code[:FIRST, is_spelt].any())
        written = " ".join((*self._whole[:FIRST], *self._ranking.ranking.ids(FIRST)))
        self._is_strange = is_strange or any(y not in written for y in _YEAR.findall(question))
        if row_says_nothing or self._is_strange:
            return math.nextafter(ABSTAIN_BELOW, 0)
        counts = self._has_term[:FIRST].sum(axis=1)
        rows = np.flatnonzero(counts == counts.max(initial=0)).tolist()
        lacks = bool(rows) and lacks_value(question, [" ".join(texts[row]) for row in rows])
        ids = self._ranking.ranking.ids(FIRST)
        asked = {*content_terms(asked_for(question))} & {*self._terms, "own"}
        said = [*" ".join(self._whole[:FIRST]).split(), *folded_words(" ".join(ids))]
        lacks |= not all(is_among(term, said) for term in asked)
        lacks |= lacks_cell(question, ids, self._cells)
        first = (*map(" ".join, texts[:FIRST]), *ids)
        return math.nextafter(SURE_FROM, 0) if lacks or lacks_date(question, first) else 1.0

    def _said_of_names(self, first: Mask, is_name: Mask) -> tuple[float, float]:
        """The share of what the question says beside its names that passages say of these.

        That is what passages with all of the names have, or passages whose title is in these: "the
        phone of the keeper of K-17". The row of a table says with its labels and its file's name
        all that it is about, while text may use other words, so rows are evidence of their own.
        Words just before the name of a row, as in "the yacht Saffron", or its code belong to it.

        Args:
            first: (m, t) which of the first passages have which words.
            is_name: (t,) which words are names.

        Returns:
            The share if the first passage is a row with the names, and if not. The other is NaN, or
            both are: where there is no name, no passage with the names, or no word beside these.
        """
        if not is_name.any():
            return math.nan, math.nan
        ranking, texts, has_term = self._ranking, self._ranking.texts[:FIRST], first.copy()
        of_rows = []
        for id_, cells in zip(ranking.ranking.ids(FIRST), self._cells, strict=True):
            labels = (word for label, _ in cells for word in folded_words(label))
            of_file, abbreviations = content_terms(id_), tuple(w for w in labels if len(w) > 2)
            of_rows.append([t in of_file or t.startswith(abbreviations) for t in self._terms])
        has_term |= np.array(of_rows)
        holders: Mask = np.atleast_1d(has_term[:, is_name].all(axis=1))
        if not holders.any():
            return math.nan, math.nan
        without = {*content_terms(" ".join(given_without(ranking.question)))}
        rest: Mask = np.logical_and(~is_name, [term not in without for term in self._terms])
        is_row = bool(holders[0] and self._cells[0])
        of_codes = content_terms(" ".join(code.text for code in self._codes))
        for at, (before, number) in reversed([*enumerate(pairwise(self._order()))] * is_row):
            if min(before, number) >= 0 and not rest[number]:
                is_kind = at and self._terms[number] in of_codes
                rest[before] &= not (is_kind or (has_term[:, before] & has_term[:, number]).any())
        held = [text for (_, text), holds in zip(texts, holders, strict=True) if holds]
        holders |= [bool(title) and any(title in text for text in held) for title, _ in texts]
        said: Mask = np.atleast_1d(has_term[holders].any(axis=0))
        share = float(_share(said[None], self._weights * rest)[0])
        return (share, math.nan) if is_row else (math.nan, share)

    def _order(self) -> list[int]:
        """Number of each word in the order of the question; -1 for other words and for marks."""
        number_of = {form: n for n, term in enumerate(self._terms) for form in words_of(term)}
        return [
            number_of.get(word, -1)
            for piece in self._ranking.question.split()
            for word in (*words_before_stemming(piece), *filter(MARKS.count, piece[-1]))
        ]

    def _are_names(self, together: Mask) -> Mask:
        """(t,) which words are names: some of the first passages have them, and all as names.

        A word is no name where a passage writes it with a small letter, except in an address, or
        labels the cell of a row with it, nor where only this word of a question lacks a capital.

        Args:
            together: (t,) which words any of the first passages has.
        """
        labels = (label.lower() for cells in self._cells for label, _ in cells)
        parts = [*chain.from_iterable(self._ranking.texts[:FIRST]), *labels]
        rest = self._ranking.question.split()[1:]
        if any(piece[:1].isupper() for piece in rest):
            parts += words_before_stemming(" ".join(filter(str.islower, rest)))
        pieces = " ".join(parts).split()
        text = " ".join(["", *pieces, ""])
        beyond_ascii = () if text.isascii() else {*filterfalse(str.isascii, pieces)}
        small = {
            word
            for piece in (each.strip(MARKS) for each in beyond_ascii)
            if piece.isalpha() and piece[0].islower()
            for word in words_before_stemming(piece)
        }
        are_big = together.copy()
        for number in np.flatnonzero(together).tolist():
            term, forms = self._terms[number], words_of(self._terms[number])
            is_small = self._german or any(has_piece(form, text) for form in forms)
            are_big[number] = not (term.isalpha() and is_small) and small.isdisjoint(forms)
        return are_big


def _share(has_term: Mask, weights: Float64) -> Float64:
    """(n,) the share of the weights of the terms that each row has; NaN if they are all 0."""
    total = weights.sum()
    return has_term @ weights / total if total > 0 else np.full(len(has_term), np.nan)


def _named_shares(titles: Sequence[str], known: Set[str]) -> Float64:
    """(n,) the share of the content words of each passage's title that are known; NaN without."""
    heads = [set(content_terms(title)) for title in titles]
    return np.array([len(head & known) / len(head) if head else np.nan for head in heads], float)


def _named_above(texts: Sequence[tuple[str, str]], bodies: Sequence[str]) -> Float64:
    """(n,) 1 where one of the first passages above a passage has its title in its text, else 0.

    Args:
        bodies: The texts as of `between_blanks`.
    """
    named = np.zeros(len(texts))
    for row, (title, _) in enumerate(texts):
        name = between_blanks("".join(title_names(title)[-1:]))
        named[row] = name != " " and any(name in body for body in bodies[: min(row, FIRST)])
    return named
