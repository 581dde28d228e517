"""Fusion by rank and by score against slow versions, and with the lists of remote arms."""

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wye.backends.trigraph.seeds import SeedStats
from wye.backends.types import Query, RankedHit, Ranking, Source
from wye.router.errors import FusionError
from wye.router.evidence import LEAST_SHARE, log_share
from wye.router.fusion import (
    GRAPH_WEIGHT_SIGNALS,
    FusionSettings,
    GraphWeightModel,
    combine_scores,
    fuse,
    fuse_all,
    fuse_text,
    graph_weights,
    scaled,
)
from wye.router.remote import RemoteList, ScoreKind, fuse_remote
from wye.router.types import ARMS, ArmResults, Route

IDS = [f"p{number}" for number in range(8)]
Problem = tuple[list[Ranking], list[float]]


def ranked(name: str, *ids: str, degraded: str = "", candidates: int = 0) -> Ranking:
    hits = tuple(RankedHit(id_, 1 / rank, rank) for rank, id_ in enumerate(ids, start=1))
    return Ranking(name, hits, candidates, degraded)


def fused_ids(result: Ranking) -> list[str]:
    return [hit.id for hit in result.hits]


def reference(
    rankings: Sequence[Ranking], weights: Sequence[float], rrf_k: float
) -> dict[str, Fraction]:
    """Every passage, every list, exact arithmetic."""
    scores: dict[str, Fraction] = {}
    lists = [fused_ids(ranking) for ranking in rankings]
    for id_ in sorted({id_ for ids in lists for id_ in ids}):
        total = Fraction(0)
        for ids, weight in zip(lists, weights, strict=True):
            if weight > 0 and id_ in ids:
                total += Fraction(weight / (rrf_k + ids.index(id_) + 1))
        if total > 0:
            scores[id_] = total
    return scores


lists_of_ids = st.lists(
    st.lists(st.sampled_from(IDS), unique=True, max_size=8), min_size=1, max_size=4
)


@st.composite
def rank_problems(draw: st.DrawFn) -> Problem:
    lists = draw(lists_of_ids)
    named = [ranked(f"arm{n}", *ids, degraded="why" * (n % 2)) for n, ids in enumerate(lists)]
    weight = st.one_of(st.just(0.0), st.floats(0.001, 10))
    weights = draw(st.lists(weight, min_size=len(lists), max_size=len(lists)))
    if not any(weights):
        weights[0] = 1.0
    return named, weights


@given(rank_problems(), st.sampled_from([0.0, 1.0, 60.0]))
def test_agrees_with_the_slow_reference(problem: Problem, rrf_k: float) -> None:
    exact = reference(*problem, rrf_k)
    expected = {id_: float(total) for id_, total in exact.items()}
    result = fuse(*problem, rrf_k=rrf_k, k=len(IDS))
    assert {hit.id: hit.score for hit in result.hits} == expected
    assert fused_ids(result) == sorted(expected, key=lambda id_: (-expected[id_], id_))


@given(rank_problems(), st.randoms(use_true_random=False))
def test_the_order_of_the_lists_changes_nothing(problem: Problem, random: Random) -> None:
    assert repr(fuse(*shuffled(problem, random), k=5)) == repr(fuse(*problem, k=5))


def shuffled(problem: Problem, random: Random) -> Problem:
    pairs = list(zip(*problem, strict=True))
    random.shuffle(pairs)
    return [one for one, _ in pairs], [weight for _, weight in pairs]


@given(rank_problems())
def test_a_weight_of_zero_removes_a_list(problem: Problem) -> None:
    named, weights = problem
    extra = ranked("removed", *reversed(IDS), degraded="never shown", candidates=99)
    with_it = fuse([*named, extra], [*weights, 0.0], k=8)
    assert with_it == fuse(named, weights, k=8)


@given(rank_problems(), st.integers(1, 8))
def test_a_smaller_k_is_a_prefix(problem: Problem, k: int) -> None:
    assert fuse(*problem, k=k).hits == fuse(*problem, k=8).hits[:k]


def test_an_arm_with_nothing_to_say_degrades_nothing_unless_it_is_alone() -> None:
    graph, dense = ranked("graph", "a", degraded="no seed"), ranked("dense", "a", candidates=7)
    result = fuse([graph, dense], [1, 1], k=1)
    assert (result.degraded, result.candidates) == ("", 7)
    assert fuse([graph, dense], [1, 0], k=1).degraded == "graph: no seed"


