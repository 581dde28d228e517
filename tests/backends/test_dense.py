"""The dense arm, against a scan in float64 that sorts everything."""

from typing import Literal

import faiss
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wye.backends.dense
from wye.backends.dense import DenseRetriever, DenseSettings, encode, rotated
from wye.backends.numerics import JoinedRows
from wye.backends.types import Float32, Mask, Query, Ranking

COMPRESSED = DenseSettings(kind="compressed")


def ids_of(n: int) -> list[str]:
    return [f"p{row:05}" for row in range(n)]


def unit(generator: np.random.Generator, n: int, d: int) -> Float32:
    rows = generator.standard_normal((n, d)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def questions(vectors: Float32) -> list[Query]:
    return [Query(f"question {row}", vector) for row, vector in enumerate(vectors)]


def slow(vectors: Float32, query: Float32, allowed: Mask | None = None) -> list[tuple[str, float]]:
    """All by products in float64, ties by id."""
    scores = (vectors.astype(np.float64) * query.astype(np.float64)).sum(axis=1)
    rows = [row for row in range(len(vectors)) if allowed is None or allowed[row]]
    rows.sort(key=lambda row: (-scores[row], row))
    ids = ids_of(len(vectors))
    return [(ids[row], float(scores[row])) for row in rows]


def assert_equals_slow(
    ranking: Ranking, vectors: Float32, query: Float32, k: int, allowed: Mask | None = None
) -> None:
    """Values within float32's rounding, place by place and passage by passage; ties by id."""
    rounding = 1e-6 * float(np.linalg.norm(query))
    everything = slow(vectors, query, allowed)
    truth = dict(everything)
    hits = [(hit.id, hit.score) for hit in ranking.hits]
    result = [score for _, score in hits]
    best = [score for _, score in everything[:k]]
    assert result == pytest.approx(best, rel=0, abs=rounding)
    assert result == pytest.approx([truth[name] for name, _ in hits], rel=0, abs=rounding)
    assert hits == sorted(hits, key=lambda hit: (-hit[1], hit[0]))
    # Equal rows have equal scores to the last bit, so the cut among them is known exactly.
    row_of = {name: vectors[row].tobytes() for row, name in enumerate(ids_of(len(vectors)))}
    for content in {row_of[name] for name, _ in hits}:
        alike = [name for name, _ in everything if row_of[name] == content]
        returned = [name for name, _ in hits if row_of[name] == content]
        assert returned == alike[: len(returned)]
    assert [hit.rank for hit in ranking.hits] == list(range(1, len(hits) + 1))


@pytest.mark.parametrize("length", [1.0, 37.5, 1e-3])
@pytest.mark.parametrize("k", [1, 10, 200, 900])
def test_values_and_order_equal_a_slow_scan_at_any_length(k: int, length: float) -> None:
    generator = np.random.default_rng(0)
    vectors = unit(generator, 500, 32)
    queries = questions(unit(generator, 5, 32) * np.float32(length))
    retriever = DenseRetriever(ids_of(500), vectors)
    for query, ranking in zip(queries, retriever.search(queries, k), strict=True):
        assert_equals_slow(ranking, vectors, query.vector, k)
        assert (ranking.retriever, ranking.candidates, ranking.degraded) == ("dense", 500, "")
        expected = vectors.astype(np.float64) @ query.vector.astype(np.float64)
        values = retriever.scores([query])[0].values
        np.testing.assert_allclose(values, expected, atol=1e-6 * max(length, 1))
        assert retriever.scores([query])[0].values.dtype == np.float32


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 120),
    distinct=st.integers(1, 6),
    k=st.integers(1, 130),
    share=st.floats(0, 1),
)
@settings(max_examples=150)
def test_equal_scores_at_the_cut_are_resolved_by_id_with_and_without_a_filter(
    seed: int, n: int, distinct: int, k: int, share: float
) -> None:
    generator = np.random.default_rng(seed)
    vectors = unit(generator, distinct, 8)[generator.integers(0, distinct, n)]
    query = unit(generator, 1, 8)[0]
    retriever = DenseRetriever(ids_of(n), vectors)
    allowed = generator.random(n) < share
    assert_equals_slow(retriever.search(questions(query[None]), k)[0], vectors, query, k)
    filtered = retriever.search(questions(query[None]), k, allowed)[0]
    assert_equals_slow(filtered, vectors, query, k, allowed)
    assert filtered.candidates == allowed.sum()


