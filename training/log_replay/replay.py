"""`wye tune --from-log`: what other thresholds make of logged requests.

Thresholds are found that keep bounds, or are solved with feedback as judgements, which are
incomplete, and biased to what was shown.
"""

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from wye.backends.types import Float64, Progress
from wye.router.model_files import read_info, read_policy, save_policy
from wye.router.policy import Policy, bands, routes
from wye.router.session import Session
from wye.router.settings import Settings, load_settings
from wye.router.types import Route, Thresholds
from wye.training.data.dataset import Dataset, Question
from wye.training.data.replaying import folder_name, replay_dataset
from wye.training.errors import FitError, LogError
from wye.training.log_replay.reading import ROUTES, Codes, DecisionLog, read_log
from wye.training.markdown import escape, show, table, wide_console
from wye.training.thresholds.solve import (
    CUTS,
    FUSION,
    GRAPH,
    SIMPLE,
    RouteOutcomes,
    ThresholdObjective,
    solve,
)
from wye.training.thresholds.tuning import Retuned, Tuning, retune, show_retuned

SPLIT = "dev"
"""Split of the replay, which serves to choose thresholds."""
NEEDED = 100
"""Least number of judged questions to solve thresholds on.

Measured on the dev questions of five public sets (`min_feedback` in `benchmarks/README.md`),
judged as feedback would judge them: solved on 50, thresholds were worse than the present ones by
more than 0.005 nDCG@10 in 33 % of the draws, on 75 in 22 %, on 100 in 5 %, and on 150 in none.
"""


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of a policy on the logged requests.

    Attributes:
        shares: Route -> share of the requests, for routes that some request takes.
        mean_ms: Expected mean of the work in milliseconds; NaN if a route's time is not known.
    """

    shares: Mapping[Route, float]
    mean_ms: float


def load(paths: Sequence[Path], settings: Settings, collection: str = "") -> DecisionLog:
    """Read logs, and the policy in use by the settings' router; no model is loaded.

    Raises:
        RequestLogError: A log cannot be read.
        LogError: As `read_log` raises it.
        ModelFileError: The router or its thresholds cannot be read.
    """
    router_options = settings.router
    router = read_info(router_options.folder())
    if router_options.thresholds:
        router = replace(router, policy=read_policy(Path(router_options.thresholds)))
    return read_log(paths, router, collection)


def router_settings(router: str) -> Settings:
    """Settings of the environment, with another router if one is named.

    The environment's thresholds file holds for its own router only, so it is dropped then.

    Args:
        router: "name/version", or a version's folder; "" for the environment's.
    """
    base = load_settings()
    if not router:
        return base
    return base.model_copy(update={"router": replace(base.router, model=router, thresholds="")})


def with_pair(policy: Policy, low: float, high: float) -> Policy:
    """A policy with other thresholds, except for steps."""
    return replace(policy, thresholds=Thresholds(low, high, policy.thresholds.steps))


def decide_again(log: DecisionLog, policy: Policy) -> Codes:
    """(n,) codes of the routes that a policy chooses."""
    codes = _codes(policy)[bands(log.scores, policy.thresholds)]
    if policy.thresholds.steps:  # a log tells of no other request whether it has a plan
        steps = ROUTES.index(Route.STEPS)
        codes[log.routes == steps] = steps
    return codes


def effect(log: DecisionLog, policy: Policy | None) -> Effect:
    """The effect of a policy on the requests; with None, of the routes that were taken.

    If the log has a request's time by its new route, that counts; otherwise the route's mean does.
    """
    codes = log.routes if policy is None else decide_again(log, policy)
    ms = _expected_ms(log, np.nan)[np.arange(len(log)), codes]
    counts = zip(*np.unique(codes, return_counts=True), strict=True)
    shares = {ROUTES[code]: float(count / len(log)) for code, count in counts}
    return Effect(shares, float(ms.mean()))


def mean_times(log: DecisionLog) -> dict[Route, float]:
    """Mean milliseconds of work by each route whose time the log has, taken or not."""
    timed = ~np.isnan(log.times_ms)
    return {
        route: float(log.times_ms[timed[:, code], code].mean(dtype=np.float64))
        for code, route in enumerate(ROUTES)
        if timed[:, code].any()
    }


def changes(log: DecisionLog, policy: Policy | None) -> int:
    """Number of requests that a policy, or None for what was done, routes otherwise than now."""
    codes = log.routes if policy is None else decide_again(log, policy)
    return int((decide_again(log, log.router.policy) != codes).sum())


def keeps(result: Effect, goal: ThresholdObjective) -> bool:
    """Whether an effect keeps the bounds on mean latency and on the graph's share.

    If latency is bounded, no request may take a route of unknown latency.
    """
    graph = sum(result.shares.get(route, 0.0) for route in (Route.GRAPH, Route.FUSION))
    bounds = ((graph, goal.max_graph_share), (result.mean_ms, goal.max_mean_ms))
    # With a tolerance for rounding; NaN, which is unknown, keeps no bound.
    return all(most is None or value <= most + 1e-6 * max(1.0, most) for value, most in bounds)


def within_bounds(log: DecisionLog, goal: ThresholdObjective) -> Policy:
    """The policy that keeps the bounds with the fewest changes of route.

    Without judgements one cannot tell which change would help, so the best change is the smallest.
    Of equally small ones, the one that leaves most to fusion is taken, as the cautious
    `wye.training.thresholds.solve.solve` does. If latency is bounded, no request gets a route whose
    time the log never has.

    Returns:
        The policy in use, if it keeps the bounds.

    Raises:
        FitError: No thresholds keep the bounds.
    """
    now = log.router.policy
    if keeps(effect(log, now), goal):
        return now
    old = now.thresholds
    new = solve(_outcomes(log, goal), goal, errors=0, most=CUTS, cautious=True).thresholds
    # Only some scores have a cut between them, so a threshold that need not move stays as it is.
    pairs = (old.low, new.high), (new.low, old.high), (new.low, new.high)
    tried = [with_pair(now, low, high) for low, high in pairs if low <= high]
    allowed = [policy for policy in tried if keeps(effect(log, policy), goal)]
    if not allowed:
        raise FitError(
            "No thresholds keep the bounds: a score of 1 takes the graph whatever they are. Allow "
            "more latency, or a higher graph share."
        )
    return min(allowed, key=lambda policy: changes(log, policy))


def _outcomes(log: DecisionLog, goal: ThresholdObjective) -> RouteOutcomes:
    """Outcomes with quality 1 where a request keeps its route, and the routes' known latency."""
    now = log.router.policy
    order = _codes(now)
    never = 0.0 if goal.max_mean_ms is None else (goal.max_mean_ms + 1) * (len(log) + 1)
    ms = _expected_ms(log, never)[:, order]
    stays = (decide_again(log, now)[:, None] == order).astype(np.float64)
    # No thresholds reach these: a score of 1 always takes the graph, and one of 0 never fusion.
    ones, zeros = log.scores == 1, log.scores == 0
    for values in (stays, ms):
        values[ones] = values[ones][:, [GRAPH]]
        values[zeros, FUSION] = values[zeros, SIMPLE]
    edge = float(np.finfo(np.float64).eps)  # a score may be rounded to 0 or 1
    return RouteOutcomes(np.clip(log.scores, edge, 1 - edge), stays, ms)


