"""Evaluations as files that other tools read: TREC runs and JSON."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from backends.types import Hit
from router.stable import stable_json


def write_trec(path: Path, tag: str, answers: Mapping[str, Sequence[Hit]]) -> None:
    """Write a TREC run: question, Q0, passage, rank, score, tag.

    trec_eval re-sorts by single-precision score, so a score that does not fall below the one
    before it is pushed down by the smallest step; the order in the file is the order we gave.

    Args:
        path: Of the file; its folder is made.
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
    """Write JSON that is the same bytes for the same content."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(stable_json(content) + "\n", encoding="utf-8")
