"""Question sources: datasets, each with the index that answers it, to train and evaluate on."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from wye.backends.progress import Progress
from wye.backends.store.index import PassageStore
from wye.backends.types import Passage
from wye.router.session import Session
from wye.router.settings import Settings
from wye.training.data.dataset import Dataset, hurried, read_dataset
from wye.training.data.remote import RemoteAnswers
from wye.training.data.replay import TRAINING_SPLITS, Replay, TrainingReplay, read_replay
from wye.training.data.replaying import replay_dataset
from wye.training.errors import DatasetError, SplitError, TrainingError


@dataclass(frozen=True, slots=True)
class QuestionSource:
    """A dataset with the index that answers it.

    Attributes:
        index: Folder of the index; None if only remote arms answer.
        hurried: Whether this is the copy whose questions have no capitals and no question mark.
    """

    dataset: Path
    index: Path | None
    hurried: bool = False

    @property
    def name(self) -> str:
        """Name of the dataset."""
        return self.dataset.resolve().name

    def has(self, split: str) -> bool:
        """Whether the dataset has judgements for a split."""
        return (self.dataset / "qrels" / f"{split}.tsv").is_file()

    def read(self, split: str) -> Dataset:
        """Read the questions of a split.

        Raises:
            DatasetError: They cannot be read.
        """
        dataset = read_dataset(self.dataset, split)
        return hurried(dataset) if self.hurried else dataset


def parse_source(text: str, index: Path | None, *, required: bool = True) -> QuestionSource:
    """Parse a source of the command line: DATASET, or DATASET=INDEX.

    Args:
        index: The index of a dataset that names none.

    Raises:
        TrainingError: No index is given, or the dataset is no folder.
    """
    dataset, _, named_index = text.partition("=")
    if not Path(dataset).is_dir():
        raise TrainingError(f"There is no folder '{dataset}'; give a dataset in BEIR's layout.")
    if not named_index and index is None and required:
        raise TrainingError(
            f"Which index answers '{dataset}'? Give --index DIR, or '{dataset}=INDEX'."
        )
    return QuestionSource(Path(dataset), Path(named_index) if named_index else index)


def lacking(dataset: Dataset, index: Path) -> str:
    """Describe the relevant passages of a dataset that an index does not have; "" if it has all.

    Raises:
        DatasetError: It has none of them.
        BackendError: There is no such index, or it cannot be read.
    """
    judgements = dataset.judgements.values()
    relevant = {id_ for grades in judgements for id_, relevance in grades.items() if relevance > 0}
    stored = PassageStore.open(index).snapshot().to_table(columns=["id"])["id"].to_pylist()
    missing = sorted(relevant.difference(stored))
    if not missing:
        return ""
    says = (
        f"The index {index} lacks {len(missing)} of the {len(relevant)} passages that split "
        f"'{dataset.split}' of '{dataset.name}' judges relevant, such as '{missing[0]}'. A "
        "passage's id is what `wye search` prints behind its title."
    )
    if len(missing) == len(relevant):
        raise DatasetError(says)
    return says


def folder_name(index: Path) -> str:
    """Folder name for an index's replays, unique for each index."""
    whole = index.resolve()
    return f"{whole.name}-{hashlib.blake2b(str(whole).encode(), digest_size=6).hexdigest()}"


@dataclass(frozen=True, slots=True)
class Replays:
    """Replays of sources, made when they are first needed and kept in a folder.

    Attributes:
        remote: Remote arms, beside those of the indexes or in their place; None without any.
    """

    settings: Settings
    folder: Path
    progress: Callable[[], Progress]
    remote: RemoteAnswers | None = None
    _indexes: dict[str, Path] = field(default_factory=dict)

    def texts(self, replay: Replay, ids: Sequence[str]) -> dict[str, str]:
        """Title and text, by id, of passages of a replay's index."""
        passages = self.passages(replay, ids)
        return {id_: f"{p.title}\n{p.text}".strip() for id_, p in passages.items()}

    def passages(self, replay: Replay, ids: Sequence[str]) -> dict[str, Passage]:
        """Passages, by id, of a replay's index."""
        with Session.open(self.settings, self._indexes[replay.key.index]) as session:
            return session.passages(ids)

    def training(self, sources: Sequence[QuestionSource], split: str) -> list[TrainingReplay]:
        """Replays of a training split, of the sources that have it.

        Raises:
            SplitError: The split is for the final evaluation only.
            DatasetError: A dataset cannot be read.
        """
        if split not in TRAINING_SPLITS:  # checked before anything is read
            raise SplitError(
                f"Split '{split}' is for the final evaluation only; learn from "
                f"{' and '.join(sorted(TRAINING_SPLITS))}."
            )
        return [TrainingReplay.of(replay) for replay in self.final(sources, split)]

    def final(self, sources: Sequence[QuestionSource], split: str) -> list[Replay]:
        """Replays of a split that only the final evaluation may read."""
        return [self._replay(source, split) for source in sources if source.has(split)]

    def _replay(self, source: QuestionSource, split: str) -> Replay:
        """A source's replay, with the remote arms' answers if there are any."""
        dataset, remote = source.read(split), self.remote
        if remote is not None and source.index is None:
            return remote.replay(dataset)
        index = index_of(source)
        with Session.open(self.settings, index) as session:
            folder = self.folder / folder_name(index)
            path = replay_dataset(session, dataset, folder, progress=self.progress())
        replay = read_replay(path, {split})
        self._indexes[replay.key.index] = index
        if remote is None:
            return replay
        return remote.beside(replay, dataset, by_scores=self.settings.fusion.method != "rrf")


def index_of(source: QuestionSource) -> Path:
    """Folder of a source's index.

    Raises:
        TrainingError: The source has none.
    """
    if source.index is None:
        raise TrainingError(f"No index answers '{source.dataset}'.")
    return source.index
