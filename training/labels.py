"""Labels for the router: how much more than the text arms a question needs.

By default every question counts. Its label is 1/2 if the better answer of fusion and steps ranks
relevant passages higher than the text arms do alone, and 1/2 more if only that answer has all of
them among the first five. So the score says how likely more than the text arms is needed: a place
won within the first five says less than evidence that was missing, as that of nested questions is.

As published, only questions count on which exactly one of the simple and the graph arm succeeds
(EA-GraphRAG, section 3.3); that tells which arm is better, but not what both are worth together.
"""

from dataclasses import dataclass

import numpy as np

from wye.backends.types import Float64, Int64, Mask
from wye.router.types import Route
from wye.training.errors import FitError
from wye.training.evaluation_set import EvaluationSet
from wye.training.measures import ALL_EVIDENCE, MEASURES, QUALITY

ENOUGH = 50  # with fewer questions on which the arms disagree, a router hardly generalises
HELPS = "graph-helps"
"""Success: the better of fusion and steps ranks higher, and completes the evidence."""
ALL_GOLD = "all-gold@5"  # success, as published: all relevant passages are among the first five
MARGIN = 1e-6  # smaller differences in nDCG@10 count as none


@dataclass(frozen=True, slots=True)
class Disagreement:
    """What a router learns of questions, and on which of them the arms disagree.

    As published, it learns from those alone.

    Attributes:
        labels: (n,) from 0, where the simple arm is enough, to 1; -1 where nothing is learned.
        better: (n,) 1 where the graph is better, 0 where the simple arm is, -1 where both are worth
            the same.
    """

    labels: Float64
    stakes: Float64  # (n,) each question's weight; 0 where nothing is learned
    better: Int64

    def only(self, rows: Mask) -> "Disagreement":
        """That of some of the questions, (n,) bool."""
        return Disagreement(self.labels[rows], self.stakes[rows], self.better[rows])

    def __len__(self) -> int:
        """Number of questions on which the arms disagree."""
        return int((self.better >= 0).sum())

    @property
    def warnings(self) -> tuple[str, ...]:
        """Reasons to doubt what is learned from these, each with advice."""
        if not len(self):
            return (
                "The arms never disagree, so there is nothing to route; add harder and easier "
                "questions.",
            )
        reasons = []
        if len(self) < ENOUGH:
            reasons.append(
                f"The arms disagree on only {len(self)} questions, and a router needs about "
                f"{ENOUGH}; add questions, or a dataset of another kind."
            )
        graph = int((self.better == 1).sum())
        if graph in {0, len(self)}:
            winner = "graph" if graph else "simple"
            reasons.append(
                f"Whenever the arms disagree, the {winner} arm is better: always taking it loses "
                "nothing here. Add questions on which the other is better, or leave the router out."
            )
        return tuple(reasons)

    def require_both(self) -> None:
        """Check that labels differ.

        Raises:
            FitError: All are the same; says what to do.
        """
        if len(np.unique(self.labels[self.labels >= 0])) < 2:
            raise FitError(" ".join(self.warnings))


def compared(questions: EvaluationSet, simple: Route, success: str) -> Disagreement:
    """Label questions.

    Args:
        simple: The simple arm: dense, lexical or hybrid.
    """
    ranks, completes = MEASURES.index(QUALITY), MEASURES.index(ALL_EVIDENCE)
    ours = questions.values_of(simple)
    if success == ALL_GOLD:
        simple_succeeds = ours[:, completes] == 1
        graph_succeeds = questions.values_of(Route.GRAPH)[:, completes] == 1
        differs = simple_succeeds != graph_succeeds
        better = np.where(differs, graph_succeeds, -1)
        # Datasets count the same, however many of their questions the arms disagree on.
        _, dataset = np.unique(questions.groups, return_inverse=True)
        stakes = differs / np.maximum(np.bincount(dataset, differs)[dataset], 1)
        return Disagreement(better.astype(np.float64), stakes, better.astype(np.int64))
    gain = np.maximum(questions.values_of(Route.FUSION), questions.values_of(Route.STEPS)) - ours
    labels = (gain[:, ranks] > MARGIN) / 2 + (gain[:, completes] > 0) / 2
    better = np.where(np.abs(gain[:, ranks]) > MARGIN, gain[:, ranks] > 0, -1)
    return Disagreement(labels, np.ones(len(gain)), better.astype(np.int64))
