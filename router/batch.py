"""A batch of questions against one version of an index; each arm runs at most once a question."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Protocol

import numpy as np

from wye.backends.trigraph.explanation import Explanation
from wye.backends.trigraph.seeds import SeedStats
from wye.backends.types import (
    Coverage,
    Float32,
    Float64,
    Mask,
    NameCoverage,
    Query,
    Ranking,
    Retriever,
    Scores,
    WordCoverage,
)
from wye.featurizer.registry import FEATURE_NAMES
from wye.router.evidence import (
    CHEAP_SIGNALS,
    DENSE_SIGNALS,
    FIRST_PASSAGES,
    FIRST_SCORES,
    SEED_SIGNALS,
    TEXT_SIGNALS,
    signals,
)
from wye.router.fusion import FusionSettings, fuse_text
from wye.router.reading import QuestionReading
from wye.router.steps import Passages
from wye.router.types import FURTHER, ArmResults, Route

_TEXT = (Route.DENSE, Route.LEXICAL)
_BY_NAMES = frozenset({Route.GRAPH, *FURTHER})
"""Arms that start from the names in a question."""


class TextArm(Retriever, Protocol):
    """A text arm, whose scores also make the graph's prior."""

    @property
    def deepest(self) -> int:
        """Up to this k, `rank` of `scores` equals `search`; 0 where it never does."""
        ...

    def scores(self, queries: Sequence[Query], allowed: Mask | None = None) -> list[Scores]:
        """Scores of each question's passages: all, or those that the arm preselects."""
        ...

    def rank(self, scores: Scores, k: int, allowed: Mask | None = None) -> Ranking:
        """The k passages with the highest scores."""
        ...


class GraphBatch(Protocol):
    """The graph arm's work on one batch; only the graph has seeds and explanations."""

    def needs_parse(self, place: int) -> bool:
        """Whether the mentions that a parser finds could change a question's seeds."""
        ...

    def names(self, place: int) -> list[str]:
        """Names of entities in a question's words, of several words or spelt as names."""
        ...

    def seeds(self, places: Sequence[int]) -> list[tuple[SeedStats, ...]]:
        """The seeds of some questions, found without walking."""
        ...

    def names_in(
        self, places: Sequence[int], ids: Sequence[Sequence[str]]
    ) -> list[tuple[NameCoverage, ...]]:
        """How some passages of each question cover the names that are spelt out in it."""
        ...

    def search(
        self,
        places: Sequence[int],
        k: int,
        similarities: Mapping[int, Scores],
        lexical: Mapping[int, Scores],
    ) -> list[Ranking]:
        """At most k passages for some questions.

        Args:
            similarities: The dense arm's scores by position, where known.
            lexical: The lexical arm's.
        """
        ...

    def explain(self, place: int, ranking: Ranking) -> Explanation:
        """Why the passages of a ranking have their ranks."""
        ...


class GraphArm(Protocol):
    """The graph arm."""

    def needs_vector(self, mention: str) -> bool:
        """Whether a tagged mention can only be linked by its vector."""
        ...

    def batch(self, queries: Sequence[Query], allowed: Mask | None) -> GraphBatch:
        """Begin a batch, which keeps what is found; a query is read when first needed."""
        ...


class FurtherArm(Retriever, Protocol):
    """An arm that is asked only where it is named."""

    def explain(self, query: Query, ranking: Ranking, allowed: Mask | None) -> Explanation:
        """Why the passages of a ranking have their ranks."""
        ...


class Arms(Protocol):
    """One version of an index, as the gateway needs it; `wye.router.session.Snapshot` is one."""

    version: int

    def __len__(self) -> int:
        """How many passages there are."""
        ...

    @property
    def passages(self) -> Passages:
        """Access to the names and sentences of passages, for steps."""
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
        """Mask of the passages that pass a metadata filter; None where all pass."""
        ...

    def words_in(
        self, texts: Sequence[str], ids: Sequence[Sequence[str]]
    ) -> list[tuple[WordCoverage, ...]]:
        """How some passages of each question cover its content words."""
        ...


