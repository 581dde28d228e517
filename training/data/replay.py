"""Replays: what the arms and steps returned for every question of a split, kept in a file.

Training, tuning and comparisons are computed from replays, for any thresholds and any fusion. Only
steps keep the fusion of the settings they were replayed with, since they search by it. A replay of
a test split cannot be read as training data.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
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
from wye.router.types import ARMS, FURTHER, ArmResults, Route
from wye.training.data.dataset import Judgements, Question
from wye.training.errors import ReplayError, SplitError
from wye.training.evaluation.measures import score

TRAINING_SPLITS = frozenset({"train", "dev"})
"""Splits to train and tune on."""


@dataclass(frozen=True, slots=True)
class ReplayKey:
    """What a replay depends on; equal keys give equal replays.

    Attributes:
        schema: Version of the file's columns and of their meaning.
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
            (n, m) float64, columns in the order of `wye.training.evaluation.measures.MEASURES`.
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


SCHEMA = "5"
"""Increased when a column or its meaning changes."""
_META = b"wye.replay"

_PLAIN: Mapping[Any, pa.DataType] = {str: pa.string(), float: pa.float64(), int: pa.int64()}


def _list_of(plain: type) -> pa.DataType:
    """Type of a list of such dataclasses, whose fields are plain values."""
    return pa.list_(pa.struct([(column.name, _PLAIN[column.type]) for column in fields(plain)]))


_ARM = pa.struct(
    [
        ("ids", pa.list_(pa.string())),
        ("scores", pa.list_(pa.float64())),
        ("candidates", pa.int64()),
        ("degraded", pa.string()),
    ]
)
_COVERAGE = pa.struct(
    [
        ("scores", pa.list_(pa.float64())),
        ("words", _list_of(WordCoverage)),
        ("names", _list_of(NameCoverage)),
    ]
)
_COLUMNS = pa.schema(
    [
        ("dataset", pa.string()),
        ("split", pa.string()),
        ("id", pa.string()),
        ("text", pa.string()),
        ("group", pa.string()),
        ("answers", pa.list_(pa.string())),
        ("gold", pa.map_(pa.string(), pa.int64())),
        ("vector", pa.list_(pa.float32())),
        ("mentions", pa.list_(pa.struct([("text", pa.string()), ("kind", pa.string())]))),
        ("seeds", _list_of(SeedStats)),
        ("coverage", _COVERAGE),
        ("open", pa.bool_()),
        *((str(route), _ARM) for route in (*ARMS, Route.STEPS)),
        ("seconds", pa.map_(pa.string(), pa.float64())),
    ]
)


def digest(value: object, *, sort_keys: bool = False) -> str:
    """Hexadecimal digest, of 128 bits, of a value as JSON."""
    text = json.dumps(value, sort_keys=sort_keys)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def file_name(dataset: str, split: str) -> str:
    """Name of a replay's file."""
    return f"replay-{dataset}-{split}.parquet"


def read_training(path: Path) -> TrainingReplay:
    """Read a replay of a training split.

    Raises:
        ReplayError: The file is missing, damaged or of another schema.
        SplitError: The replay is of a test split; its rows are not read.
    """
    return TrainingReplay.of(read_replay(path, TRAINING_SPLITS))


def read_replay(path: Path, splits: Collection[str]) -> Replay:
    """Read a replay of one of the named splits.

    Raises:
        ReplayError: The file is missing, damaged or of another schema.
        SplitError: The replay is of another split; its rows are not read.
    """
    header = _read_header(path)
    if header["split"] not in splits:
        raise SplitError(
            f"'{path}' is the replay of split '{header['split']}', and only "
            f"{', '.join(sorted(splits))} may be read here; test splits are for the final "
            "evaluation."
        )
    rows = pq.read_table(path).to_pylist()
    key = ReplayKey(**header["key"])
    return Replay(header["dataset"], header["split"], key, tuple(map(_question, rows)))


def read_key(path: Path) -> ReplayKey | None:
    """The key of the replay in a file; None if there is no file of this schema."""
    try:
        return ReplayKey(**_read_header(path)["key"])
    except ReplayError:
        return None


