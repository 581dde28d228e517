"""The tables of four papers in their own shape: EA-GraphRAG, LinearRAG, Clue-RAG and ZoomRAG.

Every method answers the same questions over the same index without a language model. A "-" marks a
column that cannot be measured; the line below the table says why. Questions are analysed before the
clock starts, except in EA-GraphRAG's table of times. Ablations and sweeps use the first
dataset. An index is FOLDER/NAME.index for the dataset NAME; the preset linearrag needs one that
`wye index --preset linearrag` wrote, FOLDER/NAME-linearrag.index.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import nan
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from benchmarks import harness
from benchmarks.harness import Table
from wye.backends.numerics import logistic
from wye.backends.papers.clue import ClueRetriever
from wye.backends.papers.settings import ClueSettings, ZoomSettings
from wye.backends.papers.zoom import ZoomRetriever
from wye.backends.trigraph.retriever import TriGraphRetriever
from wye.backends.trigraph.settings import TriGraphSettings
from wye.backends.types import Float64, Query, Ranking, Retriever
from wye.featurizer.registry import FEATURE_NAMES, syntax_matrix
from wye.router.batch import Batch
from wye.router.presets import EA_GRAPHRAG, PRESETS
from wye.router.session import ModelCache, Session
from wye.router.settings import load_settings
from wye.router.types import Ask, Reply, Route
from wye.training.data import Dataset, contains_any, read_dataset, words
from wye.training.fit.router import PUBLISHED
from wye.training.fit.trainer import Pool, fit_scorer
from wye.training.labels import MARGIN
from wye.training.measures import ALL_EVIDENCE

DEPTH = 10
BATCH = 32
QUALITY = ("R@5", ALL_EVIDENCE, "Success@1", "nDCG@10")
LINEAR = "linearrag"

SHARES = (0.25, 0.5, 0.75)
CUT = 0.5
"""Above this score, a router chooses the graph."""

BatchSearch = Callable[[Sequence[Query]], list[Ranking]]


@dataclass
class JudgedIndex:
    """A dataset's questions with its index.

    Attributes:
        folder: Folder of the dataset, with its other splits.
        presets: Sessions of the published systems; without `LINEAR` if it has no index.
    """

    folder: Path
    dataset: Dataset
    session: Session
    presets: Mapping[str, Session]
    seed: int  # of resamples

    @cached_property
    def queries(self) -> list[Query]:
        """The questions, analysed."""
        return analysed(self.session, self.texts)

    @property
    def texts(self) -> list[str]:
        """The text of each question."""
        return [question.text for question in self.dataset.questions]

    @cached_property
    def rankings(self) -> dict[str, list[Ranking] | None]:
        """Method -> its rankings; None if its index is missing."""
        return {name: method(self) for name, method in METHODS.items()}

    def measure(self, rankings: Sequence[Ranking], names: Sequence[str]) -> Float64:
        """(n, len(names)) measures of every question."""
        hits = [[hit.id for hit in ranking.hits] for ranking in rankings]
        # Success@3: some evidence among the first three.
        columns = (name.replace("Success@3", "R@3") for name in names)
        values = harness.measured(self.dataset, hits, *columns)
        is_success = np.array([name == "Success@3" for name in names])
        return np.where(is_success, values > 0, values)

    def answers(self, rankings: Sequence[Ranking]) -> float:
        """Share of questions with an answer among the first five passages."""
        corpus, is_answered = self.session.snapshot.corpus, []
        for question, ranking in zip(self.dataset.questions, rankings, strict=True):
            rows = corpus.rows([hit.id for hit in ranking.hits[:5]])
            texts = zip(rows, corpus.texts(rows), strict=True)
            text_words = [words(f"{corpus.titles[row]}\n{text}") for row, text in texts]
            wanted = [words(answer) for answer in question.answers]
            is_answered.append(any(contains_any(text, wanted) for text in text_words))
        return float(np.mean(is_answered)) if is_answered else nan


def analysed(session: Session, texts: Sequence[str]) -> list[Query]:
    """Questions as queries of the arms."""
    batch = Batch(session.snapshot, session.models, texts, session.settings.fusion)
    batch.encode()
    batch.parse(range(len(texts)))
    batch.find_mentions(range(len(texts)))
    return batch.queries


def in_batches(search: BatchSearch, queries: Sequence[Query], size: int = BATCH) -> list[Ranking]:
    """Rankings of questions that are asked `size` at a time."""
    parts = (queries[start : start + size] for start in range(0, len(queries), size))
    return [ranking for part in parts for ranking in search(part)]


def by_arm(arm: Callable[[JudgedIndex], Retriever], data: JudgedIndex) -> list[Ranking]:
    """An arm's rankings."""
    return in_batches(partial(arm(data).search, k=DEPTH), data.queries)


