"""Fuses several rankings of one question into one, by rank or by score.

`fuse` adds up reciprocal ranks. Ranks say which passage is better but not by how much, so a list
without information weighs as much as one with it. `combine_scores` adds up the scores themselves,
on scales that can be added. The graph's weight is the router's score, a constant, or
`graph_weights`, which looks at each question's seeds, walk and words.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from wye.backends.arrays import distinct
from wye.backends.types import Float64, Int64, RankedHit, Ranking, RowHits, Source
from wye.router.errors import FusionError, SettingsError
from wye.router.evidence import log_share, signals
from wye.router.scorer import sigmoid
from wye.router.types import ARMS, FURTHER, ArmResults, Route

GRAPH_WEIGHT_SIGNALS: tuple[str, ...] = (
    "seed_title_uniqueness",
    "graph_margin_5",
    "graph_lexical_share",
)
"""Inputs of a `GraphWeightModel`, in order. More of any never lowers the graph's weight."""

ROUNDING = 1e-12  # bound on the rounding error of a sum, relative to the highest sum

Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]


def fuse(
    rankings: Sequence[Ranking], weights: Sequence[float], *, rrf_k: float = 60.0, k: int
) -> Ranking:
    """Fuse rankings of one question: score(p) = Σ_i w_i / (rrf_k + rank_i(p)), ranks from 1.

    A list without a passage adds nothing to its score. The order of the lists changes no bit of the
    result, since each sum is rounded once. Ties break by id. A list of weight 0 is ignored.
    The k best hits are a ranking named "fusion", degraded if every list in it is; a `FusionError`
    if every weight is 0. With a higher rrf_k, a list's contribution falls more slowly with rank.

    Source: Cormack, Clarke and Buettcher (SIGIR 2009); weighted as in EA-GraphRAG's equation 8.
    """
    weighted = _weighted(rankings, weights)
    return rank_sums(
        [(list_, w / (rrf_k + np.arange(1.0, len(list_.hits) + 1))) for list_, w in weighted], k
    )


def combine_scores(rankings: Sequence[Ranking], weights: Sequence[float], *, k: int) -> Ranking:
    """Fuse rankings of one question: score(p) = Σ_i w_i · (v_i(p) - f_i).

    v_i is the arm's score on its scale: cosine, BM25 / best, ln(mass / best), since the walk's mass
    falls off like a power of the rank. No scale depends on the corpus. f_i is the last value of a
    list. A passage that was cut off has at most that value, so the list adds nothing to it. (The
    exact scores of such passages were no better on the train and dev questions of three datasets.)
    For a BM25 list that was not cut off, f_i is 0.

    Order of the rankings, ties and result are as with `fuse`.

    Source: Bruch, Gai and Ingber (TOIS 2023) on convex combinations of normalised scores.

    Raises:
        FusionError: Every weight is 0.
    """
    parts = []
    for ranking, weight in _weighted(rankings, weights):
        values = scaled(ranking)
        # A passage that is missing from the list has at most the last value.
        floor = float(values[-1]) if len(values) else 0.0
        if ranking.retriever == Route.LEXICAL and len(values) >= ranking.candidates:
            floor = 0.0
        parts.append((ranking, weight * (values - floor)))
    return rank_sums(parts, k)


def scaled(ranking: Ranking) -> Float64:
    """A ranking's scores (m,) on the scale of its arm, one of `ARMS`."""
    return _SCALES[ranking.retriever](ranking.scores)


_SCALES: Mapping[str, Callable[[Float64], Float64]] = {
    Route.DENSE: np.asarray,
    Route.LEXICAL: lambda scores: scores / (scores.max(initial=0.0) or 1.0),
    Route.GRAPH: lambda scores: log_share(scores, scores.max(initial=0.0)),
}


def rank_sums(parts: Sequence[tuple[Ranking, Float64]], k: int) -> Ranking:
    """The k passages with the highest sums of what each list adds to its hits (m,); ties by id."""
    ids, rows, numbers_of = numbered([ranking for ranking, _ in parts])
    shares = np.zeros((len(parts), len(rows)))
    for row, numbers, (_, values) in zip(shares, numbers_of, parts, strict=True):
        row[numbers] = values
    foremost = _foremost(shares.sum(axis=0), k)
    totals = np.array([*map(math.fsum, shares[:, foremost].T.tolist())])
    best = np.argsort(-totals, kind="stable")[:k]
    chosen = foremost[best]
    lists = [(ranking, ns, values) for ns, (ranking, values) in zip(numbers_of, parts, strict=True)]
    # One degraded list is what the others are there for, so it does not degrade the fusion.
    degraded = {f"{ranking.retriever}: {ranking.degraded}" for ranking, _ in parts}
    silent = all(ranking.degraded for ranking, _ in parts)
    return Ranking(
        retriever="fusion",
        hits=FusedHits(ids, rows[chosen], totals[best], chosen, lists),
        candidates=max(ranking.candidates for ranking, _ in parts),
        degraded="; ".join(sorted(degraded)) if silent else "",
    )


