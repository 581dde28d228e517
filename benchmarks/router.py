"""What a router costs: seconds to train one and to solve its thresholds, ms for a decision.

It makes its own questions: labels that depend on some features by products, bends and slopes, with
noise. "decision" is features in, route out, one question at a time; "explained" adds the
contributions and the nearest change. Everything runs on one thread.
"""

import argparse
from time import perf_counter

import numpy as np
import torch

from benchmarks import harness
from benchmarks.harness import Table, timed
from router.model import RoutingModel
from router.policy import Policy
from router.scorer import AttentionMlp, Linear
from training.data.examples import Examples
from training.fit.recipe import RouterRecipe
from training.fit.trainer import Trained, train
from training.thresholds.outcomes import RouteOutcomes
from training.thresholds.solve import front, solve, stability


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the sizes."""
    parser.add_argument("--questions", type=int, default=1500, help="to train on")
    parser.add_argument("--features", type=int, default=100, help="of which 85 are kept")
    parser.add_argument("--members", type=int, default=5, help="networks that are averaged")


def run(given: argparse.Namespace) -> None:
    """Print the tables."""
    torch.set_num_threads(1)
    n, width, seed = given.questions, given.features, given.seed
    data = f"{n} made questions to train on, a quarter as many for dev, {width} features"
    harness.print_header("Router: training, thresholds, decisions", seed=seed, data=data)
    training, dev = questions(n, width, seed), questions(max(40, n // 4), width, seed + 1)
    names = [f"f{column}" for column in range(width)]
    asked = questions(200, width, seed + 2).features
    columns = ["scorer", "train s", "dev AUC", "dev ECE"]
    columns += [f"{what} {p} ms" for what in ("decision", "explained") for p in ("p50", "p95")]
    table = Table(columns, width=14)
    for kind in (Linear.kind, AttentionMlp.kind):
        recipe = RouterRecipe(kind=kind, seeds=tuple(range(given.members)))
        start = perf_counter()
        trained = train(training, dev, names, recipe)
        seconds = perf_counter() - start
        replay = _replay(trained, training, seed)
        thresholds = solve(replay, most=200).thresholds
        model = RoutingModel("bench/v1", trained.scorer, Policy(thresholds), None)
        quality = trained.dev_auc, trained.dev.ece_mass
        table.row(kind, seconds, *quality, *_decisions(model, asked))
    print()
    table = Table(["step", "s"], width=34)
    start = perf_counter()
    thresholds = solve(replay).thresholds
    table.row("solve, all pairs", perf_counter() - start)
    table.row("Pareto front, 400 cuts", timed(lambda: front(replay)))
    table.row("bootstrap, 200 resamples", timed(lambda: stability(replay, thresholds)))


def questions(n: int, width: int, seed: int) -> Examples:
    """Made disagreements, of whose features at least 8 are needed."""
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(n, width))
    x[:, ::4] = draw.poisson(3, x[:, ::4].shape)
    x[:, 1::4] = np.exp(x[:, 1::4])
    rule = 2 * x[:, 2] * x[:, 3] + 0.5 * (x[:, 4] - 3) + np.log(x[:, 5]) + np.abs(x[:, 6]) - 0.8
    labels = draw.random(n) < 1 / (1 + np.exp(-rule))
    return Examples(x, labels.astype(np.int64), np.where(draw.random(n) < 0.5, "one", "other"))


def _replay(trained: Trained, examples: Examples, seed: int) -> RouteOutcomes:
    """Each question with one arm that succeeds, and fusion that does so by chance."""
    draw = np.random.default_rng(seed)
    n = len(examples)
    quality = np.stack([1 - examples.labels, draw.random(n) < 0.7, examples.labels], axis=1)
    return RouteOutcomes(
        trained.scorer.scores(examples.features),
        quality.astype(np.float64),
        np.tile([5.0, 25.0, 20.0], (n, 1)),
    )


def _decisions(model: RoutingModel, asked: np.ndarray) -> list[float]:
    cells: list[float] = []
    for explain in (False, True):
        seconds = [
            timed(lambda row=row, e=explain: model.decide(asked[row : row + 1], explain=e))  # type: ignore[misc]
            for row in range(len(asked))
        ]
        cells += harness.percentiles(seconds)[:2]
    return cells
