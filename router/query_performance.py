"""What the arms say about a question before anyone has judged their answers, as numbers.

The corpus group of features. None depends on the size of the corpus or on an arm's own scale, so
that what is learned from them on one corpus means the same on another. Those of the text arms
(`router.text_evidence`) need no parse; those of seeds and of the dense list are known before the
graph is walked; the others need every arm.
"""

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache

import numpy as np

from backends.lexical import content_terms
from backends.trigraph.seeds import SeedStats
from backends.types import Float64, Int64, Query, Ranking
from featurizer import registry as featurizer
from featurizer.registry import FEATURE_NAMES, TREE_FEATURES
from router.text_evidence import TEXT_MEANINGS, TEXT_SIGNALS, text_signals
from router.types import ArmResults, Route

_NOTHING = Ranking("", ())
_Group = Callable[[ArmResults], Sequence[float]]
SIGNALS_VERSION = 3
"""Raised when the value of some signal changes."""
LEAST_SHARE = 1e-6
"""Of the best passage's mass: less counts as so much."""
TOP = 5
"""How many passages of a list margins and agreement look at: what a reader is given."""

TITLE_SIGNALS = ("seed_title_value", "seed_title_uniqueness")
SEED_SIGNALS = (
    "seed_count",
    "seed_hit_rate",
    "seed_coverage",
    "seed_value_best",
    "seed_value_sum",
    "seed_lower_case",
    "seed_degree",
    "seed_specificity",
    *TITLE_SIGNALS,
)
DENSE_SIGNALS = ("dense_best", "dense_margin_2", "dense_margin_5")
LEXICAL_SIGNALS = ("lexical_margin_2", "lexical_margin_5")
GRAPH_SIGNALS = ("graph_margin_2", "graph_margin_5")
AGREEMENT_SIGNALS = (
    "agreement_dense_graph",
    "agreement_dense_lexical",
    "agreement_lexical_graph",
    "same_best_dense_graph",
    "graph_best_in_dense",
    "graph_best_in_lexical",
    "dense_best_in_graph",
)
NAMED, SIDES = "names_title_5", "question_and"
"""Share of the names of a question that head the first passages; how often it says "and" or "or".
What `at_hand` looks at."""
CHEAP_SIGNALS = SEED_SIGNALS + DENSE_SIGNALS + TEXT_SIGNALS
"""No graph is walked for these."""
STAGE_1 = DENSE_SIGNALS + TEXT_SIGNALS
"""Nothing is parsed for these."""
MEANINGS: Mapping[str, str] = {
    "seed_count": "ln(1 + the entities of the graph that the question names).",
    "seed_hit_rate": "Share of the names in the question that the graph knows; 0 without a name.",
    "seed_coverage": "Share of the question's content words that these names are made of.",
    "seed_value_best": "How sure the surest of them is: 1 for the same name; 0 without any.",
    "seed_value_sum": "The same of all of them, added up.",
    "seed_lower_case": "Share of them that the question writes without a capital.",
    "seed_degree": "ln(1 + passages that mention the rarest of them).",
    "seed_specificity": "How sure a name is over the passages that mention it, at best.",
    "seed_title_value": "How sure the surest is of those that are titles; 0 where none is one.",
    "seed_title_uniqueness": "The same over the passages that have it for a title, at best.",
    "dense_best": "Cosine of the passage that is nearest to the question.",
    "dense_margin_2": "How much nearer it is than the second.",
    "dense_margin_5": "How much nearer it is than the fifth.",
    **TEXT_MEANINGS,
}
"""Of the `CHEAP_SIGNALS`."""
SIGNAL_NAMES = CHEAP_SIGNALS + LEXICAL_SIGNALS + GRAPH_SIGNALS + AGREEMENT_SIGNALS


def signals(evidence: Sequence[ArmResults], names: Sequence[str] = SIGNAL_NAMES) -> Float64:
    """Signals of questions.

    Margins are the best score minus the 2nd or 5th (the last, where there are fewer): cosines for
    dense, shares of the best for lexical, logarithms of them for the graph. Agreement is the share
    of the first five passages that two lists have in common. The standing of one arm's best
    passage in another's list is 1 at its head and falls to 0 at its end, in ranks on a log scale.
    Whatever is not there (no seed, no hit) counts as 0.

    Args:
        evidence: One for each question. Arms that were not asked count as having found nothing, so
            ask for `CHEAP_SIGNALS` alone where only the dense arm was.
        names: Which signals, and in which order.

    Returns:
        (n, m) float64, finite.

    Raises:
        KeyError: A name is no signal's.
    """
    groups, places = _layout(tuple(names))
    rows = [[value for of in groups for value in of(one)] for one in evidence]
    width = len(rows[0]) if rows else int(places.max(initial=-1)) + 1
    return np.array(rows, np.float64).reshape(len(rows), width)[:, places]


