"""`wye tune --from-log`, from the files to what is printed and written."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rich.console import Console

from backends.progress import Progress
from router.settings import Settings, load_settings
from training.errors import LogError
from training.retuning import retune
from training.routing import Goal
from training.traffic.judged import replay
from training.traffic.show import show_log, show_proposed, show_tried
from training.traffic.show_judged import show_feedback, show_judged
from training.traffic.traffic import Traffic


@dataclass(frozen=True, slots=True)
class Judging:
    """How the questions that have feedback are replayed.

    Attributes:
        index: That the collection is served from.
        quality: One of `training.measures.MEASURES`.
        elsewhere: As in `training.retuning.retune`.
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


@dataclass(frozen=True, slots=True)
class Tuner:
    """One call of the command.

    Attributes:
        console: Where results are printed.
        traffic: The requests, and what serves.
        settings: Of arms, models and router.
        goal: Bounds to keep.
        out: File for solved thresholds; None writes none.
    """

    console: Console
    traffic: Traffic
    settings: Settings
    goal: Goal
    out: Path | None

    @classmethod
    def load(
        cls,
        paths: Sequence[Path],
        *,
        console: Console,
        router: str = "",
        collection: str = "",
        goal: Goal | None = None,
        out: Path | None = None,
    ) -> "Tuner":
        """Read the logs.

        Args:
            paths: Request logs, each once.
            console: Where to print.
            router: Whose decisions count; empty for that of the settings, with its thresholds.
            collection: To look at; may be empty where there is only one.
            goal: Bounds to keep; None for none.
            out: File for solved thresholds; None writes none.

        Raises:
            LogError: The logs have nothing to go by.
            JournalError: One cannot be read.
            ArtefactError: The router cannot be read.
        """
        settings = _settings(router)
        traffic = Traffic.load(paths, settings, collection)
        return cls(console, traffic, settings, goal or Goal(), out)

    def show(self, tried: Sequence[str]) -> None:
        """Print what was asked, and what thresholds make of it; nothing is judged for that.

        Args:
            tried: Thresholds to try, as files or LOW,HIGH.

        Raises:
            LogError: Some of them are no thresholds.
        """
        policies = {text: self.traffic.candidate(text) for text in tried}
        show_log(self.console, self.traffic)
        show_feedback(self.console, self.traffic.log)
        show_tried(self.console, self.traffic, policies)

    def bounded(self) -> bool:
        """Find thresholds that keep the bounds with the fewest changes.

        Returns:
            Whether a file was written.

        Raises:
            FitError: No thresholds keep the bounds.
        """
        policy = self.traffic.within(self.goal)
        if policy == self.traffic.now:
            self.console.print("The present thresholds keep the bounds; nothing is proposed.")
            return False
        show_proposed(self.console, self.traffic, policy)
        self.console.print(
            "These thresholds keep the bounds with the fewest changes of route. No answer was "
            "judged, so nothing says how good the answers will be."
        )
        if self.out is not None:
            bounds = ("max_mean_ms", "max_graph_share")
            self.traffic.save(self.out, policy, {name: getattr(self.goal, name) for name in bounds})
        return self._said()

    def judged(self, judging: Judging, progress: Progress) -> bool:
        """Solve thresholds on the questions whose feedback names passages.

        Args:
            judging: How to replay them.
            progress: Told of every question.

        Returns:
            Whether a file was written.

        Raises:
            LogError: There are too few.
            FitError: No thresholds keep the bounds.
        """
        traffic = self.traffic
        tuning, found = replay(
            traffic.log,
            traffic.now,
            judging.index,
            self.settings,
            cache=judging.cache,
            measure=judging.quality,
            progress=progress,
        )
        solved = retune(tuning, self.goal, elsewhere=judging.elsewhere, seed=judging.seed)
        show_judged(self.console, traffic.log, tuning, found, solved, most=judging.moved)
        thresholds = solved.solution.thresholds
        show_proposed(self.console, traffic, tuning.policy(thresholds))
        if self.out is not None:
            said = {
                "from": "feedback in a request log: partial, and of passages that were shown",
                "log": traffic.notes(),
                "instead_of": asdict(traffic.now.thresholds),
            }
            tuning.save(self.out, thresholds, {**solved.notes(), **said})
        return self._said()

    def _said(self) -> bool:
        if self.out is None:
            self.console.print("Nothing is written; --out FILE keeps what is proposed.")
        return self.out is not None


def tune_from_log(
    paths: Sequence[Path],
    *,
    console: Console,
    router: str,
    collection: str,
    tried: Sequence[str],
    goal: Goal,
    judging: Judging | None,
    out: Path | None,
    progress: Callable[[], Progress],
) -> bool:
    """The command: what needs no judgements first, so that it is there whatever comes after.

    Args:
        paths: As of `Tuner.load`.
        console: As of `Tuner.load`.
        router: As of `Tuner.load`.
        collection: As of `Tuner.load`.
        tried: As of `Tuner.show`.
        goal: As of `Tuner.load`.
        judging: How to replay; None replays nothing.
        out: As of `Tuner.load`.
        progress: Makes what long work is shown with.

    Returns:
        Whether a file was written.

    Raises:
        LogError: The logs have nothing to go by, or too little for what was asked.
        FitError: No thresholds keep the bounds.
    """
    is_bounded = goal != Goal()
    if out is not None and judging is None and not is_bounded:
        raise LogError(
            "There is nothing to write: bound --max-latency-ms or --max-graph-share, or have the "
            "questions with feedback replayed with --index."
        )
    tuner = Tuner.load(
        paths, console=console, router=router, collection=collection, goal=goal, out=out
    )
    tuner.show(tried)
    if judging is not None:
        return tuner.judged(judging, progress())
    return is_bounded and tuner.bounded()


def _settings(router: str) -> Settings:
    """Those of the environment; thresholds that were reviewed for its router are for no other."""
    own = load_settings()
    if not router:
        return own
    return own.model_copy(update={"router": replace(own.router, model=router, thresholds="")})
