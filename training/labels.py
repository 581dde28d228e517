"""What a router learns: for each question, which of two arms it needs."""

from collections.abc import Sequence

import numpy as np

from router.fusing import blend_text
from router.fusion_settings import FusionSettings
from router.types import Route
from training.disagreement import (
    CUTOFF,
    SUCCESS,
    Answerer,
    Disagreement,
    disagreement,
    disagreement_of,
)
from training.errors import FitError
from training.examples import Int64
from training.material import Material
from training.measures import ALL_EVIDENCE, DEPTH, MEASURES
from training.replay import TrainingReplay

BETTER = "better-ndcg@10"
"""Success as the better of both rankings: it labels every question on which they differ at all."""
CHOICES = (*SUCCESS, BETTER)
"""Names of --success that a replay alone answers."""


def disagreements(
    replays: Sequence[TrainingReplay], simple: Route, success: str, fusion: FusionSettings
) -> Disagreement:
    """The questions on which exactly one of the simple and the graph arm succeeds.

    Args:
        replays: Of train and dev splits.
        simple: The simple arm: dense, lexical or hybrid.
        success: One of `CHOICES`.
        fusion: How hybrid adds scores up.

    Raises:
        FitError: There is no such success, or no answers for it.
    """
    answers = _answerer(simple, fusion)
    if success != BETTER:
        if success not in SUCCESS:
            raise FitError(f"There is no success '{success}'; choose among {', '.join(CHOICES)}.")
        return disagreement(replays, answers, _answerer(Route.GRAPH, fusion), success)
    column = MEASURES.index("nDCG@10")
    ours = np.concatenate([r.measure(answers(r))[:, column] for r in replays])
    graph = np.concatenate([r.measure(r.rankings(Route.GRAPH))[:, column] for r in replays])
    return disagreement_of(replays, ours > graph, graph > ours)


_MEASURED = {
    "all-gold@5": ALL_EVIDENCE,
    "any-gold@5": "Success@5",
    BETTER: "nDCG@10",
}


def compared(material: Material, simple: Route, success: str, fusion: FusionSettings) -> Int64:
    """The same as `labels_of` for questions of any split, which a router is judged on.

    Args:
        material: Of any split.
        simple: The simple arm.
        success: One of `CHOICES`.
        fusion: How hybrid adds scores up.
    """
    worth = []
    for route in (simple, Route.GRAPH):
        rankings = material.rankings(route, fusion)
        if success in _MEASURED:
            column = MEASURES.index(_MEASURED[success])
            worth.append(material.measured(rankings)[:, column])
        else:
            worth.append(material.answered(rankings, CUTOFF))
    return np.where(worth[0] == worth[1], -1, worth[1] > worth[0])


def labels_of(found: Disagreement, count: int) -> Int64:
    """(n,) 1 where the graph is needed, 0 where the simple arm is, and -1 where either will do."""
    labels = np.full(count, -1)
    labels[found.rows] = found.labels
    return labels


def _answerer(route: Route, fusion: FusionSettings) -> Answerer:
    if route == Route.HYBRID:
        return lambda replay: blend_text(replay.evidence, fusion, DEPTH)
    return lambda replay: replay.rankings(route)
