"""A training run: replays, training, choice of thresholds, final evaluation, and its output."""

import platform
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from wye.backends.types import Progress
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
from wye.training.labels import ALL_GOLD, ENOUGH, Disagreement, compared
from wye.training.measures import QUALITY
from wye.training.remote import RemoteAnswers
from wye.training.replay import TRAINING_SPLITS, Replay, Replays
from wye.training.report import TEST, Report, card, make_report, write_report
from wye.training.thresholds import scores_of

_PACKAGES = ("wye", "numpy", "scikit-learn", "torch", "spacy", "faiss-cpu", "pylance")


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """One run over some sources; `cache` keeps replays and features for later runs."""

    settings: Settings
    sources: Sequence[QuestionSource]
    choices: Choices
    cache: Path
    progress: Callable[[], Progress]
    remote: RemoteAnswers | None = None

    @property
    def replays(self) -> Replays:
        """Replays of the sources, by split."""
        return Replays(self.settings, self.cache / "replays", self.progress, self.remote)

    def learn(self, say: Callable[[str], None] = lambda _: None) -> Fitted:
        """Train on the train and dev splits; no test split is read.

        Messages on how many questions there are go to `say`. A `FitError` if the arms disagree too
        rarely, one of them always wins, or no dataset has a train or a dev split; a `DatasetError`
        if one cannot be read, or an index has no passage that is relevant in a split.
        """
        count = 0
        for source in self.sources:
            for split in filter(source.has, TRAINING_SPLITS):
                dataset = source.read(split)
                count += len(dataset.questions)
                if warning := lacking(dataset, source.index):
                    say(f"Warning: {warning}")
        if not count:
            names = ", ".join(source.name for source in self.sources)
            raise FitError(f"None of {names} has a train or a dev split; add qrels/train.tsv.")
        say(
            f"{count} judged questions in train and dev. A router needs about {ENOUGH} on which "
            "the arms disagree, which may take several hundred in all."
        )
        of = self.replays
        replays = [each for split in TRAINING_SPLITS for each in of.training(self.sources, split)]
        questions = self._evaluation_set(replays)
        disagreement = self._compared(questions)
        say(f"The arms disagree on {len(disagreement)} of {len(questions)} questions.")
        disagreement.require_both()
        try:
            return fit(questions, disagreement, self.choices, self.progress())
        except FitError as error:  # the warnings may explain it
            raise FitError(" ".join([str(error), *disagreement.warnings])) from error

    def evaluate(self, fitted: Fitted) -> Summary | None:
        """Evaluate the router on the test splits; None without any."""
        # The only place that reads test questions.
        replays = self.replays.final(self.sources, TEST)
        if not replays:
            return None
        questions = self._evaluation_set(replays)
        scores = scores_of(fitted.scorer.logits(questions.features))
        systems = run_systems(questions, scores, fitted.policy)
        return summarise(systems, questions, scores, self._compared(questions))

    def write(
        self, fitted: Fitted, evaluation: Summary | None, models: Path, name: str
    ) -> tuple[Path, Report]:
        """Write a router as the next version of a model, with card, numbers and figures.

        Returns the version's folder and the report. A `ModelFileError` if no folder can have the
        name.
        """
        command, schema_id = command_line(sys.argv), schema_of(self.settings)
        versions = {"python": platform.python_version()}
        versions |= {package: version(package) for package in _PACKAGES}
        report = make_report(fitted, evaluation)
        solution, choices = fitted.solution, fitted.choices
        router = TrainedRouter(
            scorer=fitted.scorer,
            policy=fitted.policy,
            schema_id=schema_id,
            card=card(name, schema_id, command, report),
            training={
                "command": command,
                "success": choices.success,
                "kind": AttentionMlp.kind,
                "questions": len(fitted.questions),
                "disagreements": len(fitted.disagreement),
                "features computed": len(fitted.questions.names),
                "versions": versions,
            },
            notes={
                "quality": QUALITY,
                "objective": solution.outcome.quality,
                "best pair": [solution.best.low, solution.best.high],
                "plateau": solution.plateau,
            },
        )
        folder = save_router(models, name, router)
        write_report(folder, report)
        return folder, report

    def _evaluation_set(self, replays: Sequence[Replay]) -> EvaluationSet:
        deciding = stages(self.choices.recipe.among or COLUMNS)
        return EvaluationSet.load(replays, self.cache / "features", self.settings, deciding)

    def _compared(self, questions: EvaluationSet) -> Disagreement:
        # The graph is compared with the best route without it, or with one arm, as published.
        success = self.choices.success
        simple = self.choices.simple or (Route.DENSE if success == ALL_GOLD else Route.HYBRID)
        return compared(questions, simple, success)


def command_line(arguments: list[str]) -> str:
    """The command line, without the path of the program."""
    return shlex.join([Path(arguments[0]).name, *arguments[1:]])
