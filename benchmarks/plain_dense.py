"""Compares routed retrieval with plain dense retrieval, in one process and over HTTP.

"plain" is sentence-transformers' `encode` and a flat FAISS index, with our index's encoder and
vectors, and texts in memory; over HTTP it runs behind FastAPI and uvicorn. Systems take turns
question by question, and servers slice by slice. Look at the ratios to plain, with 95 % bootstrap
intervals over questions, from an otherwise idle machine: on a busy one, plain waits for the last of
its threads. The lower bound is the encoder alone in process, and over HTTP lexical search, which
runs no model. `--wye other/bin/wye` adds the server of another commit.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import faiss
import numpy as np
import psutil

import wye
from benchmarks import harness, load
from benchmarks.harness import WYE, BenchmarkError, ServerProcess, Table
from wye.backends.types import Float64
from wye.featurizer.encoder_files import DEFAULT_ENCODER, locate_model
from wye.router.session import Session
from wye.router.settings import load_settings
from wye.training.data import read_dataset

PLAIN = "plain"
DRAWS = 2_000
"""Number of bootstrap resamples."""
ROUTES = ("dense", "hybrid", "graph", "fusion", "auto")


class Plain:
    """Plain dense retrieval, as in tutorials."""

    def __init__(self, folder: Path) -> None:
        """Load the files of `write_plain`, and the encoder."""
        from sentence_transformers import SentenceTransformer  # noqa: PLC0415 - slow

        self._model = SentenceTransformer(str(locate_model(DEFAULT_ENCODER)), device="cpu")
        vectors = np.load(folder / "vectors.npy")
        self._index = faiss.IndexFlatIP(vectors.shape[1])
        self._index.add(vectors)
        self._passages = json.loads((folder / "passages.json").read_text(encoding="utf-8"))

    def search(self, question: str, k: int) -> list[dict[str, object]]:
        """The k nearest passages, best first."""
        vectors = self._model.encode([question], normalize_embeddings=True)
        scores, rows = self._index.search(vectors, k)
        nearest = zip(rows[0].tolist(), scores[0].tolist(), strict=True)
        return [{**self._passages[row], "score": score} for row, score in nearest]


def write_plain(session: Session, folder: Path) -> None:
    """Write the vectors and passages of an index for `Plain`."""
    corpus = session.snapshot.corpus
    np.save(folder / "vectors.npy", corpus.vectors)
    rows = zip(corpus.ids, corpus.titles, corpus.texts(range(len(corpus))), strict=True)
    passages = [{"id": id_, "title": title, "text": text} for id_, title, text in rows]
    (folder / "passages.json").write_text(json.dumps(passages), encoding="utf-8")


def serve(folder: Path, port: int) -> None:
    """Serve plain dense retrieval over HTTP, at the path of `wye serve`."""
    import uvicorn  # noqa: PLC0415
    from fastapi import FastAPI  # noqa: PLC0415
    from pydantic import BaseModel  # noqa: PLC0415

    class Wanted(BaseModel):
        question: str
        k: int = 5

    app, plain = FastAPI(), Plain(folder)

    @app.post("/v1/retrieve")
    def retrieve(wanted: Wanted) -> list[dict[str, object]]:
        return plain.search(wanted.question, wanted.k)

    @app.get("/ready")
    def ready() -> str:
        return "ok"

    uvicorn.run(app, port=port, log_level="warning")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add options for data, systems, and numbers of questions."""
    harness.add_data(parser)
    parser.add_argument("--splits", default="dev,test", help="splits to ask, separated by commas")
    parser.add_argument("--questions", type=int, default=300, help="asked in process (default 300)")
    parser.add_argument("--routes", default=",".join(ROUTES), help="routes in process")
    parser.add_argument("--served", default="lexical,dense,hybrid,auto", help="routes over HTTP")
    parser.add_argument("--wye", action="append", default=[], help="the `wye` of another commit")
    parser.add_argument("--clients", default="1,64")
    parser.add_argument("--rounds", type=int, default=5, help="rounds over HTTP (default 5)")
    parser.add_argument("--seconds", type=float, default=3.0, help="seconds per slice (default 3)")
    parser.add_argument("-k", type=int, default=5)
    parser.add_argument("--only", choices=("process", "http"), help="run only this part")


def run(args: argparse.Namespace) -> None:
    """Print the tables."""
    splits = [read_dataset(args.dataset, split) for split in args.splits.split(",")]
    texts = sorted({question.text for data in splits for question in data.questions})
    np.random.default_rng(args.seed).shuffle(texts)
    with ExitStack() as stack:
        index = stack.enter_context(harness.index_of(args))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="wye-bench-")))
        session = stack.enter_context(Session.open(load_settings(), index))
        write_plain(session, folder)
        harness.print_header(
            "A routed answer beside plain dense retrieval",
            seed=args.seed,
            data=f"{harness.data_name(args)}, {session.count:,} passages, "
            f"{len(texts):,} questions ({args.splits}), load average {psutil.getloadavg()[0]:.1f}",
        )
        plain = Plain(folder) if args.only != "http" else None
        if plain is not None:
            print_process(session, plain, texts[: args.questions], args)
        if args.only in (None, "http"):
            session.close()
            print_http(folder, texts, args)


