"""Replays: what the arms and steps returned for every question of a split, kept in a file.

The file is gzipped JSON lines: what the replay depends on, then a line for each question.

Training, tuning and comparisons are computed from replays, for any thresholds and any fusion. Only
steps keep the fusion of the settings they were replayed with, since they search by it. A replay of
a test split cannot be read as training data.
"""

import gzip
import hashlib
import json
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wye.backends.files import write_atomically
from wye.backends.trigraph.seeds import SeedStats
from wye.backends.types import (
    Coverage,
    Float64,
    Mention,
    NameCoverage,
    Query,
    RankedHit,
    Ranking,
    WordCoverage,
)
from wye.router.remote import ReturnedPassages
from wye.router.types import ArmResults, Route
from wye.training.data import Judgements, Question
from wye.training.errors import ReplayError, SplitError
from wye.training.measures import score

TRAINING_SPLITS = frozenset({"train", "dev"})
"""Splits to train and tune on."""


@dataclass(frozen=True, slots=True)
class ReplayKey:
    """What a replay depends on; equal keys give equal replays.

    Attributes:
        schema: Version of the file's lines and of their meaning.
        index: Digest of the passages that were searched, whatever the version's number.
        version: The index version, for information; it is not compared.
        settings: Digest of the models, and of the settings of arms, fusion and steps.
        questions: Digest of questions, judgements and answers.
        depth: Most hits of an arm or of steps.
    """

    schema: str
    index: str
    version: int = field(compare=False)
    settings: str
    questions: str
    depth: int


@dataclass(frozen=True, slots=True)
class RemoteReplay:
    """What remote arms returned for a question.

    Attributes:
        fused: The answer of every route but the simple one: all lists fused.
        ms: Time of the arms that the simple route does not ask, in milliseconds.
        simple: The simple route's answer if a remote arm gives it; None if an index does.
        returned: Its passages, the input of a router without an index; None if an index answers.
    """

    fused: Ranking
    ms: float
    price_ms: float = 0.0
    simple: Ranking | None = None
    simple_ms: float = 0.0
    simple_price_ms: float = 0.0
    returned: ReturnedPassages | None = None


@dataclass(frozen=True, slots=True)
class Replayed:
    """One question with what the arms and steps returned for it.

    Attributes:
        question: Its group is the dataset it comes from.
        gold: Passage id -> relevance; above 0 is relevant.
        seconds: Processor time by stage (parsing, encoding, each arm, trees, steps).
        steps: The ranking of the route `steps`; None if the question has no plan, where steps give
            what fusion does.
        open: Whether its plan is open: long, and nothing in it is nested.
        remote: What remote arms returned; None without any. It is not in the file.
    """

    question: Question
    gold: Mapping[str, int]
    results: ArmResults
    seconds: Mapping[str, float]
    steps: Ranking | None = None
    open: bool = False
    remote: RemoteReplay | None = None


@dataclass(frozen=True)
class Replay:
    """A split of a dataset, as one index version answers it."""

    dataset: str
    split: str
    key: ReplayKey
    questions: tuple[Replayed, ...]

    def __len__(self) -> int:
        """Number of questions."""
        return len(self.questions)

    @cached_property
    def judgements(self) -> Judgements:
        """Question id -> passage id -> relevance."""
        return {row.question.id: row.gold for row in self.questions}

    @cached_property
    def groups(self) -> NDArray[np.str_]:
        """(n,) the dataset that each question comes from."""
        return np.array([row.question.group for row in self.questions], dtype=np.str_)

    @cached_property
    def results(self) -> list[ArmResults]:
        """What the arms returned for each question."""
        return [row.results for row in self.questions]

    def rankings(self, arm: Route) -> list[Ranking]:
        """One arm's ranking for each question."""
        return [row.results.rankings[arm] for row in self.questions]

    def measure(self, rankings: Sequence[Ranking]) -> Float64:
        """Every measure of every question, for any rankings.

        Returns:
            (n, m) float64, columns in the order of `wye.training.measures.MEASURES`.
        """
        ids = [row.question.id for row in self.questions]
        run = {
            id_: [hit.id for hit in ranking.hits]
            for id_, ranking in zip(ids, rankings, strict=True)
        }
        return score(self.judgements, run)


@dataclass(frozen=True)
class TrainingReplay(Replay):
    """A replay of a training split; training and tuning accept no other.

    Raises:
        SplitError: The split is not one of `TRAINING_SPLITS`.
    """

    @classmethod
    def of(cls, replay: Replay) -> "TrainingReplay":
        """The same replay, checked."""
        return cls(replay.dataset, replay.split, replay.key, replay.questions)

    def __post_init__(self) -> None:
        if self.split not in TRAINING_SPLITS:
            raise SplitError(
                f"The replay of '{self.dataset}' is of split '{self.split}', which is for the "
                f"final evaluation only; learn from {' and '.join(sorted(TRAINING_SPLITS))}."
            )