@cache
def _layout(names: tuple[str, ...]) -> tuple[tuple[_Group, ...], Int64]:
    """The groups that signals are in, and which of their values, end to end, each signal is."""
    wanted = set(names)
    groups = [(own, of) for own, of in _groups() if not wanted.isdisjoint(own)]
    place = {name: at for at, name in enumerate(name for own, _ in groups for name in own)}
    return tuple(of for _, of in groups), np.array([place[name] for name in names], np.int64)


def log_share(scores: Float64, best: float) -> Float64:
    """ln(score / best), at least ln(LEAST_SHARE); 0 where the best is not above 0."""
    return np.log(np.maximum(scores / best, LEAST_SHARE)) if best > 0 else np.zeros_like(scores)


def _groups() -> list[tuple[tuple[str, ...], _Group]]:
    return [
        (SEED_SIGNALS[: -len(TITLE_SIGNALS)], _of_seeds),
        (TITLE_SIGNALS, _of_titles),
        (DENSE_SIGNALS, _of_dense),
        (TEXT_SIGNALS, text_signals),
        (LEXICAL_SIGNALS, _of_lexical),
        (GRAPH_SIGNALS, _of_graph),
        (AGREEMENT_SIGNALS, _of_agreement),
    ]


def _of_seeds(evidence: ArmResults) -> Sequence[float]:
    seeds = evidence.seeds
    mentions = {m.text.casefold() for m in evidence.query.mentions if m.kind == "entity"}
    found = {seed.mention.casefold() for seed in seeds}
    lower_case = sum(seed.mention == seed.mention.lower() for seed in seeds)
    return (
        math.log1p(len(seeds)),
        len(mentions & found) / len(mentions) if mentions else 0.0,
        _coverage(evidence.query, seeds),
        max((seed.value for seed in seeds), default=0.0),
        sum(seed.value for seed in seeds),
        lower_case / len(seeds) if seeds else 0.0,
        math.log1p(min((seed.passages for seed in seeds), default=0)),
        max((seed.value / seed.passages for seed in seeds), default=0.0),
    )


def _of_titles(evidence: ArmResults) -> Sequence[float]:
    titled = [seed for seed in evidence.seeds if seed.titles]
    return (
        max((seed.value for seed in titled), default=0.0),
        max((seed.value / seed.titles for seed in titled), default=0.0),
    )


def _of_dense(evidence: ArmResults) -> Sequence[float]:
    scores = _scores(evidence, Route.DENSE)
    return scores[0] if scores else 0.0, _difference(scores, 2), _difference(scores, TOP)


def _of_lexical(evidence: ArmResults) -> Sequence[float]:
    scores = _scores(evidence, Route.LEXICAL)
    shares = [score / scores[0] for score in scores[:TOP]]
    return _difference(shares, 2), _difference(shares, TOP)


def _of_graph(evidence: ArmResults) -> Sequence[float]:
    scores = _scores(evidence, Route.GRAPH)
    logs = log_share(np.array(scores[:TOP]), scores[0] if scores else 0.0).tolist()
    return _difference(logs, 2), _difference(logs, TOP)


def _of_agreement(evidence: ArmResults) -> Sequence[float]:
    dense, graph = (_ids(evidence, arm, 1) for arm in (Route.DENSE, Route.GRAPH))
    return (
        _agreement(evidence, Route.DENSE, Route.GRAPH),
        _agreement(evidence, Route.DENSE, Route.LEXICAL),
        _agreement(evidence, Route.LEXICAL, Route.GRAPH),
        float(dense == graph != []),
        _standing(evidence, Route.GRAPH, Route.DENSE),
        _standing(evidence, Route.GRAPH, Route.LEXICAL),
        _standing(evidence, Route.DENSE, Route.GRAPH),
    )


