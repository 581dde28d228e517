"""Compares ways of fusing, also on questions unlike those they were fitted on.

Reads replays of train and dev splits, made by `python -m training.data.replaying`; test splits
cannot be read here. Parameters are fitted on the train split of --fit. The first table is of its
dev split, the next ones are of further datasets. Then follow all questions of --fit, each dataset
fused with parameters fitted on the others. Means have 95 % bootstrap intervals; a star marks a
difference to the graph arm that excludes 0. The last table has the weight of BM25 in rows, and all
datasets in columns; for each dataset, its last row has the weight that is best for the others.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from backends.types import Float64, Ranking
from benchmarks import harness
from benchmarks.harness import Table
from router.fusion import (
    GRAPH_WEIGHT_SIGNALS,
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
from training.data.replay import Replayed, TrainingReplay, file_name, read_training
from training.errors import FitError
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
SHRINKAGE = 1e-3
"""Weight of the L2 penalty beside the mean loss."""

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
    settings = replace(SETTINGS, graph_weight=fit_graph_weight(_gains(fit)))
    return lambda asked: fuse_all(_evidence(asked), settings, [None] * len(asked), K)


def oracle(_: Sequence[Replayed]) -> Fused:
    """The better of hybrid and graph for each question, by its judgements."""
    return lambda asked: _routed(asked, _gains(asked).gains >= 0)


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
    parser.add_argument("--fit", required=True, help="union of datasets to fit on")
    parser.add_argument("--dataset", action="append", default=[], help="further datasets to score")


def run(given: argparse.Namespace) -> None:
    """Print the tables."""

    def read(dataset: str, split: str) -> TrainingReplay:
        return read_training(given.replays / file_name(dataset, split))

    train, dev = read(given.fit, "train"), read(given.fit, "dev")
    data = ", ".join(f"{r.dataset} ({r.split}, {len(r)})" for r in (train, dev))
    harness.print_header("Fusion", seed=given.seed, data=data)
    made = {name: form(train.questions) for name, form in FORMS.items()}
    everything = (*train.questions, *dev.questions)
    asked_of = {f"{given.fit}, dev": dev.questions}
    for name in given.dataset:
        parts = [read(name, split).questions for split in ("train", "dev")]
        asked_of[f"{name}, train and dev"] = (*parts[0], *parts[1])
    further = [asked_of[f"{name}, train and dev"] for name in given.dataset]
    for title, asked in asked_of.items():
        answers = {name: fused(asked) for name, fused in made.items()}
        print_table(title, asked, answers, given.seed)
    print_table(
        f"{given.fit}, train and dev, each dataset fused as the others taught",
        everything,
        {name: transferred(form, everything) for name, form in FORMS.items()},
        given.seed,
    )
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


@dataclass(frozen=True, slots=True)
class Gains:
    """The graph's gains over the text arms, with the signals that may predict them.

    Attributes:
        signals: (n, m) float64, columns as in `GRAPH_WEIGHT_SIGNALS`.
        gains: (n,) measure of the graph's answer minus that of the text arms'; 0 is ignored.
    """

    signals: Float64
    gains: Float64


def fit_graph_weight(found: Gains, *, shrinkage: float = SHRINKAGE) -> GraphWeightModel:
    """Fit the graph weight's model by logistic regression: is the graph the better arm?

    Questions are weighted by |gain|. Those for and those against the graph have equal total weight,
    since how often each arm wins differs from corpus to corpus. Weights are at least 0, so that few
    data cannot turn a signal against its meaning.

    Raises:
        FitError: All gains have the same sign.
    """
    told = found.gains != 0
    for_graph = found.gains[told] > 0
    if for_graph.all() or not for_graph.any():
        raise FitError(
            "On every question the same arm is the better one, or there is no difference; "
            "the graph weight needs questions of both kinds. Add a dataset on which the other "
            "arm wins."
        )
    columns = found.signals[told]
    scale = np.maximum(columns.std(axis=0), 1e-9)
    stakes = np.abs(found.gains[told])
    weights = stakes / np.where(for_graph, stakes[for_graph].sum(), stakes[~for_graph].sum()) / 2
    fitted = _weighted_logistic(columns / scale, for_graph, weights, shrinkage)
    return GraphWeightModel(*map(float, [fitted[0], *(fitted[1:] / scale)]))


def _weighted_logistic(
    columns: Float64,
    for_graph: NDArray[np.bool_],
    weights: Float64,
    shrinkage: float,
) -> Float64:
    """Bias and non-negative weights that minimise the weighted log loss plus L2."""
    sign = np.where(for_graph, 1.0, -1.0)

    def loss(parameters: Float64) -> tuple[float, Float64]:
        margin = sign * (parameters[0] + columns @ parameters[1:])
        slope = -sign * sigmoid(-margin) * weights
        value = weights @ np.logaddexp(0, -margin) + shrinkage * parameters[1:] @ parameters[1:]
        gradient = columns.T @ slope + 2 * shrinkage * parameters[1:]
        return float(value), np.concatenate([[slope.sum()], gradient])

    bounds = [(None, None), *[(0.0, None)] * columns.shape[1]]
    start = np.zeros(columns.shape[1] + 1)
    found = minimize(loss, start, jac=True, bounds=bounds, method="L-BFGS-B")
    result: Float64 = np.asarray(found.x, np.float64)
    return result


def _best(grid: Sequence[Fused], fit: Sequence[Replayed]) -> Fused:
    return max(grid, key=lambda fused: float(_measure(fit, fused(fit))[:, COLUMNS[0]].mean()))


def _routed(asked: Sequence[Replayed], to_graph: NDArray[np.bool_]) -> list[Ranking]:
    text = fuse_text(_evidence(asked), SETTINGS, K)
    pairs = zip(asked, to_graph.tolist(), text, strict=True)
    return [one.results.rankings[Route.GRAPH] if to else hybrid for one, to, hybrid in pairs]


def _gains(asked: Sequence[Replayed]) -> Gains:
    """Gains of the graph over the hybrid route, in the first measure."""
    results = _evidence(asked)
    graph = _measure(asked, [one.rankings[Route.GRAPH] for one in results])
    text = _measure(asked, fuse_text(results, SETTINGS, K))
    return Gains(signals(results, GRAPH_WEIGHT_SIGNALS), (graph - text)[:, COLUMNS[0]])


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
