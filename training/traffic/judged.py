"""Judgements out of feedback: partial, and of what was shown; replayed like any others."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from backends.progress import Progress
from router.policy import Policy
from router.session import Session
from router.settings import Settings
from training.data.dataset import Dataset, Question
from training.data.replaying import replay_dataset
from training.data.sources import place_of
from training.errors import LogError
from training.thresholds.tuning import Tuning
from training.traffic.log import Log

SPLIT = "dev"
"""Of the replay: it is for choosing thresholds."""
NEEDED = 100
"""Judged questions that thresholds are solved on, at least.

Measured by `python -m benchmarks min_feedback REPLAY` on the dev questions of five public sets,
judged as feedback would judge them: solved on 50, thresholds were worse than the present ones by
more than 0.005 nDCG@10 in 33 % of the draws, on 75 in 22 %, on 100 in 5 %, and on 150 in none.
"""
_SAME = 0.01


@dataclass(frozen=True, slots=True)
class FeedbackEvaluation:
    """Questions with relevant passages, as the index has them.

    Attributes:
        dataset: The questions.
        vanished: Questions left out because none of their marked passages is in the index.
    """

    dataset: Dataset
    vanished: int


def judged(log: Log, ids: Collection[str]) -> FeedbackEvaluation:
    """Take what was marked as relevant for what is relevant.

    Args:
        log: With its marked questions.
        ids: Of the passages of the index; others can no longer be found by any route.
    """
    there = [(one, {id_: 1 for id_ in one.passages if id_ in ids}) for one in log.marked.questions]
    kept = [(one, gold) for one, gold in there if gold]
    dataset = Dataset(
        name=f"log-{log.collection}",
        split=SPLIT,
        questions=tuple(Question(one.id, one.text) for one, _ in kept),
        judgements={one.id: gold for one, gold in kept},
        filters={one.id: one.filter for one, _ in kept if one.filter is not None},
    )
    return FeedbackEvaluation(dataset, len(there) - len(kept))


def require_enough(found: int, of: str) -> None:
    """Refuse to solve thresholds on noise.

    Raises:
        LogError: There are fewer than `NEEDED`.
    """
    if found < NEEDED:
        raise LogError(
            f"{found} {of}, and thresholds need {NEEDED}: on fewer, what is solved is often worse "
            "than what there was; collect more feedback that names passages, or leave --index out "
            "and bound --max-latency-ms or --max-graph-share."
        )


def replay(
    log: Log,
    now: Policy,
    index: Path,
    settings: Settings,
    *,
    cache: Path,
    measure: str,
    progress: Progress,
) -> tuple[Tuning, FeedbackEvaluation]:
    """Ask the judged questions of every arm, and read what thresholds are solved on.

    Args:
        log: With its marked questions.
        now: What serves.
        index: That the collection is served from.
        settings: Of arms, models and router.
        cache: Folder; the replay there is only its owner's to read, like the log.
        measure: What quality is.
        progress: Told of every question.

    Raises:
        LogError: Too few questions are judged.
        TrainingError: The replay or the features cannot be made.
    """
    marked = log.marked.questions
    require_enough(len(marked), "questions have feedback that names passages")
    container = Session.open(settings, index)
    try:
        found = judged(log, set(container.snapshot.corpus.ids))
        require_enough(
            len(found.dataset.questions),
            f"questions have marked passages that '{index}' still has",
        )
        folder = cache / "logs" / place_of(index)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = replay_dataset(container, found.dataset, folder, progress=progress)
    finally:
        container.close()
    tuning = Tuning.load([path], cache=cache / "features", settings=settings, measure=measure)
    return replace(tuning, model=tuning.model.with_policy(now)), found


def scores_that_differ(log: Log, tuning: Tuning) -> tuple[int, int]:
    """Questions that are scored otherwise than when they were asked, and those that were scored.

    The index has changed since, or a model that features are made by.
    """
    known = {
        one.id: one.scores[log.model] for one in log.marked.questions if log.model in one.scores
    }
    (asked,) = tuning.material.replays
    pairs = [
        (known[one.question.id], score)
        for one, score in zip(asked.questions, tuning.outcomes.scores, strict=True)
        if one.question.id in known
    ]
    old, new = np.array(pairs).reshape(-1, 2).T
    return int((np.abs(old - new) > _SAME).sum()), len(pairs)
