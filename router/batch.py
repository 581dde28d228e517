"""A batch of questions against one version of an index: each model and arm runs once a question.

Here the featurizer's output becomes the backends' input; the two do not know each other.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property
from time import perf_counter
from typing import TYPE_CHECKING, Protocol

import numpy as np

from wye.backends.trigraph.explanation import Explanation
from wye.backends.trigraph.seeds import SeedStats
from wye.backends.types import Coverage, Float32, Float64, Mention, Query, Ranking, Scores
from wye.featurizer.analyser import Analyser, token_count
from wye.featurizer.encoder import EncodedText
from wye.featurizer.plan import Plan, plan_by_dependencies, with_names
from wye.featurizer.registry import FEATURE_NAMES, TREE_FEATURES, syntax_matrix
from wye.featurizer.types import Parse, Syntax
from wye.router.evidence import (
    CHEAP_SIGNALS,
    COLUMNS,
    DENSE_SIGNALS,
    FIRST_PASSAGES,
    FIRST_SCORES,
    SEED_SIGNALS,
    TEXT_SIGNALS,
    signals,
)
from wye.router.fusion import FusionSettings, fuse_text
from wye.router.policy import may_have_plan
from wye.router.routes import TEXT_ARMS
from wye.router.types import FURTHER, ArmResults, Route

if TYPE_CHECKING:
    from wye.backends.dense import DenseRetriever
    from wye.backends.lexical import LexicalRetriever
    from wye.backends.trigraph.retriever import TriGraphBatch
    from wye.router.policy import RoutingModel
    from wye.router.snapshot import Snapshot

LONGEST_STEPPED = 40  # most tokens of a question that goes in steps, in up to 10 searches

_BY_NAMES = frozenset({Route.GRAPH, *FURTHER})  # arms that start from the names in a question
_UNKNOWN = np.zeros(0, np.float32)


class Models(Protocol):
    """The models of a session, each loaded when it is first needed."""

    @property
    def analyser(self) -> Analyser:
        """Parses and encodes."""

    @property
    def router(self) -> "RoutingModel":
        """Decides the route of a question."""


class Batch:
    """Questions that are answered together, identified by their position.

    Parses, vectors, seeds, scores, rankings and walks are cached for the life of the batch, so
    nothing is computed twice for a question.

    Attributes:
        questions: The texts to search for.
        queries: The arms' input; vector and mentions are empty until they are known.
        encoded: Question -> its vector and token states, once they are encoded.
        arms: The version of the index.
        allowed: Mask (n,) of the passages that pass the filter; None for all.
        seconds: Time of each question by stage. Of work in another thread, only the time spent
            waiting for it counts.
    """

    def __init__(
        self,
        arms: "Snapshot",
        models: Models,
        questions: Sequence[str],
        fusion: FusionSettings,
        *,
        filter: object | None = None,  # noqa: A002 - the word that vector stores use
        ahead: Sequence[Route] = (),
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        """Apply the filter, or raise a `FilterError`; models and arms wait until they are needed.

        Those `ahead` will probably be searched, so that scores which they share are cached.
        """
        self.questions = questions
        self.queries = [Query(text, _UNKNOWN) for text in questions]
        self.encoded: dict[str, EncodedText] = {}
        self.seconds: list[dict[str, float]] = [{} for _ in questions]
        self.arms, self.models, self.fusion = arms, models, fusion
        self.filter, self.allowed = filter, arms.allowed(filter)
        # The graph's prior needs the dense arm's scores.
        self._ahead = {*ahead, *([Route.DENSE] if Route.GRAPH in ahead else [])}
        self._clock, self._counted = clock, 0.0
        self._encoding: Future[list[EncodedText]] | None = None
        self._has_vectors = False
        self._parses: dict[int, Parse] = {}
        self._syntax: dict[int, Syntax] = {}
        self._names: dict[int, Sequence[str]] = {}
        self._plans: dict[int, Plan] = {}
        self._has_mentions: set[int] = set()
        self._scores: dict[Route, dict[int, Scores]] = {Route.DENSE: {}, Route.LEXICAL: {}}
        self._rankings: dict[Route, dict[int, tuple[int, Ranking]]] = {}
        self._hybrid: dict[int, tuple[int, Ranking]] = {}
        self._coverage: dict[int, Coverage] = {}

    def take(self, queries: Sequence[Query]) -> None:
        """Use complete queries instead of the questions', so that no model runs for them."""
        self.queries, self._has_vectors = [*queries], True
        self._parses = {row: Parse(query.text, (), (), ()) for row, query in enumerate(queries)}
        self._has_mentions.update(self._parses)

    # The models

    def start(self) -> None:
        """Begin to encode and score by vector in the encoder's thread, and score by words here."""
        if self._has_vectors or self._encoding is not None:
            return
        self._encoding = self.models.analyser.beside(self._encode_and_score)
        if self._caches_scores(Route.LEXICAL):
            positions = range(len(self.questions))
            with self.stage(Route.LEXICAL, positions):
                self._score_missing(Route.LEXICAL, positions)

    def encode(self) -> None:
        """Have each question's vector: wait for the encoder, or run it if it was not begun."""
        if self._has_vectors:
            return
        with self.stage("encoding", range(len(self.questions))):
            encoded = self._encoding.result() if self._encoding else self._encode()
        self.encoded = dict(zip(self.questions, encoded, strict=True))
        vectors = [text.vector for text in encoded]
        self.queries[:] = map(lambda q, v: replace(q, vector=v), self.queries, vectors)
        self._has_vectors = True

    def _encode(self) -> list[EncodedText]:
        return self.models.analyser.encode_with_states(self.questions)

    def _encode_and_score(self) -> list[EncodedText]:
        encoded = self._encode()
        if self._caches_scores(Route.DENSE):
            queries = [Query(text.text, text.vector) for text in encoded]
            scores = self.arms.dense.scores(queries, self.allowed)
            self._scores[Route.DENSE].update(enumerate(scores))
        return encoded

    def parse(self, positions: Sequence[int], *, tokens: bool = False) -> None:
        """Parse questions that are not parsed yet, or lack tokens that are wanted."""
        parses = self._parses
        missing = [p for p in positions if p not in parses or (tokens and not parses[p].tokens)]
        if missing:
            with self.stage("parsing", missing):
                texts = [self.questions[position] for position in missing]
                new = self.models.analyser.parse_questions(texts, tokens=tokens)
            parses.update(zip(missing, new, strict=True))

    def may_have_plans(self, positions: Sequence[int]) -> list[int]:
        """Those of some questions that may have a plan, by their words, and are not too long."""
        short = [p for p in positions if token_count(self.questions[p]) <= LONGEST_STEPPED]
        return [position for position in short if may_have_plan(self.questions[position])]

    def plans(self, positions: Sequence[int]) -> dict[int, Plan]:
        """Plans by position, without questions that cannot have one or are too long.

        They come from dependencies, which need no further model; plans from constituency trees find
        nothing better. Names that the index knows stay whole in them.
        """
        likely = self.may_have_plans(positions)
        if likely:
            self.start()
            self.parse(likely, tokens=True)
            self.find_names(likely)
        with self.stage("steps", likely):
            return {position: self.plan(position) for position in likely}

    def plan(self, position: int) -> Plan:
        """The plan of a question; empty if it was not parsed with its tokens."""
        parse = self._parses.get(position)
        if parse is None or not parse.tokens:
            return Plan()
        if position not in self._plans:
            names = self._names.get(position, ())
            self._plans[position] = plan_of(self.questions[position], parse, names)
        return self._plans[position]

    def find_names(self, positions: Sequence[int]) -> None:
        """Find the names of entities in the words of some questions, for their plans."""
        with self.stage("seeds", positions):
            self._names.update((p, self.graph.names(p)) for p in positions)

    def syntax(self, positions: Sequence[int], *, trees: bool) -> list[Syntax]:
        """The syntax of some questions, which are parsed if needed."""
        self.parse(positions, tokens=True)
        cached = self._syntax
        missing = [p for p in positions if p not in cached or (trees and not cached[p].trees)]
        if missing:
            with self.stage("trees" if trees else "features", missing):
                parses = [self._parses[position] for position in missing]
                new = self.models.analyser.syntax_of(parses, trees=trees)
            cached.update(zip(missing, new, strict=True))
        return [cached[position] for position in positions]

    def find_mentions(self, positions: Sequence[int]) -> None:
        """Add the mentions of parsed questions to their queries."""
        missing = [position for position in positions if position not in self._has_mentions]
        names = {entity.text for p in missing for entity in self._parses[p].entities}
        unlinked = sorted(filter(self.arms.graph.needs_vector, names)) if names else []
        vectors: dict[str, Float32] = {}
        if unlinked:
            with self.stage("encoding", missing):
                rows = self.models.analyser.encode_surfaces(unlinked)
            vectors.update(zip(unlinked, rows, strict=True))
        for position in missing:
            mentions = _mentions(self._parses[position], vectors)
            self.queries[position] = replace(self.queries[position], mentions=mentions)
        self._has_mentions.update(missing)

    # The router's input

    def columns(
        self, names: Sequence[str], *, trees: bool = False, may_step: bool = False
    ) -> Float64:
        """The router's input, (n, len(COLUMNS)); NaN in columns without a name.

        Questions that may step, if these may, are parsed; `trees` also builds their trees.
        """
        needs, positions = _needs(tuple(names)), range(len(self.questions))
        columns = np.full((len(positions), len(COLUMNS)), np.nan)
        if needs.coverage or (needs.syntax and (needs.signals or self._ahead)):
            self.start()
        if needs.syntax:
            trees = trees or not TREE_FEATURES.isdisjoint(needs.syntax)
            syntaxes = self.syntax(positions, trees=trees)
            with self.stage("features", positions):
                columns[:, : len(FEATURE_NAMES)] = syntax_matrix(syntaxes, needs.syntax)
        if needs.coverage and not self._has_vectors:
            self._while_encoding(positions, may_step=may_step)
        if needs.signals:
            evidence = self.results(needs.arms, positions, self.fusion.depth, seeds=needs.seeds)
            if needs.coverage:
                pairs = zip(evidence, self.coverage(positions), strict=True)
                evidence = [replace(results, coverage=coverage) for results, coverage in pairs]
            with self.stage("routing", positions):
                columns[:, needs.columns] = signals(evidence, needs.signals)
        return columns

    def _while_encoding(self, positions: Sequence[int], *, may_step: bool) -> None:
        """What takes little time or none while the encoder runs in its thread.

        A single question that may have a plan is parsed, unless the parser is not loaded yet. With
        several questions the encoder keeps all processors busy, and it is better to parse only
        those that turn out to need it.
        """
        with self.stage("routing", positions):
            for position in positions:
                self.graph.needs_parse(position)  # looks the names up, and caches them
        if may_step and len(self.questions) == 1 and self.models.analyser.has_parser:
            self.parse(self.may_have_plans(positions), tokens=True)

    def coverage(self, positions: Sequence[int]) -> list[Coverage]:
        """How the first passages of the text arms cover some questions."""
        missing = [position for position in positions if position not in self._coverage]
        rankings = self.hybrid(missing, FIRST_SCORES)
        with self.stage("routing", missing):
            ids = [ranking.ids(FIRST_PASSAGES) for ranking in rankings]
            scores = [tuple(ranking.scores.tolist()) for ranking in rankings]
            words = self.arms.words_in([self.questions[position] for position in missing], ids)
            names = self.graph.names_in(missing, ids)
            self._coverage.update(zip(missing, map(Coverage, scores, words, names), strict=True))
        return [self._coverage[position] for position in positions]

    # The arms

    def prepare(self, positions: Sequence[int], arms: Collection[Route]) -> None:
        """Run the models whose output these arms need, where they have not run yet."""
        by_names = _BY_NAMES.intersection(arms)
        if not by_names and Route.DENSE not in arms:
            return
        if by_names:
            self.start()
        unnamed: Sequence[int] = positions if by_names else ()
        if by_names == {Route.GRAPH}:
            with self.stage("seeds", positions):
                unnamed = [p for p in positions if self.graph.needs_parse(p)]
        self.parse(unnamed)
        self.encode()
        self.find_mentions(unnamed)

    def seeds(self, positions: Sequence[int]) -> list[tuple[SeedStats, ...]]:
        """The seeds of some questions, without a walk."""
        self.prepare(positions, (Route.GRAPH,))
        with self.stage("seeds", positions):
            return self.graph.seeds(positions)

    def search(self, arm: Route, positions: Sequence[int], depth: int) -> list[Ranking]:
        """An arm's rankings for some questions, cut to `depth`; earlier ones are used again."""
        cached = self._rankings.setdefault(arm, {})
        missing = [position for position in positions if cached.get(position, (0,))[0] < depth]
        if missing:
            self.prepare(missing, (arm,))
            with self.stage(arm, missing):
                rankings = self._search(arm, missing, depth)
            cached.update((p, (depth, new)) for p, new in zip(missing, rankings, strict=True))
        return [_first(*cached[position], depth) for position in positions]

    def results(
        self, arms: Sequence[Route], positions: Sequence[int], depth: int, *, seeds: bool = False
    ) -> list[ArmResults]:
        """Rankings of some arms for some questions; with seeds for the graph, or if asked for."""
        starts = self.seeds(positions) if seeds or Route.GRAPH in arms else [()] * len(positions)
        rankings = {arm: self.search(arm, positions, depth) for arm in arms}
        each = [{arm: of[row] for arm, of in rankings.items()} for row in range(len(positions))]
        queries = [self.queries[position] for position in positions]
        return [*map(ArmResults, queries, starts, each)]

    def hybrid(self, positions: Sequence[int], k: int) -> list[Ranking]:
        """The fused rankings of the text arms for some questions."""
        cached = self._hybrid
        missing = [position for position in positions if cached.get(position, (0,))[0] < k]
        if missing:
            results = self.results(TEXT_ARMS, missing, max(k, self.fusion.depth))
            with self.stage("fusing", missing):
                rankings = fuse_text(results, self.fusion, k)
            cached.update((p, (k, new)) for p, new in zip(missing, rankings, strict=True))
        return [_first(*cached[position], k) for position in positions]

    def arms_of(self, position: int) -> dict[str, Ranking]:
        """Each arm's ranking for one question, by name, to the depth that it was searched to."""
        rankings = self._rankings.items()
        return {str(arm): rows[position][1] for arm, rows in rankings if position in rows}

    def explain(self, position: int, ranking: Ranking) -> Explanation | None:
        """Explain a ranking by the graph; None if that was not searched."""
        if position not in self._rankings.get(Route.GRAPH, {}):
            return None
        with self.stage("explaining", [position]):
            return self.graph.explain(position, ranking)

    @contextmanager
    def stage(self, name: str, positions: Sequence[int]) -> Iterator[None]:
        """Time the block, without stages in it, under a name, shared equally by questions."""
        start, before = self._clock(), self._counted
        yield
        spent = self._clock() - start - (self._counted - before)
        self._counted += spent
        share = spent / max(len(positions), 1)
        for position in positions:
            seconds = self.seconds[position]
            seconds[str(name)] = seconds.get(str(name), 0.0) + share

    @cached_property
    def graph(self) -> "TriGraphBatch":
        """The batch of the graph arm, with the same positions."""
        return self.arms.graph.batch(self.queries, self.allowed)

    def _search(self, arm: Route, positions: Sequence[int], depth: int) -> list[Ranking]:
        if arm == Route.GRAPH:
            dense, lexical = self._scores[Route.DENSE], self._scores[Route.LEXICAL]
            return self.graph.search(positions, depth, dense, lexical)
        queries = [self.queries[position] for position in positions]
        if arm in FURTHER:
            return self.arms.further(arm).search(queries, depth, self.allowed)
        retriever, scores = self._text_arm(arm), self._scores[arm]
        if self._caches_scores(arm):
            self._score_missing(arm, positions)
        if depth <= retriever.deepest and all(position in scores for position in positions):
            return [retriever.rank(scores[p], depth, self.allowed) for p in positions]
        return retriever.search(queries, depth, self.allowed)

    def _score_missing(self, arm: Route, positions: Sequence[int]) -> None:
        """Score passages with a text arm, for the questions without scores."""
        missing = [position for position in positions if position not in self._scores[arm]]
        queries = [self.queries[position] for position in missing]
        scores = self._text_arm(arm).scores(queries, self.allowed)
        self._scores[arm].update(zip(missing, scores, strict=True))

    def _caches_scores(self, arm: Route) -> bool:
        """Whether to cache a text arm's scores, because the graph will probably need them."""
        return {arm, Route.GRAPH} <= self._ahead and self._text_arm(arm).deepest > 0

    def _text_arm(self, arm: Route) -> "DenseRetriever | LexicalRetriever":
        return self.arms.dense if arm == Route.DENSE else self.arms.lexical


