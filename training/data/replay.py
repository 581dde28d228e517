"""What arms and steps said to every question of a split, kept so that nothing need be asked again.

Whatever is learned, tuned or compared is computed from replays: any thresholds, any fusion. Steps
alone go by the fusion of the settings that were replayed, since they search by it. Replays of test
splits cannot be read as something to learn from.
"""

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

from backends.coverage import Coverage, NameCoverage, WordCoverage
from backends.files import write_atomically
from backends.trigraph.seeds import SeedStats
from backends.types import Float64, Mention, Query, RankedHit, Ranking
from router.passage_evidence import Returned
from router.types import ARMS, FURTHER, ArmResults, Route
from training.data.dataset import Judgements, Question
from training.errors import ReplayError, SplitError
from training.evaluation.measures import score

TRAINING_SPLITS = frozenset({"train", "dev"})
"""What may be learned from and tuned on."""


@dataclass(frozen=True, slots=True)
class ReplayKey:
    """What a replay depends on; with the same key it would come out the same.

    Attributes:
        schema: Version of the file's columns and of their meaning.
        index: Digest of the passages that were searched, whatever the version's number.
        version: Of the index; told, not compared.
        settings: Digest of the models, and of the settings of arms, fusion and steps.
        questions: Digest of questions, judgements and answers.
        depth: Hits of each arm, and of steps.
    """

    schema: str
    index: str
    version: int = field(compare=False)
    settings: str
    questions: str
    depth: int


