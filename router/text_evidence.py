"""Signals of what the text arms found for a question; they need no parse.

Whether the graph would improve an answer shows in what dense and lexical search found: how far
their best passages stand out, whether both found the same, and how much of what the question says
and names is in the first passages. No signal depends on the size of the corpus or on an arm's own
scale. A question that the text arms answer costs nothing more.
"""

import math
import re
from collections.abc import Mapping, Sequence

from wye.backends.coverage import Coverage, NameCoverage
from wye.backends.lexical import content_terms
from wye.backends.types import Ranking
from wye.backends.words import tokenise
from wye.router.types import ArmResults, Route

SEEN = 5
"""First passages of the text arms whose text is looked at: as many as a reader is given."""
SCORED = 10
"""First hits of a list whose scores are looked at; deeper ones add nothing."""

_DENSE_SPREAD = 0.05
_LEXICAL_SPREAD = 0.1
_DEPTHS = (1, 3, 5)
_TITLE_DEPTHS = (1, 2, 3, 5)
_FIRST = {count: (1 << count) - 1 for count in range(1, SEEN + 1)}
"""Number of first passages -> mask of their bits."""
_ALL = (1.0,) * len(_DEPTHS)
_MARGINS = (2, 3, 5, 10)
_NOTHING = Ranking("", ())
_RELATIVES = frozenset({"who", "whom", "whose", "which", "that", "what", "when", "where"})
_PREPOSITIONS = frozenset({"in", "by", "from", "with", "for", "at", "on", "to", "about"})
_ARTICLES = frozenset({"a", "an", "the"})
_AUXILIARIES = frozenset(
    {"is", "are", "was", "were", "be", "been", "do", "does", "did", "has", "have", "had"}
)
_POSSESSIVE = re.compile(r"['\N{RIGHT SINGLE QUOTATION MARK}]s\b")

_LISTS = {
    "text_dense_margin_3": "Cosine of the nearest passage minus that of the third.",
    "text_dense_margin_10": "Cosine of the nearest passage minus that of the tenth.",
    "text_dense_entropy": "Evenness of the ten best cosines, from 0 (one stands out) to 1.",
    "text_lexical_best": "Best BM25 score over the summed weights of the question's words.",
    **{
        f"text_lexical_margin_{k}": f"Best BM25 score minus that of passage {k}, over the best."
        for k in _MARGINS
    },
    "text_lexical_entropy": "Evenness of the ten best BM25 scores, from 0 to 1.",
    **{
        f"text_hybrid_margin_{k}": f"Best fused score of the text arms minus that of passage {k}."
        for k in _MARGINS
    },
    **{
        f"text_agreement_{k}": f"Share of the first {k} that dense and lexical have in common."
        for k in (1, 3, 5, 10)
    },
    "text_dense_in_lexical": "Standing of the dense best in the lexical list, 1 at its head.",
    "text_lexical_in_dense": "Standing of the lexical best in the dense list, 1 at its head.",
}
_WORDS = {
    **{
        f"words_title_{k}": f"Share of the question's words, by idf, in titles of the first {k}."
        for k in _DEPTHS
    },
    **{
        f"words_text_{k}": f"Share of the question's words, by idf, in all of the first {k}."
        for k in _DEPTHS
    },
    "words_together": "Highest share of the question's words, by idf, in one of the first five.",
    "rest_share": "Share of the question's words, by idf, that are part of no known name.",
    "rest_count": "Number of the question's words that are part of no known name.",
    **{
        f"rest_text_{k}": f"Share of such words, by idf, in the first {k}; 1 without any."
        for k in _DEPTHS
    },
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
    **{
        f"names_title_{k}": f"Share of the names, by confidence, that are titles of the first {k}."
        for k in _DEPTHS
    },
    **{
        f"names_text_{k}": f"Share of the names, by confidence, that the first {k} mention."
        for k in _DEPTHS
    },
    "names_together": "Highest share of the names, by confidence, in one of the first five.",
    "names_degree_least": "ln(1 + number of passages that mention the rarest name).",
    "names_degree_most": "ln(1 + number of passages that mention the commonest name).",
    "names_specificity": "Highest ratio of a name's confidence to the passages that mention it.",
    "titled_value": "Highest confidence of a titled name, one that is a title; 0 without any.",
    "titled_sum": "Sum of the confidences of titled names.",
    "titled_uniqueness": "Highest ratio of a titled name's confidence to passages so titled.",
    "titled_degree": "ln(1 + number of passages that mention the rarest titled name).",
    **{
        f"titled_found_{k}": f"Share of titled names, by confidence, that head the first {k}."
        for k in (1, 2, 3, 5)
    },
    **{
        f"titled_missing_{k}": f"Sum of confidences of titled names heading none of the first {k}."
        for k in (1, 2, 3, 5)
    },
    "untitled_sum": "Sum of the confidences of names that are no titles.",
    "untitled_text_5": "Share of untitled names, by confidence, that the first five mention.",
    **{
        f"passages_titled_{k}": f"How many of the first {k} have a name of the question as title."
        for k in (1, 2, 3, 5)
    },
    "passages_naming_5": "How many of the first five mention a name of the question.",
}
TEXT_MEANINGS: Mapping[str, str] = {**_LISTS, **_WORDS, **_QUESTION, **_NAMES}
"""Signal -> what it means, in order."""
TEXT_SIGNALS = tuple(TEXT_MEANINGS)
LIST_SIGNALS = frozenset(_LISTS)
"""Signals of the text arms' rankings."""
NAME_SIGNALS = frozenset(_NAMES)
"""Signals of the names in the question."""
QUESTION_SIGNALS = frozenset(_QUESTION)
"""Signals of the question's words alone."""


