import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.numerics import half_products, products

HALVES = np.arange(65536, dtype=np.uint16).view(np.float16)


def test_products_are_inner_products() -> None:
    rng = np.random.default_rng(0)
    vectors, query = rng.normal(size=(50, 384)), rng.normal(size=384)
    found = products(vectors.astype(np.float32), query.astype(np.float32))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, vectors @ query, rtol=1e-4, atol=1e-4)


def test_a_value_depends_on_no_other_row() -> None:
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(200, 48)).astype(np.float32)
    query = rng.normal(size=48).astype(np.float32)
    together = products(vectors, query)
    alone = np.concatenate([products(vectors[i : i + 1], query) for i in range(200)])
    assert together.tobytes() == alone.tobytes()


def test_every_finite_half_is_read_exactly() -> None:
    finite = HALVES[np.isfinite(HALVES)]
    one = np.ones(1, np.float32)
    rows = np.arange(len(finite), dtype=np.int64)
    found = half_products(np.ascontiguousarray(finite[:, None]), rows, one)
    assert np.array_equal(found, finite.astype(np.float32))


@given(st.integers(0, 2**32 - 1), st.integers(0, 40))
def test_halves_give_what_their_float32_give(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    vectors = rng.normal(scale=0.05, size=(30, 24)).astype(np.float16)
    query = rng.normal(size=24).astype(np.float32)
    rows = rng.integers(0, 30, size=count)
    expected = products(vectors[rows].astype(np.float32), query)
    assert np.array_equal(half_products(vectors, rows, query), expected)


@pytest.mark.parametrize("size", [0, 1])
def test_few_rows(size: int) -> None:
    vectors = np.ones((1, 3), np.float16)
    found = half_products(vectors, np.zeros(size, np.int64), np.ones(3, np.float32))
    assert found.tolist() == [3.0] * size
