"""Second hops: from a name in one of the first passages to the passage that it is the name of.

"Which shift has the fitter who smelled the oil?" is answered by a row of the staff list that shares
no word with the report in which the fitter is named. Such a passage is moved towards the head of
the ranking by the probability that it is evidence. The probability depends on five things: the rank
of the passage that has the name, how near the sentence with the name is to the question, which of
the question's words that sentence has and which the new passage adds, and how rare the name is. A
name that few passages mention, such as a number of an order, leads to those as well. So does a day
to the row of a table that it names, in whatever notation, if the question ties two things by time.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from wye.backends.lexical import LexicalRetriever
from wye.backends.numerics import logistic, products_of, ranges
from wye.backends.text import folded_words, split_sentences, words_of
from wye.backends.trigraph.definitions import day_keys
from wye.backends.trigraph.graph import FilteredGraph
from wye.backends.trigraph.retriever import TriGraphRetriever
from wye.backends.types import Float64, Int64, Mask, Query

FIRST = 5
"""How many of the first passages are searched for names."""
MOST = 64
"""Most passages that are looked at for one question, those of the likeliest names."""
RARE = 3
"""A name that at most so many passages mention leads to these, whatever their titles."""
COMMON = 100
"""A name that more passages mention leads nowhere."""
_TIMED = re.compile(
    r"(?<=\w )when\b|\b(?:date|day|evening|morning|night|shift|week)s?\b", re.IGNORECASE
)
"""What ties two things by time. Only then a day leads from one passage to another."""


@dataclass(frozen=True, slots=True)
class HopModel:
    """A logistic model of whether a named passage is evidence, and how far it is moved.

    The weights are rounded from a fit on train questions of 2WikiMultiHopQA, MuSiQue, HotpotQA and
    `service/demo_work`; `docs/results.md` has its figures.

    Attributes:
        bias: Logit for the first passage, its nearest sentence and a name of its own.
        rank: Weight of the number of passages before the one that has the name.
        nearness: Weight of the sentence's cosine minus that of the nearest sentence.
        linked: Weight of the share of the question's words, by idf, that the sentence has.
        rarity: Weight of ln(number of passages that mention the name).
        mention: Added where the passage only mentions the name.
        words: Weight of the share that the named passage has and the one that names it lacks.
        share: How far a passage is moved towards the best score, for a probability of 1.
    """

    bias: float = 0.2
    rank: float = -0.3
    nearness: float = 3.2
    linked: float = 2.5
    rarity: float = -1.4
    mention: float = -2.8
    words: float = 11.8
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
    """

    passage: str
    probability: float
    name: str
    source: str
    sentence: int


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
    starts, ends = graph.sentence_starts[heads], graph.sentence_starts[heads + 1]
    sentences = ranges(starts, ends)
    if not len(sentences):
        return []
    head_of = np.repeat(np.arange(len(heads)), ends - starts)
    near = products_of(corpus.sentence_vectors, sentences, query.vector)
    position, mentioned = graph.mentions.pairs(sentences)
    # Sentences are read from disk, which takes more time than all else, so only for days.
    texts = corpus.sentence_texts(sentences) if _TIMED.search(query.text) else ()
    days = [(n, graph.keys.find(key)) for n, text in enumerate(texts) for key in day_keys(text)]
    of_day = np.array([pair for pair in days if pair[1] >= 0], np.int64).reshape(-1, 2)
    position = np.concatenate([position, of_day[:, 0]])
    entities = np.concatenate([mentioned, of_day[:, 1]], dtype=np.int64)
    degree = filtered.degree(entities)
    pair, rows, is_titled = _named(filtered, entities, degree)
    head = head_of[position[pair]]
    is_own = np.zeros(len(entities), bool)  # of a title of the passage itself, no other is the page
    is_own[pair[is_titled & (rows == heads[head])]] = True
    documents = np.array([corpus.documents[row] for row in [*heads.tolist(), *rows.tolist()]])
    is_other = documents[len(heads) :] != documents[head]
    is_hop = is_other & (degree[pair] <= COMMON) & ~(is_titled & is_own[pair])
    pair, rows, head, is_titled = pair[is_hop], rows[is_hop], head[is_hop], is_titled[is_hop]
    nearness = near[position[pair]].astype(np.float64) - float(near.max())
    commonness = np.log(np.maximum(degree[pair], 1))
    weights = lexical.word_weights(query.text)
    if texts:
        shares = np.array([_share(_terms_in(text, weights), weights) for text in texts])
        linked = shares[position[pair]]
    else:
        said = [[*_said(text, weights)] for text in corpus.texts(heads)]
        pairs = [*zip(head.tolist(), entities[pair].tolist(), strict=True)]
        share_of = {
            (at, entity): max((share for text, share in said[at] if key in text), default=0.0)
            for at, entity in {*pairs}
            for key in [graph.keys[entity]]
        }
        linked = np.array([*map(share_of.__getitem__, pairs)], np.float64)
    known = np.column_stack([head, nearness, linked, commonness, ~is_titled])
    logits = known @ [model.rank, model.nearness, model.linked, model.rarity, model.mention]
    best = _best_of_each(rows, logits)[:MOST]
    pair, rows, head = pair[best], rows[best], head[best]
    every = [*heads.tolist(), *rows.tolist()]
    coverage = lexical.words_in(query.text, every, ())
    has = [{word.term for word in coverage if word.texts >> n & 1} for n in range(len(every))]
    added = zip(head.tolist(), has[len(heads) :], strict=True)
    words = np.array([_share(of_row - has[at], weights) for at, of_row in added])
    likelihood = logistic(model.bias + logits[best] + model.words * words)
    return [
        Hop(
            corpus.ids[rows[n]],
            float(likelihood[n]),
            graph.display_names.of(int(entities[pair[n]])),
            corpus.ids[heads[head[n]]],
            int(sentences[position[pair[n]]]),
        )
        for n in np.argsort(-likelihood, kind="stable").tolist()
    ]


def _named(filtered: FilteredGraph, entities: Int64, degree: Int64) -> tuple[Int64, Int64, Mask]:
    """Passages that each of some entities is a title of, and those that mention rare ones.

    Returns:
        (p,) position of the entity, the passage's row, and whether it has the name as a title.
    """
    titled, counts = filtered.titles(entities)
    rare = np.flatnonzero(degree <= RARE)
    mentioned, lengths = filtered.mentions(entities[rare])
    pair = [np.repeat(np.arange(len(entities)), counts), np.repeat(rare, lengths)]
    is_titled = np.arange(len(titled) + len(mentioned)) < len(titled)
    return np.concatenate(pair), np.concatenate([titled, mentioned], dtype=np.int64), is_titled


def _best_of_each(rows: Int64, logits: Float64) -> Int64:
    """Positions of the highest logit of each row, highest first, ties by row."""
    order = np.lexsort((rows, -logits))
    _, first = np.unique(rows[order], return_index=True)
    return order[np.sort(first)]


def _said(text: str, weights: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    """The sentences of a text in small letters, with the share of the question's words in each."""
    for line in text.splitlines():
        for sentence in split_sentences(line):
            yield sentence.casefold(), _share(_terms_in(sentence, weights), weights)


def _terms_in(text: str, terms: Iterable[str]) -> Set[str]:
    """Those of some terms that a text has."""
    words = {*folded_words(text)}
    return {term for term in terms if not words.isdisjoint(words_of(term))}


def _share(words: Set[str], weights: Mapping[str, float]) -> float:
    """The share of weighted words, by weight, that are among some words."""
    shared = sum([weight for word, weight in weights.items() if word in words])
    return shared / (sum(weights.values()) or 1.0)
