"""Ranks texts that come with a question as the route hybrid would, without indexing them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wye.backends.lexical import LexicalRetriever
from wye.backends.numerics import products_of, rank_rows
from wye.backends.types import Float32, Passage, Query
from wye.featurizer.analyser import Analyser
from wye.featurizer.types import Steps
from wye.router.fusion import FusionSettings, fuse_text
from wye.router.match import RouteRanking
from wye.router.relevance import RelevanceModel
from wye.router.types import ArmResults, Route


@dataclass(frozen=True, slots=True)
class RankedText:
    """A text in the ranking, whose relevance is never higher than that of the text before it."""

    position: int  # its position among the texts, from 0
    relevance: float  # probability or, without a relevance model, share of the best score


@dataclass(frozen=True, slots=True)
class Reranker:
    """Ranks texts by cosine and BM25, with the document frequencies of one version of an index.

    `relevance` turns scores into probabilities; None if no model was fitted to these scores.
    """

    analyser: Analyser
    lexical: LexicalRetriever
    fusion: FusionSettings
    relevance: RelevanceModel | None

    def compare_in_steps(self, question: str, passages: Sequence[Passage]) -> Steps[Float32]:
        """Cosines (n,) of a question and n passages, in steps; runs in the models' thread."""
        vector = self.analyser.encode_questions([question])[0]
        vectors = yield from self.analyser.encode_passages_in_steps(passages)
        return products_of(vectors, np.arange(len(vectors)), vector)

    def rank(
        self, question: str, passages: Sequence[Passage], cosines: Float32
    ) -> list[RankedText]:
        """Rank passages by cosines (n,), best first, ties in their order; may run in any thread.

        Relevance uses the curves for few passages, whose scores do not depend on the other texts.
        Neighbours whose relevance would rise with the rank share their mean.
        """
        count = len(passages)
        ids = [f"{position:06}" for position in range(count)]
        bm25 = self.lexical.score_texts(question, [f"{p.title}\n{p.text}" for p in passages])
        lists = {
            Route.DENSE: rank_rows(Route.DENSE, ids, cosines, None, count),
            Route.LEXICAL: rank_rows(Route.LEXICAL, ids, bm25, np.flatnonzero(bm25 > 0), count),
        }
        results = ArmResults(Query(question, np.zeros(0, np.float32)), rankings=lists)
        (ranking,) = fuse_text([results], self.fusion, count)
        positions = [int(hit.id) for hit in ranking.hits]
        if self.relevance is None:
            best = ranking.hits[0].score
            relevance = [hit.score / best if best > 0 else 0.0 for hit in ranking.hits]
        else:
            texts = [(passages[p].title, passages[p].text) for p in positions]
            weights = self.lexical.word_weights(question)
            to_judge = RouteRanking(question, Route.HYBRID, ranking, texts, weights=weights)
            (judgement,) = self.relevance.judge([to_judge])
            relevance = falling(judgement.relevance)
        return list(map(RankedText, positions, relevance))


def falling(values: Sequence[float]) -> list[float]:
    """The nearest non-increasing values by least squares; neighbours that rise share their mean.

    Source: the pool-adjacent-violators algorithm (Ayer et al. 1955).
    """
    pools: list[tuple[float, int]] = []
    for value in values:
        mean, size = value, 1
        while pools and pools[-1][0] < mean:
            other, more = pools.pop()
            mean, size = (mean * size + other * more) / (size + more), size + more
        pools.append((mean, size))
    return [mean for mean, size in pools for _ in range(size)]
