"""Fusion of our ranking with remote lists, beside a slow and obvious one."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.types import RankedHit, Ranking, Source
from router.types import FusedHit
from service.arms.fusion import together

IDS = st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=6)


def of(name: str, ids: list[str]) -> Ranking:
    hits = tuple(RankedHit(id_, 1.0 / rank, rank) for rank, id_ in enumerate(ids, start=1))
    return Ranking(name, hits, len(ids))


def slow(lists: list[tuple[list[str], float]], k: int) -> list[str]:
    sums: dict[str, Fraction] = {}
    for ids, weight in lists:
        for rank, id_ in enumerate(ids, start=1):
            sums[id_] = sums.get(id_, Fraction(0)) + Fraction(weight) / (60 + rank)
    return sorted(sums, key=lambda id_: (-float(sums[id_]), id_))[:k]


@given(IDS, IDS, IDS, st.sampled_from([0.5, 1.0, 2.0]), st.integers(1, 8))
def test_it_is_reciprocal_rank_fusion(
    ours: list[str], far: list[str], more: list[str], weight: float, k: int
) -> None:
    found = together(
        of("hybrid", ours), [of("far", far), of("more", more)], {"far": weight, "more": 1.0}, k
    )
    assert [hit.id for hit in found.hits] == slow([(ours, 1.0), (far, weight), (more, 1.0)], k)
    for hit in found.hits:
        assert sum(source.share for source in hit.sources) == pytest.approx(hit.score)
        names = {source.retriever for source in hit.sources}
        lists = (("hybrid", ours), ("far", far), ("more", more))
        assert names == {name for name, ids in lists if hit.id in ids}


@pytest.mark.parametrize(("dense", "lexical"), [(0.6, 0.2), (0.0, 0.0)])
def test_our_own_lists_are_told_apart(dense: float, lexical: float) -> None:
    sources = (Source("dense", 1, 0.7, dense), Source("lexical", 3, 9.0, lexical))
    ours = Ranking("fusion", (FusedHit("a", 0.8, 1, sources),), 9)
    (hit,) = together(ours, [of("far", ["a"])], {"far": 1.0}, 5).hits
    parts = {source.retriever: source for source in hit.sources}
    assert (parts["dense"].rank, parts["lexical"].score) == (1, 9.0)
    assert parts["dense"].share + parts["lexical"].share == pytest.approx(1 / 61)
    assert parts["far"].share == pytest.approx(1 / 61)
    if dense:
        assert parts["dense"].share == pytest.approx(0.75 / 61)
