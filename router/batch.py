"""One batch of questions against one version: each arm asked once for each."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cache
from typing import Protocol

import numpy as np

from backends.coverage import Coverage, NameCoverage, WordCoverage
from backends.trigraph.explanation import Explanation
from backends.trigraph.seeds import SeedStats
from backends.types import Float32, Float64, Mask, Query, Ranking, Retriever, Scores
from featurizer.registry import FEATURE_NAMES
from router.fusion import FusionSettings, fuse_text
from router.query_performance import CHEAP_SIGNALS, DENSE_SIGNALS, SEED_SIGNALS, signals
from router.reading import QuestionReading
from router.steps import Passages
from router.text_evidence import SCORED, SEEN, TEXT_SIGNALS
from router.types import FURTHER, ArmResults, Route

_TEXT = (Route.DENSE, Route.LEXICAL)
_BY_NAMES = frozenset({Route.GRAPH, *FURTHER})
"""Arms that go by what a question names."""


class TextArm(Retriever, Protocol):
    """An arm whose scores the graph's prior is made of."""

    @property
    def deepest(self) -> int:
        """So many passages of `rank` of `scores` are what `search` gives; 0 where none are."""
        ...

    def scores(self, queries: Sequence[Query], allowed: Mask | None = None) -> list[Scores]:
        """Scores of the passages for each question, as far as the arm looks at them."""
        ...

    def rank(self, scores: Scores, k: int, allowed: Mask | None = None) -> Ranking:
        """At most k passages by these scores."""
        ...


class GraphBatch(Protocol):
    """What only the graph can do: say where it starts, and how it came to its ranking."""

    def needs_parse(self, place: int) -> bool:
        """Whether mentions that a parser finds bear on where a question's walk starts."""
        ...

    def seeds(self, place: int) -> tuple[SeedStats, ...]:
        """Where a question's walk starts, known without walking."""
        ...

    def names_in(self, place: int, ids: Sequence[str]) -> tuple[NameCoverage, ...]:
        """The names that stand in the words of a question, among a few passages."""
        ...

    def search(
        self,
        places: Sequence[int],
        k: int,
        similarities: Mapping[int, Scores],
        lexical: Mapping[int, Scores],
    ) -> list[Ranking]:
        """At most k passages for some of the questions, with the scores that are known of them."""
        ...

    def explain(self, place: int, ranking: Ranking) -> Explanation:
        """How the passages of a ranking came to their places."""
        ...


class GraphArm(Protocol):
    """The graph arm, which keeps what it finds for the questions of a batch."""

    def needs_vector(self, mention: str) -> bool:
        """Whether a tagged mention can only be linked by its vector."""
        ...

    def batch(self, queries: Sequence[Query], allowed: Mask | None) -> GraphBatch:
        """Questions to be asked together; each is read when it is first asked for."""
        ...


class FurtherArm(Retriever, Protocol):
    """An arm that is asked only where it is named."""

    def explain(self, query: Query, ranking: Ranking, allowed: Mask | None) -> Explanation:
        """How the passages of a ranking came to their places."""
        ...


class Arms(Protocol):
    """One version of an index, as the gateway needs it; `router.session.Snapshot` is one."""

    version: int

    def __len__(self) -> int:
        """How many passages there are."""
        ...

    @property
    def passages(self) -> Passages:
        """What steps look at in what was found."""
        ...

    def texts(self, ids: Sequence[str]) -> list[tuple[str, str]]:
        """Title and text of passages, in the order asked for."""
        ...

    @property
    def dense(self) -> TextArm:
        """The dense arm."""
        ...

    @property
    def lexical(self) -> TextArm:
        """The lexical arm."""
        ...

    @property
    def graph(self) -> GraphArm:
        """The graph arm."""
        ...

    def further(self, arm: Route) -> FurtherArm:
        """An arm that is asked only where it is named."""
        ...

    def allowed(self, filter_: object | None) -> Mask | None:
        """The passages that a metadata filter lets through."""
        ...

    def words_in(self, text: str, ids: Sequence[str]) -> tuple[WordCoverage, ...]:
        """The content words of a question among a few passages."""
        ...


