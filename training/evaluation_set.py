"""The questions of several replays in one set, with the quality and time of each route."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from joblib import Memory
from numpy.typing import NDArray

from wye.backends.types import Float64, Int64, Mask, Ranking
from wye.featurizer.analyser import open_syntax_parser
from wye.featurizer.constituency.parser import SyntaxParser
from wye.featurizer.registry import syntax_matrix
from wye.router.evidence import COLUMNS, schema_id, share_at_hand, with_corpus
from wye.router.fusion import FusionSettings, fuse_all, fuse_text, stages_of
from wye.router.policy import SURE, bands, follows_names, is_nested, may_have_plan
from wye.router.scorer import UNFAMILIAR_SCORE
from wye.router.settings import Settings
from wye.router.types import ArmResults, Route, Thresholds
from wye.training.errors import TrainingError
from wye.training.measures import DEPTH, MEASURES, QUALITY, score
from wye.training.replay import RemoteReplay, Replay, Replayed
from wye.training.thresholds import Outcome, RouteOutcomes, outcome_of

SIMPLE_ROUTES = (Route.DENSE, Route.LEXICAL, Route.HYBRID)  # the possible simple ones walk no graph
BLOCK = 64  # questions whose features are in one file
STEPS_CODE = 3  # the code of steps, beside those of the other routes in `wye.router.policy.bands`


@dataclass(frozen=True)
class EvaluationSet:
    """The questions of several replays, concatenated."""

    replays: tuple[Replay, ...]
    features: Float64  # (n, d) float64
    deciding: tuple[str, ...] = ("parsing", "encoding")  # see `wye.router.evidence.stages`
    names: tuple[str, ...] = COLUMNS
    fusion: FusionSettings = field(default_factory=FusionSettings)  # steps keep theirs
    _measures: dict[Route, Float64] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def load(
        cls, replays: Sequence[Replay], cache: Path, settings: Settings, deciding: tuple[str, ...]
    ) -> "EvaluationSet":
        """Load replays with every column that a router may use; a `TrainingError` for none."""
        rows = [row for replay in replays for row in replay.questions]
        if not rows:
            raise TrainingError("There are no questions to compute features of.")
        parser = open_syntax_parser(settings.analyser)
        features = [
            syntax_features([row.question.text for row in replay.questions], cache, parser)
            for replay in replays
            if len(replay)
        ]
        columns = with_corpus(np.concatenate(features), [row.run.results for row in rows])
        return cls(tuple(replays), columns, deciding, fusion=settings.fusion)

    def __len__(self) -> int:
        """Number of questions; one that is asked of two indexes counts twice."""
        return sum(len(replay) for replay in self.replays)

    def only(self, rows: Mask) -> "EvaluationSet":
        """Some of the questions, (n,) bool."""
        mask = iter(rows.tolist())
        replays = [
            replace(replay, questions=tuple(row for row in replay.questions if next(mask)))
            for replay in self.replays
        ]
        return replace(
            self,
            replays=tuple(replay for replay in replays if len(replay)),
            features=self.features[rows],
            _measures={route: values[rows] for route, values in self._measures.items()},
        )

    @cached_property
    def questions(self) -> list[Replayed]:
        """The replayed questions."""
        return [row for replay in self.replays for row in replay.questions]

    @property
    def _remote(self) -> list[RemoteReplay]:
        """What remote arms returned for each question; empty without any."""
        return [row.remote for row in self.questions if row.remote is not None]

    @property
    def results(self) -> list[ArmResults]:
        """What the arms returned for each question."""
        return [row.run.results for row in self.questions]

    @property
    def texts(self) -> list[str]:
        """The text of each question."""
        return [row.question.text for row in self.questions]

    @property
    def groups(self) -> NDArray[np.str_]:
        """(n,) the dataset that each question comes from, whichever index it is asked of."""
        return np.array([row.question.group for row in self.questions], dtype=np.str_)

    @property
    def origins(self) -> NDArray[np.str_]:
        """(n,) the dataset of the replay that each question is in."""
        return np.repeat(
            [replay.dataset for replay in self.replays], [len(replay) for replay in self.replays]
        )

    def rankings(self, route: Route, scores: Float64 | None = None) -> list[Ranking]:
        """A route's ranking for each question; `scores` (n,) are for a fusion that uses them."""
        if self._remote and route not in SIMPLE_ROUTES:
            return [reply.fused for reply in self._remote]
        results = self.results
        unknown: list[float | None] = [None] * len(self)
        if route == Route.FUSION:
            known = unknown if scores is None else scores.tolist()
            return fuse_all(results, self.fusion, known, DEPTH)
        if route == Route.HYBRID:
            return fuse_text(results, self.fusion, DEPTH)
        if route == Route.STEPS:  # without a plan and names to follow, by fusion, without a score
            fused = fuse_all(results, self.fusion, unknown, DEPTH)
            return [row.run.steps or one for row, one in zip(self.questions, fused, strict=True)]
        return [each.rankings[route] for each in results]

    def values_of(self, route: Route, scores: Float64 | None = None) -> Float64:
        """(n, m) every measure of a route's rankings, columns as in `MEASURES`.

        Arguments are those of `rankings`. The result is kept, since measuring takes most of the
        time when many thresholds are tried.
        """
        if scores is not None and route == Route.FUSION and self.fusion.method != "adaptive":
            return self._measured(self.rankings(route, scores))
        if route not in self._measures:
            self._measures[route] = self._measured(self.rankings(route))
        return self._measures[route]

    def _measured(self, rankings: Sequence[Ranking]) -> Float64:
        rest = iter(rankings)
        values = []
        for replay in self.replays:  # ids of questions are unique in each
            run = {row.question.id: next(rest).ids() for row in replay.questions}
            values.append(score({row.question.id: row.gold for row in replay.questions}, run))
        return np.concatenate(values)

    def quality_of(self, route: Route, scores: Float64 | None = None) -> Float64:
        """(n,) the nDCG@10 of a route's rankings; arguments as for `rankings`."""
        quality: Float64 = self.values_of(route, scores)[:, MEASURES.index(QUALITY)]
        return quality

    def latency_ms(
        self, route: Route, *, routed: bool = True, parsed: Mask | None = None
    ) -> Float64:
        """(n,) milliseconds that a route takes.

        Args:
            routed: Whether a router decided, whose stages count too.
            parsed: (n,) which questions are parsed to see whether they have a plan; None for none.
        """
        decided = self.deciding if routed else ()
        if self._remote:  # then only the text arms of our own are asked
            text = self._stages_ms({*decided, *_reading(Route.HYBRID), *stages_of(Route.HYBRID)})
            calls = np.array([reply.ms for reply in self._remote])
            return text if route in SIMPLE_ROUTES else text + calls
        stages = {*decided, *_reading(route), *stages_of(route)}
        latencies = self._stages_ms(stages)
        if "parsing" not in stages:
            read = np.zeros(len(self), np.bool_) if parsed is None else parsed.copy()
            if route == Route.STEPS:
                read |= self._may_have_plan
            if Route.GRAPH in stages:
                # the graph has questions with mentions parsed
                read |= np.array([bool(each.query.mentions) for each in self.results], np.bool_)
            latencies[read] += self._stages_ms({"parsing"})[read]
        return latencies

    def _stages_ms(self, stages: Collection[str]) -> Float64:
        times = [row.run.seconds for row in self.questions]
        return np.array([1000 * sum(ms.get(stage, 0.0) for stage in stages) for ms in times])

    @property
    def planned(self) -> Mask:
        """(n,) which questions have a plan."""
        return np.array([row.run.planned for row in self.questions], np.bool_)

    def takes_steps(self, steps: float, scores: Float64) -> Mask:
        """(n,) which questions go in steps if their score is above the low threshold.

        Of those that the scorer does not know, only those with nested descriptions do.
        """
        is_open = np.array([row.run.open for row in self.questions], np.bool_)
        unknown: Mask = is_open & (scores == UNFAMILIAR_SCORE)
        return self.planned & self._needs_more(steps) & ~unknown

    def follows(self, steps: float, route: Route = Route.FUSION) -> Mask:
        """(n,) which questions without a plan go in steps where a route would be taken."""
        needs_more = self._needs_more(steps) & ~self.planned
        return needs_more & self._follows[route] if needs_more.any() else needs_more

    @cached_property
    def _follows(self) -> dict[Route, Mask]:
        rows = (row.run.rows for row in self.questions)
        known = [*zip(share_at_hand(self.features), rows, strict=True)]
        routes = (Route.HYBRID, Route.FUSION)
        return {r: np.array([follows_names(r, *row) for row in known], np.bool_) for r in routes}

    def parsed(self, scores: Float64, steps: float) -> Mask:
        """(n,) which questions are parsed to see whether they have a plan."""
        return self.unsure(scores) & self._may_have_plan & self._needs_more(steps)

    @cached_property
    def _may_have_plan(self) -> Mask:
        return np.array([*map(may_have_plan, self.texts)], np.bool_)

    def unsure(self, scores: Float64, least: float = SURE) -> Mask:
        """(n,) which questions are looked at for a plan even where the simple route is taken."""
        return (scores > least) | self._nested

    @cached_property
    def _nested(self) -> Mask:
        return np.array([*map(is_nested, self.texts)], np.bool_)

    def _needs_more(self, steps: float) -> Mask:
        if steps in (0, 1):
            return np.full(len(self), bool(steps))
        return share_at_hand(self.features) < steps

    def in_steps(self, scores: Float64, steps: float) -> Mask:
        """(n, 3) where a question goes in steps instead of by a simple route, fusion, the graph."""
        planned = self.takes_steps(steps, scores)
        simple = (planned | self.follows(steps, Route.HYBRID)) & self.unsure(scores)
        return np.stack([simple, planned | self.follows(steps), planned], axis=1)

    def codes(self, scores: Float64, thresholds: Thresholds) -> Int64:
        """(n,) the route that each question takes: 0 simple, 1 fusion, 2 graph, 3 steps."""
        codes = bands(scores, thresholds)
        in_steps = self.in_steps(scores, thresholds.steps)[np.arange(len(self)), codes]
        return np.where(in_steps, STEPS_CODE, codes)

    def fixed(self, simple: Route) -> dict[str, Outcome]:
        """Route -> outcome of always taking it: the simple one, fusion, the graph, and steps."""
        return {
            str(route): outcome_of(
                self.quality_of(route), self.latency_ms(route), np.full(len(self), code)
            )
            for code, route in enumerate((simple, Route.FUSION, Route.GRAPH, Route.STEPS))
        }

    def outcomes(
        self, scores: Float64, simple: Route, steps: float = 0.0, *, timed: bool = True
    ) -> RouteOutcomes:
        """Quality and time of the simple route, fusion and the graph, to solve thresholds with.

        Where steps would be taken by the threshold `steps`, their quality replaces the route's, and
        so does their time if `timed`.
        """
        routes, in_steps = (simple, Route.FUSION, Route.GRAPH), self.in_steps(scores, steps)
        parsed = self.parsed(scores, steps)
        quality = np.stack([self.quality_of(route, scores) for route in routes], axis=1)
        latency = np.stack([self.latency_ms(route, parsed=parsed) for route in routes], axis=1)
        quality = np.where(in_steps, self.quality_of(Route.STEPS)[:, None], quality)
        if timed:
            latency = np.where(in_steps, self.latency_ms(Route.STEPS)[:, None], latency)
        return RouteOutcomes(scores, quality, latency)


def _reading(route: Route) -> tuple[str, ...]:
    """The stages of reading a question that a route always needs."""
    return () if route == Route.LEXICAL else ("encoding",)


def schema_of(settings: Settings) -> str:
    """Schema id of the features under these settings."""
    return schema_id(open_syntax_parser(settings.analyser).fingerprint)


def syntax_features(texts: Sequence[str], folder: Path, parser: SyntaxParser) -> Float64:
    """(n, d) syntactic features of questions, kept in a folder, `BLOCK` questions at a time.

    A run that is killed loses one block at most. A damaged file's features are computed again.
    """
    matrix = Memory(folder, verbose=0).cache(_matrix, ignore=["parser"])
    schema, starts = schema_id(parser.fingerprint), range(0, len(texts), BLOCK)
    return np.concatenate([matrix([*texts[at : at + BLOCK]], schema, parser) for at in starts])


def _matrix(texts: Sequence[str], _schema: str, parser: SyntaxParser) -> Float64:
    """(n, d) syntactic features, which depend on the questions and the schema alone."""
    return syntax_matrix(parser.parse(texts))
