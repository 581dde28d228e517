"""A training run from datasets to a written router: replay, learn, choose, and only then judge."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from backends.progress import Progress
from backends.types import Int64, Mask
from featurizer.stopwatch import Stopwatch
from router.fusion import FusionSettings
from router.policy import Policy, bands
from router.query_performance import NAMES
from router.settings import Settings
from router.types import Route
from training.data.evaluation_set import EvaluationSet, texts_of
from training.data.replay import Replay, TrainingReplay
from training.data.sources import QuestionSource, Replays
from training.errors import FitError
from training.evaluation.held_out import HeldOutOutcomes, RouterScores, near_duplicates, run_systems
from training.fit.baselines import fit_baselines
from training.judge import JUDGED, JudgeClient, JudgeSettings, LlmJudge
from training.labels import Disagreement, compared, disagreement_of, disagreements, labels_of
from training.pipeline import Choices, Fitted, fit
from training.thresholds.outcomes import scores_of

TEST = "test"
_SPLITS = ("train", "dev")


@dataclass(frozen=True)
class Learned:
    """Everything that the train and dev splits give.

    Attributes:
        evaluation_set: Questions of train and dev.
        dev: (n,) which of them are of dev.
        labels: (n,) as `training.labels.labels_of` gives them.
        warnings: What is doubtful about the disagreements.
        fitted: The router.
    """

    evaluation_set: EvaluationSet
    dev: NDArray[np.bool_]
    labels: Int64
    warnings: tuple[str, ...]
    fitted: Fitted


@dataclass(frozen=True)
class HeldOutEvaluation:
    """What the test splits say, read once.

    Attributes:
        questions: Of test.
        outcomes: Every system on them.
        transfer: Dataset -> every system on its questions, with routers that learned from the
            other datasets alone.
        untried: Dataset -> why the other datasets teach nothing that could be tried on it.
        duplicates: Test questions that a training question nearly repeats, with that question.
    """

    questions: EvaluationSet
    outcomes: HeldOutOutcomes
    transfer: Mapping[str, HeldOutOutcomes]
    untried: Mapping[str, str]
    duplicates: Sequence[tuple[str, str]]


class Run:
    """One training run over some sources."""

    def __init__(
        self,
        settings: Settings,
        sources: Sequence[QuestionSource],
        choices: Choices,
        cache: Path,
        progress: Callable[[], Progress],
        *,
        judge: JudgeSettings | None = None,
    ) -> None:
        """Nothing is read yet.

        Args:
            settings: Of the arms and the models.
            sources: Questions and the indexes that answer them.
            choices: What to do.
            cache: Folder of replays and features, which later runs use again.
            progress: Makes what long work is shown with.
            judge: Who reads, where success is "judge".

        Raises:
            FitError: Success is to be judged, and there is no judge.
        """
        self.clock = Stopwatch()
        self.settings = settings
        self._sources = sources
        self._choices = choices
        self._cache = cache
        self._progress = progress
        self._replays = Replays(settings, cache / "replays", progress)
        self._reader: LlmJudge | None = None
        if choices.success == JUDGED:
            if judge is None:
                raise FitError("Who is to judge? Give --judge-url and --judge-model.")
            kept = cache / "judged.jsonl"
            self._reader = LlmJudge(JudgeClient(judge), self._replays.texts, kept, progress)

    @property
    def fusion(self) -> FusionSettings:
        """What fusion does."""
        return self._choices.fusion

    def learn(self) -> Learned:
        """Train on the train splits and choose on train and dev; no test split is read.

        Raises:
            FitError: The arms disagree too rarely, or one of them always wins.
            DatasetError: A dataset cannot be read, or has no train or no dev split.
        """
        with self.clock.stage("replay of train and dev"):
            parts = {split: self._replays.training(self._sources, split) for split in _SPLITS}
        for split, found in parts.items():
            if not found:
                names = ", ".join(source.name for source in self._sources)
                raise FitError(f"None of {names} has a {split} split; add qrels/{split}.tsv.")
        replays = [replay for found in parts.values() for replay in found]
        evaluation_set = self._material(replays)
        dev = np.repeat([r.split == "dev" for r in replays], [len(r) for r in replays])
        simple = self._choices.simple or Route.DENSE
        differ = self._disagreements(replays, evaluation_set, simple)
        differ.require_both()
        labels = labels_of(differ, len(evaluation_set))
        with self.clock.stage("training"):
            try:
                fitted = fit(
                    evaluation_set,
                    labels,
                    dev,
                    names=NAMES,
                    choices=self._choices,
                    progress=self._progress(),
                )
            except FitError as error:  # what is doubtful about the questions may be the reason
                raise FitError(" ".join([str(error), *differ.warnings])) from error
        return Learned(evaluation_set, dev, labels, differ.warnings, fitted)

    def judge(self, learned: Learned) -> HeldOutEvaluation | None:
        """Let the router and the baselines answer the test splits; None where there are none."""
        with self.clock.stage("replay of test"):
            replays = self._replays.final(self._sources, TEST)
        if not replays:
            return None
        evaluation_set = self._material(replays)
        with self.clock.stage("evaluation"):
            judged = self._judged(
                learned.evaluation_set, learned.labels, learned.fitted, evaluation_set
            )
            transfer, untried = self._transfer(learned, evaluation_set)
            duplicates = near_duplicates(evaluation_set.texts, learned.evaluation_set.texts)
        return HeldOutEvaluation(evaluation_set, judged, transfer, untried, duplicates)

    def baselines(self, split: str, policy: Policy) -> dict[str, Int64]:
        """What baselines that learn from train and dev choose for another split.

        Args:
            split: Of the questions to choose for.
            policy: Says what the simple route is.

        Returns:
            Name -> (n,) codes of routes, as in `training.thresholds.outcomes`.

        Raises:
            FitError: The arms disagree too rarely for anything to be learned.
        """
        replays = [
            replay for name in _SPLITS for replay in self._replays.training(self._sources, name)
        ]
        known = self._material(replays)
        differ = disagreements(replays, policy.simple, self._choices.success, self.fusion)
        differ.require_both()
        asked = self._material(self._replays.final(self._sources, split))
        found = fit_baselines(
            known,
            labels_of(differ, len(known)),
            asked,
            policy,
            fusion=self.fusion,
            quality=self._choices.quality,
        )
        return {name: bands(one.scores, one.policy.thresholds) for name, one in found.items()}

    def _transfer(
        self, learned: Learned, asked: EvaluationSet
    ) -> tuple[dict[str, HeldOutOutcomes], dict[str, str]]:
        """Each dataset judged by a router that learned from the other ones that have a test."""
        families = sorted(set(asked.groups.tolist()))
        found: dict[str, HeldOutOutcomes] = {}
        untried: dict[str, str] = {}
        for family in families if len(families) > 1 else []:
            others = np.isin(learned.evaluation_set.groups, [f for f in families if f != family])
            if not others.any():
                untried[family] = "No other dataset with a test split has questions to learn from."
                continue
            known, labels = learned.evaluation_set.only(others), learned.labels[others]
            kind = learned.fitted.trained.recipe.kind
            choices = replace(self._choices, kind=kind, simple=learned.fitted.policy.simple)
            try:
                fitted = fit(known, labels, learned.dev[others], names=NAMES, choices=choices)
                there = asked.only(asked.groups == family)
                found[family] = self._judged(known, labels, fitted, there)
            except FitError as error:
                untried[family] = str(error)
        return found, untried

    def _judged(
        self, known: EvaluationSet, labels: Int64, fitted: Fitted, asked: EvaluationSet
    ) -> HeldOutOutcomes:
        choices, policy = self._choices, fitted.policy
        return run_systems(
            asked,
            RouterScores(scores_of(fitted.scorer.logits(asked.features)), policy),
            self._compared(asked, choices.simple or Route.DENSE),
            fusion=self.fusion,
            baselines=fit_baselines(
                known,
                labels,
                asked,
                policy,
                fusion=self.fusion,
                quality=choices.quality,
                goal=choices.goal,
            ),
            seed=choices.seed,
        )

    def _disagreements(
        self, replays: Sequence[TrainingReplay], evaluation_set: EvaluationSet, simple: Route
    ) -> Disagreement:
        if self._reader is None:
            return disagreements(replays, simple, self._choices.success, self.fusion)
        ours, graph = self._read(self._reader, evaluation_set, simple)
        return disagreement_of(replays, ours, graph)

    def _compared(self, asked: EvaluationSet, simple: Route) -> Int64:
        if self._reader is None:
            return compared(asked, simple, self._choices.success, self.fusion)
        ours, graph = self._read(self._reader, asked, simple)
        return np.where(ours == graph, -1, graph)

    def _read(
        self, reader: LlmJudge, evaluation_set: EvaluationSet, simple: Route
    ) -> tuple[Mask, Mask]:
        ours, graph = (
            reader.succeeds(evaluation_set.replays, evaluation_set.rankings(route, self.fusion))
            for route in (simple, Route.GRAPH)
        )
        return ours, graph

    def _material(self, replays: Sequence[Replay]) -> EvaluationSet:
        texts = texts_of(replays)
        progress = self._progress()
        progress.start(len(texts), "features")
        try:
            with self.clock.stage("features"):
                return EvaluationSet.load(
                    replays, self._cache / "features", self.settings.analyser, progress.advance
                )
        finally:
            progress.close()