class FusedHits(RowHits):
    """Hits of a fused ranking as arrays; `RankedHit`s with their sources are made when used."""

    __slots__ = ("_lists", "_numbers")

    def __init__(
        self,
        ids: Sequence[str],
        rows: Int64,
        scores: NDArray[np.floating],
        numbers: Int64,
        lists: Sequence[tuple[Ranking, Int64, Float64]],
    ) -> None:
        """Keep the arrays of m hits, best first.

        `numbers` (m,) are those of their passages among all of the lists, each of which comes with
        the numbers of its hits and what it adds to them.
        """
        super().__init__(ids, rows, scores)
        self._numbers, self._lists = numbers, lists

    def _head(self, first: slice) -> RowHits:
        rows, scores, numbers = self.rows[first], self.scores[first], self._numbers[first]
        return FusedHits(self.ids, rows, scores, numbers, self._lists)

    def make(self, positions: Int64) -> tuple[RankedHit, ...]:
        """The hits at some positions, with their sources."""
        numbers = self._numbers[positions]
        sources: list[list[Source]] = [[] for _ in numbers]
        for ranking, of_list, shares in self._lists:
            hit, row = np.nonzero(numbers[:, None] == of_list)
            columns = hit, row + 1, ranking.scores[row], shares[row]
            for which, *rest in zip(*(column.tolist() for column in columns), strict=True):
                sources[which].append(Source(ranking.retriever, *rest))
        return tuple(
            RankedHit(*hit[:3], tuple(sorted(hit_sources)))
            for hit, hit_sources in zip(super().make(positions), sources, strict=True)
        )


def numbered(rankings: Sequence[Ranking]) -> tuple[Sequence[str], Int64, list[Int64]]:
    """Number the passages of some lists, in the order of their ids.

    Returns ids, the rows there of the n passages, ascending, and the numbers of each list's hits.
    """
    lists = [ranking.hits for ranking in rankings]
    by_row = [hits for hits in lists if isinstance(hits, RowHits)]
    if len(by_row) == len(lists) and all(hits.ids is by_row[0].ids for hits in by_row):
        rows_of = [hits.rows for hits in by_row]
        rows = distinct(np.concatenate(rows_of))
        return by_row[0].ids, rows, [rows.searchsorted(each) for each in rows_of]
    ids = sorted({hit.id for hits in lists for hit in hits})
    row_of = {id_: row for row, id_ in enumerate(ids)}
    numbers = [np.array([row_of[hit.id] for hit in hits], np.int64) for hits in lists]
    return ids, np.arange(len(ids)), numbers


def _foremost(totals: Float64, k: int) -> Int64:
    """Indices of the k highest totals, and of all that could tie with them once summed exactly."""
    if k >= len(totals):
        return np.arange(len(totals))
    cut = np.partition(totals, len(totals) - k)[len(totals) - k]
    return np.flatnonzero(totals >= cut - ROUNDING * totals.max())


def _weighted(rankings: Sequence[Ranking], weights: Sequence[float]) -> list[tuple[Ranking, float]]:
    """Pair rankings with their weights, dropping those of weight 0."""
    pairs = [(ranking, w) for ranking, w in zip(rankings, weights, strict=True) if w > 0]
    if not pairs:
        raise FusionError("Nothing is left to fuse: give at least one list a weight above 0.")
    return pairs


@dataclass(frozen=True, slots=True)
class GraphWeightModel:
    """A logistic model, with four parameters, of how much the graph's list is worth.

    A walk from the title of one passage finds it, and the mass falls off steeply. A walk from words
    that many passages share spreads and cannot tell them apart. Where the walk arrives at a passage
    with none of the question's other words, it may have followed the wrong name. None of this
    depends on the topic of a corpus or the spelling of its questions, so a fit on some datasets
    holds on others; a score of the question's words does not.

    The defaults are the middle of the plateau that a grid finds (benchmarks/README.md, 50fc6933)
    for the train and dev questions of fourteen datasets.
    """

    bias: float = -5.5  # logit without any of the signals
    seed_title_uniqueness: Weight = 2.5  # weight of the signal of that name
    graph_margin_5: Weight = 0.5  # of ln(the first passage's mass / the fifth's)
    graph_lexical_share: Weight = 4.0  # of the first passage's BM25 / the best


def graph_weights(results: Sequence[ArmResults], model: GraphWeightModel) -> Float64:
    """The weight t (n,) of each question's graph list, from 0 (text alone) to 1 (graph alone)."""
    slopes = np.array([getattr(model, name) for name in GRAPH_WEIGHT_SIGNALS])
    # Row by row: in a product of matrices, a row's rounding depends on the other rows.
    return sigmoid(model.bias + np.vecdot(signals(results, GRAPH_WEIGHT_SIGNALS), slopes))


