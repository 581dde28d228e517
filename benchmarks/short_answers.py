"""Fits the weights of short answers' evidence on train questions, and measures them on dev.

The model's probability of each candidate is the softmax of the candidates' scores. The weights
maximise the mean logarithm of the expected F1 of the answer. The output below "weights" is the
table of `router/answers/weights.py`.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from backends.types import Float64
from benchmarks import harness
from benchmarks.harness import Table
from router.answers.expected import OPEN, expected
from router.answers.short import Option, options
from router.session import Session
from router.settings import load_settings
from router.types import Route
from training.data.dataset import read_dataset
from training.data.sources import index_of, parse_source
from training.evaluation.answer_measures import exact_match, token_f1

_BATCH = 32
_FIRST = 5
# Penalty on squared weights; values from .0003 to .02 were tried.
_RIDGE = 1e-3
# Weights closer to 0 are left out.
_LEAST = 0.1


@dataclass(frozen=True, slots=True)
class Judged:
    """The candidates of one question.

    Attributes:
        group: The question's dataset.
        found: The n candidates.
        values: (n,) F1 of each candidate as the answer.
        exact: (n,) exact match of each, 0 or 1.
    """

    group: str
    found: list[Option]
    values: Float64
    exact: Float64

    def matrix(self, names: Sequence[str]) -> Float64:
        """(n, m) evidence of each candidate, by name; 0 where it is missing."""
        return np.array([[one.evidence.get(name, 0.0) for name in names] for one in self.found])


def judged(source: str, split: str) -> Iterator[Judged]:
    """Yield candidates for the open questions of a split, from the first five passages of auto."""
    named = parse_source(source, None)
    data = read_dataset(named.dataset, split)
    with Session.open(load_settings(), index_of(named)) as session:
        for start in range(0, len(data.questions), _BATCH):
            part = data.questions[start : start + _BATCH]
            replies = session.gateway.search([one.text for one in part], Route.AUTO, _FIRST)
            for question, reply in zip(part, replies, strict=True):
                asked = expected(question.text)
                if asked.form != OPEN:
                    continue
                passages = session.snapshot.texts([hit.id for hit in reply.ranking.hits])
                found = options(asked, question.text, passages)
                texts = [one.candidate.text for one in found]
                yield Judged(
                    question.group or data.name,
                    found,
                    np.array([token_f1(text, question.answers) for text in texts]),
                    np.array([exact_match(text, question.answers) for text in texts]),
                )


def fit(questions: Sequence[Judged], names: Sequence[str]) -> Float64:
    """(m,) weights of evidence, fitted on questions with a candidate that is nearly right."""
    known = [
        (one.matrix(names), one.values) for one in questions if one.values.max(initial=0) > 0.5
    ]

    def loss(weights: Float64) -> tuple[float, Float64]:
        value, slope = _RIDGE * float(weights @ weights), 2 * _RIDGE * weights
        for matrix, right in known:
            scores = matrix @ weights
            sure = np.exp(scores - scores.max())
            sure /= sure.sum()
            share = sure * right
            value -= float(np.log(share.sum())) / len(known)
            slope = slope - matrix.T @ (share / share.sum() - sure) / len(known)
        return value, slope

    found: Float64 = minimize(loss, np.zeros(len(names)), jac=True, method="L-BFGS-B").x
    return found


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add options for sources."""
    parser.add_argument("sources", nargs="+", metavar="DATASET=INDEX")


def run(given: argparse.Namespace) -> None:
    """Fit, and print EM and F1 of the best candidates, and the weights."""
    train, dev = (
        [one for source in given.sources for one in judged(source, split)]
        for split in ("train", "dev")
    )
    names = sorted({name for one in train for option in one.found for name in option.evidence})
    weights = fit(train, names)
    harness.print_header("Short answers", seed=None, data=", ".join(given.sources))
    table = Table(("split", "dataset", "open questions", "EM", "F1"))
    for split, questions in (("train", train), ("dev", dev)):
        for group in dict.fromkeys(one.group for one in questions):
            own = [one for one in questions if one.group == group and one.found]
            best = [int(np.argmax(one.matrix(names) @ weights)) for one in own]
            exact = np.mean([one.exact[at] for one, at in zip(own, best, strict=True)])
            f1 = np.mean([one.values[at] for one, at in zip(own, best, strict=True)])
            table.row(split, group, len(own), float(exact), float(f1))
    print("\nweights")
    for name, weight in zip(names, weights, strict=True):
        if abs(weight) >= _LEAST:
            print(f'    "{name}": {weight:.2f},')
