"""Thresholds by hand: what any pair is worth on replayed questions, and whom it fails."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from backends.types import Int64
from featurizer.constituency.parser import open_syntax_parser
from router.fusion import FusionSettings
from router.model import RoutingModel
from router.model_files import load_router, save_policy
from router.passage_routing import load_passage_router
from router.policy import Policy, bands, routes
from router.query_performance import NAMES, schema_id, stages
from router.settings import PASSAGE_ROUTER, Settings, load_settings
from router.types import Contribution, Route, Thresholds
from training.data.evaluation_set import EvaluationSet
from training.data.replay import TrainingReplay, read_training
from training.errors import FitError, ReplayError
from training.evaluation.bootstrap import Interval, interval, resampled_means
from training.evaluation.measures import MEASURES
from training.labels import compared
from training.markdown import escape, show, table
from training.thresholds.outcomes import (
    Moves,
    Outcome,
    RouteOutcomes,
    ThresholdObjective,
    moves,
    outcome,
    scores_of,
)
from training.thresholds.solve import (
    Front,
    Solution,
    Stability,
    front,
    solve,
    solve_points,
    stability,
    standard_errors,
)
from training.thresholds.sweep import CUTS, keeps


@dataclass(frozen=True, slots=True)
class Misrouted:
    """A question for which another route would have been better.

    Attributes:
        lost: Quality of that answer less quality of the one given.
        contributions: To the score's logit; see `router.types.Decision`.
    """

    text: str
    dataset: str
    score: float
    route: Route
    better: Route
    lost: float
    contributions: tuple[Contribution, ...]


@dataclass(frozen=True)
class Tuning:
    """Replayed questions as one router scores them.

    A router is too sure of the questions that it was trained on; thresholds are best chosen on
    others, such as a dev split, or questions of one's own.

    Attributes:
        measure: One of `training.evaluation.measures.MEASURES`, which is called quality here.
    """

    evaluation_set: EvaluationSet
    model: RoutingModel
    fusion: FusionSettings
    measure: str = "nDCG@10"
    success: str = "all-gold@5"

    @classmethod
    def load(
        cls,
        replays: Sequence[Path],
        model: Path | str = "",
        *,
        cache: Path,
        settings: Settings | None = None,
        measure: str = "nDCG@10",
    ) -> "Tuning":
        """Read replays and a router, and compute the questions' features.

        Args:
            replays: Files of train or dev splits, as `wye train` keeps them.
            model: "name/version", or a version's folder; empty for that of the settings.
            settings: Of models, fusion and router; None reads the environment.

        Raises:
            SplitError: A replay is of a test split.
            ReplayError: A file cannot be read, or none is given.
            ModelFileError: There is no such router, or it was trained on other features.
            FitError: There is no such measure.
        """
        if not replays:
            raise ReplayError("No replay is given; name files of train or dev splits.")
        _check(measure)
        read = [read_training(path) for path in replays]
        own = settings or load_settings()
        return cls.of(read, model, cache=cache, settings=own, measure=measure)

    @classmethod
    def of(
        cls,
        replays: Sequence[TrainingReplay],
        model: Path | str = "",
        *,
        cache: Path,
        settings: Settings,
        measure: str = "nDCG@10",
    ) -> "Tuning":
        """The same of replays that are at hand; arguments are those of `load`.

        Without an index, the router is by default the one that ships for returned passages.

        Raises:
            ModelFileError: There is no such router, or it was trained on other features.
            FitError: There is no such measure.
        """
        _check(measure)
        own = settings
        router = replace(own.router, model=str(model)) if model else own.router
        questions = [one for replay in replays for one in replay.questions]
        if all(one.remote is not None and one.remote.returned is not None for one in questions):
            if not model:
                router = replace(router, model=PASSAGE_ROUTER)
            found = load_passage_router(router.folder())
        else:
            parser = open_syntax_parser(own.analyser.pipeline, own.analyser.constituency)
            schema = schema_id(parser.fingerprint)
            found = load_router(router.folder(), schema_id=schema, names=NAMES)
        deciding = stages(found.scorer.names)
        asked = EvaluationSet.load(replays, cache, own.analyser, deciding=deciding)
        return cls(asked, found, own.fusion, measure)

    @cached_property
    def outcomes(self) -> RouteOutcomes:
        """Every question with the outcome of every route, and steps where they are taken."""
        scores = scores_of(self.model.scorer.logits(self.evaluation_set.features))
        simple = self.model.policy.simple
        steps = self.model.policy.thresholds.steps
        return self.evaluation_set.outcomes(scores, simple, self.fusion, self.measure, steps)

    @cached_property
    def labels(self) -> Int64:
        """(n,) 1 where only the graph succeeds, 0 where only the simple arm does, -1 else."""
        simple = self.model.policy.simple
        return compared(self.evaluation_set, simple, self.success, self.fusion).labels

    @cached_property
    def fixed(self) -> dict[str, Outcome]:
        """What always taking one route gives, by its name; a further arm that was replayed too."""
        pairs = (Thresholds(1, 1), Thresholds(0, 1), Thresholds(0, 0))
        order = routes(self.model.policy.simple)
        return {
            str(route): outcome(self.outcomes, pair)
            for route, pair in zip(order, pairs, strict=True)
        } | {
            str(route): self.evaluation_set.always(route, self.fusion, self.measure)
            for route in (Route.STEPS, *self.evaluation_set.further)
        }

    def at(self, low: float, high: float) -> Outcome:
        """What thresholds give.

        Raises:
            PolicyError: They are not in order, or not from 0 to 1.
        """
        return outcome(self.outcomes, Thresholds(low, high))

    def front(self) -> Front:
        """The pairs that no other pair beats in both quality and latency."""
        return front(self.outcomes)

    def worst(self, n: int, thresholds: Thresholds | None = None) -> list[Misrouted]:
        """The questions that lose most by their route, the worst first.

        Args:
            n: At most so many; questions that lose nothing are left out.
            thresholds: None for the router's own.
        """
        names = (*routes(self.model.policy.simple), Route.STEPS)
        quality = self.outcomes.quality
        pair = thresholds or self.model.policy.thresholds
        codes = bands(self.outcomes.scores, pair)
        taken = self.evaluation_set.codes(self.outcomes.scores, pair)
        lost = quality.max(axis=1) - quality[np.arange(len(codes)), codes]
        order = np.argsort(-lost, kind="stable")[:n]
        rows = order[lost[order] > 0].tolist()
        decisions = self.model.decide(self.evaluation_set.features[rows], explain=True)
        texts, groups = self.evaluation_set.texts, self.evaluation_set.groups
        return [
            Misrouted(
                text=texts[row],
                dataset=str(groups[row]),
                score=float(self.outcomes.scores[row]),
                route=names[taken[row]],
                better=names[int(quality[row].argmax())],
                lost=float(lost[row]),
                contributions=decision.contributions,
            )
            for row, decision in zip(rows, decisions, strict=True)
        ]

    def policy(self, thresholds: Thresholds) -> Policy:
        """Thresholds with the latencies of these replays."""
        simple = self.model.policy.simple
        return Policy(
            thresholds, simple, self.evaluation_set.median_latency_ms(simple), self.model.name
        )

    def save(
        self,
        path: Path,
        thresholds: Thresholds,
        notes: Mapping[str, Any] | None = None,
        points: Mapping[str, Thresholds] | None = None,
    ) -> Policy:
        """Write a thresholds file, with the latencies of these replays, to be reviewed.

        Args:
            path: Of the file; an older one is replaced.
            notes: For whoever reviews it, beside what the thresholds give here.
            points: Operating points; None for those that the router has.
        """
        policy, simple = self.policy(thresholds), self.model.policy.simple
        policy = replace(policy, points=self.model.policy.points if points is None else points)
        found = outcome(self.outcomes, thresholds)
        said = {
            "replays": [f"{one.dataset}, {one.split}" for one in self.evaluation_set.replays],
            "questions": len(self.evaluation_set),
            self.measure: found.quality,
            "mean_ms": found.mean_ms,
            "p95_ms": found.p95_ms,
            "shares": dict(zip(map(str, routes(simple)), found.shares, strict=True)),
        }
        save_policy(path, policy, {**said, **(notes or {})})
        return policy


def _check(measure: str) -> None:
    if measure not in MEASURES:
        raise FitError(f"There is no measure '{measure}'; take one of {', '.join(MEASURES)}.")


@dataclass(frozen=True, slots=True)
class Retuned:
    """Thresholds to review.

    Attributes:
        before: What the router's own thresholds give on the same questions.
        stays: Whether the router's own thresholds are proposed, for on these questions those that
            were solved are no better.
        gain: Quality with the proposed thresholds less quality with the router's own, paired; like
            the other intervals, it does not count that they were chosen on these questions.
    """

    goal: ThresholdObjective
    solution: Solution
    stability: Stability
    before: Outcome
    moves: Moves
    stays: bool
    gain: Interval

    def notes(self) -> dict[str, Any]:
        """For the thresholds file."""
        low, high = self.stability.low, self.stability.high
        return {
            "max_mean_ms": self.goal.max_mean_ms,
            "max_graph_share": self.goal.max_graph_share,
            "interval of low": [low.low, low.high],
            "interval of high": [high.low, high.high],
            "stays as it was": self.stays,
            "questions that change route": len(self.moves.rows),
            "interval of the change in quality": [self.gain.low, self.gain.high],
        }


def retune(
    tuning: Tuning, goal: ThresholdObjective, *, elsewhere: bool = True, seed: int = 0
) -> Retuned:
    """Solve thresholds on replayed questions.

    What is solved lies in the middle of all that these questions cannot tell from the best, and so
    may be worse on them than the thresholds in use. Where it is, or is as good, nothing changes, as
    long as the bounds are kept.

    Args:
        elsewhere: Whether the thresholds have to hold for questions unlike these as well.

    Raises:
        FitError: No thresholds keep the bounds.
    """
    own = tuning.model.policy.thresholds
    errors = standard_errors(elsewhere=elsewhere)
    solution = solve(tuning.outcomes, goal, errors=errors, most=CUTS, cautious=elsewhere)
    solution = replace(solution, thresholds=replace(solution.thresholds, steps=own.steps))
    before = outcome(tuning.outcomes, own)
    stays = keeps(before, goal) and before.objective(goal) >= solution.outcome.objective(goal)
    if stays:
        solution = replace(solution, thresholds=own, outcome=before)
    moved = moves(tuning.outcomes, own, solution.thresholds)
    gained = np.zeros((len(tuning.outcomes), 1))
    gained[moved.rows, 0] = moved.gain
    return Retuned(
        goal=goal,
        solution=solution,
        stability=stability(
            tuning.outcomes, solution.thresholds, goal, errors=errors, cautious=elsewhere, seed=seed
        ),
        before=before,
        moves=moved,
        stays=stays,
        gain=interval(gained[:, 0], resampled_means(gained, seed=seed)[:, 0]),
    )


def retuned_points(
    tuning: Tuning, goal: ThresholdObjective, *, elsewhere: bool = True
) -> dict[str, Thresholds]:
    """The operating points, solved on the same questions.

    Raises:
        FitError: No thresholds keep the bounds.
    """
    errors = standard_errors(elsewhere=elsewhere)
    found = solve_points(tuning.outcomes, goal, errors=errors, most=CUTS, cautious=elsewhere)
    own = tuning.model.policy
    return {
        name: replace(pair, steps=own.points.get(name, own.thresholds).steps)
        for name, pair in found.items()
    }


def show_retuned(console: Console, tuning: Tuning, found: Retuned, *, most: int) -> None:
    """Print old and new thresholds side by side, what fixed routes give, and who moves.

    Args:
        most: Moved questions to list, those with the largest change of quality first.
    """
    own, new = tuning.model.policy.thresholds, found.solution.thresholds
    sure, before, after = found.stability, found.before, found.solution.outcome
    order, measure = routes(tuning.model.policy.simple), tuning.measure
    rows = [
        ("low", f"{own.low:.3f}", f"{new.low:.3f}", _interval(sure.low)),
        ("high", f"{own.high:.3f}", f"{new.high:.3f}", _interval(sure.high)),
        (measure, f"{before.quality:.4f}", f"{after.quality:.4f}", _interval(sure.quality)),
        (f"change in {measure}", "", f"{found.gain.mean:+.4f}", _interval(found.gain)),
        ("mean ms", f"{before.mean_ms:.1f}", f"{after.mean_ms:.1f}", _interval(sure.mean_ms)),
        *(
            (f"share of {route}", f"{old:.1%}", f"{share:.1%}", "")
            for route, old, share in zip(order, before.shares, after.shares, strict=True)
        ),
    ]
    parts = [
        f"**{escape(tuning.model.name)} on {len(tuning.evaluation_set)} questions**",
        table(("", "now", "proposed", "95 % interval"), rows),
    ]
    pairs = ((new.low, sure.low), (new.high, sure.high))
    if any(not one.low <= value <= one.high for value, one in pairs):
        parts.append(
            "The intervals of low and high are of what is solved when the questions are drawn "
            "anew; what is proposed need not lie within."
        )
    always = (
        f"{name} {measure} {one.quality:.4f}, {one.mean_ms:.1f} ms"
        for name, one in tuning.fixed.items()
    )
    parts.append(f"Always taking one route: {'; '.join(always)}.")
    if found.stays:
        parts.append("Those in use are as good on these questions, so they stay.")
    moved, texts = found.moves, tuning.evaluation_set.texts
    if most and len(moved.rows):
        largest = sorted(range(len(moved.rows)), key=lambda at: (-abs(moved.gain[at]), at))
        changes = [
            (
                texts[moved.rows[at]],
                *(str(order[codes[at]]) for codes in (moved.before, moved.after)),
                f"{moved.gain[at]:+.3f}",
                f"{tuning.outcomes.scores[moved.rows[at]]:.3f}",
            )
            for at in largest[:most]
        ]
        parts.append(f"**{len(moved.rows)} questions change route**")
        parts.append(table(("question", "from", "to", "gain", "score"), changes, words=3))
    show("\n\n".join(parts), console)


def _interval(found: Interval) -> str:
    return f"{found.low:.3f} to {found.high:.3f}"
