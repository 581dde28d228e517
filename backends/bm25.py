"""BM25 weights as bm25s computes them, for all passages at once instead of one after the other."""

import bm25s
import numpy as np
from bm25s.scoring import _select_idf_scorer, _select_tfc_scorer
from scipy import sparse

from backends.types import Int32


def weigh(model: bm25s.BM25, terms: Int32, lengths: Int32, vocabulary: int) -> bm25s.BM25:
    """Give a model the weights that its `index` would compute, bit for bit.

    bm25s scores single passages in a loop, which is most of the time of indexing where the terms
    are known already; its formulas are used here as they are.

    Args:
        model: With its parameters set.
        terms: (m,) numbers of the terms of n passages, end to end, repeats kept.
        lengths: (n,) terms of each passage.
        vocabulary: Numbers that there are; each occurs.
    """
    ends = np.cumsum(lengths, dtype=np.int64)
    counts = sparse.csr_array(
        (np.ones(len(terms), np.float32), terms, np.concatenate([[0], ends])),
        shape=(len(lengths), vocabulary),
    )
    counts.sum_duplicates()
    by_term = counts.tocsc()
    by_term.sort_indices()
    passages = np.diff(by_term.indptr)
    idf_of, tfc_of = _select_idf_scorer(model.idf_method), _select_tfc_scorer(model.method)
    known, place = np.unique(passages, return_inverse=True)
    idf = np.array([idf_of(int(df), N=len(lengths)) for df in known], model.dtype)[place]
    tfc = tfc_of(
        tf_array=by_term.data,
        l_d=lengths[by_term.indices].astype(np.float64),
        l_avg=lengths.mean(),
        k1=model.k1,
        b=model.b,
        delta=model.delta,
    )
    model.nonoccurrence_array = None
    model.scores = {
        "data": (np.repeat(idf, passages) * tfc).astype(model.dtype),
        "indices": by_term.indices.astype(np.int32),
        "indptr": by_term.indptr.astype(np.int64),
        "num_docs": len(lengths),
    }
    return model
