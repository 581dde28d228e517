"""Compares ways of fusing, also on questions unlike those they were fitted on.

Reads replays of train and dev splits, made by `python -m training.data.replaying`; test splits
cannot be read here. Parameters are fitted on the train splits of all --fit. The first table is of
their dev splits, the next ones are of further datasets. Then follow all questions of --fit, each
dataset fused with parameters fitted on the others, and the graph weight's model as fitted on all.
Means have 95 % bootstrap intervals; a star marks a difference to the graph arm that excludes 0. The
last table has the weight of BM25 in rows, and all datasets in columns; for each dataset, its last
row has the weight that is best for the others.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np

from backends.types import Float64, Int64, Ranking
from benchmarks import harness
from benchmarks.harness import Table
from router.fusion import (
    FusionSettings,
    GraphWeightModel,
    combine_scores,
    fuse,
    fuse_all,
    fuse_text,
)
from router.query_performance import signals
from router.scorer import sigmoid
from router.types import ARMS, ArmResults, Route
from training.data.replay import Replayed, file_name, read_training
from training.evaluation.measures import MEASURES, score

K = 10
SHOWN = ("nDCG@10", "R@5", "Success@1")
COLUMNS = [MEASURES.index(name) for name in SHOWN]
SETTINGS = FusionSettings()
RRF_KS = (0.0, 1.0, 5.0, 20.0, 60.0)
RRF_WEIGHTS = (0.0, 0.1, 0.3, 1.0)
BLEND_SCALES = (0.1, 0.3, 1.0, 3.0)
LEXICAL_SHARES = (0.0, 0.2, 0.5)
SHARES = (0.1, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.7, 1.0)
GRAPH_WEIGHTS = (0, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, *np.arange(0.15, 0.96, 0.05).tolist(), 1)
BIASES = tuple(np.arange(-7, -2.9, 0.5).tolist())
SLOPES: Mapping[str, Sequence[float]] = {
    "seed_title_uniqueness": (1, 1.5, 2, 2.5, 3, 3.5),
    "graph_margin_5": (0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1),
    "graph_lexical_share": (0, 1, 2, 2.5, 3, 3.5, 4, 4.5, 5),
}
PLATEAU = 100
"""How many of the best models of that grid are averaged."""

Fused = Callable[[Sequence[Replayed]], list[Ranking]]
Form = Callable[[Sequence[Replayed]], Fused]
"""Fits on questions, and returns what fuses others."""


def one_arm(arm: Route) -> Form:
    """A single arm."""
    return lambda _: lambda asked: [one.results.rankings[arm] for one in asked]


def by_settings(settings: FusionSettings) -> Form:
    """The fusion route under some settings."""
    return lambda _: lambda asked: fuse_all(_evidence(asked), settings, [None] * len(asked), K)


def text_arms(_: Sequence[Replayed]) -> Fused:
    """The hybrid route."""
    return lambda asked: fuse_text(_evidence(asked), SETTINGS, K)


def best_rrf(fit: Sequence[Replayed]) -> Fused:
    """Reciprocal ranks of the three lists, with the best k and weights of a grid."""

    def with_(k: float, weights: tuple[float, float, float]) -> Fused:
        return lambda asked: [fuse(_lists(one.results), weights, rrf_k=k, k=K) for one in asked]

    grid = [
        with_(k, (dense, lexical, 1.0))
        for k, dense, lexical in product(RRF_KS, RRF_WEIGHTS, RRF_WEIGHTS)
    ]
    return _best(grid, fit)


def best_convex(fit: Sequence[Replayed]) -> Fused:
    """Scores in log-PageRank space with the best two weights of a grid, equal for all questions."""

    def with_(scale: float, share: float) -> Fused:
        weights = (1.0, share, scale)
        return lambda asked: [combine_scores(_lists(one.results), weights, k=K) for one in asked]

    return _best([with_(*pair) for pair in product(BLEND_SCALES, LEXICAL_SHARES)], fit)


def fitted_adaptive(fit: Sequence[Replayed]) -> Fused:
    """The adaptive method with its weights fitted here."""
    settings = replace(SETTINGS, graph_weight=fit_graph_weight(fit))
    return lambda asked: fuse_all(_evidence(asked), settings, [None] * len(asked), K)


def oracle(_: Sequence[Replayed]) -> Fused:
    """The better of hybrid and graph for each question, by its judgements."""
    return _better_of_two


FORMS: Mapping[str, Form] = {
    **{str(arm): one_arm(arm) for arm in ARMS},
    "hybrid": text_arms,
    "rrf, as published": by_settings(replace(SETTINGS, method="rrf")),
    "rrf, best of grid": best_rrf,
    "convex, best of grid": best_convex,
    "adaptive, fitted": fitted_adaptive,
    "adaptive, default": by_settings(SETTINGS),
    "oracle": oracle,
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add options for replays and datasets."""
    parser.add_argument("replays", type=Path, help="folder of replays")
    parser.add_argument("--fit", action="append", required=True, help="dataset or union to fit on")
    parser.add_argument("--dataset", action="append", default=[], help="further datasets to score")


