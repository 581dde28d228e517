"""Explains a score by its features, and puts a decision in words."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from wye.backends.trigraph.seeds import SeedStats
from wye.backends.types import Float64
from wye.featurizer.constituency.tree import Tree
from wye.featurizer.plan import Plan
from wye.router.evidence import CHEAP_SIGNALS, NAME_SIGNALS, QUESTION_SIGNALS, SEED_SIGNALS
from wye.router.scorer import Scorer
from wye.router.types import BASELINE, SCORE, Contribution, Decision, Route

POINTS = 8  # points of the Gauss-Legendre rule, exact for polynomials of degree 15 along the path

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(POINTS)
_PATH = ((_NODES + 1) / 2)[:, None]
_SHARES = _WEIGHTS / 2


def attribute(scorer: Scorer, inputs: Float64, logit: float) -> tuple[float, Float64]:
    """Integrated gradients from the training mean to a question, z-scores (d,), with its logit.

    value_i = x_i · ∫ ∂logit/∂x_i(tx) dt over t from 0 to 1, with x the z-scores, so that the mean
    is the origin. The integral is a Gauss-Legendre sum. Its error against logit - baseline is
    distributed in proportion to |value_i|, so that a feature without effect still gets nothing.

    Source: Sundararajan, Taly and Yan (ICML 2017), equation 1; completeness is their proposition 1.

    Returns the baseline, which is the logit of a question with every feature at its training mean,
    and what each feature adds to it, (d,); together they add up to the logit.
    """
    baseline = float(scorer.calibrated(scorer.raw(np.zeros((1, len(scorer.names)))))[0])
    values: Float64 = inputs * (_SHARES @ scorer.gradients(_PATH * inputs))
    residual, sizes = logit - baseline - math.fsum(values), np.abs(values)
    if (total := float(sizes.sum())) > 0:
        values += residual * (sizes / total)
        return baseline, values
    # No feature moves the logit, so the residual is rounding.
    return baseline + residual, values


def contributions(
    baseline: float, values: Float64, names: tuple[str, ...], features: Float64
) -> tuple[Contribution, ...]:
    """The baseline and each feature's (d,) addition and value, named, by descending |logit|."""
    parts = [*map(Contribution, names, values.tolist(), features.tolist())]
    parts.sort(key=lambda part: (-abs(part.logit), part.name))
    return Contribution(BASELINE, baseline), *parts


_SURE = 0.5
"""A summary says that the question names seeds of at least this confidence, and that it "may name"
weaker ones."""
_LEAST_PUSH = 0.1  # a group that adds less than this share of the strongest is left out
_SHOWN = 4
_WORDS = ["two", "three", "four", "five", "six"]
_COUNTS = {1: "one thing", **{n: f"{word} things" for n, word in enumerate(_WORDS, start=2)}}
Group = Literal["names", "passages", "build"]
GROUPS: Mapping[Group, str] = {
    "names": "what it names",
    "passages": "what the first passages hold",
    "build": "how it is built",
}
"""Group of features -> what they are about, in words."""


_PASSAGES = frozenset(CHEAP_SIGNALS) - frozenset(SEED_SIGNALS) - NAME_SIGNALS - QUESTION_SIGNALS


def group_of(feature: str) -> Group:
    """The group that a feature belongs to."""
    if feature in SEED_SIGNALS or feature in NAME_SIGNALS:
        return "names"
    return "passages" if feature in _PASSAGES else "build"


def summary(decision: Decision, seeds: Sequence[SeedStats] | None = None) -> str:
    """Why a question takes its route, in a sentence or two, by contributions and its seeds."""
    sentences = [] if seeds is None else [_named(seeds)]
    outcome = _outcome(decision, "naming nothing" if seeds is not None and not seeds else "")
    sentences.append(outcome[0].upper() + outcome[1:])
    return " ".join(f"{sentence}." for sentence in sentences)


