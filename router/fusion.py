"""Fusion: several rankings of one question become one, by rank or by score.

`fuse` adds up reciprocal ranks. Ranks say that one passage stands before another and not by how
much, so a list that knows nothing weighs as much as one that knows. `combine_scores` adds up the
scores themselves, on scales that can be added. How much the graph counts is the router's score, a
constant, or `graph_weights`, which looks at each question's seeds and walk.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat

import numpy as np

from backends.types import Float64, Int64, Ranking, RowHits, Source
from router.errors import FusionError, SettingsError
from router.query_performance import log_share, signals
from router.scorer import sigmoid
from router.types import ARMS, FURTHER, ArmResults, FusedHit, Route

GRAPH_WEIGHT_SIGNALS: tuple[str, ...] = ("seed_title_uniqueness", "graph_margin_5")
"""What a `GraphWeightModel` weighs, in order; more of either never speaks against the graph."""

ROUNDING = 1e-12
"""Of the highest sum: sums in floating point are no farther off."""

METHODS = ("adaptive", "convex", "rrf")
_FORMER_METHODS = {"trust": "adaptive", "blend": "convex"}


def fuse(
    rankings: Sequence[Ranking], weights: Sequence[float], *, rrf_k: float = 60.0, k: int
) -> Ranking:
    """Fuse rankings of one question: score(p) = Σ_i w_i / (rrf_k + rank_i(p)), ranks from 1.

    A list that does not hold a passage adds nothing to it. The result depends only on the set of
    (ranking, weight) pairs: their order changes no bit of it, since each sum is rounded once.
    Equal scores are ordered by id. A list of weight 0 is as if it had not been given.

    Source: Cormack, Clarke and Buettcher (SIGIR 2009); weighted as in EA-GraphRAG's equation 8.

    Args:
        rankings: One for each arm, never several run together.
        weights: One for each ranking, finite and at least 0; at least one above 0.
        rrf_k: How slowly a list's say falls with rank; at least 0.
        k: Most hits to return, at least 1.

    Returns:
        A ranking named "fusion" of `FusedHit`s. It is degraded when every list in it is.

    Raises:
        FusionError: Weights that do not fit, a passage twice in one list, or ranks that are not
            1, 2, 3, …
    """
    kept = _weighted(rankings, weights)
    if not (math.isfinite(rrf_k) and rrf_k >= 0):
        raise FusionError(f"rrf_k is {rrf_k}; use a finite number, 0 or more (60 is usual).")
    return added_up([(one, w / (rrf_k + np.arange(1.0, len(one.hits) + 1))) for one, w in kept], k)


def combine_scores(
    rankings: Sequence[Ranking], weights: Sequence[float], *, k: int, sources: bool = True
) -> Ranking:
    """Fuse rankings of one question: score(p) = Σ_i w_i · (v_i(p) - f_i).

    v_i is the arm's score on its scale: cosine, BM25 / best, ln(mass / best), since the walk's mass
    falls off like a power of the rank. No scale depends on the corpus. f_i is the last value of a
    list that was cut off: of a passage that is not in it, it is known only that it has no more, so
    the list adds nothing. (The exact scores of such passages were no better on the train and dev
    questions of three datasets.) A list that has all there is adds BM25 / best from 0 on.

    As with `fuse`, the order of the rankings changes no bit, and ties break by id.

    Source: Bruch, Gai and Ingber (TOIS 2023) on convex combinations of normalised scores.

    Args:
        sources: Whether hits tell which list gave them what, which takes half of the time.

    Returns:
        A ranking named "fusion" of `FusedHit`s. It is degraded when every list in it is.

    Raises:
        FusionError: Weights that do not fit, a ranking that is of no arm known here, or one that
            `fuse` would refuse.
    """
    parts = []
    for ranking, weight in _weighted(rankings, weights):
        values = scaled(ranking)
        floor = _floor(ranking, values)
        parts.append((ranking, weight * (values - floor)))
    return added_up(parts, k, sources=sources)


def score_weights(
    graph_weight: float, *, lexical_share: float, graph_scale: float
) -> dict[Route, float]:
    """Weight of each arm's values in a convex combination of text and graph.

    Args:
        graph_weight: t, from 0 (text alone) to 1 (graph alone).
        lexical_share: Weight b of BM25 beside cosine.
        graph_scale: Weight c: how much of a cosine a unit of log mass is worth.

    Returns:
        dense 1 - t, lexical b·(1 - t), graph c·t.
    """
    text = 1 - graph_weight
    return {
        Route.DENSE: text,
        Route.LEXICAL: lexical_share * text,
        Route.GRAPH: graph_scale * graph_weight,
    }


def scaled(ranking: Ranking) -> Float64:
    """(m,) scores of a ranking on the scale of its arm, in order.

    Raises:
        FusionError: The ranking is of no arm known here.
    """
    scale = _SCALES.get(ranking.retriever)
    if scale is None:
        raise FusionError(
            f"There is no scale for the scores of '{ranking.retriever}'; "
            f"combine {', '.join(_SCALES)}, or fuse by rank."
        )
    return scale(ranking.scores)


_SCALES: Mapping[str, Callable[[Float64], Float64]] = {
    Route.DENSE: np.asarray,
    Route.LEXICAL: lambda scores: scores / (scores.max(initial=0.0) or 1.0),
    Route.GRAPH: lambda scores: log_share(scores, scores.max(initial=0.0)),
}


def _floor(ranking: Ranking, values: Float64) -> float:
    """What a passage has that the list lacks, at most."""
    if not len(values):
        return 0.0
    whole = len(ranking.hits) >= ranking.candidates
    return 0.0 if whole and ranking.retriever == Route.LEXICAL else float(values[-1])


def added_up(parts: Sequence[tuple[Ranking, Float64]], k: int, *, sources: bool = True) -> Ranking:
    """Order passages by the sum of what each list adds to them, equal sums by id.

    Args:
        parts: At least one ranking, each with what it adds for each of its hits.
        k: Most hits to return, at least 1.
        sources: Whether hits tell which list gave them what.

    Raises:
        FusionError: k is below 1.
    """
    if k < 1:
        raise FusionError(f"k is {k}; ask for at least 1 hit.")
    ids, columns = _columns([one for one, _ in parts])
    size = max(int(own.max(initial=-1)) for own in columns) + 1
    shares = np.zeros((len(parts), size))
    for row, own, (_, values) in zip(shares, columns, parts, strict=True):
        row[own] = values
    foremost = _foremost(shares.sum(axis=0), k)
    summed = map(math.fsum, shares[:, foremost].T.tolist())
    scored = sorted(
        (-total, ids(column), column)
        for total, column in zip(summed, foremost.tolist(), strict=True)
    )[:k]
    told: Iterable[tuple[Source, ...]] = repeat(())
    if sources:
        ranks, chosen = np.zeros(shares.shape, int), [column for _, _, column in scored]
        for row, own in zip(ranks, columns, strict=True):
            row[own] = np.arange(1, len(own) + 1)
        given = zip(shares[:, chosen].T.tolist(), ranks[:, chosen].T.tolist(), strict=True)
        lists = [(one.retriever, one.scores.tolist()) for one, _ in parts]
        told = (_sources(lists, *own) for own in given)
    # Where one arm has nothing to say, the others are asked for that very reason.
    degraded = {f"{one.retriever}: {one.degraded}" for one, _ in parts}
    silent = all(one.degraded for one, _ in parts)
    return Ranking(
        retriever="fusion",
        hits=tuple(
            FusedHit(id_, -lower, rank, own)
            for rank, ((lower, id_, _), own) in enumerate(zip(scored, told, strict=False), start=1)
        ),
        candidates=max(ranking.candidates for ranking, _ in parts),
        degraded="; ".join(sorted(degraded)) if silent else "",
    )


def _columns(rankings: Sequence[Ranking]) -> tuple[Callable[[int], str], list[Int64]]:
    """A number for each passage of some lists: its id by that, and those of each list."""
    found = [one.hits for one in rankings]
    known = [hits for hits in found if isinstance(hits, RowHits)]
    if len(known) == len(found) and all(hits.ids is known[0].ids for hits in known):
        rows, columns = np.unique(
            np.concatenate([hits.rows for hits in known]), return_inverse=True
        )
        ends = np.cumsum([len(hits) for hits in known])
        return lambda column: known[0].ids[rows[column]], np.split(columns, ends[:-1])
    place: dict[str, int] = {}
    every = [np.array([place.setdefault(h.id, len(place)) for h in hits], int) for hits in found]
    return [*place].__getitem__, every


def _foremost(totals: Float64, k: int) -> Int64:
    """Places of the k highest, and of all that may be as high once their sums are rounded once."""
    if k >= len(totals):
        return np.arange(len(totals))
    cut = np.partition(totals, len(totals) - k)[len(totals) - k]
    return np.flatnonzero(totals >= cut - ROUNDING * totals.max())


def _sources(
    lists: Sequence[tuple[str, list[float]]], shares: Sequence[float], ranks: Sequence[int]
) -> tuple[Source, ...]:
    """The lists that hold one passage, which gave it these shares at these ranks (0: not there).

    Args:
        lists: Name and scores of each.
    """
    found = zip(lists, ranks, shares, strict=True)
    return tuple(
        sorted(
            Source(name, rank, own[rank - 1], share) for (name, own), rank, share in found if rank
        )
    )


def _weighted(rankings: Sequence[Ranking], weights: Sequence[float]) -> list[tuple[Ranking, float]]:
    """Rankings with their weights, without those that weigh nothing.

    Raises:
        FusionError: Weights that do not fit, a passage twice in one list, or ranks that are not
            1, 2, 3, …
    """
    if len(rankings) != len(weights):
        raise FusionError(
            f"{len(rankings)} rankings came with {len(weights)} weights; give one weight for each."
        )
    for ranking, weight in zip(rankings, weights, strict=True):
        if not (math.isfinite(weight) and weight >= 0):
            raise FusionError(
                f"The weight of '{ranking.retriever}' is {weight}; use a finite number, 0 or more."
            )
        _check_list(ranking)
    if not any(weight > 0 for weight in weights):
        raise FusionError("Nothing is left to fuse: give at least one list a weight above 0.")
    return [(ranking, w) for ranking, w in zip(rankings, weights, strict=True) if w > 0]


def _check_list(ranking: Ranking) -> None:
    if isinstance(ranking.hits, RowHits):
        return
    ranks, ids = [hit.rank for hit in ranking.hits], [hit.id for hit in ranking.hits]
    if ranks != list(range(1, len(ranks) + 1)):
        place = next(place for place, rank in enumerate(ranks, start=1) if place != rank)
        raise FusionError(
            f"Place {place} of '{ranking.retriever}' says rank {ranks[place - 1]}; "
            "fuse whole rankings, best first, one for each arm."
        )
    if len(set(ids)) < len(ids):
        twice = next(id_ for id_ in ids if ids.count(id_) > 1)
        raise FusionError(
            f"Passage '{twice}' is twice in '{ranking.retriever}'; a ranking lists it once."
        )


@dataclass(frozen=True, slots=True)
class GraphWeightModel:
    """A logistic model of whether the graph's list is the better one, with few numbers to know.

    A walk from a title that stands over one passage finds it, and its mass falls off steeply; a
    walk from words that many passages share spreads, and cannot tell these passages apart. That is
    so whatever the corpus is about and however its questions are spelt, so what is fitted on some
    datasets holds on others, where a score of the question's words does not.

    `python -m benchmarks fusion` fits it and prints both: the defaults lie on the plateau around
    what it finds for the train and dev questions of 2wiki, popqa and nq over one corpus.

    Attributes:
        bias: Logit of a question without a title among its seeds whose walk tells nothing apart.
        seed_title_uniqueness: Of a seed's value over the passages that have it for a title, best.
        graph_margin_5: Of the logarithm of the first passage's mass over the fifth's.
    """

    bias: float = -4.5
    seed_title_uniqueness: float = 3.0
    graph_margin_5: float = 1.1

    def __post_init__(self) -> None:
        numbers = {"bias": self.bias} | {name: getattr(self, name) for name in GRAPH_WEIGHT_SIGNALS}
        for name, number in numbers.items():
            if not math.isfinite(number) or (name != "bias" and number < 0):
                raise SettingsError(
                    f"WYE_FUSION__GRAPH_WEIGHT__{name.upper()} is {number}; "
                    "use a finite number, 0 or more for a weight."
                )


def graph_weights(results: Sequence[ArmResults], model: GraphWeightModel) -> Float64:
    """(n,) weight t of each question's graph list, from 0 (text alone) to 1 (the graph alone).

    Args:
        results: One for each question, of all arms.
    """
    slopes = np.array([getattr(model, name) for name in GRAPH_WEIGHT_SIGNALS])
    # One by one: a product of matrices rounds a row otherwise with others beside it than alone.
    return sigmoid(model.bias + np.vecdot(signals(results, GRAPH_WEIGHT_SIGNALS), slopes))


@dataclass(frozen=True, slots=True)
class FusionSettings:
    """How rankings become one.

    Attributes:
        method: "adaptive" adds up scores of all arms, the graph's by how far seeds and walk speak
            for it; "convex" does so by s alone; "rrf" adds up reciprocal ranks, as EA-GraphRAG
            does.
        lists: Arms that "rrf" fuses, with commas between them.
        s: How complex a question is taken to be while nothing scores it, from 0 to 1: the graph
            list weighs s and every other list 1 - s.
        rrf_k: How slowly a list's say falls with rank; 0 or more.
        depth: Hits that each list brings in, at least as many as are asked for.
        lexical_share: Weight of a passage's share of the best BM25 beside its cosine.
        graph_scale: Weight of the logarithm of its share of the largest mass.
        graph_weight: What "adaptive" goes by.
    """

    method: str = "adaptive"
    lists: tuple[str, ...] = (Route.DENSE, Route.GRAPH)
    s: float = 0.5
    rrf_k: float = 60.0
    depth: int = 100
    lexical_share: float = 0.2
    graph_scale: float = 0.3
    graph_weight: GraphWeightModel = field(default_factory=GraphWeightModel)

    def __post_init__(self) -> None:
        if self.method in _FORMER_METHODS:
            raise SettingsError(
                f"WYE_FUSION__METHOD is {self.method}, which was renamed; "
                f"take {_FORMER_METHODS[self.method]}."
            )
        if self.method not in METHODS:
            raise SettingsError(f"WYE_FUSION__METHOD is {self.method}; take {', '.join(METHODS)}.")
        known = (*ARMS, *FURTHER)
        unknown = [name for name in self.lists if name not in known]
        if unknown or not self.lists or len(set(self.lists)) < len(self.lists):
            raise SettingsError(
                f"WYE_FUSION__LISTS is {', '.join(self.lists) or 'empty'}; "
                f"name some of {', '.join(known)}, each once."
            )
        if not 0 <= self.s <= 1:
            raise SettingsError(f"WYE_FUSION__S is {self.s}; use a number from 0 to 1.")
        if self.depth < 1:
            raise SettingsError(f"WYE_FUSION__DEPTH is {self.depth}; use 1 or more.")
        for name in ("lexical_share", "graph_scale"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise SettingsError(
                    f"WYE_FUSION__{name.upper()} is {getattr(self, name)}; use 0 or more."
                )

    def rank_weight(self, arm: str, score: float | None = None) -> float:
        """Weight of an arm's list where lists are fused by rank.

        Source: EA-GraphRAG, equation 8: w_graph = s, w_dense = 1 - s.

        Args:
            score: The question's s; the setting's where nothing scored it.
        """
        s = self.s if score is None else score
        return s if arm == Route.GRAPH else 1 - s

    def arms(self) -> tuple[Route, ...]:
        """The arms whose lists are fused; one that weighs nothing need not be asked.

        Raises:
            FusionError: Every list weighs 0.
        """
        if self.method != "rrf":
            return ARMS
        arms = tuple(Route(name) for name in self.lists if self.rank_weight(name) != 0)
        if not arms:
            raise FusionError(
                "Nothing is left to fuse: every list of WYE_FUSION__LISTS weighs 0. "
                "Give them a weight with WYE_FUSION__S."
            )
        return arms


def lists_of(route: Route, fusion: FusionSettings) -> tuple[Route, ...]:
    """The arms whose rankings a route is made of.

    Raises:
        FusionError: Every list of fusion weighs 0.
    """
    if route == Route.HYBRID:
        return Route.DENSE, Route.LEXICAL
    return fusion.arms() if route in (Route.FUSION, Route.STEPS) else (route,)


def stages_of(route: Route) -> tuple[str, ...]:
    """The stages of `Reply.seconds` that a route takes beside reading the question and deciding.

    Fusion is taken to run every arm. The graph's prior takes the scores of the text arms, whichever
    route asks for it: where their lists are wanted as well, the time of the scores is theirs, else
    it is part of the graph's.
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
    results: Sequence[ArmResults],
    settings: FusionSettings,
    scores: Sequence[float | None],
    k: int,
    *,
    sources: bool = True,
) -> list[Ranking]:
    """One ranking for each question, by the method of the settings.

    Args:
        results: Of the arms that `FusionSettings.arms` names, of which more may be there.
        scores: s of each question; None where nothing scored it.
        sources: Whether hits have to tell which list gave them what.

    Raises:
        FusionError: Every list weighs 0.
    """
    if settings.method == "rrf":
        return [_by_rank(one, settings, s, k) for one, s in zip(results, scores, strict=True)]
    if settings.method == "adaptive":
        weights = graph_weights(results, settings.graph_weight).tolist()
    else:
        weights = [settings.s if score is None else score for score in scores]
    return [
        _by_score(one, settings, t, k, sources=sources)
        for one, t in zip(results, weights, strict=True)
    ]


def fuse_text(
    results: Sequence[ArmResults], settings: FusionSettings, k: int, *, sources: bool = True
) -> list[Ranking]:
    """The text arms without the graph: dense and lexical scores, added up."""
    return [_by_score(one, settings, 0.0, k, sources=sources) for one in results]


def _by_rank(results: ArmResults, settings: FusionSettings, score: float | None, k: int) -> Ranking:
    # A replay has every arm's list, also those that the gateway would not have asked for.
    lists = {arm: results.rankings[arm] for arm in settings.arms() if arm in results.rankings}
    weights = [settings.rank_weight(arm, score) for arm in lists]
    return fuse(list(lists.values()), weights, rrf_k=settings.rrf_k, k=k)


def _by_score(
    results: ArmResults, settings: FusionSettings, graph_weight: float, k: int, *, sources: bool
) -> Ranking:
    weights = score_weights(
        graph_weight, lexical_share=settings.lexical_share, graph_scale=settings.graph_scale
    )
    lists = {arm: one for arm, one in results.rankings.items() if arm in weights}
    of_lists = [weights[Route(arm)] for arm in lists]
    return combine_scores(list(lists.values()), of_lists, k=k, sources=sources)
