"""Lists of remote arms, fused with ours."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wye.backends.types import RankedHit, Ranking, Source
from wye.router.remote import RemoteList, Scores, fuse_remote

IDS = st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=6)


def of(name: str, ids: list[str]) -> Ranking:
    hits = tuple(RankedHit(id_, 1.0 / rank, rank) for rank, id_ in enumerate(ids, start=1))
    return Ranking(name, hits, len(ids))


def scored(name: str, scores: dict[str, float]) -> Ranking:
    places = enumerate(scores.items(), start=1)
    return Ranking(name, tuple(RankedHit(id_, score, rank) for rank, (id_, score) in places), 9)


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
    lists = [RemoteList(of("far", far), "rank", weight), RemoteList(of("more", more), "mass", 1.0)]
    found = fuse_remote(of("hybrid", ours), lists, k, by_scores=True)
    assert [hit.id for hit in found.hits] == slow([(ours, 1.0), (far, weight), (more, 1.0)], k)
    for hit in found.hits:
        assert sum(source.share for source in hit.sources) == pytest.approx(hit.score)
        names = {source.retriever for source in hit.sources}
        held = (("hybrid", ours), ("far", far), ("more", more))
        assert names == {name for name, ids in held if hit.id in ids}


@pytest.mark.parametrize(("dense", "lexical"), [(0.6, 0.2), (0.0, 0.0)])
def test_our_own_lists_are_told_apart(dense: float, lexical: float) -> None:
    sources = (Source("dense", 1, 0.7, dense), Source("lexical", 3, 9.0, lexical))
    ours = Ranking("fusion", (RankedHit("a", 0.8, 1, sources),), 9)
    (hit,) = fuse_remote(ours, [RemoteList(of("far", ["a"]), "rank", 1.0)], 5, by_scores=True).hits
    parts = {source.retriever: source for source in hit.sources}
    assert (parts["dense"].rank, parts["lexical"].score) == (1, 9.0)
    assert parts["dense"].share + parts["lexical"].share == pytest.approx(1 / 61)
    assert parts["far"].share == pytest.approx(1 / 61)
    if dense:
        assert parts["dense"].share == pytest.approx(0.75 / 61)


MASSES = st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=6).map(lambda x: sorted(x)[::-1])


@given(IDS.filter(bool), MASSES, st.sampled_from([0.5, 1.0]))
def test_scores_of_a_known_meaning_are_added(
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
        ("rank", [0.9, 0.5], False),
        ("cosine", [0.9, -0.5], True),
        ("cosine", [0.5, 0.9], False),
        ("mass", [0.9, 0.0], False),
        ("bm25", [9.0, 0.5], True),
        ("bm25", [], True),
    ],
)
def test_scores_that_are_not_what_they_should_be_are_not_added(
    scores: Scores, values: list[float], addable: bool
) -> None:
    hits = tuple(RankedHit(str(rank), value, rank) for rank, value in enumerate(values, start=1))
    assert RemoteList(Ranking("far", hits), scores, 1.0).is_addable is addable


def test_where_ours_are_reciprocal_ranks_all_are() -> None:
    lists = [RemoteList(of("far", ["a", "b"]), "cosine", 1.0)]
    found = fuse_remote(of("fusion", ["b"]), lists, 5, by_scores=False)
    assert found.hits[0].score == pytest.approx(1 / 61 + 1 / 62)
