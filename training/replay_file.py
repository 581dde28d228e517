"""Replays as Parquet files, one row a question: `replay-<dataset>-<split>.parquet`."""

import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from backends.seeds import SeedReach
from backends.types import Hit, Mention, Query, Ranking
from router.evidence import Evidence
from router.fusion_settings import ARMS
from training.dataset import Question
from training.errors import ReplayError, SplitError
from training.replay import TRAINING_SPLITS, Replay, Replayed, ReplayKey, TrainingReplay

SCHEMA = "1"
"""Grows whenever a column, or what one means, changes."""
_META = b"wye.replay"

_ARM = pa.struct(
    [
        ("ids", pa.list_(pa.string())),
        ("scores", pa.list_(pa.float64())),
        ("answered", pa.list_(pa.bool_())),
        ("candidates", pa.int64()),
        ("degraded", pa.string()),
    ]
)
_SEED = pa.struct(
    [
        ("mention", pa.string()),
        ("value", pa.float64()),
        ("origin", pa.string()),
        ("passages", pa.int64()),
        ("titles", pa.int64()),
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
        ("seeds", pa.list_(_SEED)),
        *((str(arm), _ARM) for arm in ARMS),
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
    found = read_replay(path, TRAINING_SPLITS)
    return TrainingReplay(found.dataset, found.split, found.key, found.questions)


def read_replay(path: Path, splits: Collection[str]) -> Replay:
    """Read a replay, of a split that is named.

    Args:
        path: Of the file.
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
    stated = json.dumps({"dataset": dataset, "split": split, "key": asdict(key)}, sort_keys=True)
    schema = _COLUMNS.with_metadata({_META: stated.encode()})
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".unfinished")
    with unfinished.open("wb") as file:
        pq.write_table(pa.Table.from_pylist(columns, schema=schema), file, compression="zstd")
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


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
    evidence = one.evidence
    return {
        "dataset": dataset,
        "split": split,
        "id": one.question.id,
        "text": one.question.text,
        "group": one.question.group,
        "answers": list(one.question.answers),
        "gold": list(one.gold.items()),
        "vector": evidence.query.vector,
        "mentions": [{"text": m.text, "kind": m.kind} for m in evidence.query.mentions],
        "seeds": [asdict(seed) for seed in evidence.seeds],
        "seconds": list(one.seconds.items()),
        **{str(arm): _arm(evidence.rankings[arm], one.answered[arm].tolist()) for arm in ARMS},
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
    return Replayed(
        question=Question(row["id"], row["text"], tuple(row["answers"]), row["group"]),
        gold=dict(row["gold"]),
        evidence=Evidence(
            query,
            tuple(SeedReach(**seed) for seed in row["seeds"]),
            {arm: _ranking(str(arm), row[str(arm)]) for arm in ARMS},
        ),
        answered={arm: np.array(row[str(arm)]["answered"], dtype=bool) for arm in ARMS},
        seconds=dict(row["seconds"]),
    )


def _ranking(arm: str, row: Mapping[str, Any]) -> Ranking:
    pairs = zip(row["ids"], row["scores"], strict=True)
    hits = tuple(Hit(id_, score, rank) for rank, (id_, score) in enumerate(pairs, start=1))
    return Ranking(arm, hits, row["candidates"], row["degraded"])