def _expected_ms(log: DecisionLog, unknown: float) -> Float64:
    """(n, len(ROUTES)) times of each request by each route; means stand for those not in the log.

    Args:
        unknown: Stands for routes whose time the log never has.
    """
    means = mean_times(log)
    usual = np.array([means.get(route, unknown) for route in ROUTES])
    return np.where(np.isnan(log.times_ms), usual, log.times_ms)


def _codes(policy: Policy) -> Codes:
    """Codes of a policy's routes, from low to high scores."""
    return np.array([ROUTES.index(route) for route in routes(policy.simple)], np.int8)


def notes(log: DecisionLog, source: str) -> dict[str, Any]:
    """Notes for a file of proposed thresholds, without any question.

    Args:
        source: What the thresholds were chosen on.
    """
    return {
        "from": source,
        "log": {
            "collection": log.collection,
            "router": log.router.name,
            "requests": len(log),
            "questions with marked passages": len(log.marked),
            "period": list(log.period),
        },
        "instead_of": asdict(log.router.policy.thresholds),
    }


def show_replay(console: Console, log: DecisionLog, proposed: Policy | None = None) -> None:
    """Print what was read, and the effect of the policy in use beside that of a proposed one."""
    times = mean_times(log)
    compared = {"as served": None, "now": log.router.policy}
    compared |= {} if proposed is None else {"proposed": proposed}
    effects = [effect(log, policy) for policy in compared.values()]
    routes = [route for route in ROUTES if any(route in effect.shares for effect in effects)]
    rows = []
    for name in ("low", "high"):
        pairs = (policy and getattr(policy.thresholds, name) for policy in compared.values())
        rows.append([name, *("" if value is None else f"{value:.3f}" for value in pairs)])
    for route in routes:
        shares = (f"{effect.shares.get(route, 0):.1%}" for effect in effects)
        rows.append([f"share of {route}", *shares])
    ms = (effect.mean_ms for effect in effects)
    rows.append(["mean ms", *("unknown" if math.isnan(mean) else f"{mean:.1f}" for mean in ms)])
    moved = (changes(log, policy) for policy in compared.values())
    rows.append(["another route than now", *(f"{count:,}" for count in moved)])
    tenths = np.quantile(log.scores, np.arange(1, 10) / 10)
    texts = [
        escape(
            f"{len(log):,} decisions by {log.router.name} for collection '{log.collection}', "
            f"from {log.period[0]} to {log.period[1]}; {len(log.marked):,} different questions "
            "with passages marked as answers."
        ),
        "\n".join(f"- left out: {n:,} {escape(why)}" for why, n in log.exclusions.items()),
        f"Tenths of the scores end at {', '.join(f'{score:.2f}' for score in tenths)}.",
        table(("", *compared), rows),
        "ms: the work on a request, its share of its batch. Where a request does not tell how long "
        "another route would have taken, it is assumed to take as long as others by that route: "
        f"{', '.join(f'{route} {one:.1f} ms' for route, one in times.items())}.",
    ]
    show("\n\n".join(texts), console)


