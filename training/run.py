"""A training run: replays, training, choice of thresholds, final evaluation, and its output."""

import platform
import shlex
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from wye.backends.types import Progress
from wye.featurizer.analyser import Stopwatch
from wye.router.evidence import COLUMNS, stages
from wye.router.model_files import TrainedRouter, save_router
from wye.router.scorer import AttentionMlp
from wye.router.settings import Settings
from wye.router.types import Route
from wye.training.data import QuestionSource, lacking
from wye.training.errors import FitError
from wye.training.evaluation_set import EvaluationSet, schema_of
from wye.training.fit.router import Choices, Fitted, fit
from wye.training.held_out import Summary, run_systems, summarise
from wye.training.labels import ALL_GOLD, ENOUGH, compared
from wye.training.remote import RemoteAnswers
from wye.training.replay import Replay, Replays
from wye.training.report import Report, card, make_report, write_report
from wye.training.thresholds import scores_of

TRAIN, DEV, TEST = "train", "dev", "test"
_PACKAGES = ("wye", "numpy", "scikit-learn", "torch", "spacy", "faiss-cpu", "pylance")


class TrainingRun:
    """One run over some sources."""

    def __init__(
        self,
        settings: Settings,
        sources: Sequence[QuestionSource],
        choices: Choices,
        cache: Path,
        progress: Callable[[], Progress],
        *,
        remote: RemoteAnswers | None = None,
    ) -> None:
        """Prepare a run.

        Args:
            cache: Folder of replays and features, which later runs use again.
            remote: Remote arms; None without any.
        """
        self.clock = Stopwatch()
        self._settings = settings
        self._sources = sources
        self._choices = choices
        # The graph is compared with the best route without it, or with one arm, as published.
        text = Route.DENSE if choices.success == ALL_GOLD else Route.HYBRID
        self._simple = choices.simple or text
        self._cache = cache
        self._progress = progress
        self._replays = Replays(settings, cache / "replays", progress, remote)

    def learn(self, say: Callable[[str], None] = lambda _: None) -> Fitted:
        """Train on the train and dev splits; no test split is read.

        Args:
            say: Called with messages on how many questions there are to learn from.

        Raises:
            FitError: The arms disagree too rarely, one of them always wins, or no dataset has a
                train or a dev split.
            DatasetError: A dataset cannot be read, or an index has no passage that is relevant in
                a split.
        """
        count = 0
        for source in self._sources:
            for split in filter(source.has, (TRAIN, DEV)):
                dataset = source.read(split)
                count += len(dataset.questions)
                if warning := lacking(dataset, source.index):
                    say(f"Warning: {warning}")
        if not count:
            names = ", ".join(source.name for source in self._sources)
            raise FitError(f"None of {names} has a train or a dev split; add qrels/train.tsv.")
        say(
            f"{count} judged questions in train and dev. A router needs about {ENOUGH} on which "
            "the arms disagree, which may take several hundred in all."
        )
        choices = self._choices
        with self.clock.stage("replay of train and dev"):
            replays = [
                replay
                for split in (TRAIN, DEV)
                for replay in self._replays.training(self._sources, split)
            ]
        questions = self._evaluation_set(replays)
        disagreement = compared(questions, self._simple, choices.success)
        say(f"The arms disagree on {len(disagreement)} of {len(questions)} questions.")
        disagreement.require_both()
        with self.clock.stage("training"):
            try:
                return fit(questions, disagreement, choices, self._progress())
            except FitError as error:  # the warnings may explain it
                raise FitError(" ".join([str(error), *disagreement.warnings])) from error

    def evaluate(self, fitted: Fitted) -> Summary | None:
        """Evaluate the router on the test splits; None without any."""
        # The only place that reads test questions.
        with self.clock.stage(f"replay of {TEST}"):
            replays = self._replays.final(self._sources, TEST)
        if not replays:
            return None
        questions, choices = self._evaluation_set(replays), self._choices
        with self.clock.stage("evaluation"):
            scores = scores_of(fitted.scorer.logits(questions.features))
            systems = run_systems(questions, scores, fitted.policy)
            disagreement = compared(questions, self._simple, choices.success)
            return summarise(systems, questions, scores, disagreement)

    def write(
        self, fitted: Fitted, evaluation: Summary | None, models: Path, name: str
    ) -> tuple[Path, Report]:
        """Write a router as the next version of a model, with its card, numbers and figures.

        Returns:
            The version's folder, and the report.

        Raises:
            ModelFileError: The name cannot be that of a folder.
        """
        facts: dict[str, Any] = {
            "schema_id": schema_of(self._settings),
            "command": command_line(sys.argv),
            "seconds": self.clock.seconds,
            "versions": {"python": platform.python_version()}
            | {package: version(package) for package in _PACKAGES},
        }
        report = make_report(fitted, evaluation, facts)
        solution, choices = fitted.solution, fitted.choices
        router = TrainedRouter(
            scorer=fitted.scorer,
            policy=fitted.policy,
            schema_id=facts["schema_id"],
            card=card(name, report),
            training={
                "command": facts["command"],
                "success": choices.success,
                "kind": AttentionMlp.kind,
                "questions": len(fitted.questions),
                "disagreements": len(fitted.disagreement),
                "features computed": len(fitted.questions.names),
                "versions": facts["versions"],
            },
            notes={
                "quality": choices.quality,
                "objective": solution.outcome.quality,
                "best pair": [solution.best.low, solution.best.high],
                "plateau": solution.plateau,
            },
        )
        folder = save_router(models, name, router)
        write_report(folder, report)
        return folder, report

    def _evaluation_set(self, replays: Sequence[Replay]) -> EvaluationSet:
        deciding = stages(self._choices.among or COLUMNS)
        with self.clock.stage("features"):
            return EvaluationSet.load(
                replays, self._cache / "features", self._settings, deciding, self._choices.quality
            )


def command_line(arguments: list[str]) -> str:
    """The command line, without the path of the program."""
    return shlex.join([Path(arguments[0]).name, *arguments[1:]])