def by_route(route: Route, data: JudgedIndex, preset: str = "") -> list[Ranking] | None:
    """Rankings of a route, or of what a preset takes for it; None if it has no index."""
    session = data.presets.get(preset) if preset else data.session
    if session is None:
        return None
    return [reply.ranking for reply in session.gateway.search(data.texts, Ask(route, DEPTH))]


METHODS: Mapping[str, Callable[[JudgedIndex], list[Ranking] | None]] = {
    "BM25": partial(by_arm, lambda data: data.session.snapshot.lexical),
    "dense": partial(by_arm, lambda data: data.session.snapshot.dense),
    "EA-GraphRAG's graph arm": partial(by_route, Route.GRAPH, preset=EA_GRAPHRAG),
    **{preset: partial(by_route, Route.AUTO, preset=preset) for preset in PRESETS},
    "graph": partial(by_arm, lambda data: data.session.snapshot.graph),
    **{
        str(route): partial(by_route, route)
        for route in (Route.HYBRID, Route.FUSION, Route.STEPS, Route.ZOOM, Route.AUTO)
    },
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add options for datasets, their indexes, and tables."""
    parser.add_argument("datasets", type=Path, nargs="+", help="BEIR folders")
    parser.add_argument("--indexes", type=Path, required=True, help="folder with NAME.index")
    parser.add_argument("--split", default="dev", help="split to ask (default dev)")
    parser.add_argument("--every", type=int, default=1, help="ask only every Nth question")
    parser.add_argument("--tables", default=",".join(TABLES), help="tables, separated by commas")


def run(args: argparse.Namespace) -> None:
    """Print the tables."""
    unknown = [name for name in args.tables.split(",") if name not in TABLES]
    if unknown:
        raise harness.BenchmarkError(f"No table '{unknown[0]}'; there is {', '.join(TABLES)}.")
    with ExitStack() as opened:
        sets = [_open(folder, args, opened) for folder in args.datasets]
        harness.print_header(
            "Tables of the papers",
            seed=args.seed,
            data="; ".join(
                f"{data.dataset.name} ({args.split}), {data.session.count:,} passages, "
                f"{len(data.texts)} questions"
                for data in sets
            ),
        )
        for name in args.tables.split(","):
            title, make = TABLES[name]
            print(f"## {title}", flush=True)
            make(sets)
            print(flush=True)


def _open(folder: Path, args: argparse.Namespace, opened: ExitStack) -> JudgedIndex:
    dataset = read_dataset(folder, args.split)
    dataset = replace(dataset, questions=dataset.questions[:: args.every])
    models, index = opened.enter_context(ModelCache()), args.indexes / f"{folder.name}.index"
    indexes = {"": index, **dict.fromkeys(PRESETS, index)}
    indexes[LINEAR] = args.indexes / f"{folder.name}-linearrag.index"
    sessions = {
        preset: Session.open(load_settings(preset=preset), path, models)
        for preset, path in indexes.items()
        if path.is_dir() or preset != LINEAR
    }
    return JudgedIndex(folder, dataset, sessions.pop(""), sessions, args.seed)


def print_by_method(
    names: Sequence[str],
    cells: Callable[[JudgedIndex, list[Ranking]], Sequence[float]],
    sets: Sequence[JudgedIndex],
) -> None:
    """Method by dataset, with a column for each name."""
    table = Table(
        ["method", *(f"{data.dataset.name} {name}" for data in sets for name in names)], 26
    )
    for method in METHODS:
        row: list[float] = []
        for data in sets:
            rankings = data.rankings[method]
            row += [nan] * len(names) if rankings is None else cells(data, rankings)
        table.row(method, *row)
    print(f"{LINEAR}: '-' where there is no index that was written with this preset.")


RECALL = ("R@3", "R@5", ALL_EVIDENCE, "Success@1", "Success@3", "nDCG@10")
print_recall = partial(
    print_by_method, RECALL, lambda data, runs: data.measure(runs, RECALL).mean(axis=0).tolist()
)
# An answer stands in the first five passages; nothing generates or judges it here.
print_accuracy = partial(print_by_method, ("answer@5",), lambda data, runs: [data.answers(runs)])


def print_times(sets: Sequence[JudgedIndex]) -> None:
    """Strategy by milliseconds a question, with analysis and routing, one question at a time."""
    table = Table(["strategy", "p50 ms", "p95 ms", "CPU ms", "R@5", "nDCG@10"], width=30)
    data = sets[0]
    over = {route: harness.over(data.session, Ask(route, DEPTH)) for route in Route}

    def without_fusion(text: str) -> Reply:
        (decision,) = data.session.gateway.decide([text])
        is_fused = decision.route in (Route.FUSION, Route.STEPS)
        return over[Route.GRAPH if is_fused else decision.route](text)

    strategies = {
        "dense": over[Route.DENSE],
        "dense & graph, no fusion": without_fusion,
        "graph": over[Route.GRAPH],
        "fusion": over[Route.FUSION],
        "auto (with fusion)": over[Route.AUTO],
    }
    for name, taken in harness.in_turns(strategies, data.texts).items():
        rankings = [each.reply.ranking for each in taken]
        p50, p95, _ = harness.percentiles([each.seconds for each in taken])
        cpu = 1e3 * float(np.mean([each.processor for each in taken]))
        table.row(name, p50, p95, cpu, *data.measure(rankings, ("R@5", "nDCG@10")).mean(axis=0))
    print("Generator alone: '-', since nothing generates. 'No fusion' decides, then asks anew.")


Settings = TriGraphSettings | ClueSettings | ZoomSettings


def arm_with(settings: Settings, data: JudgedIndex) -> BatchSearch:
    """The search of the arm that has such settings."""
    arms = data.session.snapshot
    if isinstance(settings, ClueSettings):
        return partial(ClueRetriever(arms.graph, settings).search, k=DEPTH)
    if isinstance(settings, ZoomSettings):
        return partial(ZoomRetriever(arms.graph, settings).search, k=DEPTH)
    graph = TriGraphRetriever(arms.corpus, settings, arms.lexical.score, arms.graph.graph)
    return partial(graph.search, k=DEPTH)


def print_variants(variants: Mapping[str, Settings], sets: Sequence[JudgedIndex]) -> None:
    """Variant by measure; a star marks a paired difference to the first that excludes 0."""
    data = sets[0]
    table = Table(["variant", *(name.rjust(20) for name in QUALITY), "CPU ms"], width=34)
    baseline: Float64 | None = None
    for name, settings in variants.items():
        search = arm_with(settings, data)
        search(data.queries[:1])  # so that what is built on first use is not timed
        start = process_time()
        rankings = in_batches(search, data.queries)
        spent = 1e3 * (process_time() - start) / len(rankings)
        values = data.measure(rankings, QUALITY)
        baseline = values if baseline is None else baseline
        table.row(name, *harness.intervals(values, baseline, seed=data.seed), spent)


def sweep(base: Settings, title: str, name: str, *values: Any) -> dict[str, Settings]:  # noqa: ANN401
    """Settings with each value of a field, by a title with the value."""
    return {title.format(value): replace(base, **{name: value}) for value in values}


DEFAULT = TriGraphSettings()
VARIANTS: dict[str, Settings] = {
    "default": DEFAULT,
    "equation 5 as printed": replace(DEFAULT, activation="eq5"),
    "equation 5, one step from the names": replace(DEFAULT, activation="eq5", steps=2),
    "names alone, no bridging": replace(DEFAULT, steps=1),
    "no PageRank: restart masses alone": replace(DEFAULT, damping=0.0),
    "no prior of passages": replace(DEFAULT, passage_weight=0.0, title_weight=0.0),
    "no pruning: threshold 0": replace(DEFAULT, threshold=0.0),
    "half of the threshold": replace(DEFAULT, threshold=DEFAULT.threshold / 2),
    "threshold less .1": replace(DEFAULT, threshold=DEFAULT.threshold - 0.1),
    **sweep(DEFAULT, "pruned to {} sentences a name", "sentences_per_entity", 2, 3, 5),
    **sweep(DEFAULT, "steps T {}", "steps", 2, 4, 5),
    **sweep(DEFAULT, "threshold {:.2f}", "threshold", 0.1, 0.2, 0.3, 0.4, 0.5, 0.6),
    **sweep(DEFAULT, "weight of similarity {:g}", "similarity_weight", 0, 0.5, 1, 1.5, 2, 8),
    **sweep(DEFAULT, "promotion {:g}", "promotion", 0, 0.3, 0.7, 1),
}
CLUES: dict[str, Settings] = {
    "Clue-RAG-0.0": ClueSettings(),
    "w/o K-A, units do not anchor": ClueSettings(units=False),
    "w/o S-A, names do not anchor": ClueSettings(names=False),
    "w/o Q-U, nothing is subtracted": ClueSettings(updating=False),
    "re-ranked by cosine": ClueSettings(score="cosine"),
    "re-ranked by cosine and words": ClueSettings(score="mix"),
    **sweep(ClueSettings(), "K {}", "nearest", 1, 5, 7, 9),
    **sweep(ClueSettings(), "M {}", "sets", 3, 7, 9),
    **sweep(ClueSettings(), "D {}", "rounds", 1, 2, 4),
}


ZOOMS: dict[str, Settings] = {
    "Doc-Zoom": ZoomSettings(),
    "three deviations, as published": ZoomSettings(deviations=3.0),
    "with edges between passages": ZoomSettings(neighbours=64),
    "both": ZoomSettings(deviations=3.0, neighbours=64),
    "w/o edges to passages": ZoomSettings(deviations=99.0),
    "w/o edges to names": ZoomSettings(least=2.0),
    "names of any sureness": ZoomSettings(least=0.0),
    "restart .5": ZoomSettings(restart=0.5),
    **sweep(ZoomSettings(), "T {}", "steps", 1, 3, 7, 9, 50),
}


Router = Callable[[Sequence[str]], Float64]
CLASSIFIERS = {
    "tfidf-svm": make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True),
        LinearSVC(class_weight="balanced", random_state=0, max_iter=20_000),
    ),
    "embedding-lr": LogisticRegression(class_weight="balanced", max_iter=2000),
}
"""Routers that read a question's words, or its vector."""


def print_front(sets: Sequence[JudgedIndex]) -> None:
    """Router by nDCG@10 when the questions it scores highest take steps and the others hybrid."""
    data = sets[0]
    simple, gains = hybrid_and_gains(data)
    columns = [f"at {share:.0%}" for share in SHARES]
    table = Table(["router", "CPU ms", *columns, "own share", "there"], width=26)

    def row(name: str, spent: float, scores: Float64) -> None:
        curve = [float(simple.mean()) + gain_at(gains, scores, share) for share in SHARES]
        taken = scores > CUT
        table.row(name, spent, *curve, float(taken.mean()), float((simple + gains * taken).mean()))

    row("always steps", nan, np.ones(len(gains)))
    row("oracle", nan, CUT + gains)
    for name, router in routers(data).items():
        start, alone = process_time(), data.texts[::10]
        for text in alone:
            router([text])
        row(name, 1e3 * (process_time() - start) / len(alone), router(data.texts))
    print("Questions with equal scores go by chance. CPU ms: of this process, each alone.")


def hybrid_and_gains(data: JudgedIndex) -> tuple[Float64, Float64]:
    """(n,) nDCG@10 of hybrid, and (n,) what steps gain over it."""
    simple, graph = (
        data.measure(by_route(route, data) or (), ("nDCG@10",))[:, 0]
        for route in (Route.HYBRID, Route.STEPS)
    )
    return simple, graph - simple


def gain_at(gains: Float64, scores: Float64, share: float) -> float:
    """Mean gain when this share of the questions, by highest score, takes steps."""
    room, gained = share * len(gains), 0.0
    for value in np.unique(scores)[::-1]:
        group = gains[scores == value]
        taken = min(room, float(len(group)))
        gained += taken * float(group.mean())
        room -= taken
    return gained / len(gains)


def routers(data: JudgedIndex) -> dict[str, Router]:
    """The router that ships, and routers trained on train questions.

    Training uses the questions on which steps and hybrid differ. The network is calibrated on dev.
    """
    session = data.session

    def columns(texts: Sequence[str]) -> Float64:
        parses = session.analyser.parse_questions(texts, tokens=True)
        return syntax_matrix(session.analyser.syntax_of(parses))

    def shipped(texts: Sequence[str]) -> Float64:
        decisions = session.gateway.decide(texts)
        low = decisions[0].thresholds.low if decisions[0].thresholds else nan
        scores = [nan if decision.score is None else decision.score for decision in decisions]
        return CUT - low + np.array(scores)

    known: list[tuple[list[str], list[bool]]] = []
    for split in ("train", "dev"):
        split_data = replace(data, dataset=read_dataset(data.folder, split))
        gains = hybrid_and_gains(split_data)[1]
        rows = np.flatnonzero(np.abs(gains) > MARGIN)
        known.append(([split_data.texts[row] for row in rows], (gains[rows] > 0).tolist()))

    def learned(name: str) -> Router:
        def inputs(of: Sequence[str]) -> Any:  # noqa: ANN401 - texts or vectors
            return of if name == "tfidf-svm" else session.analyser.encode_questions(of)

        model = CLASSIFIERS[name].fit(inputs(known[0][0]), known[0][1])
        return lambda texts: logistic(np.asarray(model.decision_function(inputs(texts))))

    by_name = {name: learned(name) for name in CLASSIFIERS}
    texts = [text for of_split, _ in known for text in of_split]
    labels = np.array([label for _, of_split in known for label in of_split], np.float64)
    groups, stakes = np.full(len(texts), data.dataset.name), np.ones(len(texts))
    pool = Pool(columns(texts), labels, groups, stakes, np.array(texts, np.str_))
    scorer = fit_scorer(pool, FEATURE_NAMES, PUBLISHED)
    by_name["EA-GraphRAG's network"] = lambda texts: scorer.scores(columns(texts))
    by_name["the router that ships"] = shipped
    return by_name


Printer = Callable[[Sequence[JudgedIndex]], None]
TABLES: Mapping[str, tuple[str, Printer]] = {
    "recall": ("EA-GraphRAG table 3, LinearRAG table 8, ZoomRAG table 2: recall", print_recall),
    "accuracy": ("EA-GraphRAG table 1, LinearRAG table 2: accuracy", print_accuracy),
    "times": ("EA-GraphRAG tables 4 and 6: strategies, one question at a time", print_times),
    "front": ("EA-GraphRAG figure 3: routers by quality, walks and time", print_front),
    "linear": (
        "LinearRAG table 3, figures 4 and 5: parts, pruning, sweeps",
        partial(print_variants, VARIANTS),
    ),
    "clue": (
        "Clue-RAG tables 2 and 4, figure 7: parts and sweeps without a language model",
        partial(print_variants, CLUES),
    ),
    "zoom": (
        "ZoomRAG tables 4 and 8: parts and iterations of Doc-Zoom",
        partial(print_variants, ZOOMS),
    ),
}