def run(given: argparse.Namespace) -> None:
    """Print the tables."""

    def read(names: Sequence[str], *splits: str) -> list[Replayed]:
        found: list[Replayed] = []
        for name in names:
            paths = [given.replays / file_name(name, split) for split in splits]
            for path in [path for path in paths if path.exists()] or paths[:1]:
                found += read_training(path).questions
        return found

    train, dev = read(given.fit, "train"), read(given.fit, "dev")
    names = ", ".join(given.fit)
    data = f"{names} (train, {len(train)}; dev, {len(dev)})"
    harness.print_header("Fusion", seed=given.seed, data=data)
    made = {name: form(train) for name, form in FORMS.items()}
    everything = [*train, *dev]
    further = [read([name], "train", "dev") for name in given.dataset]
    asked_of = {f"{names}, dev": dev}
    asked_of |= {
        f"{name}, train and dev": asked for name, asked in zip(given.dataset, further, strict=True)
    }
    for title, asked in asked_of.items():
        answers = {name: fused(asked) for name, fused in made.items()}
        print_table(title, asked, answers, given.seed)
    print_table(
        f"{names}, train and dev, each dataset fused as the others taught",
        everything,
        {name: transferred(form, everything) for name, form in FORMS.items()},
        given.seed,
    )
    print(f"\n{fit_graph_weight(everything)}")
    print_shares([*everything, *(one for asked in further for one in asked)])


def print_table(
    title: str, asked: Sequence[Replayed], answers: Mapping[str, list[Ranking]], seed: int
) -> None:
    """Print a row for each form, with a column for each measure and each of several datasets."""
    groups = np.array([one.question.group for one in asked])
    names = sorted(set(groups.tolist()))
    print(f"\n# {title}: {len(asked)} questions")
    apart = [f"{SHOWN[0]} {name}" for name in names] if len(names) > 1 else []
    table = Table(["form", *(name.rjust(20) for name in SHOWN), *apart], width=20)
    values = {name: _measure(asked, found)[:, COLUMNS] for name, found in answers.items()}
    for name, found in values.items():
        sure = harness.intervals(found, values[Route.GRAPH], seed=seed)
        alone = [float(found[groups == group, 0].mean()) for group in names if apart]
        table.row(name, *sure, *alone)


def print_shares(asked: Sequence[Replayed]) -> None:
    """Print nDCG@10 of hybrid and fusion at several weights of BM25, by dataset."""
    groups = np.array([one.question.group for one in asked])
    names = dict.fromkeys(groups.tolist())
    print(
        f"\n# BM25's weight, hybrid and fusion, {SHOWN[0]}: {len(asked)} questions, train and dev"
    )
    table = Table(["weight", *(name.rjust(13) for name in (*names, "mean"))], width=9)
    found = np.empty((len(SHARES), len(names), 2))
    for row, share in enumerate(SHARES):
        settings, results = replace(SETTINGS, lexical_share=share), _evidence(asked)
        runs = (
            fuse_text(results, settings, K),
            fuse_all(results, settings, [None] * len(results), K),
        )
        values = np.stack([_measure(asked, run)[:, COLUMNS[0]] for run in runs], axis=1)
        found[row] = [values[groups == name].mean(axis=0) for name in names]
        table.row(str(share), *map(_pair, found[row]), _pair(found[row].mean(axis=0)))
    others = found.sum(axis=1, keepdims=True) - found
    best = others.sum(axis=2).argmax(axis=0)
    chosen = found[best, np.arange(len(names))]
    table.row("left out", *map(_pair, chosen), _pair(chosen.mean(axis=0)))


