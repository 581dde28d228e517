"""How long the graph arm takes for analysed questions, in batches and by stage.

`python -m benchmarks.trigraph DATASET --index DIR`. "CPU ms" is the processor time of all
threads: where it is far below the mean of the wall time, something else was using the machine.
Stages are milliseconds per question in batches of 32, one measured after the other.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, islice
from pathlib import Path
from time import perf_counter, process_time

from backends.numerics import products
from backends.store.index import Index
from backends.trigraph.retriever import Trace, TriGraphRetriever
from backends.trigraph.seeds import Seed
from backends.types import Float32, Query
from benchmarks import report
from benchmarks.questions import Analyse, with_models
from router.session import Snapshot
from router.settings import load_settings
from training.data.dataset import read_dataset

BATCHES = (1, 8, 32, 128)
STAGE_BATCH = 32
DEPTH = 10


def main(argv: Sequence[str] | None = None, analyse: Analyse = with_models) -> None:
    """Print the tables."""
    parser = report.parser(__doc__)
    parser.add_argument("dataset", type=Path, help="folder in BEIR's layout")
    parser.add_argument("--index", type=Path, required=True, help="folder of its index")
    parser.add_argument("--split", default="dev", help="whose questions are asked")
    parser.add_argument("--calls", type=int, default=400, help="questions to time per batch size")
    arguments = parser.parse_args(argv)
    dataset = read_dataset(arguments.dataset, arguments.split)
    queries = analyse(arguments.index, [question.text for question in dataset.questions])
    start = perf_counter()
    snapshot = Snapshot(Index.open(arguments.index), load_settings())
    graph = snapshot.graph
    graph.search(queries[:1], DEPTH)
    opened = perf_counter() - start
    report.print_header(
        "Graph arm given analysed questions",
        seed=None,
        data=f"{dataset.name} ({dataset.split}), {len(snapshot):,} passages, "
        f"{len(graph.graph):,} entities, {len(queries)} questions",
    )
    columns = ["batch", "questions/s", "p50 ms", "p95 ms", "p99 ms", "CPU ms"]
    table = report.Table(columns, width=24)
    for batch in BATCHES:
        table.row(str(batch), *time_batches(graph, queries, batch, arguments.calls))
    print()
    stages = report.Table(["stage", "ms", "CPU ms"], width=24)
    for name, wall, cpu in time_stages(snapshot, queries, arguments.calls):
        stages.row(name, wall, cpu)
    print(f"\nOpening the index to the first answer, without models: {opened:.2f} s")


def time_batches(
    graph: TriGraphRetriever, queries: Sequence[Query], batch: int, calls: int
) -> list[float]:
    """Questions per second; p50, p95 and p99 per question; processor time per question."""
    seconds: list[float] = []
    before = process_time()
    for window in windows(queries, batch, max(calls, 3 * batch)):
        started = perf_counter()
        graph.search(window, DEPTH)
        seconds.append((perf_counter() - started) / batch)
    asked = len(seconds) * batch
    cpu = (process_time() - before) / asked * 1e3
    return [len(seconds) / sum(seconds), *report.percentiles(seconds), cpu]


def time_stages(
    snapshot: Snapshot, queries: Sequence[Query], calls: int
) -> list[tuple[str, float, float]]:
    """Wall and processor milliseconds per question of what a search is made of."""
    graph, passages_of = snapshot.graph, snapshot.graph.graph.passages_of

    def seeds(window: Sequence[Query]) -> list[tuple[Seed, ...]]:
        return [graph.finder.find(query, passages_of) for query in window]

    def similarity(window: Sequence[Query]) -> list[Float32]:
        return [products(snapshot.corpus.vectors, query.vector) for query in window]

    def traces(window: Sequence[Query]) -> list[Trace]:
        return [graph.batch(window).trace(place) for place in range(len(window))]

    stages: dict[str, Callable[[list[Query]], object]] = {
        "similarity of passages": similarity,
        "seeds": seeds,
        "whole trace": traces,
        "trace and walk": lambda window: graph.batch(window).run_pagerank(traces(window)),
        "whole search": lambda window: graph.search(window, DEPTH),
    }
    if graph.settings.weighs_lexical:
        scores = snapshot.lexical.scores
        stages = {"BM25 of passages": lambda window: [scores(one) for one in window], **stages}
    found = {name: _time(call, queries, calls) for name, call in stages.items()}
    whole, walked = found.pop("whole search"), found.pop("trace and walk")
    traced = found.pop("whole trace")
    # What is not timed by itself is what a larger stage takes beyond the smaller ones.
    timed = [sum(times[i] for times in found.values()) for i in (0, 1)]
    return [
        *((name, wall, cpu) for name, (wall, cpu) in found.items()),
        ("bridging and prior", traced[0] - timed[0], traced[1] - timed[1]),
        ("walk", walked[0] - traced[0], walked[1] - traced[1]),
        ("top k", whole[0] - walked[0], whole[1] - walked[1]),
        ("all", *whole),
    ]


def windows(queries: Sequence[Query], batch: int, count: int) -> Iterator[list[Query]]:
    """Batches of at least `count` questions together, starting over when there are no more."""
    rest = cycle(queries)
    for _ in range(-(-count // batch)):
        yield list(islice(rest, batch))


def _time(
    call: Callable[[list[Query]], object], queries: Sequence[Query], calls: int
) -> tuple[float, float]:
    wall, cpu, asked = perf_counter(), process_time(), 0
    for window in windows(queries, STAGE_BATCH, calls):
        call(window)
        asked += len(window)
    return (perf_counter() - wall) / asked * 1e3, (process_time() - cpu) / asked * 1e3


if __name__ == "__main__":
    main()
