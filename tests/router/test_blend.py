"""Fusion of scores against a slow version that looks at every passage and every list."""

import math
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.types import Hit, Ranking
from router.blend import LEAST_SHARE, blend, blend_weights, log_share, scaled
from router.errors import FusionError
from router.types import FusedHit, Route

IDS = [f"p{number}" for number in range(8)]
ARMS = ["dense", "lexical", "graph"]


def ranking(name: str, scores: dict[str, float], candidates: int = 100) -> Ranking:
    order = sorted(scores, key=lambda id_: (-scores[id_], id_))
    hits = tuple(Hit(id_, scores[id_], rank) for rank, id_ in enumerate(order, start=1))
    return Ranking(name, hits, candidates)


def value(name: str, score: float, best: float) -> float:
    if name == "dense":
        return score
    if best <= 0:
        return 0.0
    return score / best if name == "lexical" else math.log(max(score / best, LEAST_SHARE))


def slow(rankings: Sequence[Ranking], weights: Sequence[float]) -> dict[str, float]:
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
def problems(draw: st.DrawFn) -> tuple[list[Ranking], list[float]]:
    rankings = []
    for name in draw(st.lists(st.sampled_from(ARMS), min_size=1, unique=True)):
        score = st.floats(-1, 1) if name == "dense" else st.floats(0.001, 30)
        scores = draw(st.dictionaries(st.sampled_from(IDS), score, max_size=8))
        rankings.append(ranking(name, scores, draw(st.sampled_from([len(scores), 100]))))
    weights = [draw(st.one_of(st.just(0.0), st.floats(0.01, 5))) for _ in rankings]
    return rankings, weights if any(weights) else [1.0, *weights[1:]]


@given(problems())
def test_as_the_slow_version(problem: tuple[list[Ranking], list[float]]) -> None:
    rankings, weights = problem
    expected = slow(rankings, weights)
    hits = blend(rankings, weights, k=100).hits
    assert {hit.id: hit.score for hit in hits} == pytest.approx(expected, abs=1e-9)
    assert list(hits) == sorted(hits, key=lambda hit: (-hit.score, hit.id))
    assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))


@given(problems(), st.randoms(use_true_random=False))
def test_the_order_of_the_lists_changes_no_bit(
    problem: tuple[list[Ranking], list[float]], random: Random
) -> None:
    pairs = list(zip(*problem, strict=True))
    random.shuffle(pairs)
    shuffled = blend([one for one, _ in pairs], [weight for _, weight in pairs], k=5)
    assert shuffled.hits == blend(*problem, k=5).hits


def test_by_hand() -> None:
    found = blend(
        [
            ranking("dense", {"a": 0.9, "b": 0.5}),
            ranking("lexical", {"b": 8.0, "c": 4.0}),
            ranking("graph", {"c": 0.4, "a": 0.1}),
        ],
        [1.0, 0.2, 0.3],
        k=3,
    )
    scores = {hit.id: hit.score for hit in found.hits}
    assert scores == pytest.approx({"a": 0.4, "b": 0.2 * 0.5, "c": 0.3 * math.log(4)})
    assert found.retriever == "fusion"
    first = found.hits[0]
    assert isinstance(first, FusedHit)
    assert [(s.retriever, s.rank) for s in first.sources] == [("graph", 1), ("lexical", 2)]
    assert sum(source.share for source in first.sources) == pytest.approx(first.score)


def test_a_list_that_has_all_matches_counts_from_nothing() -> None:
    whole = blend([ranking("lexical", {"a": 4.0, "b": 2.0}, 2)], [1.0], k=2)
    assert [hit.score for hit in whole.hits] == [1.0, 0.5]
    cut = blend([ranking("lexical", {"a": 4.0, "b": 2.0}, 3)], [1.0], k=2)
    assert [hit.score for hit in cut.hits] == [0.5, 0.0]


def test_an_empty_list_says_nothing() -> None:
    dense = ranking("dense", {"a": 0.3, "b": 0.2})
    with_empty = blend([dense, ranking("lexical", {})], [1.0, 1.0], k=2)
    assert with_empty.hits == blend([dense], [1.0], k=2).hits


def test_the_walk_s_scale_does_not_matter() -> None:
    masses = {"a": 0.3, "b": 0.02, "c": 0.001}
    small = {id_: mass * 1e-5 for id_, mass in masses.items()}
    assert scaled(ranking("graph", small)) == pytest.approx(scaled(ranking("graph", masses)))


def test_shares_have_a_least_one_and_nothing_has_none() -> None:
    assert log_share(0.0, 0.5) == pytest.approx(math.log(LEAST_SHARE))
    assert log_share(0.0, 0.0) == 0.0
    assert scaled(ranking("lexical", {})) == []


def test_weights_go_from_text_to_graph() -> None:
    assert blend_weights(0.0, lexical_share=0.2, graph_scale=0.3) == {
        "dense": 1.0,
        "lexical": 0.2,
        "graph": 0.0,
    }
    assert blend_weights(1.0, lexical_share=0.2, graph_scale=0.3)[Route.GRAPH] == 0.3


def test_what_cannot_be_blended() -> None:
    dense = ranking("dense", {"a": 1.0})
    with pytest.raises(FusionError, match="no scale for the scores of 'clue'"):
        blend([ranking("clue", {"a": 1.0})], [1.0], k=1)
    with pytest.raises(FusionError, match="Nothing is left to fuse"):
        blend([dense], [0.0], k=1)
    with pytest.raises(FusionError, match="k is 0"):
        blend([dense], [1.0], k=0)
    with pytest.raises(FusionError, match="says rank 2"):
        blend([Ranking("dense", (Hit("a", 1.0, 2),), 9)], [1.0], k=1)