_NO_NAMES = (0.0,) * len(_NAMES)


def text_signals(evidence: ArmResults) -> list[float]:
    """The `TEXT_SIGNALS` of a question, in order; what is missing counts as 0.

    Args:
        evidence: Has the rankings of both text arms and the coverage of the first passages.
    """
    coverage = evidence.coverage
    dense, lexical = (evidence.rankings.get(arm, _NOTHING) for arm in (Route.DENSE, Route.LEXICAL))
    return [
        *_of_lists(dense, lexical, coverage),
        *_of_words(evidence.query.text, coverage),
        *_of_names(coverage.names),
    ]


def _of_lists(dense: Ranking, lexical: Ranking, coverage: Coverage) -> list[float]:
    cosines, bm25 = (one.scores[:SCORED].tolist() for one in (dense, lexical))
    shares = [score / bm25[0] for score in bm25]
    most = sum(word.weight for word in coverage.words)
    near, worded = (one.ids(SCORED) for one in (dense, lexical))
    return [
        *_margins(cosines, (3, 10)),
        _entropy(cosines, _DENSE_SPREAD),
        bm25[0] / most if bm25 and most else 0.0,
        *_margins(shares),
        _entropy(shares, _LEXICAL_SPREAD),
        *_margins(coverage.scores),
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
    total = sum([word.weight for word in words])
    return [
        *_shares([(word.weight, word.titles) for word in words], _DEPTHS),
        *_shares(texts, _DEPTHS),
        _most_in_one(texts),
        sum([word.weight for word in rest]) / total if total else 0.0,
        len(rest),
        *(_shares([(word.weight, word.texts) for word in rest], _DEPTHS) if rest else _ALL),
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
        return list(_NO_NAMES)
    titled = [name for name in names if name.titled]
    untitled = [(name.value, name.texts) for name in names if not name.titled]
    values, degrees = [name.value for name in names], [name.degree for name in names]
    of_titled, sums = [name.value for name in titled], [(n.value, n.titles) for n in titled]
    over = mention = 0
    for name in names:
        over |= name.titles
        mention |= name.texts
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
        max(of_titled, default=0.0),
        sum(of_titled),
        max([name.value / name.titled for name in titled], default=0.0),
        math.log1p(min([name.degree for name in titled], default=0)),
        *_shares(sums, _TITLE_DEPTHS),
        *(sum([v for v, found in sums if not found & _FIRST[k]]) for k in _TITLE_DEPTHS),
        sum([value for value, _ in untitled]),
        *_shares(untitled, (SEEN,)),
        *((over & _FIRST[k]).bit_count() for k in _TITLE_DEPTHS),
        mention.bit_count(),
    ]


def _margins(scores: Sequence[float], places: Sequence[int] = _MARGINS) -> list[float]:
    """The best score minus the k-th for each k, or minus the last if there are fewer."""
    return [scores[0] - scores[:k][-1] if scores else 0.0 for k in places]


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
    """Share of the weight that the first passages have, by depth; 0 without weight.

    Args:
        weighed: Weights, each with a bit for every passage that has the item.
    """
    total = sum([weight for weight, _ in weighed])
    if not total:
        return [0.0] * len(depths)
    return [sum([w for w, found in weighed if found & _FIRST[k]]) / total for k in depths]


def _most_in_one(weighed: Sequence[tuple[float, int]]) -> float:
    """Highest share of the weight that one of the first passages has."""
    total = sum([weight for weight, _ in weighed])
    if not total:
        return 0.0
    return max(sum([w for w, found in weighed if found >> at & 1]) for at in range(SEEN)) / total