def feedback_dataset(log: DecisionLog, ids: Set[str]) -> Dataset:
    """A dataset of questions whose feedback names passages, which count as relevant.

    Args:
        ids: Ids in the index. Other passages are dropped, since no route can find them; a question
            without any left is in `without_gold`.
    """
    gold = {
        question: dict.fromkeys(sorted(passages & ids), 1)
        for question, (_, passages) in log.marked.items()
    }
    usable = {question: log.marked[question][0] for question, hits in gold.items() if hits}
    return Dataset(
        name=f"log-{log.collection}",
        split=SPLIT,
        questions=tuple(Question(id_, row.question) for id_, row in usable.items()),
        judgements={id_: gold[id_] for id_ in usable},
        without_gold=tuple(id_ for id_, hits in gold.items() if not hits),
        filters={id_: row.filter for id_, row in usable.items() if row.filter is not None},
    )


def replay_feedback(
    log: DecisionLog,
    index: Path,
    settings: Settings,
    *,
    cache: Path,
    measure: str,
    progress: Progress,
) -> tuple[Tuning, Dataset]:
    """Replay the questions with feedback, and load the tuning of thresholds on them.

    Args:
        cache: Folder for the replay, which only its owner can read, as with the log.

    Raises:
        LogError: Too few questions have feedback that names passages.
        TrainingError: The replay or the features cannot be made.
    """
    with Session.open(settings, index) as session:
        dataset = feedback_dataset(log, set(session.snapshot.corpus.ids))
        if (count := len(dataset.questions)) < NEEDED:
            raise LogError(
                f"Thresholds need {NEEDED} questions with feedback that names passages of the "
                f"index, and the log has {count}: solved on fewer, they are often worse than the "
                "present ones. Collect more feedback, or leave --index out and bound "
                "--max-latency-ms or --max-graph-share."
            )
        folder = cache / "logs" / folder_name(index)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = replay_dataset(session, dataset, folder, progress=progress)
    tuning = Tuning.load([path], cache=cache / "features", settings=settings, measure=measure)
    return replace(tuning, model=tuning.model.with_policy(log.router.policy)), dataset


