"""Makes replays: asks the arms and steps every question of a source, through the serving gateway.

Each question is kept as soon as it was asked, so after a run that was killed the next one goes on.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.resources import as_file, files
from pathlib import Path

from wye.backends.sources import DocumentSource
from wye.backends.store.index import PassageStore
from wye.backends.types import Passage, Progress, Silent
from wye.router.session import Session
from wye.router.settings import Settings, load_settings
from wye.router.step_search import STEPS
from wye.training.data import (
    Dataset,
    Question,
    hurried,
    judged_id,
    keep_line,
    read_dataset,
    readable_lines,
)
from wye.training.errors import DatasetError, SplitError, TrainingError
from wye.training.remote import RemoteAnswers
from wye.training.replay import (
    SCHEMA,
    TRAINING_SPLITS,
    Replay,
    Replayed,
    ReplayKey,
    TrainingReplay,
    digest,
    file_name,
    read_key,
    read_replay,
    replayed_of,
    row_of,
    write_rows,
)

DEPTH = 100


def replay_dataset(
    session: Session,
    dataset: Dataset,
    folder: Path,
    *,
    depth: int = DEPTH,
    progress: Progress | None = None,
) -> Path:
    """Make the replay of a split, unless the folder has one with the same key.

    Args:
        depth: Most hits of an arm or of steps.

    Returns:
        The file, for `wye.training.replay`.

    Raises:
        QuestionError: A question is empty.
    """
    key = key_of(session, dataset, depth)
    path = folder / file_name(dataset.name, dataset.split)
    if read_key(path) == key:
        return path
    # Questions that were asked so far, of a run that was killed.
    partial = folder / f"{path.name}.{digest(asdict(key), sort_keys=True)}.partial"
    replayed = [replayed_of(row) for row in readable_lines(partial)]
    rest = dataset.questions[len(replayed) :]
    progress = progress or Silent()
    progress.start(len(dataset.questions), f"replaying {dataset.name}, {dataset.split}")
    progress.advance(len(replayed))
    try:
        if rest:  # so the first question's time has nothing that is built on first use
            session.gateway.retrieve_all([rest[0].text], 1)
        for question in rest:  # one by one, so that each is timed alone
            row = _ask(session, dataset, question, depth)
            keep_line(partial, row_of(row))
            replayed.append(row)
            progress.advance(1)
    finally:
        progress.close()
    write_rows(path, replayed, dataset=dataset.name, split=dataset.split, key=key)
    for old in folder.glob(f"{path.name}.*.partial"):
        old.unlink()
    return path


def key_of(session: Session, dataset: Dataset, depth: int = DEPTH) -> ReplayKey:
    """The key of the replay that this session would make."""
    settings = session.settings
    rows = session.index.snapshot().to_table(columns=["id", "content_hash"]).to_pylist()
    passages = sorted((row["id"], row["content_hash"]) for row in rows)
    arm_settings = (settings.dense, settings.lexical, settings.graph, settings.fusion)
    options: list[object] = [asdict(part) for part in (*arm_settings, STEPS)]
    # Nothing is added where these are unused, so older replays keep their keys.
    options += [asdict(settings.reranker)] if settings.reranker.model else []
    judged_questions: list[object] = [
        [asdict(q), sorted(dataset.judgements[q.id].items())] for q in dataset.questions
    ]
    if dataset.filters:  # likewise
        judged_questions.append(sorted(dataset.filters.items()))
    return ReplayKey(
        schema=SCHEMA,
        index=digest(passages),
        version=session.index.version,
        settings=digest([session.index.fingerprint, options], sort_keys=True),
        questions=digest(judged_questions),
        depth=depth,
    )


def _ask(session: Session, dataset: Dataset, question: Question, depth: int) -> Replayed:
    filter_ = dataset.filters.get(question.id)
    (run,) = session.gateway.retrieve_all([question.text], depth, filter_)
    return Replayed(
        question=replace(question, group=question.group or dataset.name),
        gold=dataset.judgements[question.id],
        results=run.results,
        seconds=run.seconds,
        steps=run.steps,
        open=run.open,
    )


def replay_demo(folder: Path) -> list[Path]:
    """Index the demo corpus, and replay its train and dev splits.

    Args:
        folder: Where the index and the replays go; existing ones are used again.

    Returns:
        The replay files, dev first.
    """
    settings = load_settings()
    index = folder / "index"
    with as_file(files("wye.service") / "demo") as corpus:
        with Session.create(settings, index) as session:
            session.ingest(DocumentSource(corpus).passages())
        with Session.open(settings, index) as session:
            return [
                replay_dataset(session, read_dataset(corpus, split), folder / "replays")
                for split in sorted(TRAINING_SPLITS)
            ]


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
    missing = sorted(relevant.difference(judged_id(id_, relevant) for id_ in stored))
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
        if source.index is None:
            raise TrainingError(f"No index answers '{source.dataset}'.")
        index = source.index
        with Session.open(self.settings, index) as session:
            folder = self.folder / folder_name(index)
            path = replay_dataset(session, dataset, folder, progress=self.progress())
        replay = read_replay(path, {split})
        self._indexes[replay.key.index] = index
        if remote is None:
            return replay
        return remote.beside(replay, dataset, by_scores=self.settings.fusion.method != "rrf")