@pytest.mark.parametrize(("lists", "weights"), [([ranked("dense", "a")], [0]), ([], [])])
def test_without_a_list_there_is_nothing_to_fuse(
    lists: list[Ranking], weights: list[float]
) -> None:
    for way in (fuse, combine_scores):
        with pytest.raises(FusionError, match="Nothing is left to fuse"):
            way(lists, weights, k=5)


def scored(name: str, scores: dict[str, float], candidates: int = 100) -> Ranking:
    order = sorted(scores, key=lambda id_: (-scores[id_], id_))
    hits = tuple(RankedHit(id_, scores[id_], rank) for rank, id_ in enumerate(order, start=1))
    return Ranking(name, hits, candidates)


def value(name: str, score: float, best: float) -> float:
    if name == "dense":
        return score
    if best <= 0:
        return 0.0
    return score / best if name == "lexical" else math.log(max(score / best, LEAST_SHARE))


def added_up(rankings: Sequence[Ranking], weights: Sequence[float]) -> dict[str, float]:
    total: dict[str, float] = {}
    for id_ in IDS:
        held = False
        score = 0.0
        for one, weight in zip(rankings, weights, strict=True):
            scores = {hit.id: hit.score for hit in one.hits}
            if weight == 0 or id_ not in scores:
                continue
            held = True
            best = max(scores.values())
            least = min(value(one.retriever, s, best) for s in scores.values())
            if one.retriever == "lexical" and one.candidates == len(scores):
                least = 0.0
            score += weight * (value(one.retriever, scores[id_], best) - least)
        if held:
            total[id_] = score
    return total


@st.composite
def score_problems(draw: st.DrawFn) -> Problem:
    rankings = []
    for name in draw(st.lists(st.sampled_from(ARMS), min_size=1, unique=True)):
        score = st.floats(-1, 1) if name == "dense" else st.floats(0.001, 30)
        scores = draw(st.dictionaries(st.sampled_from(IDS), score, max_size=8))
        rankings.append(scored(name, scores, draw(st.sampled_from([len(scores), 100]))))
    weights = [draw(st.one_of(st.just(0.0), st.floats(0.01, 5))) for _ in rankings]
    return rankings, weights if any(weights) else [1.0, *weights[1:]]


@given(score_problems())
def test_scores_add_up_as_in_the_slow_version(problem: Problem) -> None:
    rankings, weights = problem
    expected = added_up(rankings, weights)
    found = combine_scores(rankings, weights, k=100)
    hits = found.hits
    assert found.retriever == "fusion"
    assert {hit.id: hit.score for hit in hits} == pytest.approx(expected, abs=1e-9)
    assert list(hits) == sorted(hits, key=lambda hit: (-hit.score, hit.id))
    assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
    weighed = [one for one, weight in zip(rankings, weights, strict=True) if weight]
    held = {(one.retriever, hit.rank): hit.id for one in weighed for hit in one.hits}
    for hit in hits:
        own = sorted(place for place, id_ in held.items() if id_ == hit.id)
        assert sorted((source.retriever, source.rank) for source in hit.sources) == own
        assert sum(source.share for source in hit.sources) == pytest.approx(hit.score)


@given(score_problems(), st.randoms(use_true_random=False))
def test_the_order_of_the_scored_lists_changes_no_bit(problem: Problem, random: Random) -> None:
    again = combine_scores(*shuffled(problem, random), k=5)
    assert again.hits == combine_scores(*problem, k=5).hits


def test_shares_have_a_least_one_and_nothing_has_none() -> None:
    assert log_share(np.zeros(1), 0.5) == pytest.approx([math.log(LEAST_SHARE)])
    assert log_share(np.zeros(1), 0.0).tolist() == [0.0]
    assert scaled(scored("lexical", {})).tolist() == []