@pytest.mark.parametrize("chosen", [DenseSettings(), COMPRESSED], ids=lambda s: s.kind)
@pytest.mark.parametrize("share", [0.005, 0.1, 0.9])
def test_filters_are_exact_in_every_kind(chosen: DenseSettings, share: float) -> None:
    generator = np.random.default_rng(1)
    vectors = unit(generator, 1500, 16)
    retriever = DenseRetriever(ids_of(1500), vectors, chosen)
    queries = unit(generator, 25, 16)
    allowed = generator.random(1500) < share
    rankings = retriever.search(questions(queries), 10, allowed)
    for query, ranking in zip(queries, rankings, strict=True):
        assert_equals_slow(ranking, vectors, query, 10, allowed)


@pytest.mark.parametrize("chosen", [DenseSettings(), COMPRESSED], ids=lambda s: s.kind)
def test_a_ranking_does_not_depend_on_the_batch(chosen: DenseSettings) -> None:
    # Kernels, and with them the last bits, change with the size of a batch; bytes must not.
    generator = np.random.default_rng(2)
    retriever = DenseRetriever(ids_of(2000), unit(generator, 2000, 64), chosen)
    queries = questions(unit(generator, 40, 64))
    together = retriever.search(queries, 20)
    assert together == [retriever.search([query], 20)[0] for query in queries]
    assert together == [retriever.rank(one, 20) for one in retriever.scores(queries)]
    for share in (0.1, 0.9):
        allowed = generator.random(2000) < share
        for k in (20, min(retriever.deepest, 2000)):
            scores = retriever.scores(queries, allowed)
            some = retriever.search(queries, k, allowed)
            assert some == [retriever.rank(one, k, allowed) for one in scores]


def test_codes_give_the_scores_of_what_they_propose_and_no_others() -> None:
    generator = np.random.default_rng(12)
    vectors, allowed = clustered(generator, 6000, 16), generator.random(6000) < 0.8
    retriever = DenseRetriever(ids_of(6000), vectors, COMPRESSED)
    queries = unit(generator, 3, 16)
    for query, (rows, values) in zip(queries, retriever.scores(questions(queries)), strict=True):
        assert rows is not None
        assert 1000 <= len(rows) < 1100
        assert (np.diff(rows) > 0).all()
        np.testing.assert_allclose(values, vectors[rows] @ query, atol=1e-6)
    for rows, _ in retriever.scores(questions(queries), allowed):
        assert rows is not None
        assert allowed[rows].all()


def clustered(generator: np.random.Generator, n: int, d: int) -> Float32:
    """Unit vectors around a few centres, with some numbers that are large in all of them."""
    centres = unit(generator, n // 50, d)
    rows: Float32 = centres[generator.integers(0, len(centres), n)]
    rows = rows + generator.standard_normal((n, d), np.float32) / np.float32(2 * d**0.5)
    rows[:, :3] += 0.2
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


@pytest.mark.parametrize("d", [64, 63])
@pytest.mark.parametrize("share", [1.0, 0.6])
def test_codes_find_as_a_scan_with_true_scores_and_the_same_each_time(d: int, share: float) -> None:
    generator = np.random.default_rng(3)
    vectors = clustered(generator, 8000, d)
    allowed = generator.random(8000) < share
    queries = vectors[:20] + unit(generator, 20, d) * np.float32(0.5)
    queries *= np.float32(3)
    mask = None if share == 1 else allowed
    retriever = DenseRetriever(ids_of(8000), vectors, COMPRESSED)
    rankings = retriever.search(questions(queries), 10, mask)
    result = 0
    for query, ranking in zip(queries, rankings, strict=True):
        everything = slow(vectors, query, mask)
        truth = dict(everything)
        assert len(ranking.hits) == 10
        assert ranking.candidates == (8000 if mask is None else mask.sum())
        for hit in ranking.hits:  # what is not allowed has no score here
            assert hit.score == pytest.approx(truth[hit.id], abs=3e-6)
        result += len({hit.id for hit in ranking.hits} & {name for name, _ in everything[:10]})
    assert result / 200 >= 0.98
    again = DenseRetriever(ids_of(8000), vectors, COMPRESSED, encode(vectors))
    assert rankings == again.search(questions(queries), 10, mask)


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(0, 40), d=st.sampled_from([7, 8, 384]))
@settings(max_examples=25)
def test_a_code_depends_on_its_vector_alone(seed: int, n: int, d: int) -> None:
    generator = np.random.default_rng(seed)
    vectors = unit(generator, n, d)
    order = generator.permutation(n)
    codes = encode(vectors)
    assert np.array_equal(codes[order], encode(vectors[order]))
    assert [encode(vectors[[row]])[0].tolist() for row in range(n)] == codes.tolist()
    turned = rotated(vectors)
    np.testing.assert_allclose(turned @ turned.T, vectors @ vectors.T, atol=1e-5)