def print_process(
    session: Session, plain: Plain, questions: Sequence[str], args: argparse.Namespace
) -> None:
    """Print milliseconds of questions asked one by one."""
    opened = wye.Index(session)

    asks: dict[str, Callable[[str], object]] = {
        PLAIN: partial(plain.search, k=args.k),
        "our encoder alone": lambda question: session.analyser.encode_questions([question]),
    }
    routes = args.routes.split(",")
    asks |= {route: partial(opened.search, route=route, k=args.k) for route in routes}
    taken = harness.in_turns(asks, questions)
    times = {name: np.array([each.seconds for each in of]) for name, of in taken.items()}
    table = Table(["in one process", "p50 ms", "p99 ms", "p50 / plain", "      [95 %]"])
    for name, seconds in times.items():
        p50, _, p99 = harness.percentiles(seconds.tolist())
        table.row(name, p50, p99, *ratio_of_medians(seconds, times[PLAIN], seed=args.seed))
    print()


def ratio_of_medians(times: Float64, baseline: Float64, *, seed: int) -> tuple[float, str]:
    """Ratio of the medians of (n,) times for the same questions, with its bootstrap interval."""
    drawn = np.random.default_rng(seed).integers(len(times), size=(DRAWS, len(times)))
    ratios = np.median(times[drawn], axis=1) / np.median(baseline[drawn], axis=1)
    low, high = np.percentile(ratios, [2.5, 97.5])
    return float(np.median(times) / np.median(baseline)), f"[{low:.2f} {high:.2f}]"


def print_http(folder: Path, questions: Sequence[str], args: argparse.Namespace) -> None:
    """Print the load of each server with each number of clients, in turn; then their memory."""
    with ExitStack() as stack:
        plain_server = ServerProcess(sys.executable, "-m", "benchmarks.plain_dense", str(folder))
        servers = {PLAIN: stack.enter_context(plain_server)}
        commands = {"wye": [*WYE]}
        commands |= {chr(ord("A") + position): [path] for position, path in enumerate(args.wye)}
        for name, command in commands.items():
            print(f"# {name:<9}{command[0]}")
            index = stack.enter_context(harness.index_of(args, wye=command))
            servers[name] = stack.enter_context(ServerProcess.of(index, wye=command))
        systems = [(PLAIN, "dense")]
        systems += [(name, route) for route in args.served.split(",") for name in commands]
        samples = asyncio.run(slices(servers, systems, questions, args))
        memory = {name: server.megabytes for name, server in servers.items()}
    columns = ["over HTTP, clients", "per s", "p50 ms", "p99 ms", "errors"]
    table = Table([*columns, "p50 / plain", "[least most]", "per s / plain"], width=24)
    for (name, route, clients), server_samples in samples.items():
        p50s, plain_p50s, rates, plain_rates = (
            np.array([value(sample) for sample in each])
            for value in (_p50, lambda sample: sample.rate)
            for each in (server_samples, samples[PLAIN, "dense", clients])
        )
        ratios, answered = p50s / plain_p50s, [t for each in server_samples for t in each.answered]
        table.row(
            f"{name} {route}, {clients}" if name != PLAIN else f"{name}, {clients}",
            float(np.median(rates)),
            float(np.median(p50s)),
            harness.percentiles(answered)[2],
            sum(sample.failed + len(sample.refused) for sample in server_samples),
            float(np.median(ratios)),
            f"[{ratios.min():.2f} {ratios.max():.2f}]",
            float(np.median(rates / plain_rates)),
        )
    print()
    table = Table(["server", "resident MB"])
    for name, size in memory.items():
        table.row(name, size)


def _p50(sample: load.Sample) -> float:
    return harness.percentiles(sample.answered)[0]


async def slices(
    servers: Mapping[str, ServerProcess],
    systems: Sequence[tuple[str, str]],
    questions: Sequence[str],
    args: argparse.Namespace,
) -> dict[tuple[str, str, int], list[load.Sample]]:
    """(server, route, clients) -> samples, one for each round."""
    clients = {name: load.LoadClient(server.url) for name, server in servers.items()}
    samples: dict[tuple[str, str, int], list[load.Sample]] = {}
    try:
        for turn in range(-1, args.rounds):
            for count in map(int, args.clients.split(",")):
                for name, route in systems[:: -1 if turn % 2 else 1]:
                    bodies = [{"question": q, "route": route, "k": args.k} for q in questions]
                    seconds = args.seconds if turn >= 0 else 1.0
                    sample = await load.closed_loop(clients[name], bodies, count, seconds)
                    if turn >= 0:  # the first round only warms up
                        samples.setdefault((name, route, count), []).append(sample)
    finally:
        for client in clients.values():
            await client.close()
    if not all(sample.answered for each in samples.values() for sample in each):
        raise BenchmarkError("A server answered nothing; run it by hand.")
    return {key: samples[key] for key in sorted(samples, key=lambda key: key[2])}


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[-1]))
