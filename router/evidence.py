"""The columns that a router reads: features of a question, then signals of what the arms found.

No signal depends on the size of the corpus or on an arm's own scale, so that what is learned from
them on one corpus holds on another. Those of the text arms need no parse: how far their best
passages stand out, whether both found the same, and how much of what the question says and names is
in the first passages. Those of seeds are known before the graph is walked; those of the graph's own
list are not.
"""

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache

import numpy as np

from wye.backends.text import content_terms, tokenise
from wye.backends.trigraph.seeds import SeedStats
from wye.backends.types import Coverage, Float64, Int64, NameCoverage, Query, Ranking
from wye.featurizer import registry as featurizer
from wye.featurizer.registry import FEATURE_NAMES, TREE_FEATURES
from wye.router.types import ArmResults, Route

SIGNALS_VERSION = 3  # incremented when the value of some signal changes
FIRST_PASSAGES = 5
"""First passages of the text arms whose text is looked at: as many as a reader is given."""
FIRST_SCORES = 10  # first hits of a list whose scores are looked at; deeper ones add nothing
LEAST_SHARE = 1e-6  # smaller shares of the best passage's mass count as this

_DENSE_SPREAD = 0.05
_LEXICAL_SPREAD = 0.1
_DEPTHS = (1, 3, 5)
_TITLE_DEPTHS = (1, 2, 3, 5)
_MARGINS = (2, 3, 5, 10)
_FIRST = {count: (1 << count) - 1 for count in range(1, FIRST_PASSAGES + 1)}
"""Number of first passages -> mask of their bits."""
_NO_HITS = Ranking("", ())
_RELATIVES = frozenset({"who", "whom", "whose", "which", "that", "what", "when", "where"})
_PREPOSITIONS = frozenset({"in", "by", "from", "with", "for", "at", "on", "to", "about"})
_ARTICLES = frozenset({"a", "an", "the"})
_AUXILIARIES = frozenset(
    {"is", "are", "was", "were", "be", "been", "do", "does", "did", "has", "have", "had"}
)
_POSSESSIVE = re.compile(r"['\N{RIGHT SINGLE QUOTATION MARK}]s\b")


def _with_depths(meanings: Mapping[str, str]) -> dict[str, str]:
    """Signals with their meanings; "found_{1,5}" is one for each depth, which replaces its {}."""
    parts = ((name.rstrip("}").partition("{"), meaning) for name, meaning in meanings.items())
    return {stem + k: text.format(k) for (stem, _, ks), text in parts for k in ks.split(",")}