def show_feedback(console: Console, tuning: Tuning, dataset: Dataset, solved: Retuned) -> None:
    """Print old and new thresholds on marked questions, and how far feedback can be trusted."""
    show_retuned(console, tuning, solved)
    texts = [
        "These judgements are biased: people mark what they were shown, and passages that only "
        "another route would have found count as not relevant, which favours the routes taken then."
    ]
    if count := len(dataset.without_gold):
        texts.append(f"{count} questions are left out: the index has no passage marked for them.")
    if solved.gain.low <= 0:
        worse = "are worse" if solved.gain.high < 0 else "may be no better"
        texts.append(
            f"The proposed thresholds {worse} than the present ones on these questions, in "
            f"{tuning.measure}; use them only if you need their bounds."
        )
    show("\n\n".join(texts), console)


def tune_on_log(
    paths: Sequence[Path],
    goal: ThresholdObjective,
    *,
    router: str,
    collection: str,
    index: Path | None,
    measure: str,
    elsewhere: bool,
    out: Path | None,
    cache: Path,
    seed: int,
    progress: Progress,
) -> Path | None:
    """Show what thresholds make of a log, and write those that keep the bounds or are solved.

    Args:
        index: Replay questions with feedback on it, and solve on them; None to keep bounds alone.

    Returns:
        The file that was written; None if none was.

    Raises:
        LogError: There is nothing to write, or as `load` and `replay_feedback` raise it.
        FitError: No thresholds keep the bounds.
    """
    bounded = goal != ThresholdObjective()
    if out is not None and index is None and not bounded:
        raise LogError(
            "There is nothing to write: set --max-latency-ms or --max-graph-share, or replay "
            "questions with feedback with --index."
        )
    console, settings = wide_console(), router_settings(router)
    log = load(paths, settings, collection)
    now = log.router.policy
    if index is not None:
        tuning, dataset = replay_feedback(
            log, index, settings, cache=cache, measure=measure, progress=progress
        )
        retuned = retune(tuning, goal, elsewhere=elsewhere, seed=seed)
        thresholds = retuned.solution.thresholds
        show_replay(console, log, tuning.policy(thresholds))
        show_feedback(console, tuning, dataset, retuned)
        if out is not None:
            source = "feedback in a request log: partial, and of passages that were shown"
            tuning.save(out, thresholds, {**retuned.notes(), **notes(log, source)})
    else:
        policy = within_bounds(log, goal)
        if policy == now:
            show_replay(console, log)
            if bounded:
                console.print("The present thresholds keep the bounds; nothing is proposed.")
            return None
        show_replay(console, log, policy)
        console.print(
            "The proposed thresholds keep the bounds with the fewest changes of route. No answer "
            "was judged, so their quality is unknown."
        )
        if out is not None:
            facts = {
                **notes(log, "a request log; no answer was judged"),
                "expected mean_ms": effect(log, policy).mean_ms,
                "max_mean_ms": goal.max_mean_ms,
                "max_graph_share": goal.max_graph_share,
            }
            save_policy(out, replace(policy, router=log.router.name), facts)
    if out is None:
        console.print("Nothing is written; --out FILE writes the proposed thresholds.")
    return out