def _pair(values: Float64) -> str:
    return " / ".join(f"{value:.3f}" for value in values)


def transferred(form: Form, asked: Sequence[Replayed]) -> list[Ranking]:
    """Answer each dataset's questions with the form as fitted on the other datasets."""
    found: dict[int, Ranking] = {}
    for group in sorted({one.question.group for one in asked}):
        others = [one for one in asked if one.question.group != group]
        places = [place for place, one in enumerate(asked) if one.question.group == group]
        answers = form(others)([asked[place] for place in places])
        found.update(zip(places, answers, strict=True))
    return [found[place] for place in range(len(asked))]


def fit_graph_weight(asked: Sequence[Replayed]) -> GraphWeightModel:
    """Choose the graph weight's model by nDCG@10 of fusion, in which every dataset counts the same.

    It tries every model of a grid, and returns the mean of the best `PLATEAU` of them, since the
    very best of some data is no better than its neighbours on others.
    """
    groups = np.unique([one.question.group for one in asked], return_inverse=True)[1]
    shares = 1 / np.bincount(groups)[groups]
    results = _evidence(asked)
    fixed = [replace(SETTINGS, method="convex", s=weight) for weight in GRAPH_WEIGHTS]
    runs = [fuse_all(results, settings, [None] * len(asked), K) for settings in fixed]
    worth = np.stack([_measure(asked, run)[:, COLUMNS[0]] for run in runs], axis=1)
    models = np.array([*product(BIASES, *SLOPES.values())])
    inputs = signals(results, tuple(SLOPES))
    return GraphWeightModel(*models[_best_models(models, inputs, worth, shares)].mean(axis=0))


def _best_models(models: Float64, inputs: Float64, worth: Float64, shares: Float64) -> Int64:
    """Indices of the `PLATEAU` models (m, 1 + d) that are best for questions with inputs (n, d).

    Args:
        worth: (n, w) measure of each question at each of `GRAPH_WEIGHTS`; the nearest one counts.
        shares: (n,) weight of each question.
    """
    between = (np.array(GRAPH_WEIGHTS[1:]) + GRAPH_WEIGHTS[:-1]) / 2
    rows = np.arange(len(worth))
    means = [
        shares @ worth[rows, np.searchsorted(between, sigmoid(bias + inputs @ slopes))]
        for bias, *slopes in models
    ]
    return np.argsort(-np.array(means), kind="stable")[:PLATEAU]


def _best(grid: Sequence[Fused], fit: Sequence[Replayed]) -> Fused:
    return max(grid, key=lambda fused: float(_measure(fit, fused(fit))[:, COLUMNS[0]].mean()))


def _better_of_two(asked: Sequence[Replayed]) -> list[Ranking]:
    graph = [one.results.rankings[Route.GRAPH] for one in asked]
    text = fuse_text(_evidence(asked), SETTINGS, K)
    gains = (_measure(asked, graph) - _measure(asked, text))[:, COLUMNS[0]]
    return [
        one if gain >= 0 else other for one, other, gain in zip(graph, text, gains, strict=True)
    ]


def _measure(asked: Sequence[Replayed], answers: Sequence[Ranking]) -> Float64:
    """(n, m) every measure; questions of several datasets may be asked together."""
    run = {
        str(place): [hit.id for hit in ranking.hits[:K]] for place, ranking in enumerate(answers)
    }
    return score({str(place): one.gold for place, one in enumerate(asked)}, run)


def _evidence(asked: Sequence[Replayed]) -> list[ArmResults]:
    return [one.results for one in asked]


def _lists(results: ArmResults) -> list[Ranking]:
    return [results.rankings[arm] for arm in ARMS]
