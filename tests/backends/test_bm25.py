"""Weights for all passages at once, against bm25s's own loop over passages."""

from typing import Literal

import bm25s
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.lexical import weigh

passages = st.lists(st.lists(st.integers(0, 7), max_size=12), min_size=1, max_size=9)


@pytest.mark.parametrize("method", ["lucene", "robertson", "atire"])
@settings(max_examples=60)
@given(passages=passages, k1=st.sampled_from([0.0, 0.9, 1.7]), b=st.sampled_from([0.0, 0.4, 1.0]))
def test_weights_are_those_of_bm25s_to_the_bit(
    passages: list[list[int]], k1: float, b: float, method: Literal["lucene"]
) -> None:
    used = sorted({term for passage in passages for term in passage})
    if not used:
        return
    number = {term: place for place, term in enumerate(used)}
    rows = [[number[term] for term in passage] for passage in passages]
    theirs = bm25s.BM25(k1=k1, b=b, method=method, backend="numpy")
    vocabulary = {str(term): place for term, place in number.items()}
    theirs.index((rows, vocabulary), create_empty_token=False, show_progress=False)
    ours = weigh(
        bm25s.BM25(k1=k1, b=b, method=method, backend="numpy"),
        np.array([term for row in rows for term in row], np.int32),
        np.array([len(row) for row in rows], np.int32),
        len(used),
    )
    for part in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(ours.scores[part], theirs.scores[part])
        assert ours.scores[part].dtype == theirs.scores[part].dtype
    for query in ([0], list(range(len(used))), [0, 0]):
        assert (
            ours.get_scores_from_ids(query).tolist() == theirs.get_scores_from_ids(query).tolist()
        )
