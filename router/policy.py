"""Decides which route a question takes: by a score, two thresholds and its words.

`RoutingModel` is the router that serves and is evaluated; all other functions are pure.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from wye.backends.numerics import logistic
from wye.backends.types import Float64, Int64
from wye.featurizer.analyser import token_count
from wye.featurizer.plan import LONG
from wye.featurizer.plan_phrases import MAKERS, OFFICES
from wye.router.errors import PolicyError
from wye.router.evidence import asks_corpus, share_at_hand
from wye.router.explain import attribute, contributions
from wye.router.scorer import UNKNOWN, Scorer
from wye.router.types import SCORE, Decision, Route, Thresholds

FORCED = "forced"  # the reason for a route that the caller or WYE_ROUTER__ROUTE names
SURE = 0.03  # up to this score a question is surely simple, unless descriptions nest in it
FOLLOWED_BELOW = 0.2  # share at hand; below, a question to be fused follows names
PLAN = "plan: it can be taken apart"
FOLLOWED = "names: those in the first passages are followed"
UNFAMILIAR = "unfamiliar: unlike the questions that the router learned from"

_FIRST = re.compile(r"\W*\w+(?:['\N{RIGHT SINGLE QUOTATION MARK}]s)?")
_LINK = re.compile(
    r"\b(?:of|for|in|at|behind|to|from|on|by|with|after|before|during|between|and|or|both|than|"
    r"who|whom|whose|that|which|where|when|\w{3,}ing)\b|['\N{RIGHT SINGLE QUOTATION MARK},]|"
    rf"\b(?:{'|'.join(sorted(OFFICES | MAKERS))})\b(?! of\b)"
)
"""Words that link a description to what it describes."""
_ASKS_FOR_ALL = re.compile(r"\W*(?:who|what)(?:'s| is| was| are| were) ")
"""The beginning of a question that asks for the whole rest: "What is the capital of …?"."""
_DESCRIBED = r"(?:the|an?) (?:[\w'-]+ ){1,3}?(?:of|where|which|whose|whom|who|that|by|for)\b"
_NESTED = re.compile(rf"\b{_DESCRIBED}(?: \w+)? {_DESCRIBED}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Policy:
    """How scores become routes; the notebook of thresholds writes it, a person reviews it."""

    thresholds: Thresholds
    simple: Route = Route.DENSE
    router: str = ""  # name and version of the router whose scores it is for, or ""

    def __post_init__(self) -> None:
        routes(self.simple)


def decide(score: float, thresholds: Thresholds, *, simple: Route = Route.DENSE) -> Route:
    """Decide which route a question takes.

    The order is simple route, fusion, graph. The choice never moves down when the score rises, and
    never up when a threshold rises.
    """
    return routes(simple)[int(bands(np.array([score]), thresholds)[0])]


def may_take_steps(
    route: Route,
    score: float,
    share_at_hand: float,
    thresholds: Thresholds,
    *,
    nested: bool = False,
) -> bool:
    """Whether a question goes in steps instead of by its chosen route, if it has a plan.

    If the first passages are about all that the question needs, there is little left to resolve. A
    plan needs a parse, which would cost more than a surely simple question is worth.
    The route is that by the score, or fusion for an unfamiliar question, and the share NaN if not
    known. Few questions to learn from nest descriptions without a name, so a low score says little.
    """
    if route not in {Route.FUSION, Route.GRAPH} and score <= SURE and not nested:
        return False
    return thresholds.steps == 1 or share_at_hand < thresholds.steps


def follows_names(route: Route, share_at_hand: float, among_rows: bool) -> bool:
    """Whether a question without a plan goes in steps, to follow names alone.

    Where the first passages are about what it names, that gains nothing, except among the rows of
    tables (if a text arm has one first), which refer to each other by keys. There also the simple
    route that the score chose gives way.
    """
    return among_rows or (route == Route.FUSION and share_at_hand < FOLLOWED_BELOW)


def in_steps(reason: str, *, has_plan: bool) -> str:
    """The reason for going in steps, given the reason for the route that they replace."""
    why = PLAN if has_plan else FOLLOWED
    return f"{reason}; {why}" if reason == UNFAMILIAR else why


def bands(scores: Float64, thresholds: Thresholds) -> Int64:
    """Index (n,) of each score's route among the `routes`: 0 simple, 1 fusion, 2 graph.

    Source: EA-GraphRAG, equation 2 and algorithm 1. A score at τ_H goes to graph, one at τ_L to the
    simple route. If both are equal, fusion gets nothing, and a score that equals them goes to
    graph, since the algorithm looks at τ_H first.
    """
    indices = np.ones(len(scores), np.int64)
    indices[scores <= thresholds.low] = 0
    indices[scores >= thresholds.high] = 2
    return indices


def routes(simple: Route) -> tuple[Route, Route, Route]:
    """The routes from low to high scores; a `PolicyError` if the simple one is graph or fusion."""
    if simple in {Route.GRAPH, Route.FUSION}:
        raise PolicyError(f"The simple route is '{simple}'; use one that does not run the graph.")
    return simple, Route.FUSION, Route.GRAPH


def may_have_plan(question: str) -> bool:
    """Whether a question may have a plan, judged by its words without a parse.

    It was True for all of some thousand questions that have a plan.
    """
    text = question.lower()
    if token_count(text) >= LONG:
        return True
    first = _FIRST.match(text)
    links = len(_LINK.findall(text, first.end() if first else 0))
    return links > bool(_ASKS_FOR_ALL.match(text))


def is_nested(question: str) -> bool:
    """Whether a description stands in another one, as in "the employer of the inventor of …".

    It is judged by words without a parse.
    """
    return _NESTED.search(question) is not None


@dataclass(eq=False)
class RoutingModel:
    """A scorer with its policy, by name and version."""

    name: str  # name and version, "name/v1"
    scorer: Scorer
    policy: Policy
    folder: Path | None  # that it was loaded from; None if it is not written yet

    @property
    def asks_corpus(self) -> bool:
        """Whether it uses signals of the corpus, so that deciding takes an index."""
        return asks_corpus(self.needs)

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns that it uses."""
        return self.scorer.names

    def with_policy(self, policy: Policy) -> "RoutingModel":
        """The same scorer under another policy."""
        return replace(self, policy=policy)

    def decide(
        self, features: Float64, *, nested: Sequence[bool] | None = None, explain: bool = False
    ) -> list[Decision]:
        """Decide a route for each question, with the same bits alone and in a batch.

        Args:
            features: (n, width) float64, in the order of the featurizer's names.
            nested: (n,) whether each question's words nest descriptions; None if not known.
            explain: Whether to add contributions.

        Raises:
            FeatureError: The scorer cannot take these features.
        """
        policy = self.policy
        scorer, thresholds = self.scorer, policy.thresholds
        inputs = scorer.inputs(features)
        is_known = scorer.knows(inputs)
        logits = np.where(is_known, scorer.calibrated(scorer.raw(inputs)), UNKNOWN)
        scores = logistic(logits)
        at_hand = share_at_hand(features) if thresholds.steps else np.full(len(features), np.nan)
        decisions: list[Decision] = []
        for row, share in enumerate(at_hand.tolist()):
            logit, score = float(logits[row]), float(scores[row])
            is_nested = nested is not None and nested[row]
            route, reason = decide(score, thresholds, simple=policy.simple), SCORE
            if not is_known[row]:
                route, reason = Route.FUSION, UNFAMILIAR
            may_step = may_take_steps(route, score, share, thresholds, nested=is_nested)
            decision = Decision(
                route,
                score,
                logit,
                thresholds,
                reason,
                self.name,
                simple=policy.simple,
                planned=thresholds.steps > 0 and may_step,
            )
            if explain and is_known[row]:
                added, shown = attribute(scorer, inputs[row], logit), features[row]
                parts = contributions(*added, scorer.names, shown[scorer.columns])
                decision = replace(decision, contributions=parts)
            decisions.append(decision)
        return decisions
