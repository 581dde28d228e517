"""Given texts in the order that the route hybrid would give them, without an index of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from backends.lexical import LexicalRetriever
from backends.numerics import products, rank_rows
from backends.types import Float32, Passage, Query
from featurizer.analyser import Analyser
from featurizer.types import Steps
from router.fusion import FusionSettings, fuse_text
from router.relevance import Asked, RelevanceModel
from router.types import ArmResults, Route


@dataclass(frozen=True, slots=True)
class RankedText:
    """One of the texts that were given.

    Attributes:
        place: Among them, from 0.
        relevance: Probability that it is relevant, or, where none is known, its share of the
            best one's score; 0 to 1, never more than that of the text before it.
    """

    place: int
    relevance: float


@dataclass(frozen=True, slots=True)
class Reranker:
    """Ranks texts by cosine and BM25, with the document frequencies of one version of an index.

    Attributes:
        relevance: What makes probabilities of scores; None where nothing was fitted for them.
    """

    analyser: Analyser
    lexical: LexicalRetriever
    fusion: FusionSettings
    relevance: RelevanceModel | None

    def compare_in_steps(self, question: str, passages: Sequence[Passage]) -> Steps[Float32]:
        """(n,) cosines of a question and n passages; with pauses, in the models' thread."""
        asked = self.analyser.encode_questions([question])[0]
        return products((yield from self.analyser.encode_passages_in_steps(passages)), asked)

    def rank(
        self, question: str, passages: Sequence[Passage], cosines: Float32
    ) -> list[RankedText]:
        """All passages, best first, equal ones in the order given; in any thread.

        The curves of relevance are those of the dense route, whose scores do not depend on what
        else is ranked. Where they do not fall with the rank, neighbours share their mean.

        Args:
            cosines: (n,) as `compare_in_steps` gives them.
        """
        most = len(passages)
        ids = [f"{place:06}" for place in range(most)]
        bm25 = self.lexical.score_texts(question, [f"{one.title}\n{one.text}" for one in passages])
        lists = {
            Route.DENSE: rank_rows(Route.DENSE, ids, cosines, None, most),
            Route.LEXICAL: rank_rows(Route.LEXICAL, ids, bm25, np.flatnonzero(bm25 > 0), most),
        }
        results = ArmResults(Query(question, np.zeros(0, np.float32)), rankings=lists)
        (ranking,) = fuse_text([results], self.fusion, most)
        places = [int(hit.id) for hit in ranking.hits]
        if self.relevance is None:
            best = ranking.hits[0].score
            found = [hit.score / best if best > 0 else 0.0 for hit in ranking.hits]
        else:
            texts = [(passages[place].title, passages[place].text) for place in places]
            (judged,) = self.relevance.judge([Asked(question, Route.HYBRID, ranking, texts)])
            found = falling(judged.relevance)
        return list(map(RankedText, places, found))


def falling(values: Sequence[float]) -> list[float]:
    """The nearest values, by least squares, that never rise: neighbours that do share their mean.

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
