"""Arms on one index: what they find, how long they take, and how long until the first answer.

Questions are analysed before the clock starts. "of 32" is a question's share of a batch of 32;
CPU is processor time of all threads: far below the wall time, it says that something else was
using the machine. With --ablation, each extension of the graph arm is switched off alone, and
added to LinearRAG as published one by one; means have 95 % bootstrap intervals, and a star marks
a paired difference that excludes 0: to the default where something is switched off, to the row
above where something is added.
"""

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from time import perf_counter, process_time

import numpy as np

from backends.dense import DenseRetriever, DenseSettings
from backends.errors import BackendError
from backends.store.index import PassageStore
from backends.trigraph.retriever import PUBLISHED, TriGraphRetriever, TriGraphSettings
from backends.types import Float64, Query, Retriever
from benchmarks import harness
from benchmarks.harness import Table
from router.gateway import Gateway
from router.reading import QuestionReading
from router.session import Session, Snapshot
from router.settings import load_settings
from router.types import Route
from training.data.dataset import Dataset, read_dataset
from training.evaluation.measures import ALL_EVIDENCE, MEASURES, score

DEPTH = 10
BATCH = 32
QUALITY = ("R@5", "nDCG@10")
ABLATION = ("R@5", ALL_EVIDENCE, "Success@1", "nDCG@10")

EXTENSIONS: dict[str, tuple[str, ...]] = {
    "seeds by name": ("seeds.nearest", "seeds.similarity_floor"),
    "title entities": ("assembly.title_entities",),
    "linked text": ("assembly.link_text",),
    "seeds from vocabulary": ("seeds.vocabulary",),
    "degree power": ("degree_power",),
    "title prior": ("title_weight",),
    "lexical prior": ("lexical_weight", "lexical_weight_titled"),
    "similarity weight": ("similarity_weight",),
    "threshold": ("threshold",),
    "noun phrases": ("assembly.noun_phrases",),
}
"""What the graph arm has beyond LinearRAG as published: name -> its settings."""

