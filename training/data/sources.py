"""Questions, and the index that they are asked of: what a router is trained and judged on."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from backends.progress import Progress
from backends.types import Passage
from router.session import Session
from router.settings import Settings
from training.data.dataset import read_dataset
from training.data.replay import TRAINING_SPLITS, Replay, TrainingReplay, read_replay, read_training
from training.data.replaying import replay_dataset
from training.errors import SplitError, TrainingError

R = TypeVar("R", bound=Replay)


@dataclass(frozen=True, slots=True)
class QuestionSource:
    """A dataset with the index that answers it.

    Attributes:
        dataset: Folder in BEIR's layout.
        index: Folder of the index.
    """

    dataset: Path
    index: Path

    @property
    def name(self) -> str:
        """Of the dataset."""
        return self.dataset.resolve().name

    def has(self, split: str) -> bool:
        """Whether the dataset has judgements of a split."""
        return (self.dataset / "qrels" / f"{split}.tsv").is_file()


def parse_source(text: str, index: Path | None) -> QuestionSource:
    """A source as the command line has it: DATASET, or DATASET=INDEX.

    Args:
        index: For a dataset without one of its own.

    Raises:
        TrainingError: No index is given, or the dataset is no folder.
    """
    dataset, _, own = text.partition("=")
    if not Path(dataset).is_dir():
        raise TrainingError(f"There is no folder '{dataset}'; give a dataset in BEIR's layout.")
    if not own and index is None:
        raise TrainingError(
            f"Which index answers '{dataset}'? Give --index DIR, or '{dataset}=INDEX'."
        )
    return QuestionSource(Path(dataset), Path(own) if own else Path(index or ""))


def place_of(index: Path) -> str:
    """Name of the folder for what an index was asked; one dataset may be asked of several."""
    whole = index.resolve()
    return f"{whole.name}-{hashlib.blake2b(str(whole).encode(), digest_size=6).hexdigest()}"


class Replays:
    """Replays of sources, made where they are missing and kept in a folder."""

    def __init__(self, settings: Settings, folder: Path, progress: Callable[[], Progress]) -> None:
        """Nothing is asked yet.

        Args:
            progress: Makes what long work is shown with.
        """
        self._settings = settings
        self._folder = folder
        self._progress = progress
        self._indexes: dict[str, Path] = {}

    def texts(self, replay: Replay, ids: Sequence[str]) -> dict[str, str]:
        """Title and text of passages of the index that a replay is of, by id."""
        found = self.passages(replay, ids)
        return {id_: f"{one.title}\n{one.text}".strip() for id_, one in found.items()}

    def passages(self, replay: Replay, ids: Sequence[str]) -> dict[str, Passage]:
        """Passages of the index that a replay is of, by id."""
        with Session.open(self._settings, self._indexes[replay.key.index]) as session:
            return session.passages(ids)

    def training(self, sources: Sequence[QuestionSource], split: str) -> list[TrainingReplay]:
        """Replays to learn from, of the sources that have the split.

        Raises:
            SplitError: The split is for the final evaluation only.
            DatasetError: A dataset cannot be read.
        """
        if split not in TRAINING_SPLITS:  # before anything of it is read
            raise SplitError(
                f"Split '{split}' is for the final evaluation only; learn from "
                f"{' and '.join(sorted(TRAINING_SPLITS))}."
            )
        return [
            self._noted(source, read_training(self._made(source, split)))
            for source in sources
            if source.has(split)
        ]

    def final(self, sources: Sequence[QuestionSource], split: str) -> list[Replay]:
        """Replays of a split that only the final evaluation may read."""
        return [
            self._noted(source, read_replay(self._made(source, split), {split}))
            for source in sources
            if source.has(split)
        ]

    def _noted(self, source: QuestionSource, replay: R) -> R:
        self._indexes[replay.key.index] = source.index
        return replay

    def _made(self, source: QuestionSource, split: str) -> Path:
        dataset = read_dataset(source.dataset, split)
        with Session.open(self._settings, source.index) as session:
            folder = self._folder / place_of(source.index)
            return replay_dataset(session, dataset, folder, progress=self._progress())
