"""`wye tune --from-log`, from the files to what is printed and written; no model is loaded."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from router.settings import Settings, load_settings
from training.thresholds.outcomes import ThresholdObjective
from training.traffic.show import show_feedback, show_log, show_proposed, show_tried
from training.traffic.traffic import Traffic


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
    goal: ThresholdObjective
    out: Path | None

    @classmethod
    def load(
        cls,
        paths: Sequence[Path],
        *,
        console: Console,
        router: str = "",
        collection: str = "",
        goal: ThresholdObjective | None = None,
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
            ModelFileError: The router cannot be read.
        """
        settings = _settings(router)
        traffic = Traffic.load(paths, settings, collection)
        return cls(console, traffic, settings, goal or ThresholdObjective(), out)

    def show(self, tried: Sequence[str]) -> None:
        """Print what was asked, and what thresholds make of it; nothing is judged for that.

        Args:
            tried: Thresholds to try, as files or LOW,HIGH.

        Raises:
            LogError: Some of them are no thresholds.
        """
        policies = {text: self.traffic.candidate(text) for text in tried}
        show_log(self.console, self.traffic)
        show_feedback(self.console, self.traffic)
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
        return self.done()

    def done(self) -> bool:
        """Say so where nothing is written; whether a file is."""
        if self.out is None:
            self.console.print("Nothing is written; --out FILE keeps what is proposed.")
        return self.out is not None


def _settings(router: str) -> Settings:
    """Those of the environment; thresholds that were reviewed for its router are for no other."""
    own = load_settings()
    if not router:
        return own
    return own.model_copy(update={"router": replace(own.router, model=router, thresholds="")})
