"""What a router learns: whether the graph makes the answer to a question better.

By default from every question: does fusion, which walks the graph, and in steps where the question
has a plan, give a better answer than the text arms without it, and by how much? As published, from
those alone on which exactly one of the simple and the graph arm succeeds (EA-GraphRAG, section
3.3); that tells which of two arms is the better one, and nothing of what both together are worth.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from backends.types import Float64, Int64, Mask
from router.fusion import FusionSettings
from router.types import Route
from training.data.evaluation_set import EvaluationSet
from training.data.replay import TrainingReplay
from training.errors import FitError
from training.evaluation.measures import ALL_EVIDENCE, MEASURES

CUTOFF = 5
"""How many passages a reader is given."""
ENOUGH = 50
"""Fewer questions than this teach little that holds on others."""
ANSWER = "answer-in-context@5"
"""Success as an answer that stands in one of the first passages, word for word."""
BETTER = "better-ndcg@10"
"""Success as the better of both rankings: it labels every question on which they differ at all."""
HELPS = "graph-helps"
"""Whether steps, which are fusion without a plan, are better than the simple route; a question
counts by how much is at stake."""
MARGIN = 1e-6
"""Of nDCG@10; what is less apart is the same answer."""
LEAST_STAKE = 0.1
"""What a question counts on which both are the same, beside the difference elsewhere."""
_MEASURED = {
    HELPS: "nDCG@10",
    "all-gold@5": ALL_EVIDENCE,
    "any-gold@5": "Success@5",
    BETTER: "nDCG@10",
}
CHOICES = (HELPS, "all-gold@5", "any-gold@5", ANSWER, BETTER)
"""Names of --success that a replay alone answers; `training.judge` has the one that it does not."""


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Questions that a router learns from: as published, those on which one arm alone succeeds.

    Attributes:
        labels: (n,) 1 where the graph is needed, 0 where the simple arm is enough, -1 where either
            will do.
        stakes: (n,) how much each question counts; 0 where nothing is learned.
        both: How many questions both arms answer.
        neither: How many questions neither arm answers.
    """

    labels: Int64
    stakes: Float64
    both: int
    neither: int

    def __len__(self) -> int:
        """How many questions there are to learn from."""
        return int((self.labels >= 0).sum())

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is doubtful about learning from these, each with what to do."""
        graph = int((self.labels == 1).sum())
        simple = len(self) - graph
        said = []
        if not len(self):
            said.append(
                f"The arms never disagree: both succeed on {self.both} questions and neither on "
                f"{self.neither}. There is nothing to route; add harder and easier questions, or "
                "choose another --success."
            )
        elif len(self) < ENOUGH:
            said.append(
                f"The arms disagree on {len(self)} questions only, and a router needs about "
                f"{ENOUGH}; add questions, or a dataset that is unlike these."
            )
        if len(self) and not (graph and simple):
            winner = "graph" if graph else "simple"
            said.append(
                f"Whenever the arms disagree, the {winner} arm succeeds: always taking it loses "
                "nothing here. Add questions on which the other is better, or leave the router out."
            )
        return tuple(said)

    def require_both(self) -> None:
        """Refuse to learn from one side alone.

        Raises:
            FitError: Says what is missing and what to do.
        """
        if not {0, 1} <= {*self.labels.tolist()}:
            raise FitError(" ".join(self.warnings))


def disagreement_of(simple: Mask, graph: Mask, stakes: Float64 | None = None) -> Disagreement:
    """The same from outcomes that are known, such as those of `training.judge`.

    Args:
        simple: (n,) whether the simple arm succeeds.
        graph: (n,) whether the graph arm does.
        stakes: (n,) how much each question counts; None for all the same.
    """
    apart = simple != graph
    return Disagreement(
        labels=np.where(apart, graph, -1).astype(np.int64),
        stakes=np.where(apart, 1.0 if stakes is None else stakes, 0.0),
        both=int((simple & graph).sum()),
        neither=int((~simple & ~graph).sum()),
    )


def disagreements(
    replays: Sequence[TrainingReplay], simple: Route, success: str, fusion: FusionSettings
) -> Disagreement:
    """The questions to learn from.

    Args:
        replays: Of train and dev splits, taken one after the other.
        simple: The simple arm: dense, lexical or hybrid.

    Raises:
        FitError: There is no such success, or no answers for it.
    """
    if success not in CHOICES:
        raise FitError(f"There is no success '{success}'; choose among {', '.join(CHOICES)}.")
    for replay in replays if success == ANSWER else ():
        if not any(one.question.answers for one in replay.questions):
            raise FitError(
                f"No question of '{replay.dataset}' has an answer in its metadata, which "
                f"{ANSWER} looks for; add `answers`, or choose all-gold@5."
            )
    count = sum(map(len, replays))
    asked = EvaluationSet(tuple(replays), np.empty((count, 0)))
    return compared(asked, simple, success, fusion)


def compared(
    evaluation_set: EvaluationSet, simple: Route, success: str, fusion: FusionSettings
) -> Disagreement:
    """The same for questions of any split, which a router is judged on."""
    ours, graph = _worth(evaluation_set, simple, success, fusion)
    if success == HELPS:
        helps = graph > ours + MARGIN
        return disagreement_of(~helps, helps, np.abs(graph - ours) + LEAST_STAKE)
    if success == BETTER:
        return disagreement_of(ours > graph, graph > ours)
    return disagreement_of(ours == 1, graph == 1)


def _worth(
    evaluation_set: EvaluationSet, simple: Route, success: str, fusion: FusionSettings
) -> tuple[Float64, Float64]:
    """(n,) what the simple arm's answer to each question is worth, and (n,) what the graph's is.

    Where the question is whether the graph helps, the latter is that of steps, which are fusion
    for a question without a plan.
    """
    found = []
    for route in (simple, Route.STEPS if success == HELPS else Route.GRAPH):
        if success in _MEASURED:
            column = MEASURES.index(_MEASURED[success])
            found.append(evaluation_set.worth(route, fusion)[:, column])
        else:
            rankings = evaluation_set.rankings(route, fusion)
            found.append(evaluation_set.answered(rankings, CUTOFF))
    return found[0], found[1]
