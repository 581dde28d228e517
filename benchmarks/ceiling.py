"""What a choice of route could gain over always taking steps, whatever it costs.

Two kinds of learners predict from every column that a router may use, syntax and trees among them,
how much better each route's answer is than that of steps. They learn from four fifths of the
questions and choose for the last fifth: the route that is predicted to be best, if it gains more
than the margin, and steps otherwise. All splits are used, since nothing here is shipped.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor

from benchmarks import harness
from benchmarks.harness import Table
from wye.backends.types import Float64, Silent
from wye.router.settings import load_settings
from wye.router.types import Route
from wye.training.data import QuestionSource
from wye.training.evaluation_set import EvaluationSet
from wye.training.measures import MEASURES, interval, resampled_means
from wye.training.replay import Replays
from wye.training.train_cli import CACHE

FOLDS = 5
MARGINS = (0.0, 0.002, 0.005, 0.01)
ROUTES = (Route.HYBRID, Route.FUSION, Route.GRAPH, Route.STEPS)
"""Steps are last; the others are compared with them."""
Learner = Callable[[int], Any]
"""From a seed to one of scikit-learn's regressors."""
LEARNERS: dict[str, Learner] = {
    "extra-trees": lambda seed: ExtraTreesRegressor(
        400, min_samples_leaf=5, max_features=0.3, random_state=seed
    ),
    "boosting": lambda seed: HistGradientBoostingRegressor(
        learning_rate=0.05,
        max_iter=150,
        max_leaf_nodes=15,
        l2_regularization=1.0,
        random_state=seed,
    ),
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add options for dataset, index and cache."""
    harness.add_data(parser)
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder of replays")


def run(args: argparse.Namespace) -> None:
    """Print the tables."""
    with harness.index_of(args) as folder:
        questions = replayed(QuestionSource(args.dataset, folder), args.cache)
    harness.print_header(
        "What a choice of route could gain",
        seed=args.seed,
        data=f"{harness.data_name(args)}, {len(questions)} questions of all splits",
    )
    fusion = load_settings().fusion
    column = MEASURES.index("nDCG@10")
    worth = np.stack([questions.values_of(route, fusion)[:, column] for route in ROUTES], axis=1)
    table = Table(["always", "nDCG@10"], width=20)
    for route, mean in zip(ROUTES, worth.mean(axis=0).tolist(), strict=True):
        table.row(str(route), mean)
    table.row("the best, known", float(worth.max(axis=1).mean()))
    print()
    shares = [f"{route}".rjust(7) for route in ROUTES]
    table = Table(["learner", "margin", "gain over steps".rjust(26), *shares], width=12)
    for name, learner in LEARNERS.items():
        gains = predicted(questions.features, worth, learner, args.seed)
        for margin in MARGINS:
            table.row(name, f"{margin:g}", *chosen(gains, worth, margin, args.seed))


def replayed(source: QuestionSource, cache: Path) -> EvaluationSet:
    """All judged questions of a dataset, asked of every arm once."""
    settings = load_settings()
    replays = Replays(settings, cache / "replays", Silent)
    splits = [split for split in ("train", "dev", "test") if source.has(split)]
    answers = [replay for split in splits for replay in replays.final([source], split)]
    return EvaluationSet.load(answers, cache / "features", settings.analyser)


def predicted(features: Float64, worth: Float64, learner: Learner, seed: int) -> Float64:
    """(n, 3) how much each route gains over steps, predicted by learners that did not see it."""
    fold = np.random.default_rng(seed).integers(0, FOLDS, len(features))
    gains = worth[:, :-1] - worth[:, -1:]
    predictions = np.empty_like(gains)
    for number in range(FOLDS):
        is_held_out = fold == number
        for route in range(gains.shape[1]):
            fitted = learner(seed).fit(features[~is_held_out], gains[~is_held_out, route])
            predictions[is_held_out, route] = fitted.predict(features[is_held_out])
    return predictions


def chosen(gains: Float64, worth: Float64, margin: float, seed: int) -> list[str]:
    """The gain of the choice over always steps, with its interval, and the share of each route."""
    codes = np.where(gains.max(axis=1) > margin, gains.argmax(axis=1), worth.shape[1] - 1)
    gained = worth[np.arange(len(worth)), codes] - worth[:, -1]
    gain = interval(gained, resampled_means(gained[:, None], seed=seed)[:, 0])
    shares = np.bincount(codes, minlength=worth.shape[1]) / len(worth)
    shown = f"{gain.mean:+.4f} [{gain.low:+.4f} {gain.high:+.4f}]"
    return [shown, *(f"{share:.2f}" for share in shares.tolist())]
