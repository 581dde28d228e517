"""Uses feedback as judgements for tuning; they are incomplete, and biased to what was shown."""

from collections.abc import Set
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from wye.backends.progress import Progress
from wye.router.session import Session
from wye.router.settings import Settings
from wye.training.data.dataset import Dataset, Question
from wye.training.data.replaying import replay_dataset
from wye.training.data.sources import folder_name
from wye.training.errors import LogError
from wye.training.log_replay.reading import DecisionLog
from wye.training.markdown import show
from wye.training.thresholds.tuning import Retuned, Tuning, show_retuned

SPLIT = "dev"
"""Split of the replay, which serves to choose thresholds."""
NEEDED = 100
"""Least number of judged questions to solve thresholds on.

Measured on the dev questions of five public sets (`min_feedback` in `benchmarks/README.md`),
judged as feedback would judge them: solved on 50, thresholds were worse than the present ones by
more than 0.005 nDCG@10 in 33 % of the draws, on 75 in 22 %, on 100 in 5 %, and on 150 in none.
"""


def feedback_dataset(log: DecisionLog, ids: Set[str]) -> Dataset:
    """A dataset of questions whose feedback names passages, which count as relevant.

    Args:
        ids: Ids in the index. Other passages are dropped, since no route can find them; a question
            without any left is in `without_gold`.
    """
    gold = {
        question: dict.fromkeys(sorted(passages & ids), 1)
        for question, (_, passages) in log.marked.items()
    }
    usable = {question: log.marked[question][0] for question, hits in gold.items() if hits}
    return Dataset(
        name=f"log-{log.collection}",
        split=SPLIT,
        questions=tuple(Question(id_, row.question) for id_, row in usable.items()),
        judgements={id_: gold[id_] for id_ in usable},
        without_gold=tuple(id_ for id_, hits in gold.items() if not hits),
        filters={id_: row.filter for id_, row in usable.items() if row.filter is not None},
    )


def replay_feedback(
    log: DecisionLog,
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
    with Session.open(settings, index) as session:
        dataset = feedback_dataset(log, set(session.snapshot.corpus.ids))
        if (count := len(dataset.questions)) < NEEDED:
            raise LogError(
                f"Thresholds need {NEEDED} questions with feedback that names passages of the "
                f"index, and the log has {count}: solved on fewer, they are often worse than the "
                "present ones. Collect more feedback, or leave --index out and bound "
                "--max-latency-ms or --max-graph-share."
            )
        folder = cache / "logs" / folder_name(index)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = replay_dataset(session, dataset, folder, progress=progress)
    tuning = Tuning.load([path], cache=cache / "features", settings=settings, measure=measure)
    return replace(tuning, model=tuning.model.with_policy(log.router.policy)), dataset


def show_feedback(
    console: Console, tuning: Tuning, dataset: Dataset, solved: Retuned, *, most: int
) -> None:
    """Print old and new thresholds on marked questions, and how far feedback can be trusted."""
    show_retuned(console, tuning, solved, most=most)
    texts = [
        "These judgements are biased: people mark what they were shown, and passages that only "
        "another route would have found count as not relevant, which favours the routes taken then."
    ]
    if count := len(dataset.without_gold):
        texts.append(f"{count} questions are left out: the index has no passage marked for them.")
    if solved.gain.low <= 0:
        worse = "are worse" if solved.gain.high < 0 else "may be no better"
        texts.append(
            f"The proposed thresholds {worse} than the present ones on these questions, in "
            f"{tuning.measure}; use them only if you need their bounds."
        )
    show("\n\n".join(texts), console)
