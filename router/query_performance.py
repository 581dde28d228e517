"""Signals of the corpus: features of a question from what the arms found for it.

None depends on the size of the corpus or on an arm's own scale, so that what is learned from them
on one corpus holds on another. Signals of the text arms (`wye.router.text_evidence`) need no parse.
Those of seeds and of the dense list are known before the graph is walked; that of the graph's own
list is not.
"""

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache

import numpy as np

from wye.backends.lexical import content_terms
from wye.backends.trigraph.seeds import SeedStats
from wye.backends.types import Float64, Int64, Query, Ranking
from wye.featurizer import registry as featurizer
from wye.featurizer.registry import FEATURE_NAMES, TREE_FEATURES
from wye.router.text_evidence import TEXT_MEANINGS, TEXT_SIGNALS, text_signals
from wye.router.types import ArmResults, Route

_NOTHING = Ranking("", ())
_Group = Callable[[ArmResults], Sequence[float]]
SIGNALS_VERSION = 3
"""Incremented when the value of some signal changes."""
LEAST_SHARE = 1e-6
"""Smaller shares of the best passage's mass count as this."""
TOP = 5
"""Passages of a list that margins look at: as many as a reader is given."""

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
GRAPH_SIGNALS = ("graph_margin_5", "graph_lexical_share")
NAMED, SIDES = "names_title_5", "question_and"
"""Signals that `at_hand` uses: the share of the question's names that are titles of the first five
passages, and how often it says "and" or "or"."""
CHEAP_SIGNALS = SEED_SIGNALS + DENSE_SIGNALS + TEXT_SIGNALS
"""These need no walk of the graph."""
STAGE_1 = DENSE_SIGNALS + TEXT_SIGNALS
"""These need no parse."""
MEANINGS: Mapping[str, str] = {
    "seed_count": "ln(1 + number of seeds: entities of the graph that the question names).",
    "seed_hit_rate": "Share of the names in the question that the graph knows; 0 without a name.",
    "seed_coverage": "Share of the question's content words that are part of a seed's name.",
    "seed_value_best": "Highest confidence of a seed, 1 for an exact name; 0 without a seed.",
    "seed_value_sum": "Sum of the seeds' confidences.",
    "seed_lower_case": "Share of the seeds that the question writes without a capital.",
    "seed_degree": "ln(1 + number of passages that mention the rarest seed).",
    "seed_specificity": "Highest ratio of a seed's confidence to passages that mention it.",
    "seed_title_value": "Highest confidence of a seed that is a title; 0 without one.",
    "seed_title_uniqueness": "Highest ratio of a title seed's confidence to passages so titled.",
    "dense_best": "Cosine of the nearest passage.",
    "dense_margin_2": "Cosine of the nearest passage minus that of the second.",
    "dense_margin_5": "Cosine of the nearest passage minus that of the fifth.",
    **TEXT_MEANINGS,
}
"""Signal of `CHEAP_SIGNALS` -> what it means."""


def signals(evidence: Sequence[ArmResults], names: Sequence[str]) -> Float64:
    """Compute signals of questions.

    A margin is the best score minus the 2nd or 5th (or the last, if there are fewer). Scores are
    cosines for dense, and logarithms of shares of the best for the graph. What is missing (no seed,
    no hit) counts as 0.

    Args:
        evidence: One for each question. Arms that were not asked count as having found nothing, so
            ask only for signals of those that were.
        names: The signals, in the order of the columns.

    Returns:
        (n, m) float64, finite.

    Raises:
        KeyError: There is no signal of some name.
    """
    groups, places = _layout(tuple(names))
    rows = [[value for of in groups for value in of(one)] for one in evidence]
    width = len(rows[0]) if rows else int(places.max(initial=-1)) + 1
    return np.array(rows, np.float64).reshape(len(rows), width)[:, places]


@cache
def _layout(names: tuple[str, ...]) -> tuple[tuple[_Group, ...], Int64]:
    """The groups of some signals, and each signal's index in the groups' concatenated values."""
    wanted = set(names)
    groups = [(own, of) for own, of in _groups() if not wanted.isdisjoint(own)]
    place = {name: at for at, name in enumerate(name for own, _ in groups for name in own)}
    return tuple(of for _, of in groups), np.array([place[name] for name in names], np.int64)