_SEEDS = {
    "seed_count": "ln(1 + number of seeds: entities of the graph that the question names).",
    "seed_hit_rate": "Share of the names in the question that the graph knows; 0 without a name.",
    "seed_coverage": "Share of the question's content words that are part of a seed's name.",
    "seed_value_best": "Highest confidence of a seed, 1 for an exact name; 0 without a seed.",
    "seed_value_sum": "Sum of the seeds' confidences.",
    "seed_lower_case": "Share of the seeds that the question writes without a capital.",
    "seed_degree": "ln(1 + number of passages that mention the rarest seed).",
    "seed_specificity": "Highest ratio of a seed's confidence to passages that mention it.",
}
_TITLES = {
    "seed_title_value": "Highest confidence of a seed that is a title; 0 without one.",
    "seed_title_uniqueness": "Highest ratio of a title seed's confidence to passages so titled.",
}
_DENSE = {
    "dense_best": "Cosine of the nearest passage.",
    "dense_margin_2": "Cosine of the nearest passage minus that of the second.",
    "dense_margin_5": "Cosine of the nearest passage minus that of the fifth.",
}
_LISTS = {
    "text_dense_margin_3": "Cosine of the nearest passage minus that of the third.",
    "text_dense_margin_10": "Cosine of the nearest passage minus that of the tenth.",
    "text_dense_entropy": "Evenness of the ten best cosines, from 0 (one stands out) to 1.",
    "text_lexical_best": "Best BM25 score over the summed weights of the question's words.",
    "text_lexical_margin_{2,3,5,10}": "Best BM25 score minus that of passage {}, over the best.",
    "text_lexical_entropy": "Evenness of the ten best BM25 scores, from 0 to 1.",
    "text_hybrid_margin_{2,3,5,10}": "Best fused score of the text arms minus that of passage {}.",
    "text_agreement_{1,3,5,10}": "Share of the first {} that dense and lexical have in common.",
    "text_dense_in_lexical": "Standing of the dense best in the lexical list, 1 at its head.",
    "text_lexical_in_dense": "Standing of the lexical best in the dense list, 1 at its head.",
}
_WORDS = {
    "words_title_{1,3,5}": "Share of the question's words, by idf, in titles of the first {}.",
    "words_text_{1,3,5}": "Share of the question's words, by idf, in all of the first {}.",
    "words_together": "Highest share of the question's words, by idf, in one of the first five.",
    "rest_share": "Share of the question's words, by idf, that are part of no known name.",
    "rest_count": "Number of the question's words that are part of no known name.",
    "rest_text_{1,3,5}": "Share of such words, by idf, in the first {}; 1 without any.",
}
_QUESTION = {
    "question_words": "Number of content words in the question.",
    "question_tokens": "Number of words and punctuation marks in the question.",
    "question_of": "How often the question says 'of'.",
    "question_and": "How often the question says 'and' or 'or'.",
    "question_possessives": "Number of words with 's.",
    "question_commas": "Number of commas.",
    "question_relatives": "How often it says who, which, that, when or the like after its start.",
    "question_prepositions": "How often it says in, by, from or the like.",
    "question_articles": "How often it says a, an or the.",
    "question_auxiliaries": "How often it says is, did, has or the like after its start.",
}
_NAMES = {
    "names_count": "ln(1 + number of known names in the question's words).",
    "names_value_best": "Highest confidence of a known name; 0 without any.",
    "names_value_sum": "Sum of the known names' confidences.",
    "names_lower_case": "Share of the known names that the question writes without a capital.",
    "names_title_{1,3,5}": "Share of the names, by confidence, that are titles of the first {}.",
    "names_text_{1,3,5}": "Share of the names, by confidence, that the first {} mention.",
    "names_together": "Highest share of the names, by confidence, in one of the first five.",
    "names_degree_least": "ln(1 + number of passages that mention the rarest name).",
    "names_degree_most": "ln(1 + number of passages that mention the commonest name).",
    "names_specificity": "Highest ratio of a name's confidence to the passages that mention it.",
    "titled_value": "Highest confidence of a titled name, one that is a title; 0 without any.",
    "titled_sum": "Sum of the confidences of titled names.",
    "titled_uniqueness": "Highest ratio of a titled name's confidence to passages so titled.",
    "titled_degree": "ln(1 + number of passages that mention the rarest titled name).",
    "titled_found_{1,2,3,5}": "Share of titled names, by confidence, that head the first {}.",
    "titled_missing_{1,2,3,5}": "Sum of confidences of titled names heading none of the first {}.",
    "untitled_sum": "Sum of the confidences of names that are no titles.",
    "untitled_text_5": "Share of untitled names, by confidence, that the first five mention.",
    "passages_titled_{1,2,3,5}": "How many of the first {} have a name of the question as title.",
    "passages_naming_5": "How many of the first five mention a name of the question.",
}
_LISTS, _WORDS, _NAMES = map(_with_depths, (_LISTS, _WORDS, _NAMES))
TEXT_MEANINGS: Mapping[str, str] = {**_LISTS, **_WORDS, **_QUESTION, **_NAMES}
"""Signal of the text arms -> what it means, in order."""
MEANINGS: Mapping[str, str] = {**_SEEDS, **_TITLES, **_DENSE, **TEXT_MEANINGS}
"""Signal of `CHEAP_SIGNALS` -> what it means."""

TEXT_SIGNALS = tuple(TEXT_MEANINGS)
NAME_SIGNALS = frozenset(_NAMES)  # signals of the names in the question
QUESTION_SIGNALS = frozenset(_QUESTION)  # signals of the question's words alone
SEED_SIGNALS = (*_SEEDS, *_TITLES)
DENSE_SIGNALS = tuple(_DENSE)
GRAPH_SIGNALS = ("graph_margin_5", "graph_lexical_share")
CHEAP_SIGNALS = tuple(MEANINGS)  # these need no walk of the graph
PARSELESS_SIGNALS = DENSE_SIGNALS + TEXT_SIGNALS  # these need no parse
NAMES_SIGNAL, SIDES_SIGNAL = "names_title_5", "question_and"
"""Signals that `share_at_hand` uses: the share of the question's names that are titles of the first
five passages, and how often it says "and" or "or"."""
COLUMNS: tuple[str, ...] = (*FEATURE_NAMES, *CHEAP_SIGNALS)
"""The columns that a router may use, in order: features of the question, then signals of the corpus
that are known before the graph is walked. A router that uses no signal decides without an index."""