@dataclass(frozen=True, slots=True)
class RemoteReplay:
    """What remote arms make of a question, where some take part.

    Attributes:
        fused: What every route but the simple one answers: all lists together.
        ms: That the arms take which the simple route does without.
        simple: What the simple route answers; None where it is asked of an index here.
        returned: What it returned, which a router without an index looks at; None likewise.
        answered: Id of a passage of theirs -> whether it contains an answer.
    """

    fused: Ranking
    ms: float
    price_ms: float = 0.0
    simple: Ranking | None = None
    simple_ms: float = 0.0
    simple_price_ms: float = 0.0
    returned: Returned | None = None
    answered: Mapping[str, bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Replayed:
    """One question with all that arms and steps said.

    Attributes:
        question: With the dataset it comes from as its group.
        gold: Passage id -> relevance; above 0 is relevant.
        answered: Arm -> (hits,) whether the passage at each rank contains an answer; of steps too,
            where they are.
        seconds: Processor time by stage (parsing, encoding, each arm, trees, steps).
        steps: What the route of steps gives; None where there was nothing to take apart, so that
            it gives what fusion does.
        remote: What remote arms make of it; None where none takes part. It is not in the file.
    """

    question: Question
    gold: Mapping[str, int]
    results: ArmResults
    answered: Mapping[Route, NDArray[np.bool_]]
    seconds: Mapping[str, float]
    steps: Ranking | None = None
    remote: RemoteReplay | None = None

    def answers_in(self, hits: Sequence[RankedHit], cutoff: int) -> bool:
        """Whether one of the first `cutoff` passages of a ranking of these hits has an answer."""
        lists = {
            route: ranking
            for route, ranking in self.results.rankings.items()
            if self.remote is None or self.remote.simple is None
        }
        if self.steps is not None:
            lists[Route.STEPS] = self.steps
        has = {
            hit.id: bool(found)
            for route, ranking in lists.items()
            for hit, found in zip(ranking.hits, self.answered[route], strict=True)
        }
        if self.remote is not None:
            has |= self.remote.answered
        return any(has[hit.id] for hit in hits[:cutoff])


@dataclass(frozen=True)
class Replay:
    """A split of a dataset as one index version answers it."""

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
    def results(self) -> list[ArmResults]:
        """Of each question."""
        return [one.results for one in self.questions]

    def rankings(self, arm: Route) -> list[Ranking]:
        """What one arm said."""
        return [one.results.rankings[arm] for one in self.questions]

    def measure(self, rankings: Sequence[Ranking]) -> Float64:
        """Every measure of every question, for answers of any kind.

        Returns:
            (n, m) float64, columns in the order of `training.evaluation.measures.MEASURES`.
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

    @classmethod
    def of(cls, replay: Replay) -> "TrainingReplay":
        """The same to learn from."""
        return cls(replay.dataset, replay.split, replay.key, replay.questions)

    def __post_init__(self) -> None:
        if self.split not in TRAINING_SPLITS:
            raise SplitError(
                f"The replay of '{self.dataset}' is of split '{self.split}', which is for the "
                f"final evaluation only; learn from {' and '.join(sorted(TRAINING_SPLITS))}."
            )


SCHEMA = "4"
"""Grows whenever a column, or what one means, changes."""
_META = b"wye.replay"

_PLAIN: Mapping[Any, pa.DataType] = {str: pa.string(), float: pa.float64(), int: pa.int64()}


def _list_of(plain: type) -> pa.DataType:
    """A list of dataclasses of plain values."""
    return pa.list_(pa.struct([(one.name, _PLAIN[one.type]) for one in fields(plain)]))


_ARM = pa.struct(
    [
        ("ids", pa.list_(pa.string())),
        ("scores", pa.list_(pa.float64())),
        ("answered", pa.list_(pa.bool_())),
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
        *((str(route), _ARM) for route in (*ARMS, Route.STEPS)),
        ("seconds", pa.map_(pa.string(), pa.float64())),
    ]
)


def file_name(dataset: str, split: str) -> str:
    """Name of a replay's file."""
    return f"replay-{dataset}-{split}.parquet"


def read_training(path: Path) -> TrainingReplay:
    """Read a replay to learn from.

    Raises:
        ReplayError: There is none, or it is of another schema.
        SplitError: It is of a test split; its rows are not read then.
    """
    return TrainingReplay.of(read_replay(path, TRAINING_SPLITS))


def read_replay(path: Path, splits: Collection[str]) -> Replay:
    """Read a replay, of a split that is named.

    Args:
        splits: Those that the caller means to read.

    Raises:
        ReplayError: There is none, or it is of another schema.
        SplitError: It is of another split; its rows are not read then.
    """
    stated = _stated(path)
    if stated["split"] not in splits:
        raise SplitError(
            f"'{path}' is the replay of split '{stated['split']}', and only "
            f"{', '.join(sorted(splits))} may be read here; test splits are for the final "
            "evaluation."
        )
    rows = pq.read_table(path).to_pylist()
    key = ReplayKey(**stated["key"])
    return Replay(stated["dataset"], stated["split"], key, tuple(map(_question, rows)))


def read_key(path: Path) -> ReplayKey | None:
    """What a file's replay depends on; None when there is no file of this schema."""
    try:
        return ReplayKey(**_stated(path)["key"])
    except ReplayError:
        return None


def write_rows(
    path: Path, rows: Iterable[Replayed], *, dataset: str, split: str, key: ReplayKey
) -> None:
    """Write questions, so that the file is whole or absent whenever the process dies."""
    columns = [_row(dataset, split, one) for one in rows]
    further = [arm for arm in FURTHER if any(arm in row for row in columns)]
    stated = json.dumps({"dataset": dataset, "split": split, "key": asdict(key)}, sort_keys=True)
    told = pa.schema([*_COLUMNS, *((str(arm), _ARM) for arm in further)])
    schema = told.with_metadata({_META: stated.encode()})
    path.parent.mkdir(parents=True, exist_ok=True)
    with write_atomically(path) as file:
        pq.write_table(pa.Table.from_pylist(columns, schema=schema), file, compression="zstd")


def _stated(path: Path) -> dict[str, Any]:
    try:
        metadata = pq.read_schema(path).metadata or {}
        stated: dict[str, Any] = json.loads(metadata[_META])
    except (OSError, KeyError, ValueError, pa.ArrowInvalid) as error:
        raise ReplayError(
            f"'{path}' is no replay that can be read ({error}); make it with `wye train`, or "
            "delete it to have it made again."
        ) from None
    if stated["key"]["schema"] != SCHEMA:
        raise ReplayError(
            f"'{path}' is a replay of schema {stated['key']['schema']}, and this is Wye with "
            f"schema {SCHEMA}; delete it to have it made again."
        )
    return stated


def _row(dataset: str, split: str, one: Replayed) -> dict[str, Any]:
    results = one.results
    return {
        "dataset": dataset,
        "split": split,
        "id": one.question.id,
        "text": one.question.text,
        "group": one.question.group,
        "answers": list(one.question.answers),
        "gold": list(one.gold.items()),
        "vector": results.query.vector,
        "mentions": [{"text": m.text, "kind": m.kind} for m in results.query.mentions],
        "seeds": [asdict(seed) for seed in results.seeds],
        "coverage": asdict(results.coverage),
        "seconds": list(one.seconds.items()),
        **{str(arm): _arm(of, one.answered[arm].tolist()) for arm, of in results.rankings.items()},
        str(Route.STEPS): one.steps and _arm(one.steps, one.answered[Route.STEPS].tolist()),
    }


def _arm(ranking: Ranking, answered: Sequence[bool]) -> dict[str, Any]:
    return {
        "ids": [hit.id for hit in ranking.hits],
        "scores": [hit.score for hit in ranking.hits],
        "answered": answered,
        "candidates": ranking.candidates,
        "degraded": ranking.degraded,
    }


def _question(row: Mapping[str, Any]) -> Replayed:
    mentions = tuple(Mention(m["text"], m["kind"]) for m in row["mentions"])
    query = Query(row["text"], np.array(row["vector"], np.float32), mentions=mentions)
    steps = row[Route.STEPS]
    arms = (*ARMS, *(arm for arm in FURTHER if arm in row))
    told = (*arms, Route.STEPS) if steps else arms
    return Replayed(
        question=Question(row["id"], row["text"], tuple(row["answers"]), row["group"]),
        gold=dict(row["gold"]),
        results=ArmResults(
            query,
            tuple(SeedStats(**seed) for seed in row["seeds"]),
            {arm: _ranking(str(arm), row[str(arm)]) for arm in arms},
            _coverage(row["coverage"]),
        ),
        answered={route: np.array(row[route]["answered"], dtype=bool) for route in told},
        seconds=dict(row["seconds"]),
        steps=_ranking(Route.STEPS, steps) if steps else None,
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
