"""The weights of second hops: fitted to judged questions, each dataset with the same weight.

From the first passages of fusion, names lead to others. A logistic model of the four signals of
`HopModel` tells which of these are evidence. Prints the weights, and for each dataset how often the
likeliest hop of a question that has a right one is right, by weights of all datasets and of the
others.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression

from benchmarks import harness
from benchmarks.harness import Table
from wye.backends.types import Float64
from wye.router.session import Session
from wye.router.settings import load_settings
from wye.router.types import Ask, Route
from wye.training.data import read_dataset

Hops = tuple[Float64, Float64]
"""(m, 4) signals of the hops of one question, and (m,) whether each is relevant."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add datasets, the folder of their indexes, and the split."""
    parser.add_argument("datasets", nargs="+", type=Path)
    parser.add_argument("--indexes", type=Path, default=Path("bench-out/indexes"))
    parser.add_argument("--split", default="train")
    parser.add_argument("--limit", type=int, help="most questions of a dataset")


def run(given: argparse.Namespace) -> int:
    """Print the weights and a row for each dataset."""
    names = ", ".join(folder.name for folder in given.datasets)
    harness.print_header("Second hops", seed=None, data=f"{names} ({given.split})")
    hops = {folder.name: _hops_of(folder, given) for folder in given.datasets}
    every = _fit([*hops.values()])
    weights = ("rank", "nearness", "words", "rarity")
    shown = zip(weights, every.coef_[0], strict=True)
    print(f"bias {every.intercept_[0]:.2f}", *(f"{name} {value:.2f}" for name, value in shown))
    table = Table(["dataset", "questions", "right", "fitted on others"], width=18)
    for name, own in hops.items():
        answered = [(signals, right) for signals, right in own if right.any()]
        others = [each for other, each in hops.items() if other != name]
        accuracies = [_accuracy(model, answered) for model in (every, _fit(others or [own]))]
        table.row(name, len(answered), *accuracies)
    return 0


def _hops_of(folder: Path, given: argparse.Namespace) -> list[Hops]:
    dataset = read_dataset(folder, given.split, given.limit)
    result: list[Hops] = []
    with Session.open(load_settings(), given.indexes / folder.name) as session:
        arms, analyser = session.snapshot, session.gateway.open_analyser()
        for question in dataset.questions:
            (reply,) = session.gateway.search([question.text], Ask(Route.FUSION, 5))
            vector = analyser.encode_questions([question.text])[0]
            hops = arms.second_hops(question.text, vector, reply.ranking.ids(5), allowed=None)
            relevant = dataset.judgements[question.id]
            labels = [
                any(name in relevant for name in (hop.passage, hop.passage.partition("#")[0]))
                for hop in hops
                if hop.passage != reply.ranking.ids(1)[0]
            ]
            signals = [hop.signals for hop in hops if hop.passage != reply.ranking.ids(1)[0]]
            if signals:
                result.append((np.array(signals), np.array(labels)))
    return result


def _fit(datasets: Sequence[Sequence[Hops]]) -> LogisticRegression:
    signals = np.concatenate([signals for own in datasets for signals, _ in own])
    labels = np.concatenate([right for own in datasets for _, right in own])
    sizes = [sum(len(right) for _, right in own) for own in datasets]
    weight = np.concatenate([np.full(size, 1 / size) for size in sizes])
    return LogisticRegression(max_iter=1000).fit(signals, labels, weight * len(labels))


def _accuracy(model: LogisticRegression, questions: Sequence[Hops]) -> float:
    """Share of questions whose likeliest hop is right."""
    right = [labels[model.decision_function(signals).argmax()] for signals, labels in questions]
    return float(np.mean(right)) if right else np.nan