def test_a_large_corpus_is_compressed_by_itself() -> None:
    vectors = unit(np.random.default_rng(4), 60, 16)
    for size, is_exact in ((59, True), (60, False)):
        chosen = DenseSettings(compressed_from=60)
        retriever = DenseRetriever(ids_of(size), vectors[:size], chosen)
        assert (retriever.deepest > 100) == is_exact


@pytest.mark.parametrize("kind", ["exact", "compressed"])
@given(
    base=st.integers(0, 700),
    more=st.integers(0, 40),
    lost=st.integers(0, 90),
    seed=st.integers(0, 99),
)
@settings(max_examples=25)
def test_with_late_passages_it_ranks_as_one_of_all(
    kind: Literal["exact", "compressed"], base: int, more: int, lost: int, seed: int
) -> None:
    generator = np.random.default_rng(seed)
    numbers = generator.permutation(base + more)
    order, present = np.append(np.sort(numbers[:base]), np.sort(numbers[base:])), numbers >= lost
    present |= np.arange(base + more) >= base
    # Some are alike, so that codes tie.
    rows = unit(generator, 1 + (base + more) // 2, 16)
    vectors = JoinedRows(*(rows[generator.integers(0, len(rows), n)] for n in (base, more)))
    by_id = np.argsort(order)[present[np.argsort(order)]]
    ids, own = np.array(ids_of(base + more))[order].tolist(), DenseSettings(kind=kind)
    some = None if present.all() else present
    first = DenseRetriever(ids[:base], vectors.base, own)
    both = DenseRetriever(ids, vectors, own, base=first, order=order, present=some)
    alone = DenseRetriever([ids[row] for row in by_id], vectors[by_id], own)
    queries = questions(unit(generator, 3, 16))
    for share in (None, 0.9, 0.1):
        allowed = None if share is None else (generator.random(base + more) < share) & present
        among = None if allowed is None else allowed[by_id]
        with pytest.MonkeyPatch.context() as patch:  # so that codes do not propose all
            for name, value in (("_FETCHED", 2), ("_LEAST", 10), ("_GATHER_COST", 1)):
                patch.setattr(wye.backends.dense, name, value)
            assert both.search(queries, 7, allowed) == alone.search(queries, 7, among)
            ours, theirs = both.scores(queries, allowed), alone.scores(queries, among)
        for one, other in zip(ours, theirs, strict=True):
            assert both.rank(one, 7, allowed) == alone.rank(other, 7, among)
            if one.rows is not None and other.rows is not None:
                assert {*by_id[other.rows]} == {*one.rows}


def test_nothing_to_search_in_or_to_ask() -> None:
    empty = DenseRetriever([], np.empty((0, 8), np.float32))
    query = questions(unit(np.random.default_rng(8), 1, 8))
    assert empty.search(query, 5) == [Ranking("dense", (), 0)]
    assert empty.search([], 5) == []
    assert empty.rank(empty.scores(query)[0], 5) == Ranking("dense", (), 0)
    some = DenseRetriever(ids_of(3), unit(np.random.default_rng(9), 3, 8))
    assert some.search([], 5) == []
    assert some.search(query, 5, np.zeros(3, np.bool_)) == [Ranking("dense", (), 0)]
    assert some.rank(some.scores(query)[0], 5, np.zeros(3, np.bool_)) == Ranking("dense", (), 0)


def test_building_and_searching_leave_the_number_of_threads_as_it_was() -> None:
    before = faiss.omp_get_max_threads()
    retriever = DenseRetriever(ids_of(100), unit(np.random.default_rng(11), 100, 16), COMPRESSED)
    retriever.search(questions(retriever.vectors[np.arange(2)]), 3)
    assert faiss.omp_get_max_threads() == before