def signals(evidence: Sequence[ArmResults], names: Sequence[str]) -> Float64:
    """Compute signals of questions.

    A margin is the best score minus the 2nd or 5th (or the last, if there are fewer). Scores are
    cosines for dense, and logarithms of shares of the best for the graph. What is missing (no seed,
    no hit) counts as 0.

    Args:
        evidence: Results of each question. An arm without a ranking counts as one without hits, so
            name only signals of arms that were asked.
        names: The signals, in the order of the columns.

    Returns:
        (n, m) float64, finite.

    Raises:
        KeyError: There is no signal of some name.
    """
    groups, positions = _layout(tuple(names))
    rows = [[value for values_of in groups for value in values_of(results)] for results in evidence]
    width = len(rows[0]) if rows else int(positions.max(initial=-1)) + 1
    return np.array(rows, np.float64).reshape(len(rows), width)[:, positions]


def log_share(scores: Float64, best: float) -> Float64:
    """ln(score / best), at least ln(LEAST_SHARE); 0 if the best is not above 0."""
    return np.log(np.maximum(scores / best, LEAST_SHARE)) if best > 0 else np.zeros_like(scores)


def share_at_hand(columns: Float64) -> Float64:
    """Share (n,), from 0 to 1, of what questions need that the first passages are about.

    A question that puts things side by side names all that it needs first. Any other question with
    a plan also describes something that it does not name, so its names count for half.

    Args:
        columns: (n, len(COLUMNS)); a row of NaN gives NaN.
    """
    named, sides = columns[:, COLUMNS.index(NAMES_SIGNAL)], columns[:, COLUMNS.index(SIDES_SIGNAL)]
    return np.where(sides > 0, named, named / 2)


def schema_id(parsers: Mapping[str, str]) -> str:
    """Digest of the columns and the `Analyser.syntax_fingerprint` on which their values depend."""
    content = json.dumps([featurizer.schema_id(parsers), list(CHEAP_SIGNALS), SIGNALS_VERSION])
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def asks_corpus(names: Sequence[str]) -> bool:
    """Whether any of these columns depends on the corpus."""
    return not set(CHEAP_SIGNALS).isdisjoint(names)


def stages(names: Sequence[str]) -> tuple[str, ...]:
    """The stages of `Reply.seconds` that any decision by these columns takes."""
    stages_of_columns = (
        (FEATURE_NAMES, ("parsing", "features")),
        (TREE_FEATURES, ("trees",)),
        (SEED_SIGNALS, ("encoding", "parsing", "seeds")),
        (DENSE_SIGNALS, ("encoding", "dense")),
        (TEXT_SIGNALS, ("encoding", "dense", "lexical", "fusing")),
    )
    needed = {"routing": None}
    for columns, column_stages in stages_of_columns:
        if not set(columns).isdisjoint(names):
            needed |= dict.fromkeys(column_stages)
    return tuple(needed)


def with_corpus(features: Float64, evidence: Sequence[ArmResults]) -> Float64:
    """(n, d) `FEATURE_NAMES` to (n, len(COLUMNS)) with seeds, text arms' rankings and coverage."""
    return np.concatenate([features, signals(evidence, CHEAP_SIGNALS)], axis=1)


def without_corpus(features: Float64) -> Float64:
    """Columns (n, len(COLUMNS)) for a router that uses no signals: they are zeros."""
    return np.concatenate([features, np.zeros((len(features), len(CHEAP_SIGNALS)))], axis=1)


def text_signals(evidence: ArmResults) -> list[float]:
    """The `TEXT_SIGNALS` of a question's text arms and coverage; what is missing counts as 0."""
    coverage = evidence.coverage
    dense, lexical = _ranking(evidence, Route.DENSE), _ranking(evidence, Route.LEXICAL)
    return [
        *_of_lists(dense, lexical, coverage),
        *_of_words(evidence.query.text, coverage),
        *_of_names(coverage.names),
    ]


def _ranking(evidence: ArmResults, arm: Route) -> Ranking:
    return evidence.rankings.get(arm, _NO_HITS)