Variant = tuple[str, TriGraphSettings]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add dataset, index, split, and the further tables."""
    harness.add_data(parser)
    parser.add_argument("--split", default="dev", help="whose questions are asked (default dev)")
    parser.add_argument("--rounds", type=int, default=3, help="of opening the index (default 3)")
    parser.add_argument("--ablation", action="store_true", help="what the graph's extensions give")


def run(given: argparse.Namespace) -> None:
    """Print the tables."""
    dataset = read_dataset(given.dataset, given.split)
    with harness.index_of(given) as folder, Session.open(load_settings(), folder) as session:
        texts = [question.text for question in dataset.questions]
        reading = QuestionReading(texts, lambda: session.analyser)
        reading.encode()
        reading.parse(range(len(texts)), tokens=False)
        reading.find_mentions(range(len(texts)), lambda _: True)
        queries = reading.queries
        harness.print_header(
            "Arms, given analysed questions",
            seed=given.seed,
            data=f"{dataset.name} ({dataset.split}), {session.count:,} passages, "
            f"{len(queries)} questions",
        )
        print_arms(session.snapshot, dataset, queries)
        print()
        print_opening(session, dataset.questions[0].text, given.rounds)
        if given.ablation:
            for variants, against_first in ((without(), True), (added(), False)):
                print()
                print_ablation(
                    session.snapshot,
                    dataset,
                    queries,
                    variants,
                    against_first=against_first,
                    seed=given.seed,
                )


def arms(snapshot: Snapshot) -> dict[str, Callable[[], Retriever]]:
    """Arms by name, in an order in which each builds nothing for another."""

    def dense(settings: DenseSettings) -> Retriever:
        return DenseRetriever(snapshot.corpus.ids, snapshot.corpus.vectors, settings)

    def graph(walk: TriGraphSettings) -> Retriever:
        return TriGraphRetriever(snapshot.corpus, walk, snapshot.lexical.score)

    return {
        "dense": lambda: snapshot.dense,
        "dense, compressed": lambda: dense(DenseSettings(kind="compressed")),
        "lexical": lambda: snapshot.lexical,
        "graph": lambda: snapshot.graph,
        "graph, full walks": lambda: graph(replace(snapshot.graph.settings, walk="full")),
        "graph, local walks": lambda: graph(replace(snapshot.graph.settings, walk="local")),
    }


def print_arms(snapshot: Snapshot, dataset: Dataset, queries: Sequence[Query]) -> None:
    """Quality and milliseconds a question of every arm."""
    columns = ["arm", *QUALITY, "build s", "p50 ms", "p95 ms", "p99 ms"]
    table = Table([*columns, f"of {BATCH}: ms", "CPU ms"], width=20)
    for name, make in arms(snapshot).items():
        start = perf_counter()
        arm = make()
        built = perf_counter() - start
        quality = measure(arm, dataset, queries, QUALITY).mean(axis=0).tolist()
        alone = [harness.timed(partial(arm.search, [query], DEPTH)) for query in queries]
        start, cpu = perf_counter(), process_time()
        for batch in batches(queries):
            arm.search(batch, DEPTH)
        together = [perf_counter() - start, process_time() - cpu]
        shares = [seconds / len(queries) * 1e3 for seconds in together]
        table.row(name, *quality, built, *harness.percentiles(alone), *shares)


def print_opening(session: Session, question: str, rounds: int) -> None:
    """Seconds from a folder to a first answer; models are loaded before."""
    columns = ["opening the index, s", "min", "median", "max"]
    table = Table(columns, width=24)
    found = [opening(session, question) for _ in range(rounds)]
    for stage in found[0]:
        own = np.array([seconds[stage] for seconds in found])
        table.row(stage, float(own.min()), float(np.median(own)), float(own.max()))


def opening(session: Session, question: str) -> dict[str, float]:
    """Seconds to read a version and to answer over each route in turn.

    Later routes find what earlier ones have built: the graph arm uses BM25 in its prior.
    """
    seconds: dict[str, float] = {}
    start = perf_counter()
    snapshot = Snapshot(PassageStore.open(session.folder), session.settings)
    seconds["read the version"] = perf_counter() - start
    gateway = Gateway(lambda: snapshot, lambda: session.analyser, session.settings.fusion)
    for route in (Route.DENSE, Route.LEXICAL, Route.GRAPH):
        before = perf_counter()
        gateway.search([question], route, k=5)
        seconds[f"first answer, {route}"] = perf_counter() - before
    seconds["all of it"] = perf_counter() - start
    return seconds


def print_ablation(
    snapshot: Snapshot,
    dataset: Dataset,
    queries: Sequence[Query],
    variants: Iterable[Variant],
    *,
    against_first: bool,
    seed: int,
) -> None:
    """Quality of the graph arm under each variant, compared with the first row or the one above."""
    table = Table(["variant", *(name.rjust(20) for name in ABLATION)], width=30)
    baseline: Float64 | None = None
    for name, settings in variants:
        lexical = snapshot.lexical.score if settings.weighs_lexical else None
        try:
            graph = TriGraphRetriever(snapshot.corpus, settings, lexical)
            values = measure(graph, dataset, queries, ABLATION)
        except BackendError as error:
            print(f"{name}: not measured. {error}", flush=True)
            continue
        table.row(
            name, *harness.intervals(values, values if baseline is None else baseline, seed=seed)
        )
        if baseline is None or not against_first:
            baseline = values


def without() -> Iterator[Variant]:
    """The defaults, each extension switched off alone, and three more choices."""
    default = TriGraphSettings()
    yield "default", default
    for name, fields in EXTENSIONS.items():
        yield f"- {name}", taking(default, fields, PUBLISHED)
    yield "- bridging", replace(default, steps=1)
    yield "- sums: largest value", replace(default, summed=False)
    always = replace(default.assembly, noun_phrases="on")
    yield "+ noun phrases always", replace(default, assembly=always)


def added() -> Iterator[Variant]:
    """LinearRAG as published, and each extension on top of those before; ends at the defaults."""
    settings = PUBLISHED
    yield "published", settings
    for name, fields in EXTENSIONS.items():
        settings = taking(settings, fields, TriGraphSettings())
        yield f"+ {name}", settings


def taking(
    settings: TriGraphSettings, fields: Iterable[str], source: TriGraphSettings
) -> TriGraphSettings:
    """Settings with some fields, as in "threshold" or "seeds.vocabulary", of others."""
    for field in fields:
        part, _, inner = field.rpartition(".")
        if part:
            changes = {inner: getattr(getattr(source, part), inner)}
            settings = replace(settings, **{part: replace(getattr(settings, part), **changes)})
        else:
            settings = replace(settings, **{field: getattr(source, field)})
    return settings


def measure(
    arm: Retriever, dataset: Dataset, queries: Sequence[Query], names: Sequence[str]
) -> Float64:
    """(questions, names) of what an arm finds."""
    found = [ranking for batch in batches(queries) for ranking in arm.search(batch, DEPTH)]
    run = {
        question.id: [hit.id for hit in ranking.hits]
        for question, ranking in zip(dataset.questions, found, strict=True)
    }
    values = score({one.id: dataset.judgements[one.id] for one in dataset.questions}, run)
    return values[:, [MEASURES.index(name) for name in names]]


def batches(queries: Sequence[Query]) -> Iterator[Sequence[Query]]:
    """Of 32, and a last one of those that remain."""
    for start in range(0, len(queries), BATCH):
        yield queries[start : start + BATCH]
