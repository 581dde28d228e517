"""The questions that a router can learn from: exactly one of two answers succeeds.

Source: EA-GraphRAG, section 3.3, which trains on nothing else.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from backends.types import Int64, Mask, Ranking
from router.fusion import FusionSettings, fuse_text
from router.types import Route
from training.data.evaluation_set import EvaluationSet
from training.data.replay import Replayed, TrainingReplay
from training.errors import FitError
from training.evaluation.measures import ALL_EVIDENCE, DEPTH, MEASURES, all_evidence

Answerer = Callable[[TrainingReplay], Sequence[Ranking]]
"""What answers every question of a replay: an arm's rankings, or fused ones."""

CUTOFF = 5
"""How many passages a reader is given."""
ENOUGH = 50
"""Fewer questions than this teach little that holds on others."""


def all_gold(one: Replayed, ranking: Ranking) -> bool:
    """Whether all relevant passages are among the first five."""
    return all_evidence(one.gold, [hit.id for hit in ranking.hits], cutoff=CUTOFF) == 1.0


def any_gold(one: Replayed, ranking: Ranking) -> bool:
    """Whether any relevant passage is among the first five."""
    return any(one.gold.get(hit.id, 0) > 0 for hit in ranking.hits[:CUTOFF])


def answer_in_context(one: Replayed, ranking: Ranking) -> bool:
    """Whether one of the first five passages contains an answer, word for word."""
    return one.answers_in(ranking.hits, CUTOFF)


SUCCESS: Mapping[str, Callable[[Replayed, Ranking], bool]] = {
    "all-gold@5": all_gold,
    "any-gold@5": any_gold,
    "answer-in-context@5": answer_in_context,
}
"""Names of --success that a replay alone answers; `training.judge` has the one that it does not."""


def succeeds(
    replay: TrainingReplay, rankings: Sequence[Ranking], success: str = "all-gold@5"
) -> Mask:
    """(n,) whether the answer to each question succeeds.

    Raises:
        FitError: There is no such way to succeed, or no question has an answer to look for.
    """
    if success not in SUCCESS:
        raise FitError(f"There is no success '{success}'; choose among {', '.join(SUCCESS)}.")
    if success == "answer-in-context@5" and not any(q.question.answers for q in replay.questions):
        raise FitError(
            f"No question of '{replay.dataset}' has an answer in its metadata, which "
            "answer-in-context@5 looks for; add `answers`, or choose all-gold@5."
        )
    judge = SUCCESS[success]
    return np.array(
        [judge(one, ranking) for one, ranking in zip(replay.questions, rankings, strict=True)],
        dtype=bool,
    )


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Questions on which exactly one of the simple and the graph arm succeeds.

    Attributes:
        rows: (m,) places of the questions in all replays taken one after the other.
        labels: (m,) 1 where the graph succeeds, 0 where the simple arm does.
        texts: Of these questions.
        groups: (m,) dataset of each.
        both: How many questions both arms answer.
        neither: How many questions neither arm answers.
    """

    rows: Int64
    labels: Int64
    texts: tuple[str, ...]
    groups: NDArray[np.str_]
    both: int
    neither: int

    def __len__(self) -> int:
        """How many questions there are."""
        return len(self.labels)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is doubtful about learning from these, each with what to do."""
        graph = int(self.labels.sum())
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
        if len(np.unique(self.labels)) < 2:
            raise FitError(" ".join(self.warnings))


def disagreement(
    replays: Sequence[TrainingReplay],
    simple: Answerer,
    graph: Answerer,
    success: str = "all-gold@5",
) -> Disagreement:
    """Form the disagreement set of some replays.

    Args:
        replays: Of train and dev splits; taken one after the other.
        simple: The simple arm's answers.
        graph: The graph arm's answers.
        success: A name of `SUCCESS`.

    Raises:
        FitError: There is no such way to succeed, or no answers for it.
    """
    outcomes = [(succeeds(r, simple(r), success), succeeds(r, graph(r), success)) for r in replays]
    return disagreement_of(
        replays,
        np.concatenate([np.empty(0, bool), *(one for one, _ in outcomes)]),
        np.concatenate([np.empty(0, bool), *(other for _, other in outcomes)]),
    )


def disagreement_of(replays: Sequence[TrainingReplay], simple: Mask, graph: Mask) -> Disagreement:
    """The same from outcomes that are known, such as those of `training.judge`.

    Args:
        replays: Taken one after the other, n questions in all.
        simple: (n,) whether the simple arm succeeds.
        graph: (n,) whether the graph arm does.
    """
    rows = np.flatnonzero(simple != graph)
    questions = list(chain.from_iterable(replay.questions for replay in replays))
    chosen = [questions[row].question for row in rows.tolist()]
    return Disagreement(
        rows=rows,
        labels=graph[rows].astype(np.int64),
        texts=tuple(question.text for question in chosen),
        groups=np.array([question.group for question in chosen], dtype=np.str_),
        both=int((simple & graph).sum()),
        neither=int((~simple & ~graph).sum()),
    )


BETTER = "better-ndcg@10"
"""Success as the better of both rankings: it labels every question on which they differ at all."""
CHOICES = (*SUCCESS, BETTER)
"""Names of --success that a replay alone answers."""


def disagreements(
    replays: Sequence[TrainingReplay], simple: Route, success: str, fusion: FusionSettings
) -> Disagreement:
    """The questions on which exactly one of the simple and the graph arm succeeds.

    Args:
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


def compared(
    evaluation_set: EvaluationSet, simple: Route, success: str, fusion: FusionSettings
) -> Int64:
    """The same as `labels_of` for questions of any split, which a router is judged on.

    Args:
        success: One of `CHOICES`.
        fusion: How hybrid adds scores up.
    """
    worth = []
    for route in (simple, Route.GRAPH):
        rankings = evaluation_set.rankings(route, fusion)
        if success in _MEASURED:
            column = MEASURES.index(_MEASURED[success])
            worth.append(evaluation_set.measured(rankings)[:, column])
        else:
            worth.append(evaluation_set.answered(rankings, CUTOFF))
    return np.where(worth[0] == worth[1], -1, worth[1] > worth[0])


def labels_of(found: Disagreement, count: int) -> Int64:
    """(n,) 1 where the graph is needed, 0 where the simple arm is, and -1 where either will do."""
    labels = np.full(count, -1)
    labels[found.rows] = found.labels
    return labels


def _answerer(route: Route, fusion: FusionSettings) -> Answerer:
    if route == Route.HYBRID:
        return lambda replay: fuse_text(replay.results, fusion, DEPTH)
    return lambda replay: replay.rankings(route)
