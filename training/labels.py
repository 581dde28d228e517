"""Labels for the router: whether the graph makes the answer to a question better.

By default every question counts: is the answer of fusion, or of steps if the question has a plan,
better than the text arms' alone, and by how much? As published, only questions count on which
exactly one of the simple and the graph arm succeeds (EA-GraphRAG, section 3.3); that tells which
arm is better, but not what both are worth together.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from wye.backends.types import Float64, Int64, Mask
from wye.router.fusion import FusionSettings
from wye.router.types import Route
from wye.training.errors import FitError
from wye.training.evaluation_set import EvaluationSet
from wye.training.measures import ALL_EVIDENCE, MEASURES
from wye.training.replay import TrainingReplay

ENOUGH = 50
"""With fewer questions on which the arms disagree, a router hardly generalises."""
HELPS = "graph-helps"
"""Success: steps (fusion, if the question has no plan) are better than the simple route. Questions
are weighted by the difference."""
ALL_GOLD = "all-gold@5"
"""Success, as published: all relevant passages are among the first five."""
BETTER = "better-ndcg@10"
"""Success: the better of both rankings. It labels every question on which they differ at all."""
SUCCESSES = (HELPS, ALL_GOLD, BETTER)
MARGIN = 1e-6
"""Smaller differences in nDCG@10 count as none."""
LEAST_STAKE = 0.1
"""Weight of a question on which both are the same; elsewhere the difference is added."""


@dataclass(frozen=True, slots=True)
class Disagreement:
    """What a router learns of questions, and on which of them the arms disagree.

    As published, it learns from those alone.

    Attributes:
        labels: (n,) 1 where the graph is needed, 0 where the simple arm is enough, -1 where nothing
            is learned.
        stakes: (n,) each question's weight; 0 where nothing is learned.
        better: (n,) 1 where the graph is better, 0 where the simple arm is, -1 where both are
            worth the same.
        both: On how many of the latter both arms succeed, or find anything relevant.
        neither: On how many neither does.
    """

    labels: Int64
    stakes: Float64
    better: Int64
    both: int
    neither: int

    def __len__(self) -> int:
        """Number of questions on which the arms disagree."""
        return int((self.better >= 0).sum())

    @property
    def warnings(self) -> tuple[str, ...]:
        """Reasons to doubt what is learned from these, each with advice."""
        graph = int((self.better == 1).sum())
        simple = len(self) - graph
        reasons = []
        if not len(self):
            reasons.append(
                f"The arms never disagree: both succeed on {self.both} questions and neither on "
                f"{self.neither}. There is nothing to route; add harder and easier questions, or "
                "choose another --success."
            )
        elif len(self) < ENOUGH:
            reasons.append(
                f"The arms disagree on only {len(self)} questions, and a router needs about "
                f"{ENOUGH}; add questions, or a dataset of another kind."
            )
        if len(self) and not (graph and simple):
            winner = "graph" if graph else "simple"
            reasons.append(
                f"Whenever the arms disagree, the {winner} arm is better: always taking it loses "
                "nothing here. Add questions on which the other is better, or leave the router out."
            )
        return tuple(reasons)

    def require_both(self) -> None:
        """Check that there are labels of both kinds.

        Raises:
            FitError: One is missing; says what to do.
        """
        if not {0, 1} <= {*self.labels.tolist()}:
            raise FitError(" ".join(self.warnings))


def disagreement_of(simple: Mask, graph: Mask) -> Disagreement:
    """Disagreements where each arm either succeeds or fails.

    Args:
        simple: (n,) whether the simple arm succeeds.
        graph: (n,) whether the graph arm does.
    """
    apart = simple != graph
    better = np.where(apart, graph, -1).astype(np.int64)
    return Disagreement(
        labels=better,
        stakes=apart.astype(np.float64),
        better=better,
        both=int((simple & graph).sum()),
        neither=int((~simple & ~graph).sum()),
    )


def disagreements(
    replays: Sequence[TrainingReplay], simple: Route, success: str, fusion: FusionSettings
) -> Disagreement:
    """Label the questions of train and dev replays, in order.

    Args:
        simple: The simple arm: dense, lexical or hybrid.
    """
    questions = EvaluationSet(tuple(replays), np.empty((sum(map(len, replays)), 0)))
    return compared(questions, simple, success, fusion)


def compared(
    questions: EvaluationSet, simple: Route, success: str, fusion: FusionSettings
) -> Disagreement:
    """Label questions of any split, for the evaluation of a router."""
    column = MEASURES.index(ALL_EVIDENCE if success == ALL_GOLD else "nDCG@10")
    # Steps are fusion for a question without a plan.
    rival = Route.STEPS if success == HELPS else Route.GRAPH
    ours, graph = (questions.worth(route, fusion)[:, column] for route in (simple, rival))
    if success == HELPS:
        helps, apart = graph > ours + MARGIN, np.abs(graph - ours) > MARGIN
        return Disagreement(
            labels=helps.astype(np.int64),
            stakes=np.abs(graph - ours) + LEAST_STAKE,
            better=np.where(apart, helps, -1).astype(np.int64),
            both=int((~apart & (ours > 0)).sum()),
            neither=int((~apart & (ours <= 0)).sum()),
        )
    if success == BETTER:
        return disagreement_of(ours > graph, graph > ours)
    verdict = disagreement_of(ours == 1, graph == 1)
    # Datasets count the same, however many of their questions the arms disagree on.
    _, dataset = np.unique(questions.groups, return_inverse=True)
    counts = np.bincount(dataset, verdict.stakes)
    return replace(verdict, stakes=verdict.stakes / np.maximum(counts[dataset], 1))
