"""Second hops: from a name in one of the first passages to the passage that it is the name of.

"Which shift has the fitter who smelled the oil?" is answered by a row of the staff list that shares
no word with the report in which the fitter is named. Such a passage is moved towards the head of
the ranking by the probability that it is evidence. The probability depends on four things: the rank
of the passage that has the name, how near the sentence with the name is to the question, which of
the question's words the new passage adds, and how rare the name is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from wye.backends.lexical import LexicalRetriever
from wye.backends.numerics import logistic, ranges
from wye.backends.trigraph.graph import FilteredGraph
from wye.backends.trigraph.retriever import TriGraphRetriever
from wye.backends.types import Float64, Int64, Mask, Query, WordCoverage

FIRST = 5
"""How many of the first passages are searched for names."""
MOST = 64
"""Most passages that are looked at for one question, those of the likeliest names."""
COMMON = 100
"""A name that more passages mention leads nowhere."""


@dataclass(frozen=True, slots=True)
class HopModel:
    """A logistic model of whether a named passage is evidence, and how far it is moved.

    The weights are rounded from a fit on train questions of 2WikiMultiHopQA, MuSiQue and HotpotQA
    (`python -m benchmarks hops`).

    Attributes:
        bias: Logit for the first passage, its nearest sentence and a name of its own.
        rank: Weight of the number of passages before the one that has the name.
        nearness: Weight of the sentence's cosine minus that of the nearest sentence.
        words: Weight of the share of the question's words, by idf, that the named passage has and
            the one that names it lacks.
        rarity: Weight of ln(number of passages that mention the name).
        share: How far a passage is moved towards the best score, for a probability of 1.
    """

    bias: float = 1.8
    rank: float = -0.45
    nearness: float = 4.4
    words: float = 8.4
    rarity: float = -1.2
    share: float = 0.8


HOPS = HopModel()


class Hop(NamedTuple):
    """A passage that a name leads to.

    Attributes:
        passage: Its id.
        probability: That it is evidence.
        name: The name.
        source: Id of the passage that has the name.
        sentence: Row of the sentence that has it.
        signals: What the probability depends on, in the order of `HopModel`'s weights.
    """

    passage: str
    probability: float
    name: str
    source: str
    sentence: int
    signals: tuple[float, float, float, float]


def second_hops(
    arm: TriGraphRetriever,
    lexical: LexicalRetriever,
    query: Query,
    first: Sequence[str],
    *,
    allowed: Mask | None = None,
    model: HopModel = HOPS,
) -> list[Hop]:
    """The passages to which names in the first ones lead, each once, likeliest first.

    Args:
        arm: The graph of the corpus.
        lexical: Knows the words of its passages.
        first: Ids of the first passages, best first.
        allowed: (n,) mask of the passages that may be named; None for all.
    """
    corpus, graph = arm.corpus, arm.graph
    filtered = FilteredGraph(graph, allowed)
    heads = np.array(corpus.rows(first[:FIRST]), np.int64)
    starts = np.searchsorted(corpus.sentence_passage, heads)
    ends = np.searchsorted(corpus.sentence_passage, heads, side="right")
    sentences = ranges(starts, ends)
    if not len(sentences):
        return []
    head_of = np.repeat(np.arange(len(heads)), ends - starts)
    near = corpus.sentence_vectors[sentences].astype(np.float32) @ query.vector
    position, entities = graph.mentions.entities.pairs(sentences)
    entities = entities.astype(np.int64)
    degree = filtered.degree(entities)
    titled, counts = filtered.titles(entities)
    pair = np.repeat(np.arange(len(entities)), counts)
    rows, head = titled.astype(np.int64), head_of[position[pair]]
    is_own = np.zeros(len(entities), bool)  # a name of the passage itself leads to no other
    is_own[pair[rows == heads[head]]] = True
    is_hop = ~is_own[pair] & (degree[pair] <= COMMON)
    pair, rows, head = pair[is_hop], rows[is_hop], head[is_hop]
    nearness = near[position[pair]].astype(np.float64) - float(near.max())
    commonness = np.log(np.maximum(degree[pair], 1))
    logits = model.rank * head + model.nearness * nearness + model.rarity * commonness
    best = _best_of_each(rows, logits)[:MOST]
    pair, rows, head, logits = pair[best], rows[best], head[best], logits[best]
    every = [*heads.tolist(), *rows.tolist()]
    coverage = lexical.words_in(query.text, every, [corpus.titles[row] for row in every])
    words = _added_words(coverage, len(heads), head)
    likelihood = logistic(model.bias + logits + model.words * words)
    signals = np.column_stack([head, nearness[best], words, commonness[best]])
    return [
        Hop(
            corpus.ids[rows[n]],
            float(likelihood[n]),
            graph.display_names.of(int(entities[pair[n]])),
            corpus.ids[heads[head[n]]],
            int(sentences[position[pair[n]]]),
            tuple(signals[n].tolist()),
        )
        for n in np.argsort(-likelihood, kind="stable").tolist()
    ]


def _best_of_each(rows: Int64, logits: Float64) -> Int64:
    """Positions of the highest logit of each row, highest first, ties by row."""
    order = np.lexsort((rows, -logits))
    _, first = np.unique(rows[order], return_index=True)
    return order[np.sort(first)]


def _added_words(coverage: Sequence[WordCoverage], heads: int, head: Int64) -> Float64:
    """Share of the question's words, by idf, that each named passage has and its head lacks.

    Args:
        coverage: The words of the first passages, then of the named ones.
        heads: Number of the first passages.
        head: (m,) position of each named passage's head.
    """
    added, total = np.zeros(len(head)), sum(word.weight for word in coverage)
    for word in coverage:
        has = np.array([word.texts >> n & 1 for n in range(heads + len(head))], bool)
        added += word.weight * (has[heads:] & ~has[head])
    return added / total if total else added
