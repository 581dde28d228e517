"""The probabilities that a passage of a reply is relevant, and that the corpus has an answer.

A route's scores are comparable within one reply only. Here they become probabilities, fitted on
judged questions, some of which their corpus cannot answer. Each probability is a sum of curves on
the logit scale, one for each kind of evidence. A curve never falls, so more evidence never makes a
passage less likely. Evidence needs no further model: it is the route's score and rank, cosines that
are known already, and which words of the question are in the passages.

The curves hold only for the encoder and the settings of the arms that they were fitted with.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from wye.backends.numerics import logistic
from wye.backends.text import content_terms, title_names
from wye.backends.types import Float64, Ranking
from wye.router.bounds import bounded
from wye.router.errors import ModelFileError
from wye.router.evidence import log_share
from wye.router.match import FIRST, QuestionMatch, RouteRanking, share_of
from wye.router.types import FURTHER, SURE_FROM, Route
from wye.router.wording import between_blanks

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
beside the names that is said of them (`shares_beside_names`: where the first passage is a row
with them, and where not), and the share of the words with a digit that the passages have together.
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

    def judge(self, rankings: Sequence[RouteRanking]) -> list[Judgement]:
        """Probabilities of rankings with `FIRST` hits or all there are; none in `FURTHER`."""
        return [*map(self._judgement, rankings)]

    def _judgement(self, ranking: RouteRanking) -> Judgement:
        if not ranking.ranking.hits or ranking.route in FURTHER:
            return Judgement()
        evidence = evidence_on(ranking, self.depth)
        relevance = self.passages[evidence.curves](evidence.passages)
        (answer,) = self.answers[evidence.curves](evidence.answer[None]).tolist()
        sure = np.where(evidence.match.has_all_codes, SURE_FROM, 0.0)
        of_passages = tuple(np.maximum(relevance, sure).tolist())
        return Judgement(of_passages, bounded(answer, evidence.match))


@dataclass(frozen=True, slots=True)
class Evidence:
    """Evidence on the passages of a ranking."""

    curves: str  # name of the curves that judge it: the route's, or `FEW`
    passages: Float64  # (n, d), columns as in `PASSAGE_EVIDENCE`
    answer: Float64  # (d,), as in `ANSWER_EVIDENCE`
    match: QuestionMatch  # what the passages have of the question


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


def evidence_on(ranking: RouteRanking, depth: int) -> Evidence:
    """The evidence on a ranking.

    If the lists were not cut off at the depth (few passages, a filter, more hits wanted), fused
    scores have another zero than elsewhere. Such a ranking has curves of its own, whose scores are
    cosines.
    """
    route, scores = ranking.route, ranking.ranking.scores
    curves, furthest = str(route), 0.0
    of_hits = ({each.retriever: each.score for each in hit.sources} for hit in ranking.ranking.hits)
    cosines = np.array([by_arm.get(Route.DENSE, math.nan) for by_arm in of_hits])
    if route == Route.DENSE:
        cosines = scores
    elif route == Route.GRAPH:
        scores = log_share(scores, scores[0])
    elif route != Route.LEXICAL:
        if not ranking.ranking.candidates > depth >= len(scores):
            curves, scores = FEW, cosines
        if ranking.dense and ranking.dense.hits:
            # A passage that the dense list lacks is at most as near as the last one that it has.
            furthest = float(ranking.dense.scores[:depth][-1])
            cosines = np.where(np.isnan(cosines), furthest, cosines)
    match = QuestionMatch.of(ranking, cosines)
    return Evidence(curves, _on_passages(match, scores), _on_answer(match, furthest), match)


def _on_passages(match: QuestionMatch, scores: Float64) -> Float64:
    """The columns of `PASSAGE_EVIDENCE`, with the scores (n,) of the route."""
    source, has_term, weights = match.source, match.has_term, match.weights
    share = share_of(has_term, weights) if match.terms else np.zeros(len(has_term))
    ranks = -np.log(np.arange(1.0, len(has_term) + 1))
    is_new = ~np.logical_or.accumulate(has_term, axis=0)[:-1]  # to each but the first
    is_new = np.concatenate([np.ones((1, len(weights)), bool), is_new])
    added, left = share_of(has_term & is_new, weights), share_of(is_new, weights)
    left[:1] = np.nan
    known = {*content_terms(source.question), *content_terms(" ".join(source.names))}
    heads = [set(content_terms(title)) for title, _ in source.texts]
    title = [len(head & known) / len(head) if head else np.nan for head in heads]
    named = _named_above(source.texts, match.bodies)
    hops = [source.hops.get(id_, 0.0) for id_ in source.ranking.ids()]
    return np.column_stack([scores, ranks, share, added, left, title, match.cosines, named, hops])


def _on_answer(match: QuestionMatch, furthest: float) -> Float64:
    """The columns of `ANSWER_EVIDENCE`, with the cosine at the end of a dense list, or 0."""
    first, together, weights = match.has_any_form, match.together, match.weights
    # Who asks for a name or a code alone wants what has it.
    named, beside = (weights * of for of in (match.is_name, ~match.is_name | match.is_name.all()))
    rest = share_of(first, beside)
    joint = rest * share_of(first, named) if named.any() else rest
    columns = [
        share_of(together[None], weights)[0] if match.terms else 0.0,
        np.fmax.reduce(match.cosines[:FIRST]) - furthest,
        max(match.source.sentences[:FIRST], default=math.nan),
        *map(np.fmax.reduce, (rest, joint)),
        *match.shares_beside_names,
        share_of(together[None], weights * [not term.isalpha() for term in match.terms])[0],
    ]
    return np.array(columns)


def _named_above(texts: Sequence[tuple[str, str]], bodies: Sequence[str]) -> Float64:
    """(n,) 1 where one of the first passages above a passage has its title in its body, else 0."""
    named = np.zeros(len(texts))
    for row, (title, _) in enumerate(texts):
        name = between_blanks("".join(title_names(title)[-1:]))
        named[row] = name != " " and any(name in body for body in bodies[: min(row, FIRST)])
    return named
