"""Compares an index split into shards with the whole one: recall, equal rankings, milliseconds.

A hash of its id assigns each document to a shard. The shards are in this process, so milliseconds
are the processor time of all shards and their client, without a network. If one shard is lost, the
others answer from what they have.

With `--http`, it uses servers: a `wye serve` for each shard and one that asks them, against one of
the whole, with the same questions in turn. Then one shard is stopped (SIGSTOP), and killed. With
`--clients 16`, questions arrive together and share calls.
"""

import argparse
import hashlib
import os
import signal
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time, sleep
from typing import Any

import httpx2 as httpx
import numpy as np
import psutil
import pyarrow as pa

from backends.store.index import PassageStore
from benchmarks import harness, load
from benchmarks.harness import Table
from router.errors import ShardError
from router.gateway import Gateway
from router.session import Session, Snapshot
from router.settings import Settings, load_settings
from router.sharding.arms import ShardedArms
from router.sharding.calls import Call, Shards
from router.sharding.shard import Shard
from router.types import USUAL, Route
from training.data.dataset import Dataset, read_dataset
from training.evaluation.measures import MEASURES, score

BATCH = 16
DEPTH = 10
_ROWS = 1_000
R5 = MEASURES.index("R@5")
PATIENT = "WYE_SERVE__DEADLINE_MS=60000"
"""A long deadline, so that a slow machine does not look like an overloaded server."""
_COLUMNS = [
    f"{what}, {of}" for what in ("p50 ms", "p95 ms", "processor ms") for of in ("whole", "shards")
]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add options for dataset, index, splits and shards."""
    harness.add_data(parser)
    parser.add_argument("--splits", nargs="+", default=["dev"], help="splits of judged questions")
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--routes", nargs="+", default=[str(route) for route in USUAL])
    parser.add_argument("--http", action="store_true", help="time servers over HTTP instead")
    parser.add_argument("--questions", type=int, default=100, help="questions per route over HTTP")
    parser.add_argument("--clients", type=int, default=1, help="clients at once over HTTP")


def run(given: argparse.Namespace) -> None:
    """Print recall by route: whole, sharded, and with one shard lost; or times over HTTP."""
    with harness.index_of(given) as index, tempfile.TemporaryDirectory() as scratch:
        settings = load_settings(index=index)
        deal(index, Path(scratch), given.shards)
        folders = sorted(Path(scratch).iterdir())
        datasets = [read_dataset(given.dataset, split) for split in given.splits]
        if given.http:
            questions = [one.text for dataset in datasets for one in dataset.questions]
            asked = questions[: given.questions]
            print_http(index, folders, asked, given.routes, given.clients)
            return
        clients = [
            LocalClient(folder.name, Shard(Snapshot(PassageStore.open(folder), settings)))
            for folder in folders
        ]
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


@dataclass(frozen=True, slots=True)
class Servers:
    """A server with the processes of those that it asks."""

    url: str
    pids: tuple[int, ...]

    def spent(self) -> float:
        """Processor seconds so far."""
        times = [psutil.Process(pid).cpu_times() for pid in self.pids]
        return float(sum(one.user + one.system for one in times))

    def ask(
        self, questions: Sequence[str], route: str, clients: int = 1
    ) -> tuple[list[float], dict[str, Any]]:
        """Ask questions, as many at once as there are clients.

        Returns:
            The seconds of each, and the last reply.

        Raises:
            HTTPError: The server does not answer, or with an error.
        """

        def one(question: str) -> tuple[float, httpx.Response]:
            started = perf_counter()
            body = {"question": question, "route": route, "k": DEPTH}
            reply = client.post("/v1/retrieve", json=body).raise_for_status()
            return perf_counter() - started, reply

        with (
            httpx.Client(base_url=self.url, timeout=60) as client,
            ThreadPoolExecutor(clients) as pool,
        ):
            seconds, replies = zip(*pool.map(one, questions), strict=True)
        found: dict[str, Any] = replies[-1].json()
        return [*seconds], found


def print_http(
    index: Path,
    folders: Sequence[Path],
    questions: Sequence[str],
    routes: Sequence[str],
    clients: int,
) -> None:
    """Print milliseconds of questions to the whole and to the shards; then with a shard lost."""
    with ExitStack() as stack:

        def started(*words: str) -> tuple[str, int]:
            port = load.free_port()
            command = [*words, *harness.WYE, "serve", "--port", str(port)]
            return stack.enter_context(load.running(command, port))

        url, pid = started("env", f"WYE_INDEX={index}", PATIENT)
        whole = Servers(url, (pid,))
        parts = [started("env", f"WYE_INDEX={folder}", PATIENT) for folder in folders]
        # Started last, so that it is ended before those that it asks.
        urls = ",".join(url for url, _ in parts)
        url, pid = started("env", f"WYE_SERVE__SHARDS={urls}", PATIENT)
        dealt = Servers(url, (pid, *(pid for _, pid in parts)))
        table = Table([f"{len(questions)} questions", *_COLUMNS], width=14)
        for route in routes:
            seconds: dict[Servers, list[float]] = {whole: [], dealt: []}
            spent = dict.fromkeys(seconds, 0.0)
            for servers in seconds:
                servers.ask(questions[:BATCH], route)
            for start in range(0, len(questions), BATCH):
                part = questions[start : start + BATCH]
                for servers in seconds:
                    before = servers.spent()
                    seconds[servers] += servers.ask(part, route, clients)[0]
                    spent[servers] += servers.spent() - before
            of = [
                1000 * float(np.quantile(own, q)) for q in (0.5, 0.95) for own in seconds.values()
            ]
            table.row(route, *of, *(1000 * each / len(questions) for each in spent.values()))
        print()
        table = Table(["fusion", "first ms", "p50 ms", "missing"], width=14)
        lost = dealt.pids[1]
        for name, number in (("stopped", signal.SIGSTOP), ("killed", signal.SIGKILL)):
            os.kill(lost, number)
            try:
                (first,), _ = dealt.ask(questions[:1], Route.FUSION)
                later, reply = dealt.ask(questions, Route.FUSION)
            finally:
                os.kill(lost, signal.SIGCONT)  # a stopped process could not end
            why = "; ".join(one["reason"] for one in reply["missing"])
            table.row(name, 1000 * first, 1000 * float(np.median(later)), why)
            while name == "stopped" and "missing" in dealt.ask(questions[:1], Route.FUSION)[1]:
                sleep(0.05)


class LocalClient:
    """A shard in this process, which can be marked as lost."""

    def __init__(self, name: str, shard: Shard) -> None:
        self.name = name
        self.is_lost = False
        self._shard = shard

    def call(self, calls: Sequence[Call]) -> list[Any]:
        """The shard's answers.

        Raises:
            ShardError: The shard is lost.
        """
        if self.is_lost:
            raise ShardError("is lost")
        return [self._shard.call(*one) for one in calls]

    def close(self) -> None:
        """Do nothing."""


@contextmanager
def sharded(
    clients: Sequence[LocalClient], settings: Settings, whole: Session
) -> Iterator[Gateway]:
    """A gateway over shards, with the models and the router of the whole index."""
    shards = Shards(clients)

    def current() -> ShardedArms:
        shards.revive()
        return ShardedArms(shards, settings)

    try:
        yield Gateway(
            current, lambda: whole.analyser, settings.fusion, lambda: whole.router, relevance=None
        )
    finally:
        shards.close()


def deal(index: Path, target: Path, shards: int) -> None:
    """Split an index into shards; a document's passages go to the same one."""
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
    """Question id -> ids of its passages, and processor seconds a question."""
    asked = {one.id: one.text for dataset in datasets for one in dataset.questions}
    ids, found = list(asked), dict[str, list[str]]()
    gateway.search([asked[ids[0]]], route, DEPTH)  # so that what is built on first use is not timed
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
