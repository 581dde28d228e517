"""`wye tune --from-log`: thresholds within bounds, or solved with feedback as judgements.

Such judgements are incomplete, and biased to what was shown.
"""

from collections.abc import Sequence, Set
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from wye.backends.progress import Progress
from wye.router.model_files import save_policy
from wye.router.session import Session
from wye.router.settings import Settings
from wye.training.data.dataset import Dataset, Question
from wye.training.data.replaying import folder_name, replay_dataset
from wye.training.errors import LogError
from wye.training.log_replay.reading import DecisionLog
from wye.training.log_replay.replay import (
    effect,
    load,
    notes,
    parse_policy,
    router_settings,
    show_replay,
    within_bounds,
)
from wye.training.markdown import show, wide_console
from wye.training.thresholds.outcomes import ThresholdObjective
from wye.training.thresholds.tuning import Retuned, Tuning, retune, show_retuned

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


def show_feedback(console: Console, tuning: Tuning, dataset: Dataset, solved: Retuned) -> None:
    """Print old and new thresholds on marked questions, and how far feedback can be trusted."""
    show_retuned(console, tuning, solved)
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


def tune_on_log(
    paths: Sequence[Path],
    goal: ThresholdObjective,
    *,
    router: str,
    collection: str,
    tries: Sequence[str],
    index: Path | None,
    measure: str,
    elsewhere: bool,
    out: Path | None,
    cache: Path,
    seed: int,
    progress: Progress,
) -> Path | None:
    """Show what thresholds make of a log, and write those that keep the bounds or are solved.

    Args:
        tries: Thresholds to show beside those in use; see `parse_policy`.
        index: Replay questions with feedback on it, and solve on them; None to keep bounds alone.

    Returns:
        The file that was written; None if none was.

    Raises:
        LogError: There is nothing to write, or as `load` and `replay_feedback` raise it.
        FitError: No thresholds keep the bounds.
    """
    bounded = goal != ThresholdObjective()
    if out is not None and index is None and not bounded:
        raise LogError(
            "There is nothing to write: set --max-latency-ms or --max-graph-share, or replay "
            "questions with feedback with --index."
        )
    console, settings = wide_console(), router_settings(router)
    log = load(paths, settings, collection)
    now = log.router.policy
    # Mistakes in --try are told before a replay takes time.
    policies = {text: parse_policy(text, now) for text in tries}
    if index is not None:
        tuning, dataset = replay_feedback(
            log, index, settings, cache=cache, measure=measure, progress=progress
        )
        retuned = retune(tuning, goal, elsewhere=elsewhere, seed=seed)
        thresholds = retuned.solution.thresholds
        show_replay(console, log, {**policies, "proposed": tuning.policy(thresholds)})
        show_feedback(console, tuning, dataset, retuned)
        if out is not None:
            source = "feedback in a request log: partial, and of passages that were shown"
            tuning.save(out, thresholds, {**retuned.notes(), **notes(log, source)})
    else:
        policy = within_bounds(log, goal)
        if policy == now:
            show_replay(console, log, policies)
            if bounded:
                console.print("The present thresholds keep the bounds; nothing is proposed.")
            return None
        show_replay(console, log, {**policies, "proposed": policy})
        console.print(
            "The proposed thresholds keep the bounds with the fewest changes of route. No answer "
            "was judged, so their quality is unknown."
        )
        if out is not None:
            facts = {
                **notes(log, "a request log; no answer was judged"),
                "expected mean_ms": effect(log, policy).mean_ms,
                "max_mean_ms": goal.max_mean_ms,
                "max_graph_share": goal.max_graph_share,
            }
            save_policy(out, replace(policy, router=log.router.name), facts)
    if out is None:
        console.print("Nothing is written; --out FILE writes the proposed thresholds.")
    return out