def _of_seeds(evidence: ArmResults) -> Sequence[float]:
    seeds = evidence.seeds
    names = {m.text.casefold() for m in evidence.query.mentions if m.kind == "entity"}
    seed_names = names & {seed.mention.casefold() for seed in seeds}
    lower_case = sum(seed.mention == seed.mention.lower() for seed in seeds)
    return (
        math.log1p(len(seeds)),
        len(seed_names) / len(names) if names else 0.0,
        _seed_coverage(evidence.query, seeds),
        max((seed.value for seed in seeds), default=0.0),
        sum(seed.value for seed in seeds),
        lower_case / len(seeds) if seeds else 0.0,
        math.log1p(min((seed.passages for seed in seeds), default=0)),
        max((seed.value / seed.passages for seed in seeds), default=0.0),
    )


def _seed_coverage(query: Query, seeds: Sequence[SeedStats]) -> float:
    words = content_terms(query.text)
    named = {term for seed in seeds for term in content_terms(seed.mention)}
    return sum(word in named for word in words) / len(words) if words else 0.0


def _of_titles(evidence: ArmResults) -> Sequence[float]:
    titled = [seed for seed in evidence.seeds if seed.titles]
    return (
        max((seed.value for seed in titled), default=0.0),
        max((seed.value / seed.titles for seed in titled), default=0.0),
    )


def _of_dense(evidence: ArmResults) -> Sequence[float]:
    cosines = _ranking(evidence, Route.DENSE).scores.tolist()
    return cosines[0] if cosines else 0.0, *_margins(cosines, (2, 5))


def _of_graph(evidence: ArmResults) -> Sequence[float]:
    masses = _ranking(evidence, Route.GRAPH).scores[:5].astype(float)
    logs = log_share(masses, masses[0] if len(masses) else 0.0).tolist()
    return *_margins(logs, (5,)), _lexical_share(evidence)


def _lexical_share(evidence: ArmResults) -> float:
    """BM25 score of the graph's first passage over the best; 0 if the lexical list lacks it."""
    graph, lexical = _ranking(evidence, Route.GRAPH), _ranking(evidence, Route.LEXICAL)
    ids, first = lexical.ids(), graph.ids(1)
    if not first or first[0] not in ids:
        return 0.0
    scores = lexical.scores
    return float(scores[ids.index(first[0])] / scores[0]) if scores[0] > 0 else 0.0


def _of_lists(dense: Ranking, lexical: Ranking, coverage: Coverage) -> list[float]:
    cosines, bm25 = (ranking.scores[:FIRST_SCORES].tolist() for ranking in (dense, lexical))
    shares = [score / bm25[0] for score in bm25]
    most = sum(word.weight for word in coverage.words)
    near, worded = (ranking.ids(FIRST_SCORES) for ranking in (dense, lexical))
    return [
        *_margins(cosines, (3, 10)),
        _entropy(cosines, _DENSE_SPREAD),
        bm25[0] / most if bm25 and most else 0.0,
        *_margins(shares, _MARGINS),
        _entropy(shares, _LEXICAL_SPREAD),
        *_margins(coverage.scores, _MARGINS),
        *(len({*near[:k]} & {*worded[:k]}) / k for k in (1, 3, 5, 10)),
        _standing(near, worded),
        _standing(worded, near),
    ]


def _of_words(text: str, coverage: Coverage) -> list[float]:
    words = coverage.words
    named = {term for name in coverage.names for term in content_terms(name.mention)}
    rest = [word for word in words if word.term not in named]
    tokens = [token.casefold() for token in tokenise(text)]
    texts = [(word.weight, word.texts) for word in words]
    rest_texts = [(word.weight, word.texts) for word in rest]
    total = sum([word.weight for word in words])
    return [
        *_shares([(word.weight, word.titles) for word in words], _DEPTHS),
        *_shares(texts, _DEPTHS),
        _most_in_one(texts),
        sum([word.weight for word in rest]) / total if total else 0.0,
        len(rest),
        *(_shares(rest_texts, _DEPTHS) if rest else [1.0] * len(_DEPTHS)),
        len(words),
        len(tokens),
        tokens.count("of"),
        tokens.count("and") + tokens.count("or"),
        len(_POSSESSIVE.findall(text)),
        tokens.count(","),
        sum([token in _RELATIVES for token in tokens[1:]]),
        sum([token in _PREPOSITIONS for token in tokens]),
        sum([token in _ARTICLES for token in tokens]),
        sum([token in _AUXILIARIES for token in tokens[1:]]),
    ]


