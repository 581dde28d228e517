"""`wye tune --from-log --index`: thresholds solved on feedback, which stands for judgements."""

from dataclasses import asdict, dataclass
from pathlib import Path

from backends.progress import Progress
from training.thresholds.retuning import retune
from training.traffic.judged import replay
from training.traffic.run import Tuner
from training.traffic.show import show_proposed
from training.traffic.show_judged import show_judged


@dataclass(frozen=True, slots=True)
class Judging:
    """How the questions that have feedback are replayed.

    Attributes:
        index: That the collection is served from.
        quality: One of `training.evaluation.measures.MEASURES`.
        elsewhere: As in `training.thresholds.retuning.retune`.
        moved: Changed routes to list.
        cache: Folder of features and replays.
        seed: Of the bootstrap.
    """

    index: Path
    quality: str
    elsewhere: bool
    moved: int
    cache: Path
    seed: int


def tune_judged(tuner: Tuner, judging: Judging, progress: Progress) -> bool:
    """Solve thresholds on the questions whose feedback names passages.

    Args:
        tuner: The requests, with bounds to keep.
        judging: How to replay them.
        progress: Told of every question.

    Returns:
        Whether a file was written.

    Raises:
        LogError: There are too few.
        FitError: No thresholds keep the bounds.
    """
    traffic, console = tuner.traffic, tuner.console
    tuning, found = replay(
        traffic.log,
        traffic.now,
        judging.index,
        tuner.settings,
        cache=judging.cache,
        measure=judging.quality,
        progress=progress,
    )
    solved = retune(tuning, tuner.goal, elsewhere=judging.elsewhere, seed=judging.seed)
    show_judged(console, traffic.log, tuning, found, solved, most=judging.moved)
    thresholds = solved.solution.thresholds
    show_proposed(console, traffic, tuning.policy(thresholds))
    if tuner.out is not None:
        said = {
            "from": "feedback in a request log: partial, and of passages that were shown",
            "log": traffic.notes(),
            "instead_of": asdict(traffic.now.thresholds),
        }
        tuning.save(tuner.out, thresholds, {**solved.notes(), **said})
    return tuner.done()
