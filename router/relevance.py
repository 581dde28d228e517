"""The probabilities that a passage of a reply is relevant, and that the corpus has an answer.

A route's scores are comparable within one reply only. Here they become probabilities, fitted on
judged questions, some of which their corpus cannot answer. Each probability is a sum of curves on
the logit scale, one for each kind of evidence. A curve never falls, so more evidence never makes a
passage less likely. Evidence needs no further model: it is the route's score and rank, the cosine
if the dense list has the passage too, and which words of the question are in the passage and in
its title.

The curves hold only for the encoder and the settings of the arms that they were fitted with.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from wye.backends.files import canonical_json
from wye.backends.numerics import logistic
from wye.backends.text import content_terms, forms, occurrences
from wye.backends.types import Float64, RankedHit, Ranking
from wye.router.errors import ModelFileError
from wye.router.evidence import log_share
from wye.router.settings import Settings
from wye.router.types import FURTHER, USUAL, FusedHit, Route

FORMAT = 2
RELEVANCE = "relevance.json"
"""Name of a model's file."""
ABSTAIN_BELOW = 0.1
"""Below this answerability no answer is given, unless the caller sets another bound."""
FIRST = 5
"""How many of the first passages are searched for an answer."""
PASSAGE_EVIDENCE = ("score", "rank", "coverage", "title", "cosine")
"""Evidence on one passage: the route's score (for the graph, ln of its share of the best), -ln of
its rank, the share of the question's content words that it has, the share of its title's content
words that the question has, and its cosine."""
ANSWER_EVIDENCE = ("score", "coverage", "together", "title", "cosine")
"""Evidence on the first passages: the first one's score, the highest coverage, the share of the
question's content words that they have together, the highest title share, and the highest
cosine."""

_PARTS = {"passages": PASSAGE_EVIDENCE, "answers": ANSWER_EVIDENCE}


@dataclass(frozen=True, slots=True)
class Curve:
    """What one kind of evidence adds to a logit: linear between knots, constant beyond them.

    Attributes:
        knots: Rising, (m,).
        values: Never falling, (m,).
        unknown: What is added where the evidence is missing (NaN).
    """

    knots: Float64
    values: Float64
    unknown: float

    def __post_init__(self) -> None:
        if self.knots.ndim != 1 or not len(self.knots) or self.knots.shape != self.values.shape:
            raise ModelFileError("A curve has as many values as knots, and at least one.")
        if (np.diff(self.knots) <= 0).any() or (np.diff(self.values) < 0).any():
            raise ModelFileError("A curve's knots rise and its values never fall.")

    def __call__(self, evidence: Float64) -> Float64:
        """(n,) evidence to (n,) logits."""
        logits = np.interp(evidence, self.knots, self.values)
        return np.where(np.isnan(evidence), self.unknown, logits)


@dataclass(frozen=True, slots=True)
class CurveSum:
    """A logit that is a sum of curves.

    Attributes:
        curves: Name of the evidence -> its curve, in the order of the columns.
    """

    bias: float
    curves: Mapping[str, Curve]

    def __call__(self, evidence: Float64) -> Float64:
        """(n, d) evidence to (n,) probabilities."""
        logits = np.full(len(evidence), self.bias)
        for curve, column in zip(self.curves.values(), evidence.T, strict=True):
            logits += curve(column)
        return logistic(logits)


@dataclass(frozen=True, slots=True)
class Judgement:
    """The probabilities of a ranking.

    Attributes:
        relevance: Probability of each hit that it is relevant.
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
        made_with: Digest of what the scores depend on; see `fingerprint`.
        passages: Route -> curves for the relevance of a passage.
        answers: Route -> curves for the answerability of a question.
    """

    depth: int
    made_with: str
    passages: Mapping[str, CurveSum]
    answers: Mapping[str, CurveSum]

    def judge(self, rankings: Sequence["RouteRanking"]) -> list[Judgement]:
        """Probabilities of rankings, each with the same bits alone and with others.

        Args:
            rankings: Rankings with at least `FIRST` hits, if there are as many. Those of the routes
                in `FURTHER` get none.
        """
        evidence: dict[int, tuple[Route, Evidence]] = {}
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
                judgements[index] = Judgement(tuple(relevance[begin:end].tolist()), answer)
        return judgements


@dataclass(frozen=True, slots=True)
class RouteRanking:
    """A ranking to be judged.

    Attributes:
        route: The route that made it.
        texts: Title and text of each hit.
        dense: The dense list, if it was fused with others.
    """

    question: str
    route: Route
    ranking: Ranking
    texts: Sequence[tuple[str, str]]
    dense: Ranking | None = None


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


