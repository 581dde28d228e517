"""Replays: what the arms and steps return for every question of a split, through the gateway.

Training and comparisons are computed from replays, for any thresholds and any fusion. Only
steps keep the fusion of the settings they were replayed with, since they search by it. Replies are
kept in a cache, some questions at a time, so after a run that was killed the next one goes on.

A replay of a test split cannot be training data: what learns asks for a training split, and another
one is refused before its questions are read.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING

from joblib import Memory

from wye.backends.sources import DocumentSource
from wye.backends.trigraph.hops import HOPS, ROW_HOPS
from wye.backends.types import Progress, RankedHit, Ranking, Silent
from wye.router.session import Session
from wye.router.settings import Settings, load_settings
from wye.router.step_search import STEPS
from wye.router.types import TimedArmResults
from wye.training.data import Dataset, Question, QuestionSource
from wye.training.errors import SplitError

if TYPE_CHECKING:
    from wye.training.remote import RemoteAnswers

TRAINING_SPLITS = ("train", "dev")  # splits to train and tune on
DEPTH = 100  # most hits of an arm or of steps
BLOCK = 16  # questions whose replies are in one file of the cache
SCHEMA = "17"  # incremented when what is kept of a reply changes, or its meaning does


@dataclass(frozen=True, slots=True)
class RemoteReplay:
    """What remote arms returned for a question."""

    fused: Ranking  # the answer of every route but the simple one: all lists fused
    ms: float  # time of their calls with what counts as their price, in milliseconds


@dataclass(frozen=True, slots=True)
class Replayed:
    """One question with what the arms and steps returned for it.

    Attributes:
        run: What the arms and steps returned, and the processor time by stage (parsing, encoding,
            each arm, trees, steps). Steps without a plan only follow names.
    """

    question: Question  # its group is the dataset it comes from
    gold: Mapping[str, int]  # passage id -> relevance; above 0 is relevant
    run: TimedArmResults
    remote: RemoteReplay | None = None  # what remote arms returned; None without any


@dataclass(frozen=True)
class Replay:
    """A split of a dataset, as one index version answers it."""

    dataset: str
    split: str
    questions: tuple[Replayed, ...]

    def __len__(self) -> int:
        return len(self.questions)


@dataclass(frozen=True)
class TrainingReplay(Replay):
    """A replay of a training split, all that learns accepts; a `SplitError` if it is of another."""

    def __post_init__(self) -> None:
        require_training(self.split)


def require_training(split: str) -> None:
    """Raise a `SplitError` for a split that only the final evaluation may read."""
    if split not in TRAINING_SPLITS:
        raise SplitError(
            f"Split '{split}' is for the final evaluation only; learn from "
            f"{' and '.join(TRAINING_SPLITS)}."
        )


def replay_dataset(
    session: Session,
    dataset: Dataset,
    folder: Path,
    *,
    depth: int = DEPTH,
    progress: Progress | None = None,
) -> Replay:
    """Ask the questions of a split that the cache `folder` has no reply to; `depth` hits each."""
    ask = Memory(folder, verbose=0, compress=True).cache(_ask, ignore=["session"])
    key, questions = digest([SCHEMA, *key_of(session)]), dataset.questions
    progress = progress or Silent()
    progress.start(len(questions), f"replaying {dataset.name}, {dataset.split}")
    replayed: list[Replayed] = []
    try:
        for start in range(0, len(questions), BLOCK):
            block = questions[start : start + BLOCK]
            runs = ask([question.text for question in block], depth, key, session)
            for question, run in zip(block, runs, strict=True):
                grouped = replace(question, group=question.group or dataset.name)
                replayed.append(Replayed(grouped, dataset.judgements[question.id], run))
            progress.advance(len(block))
    finally:
        progress.close()
    return Replay(dataset.name, dataset.split, tuple(replayed))


def key_of(session: Session) -> tuple[str, str]:
    """Digests of all that replies depend on: the passages, then the models and settings."""
    settings = session.settings
    rows = session.index.snapshot().to_table(columns=["id", "content_hash"]).to_pylist()
    passages = sorted((row["id"], row["content_hash"]) for row in rows)
    parts = (settings.dense, settings.lexical, settings.graph, settings.fusion, settings.reranker)
    options = [asdict(part) for part in (*parts, STEPS, HOPS, ROW_HOPS)]
    return digest(passages), digest([session.index.fingerprint, options])


def _ask(texts: list[str], depth: int, key: str, session: Session) -> list[TimedArmResults]:
    """Replies to questions, without what training does not use; see `key_of` for the key."""
    del key
    session.gateway.retrieve_all([texts[0]], 1)  # times have nothing that is built on first use
    runs = []
    for text in texts:  # one by one, so that each is timed alone
        (run,) = session.gateway.retrieve_all([text], depth)
        rankings = {arm: _bare(ranking) for arm, ranking in run.results.rankings.items()}
        results = replace(run.results, rankings=rankings)
        runs.append(replace(run, results=results, steps=run.steps and _bare(run.steps)))
    return runs


def _bare(ranking: Ranking) -> Ranking:
    """A ranking without where its hits come from."""
    return replace(ranking, hits=tuple(RankedHit(h.id, h.score, h.rank) for h in ranking.hits))


def digest(content: object) -> str:
    """Identity of a value that JSON can hold."""
    data = json.dumps(content, sort_keys=True, default=str).encode()
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def replay_demo(folder: Path) -> list[TrainingReplay]:
    """Index the demo corpus in a folder, unless it is there, and replay dev and train."""
    settings, index = load_settings(), folder / "index"
    with as_file(files("wye.service") / "demo") as corpus:
        with Session.create(settings, index) as session:
            session.ingest(DocumentSource(corpus).passages())
        source, replays = QuestionSource(corpus, index), Replays(settings, folder / "cache")
        return [
            replay for split in ("dev", "train") for replay in replays.training([source], split)
        ]


@dataclass(frozen=True, slots=True)
class Replays:
    """Replays of sources, kept in a folder; with the answers of remote arms, if there are any."""

    settings: Settings
    folder: Path
    progress: Callable[[], Progress] = Silent
    remote: "RemoteAnswers | None" = None

    def training(self, sources: Sequence[QuestionSource], split: str) -> list[TrainingReplay]:
        """Replays of a training split, of sources that have it; a `SplitError` for others."""
        require_training(split)  # before anything is read
        return [
            TrainingReplay(replay.dataset, split, replay.questions)
            for replay in self.final(sources, split)
        ]

    def final(self, sources: Sequence[QuestionSource], split: str) -> list[Replay]:
        """Replays of a split that only the final evaluation may read."""
        return [self._replay(source, split) for source in sources if source.has(split)]

    def _replay(self, source: QuestionSource, split: str) -> Replay:
        """A source's replay, with the remote arms' answers if there are any."""
        dataset, remote = source.read(split), self.remote
        with Session.open(self.settings, source.index) as session:
            replay = replay_dataset(session, dataset, self.folder, progress=self.progress())
        if remote is None:
            return replay
        return remote.beside(replay, by_scores=self.settings.fusion.method != "rrf")
