from collections.abc import Sequence
from fractions import Fraction
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.types import Hit, Ranking
from router.errors import FusionError
from router.fusion import fuse
from router.types import FusedHit

IDS = [f"p{number}" for number in range(8)]


def ranking(name: str, *ids: str, degraded: str = "", candidates: int = 0) -> Ranking:
    hits = tuple(Hit(id_, 1 / rank, rank) for rank, id_ in enumerate(ids, start=1))
    return Ranking(name, hits, candidates, degraded)


def fused_ids(result: Ranking) -> list[str]:
    return [hit.id for hit in result.hits]


def reference(
    lists: Sequence[Sequence[str]], weights: Sequence[float], rrf_k: float
) -> dict[str, Fraction]:
    """Every passage, every list, exact arithmetic."""
    scores: dict[str, Fraction] = {}
    for id_ in sorted({id_ for ids in lists for id_ in ids}):
        total = Fraction(0)
        for ids, weight in zip(lists, weights, strict=True):
            if weight > 0 and id_ in ids:
                total += Fraction(weight / (rrf_k + list(ids).index(id_) + 1))
        if total > 0:
            scores[id_] = total
    return scores


lists_of_ids = st.lists(
    st.lists(st.sampled_from(IDS), unique=True, max_size=8), min_size=1, max_size=4
)


@st.composite
def problems(draw: st.DrawFn) -> tuple[list[list[str]], list[float]]:
    lists = draw(lists_of_ids)
    weight = st.one_of(st.just(0.0), st.floats(0.001, 10))
    weights = draw(st.lists(weight, min_size=len(lists), max_size=len(lists)))
    if not any(weights):
        weights[0] = 1.0
    return lists, weights


def test_the_formula_by_hand() -> None:
    result = fuse(
        [ranking("dense", "a", "b"), ranking("graph", "b", "c")], [0.25, 0.75], rrf_k=60, k=10
    )
    assert fused_ids(result) == ["b", "c", "a"]
    scores = [hit.score for hit in result.hits]
    assert scores == pytest.approx([0.25 / 62 + 0.75 / 61, 0.75 / 62, 0.25 / 61])
    assert [hit.rank for hit in result.hits] == [1, 2, 3]


@given(problems(), st.sampled_from([0.0, 1.0, 60.0]))
def test_agrees_with_the_slow_reference(
    problem: tuple[list[list[str]], list[float]], rrf_k: float
) -> None:
    lists, weights = problem
    expected = reference(lists, weights, rrf_k)
    named = [ranking(f"arm{place}", *ids) for place, ids in enumerate(lists)]
    result = fuse(named, weights, rrf_k=rrf_k, k=len(IDS))
    assert {hit.id: hit.score for hit in result.hits} == {
        id_: float(total) for id_, total in expected.items()
    }
    order = sorted(expected, key=lambda id_: (-float(expected[id_]), id_))
    assert fused_ids(result) == order


@given(problems(), st.randoms(use_true_random=False))
def test_the_order_of_the_lists_changes_nothing(
    problem: tuple[list[list[str]], list[float]], random: Random
) -> None:
    lists, weights = problem
    pairs = [
        (ranking(f"arm{place}", *ids, degraded="why" * (place % 2)), weight)
        for place, (ids, weight) in enumerate(zip(lists, weights, strict=True))
    ]
    first = fuse([part for part, _ in pairs], [weight for _, weight in pairs], k=5)
    random.shuffle(pairs)
    again = fuse([part for part, _ in pairs], [weight for _, weight in pairs], k=5)
    assert repr(first) == repr(again)


@given(problems())
def test_a_weight_of_zero_removes_a_list(problem: tuple[list[list[str]], list[float]]) -> None:
    lists, weights = problem
    named = [ranking(f"arm{place}", *ids) for place, ids in enumerate(lists)]
    extra = ranking("removed", *reversed(IDS), degraded="never shown", candidates=99)
    with_it = fuse([*named, extra], [*weights, 0.0], k=8)
    assert with_it == fuse(named, weights, k=8)


@given(problems(), st.integers(1, 8))
def test_a_smaller_k_is_a_prefix(problem: tuple[list[list[str]], list[float]], k: int) -> None:
    lists, weights = problem
    named = [ranking(f"arm{place}", *ids) for place, ids in enumerate(lists)]
    assert fuse(named, weights, k=k).hits == fuse(named, weights, k=8).hits[:k]


def test_ties_break_by_id() -> None:
    result = fuse([ranking("dense", "b"), ranking("graph", "a")], [1, 1], k=2)
    assert fused_ids(result) == ["a", "b"]


def test_one_list_keeps_its_order() -> None:
    result = fuse([ranking("dense", "c", "a", "b")], [0.5], k=3)
    assert fused_ids(result) == ["c", "a", "b"]


def test_a_hit_says_where_it_came_from() -> None:
    result = fuse([ranking("graph", "b", "a"), ranking("dense", "a")], [0.5, 0.5], rrf_k=60, k=1)
    hit = result.hits[0]
    assert isinstance(hit, FusedHit)
    assert [(s.retriever, s.rank) for s in hit.sources] == [("dense", 1), ("graph", 2)]
    assert sum(source.share for source in hit.sources) == pytest.approx(hit.score)


def test_a_degraded_list_shows() -> None:
    lists = [ranking("graph", "a", degraded="no seed"), ranking("dense", "a", candidates=7)]
    result = fuse(lists, [1, 1], k=1)
    assert result.degraded == "graph: no seed"
    assert result.candidates == 7


def test_empty_lists_give_an_empty_ranking() -> None:
    assert fuse([ranking("dense"), ranking("graph")], [1, 1], k=3).hits == ()


@pytest.mark.parametrize(
    ("lists", "weights", "options", "says"),
    [
        ([ranking("dense", "a")], [1, 1], {}, "1 rankings came with 2 weights"),
        ([ranking("dense", "a")], [0], {}, "Nothing is left to fuse"),
        ([], [], {}, "Nothing is left to fuse"),
        ([ranking("dense", "a")], [-1], {}, "weight of 'dense' is -1"),
        ([ranking("dense", "a")], [float("nan")], {}, "weight of 'dense' is nan"),
        ([ranking("dense", "a", "a")], [1], {}, "Passage 'a' is twice in 'dense'"),
        ([ranking("dense", "a")], [1], {"k": 0}, "k is 0"),
        ([ranking("dense", "a")], [1], {"rrf_k": -1.0}, "rrf_k is -1"),
        ([Ranking("dense", (Hit("a", 1, 0),))], [1], {}, "says rank 0"),
    ],
)
def test_misuse_is_told_apart(
    lists: list[Ranking], weights: list[float], options: dict[str, float], says: str
) -> None:
    arguments = {"k": 5, **options}
    with pytest.raises(FusionError, match=says):
        fuse(lists, weights, k=int(arguments["k"]), rrf_k=float(arguments.get("rrf_k", 60)))


def test_a_concatenation_is_refused() -> None:
    run_together = Ranking("both", (Hit("a", 1, 1), Hit("b", 1, 1)))
    with pytest.raises(FusionError, match="fuse whole rankings"):
        fuse([run_together], [1], k=2)
