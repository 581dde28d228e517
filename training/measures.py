"""How good a ranking is, per question: ir_measures' names, and one of our own."""

from collections.abc import Mapping, Sequence

import ir_measures
import numpy as np
from numpy.typing import NDArray

from training.dataset import Judgements

ALL_EVIDENCE = "all-evidence@5"
MEASURES: tuple[str, ...] = (
    "R@1",
    "R@3",
    "R@5",
    "R@10",
    "nDCG@10",
    "Success@1",
    "Success@5",
    ALL_EVIDENCE,
)
DEPTH = 10
"""The deepest rank that a measure above looks at."""

Float64 = NDArray[np.float64]
Run = Mapping[str, Sequence[str]]
"""Question id -> passage ids, best first."""


def score(judgements: Judgements, run: Run) -> Float64:
    """Every measure of every judged question.

    A question that the run lacks, or answers with nothing, scores 0.

    Args:
        judgements: Question id -> passage id -> relevance.
        run: The answers.

    Returns:
        (n, m) float64: rows in the order of `judgements`, columns in the order of `MEASURES`.
    """
    row = {id_: place for place, id_ in enumerate(judgements)}
    column = {name: place for place, name in enumerate(MEASURES)}
    values = np.zeros((len(row), len(column)))
    public = [ir_measures.parse_measure(name) for name in MEASURES if name != ALL_EVIDENCE]
    qrels = [
        ir_measures.Qrel(question, passage, relevance)
        for question, judged in judgements.items()
        for passage, relevance in judged.items()
    ]
    # trec_eval orders by score alone, so the score given to it is the place in our order.
    docs = [
        ir_measures.ScoredDoc(question, passage, float(-place))
        for question in judgements
        for place, passage in enumerate(run.get(question, ()))
    ]
    if docs:
        for metric in ir_measures.iter_calc(public, qrels, docs):
            values[row[metric.query_id], column[str(metric.measure)]] = metric.value
    for question, judged in judgements.items():
        values[row[question], column[ALL_EVIDENCE]] = all_evidence(
            judged, run.get(question, ()), cutoff=5
        )
    return values


def all_evidence(judged: Mapping[str, int], ids: Sequence[str], *, cutoff: int) -> float:
    """1.0 when every relevant passage is among the first `cutoff`, else 0.0.

    What a reader needs for a question of several hops: half of the evidence answers nothing.
    """
    gold = {passage for passage, relevance in judged.items() if relevance > 0}
    return float(gold <= set(ids[:cutoff]))