class Batch:
    """Questions on their way through one version of an index.

    Seeds, scores of passages, rankings and walks are kept for as long as the batch, so that
    nothing is computed twice for a question. Questions are named by their place in the batch.

    Attributes:
        reading: What the models found so far.
    """

    def __init__(
        self,
        arms: Arms,
        reading: QuestionReading,
        filter_: object | None,
        ahead: Sequence[Route] = (),
        fusion: FusionSettings | None = None,
    ) -> None:
        """Nothing is read or searched yet.

        Args:
            ahead: Arms that are likely to be asked in the end.
            fusion: How the text arms' lists become one; None for the defaults.

        Raises:
            FilterError: The filter is not well formed.
        """
        self.reading = reading
        self._arms = arms
        self._allowed = arms.allowed(filter_)
        # The graph's prior is made of similarities.
        self._ahead = {*ahead, *([Route.DENSE] if Route.GRAPH in ahead else [])}
        self._fusion = fusion or FusionSettings()
        self._texts: dict[int, tuple[int, Ranking]] = {}
        self._covered: dict[int, Coverage] = {}
        self._graph: GraphBatch | None = None
        self._starts: dict[int, tuple[SeedStats, ...]] = {}
        self._rankings: dict[Route, dict[int, tuple[int, Ranking]]] = {}
        self._scores: dict[Route, dict[int, Scores]] = {Route.DENSE: {}, Route.LEXICAL: {}}
        self._signals = np.full((len(reading.questions), len(CHEAP_SIGNALS)), np.nan)

    def prepare(
        self, places: Sequence[int], arms: Collection[Route], *, tokens: bool = False
    ) -> None:
        """Have the models read what these arms go by, as far as they have not.

        Args:
            tokens: Whether the tokens of the questions will be wanted too.
        """
        by_names = _BY_NAMES.intersection(arms)
        unnamed: Sequence[int] = places if by_names else ()
        if by_names == {Route.GRAPH}:
            with self.stage("seeds", places):
                unnamed = [place for place in places if self._on_graph.needs_parse(place)]
        if unnamed or tokens:
            self._read(places if tokens else unnamed, tokens=tokens, vectors=True)
        if by_names or Route.DENSE in arms:
            self.reading.encode()
        if unnamed:
            self.reading.find_mentions(unnamed, self._arms.graph.needs_vector)

    def columns(
        self, places: Sequence[int], names: Sequence[str], *, trees: bool = False
    ) -> Float64:
        """(len(places), len(NAMES)) what a router looks at, NaN for what it has not asked for.

        Args:
            names: Columns that it looks at next.
            trees: Whether trees of questions that are parsed are wanted as well.
        """
        wanted = _wanted(tuple(names))
        if wanted.syntax:
            self._read(places, tokens=True, vectors=bool(wanted.signals or self._ahead))
        features = self.reading.features(places, wanted.syntax, trees=trees)
        if wanted.signals:
            depth = self._fusion.depth
            evidence = self.results(wanted.arms, places, depth, seeds=wanted.seeds)
            if wanted.coverage:
                coverage = self.coverage(places)
                evidence = list(map(with_coverage, evidence, coverage))
            with self.stage("routing", places):
                found = signals(evidence, wanted.signals)
                self._signals[np.ix_(places, wanted.columns)] = found
        return np.concatenate([features, self._signals[places]], axis=1)

    def hybrid(self, places: Sequence[int], k: int) -> list[Ranking]:
        """The text arms' lists as one, for some of the questions."""
        missing = [place for place in places if self._texts.get(place, (0,))[0] < k]
        if missing:
            results = self.results(_TEXT, missing, max(k, self._fusion.depth))
            with self.stage("fusing", missing):
                found = fuse_text(results, self._fusion, k)
            self._texts.update((p, (k, one)) for p, one in zip(missing, found, strict=True))
        return [_cut(self._texts[place][1], k) for place in places]

    def coverage(self, places: Sequence[int]) -> list[Coverage]:
        """What the first passages of the text arms hold of some of the questions."""
        missing = [place for place in places if place not in self._covered]
        rankings = self.hybrid(missing, SCORED)
        with self.stage("routing", missing):
            for place, ranking in zip(missing, rankings, strict=True):
                ids = [hit.id for hit in ranking.hits[:SEEN]]
                self._covered[place] = Coverage(
                    tuple(hit.score for hit in ranking.hits[:SCORED]),
                    self._arms.words_in(self.reading.questions[place], ids),
                    self._on_graph.names_in(place, ids),
                )
        return [self._covered[place] for place in places]

    def seeds(self, places: Sequence[int]) -> list[tuple[SeedStats, ...]]:
        """Where the graph's walk starts for some of the questions, known without walking."""
        self.prepare(places, (Route.GRAPH,))
        with self.stage("seeds", places):
            self._starts.update((place, self._on_graph.seeds(place)) for place in places)
        return [self._starts[place] for place in places]

    def known_seeds(self, place: int) -> tuple[SeedStats, ...] | None:
        """The same if anybody asked for them."""
        return self._starts.get(place)

    def search(self, arm: Route, places: Sequence[int], depth: int) -> list[Ranking]:
        """What an arm finds for some of the questions; what it found before is not sought again."""
        known = self._rankings.setdefault(arm, {})
        missing = [place for place in places if known.get(place, (0,))[0] < depth]
        if missing:
            self.prepare(missing, (arm,))
            with self.stage(arm, missing):
                found = self._ask(arm, missing, depth)
            known.update((p, (depth, ranking)) for p, ranking in zip(missing, found, strict=True))
        return [_cut(known[place][1], depth) for place in places]

    def results(
        self, arms: Sequence[Route], places: Sequence[int], depth: int, *, seeds: bool = False
    ) -> list[ArmResults]:
        """What some arms say about some of the questions; seeds too, where the graph is asked.

        Args:
            seeds: Whether seeds are wanted of a graph that is not asked.
        """
        starts = self.seeds(places) if seeds or Route.GRAPH in arms else [()] * len(places)
        found = {arm: self.search(arm, places, depth) for arm in arms}
        queries = self.reading.queries
        return [
            ArmResults(queries[p], starts[row], {arm: of[row] for arm, of in found.items()})
            for row, p in enumerate(places)
        ]

    def arms_of(self, place: int) -> dict[str, Ranking]:
        """What each arm found for one question, by name, as deep as it was asked for."""
        return {
            str(arm): of_arm[place][1] for arm, of_arm in self._rankings.items() if place in of_arm
        }

    def explain(self, place: int, ranking: Ranking) -> Explanation | None:
        """How the graph, or a further arm, came to a ranking; None where neither was asked."""
        walked = [arm for arm in (Route.GRAPH, *FURTHER) if place in self._rankings.get(arm, {})]
        if not walked:
            return None
        with self.stage("explaining", [place]):
            if walked[0] == Route.GRAPH:
                return self._on_graph.explain(place, ranking)
            query = self.reading.queries[place]
            return self._arms.further(walked[0]).explain(query, ranking, self._allowed)

    def stage(self, name: str, places: Sequence[int]) -> AbstractContextManager[None]:
        """Count the time of what runs inside, shared equally by these questions."""
        return self.reading.stage(str(name), places)

    @property
    def _on_graph(self) -> GraphBatch:
        if self._graph is None:
            self._graph = self._arms.graph.batch(self.reading.queries, self._allowed)
        return self._graph

    def _read(self, places: Sequence[int], *, tokens: bool, vectors: bool) -> None:
        """Parse, and encode beside it if vectors will be wanted too."""
        if vectors:
            self.reading.encode_beside(self._score)
        self.reading.parse(places, tokens=tokens)

    def _score(self, vectors: Float32) -> None:
        """Score passages for the text arms, beside the parser: the graph's prior takes that."""
        for arm in (Route.DENSE, Route.LEXICAL):
            if self._keeps(arm):
                queries = list(map(Query, self.reading.questions, vectors))
                found = self._text_arm(arm).scores(queries, self._allowed)
                self._scores[arm].update(enumerate(found))

    def _keeps(self, arm: Route) -> bool:
        """Whether scores of passages are worth keeping, since the graph is likely to follow."""
        return {arm, Route.GRAPH} <= self._ahead and self._text_arm(arm).deepest > 0

    def _text_arm(self, arm: Route) -> TextArm:
        return self._arms.dense if arm == Route.DENSE else self._arms.lexical

    def _ask(self, arm: Route, places: Sequence[int], depth: int) -> list[Ranking]:
        if arm == Route.GRAPH:
            dense, lexical = self._scores[Route.DENSE], self._scores[Route.LEXICAL]
            return self._on_graph.search(places, depth, dense, lexical)
        queries = self.reading.queries
        if arm in FURTHER:
            asked = [queries[place] for place in places]
            return self._arms.further(arm).search(asked, depth, self._allowed)
        retriever, kept = self._text_arm(arm), self._scores[arm]
        if self._keeps(arm):
            missing = [place for place in places if place not in kept]
            scores = retriever.scores([queries[place] for place in missing], self._allowed)
            kept.update(zip(missing, scores, strict=True))
        if depth <= retriever.deepest and all(place in kept for place in places):
            return [retriever.rank(kept[place], depth, self._allowed) for place in places]
        return retriever.search([queries[place] for place in places], depth, self._allowed)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What has to be found for some columns.

    Attributes:
        syntax: Features of the question.
        signals: Of the corpus, in order.
        columns: Of these, among all cheap signals.
        arms: That have to be asked.
        seeds: Whether seeds are.
        coverage: Whether the first passages are looked into.
    """

    syntax: frozenset[str]
    signals: tuple[str, ...]
    columns: list[int]
    arms: tuple[Route, ...]
    seeds: bool
    coverage: bool


@cache
def _wanted(names: tuple[str, ...]) -> _Wanted:
    own = tuple(name for name in CHEAP_SIGNALS if name in names)
    coverage, dense, seeds = (
        not set(group).isdisjoint(names) for group in (TEXT_SIGNALS, DENSE_SIGNALS, SEED_SIGNALS)
    )
    arms = _TEXT if coverage else (Route.DENSE,) if dense else ()
    columns = [CHEAP_SIGNALS.index(name) for name in own]
    return _Wanted(
        frozenset(names).intersection(FEATURE_NAMES), own, columns, arms, seeds, coverage
    )


def with_coverage(results: ArmResults, coverage: Coverage) -> ArmResults:
    """The same with what the first passages of the text arms hold of the question."""
    return replace(results, coverage=coverage)


def _cut(ranking: Ranking, depth: int) -> Ranking:
    return ranking if len(ranking.hits) <= depth else replace(ranking, hits=ranking.hits[:depth])
