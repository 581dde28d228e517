"""Fakes of all that a gateway needs: arms, an analyser and a router."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from wye.backends.trigraph.explanation import Explanation
from wye.backends.trigraph.hops import Hop
from wye.backends.trigraph.seeds import SeedStats
from wye.backends.types import (
    Float32,
    Float64,
    Int64,
    Mask,
    NameCoverage,
    Query,
    RankedHit,
    Ranking,
    Scores,
    WordCoverage,
    bits,
)
from wye.featurizer.analyser import Analyser
from wye.featurizer.constituency.tree import Tree
from wye.featurizer.encoder import EncodedText, pool_spans
from wye.featurizer.types import Parse, Span, Syntax, T, Token
from wye.router.evidence import COLUMNS
from wye.router.policy import Policy, RoutingModel, decide
from wye.router.snapshot import Snapshot
from wye.router.types import Decision, Route, Thresholds

Log = list[tuple[str, list[str], int]]
"""Calls of arms: the arm, its questions, and k."""


class FakeArm:
    """Ranks the passages p0, p1, … in this order, or in the reverse one as the graph arm."""

    deepest = 0

    def __init__(self, name: str, count: int, log: Log) -> None:
        self.name = name
        self._count = count
        self._log = log

    def search(
        self, queries: Sequence[Query], k: int, allowed: Mask | None = None
    ) -> list[Ranking]:
        self._log.append((self.name, [query.text for query in queries], k))
        ids = [f"p{n}" for n in range(self._count) if allowed is None or allowed[n]][:k]
        if self.name == Route.GRAPH:
            ids.reverse()
        hits = tuple(RankedHit(id_, 1 / rank, rank) for rank, id_ in enumerate(ids, start=1))
        return [Ranking(self.name, hits, self._count) for _ in queries]

    def word_weights(self, _question: str) -> dict[str, float]:
        return {}

    def respelt(self, questions: list[str], _is_word: Callable[[str], bool]) -> list[str]:
        return questions


class FakeGraph:
    """A graph arm that ranks like `FakeArm`."""

    def __init__(self, count: int, log: Log) -> None:
        self._arm = FakeArm(Route.GRAPH, count, log)

    def batch(self, queries: Sequence[Query], allowed: Mask | None) -> "FakeGraphBatch":
        return FakeGraphBatch(self._arm, queries, allowed)


class FakeGraphBatch:
    """A batch for which each whole question is a seed and a name that all passages mention."""

    def __init__(self, arm: FakeArm, queries: Sequence[Query], allowed: Mask | None) -> None:
        self._arm, self._queries, self._allowed = arm, queries, allowed

    def needs_parse(self, place: int) -> bool:
        del place
        return True

    def names(self, place: int) -> list[str]:
        return [self._queries[place].text]

    def seeds(self, places: Sequence[int]) -> list[tuple[SeedStats, ...]]:
        texts = [self._queries[place].text for place in places]
        return [(SeedStats(text, 1.0, "name", 1, 0),) for text in texts]

    def names_in(
        self, places: Sequence[int], ids: Sequence[Sequence[str]]
    ) -> list[tuple[NameCoverage, ...]]:
        texts = [self._queries[place].text for place in places]
        return [
            (NameCoverage(text, 1.0, 1, 0, 0, bits([True] * len(own))),)
            for text, own in zip(texts, ids, strict=True)
        ]

    def search(
        self,
        places: Sequence[int],
        k: int,
        similarities: Mapping[int, Scores],
        lexical: Mapping[int, Scores],
    ) -> list[Ranking]:
        del similarities, lexical
        return self._arm.search([self._queries[place] for place in places], k, self._allowed)

    def explain(self, place: int, ranking: Ranking) -> Explanation:
        del place, ranking
        return Explanation((), (), ())


class FakeArms:
    """A version with some passages; any filter excludes the first one.

    The passages have no sentences; the title of p0 is "Name a", of p1 "Name b", and so on.
    """

    corpus = None
    version = 3

    def __init__(self, count: int = 4) -> None:
        self.log: Log = []
        self._count = count
        self.dense = FakeArm(Route.DENSE, count, self.log)
        self.lexical = FakeArm(Route.LEXICAL, count, self.log)
        self.graph = FakeGraph(count, self.log)

    @property
    def snapshot(self) -> Snapshot:
        return cast("Snapshot", self)

    def __len__(self) -> int:
        return self._count

    def for_batch(self, most: int) -> Snapshot:
        del most
        return self.snapshot

    def further(self, arm: Route) -> FakeArm:
        return FakeArm(arm, self._count, self.log)

    def allowed(self, filter_: object | None) -> Mask | None:
        return None if filter_ is None else np.arange(self._count) > 0

    def texts(self, ids: Sequence[str]) -> list[tuple[str, str]]:
        return [(f"Name {id_[1:]}", f"Passage number {id_[1:]}") for id_ in ids]

    def nearest(self, ids: Sequence[str], vector: Float32) -> list[float]:
        assert vector.ndim == 1
        return [0.5] * len(ids)

    def words_in(
        self, texts: Sequence[str], ids: Sequence[Sequence[str]]
    ) -> list[tuple[WordCoverage, ...]]:
        return [
            tuple(WordCoverage(word, 1.0, 0, bits([True] * len(own))) for word in text.split())
            for text, own in zip(texts, ids, strict=True)
        ]

    def second_hops(
        self, question: str, vector: Float32, first: Sequence[str], *, allowed: Mask | None
    ) -> list[Hop]:
        del question, vector, first, allowed
        return []

    def names(self, id_: str, vector: Float32, sentences: int) -> list[tuple[str, int]]:
        del vector, sentences
        return [(f"Name {chr(ord('a') + int(id_[1:]))}", -1)]

    def mask(self, ids: Sequence[str], rows: Int64) -> Mask:
        return np.isin(np.arange(self._count), [int(ids[row][1:]) for row in rows])

    @property
    def asked(self) -> list[tuple[str, int, int]]:
        return [(name, len(texts), k) for name, texts, k in self.log]


class FakeAnalyser(Analyser):
    """Makes a token of each word, and the same vector for every text; records its calls.

    Attributes:
        calls: Each call with its number of questions.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []

    def is_word(self, _word: str) -> bool:
        return True

    def encode_questions(self, texts: Sequence[str]) -> Float32:
        self.calls.append(("encode", len(texts)))
        return np.ones((len(texts), 2), np.float32)

    def encode_with_states(self, texts: Sequence[str]) -> list[EncodedText]:
        vectors = self.encode_questions(texts)
        return [
            EncodedText(text, vector, np.ones((1, 2), np.float32), ((0, len(text)),))
            for text, vector in zip(texts, vectors, strict=True)
        ]

    def encode_parts(self, encoded: EncodedText, spans: Sequence[Span]) -> Float32:
        return pool_spans(encoded.states, encoded.offsets, spans)

    def parse_questions(self, texts: Sequence[str], *, tokens: bool = False) -> list[Parse]:
        self.calls.append(("parse", len(texts)))
        return [
            Parse(text, (), (), (), _tokens(text) if tokens else (), ((0, len(text.split())),))
            for text in texts
        ]

    def syntax_of(self, parses: Sequence[Parse], *, trees: bool = True) -> list[Syntax]:
        if not trees:
            return super().syntax_of(parses, trees=False)
        self.calls.append(("trees", len(parses)))
        built = [Tree("ROOT", (Tree("X", (Tree(parse.text),)),)) for parse in parses]
        return [
            Syntax(parse.tokens, parse.token_sentences, (tree,))
            for parse, tree in zip(parses, built, strict=True)
        ]

    def beside(self, work: Callable[[], T]) -> "Future[T]":
        done: Future[T] = Future()
        done.set_result(work())
        return done