def _of_names(names: Sequence[NameCoverage]) -> list[float]:
    if not names:
        return [0.0] * len(_NAMES)
    titled = [name for name in names if name.titled]
    untitled = [(name.value, name.texts) for name in names if not name.titled]
    values, degrees = [name.value for name in names], [name.degree for name in names]
    titled_values = [name.value for name in titled]
    headings = [(name.value, name.titles) for name in titled]
    in_titles = in_texts = 0
    for name in names:
        in_titles |= name.titles
        in_texts |= name.texts
    return [
        math.log1p(len(names)),
        max(values),
        sum(values),
        sum([name.mention == name.mention.lower() for name in names]) / len(names),
        *_shares([(name.value, name.titles) for name in names], _DEPTHS),
        *_shares([(name.value, name.texts) for name in names], _DEPTHS),
        _most_in_one([(name.value, name.titles | name.texts) for name in names]),
        math.log1p(min(degrees)),
        math.log1p(max(degrees)),
        max([name.value / name.degree for name in names]),
        max(titled_values, default=0.0),
        sum(titled_values),
        max([name.value / name.titled for name in titled], default=0.0),
        math.log1p(min([name.degree for name in titled], default=0)),
        *_shares(headings, _TITLE_DEPTHS),
        *(sum([v for v, titles in headings if not titles & _FIRST[k]]) for k in _TITLE_DEPTHS),
        sum([value for value, _ in untitled]),
        *_shares(untitled, (FIRST_PASSAGES,)),
        *((in_titles & _FIRST[k]).bit_count() for k in _TITLE_DEPTHS),
        in_texts.bit_count(),
    ]


def _margins(scores: Sequence[float], ranks: Sequence[int]) -> list[float]:
    """The best score minus the k-th for each k, or minus the last if there are fewer."""
    return [scores[0] - scores[:k][-1] if scores else 0.0 for k in ranks]


def _entropy(scores: Sequence[float], spread: float) -> float:
    """Entropy of the softmax of scores at temperature `spread`, over its maximum."""
    if len(scores) < 2:
        return 0.0
    weights = [math.exp((score - scores[0]) / spread) for score in scores]
    total = sum(weights)
    shares = [weight / total for weight in weights]
    return -sum(share * math.log(share) for share in shares if share) / math.log(len(shares))


def _standing(ids: Sequence[str], others: Sequence[str]) -> float:
    """1 if the first of a list also heads the other, falling to 0 with its rank there."""
    if not ids or ids[0] not in others:
        return 0.0
    return 1 - math.log(others.index(ids[0]) + 1) / math.log(len(others) + 1)


def _shares(weighed: Sequence[tuple[float, int]], depths: Sequence[int]) -> list[float]:
    """Share by depth of weights, each with a bit for every passage that has it; 0 without any."""
    total = sum([weight for weight, _ in weighed])
    if not total:
        return [0.0] * len(depths)
    return [sum([weight for weight, bits in weighed if bits & _FIRST[k]]) / total for k in depths]


def _most_in_one(weighed: Sequence[tuple[float, int]]) -> float:
    """Highest share of the weight that one of the first passages has."""
    total = sum([weight for weight, _ in weighed])
    if not total:
        return 0.0
    sums = (sum([w for w, bits in weighed if bits >> at & 1]) for at in range(FIRST_PASSAGES))
    return max(sums) / total


_Group = Callable[[ArmResults], Sequence[float]]
_GROUPS: Sequence[tuple[Sequence[str], _Group]] = (
    (tuple(_SEEDS), _of_seeds),
    (tuple(_TITLES), _of_titles),
    (DENSE_SIGNALS, _of_dense),
    (TEXT_SIGNALS, text_signals),
    (GRAPH_SIGNALS, _of_graph),
)
"""Signals that are computed together, with their function."""


@cache
def _layout(names: tuple[str, ...]) -> tuple[tuple[_Group, ...], Int64]:
    """The groups of some signals, and each signal's index in the groups' concatenated values."""
    groups = [(members, values_of) for members, values_of in _GROUPS if {*members} & {*names}]
    index_of = {name: i for i, name in enumerate(name for members, _ in groups for name in members)}
    functions = tuple(values_of for _, values_of in groups)
    return functions, np.array([index_of[name] for name in names], np.int64)