def write_rows(
    path: Path, rows: Iterable[Replayed], *, dataset: str, split: str, key: ReplayKey
) -> None:
    """Write a replay atomically: the file is whole or absent, even if the process dies."""
    columns = [_row(dataset, split, row) for row in rows]
    further = [arm for arm in FURTHER if any(arm in row for row in columns)]
    header = json.dumps({"dataset": dataset, "split": split, "key": asdict(key)}, sort_keys=True)
    fields = pa.schema([*_COLUMNS, *((str(arm), _ARM) for arm in further)])
    schema = fields.with_metadata({_META: header.encode()})
    path.parent.mkdir(parents=True, exist_ok=True)
    with write_atomically(path) as file:
        pq.write_table(pa.Table.from_pylist(columns, schema=schema), file, compression="zstd")


def _read_header(path: Path) -> dict[str, Any]:
    try:
        metadata = pq.read_schema(path).metadata or {}
        header: dict[str, Any] = json.loads(metadata[_META])
    except (OSError, KeyError, ValueError, pa.ArrowInvalid) as error:
        raise ReplayError(
            f"'{path}' cannot be read as a replay ({error}); make it with `wye train`, or delete "
            "it so that it is made again."
        ) from None
    if header["key"]["schema"] != SCHEMA:
        raise ReplayError(
            f"'{path}' is a replay of schema {header['key']['schema']}, and this is Wye with "
            f"schema {SCHEMA}; delete it so that it is made again."
        )
    return header


def _row(dataset: str, split: str, row: Replayed) -> dict[str, Any]:
    results = row.results
    return {
        "dataset": dataset,
        "split": split,
        "id": row.question.id,
        "text": row.question.text,
        "group": row.question.group,
        "answers": list(row.question.answers),
        "gold": list(row.gold.items()),
        "vector": results.query.vector,
        "mentions": [{"text": m.text, "kind": m.kind} for m in results.query.mentions],
        "seeds": [asdict(seed) for seed in results.seeds],
        "coverage": asdict(results.coverage),
        "seconds": list(row.seconds.items()),
        **{str(arm): _arm(ranking) for arm, ranking in results.rankings.items()},
        "open": row.open,
        str(Route.STEPS): row.steps and _arm(row.steps),
    }


def _arm(ranking: Ranking) -> dict[str, Any]:
    return {
        "ids": [hit.id for hit in ranking.hits],
        "scores": [hit.score for hit in ranking.hits],
        "candidates": ranking.candidates,
        "degraded": ranking.degraded,
    }


def _question(row: Mapping[str, Any]) -> Replayed:
    mentions = tuple(Mention(m["text"], m["kind"]) for m in row["mentions"])
    query = Query(row["text"], np.array(row["vector"], np.float32), mentions=mentions)
    steps = row[Route.STEPS]
    arms = (*ARMS, *(arm for arm in FURTHER if arm in row))
    return Replayed(
        question=Question(row["id"], row["text"], tuple(row["answers"]), row["group"]),
        gold=dict(row["gold"]),
        results=ArmResults(
            query,
            tuple(SeedStats(**seed) for seed in row["seeds"]),
            {arm: _ranking(str(arm), row[str(arm)]) for arm in arms},
            _coverage(row["coverage"]),
        ),
        seconds=dict(row["seconds"]),
        steps=_ranking(Route.STEPS, steps) if steps else None,
        open=row["open"],
    )


def _coverage(row: Mapping[str, Any]) -> Coverage:
    return Coverage(
        tuple(row["scores"]),
        tuple(WordCoverage(**word) for word in row["words"]),
        tuple(NameCoverage(**name) for name in row["names"]),
    )


def _ranking(arm: str, row: Mapping[str, Any]) -> Ranking:
    pairs = zip(row["ids"], row["scores"], strict=True)
    hits = tuple(RankedHit(id_, score, rank) for rank, (id_, score) in enumerate(pairs, start=1))
    return Ranking(arm, hits, row["candidates"], row["degraded"])