def _tokens(text: str) -> tuple[Token, ...]:
    return tuple(
        Token(word, word, "NN", "NOUN", "dep", place, (0, 1), "", False, False)
        for place, word in enumerate(text.split())
    )


class ByLength(RoutingModel):
    """Sends questions with up to 3 letters per word to dense, with 5 or more to the graph."""

    def __init__(self, steps: float = 0.0) -> None:
        self.seen: list[Float64] = []
        self.policy = Policy(Thresholds(0.4, 0.6, steps))

    @property
    def needs(self) -> tuple[str, ...]:
        return ("word_length_max",)

    def decide(
        self, features: Float64, *, nested: Sequence[bool] | None = None, explain: bool = False
    ) -> list[Decision]:
        self.seen.append(features)
        scores = self.score(features)
        borders = self.policy.thresholds
        reason = f"{explain}"
        inner = nested or [False] * len(scores)
        apart = [s > borders.low or own for s, own in zip(scores, inner, strict=True)]
        return [
            Decision(decide(s, borders), s, 0.0, borders, reason, planned=planned)
            for s, planned in zip(scores, (borders.steps > 0 and one for one in apart), strict=True)
        ]

    def score(self, features: Float64) -> list[float]:
        return [min(own / 8, 1.0) for own in column(features, "word_length_max")]


@dataclass
class FakeModels:
    """Models that are loaded already."""

    analyser: Analyser = field(default_factory=FakeAnalyser)
    router: RoutingModel = field(default_factory=ByLength)


def column(features: Float64, name: str) -> list[float]:
    return features[:, COLUMNS.index(name)].tolist()  # type: ignore[no-any-return]