@dataclass(frozen=True, slots=True)
class FusionSettings:
    """How rankings are fused.

    Attributes:
        method: "adaptive" adds up the scores of all arms and weighs the graph by each question's
            seeds, walk and words; "convex" does the same with weight s; "rrf" adds up reciprocal
            ranks, as EA-GraphRAG does.
        lists: Arms that "rrf" fuses, separated by commas.
        s: Weight of the graph's list, from 0 to 1, for a question without a score by the router;
            every other list weighs 1 - s.
        rrf_k: How slowly a list's contribution falls with rank; 0 or more.
        depth: Hits that each list contributes; never fewer than the reply has.
    """

    method: Literal["adaptive", "convex", "rrf"] = "adaptive"
    lists: tuple[str, ...] = (Route.DENSE, Route.GRAPH)
    s: Annotated[float, Field(ge=0, le=1)] = 0.5
    rrf_k: Weight = 60.0
    depth: Annotated[int, Field(ge=1)] = 100
    lexical_share: Weight = 0.35  # of BM25, as a share of the best, relative to cosine
    graph_scale: Weight = 0.3  # of the logarithm of the share of the largest mass
    graph_weight: GraphWeightModel = field(default_factory=GraphWeightModel)

    def __post_init__(self) -> None:
        arms = (*ARMS, *FURTHER)
        unknown = [name for name in self.lists if name not in arms]
        if unknown or not self.lists or len(set(self.lists)) < len(self.lists):
            raise SettingsError(
                f"WYE_FUSION__LISTS is {', '.join(self.lists) or 'empty'}; "
                f"use some of {', '.join(arms)}, each once."
            )

    def rank_weight(self, arm: str, score: float | None = None) -> float:
        """Weight of an arm's list in fusion by rank, for the score s or the setting's.

        Source: EA-GraphRAG, equation 8: w_graph = s, w_dense = 1 - s.
        """
        s = self.s if score is None else score
        return s if arm == Route.GRAPH else 1 - s

    def arms(self) -> tuple[Route, ...]:
        """The arms whose lists are fused, of weight above 0; a `FusionError` for none."""
        if self.method != "rrf":
            return ARMS
        arms = tuple(Route(name) for name in self.lists if self.rank_weight(name) != 0)
        if not arms:
            raise FusionError(
                "Nothing is left to fuse: every list of WYE_FUSION__LISTS weighs 0. "
                "Give them a weight with WYE_FUSION__S."
            )
        return arms


def stages_of(route: Route) -> tuple[str, ...]:
    """The stages of `Reply.seconds` that a route takes after reading the question and deciding.

    Fusion counts as running every arm. The graph's prior always needs the text arms' scores. Their
    time counts as the text arms' if these are also run, else as the graph's.
    """
    match route:
        case Route.HYBRID:
            return "dense", "lexical", "fusing"
        case Route.GRAPH:
            return "dense", "lexical", "seeds", "graph"
        case Route.FUSION:
            return "dense", "lexical", "seeds", "graph", "fusing"
        case Route.STEPS:
            return "dense", "lexical", "seeds", "graph", "fusing", "steps"
    return (str(route),)


def fuse_all(
    results: Sequence[ArmResults], settings: FusionSettings, scores: Sequence[float | None], k: int
) -> list[Ranking]:
    """Fuse each question's rankings by the settings, with its s, or None without a score."""
    if settings.method == "rrf":
        return [_by_rank(arms, settings, s, k) for arms, s in zip(results, scores, strict=True)]
    if settings.method == "adaptive":
        weights = graph_weights(results, settings.graph_weight).tolist()
    else:
        weights = [settings.s if score is None else score for score in scores]
    pairs = zip(results, weights, strict=True)
    return [_by_score(arms, settings, weight, k) for arms, weight in pairs]


def fuse_text(results: Sequence[ArmResults], settings: FusionSettings, k: int) -> list[Ranking]:
    """Fuse the text arms without the graph: dense and lexical scores, added up."""
    return [_by_score(arms, settings, 0.0, k) for arms in results]


def _by_rank(results: ArmResults, settings: FusionSettings, score: float | None, k: int) -> Ranking:
    # A replay also has lists that fusion does not use.
    lists = {arm: results.rankings[arm] for arm in settings.arms() if arm in results.rankings}
    weights = [settings.rank_weight(arm, score) for arm in lists]
    return fuse(list(lists.values()), weights, rrf_k=settings.rrf_k, k=k)


def _by_score(
    results: ArmResults, settings: FusionSettings, graph_weight: float, k: int
) -> Ranking:
    """Fuse by scores; the graph's weight is from 0 (text alone) to 1 (graph alone)."""
    text = 1 - graph_weight
    weights = {
        Route.DENSE: text,
        Route.LEXICAL: settings.lexical_share * text,
        Route.GRAPH: settings.graph_scale * graph_weight,
    }
    lists = {arm: ranking for arm, ranking in results.rankings.items() if arm in weights}
    return combine_scores(list(lists.values()), [weights[Route(arm)] for arm in lists], k=k)
