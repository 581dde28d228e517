"""What every arm said to every question of a split, kept so that nothing need be asked again.

Whatever is learned, tuned or compared is computed from replays: any thresholds, any fusion. Those
of test splits cannot be read as something to learn from.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from backends.types import Hit, Ranking
from router.evidence import Evidence
from router.signals import SIGNAL_NAMES, signals
from router.types import Route
from training.dataset import Judgements, Question
from training.errors import SplitError
from training.measures import Float64, score

TRAINING_SPLITS = frozenset({"train", "dev"})
"""What may be learned from and tuned on."""


@dataclass(frozen=True, slots=True)
class ReplayKey:
    """What a replay depends on; with the same key it would come out the same.

    Attributes:
        schema: Version of the file's columns and of their meaning.
        index: Digest of the passages that were searched, whatever the version's number.
        version: Of the index; told, not compared.
        settings: Digest of the models, and of the arms' settings.
        questions: Digest of questions, judgements and answers.
        depth: Hits of each arm.
    """

    schema: str
    index: str
    version: int = field(compare=False)
    settings: str
    questions: str
    depth: int


@dataclass(frozen=True, slots=True)
class Replayed:
    """One question with all that the arms said.

    Attributes:
        question: With the dataset it comes from as its group.
        gold: Passage id -> relevance; above 0 is relevant.
        evidence: Of every arm.
        answered: Arm -> (hits,) whether the passage at each rank contains an answer.
        seconds: Wall time by stage (parsing, encoding, each arm).
    """

    question: Question
    gold: Mapping[str, int]
    evidence: Evidence
    answered: Mapping[Route, NDArray[np.bool_]]
    seconds: Mapping[str, float]

    def answers_in(self, hits: Sequence[Hit], cutoff: int) -> bool:
        """Whether one of the first `cutoff` passages of a ranking of these hits has an answer."""
        has = {
            hit.id: bool(found)
            for arm, ranking in self.evidence.rankings.items()
            for hit, found in zip(ranking.hits, self.answered[arm], strict=True)
        }
        return any(has[hit.id] for hit in hits[:cutoff])


@dataclass(frozen=True)
class Replay:
    """A split of a dataset as one index version answers it.

    Attributes:
        dataset: Its name.
        split: Of the judgements.
        key: What it depends on.
        questions: In the order of the dataset.
    """

    dataset: str
    split: str
    key: ReplayKey
    questions: tuple[Replayed, ...]

    def __len__(self) -> int:
        """How many questions there are."""
        return len(self.questions)

    @cached_property
    def judgements(self) -> Judgements:
        """Question id -> passage id -> relevance."""
        return {one.question.id: one.gold for one in self.questions}

    @cached_property
    def groups(self) -> NDArray[np.str_]:
        """(n,) dataset that each question comes from."""
        return np.array([one.question.group for one in self.questions], dtype=np.str_)

    @cached_property
    def evidence(self) -> list[Evidence]:
        """Of each question."""
        return [one.evidence for one in self.questions]

    def rankings(self, arm: Route) -> list[Ranking]:
        """What one arm said."""
        return [one.evidence.rankings[arm] for one in self.questions]

    def signals(self, names: Sequence[str] = SIGNAL_NAMES) -> Float64:
        """(n, m) signals of each question; see `router.signals`."""
        return signals(self.evidence, names)

    def measure(self, rankings: Sequence[Ranking]) -> Float64:
        """Every measure of every question, for answers of any kind.

        Args:
            rankings: One for each question.

        Returns:
            (n, m) float64, columns in the order of `training.measures.MEASURES`.
        """
        ids = [one.question.id for one in self.questions]
        run = {
            id_: [hit.id for hit in ranking.hits]
            for id_, ranking in zip(ids, rankings, strict=True)
        }
        return score(self.judgements, run)


@dataclass(frozen=True)
class TrainingReplay(Replay):
    """A replay that may be learned from: what trains and tunes takes no other.

    Raises:
        SplitError: Its split is none of `TRAINING_SPLITS`.
    """

    def __post_init__(self) -> None:
        if self.split not in TRAINING_SPLITS:
            raise SplitError(
                f"The replay of '{self.dataset}' is of split '{self.split}', which is for the "
                f"final evaluation only; learn from {' and '.join(sorted(TRAINING_SPLITS))}."
            )
