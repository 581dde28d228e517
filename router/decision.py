"""A decision and all that is needed to replay and to question it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from featurizer.tree import Tree
from router.types import Route, Thresholds

BASELINE = "(average question)"
"""Name of the contribution that every question starts from."""


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one feature adds to the logit.

    Attributes:
        name: Of the feature, or `BASELINE` for the logit of a question whose features are all
            at their training mean.
        logit: Added to the logit; above 0 speaks for the graph.
        value: Of the feature, as extracted; None for the baseline.
    """

    name: str
    logit: float
    value: float | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """The smallest move of the score that changes the route.

    Attributes:
        route: It would then be.
        threshold: To be reached; where the border belongs to the present route, passed.
        score: How far to move, signed.
        logit: The same on the scale of contributions.
    """

    route: Route
    threshold: float
    score: float
    logit: float


@dataclass(frozen=True, slots=True)
class Decision:
    """Which route a question takes, and why.

    Attributes:
        route: That is taken.
        score: s, from 0 to 1; None when nothing was scored.
        logit: Calibrated, s = 1 / (1 + exp(-logit)); None when nothing was scored.
        thresholds: That the score was held against; None when nothing was scored.
        reason: "score", "forced", "budget: …" or "degraded: …".
        model: Name and version, "name/v1"; empty when nothing was scored.
        contributions: The baseline, then features by falling weight; they add up to the logit.
            Empty unless asked for.
        nearest_change: What would change the route that the score alone asks for; None when no
            score would, or it was not asked for.
        trees: Constituency trees in brackets, one for each sentence of the question, as the
            features saw them; empty unless asked for.
    """

    route: Route
    score: float | None
    logit: float | None
    thresholds: Thresholds | None
    reason: str
    model: str = ""
    contributions: tuple[Contribution, ...] = ()
    nearest_change: Change | None = None
    trees: tuple[str, ...] = ()


def with_trees(decisions: Sequence[Decision], trees: Sequence[Sequence[Tree]]) -> list[Decision]:
    """Decisions with the trees of their questions.

    Args:
        decisions: In the order of the questions.
        trees: Of each question's sentences; empty leaves the decisions as they are.
    """
    if not trees:
        return list(decisions)
    return [
        replace(decision, trees=tuple(str(tree) for tree in own))
        for decision, own in zip(decisions, trees, strict=True)
    ]
