"""An index dealt to shards beside the whole one: recall, rankings that are the same, milliseconds.

Documents are dealt by a hash of their ids. The shards are in this process, so milliseconds are the
processor time of all of them and of who asks; nothing is sent. With one shard lost, the others
answer for what they have.
"""

import argparse
import hashlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pyarrow as pa

from backends.store.index import PassageStore
from benchmarks import harness
from benchmarks.harness import Table
from router.errors import ShardError
from router.gateway import Gateway
from router.session import Session, Snapshot
from router.settings import Settings, load_settings
from router.sharding.arms import ShardedArms, Shards
from router.sharding.shard import Shard
from router.types import USUAL, Route
from training.data.dataset import Dataset, read_dataset
from training.evaluation.measures import MEASURES, score

BATCH = 16
DEPTH = 10
_ROWS = 1_000
R5 = MEASURES.index("R@5")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add dataset, index, splits and the number of shards."""
    harness.add_data(parser)
    parser.add_argument("--splits", nargs="+", default=["dev"], help="of judged questions")
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--routes", nargs="+", default=[str(route) for route in USUAL])


def run(given: argparse.Namespace) -> None:
    """Print recall by route: whole, of shards, and of shards without one of them."""
    with harness.index_of(given) as index, tempfile.TemporaryDirectory() as scratch:
        settings = load_settings(index=index)
        deal(index, Path(scratch), given.shards)
        clients = [
            LocalClient(folder.name, Shard(Snapshot(PassageStore.open(folder), settings)))
            for folder in sorted(Path(scratch).iterdir())
        ]
        datasets = [read_dataset(given.dataset, split) for split in given.splits]
        harness.print_header("Shards", seed=None, data=harness.data_name(given))
        with Session.open(settings, index) as whole, sharded(clients, settings, whole) as parts:
            columns = ["whole", "shards", "same first 5", "ms", "ms shards", "one lost"]
            table = Table(["R@5", *columns], width=8)
            for route in map(Route, given.routes):
                found, spent = answers(whole.gateway, route, datasets)
                clients[0].is_lost = False
                dealt, spent_dealt = answers(parts, route, datasets)
                clients[0].is_lost = True
                less, _ = answers(parts, route, datasets)
                same = np.mean([found[id_][:5] == dealt[id_][:5] for id_ in found])
                table.row(
                    str(route),
                    *(f"{recall(datasets, each):.4f}" for each in (found, dealt)),
                    f"{100 * same:.0f} %",
                    *(harness.number(1000 * each) for each in (spent, spent_dealt)),
                    f"{recall(datasets, less):.4f}",
                )


class LocalClient:
    """A shard in this process, that can be lost."""

    def __init__(self, name: str, shard: Shard) -> None:
        self.name = name
        self.is_lost = False
        self._shard = shard

    def call(self, name: str, arguments: Mapping[str, Any]) -> Any:  # noqa: ANN401
        """Its answer.

        Raises:
            ShardError: It is lost.
        """
        if self.is_lost:
            raise ShardError("is lost")
        return self._shard.call(name, arguments)

    def close(self) -> None:
        """Nothing is open."""


@contextmanager
def sharded(
    clients: Sequence[LocalClient], settings: Settings, whole: Session
) -> Iterator[Gateway]:
    """A gateway over shards, with the models and the router of the whole."""
    shards = Shards(clients)
    arms = ShardedArms(shards, settings)

    def current() -> ShardedArms:
        shards.revive()
        return arms

    try:
        yield Gateway(
            current, lambda: whole.analyser, settings.fusion, lambda: whole.router, relevance=None
        )
    finally:
        shards.close()


def deal(index: Path, target: Path, shards: int) -> None:
    """Make an index of each part of the rows of another; whole documents go to one."""
    whole = PassageStore.open(index)
    for number in range(shards):
        part = PassageStore.create(target / f"{number}", whole.dimension, whole.fingerprint)
        with part.writer() as writer:
            for batch in whole.snapshot().to_batches(batch_size=_ROWS):
                documents = batch["document"].to_pylist()
                own = pa.array([_shard_of(each, shards) == number for each in documents])
                writer.upsert(batch.filter(own))


def _shard_of(document: str, shards: int) -> int:
    digest = hashlib.blake2b(document.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % shards


def answers(
    gateway: Gateway, route: Route, datasets: Sequence[Dataset]
) -> tuple[dict[str, list[str]], float]:
    """Ids of the passages for each question, and seconds of processor time of one."""
    asked = {one.id: one.text for dataset in datasets for one in dataset.questions}
    ids, found = list(asked), dict[str, list[str]]()
    gateway.search([asked[ids[0]]], route, DEPTH)  # what is made once is not counted
    started = process_time()
    for start in range(0, len(ids), BATCH):
        part = ids[start : start + BATCH]
        replies = gateway.search([asked[id_] for id_ in part], route, DEPTH)
        found |= {
            id_: [hit.id for hit in reply.ranking.hits]
            for id_, reply in zip(part, replies, strict=True)
        }
    return found, (process_time() - started) / len(ids)


def recall(datasets: Sequence[Dataset], found: Mapping[str, list[str]]) -> float:
    """Mean Recall@5."""
    parts = [
        score(
            {one.id: dataset.judgements[one.id] for one in dataset.questions},
            {one.id: found[one.id] for one in dataset.questions},
        )
        for dataset in datasets
    ]
    return float(np.concatenate(parts)[:, R5].mean())