def log_share(scores: Float64, best: float) -> Float64:
    """ln(score / best), at least ln(LEAST_SHARE); 0 if the best is not above 0."""
    return np.log(np.maximum(scores / best, LEAST_SHARE)) if best > 0 else np.zeros_like(scores)


def _groups() -> list[tuple[tuple[str, ...], _Group]]:
    return [
        (SEED_SIGNALS[: -len(TITLE_SIGNALS)], _of_seeds),
        (TITLE_SIGNALS, _of_titles),
        (DENSE_SIGNALS, _of_dense),
        (TEXT_SIGNALS, text_signals),
        (GRAPH_SIGNALS, _of_graph),
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


def _of_graph(evidence: ArmResults) -> Sequence[float]:
    scores = _scores(evidence, Route.GRAPH)
    logs = log_share(np.array(scores[:TOP]), scores[0] if scores else 0.0).tolist()
    return _difference(logs, TOP), _lexical_share(evidence)


def _lexical_share(evidence: ArmResults) -> float:
    """BM25 score of the graph's first passage over the best; 0 if the lexical list lacks it."""
    graph, lexical = (evidence.rankings.get(arm, _NOTHING) for arm in (Route.GRAPH, Route.LEXICAL))
    found, first = lexical.ids(), graph.ids(1)
    if not first or first[0] not in found:
        return 0.0
    scores = lexical.scores
    return float(scores[found.index(first[0])] / scores[0]) if scores[0] > 0 else 0.0


def _coverage(query: Query, seeds: Sequence[SeedStats]) -> float:
    """Share of the question's content words that are part of a seed's name."""
    words = content_terms(query.text)
    named = {term for seed in seeds for term in content_terms(seed.mention)}
    return sum(word in named for word in words) / len(words) if words else 0.0


def _scores(evidence: ArmResults, arm: Route) -> list[float]:
    found: list[float] = evidence.rankings.get(arm, _NOTHING).scores.tolist()
    return found


def _difference(values: Sequence[float], place: int) -> float:
    return values[0] - values[:place][-1] if values else 0.0


NAMES: tuple[str, ...] = (*FEATURE_NAMES, *CHEAP_SIGNALS)
"""The columns that a router may use, in order: features of the question, then signals of the corpus
that are known before the graph is walked. A router that uses no signal decides without an index."""


def at_hand(columns: Float64) -> Float64:
    """Share (n,), from 0 to 1, of what questions need that the first passages are about.

    A question that puts things side by side names all that it needs first. Any other question with
    a plan also describes something that it does not name, so its names count for half.

    Args:
        columns: (n, len(NAMES)); a row of NaN gives NaN.
    """
    named, sides = columns[:, NAMES.index(NAMED)], columns[:, NAMES.index(SIDES)]
    return np.where(sides > 0, named, named / 2)


def schema_id(parsers: Mapping[str, str]) -> str:
    """Identity of the columns: equal ids mean that the same models make the same values.

    Args:
        parsers: `Analyser.syntax_fingerprint`.

    Returns:
        The first 16 hexadecimal digits of a SHA-256.
    """
    content = json.dumps([featurizer.schema_id(parsers), list(CHEAP_SIGNALS), SIGNALS_VERSION])
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def asks_corpus(names: Sequence[str]) -> bool:
    """Whether any of these columns depends on the corpus."""
    return not set(CHEAP_SIGNALS).isdisjoint(names)


def stages(names: Sequence[str]) -> tuple[str, ...]:
    """The stages of `Reply.seconds` that any decision by these columns takes."""
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
    """Columns (n, len(NAMES)) of questions asked of an index.

    Args:
        features: (n, d), columns as in `FEATURE_NAMES`.
        evidence: Seeds, rankings of the text arms and coverage of each question.
    """
    return np.concatenate([features, signals(evidence, CHEAP_SIGNALS)], axis=1)


def without_corpus(features: Float64) -> Float64:
    """Columns (n, len(NAMES)) for a router that uses no signals: they are zeros."""
    empty = np.zeros((len(features), len(CHEAP_SIGNALS)))
    return np.concatenate([features, empty], axis=1)