def _named(seeds: Sequence[SeedStats]) -> str:
    """What the question names, and whether passages have it as their title."""
    sure = [seed for seed in seeds if seed.value >= _SURE]
    shown = {seed.mention: seed.titles > 0 for seed in sure or seeds}
    if not shown:
        return "Names nothing that the corpus knows"
    mentions = list(shown)
    listed = ", ".join(mentions[:_SHOWN]) + (", …" if len(shown) > _SHOWN else "")
    count = _COUNTS.get(len(shown), f"{len(shown)} things")
    verb = "Names" if sure else "May name"
    return f"{verb} {count} that the corpus knows ({listed}), {_titles(shown)}"


def _titles(shown: dict[str, bool]) -> str:
    titled = [mention for mention, has_title in shown.items() if has_title]
    if not titled:
        either = ("it", "either", "any of them")[min(len(shown), 3) - 1]
        return f"though no passage has {either} for a title"
    if len(titled) < len(shown):
        return f"and a passage has {_listed(titled[:_SHOWN])} for a title"
    return f"and a passage has {'it' if len(shown) == 1 else 'each of them'} for a title"


def _outcome(decision: Decision, names: str) -> str:
    """What speaks for the graph and against it, by "what it names" or names, and the route."""
    if decision.route == Route.STEPS:
        return f"it is asked in steps ({decision.reason})"
    if decision.reason != SCORE:
        return f"{decision.route} is taken ({decision.reason})"
    pushes = _pushes(decision.contributions, {**GROUPS, "names": names or GROUPS["names"]})
    towards = [name for name, push in pushes.items() if push > 0]
    away = [name for name, push in pushes.items() if push < 0]
    more = sum(pushes.values()) > 0
    sides = [("against", away), ("for", towards)]
    speaks = _speaks([(side, names) for side, names in (sides if more else sides[::-1]) if names])
    match decision.route:
        case Route.FUSION:
            purpose = "to ask it alone" if more else "to leave it out"
            outcome, because = "all arms are asked", f"but not enough {purpose}, so "
        case Route.GRAPH:
            outcome, because = "the graph alone is asked", "so " if more else "but not enough, so "
        case _:
            outcome = f"{decision.route} search is {'taken' if more else 'enough'}"
            because = "but not enough, so " if more else "so "
    return f"{speaks}, {because}{outcome}" if speaks else outcome


def _speaks(sides: Sequence[tuple[str, Sequence[str]]]) -> str:
    """What speaks for the graph and what against it, the stronger side last."""
    clauses: list[str] = []
    for side, names in sides:
        how = f"more strongly {side} it" if clauses else f"{side} the graph"
        clauses.append(f"{_listed(names)} {'speaks' if len(names) == 1 else 'speak'} {how}")
    return "; ".join(clauses)


def _pushes(parts: Sequence[Contribution], groups: Mapping[Group, str]) -> dict[str, float]:
    """Sum of logits by group, strongest first, without groups that add little."""
    sums: dict[str, float] = {}
    for part in parts:
        if part.name != BASELINE:
            group = groups[group_of(part.name)]
            sums[group] = sums.get(group, 0.0) + part.logit
    strongest = max(map(abs, sums.values()), default=0.0)
    ranked = sorted(sums.items(), key=lambda item: (-abs(item[1]), item[0]))
    return {name: push for name, push in ranked if abs(push) >= max(_LEAST_PUSH * strongest, 1e-9)}


def _listed(names: Sequence[str]) -> str:
    return " and ".join([*filter(None, [", ".join(names[:-1])]), *names[-1:]])


def with_explanation(
    decision: Decision, trees: Sequence[Tree], plan: Plan, seeds: Sequence[SeedStats] | None
) -> Decision:
    """Add a summary in words and the question's trees and plan to a decision."""
    words = summary(decision, seeds)
    return replace(decision, trees=tuple(map(str, trees)), plan=plan, summary=words)