class Batch:
    """Questions that are answered together from one version of an index.

    Seeds, scores, rankings and walks are kept for the life of the batch, so nothing is computed
    twice for a question. Questions are identified by their position in the batch (`place`).

    Attributes:
        reading: What the models found in the questions so far.
    """

    def __init__(
        self,
        arms: Arms,
        reading: QuestionReading,
        filter_: object | None,
        ahead: Sequence[Route] = (),
        fusion: FusionSettings | None = None,
    ) -> None:
        """Apply the filter; reading and searching wait until they are needed.

        Args:
            ahead: Arms that will probably be asked, so that scores they share are kept.
            fusion: How the text arms are fused; None for the defaults.

        Raises:
            FilterError: The filter is not well formed.
        """
        self.reading = reading
        self._arms = arms
        self._allowed = arms.allowed(filter_)
        # The graph's prior needs the dense arm's scores.
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
        """Run the models whose output these arms need, where they have not run yet.

        Args:
            tokens: Also keep the tokens of the questions.
        """
        by_names = _BY_NAMES.intersection(arms)
        unnamed: Sequence[int] = places if by_names else ()
        if by_names == {Route.GRAPH}:
            with self.stage("seeds", places):
                unnamed = [place for place in places if self._on_graph.needs_parse(place)]
        if unnamed or tokens:
            self._read(places if tokens else unnamed, tokens=tokens, vectors=True)
        if by_names or Route.DENSE in arms:
            self._begin_encoding()
            self.reading.encode()
        if unnamed:
            self.reading.find_mentions(unnamed, self._arms.graph.needs_vector)

    def find_names(self, places: Sequence[int]) -> None:
        """Tell the reading which names are in the words of some questions, for their plans."""
        with self.stage("seeds", places):
            self.reading.named.update((place, self._on_graph.names(place)) for place in places)

    def columns(
        self, places: Sequence[int], names: Sequence[str], *, trees: bool = False
    ) -> Float64:
        """The router's input, (len(places), len(NAMES)); NaN in columns nobody asked for yet.

        Args:
            names: Columns that the router needs next.
            trees: Also build the trees of questions that are parsed.
        """
        wanted = _wanted(tuple(names))
        if wanted.syntax:
            self._read(places, tokens=True, vectors=bool(wanted.signals or self._ahead))
        features = self.reading.features(places, wanted.syntax, trees=trees)
        if wanted.coverage and self._begin_encoding():
            with self.stage("routing", places):
                for place in places:
                    self._on_graph.needs_parse(place)  # finds the names, which are kept
            if self.reading.states:  # some may go in steps
                self.reading.parse_meanwhile()
        if wanted.signals:
            depth = self._fusion.depth
            evidence = self.results(wanted.arms, places, depth, seeds=wanted.seeds)
            if wanted.coverage:
                covered = zip(evidence, self.coverage(places), strict=True)
                evidence = [replace(one, coverage=coverage) for one, coverage in covered]
            with self.stage("routing", places):
                found = signals(evidence, wanted.signals)
                self._signals[np.ix_(places, wanted.columns)] = found
        return np.concatenate([features, self._signals[places]], axis=1)

    def hybrid(self, places: Sequence[int], k: int) -> list[Ranking]:
        """The fused rankings of the text arms for some questions."""
        missing = [place for place in places if self._texts.get(place, (0,))[0] < k]
        if missing:
            results = self.results(_TEXT, missing, max(k, self._fusion.depth))
            with self.stage("fusing", missing):
                found = fuse_text(results, self._fusion, k)
            self._texts.update((p, (k, one)) for p, one in zip(missing, found, strict=True))
        return [_cut(self._texts[place][1], k) for place in places]

    def coverage(self, places: Sequence[int]) -> list[Coverage]:
        """How the first passages of the text arms cover some questions."""
        missing = [place for place in places if place not in self._covered]
        rankings = self.hybrid(missing, FIRST_SCORES)
        with self.stage("routing", missing):
            ids = [ranking.ids(FIRST_PASSAGES) for ranking in rankings]
            scores = [tuple(ranking.scores.tolist()) for ranking in rankings]
            words = self._arms.words_in([self.reading.questions[p] for p in missing], ids)
            names = self._on_graph.names_in(missing, ids)
            self._covered.update(zip(missing, map(Coverage, scores, words, names), strict=True))
        return [self._covered[place] for place in places]

    def seeds(self, places: Sequence[int]) -> list[tuple[SeedStats, ...]]:
        """The seeds of some questions, found without walking."""
        self.prepare(places, (Route.GRAPH,))
        with self.stage("seeds", places):
            self._starts.update(zip(places, self._on_graph.seeds(places), strict=True))
        return [self._starts[place] for place in places]

    def search(self, arm: Route, places: Sequence[int], depth: int) -> list[Ranking]:
        """An arm's rankings for some questions, cut to `depth`; earlier ones are used again."""
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
        """Rankings of some arms for some questions, with seeds where the graph is among them.

        Args:
            seeds: Find seeds even if the graph is not among them.
        """
        starts = self.seeds(places) if seeds or Route.GRAPH in arms else [()] * len(places)
        found = {arm: self.search(arm, places, depth) for arm in arms}
        queries = self.reading.queries
        return [
            ArmResults(queries[p], starts[row], {arm: of[row] for arm, of in found.items()})
            for row, p in enumerate(places)
        ]

    def arms_of(self, place: int) -> dict[str, Ranking]:
        """Each arm's ranking for one question, by name, to the depth that it was asked for."""
        return {
            str(arm): of_arm[place][1] for arm, of_arm in self._rankings.items() if place in of_arm
        }

    def explain(self, place: int, ranking: Ranking) -> Explanation | None:
        """Explain a ranking by the graph or a further arm; None if neither was asked."""
        walked = [arm for arm in (Route.GRAPH, *FURTHER) if place in self._rankings.get(arm, {})]
        if not walked:
            return None
        with self.stage("explaining", [place]):
            if walked[0] == Route.GRAPH:
                return self._on_graph.explain(place, ranking)
            query = self.reading.queries[place]
            return self._arms.further(walked[0]).explain(query, ranking, self._allowed)

    def stage(self, name: str, places: Sequence[int]) -> AbstractContextManager[None]:
        """Time the block under a stage's name, in equal shares for these questions."""
        return self.reading.stage(str(name), places)

    @property
    def _on_graph(self) -> GraphBatch:
        if self._graph is None:
            self._graph = self._arms.graph.batch(self.reading.queries, self._allowed)
        return self._graph

    def _read(self, places: Sequence[int], *, tokens: bool, vectors: bool) -> None:
        """Parse; encode in parallel if vectors will be needed too."""
        if vectors:
            self.reading.encode_beside(partial(self._score, _TEXT))
        self.reading.parse(places, tokens=tokens)

    def _begin_encoding(self) -> bool:
        """Encode in parallel, and score by words meanwhile, if the graph will probably follow.

        Returns:
            Whether it was begun now.
        """
        score = partial(self._score, (Route.DENSE,))
        if not (self._keeps(Route.LEXICAL) and self.reading.encode_beside(score)):
            return False
        places = range(len(self.reading.questions))
        with self.stage(Route.LEXICAL, places):
            self._score_missing(Route.LEXICAL, places)
        return True

    def _score(self, arms: Sequence[Route], vectors: Float32) -> None:
        """Score passages with text arms in the encoder's thread, for the graph's prior."""
        for arm in filter(self._keeps, arms):
            queries = list(map(Query, self.reading.questions, vectors))
            found = self._text_arm(arm).scores(queries, self._allowed)
            self._scores[arm].update(enumerate(found))

    def _score_missing(self, arm: Route, places: Sequence[int]) -> None:
        """Score passages with a text arm, for the questions without scores."""
        kept = self._scores[arm]
        missing = [place for place in places if place not in kept]
        queries = [self.reading.queries[place] for place in missing]
        scores = self._text_arm(arm).scores(queries, self._allowed)
        kept.update(zip(missing, scores, strict=True))

    def _keeps(self, arm: Route) -> bool:
        """Whether to keep an arm's scores, because the graph will probably need them."""
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
            self._score_missing(arm, places)
        if depth <= retriever.deepest and all(place in kept for place in places):
            return [retriever.rank(kept[place], depth, self._allowed) for place in places]
        return retriever.search([queries[place] for place in places], depth, self._allowed)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What has to be computed for some columns.

    Attributes:
        syntax: Features of the question.
        signals: Signals of the corpus, in order.
        columns: Indices of these signals in `CHEAP_SIGNALS`.
        arms: Arms that have to be asked.
        seeds: Whether seeds are needed.
        coverage: Whether the coverage of the first passages is needed.
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


def _cut(ranking: Ranking, depth: int) -> Ranking:
    return ranking if len(ranking.hits) <= depth else replace(ranking, hits=ranking.hits[:depth])