def _coverage(query: Query, seeds: Sequence[SeedStats]) -> float:
    """Share of the question's content words that seeds stand for."""
    words = content_terms(query.text)
    named = {term for seed in seeds for term in content_terms(seed.mention)}
    return sum(word in named for word in words) / len(words) if words else 0.0


def _scores(evidence: ArmResults, arm: Route) -> list[float]:
    found: list[float] = evidence.rankings.get(arm, _NOTHING).scores.tolist()
    return found


def _ids(evidence: ArmResults, arm: Route, count: int) -> list[str]:
    return [hit.id for hit in evidence.rankings.get(arm, _NOTHING).hits[:count]]


def _difference(values: Sequence[float], place: int) -> float:
    return values[0] - values[:place][-1] if values else 0.0


def _agreement(evidence: ArmResults, one: Route, other: Route) -> float:
    mine, theirs = set(_ids(evidence, one, TOP)), set(_ids(evidence, other, TOP))
    longest = max(len(mine), len(theirs))
    return len(mine & theirs) / longest if longest else 0.0


def _standing(evidence: ArmResults, one: Route, other: Route) -> float:
    best = _ids(evidence, one, 1)
    hits = evidence.rankings.get(other, _NOTHING).hits
    rank = next((hit.rank for hit in hits if [hit.id] == best), None)
    return 0.0 if rank is None else 1 - math.log(rank) / math.log(len(hits) + 1)


# The columns that a router may look at: what a question is like, and what the corpus says to it.
#
# The corpus group is what text arms and seeds tell before the graph is walked. A router that looks
# at none of it needs no index to decide.

NAMES: tuple[str, ...] = (*FEATURE_NAMES, *CHEAP_SIGNALS)
"""Of the columns, in order."""


def at_hand(columns: Float64) -> Float64:
    """(n,) share, from 0 to 1, of what questions need that the first passages are about.

    Names of things that are put side by side are all that such a question needs first. Another that
    has a plan describes something which has no name in it, so its names are half of that.

    Args:
        columns: (n, len(NAMES)); a row of NaN gives NaN.
    """
    named, sides = columns[:, NAMES.index(NAMED)], columns[:, NAMES.index(SIDES)]
    return np.where(sides > 0, named, named / 2)


def schema_id(parsers: Mapping[str, str]) -> str:
    """Identity of the columns' values: equal ids mean equal columns, made by the same models.

    It is the first 16 hexadecimal digits of a SHA-256; `parsers` is `Analyser.syntax_fingerprint`.
    """
    content = json.dumps([featurizer.schema_id(parsers), list(CHEAP_SIGNALS), SIGNALS_VERSION])
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def asks_corpus(names: Sequence[str]) -> bool:
    """Whether some of these columns depend on the corpus."""
    return not set(CHEAP_SIGNALS).isdisjoint(names)


def stages(names: Sequence[str]) -> tuple[str, ...]:
    """The stages of `Reply.seconds` that deciding by these columns takes, whatever is decided."""
    wanted = set(names)
    found: dict[str, None] = {"routing": None}
    if not wanted.isdisjoint(FEATURE_NAMES):
        found |= dict.fromkeys(("parsing", "features"))
    if not wanted.isdisjoint(TREE_FEATURES):
        found["trees"] = None
    if not wanted.isdisjoint(SEED_SIGNALS):
        found |= dict.fromkeys(("encoding", "parsing", "seeds"))
    if not wanted.isdisjoint(DENSE_SIGNALS):
        found |= dict.fromkeys(("encoding", "dense"))
    if not wanted.isdisjoint(TEXT_SIGNALS):
        found |= dict.fromkeys(("encoding", "dense", "lexical", "fusing"))
    return tuple(found)


def with_corpus(features: Float64, evidence: Sequence[ArmResults]) -> Float64:
    """(n, len(NAMES)) columns of questions asked of an index.

    Args:
        features: (n, d) of `FEATURE_NAMES`.
        evidence: Seeds, lists of the text arms and coverage of each question.
    """
    return np.concatenate([features, signals(evidence, CHEAP_SIGNALS)], axis=1)


def without_corpus(features: Float64) -> Float64:
    """(n, len(NAMES)) columns for a router that does not look at the corpus: zeros stand for it."""
    empty = np.zeros((len(features), len(CHEAP_SIGNALS)))
    return np.concatenate([features, empty], axis=1)