SCHEMA = "6"
"""Increased when a replay's lines or their meaning change."""


def digest(value: object, *, sort_keys: bool = False) -> str:
    """Hexadecimal digest, of 128 bits, of a value as JSON."""
    text = json.dumps(value, sort_keys=sort_keys)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def file_name(dataset: str, split: str) -> str:
    """Name of a replay's file."""
    return f"replay-{dataset}-{split}.jsonl.gz"


def read_training(path: Path) -> TrainingReplay:
    """Read a replay of a training split; errors are those of `read_replay`."""
    return TrainingReplay.of(read_replay(path, TRAINING_SPLITS))


def read_replay(path: Path, splits: Collection[str]) -> Replay:
    """Read a replay of one of the named splits.

    Raises:
        ReplayError: The file is missing, damaged or of another schema.
        SplitError: The replay is of another split; its questions are not read.
    """
    with _reading(path) as (header, lines):
        if header["split"] not in splits:
            raise SplitError(
                f"'{path}' is the replay of split '{header['split']}', and only "
                f"{', '.join(sorted(splits))} may be read here; test splits are for the final "
                "evaluation."
            )
        rows = tuple(replayed_of(json.loads(line)) for line in lines)
    return Replay(header["dataset"], header["split"], ReplayKey(**header["key"]), rows)


def read_key(path: Path) -> ReplayKey | None:
    """The key of the replay in a file; None if there is no file of this schema."""
    try:
        with _reading(path) as (header, _):
            return ReplayKey(**header["key"])
    except ReplayError:
        return None


def write_rows(
    path: Path, rows: Iterable[Replayed], *, dataset: str, split: str, key: ReplayKey
) -> None:
    """Write a replay atomically: the file is whole or absent, even if the process dies."""
    header = {"dataset": dataset, "split": split, "key": asdict(key)}
    path.parent.mkdir(parents=True, exist_ok=True)
    with write_atomically(path) as file, gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
        for line in (header, *map(row_of, rows)):
            packed.write(json.dumps(line).encode() + b"\n")


@contextmanager
def _reading(path: Path) -> Iterator[tuple[dict[str, Any], Iterator[bytes]]]:
    """Yield a file's first line, parsed, and its other lines, which are read when needed."""
    try:
        with gzip.open(path) as file:
            header = json.loads(file.readline())
            if header["key"]["schema"] != SCHEMA:
                raise ReplayError(
                    f"'{path}' is a replay of schema {header['key']['schema']}, and this is Wye "
                    f"with schema {SCHEMA}; delete it so that it is made again."
                )
            yield header, iter(file)
    except (OSError, EOFError, zlib.error, KeyError, TypeError, ValueError) as error:
        raise ReplayError(
            f"'{path}' cannot be read as a replay ({error}); make it with `wye train`, or delete "
            "it so that it is made again."
        ) from None


def row_of(row: Replayed) -> dict[str, Any]:
    """What is kept of a replayed question, as JSON."""
    results = row.results
    return {
        "question": asdict(row.question),
        "gold": row.gold,
        "vector": results.query.vector.tolist(),
        "mentions": [(mention.text, mention.kind) for mention in results.query.mentions],
        "seeds": [asdict(seed) for seed in results.seeds],
        "coverage": asdict(results.coverage),
        "rankings": {arm: _arm(ranking) for arm, ranking in results.rankings.items()},
        "seconds": row.seconds,
        "steps": row.steps and _arm(row.steps),
        "open": row.open,
    }


def _arm(ranking: Ranking) -> dict[str, Any]:
    hits = [(hit.id, hit.score) for hit in ranking.hits]
    return {"hits": hits, "candidates": ranking.candidates, "degraded": ranking.degraded}


def replayed_of(row: Mapping[str, Any]) -> Replayed:
    """The replayed question that was kept as JSON."""
    question = Question(**{**row["question"], "answers": tuple(row["question"]["answers"])})
    mentions = tuple(Mention(text, kind) for text, kind in row["mentions"])
    coverage = Coverage(
        tuple(row["coverage"]["scores"]),
        tuple(WordCoverage(**word) for word in row["coverage"]["words"]),
        tuple(NameCoverage(**name) for name in row["coverage"]["names"]),
    )
    results = ArmResults(
        Query(question.text, np.array(row["vector"], np.float32), mentions=mentions),
        tuple(SeedStats(**seed) for seed in row["seeds"]),
        {Route(arm): _ranking(arm, ranking) for arm, ranking in row["rankings"].items()},
        coverage,
    )
    steps = _ranking(Route.STEPS, row["steps"]) if row["steps"] else None
    return Replayed(question, row["gold"], results, row["seconds"], steps, row["open"])


def _ranking(arm: str, row: Mapping[str, Any]) -> Ranking:
    hits = (RankedHit(id_, score, rank) for rank, (id_, score) in enumerate(row["hits"], start=1))
    return Ranking(arm, tuple(hits), row["candidates"], row["degraded"])
