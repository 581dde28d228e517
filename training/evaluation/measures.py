"""Measures of a ranking, per question: some of ir_measures', and one of our own."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import ir_measures
import numpy as np

from wye.backends.files import rounded_json
from wye.backends.types import Float64, RankedHit
from wye.training.data.dataset import Judgements, judged_id

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
"""The deepest rank that these measures use."""

Run = Mapping[str, Sequence[str]]
"""Question id -> passage ids, best first."""


def score(judgements: Judgements, run: Run) -> Float64:
    """Every measure of every judged question.

    A question that is missing in the run, or has no passages there, scores 0. Judgements may name
    documents: the first passage of a document then has its place, and the others none.

    Args:
        judgements: Question id -> id of a passage or document -> relevance.

    Returns:
        (n, m) float64: rows in the order of `judgements`, columns in the order of `MEASURES`.
    """
    named = {id_ for grades in judgements.values() for id_ in grades}
    run = {
        id_: [*dict.fromkeys(judged_id(one, named) for one in run.get(id_, ()))]
        for id_ in judgements
    }
    row = {id_: position for position, id_ in enumerate(judgements)}
    column = {name: position for position, name in enumerate(MEASURES)}
    values = np.zeros((len(row), len(column)))
    public = [ir_measures.parse_measure(name) for name in MEASURES if name != ALL_EVIDENCE]
    qrels = [
        ir_measures.Qrel(question, passage, relevance)
        for question, grades in judgements.items()
        for passage, relevance in grades.items()
    ]
    # trec_eval orders by score alone, so it gets the negative position as score.
    docs = [
        ir_measures.ScoredDoc(question, passage, float(-position))
        for question in judgements
        for position, passage in enumerate(run[question])
    ]
    if docs:
        for metric in ir_measures.iter_calc(public, qrels, docs):
            values[row[metric.query_id], column[str(metric.measure)]] = metric.value
    for question, grades in judgements.items():
        values[row[question], column[ALL_EVIDENCE]] = all_evidence(grades, run[question], cutoff=5)
    return values


def all_evidence(grades: Mapping[str, int], ids: Sequence[str], *, cutoff: int) -> float:
    """1.0 when every relevant passage is among the first `cutoff`, else 0.0.

    A question of several hops needs all of its evidence; half of it answers nothing.
    """
    gold = {passage for passage, relevance in grades.items() if relevance > 0}
    return float(gold <= set(ids[:cutoff]))


def write_trec(path: Path, tag: str, answers: Mapping[str, Sequence[RankedHit]]) -> None:
    """Write a TREC run: question, Q0, passage, rank, score, tag.

    trec_eval sorts again by single-precision score. So that it keeps our order, a score that is not
    below the one before it is lowered by the smallest step.

    Args:
        path: The file; its folder is created.
        tag: Name of the run, without blanks.
        answers: Question id -> hits, best first.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        for question, hits in answers.items():
            last = np.float32(math.inf)
            for hit in hits:
                last = min(np.float32(hit.score), np.nextafter(last, np.float32(-math.inf)))
                file.write(f"{question} Q0 {hit.id} {hit.rank} {last!s} {tag}\n")


def write_json(path: Path, content: Mapping[str, object]) -> None:
    """Write JSON; equal content gives equal bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(rounded_json(content) + "\n", encoding="utf-8")