def plan_of(question: str, parse: Parse, names: Sequence[str] = ()) -> Plan:
    """The plan of a question parsed with its tokens, in which names, in their order, stay whole."""
    plan, spans = plan_by_dependencies(parse.tokens, parse.token_sentences), []
    end = 0
    for name in names:
        if (start := question.find(name, end)) >= 0:
            spans.append((start, end := start + len(name)))
    return with_names(plan, question, spans)


@dataclass(frozen=True, slots=True)
class _Needs:
    """What has to be computed for some columns."""

    syntax: frozenset[str]  # features of the question
    signals: tuple[str, ...]  # signals of the corpus, in order
    columns: list[int]  # indices of these signals in `COLUMNS`
    arms: tuple[Route, ...]  # arms that have to be searched
    seeds: bool  # whether seeds are needed
    coverage: bool  # whether the coverage of the first passages is needed


@cache
def _needs(names: tuple[str, ...]) -> _Needs:
    signals_ = tuple(name for name in CHEAP_SIGNALS if name in names)
    coverage, dense, seeds = (
        not set(group).isdisjoint(names) for group in (TEXT_SIGNALS, DENSE_SIGNALS, SEED_SIGNALS)
    )
    arms = TEXT_ARMS if coverage else (Route.DENSE,) if dense else ()
    columns = [COLUMNS.index(name) for name in signals_]
    syntax = frozenset(names).intersection(FEATURE_NAMES)
    return _Needs(syntax, signals_, columns, arms, seeds, coverage)


def _mentions(parse: Parse, vectors: Mapping[str, Float32]) -> tuple[Mention, ...]:
    """Named entities, then noun phrases, each once."""
    entities = dict.fromkeys(entity.text for entity in parse.entities)
    phrases = dict.fromkeys(phrase.key for phrase in parse.phrases)
    named = [Mention(text, "entity", vectors.get(text)) for text in entities]
    return (*named, *(Mention(key, "phrase") for key in phrases))


def _first(width: int, ranking: Ranking, depth: int) -> Ranking:
    """The first `depth` hits of a ranking of at most `width`."""
    return ranking if width <= depth else replace(ranking, hits=ranking.hits[:depth])