LISTS = {
    Route.DENSE: scored("dense", {"a": 0.9, "b": 0.7, "c": 0.4}),
    Route.LEXICAL: scored("lexical", {"b": 9.0, "c": 6.0, "a": 1.0}),
    Route.GRAPH: scored("graph", {"c": 0.5, "d": 0.1, "a": 0.01}),
}
ONE = ArmResults(
    Query("Who?", np.ones(2, np.float32)), (SeedStats("Ada", 1.0, "name", 4, 2),), LISTS
)
ADAPTIVE = FusionSettings()
CONVEX = FusionSettings("convex")
RRF = FusionSettings("rrf")


def test_rrf_is_fusion_by_rank_of_the_lists_that_are_named() -> None:
    assert RRF.arms() == (Route.DENSE, Route.GRAPH)
    named = {arm: LISTS[arm] for arm in RRF.arms()}
    found = fuse_all([replace(ONE, rankings=named)], RRF, [0.3], 4)
    assert found == [fuse(list(named.values()), [0.7, 0.3], rrf_k=60, k=4)]
    # A replay also has the lists that are not named.
    assert fuse_all([ONE], RRF, [0.3], 4) == found


def test_a_list_that_weighs_nothing_is_not_needed() -> None:
    assert FusionSettings("rrf", s=0.0).arms() == (Route.DENSE,)
    with pytest.raises(FusionError, match="every list of WYE_FUSION__LISTS weighs 0"):
        FusionSettings("rrf", lists=("dense", "lexical"), s=1.0).arms()


def test_convex_goes_from_text_to_graph_with_s() -> None:
    text, graph, given = fuse_all([ONE] * 3, CONVEX, [0.0, 1.0, None], 3)
    assert text == fuse_text([ONE], CONVEX, 3)[0]
    by_hand = combine_scores(list(LISTS.values())[:2], [1.0, CONVEX.lexical_share], k=3)
    assert fused_ids(text) == fused_ids(by_hand)
    assert fused_ids(graph) == fused_ids(LISTS[Route.GRAPH])
    assert given == fuse_all([ONE], CONVEX, [CONVEX.s], 3)[0]
    halves = [0.5, CONVEX.lexical_share * 0.5, CONVEX.graph_scale * 0.5]
    assert given == combine_scores(list(LISTS.values()), halves, k=3)


def test_adaptive_is_convex_with_the_graph_weight_for_s() -> None:
    (weight,) = graph_weights([ONE], ADAPTIVE.graph_weight).tolist()
    assert fuse_all([ONE], ADAPTIVE, [None], 4) == fuse_all([ONE], CONVEX, [weight], 4)
    assert ADAPTIVE.arms() == CONVEX.arms() == ARMS


def walked(titles: int, fifth: float, words: float = 1.0) -> ArmResults:
    """What a walk found, with the first passage's share of the best BM25 score."""
    masses = {"a": 1.0, "b": fifth, "c": fifth, "d": fifth, "e": fifth}
    seeds = (SeedStats("Ada", 1.0, "name", 9, titles),) if titles else ()
    query = Query("Who is Ada?", np.ones(2, np.float32))
    by_words = scored("lexical", {"a": 9 * words, "f": 9.0} if words else {"f": 9.0})
    return ArmResults(query, seeds, {Route.GRAPH: scored("graph", masses), Route.LEXICAL: by_words})


def test_the_graph_weight_by_hand() -> None:
    found = graph_weights([walked(2, 0.25, 0.5)], GraphWeightModel(-1.0, 2.0, 0.5, 3.0))
    assert found.tolist() == pytest.approx([1 / (1 + math.exp(1 - 1 - 0.5 * math.log(4) - 1.5))])


@given(st.integers(1, 9), st.floats(0.01, 1), st.floats(0, 0.5))
def test_nothing_that_speaks_for_the_graph_lowers_its_weight(
    titles: int, fifth: float, words: float
) -> None:
    cases = [
        walked(titles, fifth, words),
        walked(max(titles - 1, 1), fifth, words),
        walked(titles, fifth / 2, words),
        walked(titles, fifth, words * 2),
    ]
    base, *higher = graph_weights(cases, GraphWeightModel()).tolist()
    assert 0 <= base <= min(higher)
    assert max(higher) <= 1
    assert all(getattr(GraphWeightModel(), name) > 0 for name in GRAPH_WEIGHT_SIGNALS)