def evidence_on(route_ranking: RouteRanking, depth: int) -> tuple[Route, "Evidence"]:
    """The route whose curves judge a ranking, and the evidence that they take.

    If the lists were not cut off at the depth (few passages, a filter, more hits wanted), fused
    scores have another zero than when the curves were fitted. Such a ranking is judged by its
    cosines, like one of the dense route.
    """
    route, ranking = route_ranking.route, route_ranking.ranking
    scores = ranking.scores
    if route == Route.DENSE:
        return route, Evidence(route_ranking.question, scores, route_ranking.texts, scores)
    cosines = np.array([_cosine(hit) for hit in ranking.hits])
    if route == Route.GRAPH:
        scores = log_share(scores, scores[0])
    elif route != Route.LEXICAL:
        if not ranking.candidates > depth >= len(scores):
            route, scores = Route.DENSE, cosines
        if route_ranking.dense and route_ranking.dense.hits:
            # A passage that the dense list lacks is at most as near as the last one that it has.
            cosines = np.where(np.isnan(cosines), route_ranking.dense.scores[:depth][-1], cosines)
    return route, Evidence(route_ranking.question, scores, route_ranking.texts, cosines)


def _cosine(hit: RankedHit) -> float:
    sources = hit.sources if isinstance(hit, FusedHit) else ()
    return next((source.score for source in sources if source.retriever == Route.DENSE), math.nan)


class Evidence:
    """Evidence on the passages of a ranking.

    Attributes:
        passages: (n, d), columns as in `PASSAGE_EVIDENCE`.
        answer: (d,), as in `ANSWER_EVIDENCE`.
    """

    def __init__(
        self,
        question: str,
        scores: Float64,
        texts: Sequence[tuple[str, str]],
        cosines: Float64 | None = None,
    ) -> None:
        """Compare the words of a question with those of its passages.

        Args:
            scores: Scores (n,) by the route; NaN if not known.
            texts: Title and text of each passage.
            cosines: Cosines (n,) of the passages; NaN if not known.
        """
        near = np.full(len(texts), np.nan) if cosines is None else cosines
        question_terms = set(content_terms(question))
        question_forms = list(map(forms, question_terms))
        has_term = np.zeros((len(texts), len(question_forms)), bool)
        titles = np.full(len(texts), np.nan)
        for row, (title, text) in enumerate(texts):
            has_term[row] = occurrences(f"{title}\n{text}", question_forms)
            if title_terms := set(content_terms(title)):
                titles[row] = len(title_terms & question_terms) / len(title_terms)
        share = has_term.mean(axis=1) if question_forms else np.zeros(len(texts))
        ranks = -np.log(np.arange(1.0, len(texts) + 1))
        self.passages = np.column_stack([scores, ranks, share, titles, near])
        together = float(has_term[:FIRST].any(axis=0).mean()) if question_forms else 0.0
        title, cosine = (np.fmax.reduce(column[:FIRST]) for column in (titles, near))
        self.answer = np.array([scores[0], share[:FIRST].max(), together, title, cosine])


def fingerprint(index: Mapping[str, str], settings: Settings) -> str:
    """Digest of what scores depend on: the index's models and the settings of the arms."""
    parts = [asdict(part) for part in (settings.lexical, settings.graph, settings.fusion)]
    content = canonical_json([dict(index), *parts])
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def load_relevance(folder: Path) -> RelevanceModel:
    """Load the model in a folder.

    Raises:
        ModelFileError: The file is missing or damaged.
    """
    path = folder / RELEVANCE
    try:
        content = json.loads(path.read_text("utf-8"))
        if content["format"] != FORMAT:
            raise ModelFileError(
                f"{path} has format {content['format']}; this build reads {FORMAT}. Fit it again."
            )
        curves = (_read(content[part], names) for part, names in _PARTS.items())
        model = RelevanceModel(int(content["depth"]), str(content["made_with"]), *curves)
        routes = {str(route) for route in USUAL if route != Route.AUTO}
        if missing := routes - (model.passages.keys() & model.answers.keys()):
            raise ValueError(f"no curves for {', '.join(sorted(missing))}")
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror}.") from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ModelFileError(f"{path} is damaged: {error!r}. Fit or install it again.") from error
    return model


def relevance_json(model: RelevanceModel) -> str:
    """The content of a model's file."""
    content = {
        "format": FORMAT,
        "depth": model.depth,
        "made_with": model.made_with,
        "passages": {route: _curves_json(curves) for route, curves in model.passages.items()},
        "answers": {route: _curves_json(curves) for route, curves in model.answers.items()},
    }
    return canonical_json(content, indent=1) + "\n"


def _read(content: Mapping[str, Any], names: Sequence[str]) -> dict[str, CurveSum]:
    """Read what `_curves_json` made, by route."""
    return {
        route: CurveSum(
            float(fields["bias"]),
            {
                name: Curve(
                    np.array(fields["curves"][name]["knots"], np.float64),
                    np.array(fields["curves"][name]["values"], np.float64),
                    float(fields["curves"][name]["unknown"]),
                )
                for name in names
            },
        )
        for route, fields in content.items()
    }


def _curves_json(curves: CurveSum) -> dict[str, object]:
    return {
        "bias": curves.bias,
        "curves": {
            name: {
                "knots": curve.knots.tolist(),
                "values": curve.values.tolist(),
                "unknown": curve.unknown,
            }
            for name, curve in curves.curves.items()
        },
    }
