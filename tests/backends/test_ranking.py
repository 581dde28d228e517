import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from backends.errors import BackendError
from backends.numerics import (
    RequestError,
    make_ranking,
    query_matrix,
    require_k,
    require_mask,
    top_rows,
)
from backends.types import Hit, Query, Ranking


@given(
    arrays(np.float32, st.integers(0, 40), elements=st.sampled_from([-1.5, 0.0, 0.25, 0.5, 2.0])),
    st.integers(1, 50),
)
def test_top_rows_equals_a_full_sort(scores: np.ndarray, k: int) -> None:
    slow = sorted(range(len(scores)), key=lambda row: (-scores[row], row))[:k]
    assert top_rows(scores, k).tolist() == slow


def test_k_below_one_is_refused_as_a_backend_error_and_a_value_error() -> None:
    with pytest.raises(RequestError, match=r"k is 0.*k >= 1") as caught:
        require_k(0)
    assert isinstance(caught.value, BackendError)
    assert isinstance(caught.value, ValueError)
    require_k(1)


def test_a_mask_of_another_shape_or_type_is_refused() -> None:
    require_mask(None, 3)
    require_mask(np.array([True, False, True]), 3)
    with pytest.raises(RequestError, match="3 passages"):
        require_mask(np.array([True]), 3)
    with pytest.raises(RequestError, match="int64"):
        require_mask(np.array([1, 0, 1]), 3)


def test_query_matrix_names_the_question_whose_vector_does_not_fit() -> None:
    good = Query("good", np.ones(3, np.float32))
    assert query_matrix([], 3).shape == (0, 3)
    assert query_matrix([good, good], 3).tolist() == [[1, 1, 1], [1, 1, 1]]
    with pytest.raises(RequestError, match="'short'"):
        query_matrix([good, Query("short", np.ones(2, np.float32))], 3)
    with pytest.raises(RequestError, match=r"'broken'.*not finite"):
        query_matrix([good, Query("broken", np.array([0, np.nan, 0], np.float32))], 3)


def test_ranks_count_from_one() -> None:
    ranking = make_ranking(
        "dense", ["a", "b", "c"], np.array([2, 0]), np.array([0.5, 0.25]), candidates=3
    )
    assert ranking == Ranking("dense", (Hit("c", 0.5, 1), Hit("a", 0.25, 2)), 3, "")
    assert type(ranking.hits[0].score) is float
