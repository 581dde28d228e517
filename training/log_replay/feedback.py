"""Uses feedback as judgements for tuning; they are incomplete, and biased to what was shown."""

from collections.abc import Collection
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from backends.progress import Progress
from router.session import Session
from router.settings import Settings
from training.data.dataset import Dataset, Question
from training.data.replaying import replay_dataset
from training.data.sources import place_of
from training.errors import LogError
from training.log_replay.reading import DecisionLog
from training.log_replay.replay import LogReplay
from training.thresholds.tuning import Retuned, Tuning

SPLIT = "dev"
"""Split of the replay, which serves to choose thresholds."""
NEEDED = 100
"""Least number of judged questions to solve thresholds on.

Measured on the dev questions of five public sets (`min_feedback` in `benchmarks/README.md`),
judged as feedback would judge them: solved on 50, thresholds were worse than the present ones by
more than 0.005 nDCG@10 in 33 % of the draws, on 75 in 22 %, on 100 in 5 %, and on 150 in none.
"""
_SAME = 0.01


def feedback_dataset(log: DecisionLog, ids: Collection[str]) -> Dataset:
    """A dataset of questions whose feedback names passages, which count as relevant.

    Args:
        ids: Ids in the index. Other passages are dropped, since no route can find them; a question
            without any left is in `without_gold`.
    """
    questions = log.feedback.questions
    gold = {one.id: {id_: 1 for id_ in one.passages if id_ in ids} for one in questions}
    kept = [one for one in questions if gold[one.id]]
    return Dataset(
        name=f"log-{log.collection}",
        split=SPLIT,
        questions=tuple(Question(one.id, one.text) for one in kept),
        judgements={one.id: gold[one.id] for one in kept},
        without_gold=tuple(one.id for one in questions if not gold[one.id]),
        filters={one.id: one.filter for one in kept if one.filter is not None},
    )


def require_enough(found: int, what: str) -> None:
    """Check that there are enough questions to solve thresholds on.

    Args:
        what: What kind of questions they are, in the plural.

    Raises:
        LogError: There are fewer than `NEEDED`.
    """
    if found < NEEDED:
        raise LogError(
            f"Thresholds need {NEEDED} {what}, and the log has {found}: solved on fewer, they are "
            "often worse than the present ones. Collect more feedback that names passages, or "
            "leave --index out and bound --max-latency-ms or --max-graph-share."
        )


def replay_feedback(
    found: LogReplay,
    index: Path,
    settings: Settings,
    *,
    cache: Path,
    measure: str,
    progress: Progress,
) -> tuple[Tuning, Dataset]:
    """Replay the questions with feedback, and load the tuning of thresholds on them.

    Args:
        cache: Folder for the replay, which only its owner can read, as with the log.

    Raises:
        LogError: Too few questions have feedback that names passages.
        TrainingError: The replay or the features cannot be made.
    """
    log = found.log
    require_enough(len(log.feedback.questions), "questions with feedback that names passages")
    with Session.open(settings, index) as session:
        dataset = feedback_dataset(log, set(session.snapshot.corpus.ids))
        require_enough(
            len(dataset.questions), f"questions with marked passages that '{index}' still has"
        )
        folder = cache / "logs" / place_of(index)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = replay_dataset(session, dataset, folder, progress=progress)
    tuning = Tuning.load([path], cache=cache / "features", settings=settings, measure=measure)
    return replace(tuning, model=tuning.model.with_policy(found.now)), dataset


def save_retuned(out: Path, found: LogReplay, tuning: Tuning, solved: Retuned) -> None:
    """Write thresholds that were solved on feedback, for review; no question is in the file."""
    said = {
        "from": "feedback in a request log: partial, and of passages that were shown",
        "log": found.notes(),
        "instead_of": asdict(found.now.thresholds),
    }
    tuning.save(out, solved.solution.thresholds, {**solved.notes(), **said})


def scores_that_differ(log: DecisionLog, tuning: Tuning) -> tuple[int, int]:
    """Number of questions whose score differs from the logged one, and number with a logged score.

    Scores differ if the index or a model behind the features has changed.
    """
    known = {
        one.id: one.scores[log.model] for one in log.feedback.questions if log.model in one.scores
    }
    (asked,) = tuning.evaluation_set.replays
    pairs = [
        (known[one.question.id], score)
        for one, score in zip(asked.questions, tuning.outcomes.scores, strict=True)
        if one.question.id in known
    ]
    old, new = np.array(pairs).reshape(-1, 2).T
    return int((np.abs(old - new) > _SAME).sum()), len(pairs)
