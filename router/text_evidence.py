"""What the text arms found for a question, as numbers: known before anything is parsed.

Whether the graph would make an answer better shows in what dense and lexical search found already:
how far their best passages stand out, whether both found the same ones, and how much of what the
question says and names stands in the first passages. None of it depends on the size of the corpus
or on an arm's own scale, and none needs a parse, so a question that the text arms answer costs
nothing more.
"""

import math
import re
from collections.abc import Mapping, Sequence

from backends.coverage import Coverage, NameCoverage
from backends.lexical import content_terms
from backends.types import Ranking
from backends.words import tokenise
from router.types import ArmResults, Route

SEEN = 5
"""First passages of the text arms' ranking that are looked into: what a reader is given."""
SCORED = 10
"""First hits of a list that are looked at; a deeper list says the same."""

_DENSE_SPREAD = 0.05
_LEXICAL_SPREAD = 0.1
_DEPTHS = (1, 3, 5)
_TITLE_DEPTHS = (1, 2, 3, 5)
_FIRST = {count: (1 << count) - 1 for count in range(1, SEEN + 1)}
"""Count -> bits of so many first passages."""
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
    "text_dense_margin_3": "How much nearer the best of the dense list is than the third.",
    "text_dense_margin_10": "How much nearer it is than the tenth.",
    "text_dense_entropy": "Evenness of the ten best cosines, from 0 (one stands out) to 1.",
    "text_lexical_best": "Best BM25 score over the summed weights of the question's words.",
    **{
        f"text_lexical_margin_{k}": f"Share of that score by which it is above passage {k}."
        for k in _MARGINS
    },
    "text_lexical_entropy": "Evenness of the ten best BM25 scores, from 0 to 1.",
    **{
        f"text_hybrid_margin_{k}": f"How far the best of both lists together is above passage {k}."
        for k in _MARGINS
    },
    **{
        f"text_agreement_{k}": f"Share of the first {k} that dense and lexical have in common."
        for k in (1, 3, 5, 10)
    },
    "text_dense_in_lexical": "Standing of the dense best in the lexical list, 1 at its head.",
    "text_lexical_in_dense": "Standing of the lexical best in the dense list, likewise.",
}
_WORDS = {
    **{
        f"words_title_{k}": f"Share of the question's words, by idf, in titles of the first {k}."
        for k in _DEPTHS
    },
    **{f"words_text_{k}": f"The same in the titles and texts of the first {k}." for k in _DEPTHS},
    "words_together": "The same in that of the first five which holds most of them.",
    "rest_share": "Weighted share of the question's words that are part of no known name.",
    "rest_count": "How many these are.",
    **{
        f"rest_text_{k}": f"Weighted share of them in the first {k}; 1 without any."
        for k in _DEPTHS
    },
}
_QUESTION = {
    "question_words": "Content words of the question.",
    "question_tokens": "Words and marks of the question.",
    "question_of": "How often the question says 'of'.",
    "question_and": "How often it says 'and' or 'or'.",
    "question_possessives": "How many words it has with 's.",
    "question_commas": "How many commas it has.",
    "question_relatives": "How often it says who, which, that, when or the like after its start.",
    "question_prepositions": "How often it says in, by, from or the like.",
    "question_articles": "How often it says a, an or the.",
    "question_auxiliaries": "How often it says is, did, has or the like after its start.",
}
_NAMES = {
    "names_count": "ln(1 + known names that stand in the question's words).",
    "names_value_best": "How sure the surest of them is; 0 without any.",
    "names_value_sum": "The same of all of them, added up.",
    "names_lower_case": "Share of them that the question writes without a capital.",
    **{
        f"names_title_{k}": f"Share of them that are titles of the first {k}, by how sure they are."
        for k in _DEPTHS
    },
    **{f"names_text_{k}": f"Share of them that the first {k} mention, likewise." for k in _DEPTHS},
    "names_together": "Share of them in that of the first five which has most of them.",
    "names_degree_least": "ln(1 + passages that mention the rarest of them).",
    "names_degree_most": "The same of the commonest.",
    "names_specificity": "How sure a name is over the passages that mention it, at best.",
    "titled_value": "How sure the surest is of those that are titles; 0 where none is.",
    "titled_sum": "The same of all of those, added up.",
    "titled_uniqueness": "The same over the passages that have it for a title, at best.",
    "titled_degree": "ln(1 + passages that mention the rarest of those).",
    **{
        f"titled_found_{k}": f"Share of those that are titles of the first {k}."
        for k in (1, 2, 3, 5)
    },
    **{
        f"titled_missing_{k}": f"Values of those that are no title of the first {k}, added up."
        for k in (1, 2, 3, 5)
    },
    "untitled_sum": "Values of names that are no title, added up.",
    "untitled_text_5": "Share of those that the first five mention.",
    **{
        f"passages_titled_{k}": f"How many of the first {k} have a name of the question as title."
        for k in (1, 2, 3, 5)
    },
    "passages_naming_5": "How many of the first five mention a name of the question.",
}
TEXT_MEANINGS: Mapping[str, str] = {**_LISTS, **_WORDS, **_QUESTION, **_NAMES}
"""Of each signal, in order."""
TEXT_SIGNALS = tuple(TEXT_MEANINGS)
LIST_SIGNALS = frozenset(_LISTS)
"""Those that are about the lists of the text arms."""
WORD_SIGNALS = frozenset(_WORDS)
"""Those that are about the question's words in the first passages."""
NAME_SIGNALS = frozenset(_NAMES)
"""Those that are about names."""
QUESTION_SIGNALS = frozenset(_QUESTION)
"""Those that are about the question's own words, whatever was found."""


_NO_NAMES = (0.0,) * len(_NAMES)


def text_signals(evidence: ArmResults) -> list[float]:
    """The `TEXT_SIGNALS` of a question, in order; whatever is not there counts as 0.

    Args:
        evidence: With both text arms' lists, and how the first passages cover the question.
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
    near, worded = ([hit.id for hit in one.hits[:SCORED]] for one in (dense, lexical))
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
    """The best score less that of some places, or of the last where there are fewer."""
    return [scores[0] - scores[:k][-1] if scores else 0.0 for k in places]


def _entropy(scores: Sequence[float], spread: float) -> float:
    """Entropy of the softmax of scores over `spread`, as a share of the most there can be."""
    if len(scores) < 2:
        return 0.0
    weights = [math.exp((score - scores[0]) / spread) for score in scores]
    total = sum(weights)
    shares = [weight / total for weight in weights]
    return -sum(share * math.log(share) for share in shares if share) / math.log(len(shares))


def _standing(ids: Sequence[str], others: Sequence[str]) -> float:
    """1 where the first of a list heads the other, falling with its rank there to 0."""
    if not ids or ids[0] not in others:
        return 0.0
    return 1 - math.log(others.index(ids[0]) + 1) / math.log(len(others) + 1)


def _shares(weighed: Sequence[tuple[float, int]], depths: Sequence[int]) -> list[float]:
    """Weight of what the first passages have over all weight, by depth; 0 of nothing.

    Args:
        weighed: Weights, each with a bit for every passage.
    """
    total = sum([weight for weight, _ in weighed])
    if not total:
        return [0.0] * len(depths)
    return [sum([w for w, found in weighed if found & _FIRST[k]]) / total for k in depths]


def _most_in_one(weighed: Sequence[tuple[float, int]]) -> float:
    """The same in that of the first passages which has most of it."""
    total = sum([weight for weight, _ in weighed])
    if not total:
        return 0.0
    return max(sum([w for w, found in weighed if found >> at & 1]) for at in range(SEEN)) / total