def test_without_seeds_and_with_a_flat_walk_the_text_arms_answer() -> None:
    flat, steep = graph_weights([walked(0, 0.9, 0), walked(1, 0.02)], GraphWeightModel())
    assert flat < 0.05
    assert steep > 0.8


LETTERS = st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=6)


def slow_sums(lists: list[tuple[list[str], float]], k: int) -> list[str]:
    sums: dict[str, Fraction] = {}
    for ids, weight in lists:
        for rank, id_ in enumerate(ids, start=1):
            sums[id_] = sums.get(id_, Fraction(0)) + Fraction(weight) / (60 + rank)
    return sorted(sums, key=lambda id_: (-float(sums[id_]), id_))[:k]


@given(LETTERS, LETTERS, LETTERS, st.sampled_from([0.5, 1.0, 2.0]), st.integers(1, 8))
def test_it_is_reciprocal_rank_fusion(
    ours: list[str], far: list[str], more: list[str], weight: float, k: int
) -> None:
    lists = [RemoteList(ranked("far", *far), "rank", weight)]
    lists += [RemoteList(ranked("more", *more), "mass", 1.0)]
    found = fuse_remote(ranked("hybrid", *ours), lists, k, by_scores=True)
    assert [hit.id for hit in found.hits] == slow_sums([(ours, 1.0), (far, weight), (more, 1.0)], k)
    for hit in found.hits:
        assert sum(source.share for source in hit.sources) == pytest.approx(hit.score)
        names = {source.retriever for source in hit.sources}
        held = (("hybrid", ours), ("far", far), ("more", more))
        assert names == {name for name, ids in held if hit.id in ids}


@pytest.mark.parametrize(("dense", "lexical"), [(0.6, 0.2), (0.0, 0.0)])
def test_our_own_lists_are_told_apart(dense: float, lexical: float) -> None:
    sources = (Source("dense", 1, 0.7, dense), Source("lexical", 3, 9.0, lexical))
    ours = Ranking("fusion", (RankedHit("a", 0.8, 1, sources),), 9)
    far = RemoteList(ranked("far", "a"), "rank", 1.0)
    (hit,) = fuse_remote(ours, [far], 5, by_scores=True).hits
    parts = {source.retriever: source for source in hit.sources}
    assert (parts["dense"].rank, parts["lexical"].score) == (1, 9.0)
    assert parts["dense"].share + parts["lexical"].share == pytest.approx(1 / 61)
    assert parts["far"].share == pytest.approx(1 / 61)
    if dense:
        assert parts["dense"].share == pytest.approx(0.75 / 61)


MASSES = st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=6).map(lambda x: sorted(x)[::-1])


@given(LETTERS.filter(bool), MASSES, st.sampled_from([0.5, 1.0]))
def test_scores_with_a_meaning_are_added(
    ours: list[str], masses: list[float], weight: float
) -> None:
    cosines = {id_: 0.9 - 0.1 * place for place, id_ in enumerate(ours)}
    far = dict(zip("hgfedcba", masses, strict=False))
    own, other = scored("fusion", cosines), scored("far", far)
    found = fuse_remote(own, [RemoteList(other, "mass", weight)], 20, by_scores=True)
    last, least = min(cosines.values()), min(masses)
    expected = {id_: cosines[id_] - last if id_ in cosines else 0.0 for id_ in {*cosines, *far}}
    for id_, mass in far.items():
        expected[id_] += weight * 0.6 * math.log(mass / least)
    assert {hit.id for hit in found.hits} == {*expected}
    for hit in found.hits:
        assert hit.score == pytest.approx(expected[hit.id])
        assert hit.score == pytest.approx(sum(source.share for source in hit.sources))


@pytest.mark.parametrize(
    ("scores", "values", "addable"),
    [
        *[("rank", [0.9, 0.5], False), ("cosine", [0.9, -0.5], True)],
        *[("cosine", [0.5, 0.9], False), ("mass", [0.9, 0.0], False), ("bm25", [9.0, 0.5], True)],
        ("bm25", [], True),
    ],
)
def test_scores_that_are_not_what_they_should_be_are_not_added(
    scores: ScoreKind, values: list[float], addable: bool
) -> None:
    hits = tuple(RankedHit(str(rank), value, rank) for rank, value in enumerate(values, start=1))
    assert RemoteList(Ranking("far", hits), scores, 1.0).is_addable is addable
