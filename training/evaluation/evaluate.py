"""How good and how fast each route is on a dataset, measured through the gateway that serves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from typing import Protocol

import numpy as np

from backends.progress import Progress, Silent
from backends.types import Float64, Hit
from router.types import Reply, Route
from training.data.dataset import Dataset, Question
from training.evaluation.bootstrap import Interval, interval, resampled_means
from training.evaluation.measures import DEPTH, MEASURES, score

PERCENTILES = (50, 95, 99)


class Endpoint(Protocol):
    """What answers questions; the router's gateway is the real one."""

    def search(self, questions: Sequence[str], route: Route, k: int) -> list[Reply]:
        """One reply to each question, in order."""
        ...


@dataclass(frozen=True, slots=True)
class RouteResult:
    """What one route did.

    Attributes:
        route: Its name.
        answers: Question id -> hits, in the dataset's order; without the unanswered ones.
        values: (n, m) float64, every measure of every question.
        unanswered: Ids of questions without a hit.
        degraded: How often the route had to do something else than asked, by reason.
        latency: Stage -> milliseconds at each of `PERCENTILES`; "total" is their sum per question.
    """

    route: str
    answers: Mapping[str, tuple[Hit, ...]]
    values: Float64
    unanswered: tuple[str, ...]
    degraded: Mapping[str, int]
    latency: Mapping[str, tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Several routes on the same questions.

    Attributes:
        dataset: That was asked.
        version: Of the index.
        depth: Hits asked for.
        batch: Questions asked together.
        seed: Of the bootstrap.
        resamples: Of the bootstrap.
        results: One for each route, in the order asked for.
        means: Route -> measure -> mean with its interval.
        differences: (route, other) -> measure -> mean of route - other with its paired interval.
    """

    dataset: Dataset
    version: int
    depth: int
    batch: int
    seed: int
    resamples: int
    results: tuple[RouteResult, ...]
    means: Mapping[str, Mapping[str, Interval]]
    differences: Mapping[tuple[str, str], Mapping[str, Interval]]

    @property
    def unanswered(self) -> tuple[str, ...]:
        """Ids of questions that at least one route left without a hit, sorted."""
        return tuple(sorted({id_ for result in self.results for id_ in result.unanswered}))


def evaluate(
    endpoint: Endpoint,
    dataset: Dataset,
    routes: Sequence[Route],
    *,
    contenders: Mapping[str, Endpoint] | None = None,
    k: int = DEPTH,
    batch: int = 32,
    seed: int = 0,
    resamples: int = 10_000,
    progress: Progress | None = None,
) -> Evaluation:
    """Ask every question over every route, and score the answers.

    Args:
        endpoint: What answers.
        dataset: Questions with judgements.
        routes: At least one, unless there are contenders; each once.
        contenders: Name -> endpoint that is asked with `Route.AUTO`, after the routes.
        k: Hits to ask for; at least as many as the deepest measure needs are.
        batch: Questions to ask together.
        seed: Of the bootstrap.
        resamples: Of the bootstrap.
        progress: Told of every question that is answered.

    Raises:
        EvaluationError: The dataset has no question.
    """
    depth = max(k, DEPTH)
    progress = progress or Silent()
    results: list[RouteResult] = []
    version = 0
    asked = [(str(route), endpoint, route) for route in routes]
    asked += [(name, own, Route.AUTO) for name, own in (contenders or {}).items()]
    for name, own, route in asked:
        progress.start(len(dataset.questions), f"asking {name}")
        try:
            replies = _ask(
                own, dataset.questions, route, depth=depth, batch=batch, progress=progress
            )
        finally:
            progress.close()
        version = next((reply.version for reply in replies.values()), version)
        results.append(_result(name, dataset, replies))
    means, differences = _compare(results, seed=seed, resamples=resamples)
    return Evaluation(
        dataset, version, depth, batch, seed, resamples, tuple(results), means, differences
    )


def _ask(
    endpoint: Endpoint,
    questions: Sequence[Question],
    route: Route,
    *,
    depth: int,
    batch: int,
    progress: Progress,
) -> dict[str, Reply]:
    """Question id -> reply, but for questions without a word, which no route can answer."""
    asked = [question for question in questions if question.text.strip()]
    if asked:
        # What is built on first use should not count as the first question's latency.
        endpoint.search([asked[0].text], route, depth)
    replies: dict[str, Reply] = {}
    rest = iter(asked)
    while window := list(islice(rest, batch)):
        answers = endpoint.search([question.text for question in window], route, depth)
        replies.update(zip((question.id for question in window), answers, strict=True))
        progress.advance(len(window))
    return replies


def _result(name: str, dataset: Dataset, replies: Mapping[str, Reply]) -> RouteResult:
    answers = {id_: reply.ranking.hits for id_, reply in replies.items() if reply.ranking.hits}
    degraded: dict[str, int] = {}
    for reply in replies.values():
        if reason := reply.ranking.degraded:
            degraded[reason] = degraded.get(reason, 0) + 1
    return RouteResult(
        route=name,
        answers=answers,
        values=score(
            dataset.judgements,
            {id_: [hit.id for hit in hits] for id_, hits in answers.items()},
        ),
        unanswered=tuple(q.id for q in dataset.questions if q.id not in answers),
        degraded=degraded,
        latency=_latency([reply.seconds for reply in replies.values()]),
    )


def _latency(seconds: Sequence[Mapping[str, float]]) -> dict[str, tuple[float, ...]]:
    stages = list(dict.fromkeys(stage for times in seconds for stage in times))
    columns = {stage: [times.get(stage, 0.0) for times in seconds] for stage in stages}
    columns["total"] = [sum(times.values()) for times in seconds]
    return {
        stage: tuple(float(p) * 1000 for p in np.percentile(times, PERCENTILES))
        for stage, times in columns.items()
        if times
    }


def _compare(
    results: Sequence[RouteResult], *, seed: int, resamples: int
) -> tuple[dict[str, dict[str, Interval]], dict[tuple[str, str], dict[str, Interval]]]:
    """Means of every route, and paired differences of every two, from the same resamples."""
    values = np.hstack([result.values for result in results])
    drawn = resampled_means(values, resamples=resamples, seed=seed)
    width = len(MEASURES)
    parts = [
        (result.route, result.values, drawn[:, place * width : (place + 1) * width])
        for place, result in enumerate(results)
    ]
    means = {route: _intervals(found, resampled) for route, found, resampled in parts}
    differences = {
        (later, earlier): _intervals(a - b, a_drawn - b_drawn)
        for (earlier, b, b_drawn), (later, a, a_drawn) in combinations(parts, 2)
    }
    return means, differences


def _intervals(values: Float64, drawn: Float64) -> dict[str, Interval]:
    return {
        name: interval(values[:, column], drawn[:, column]) for column, name in enumerate(MEASURES)
    }
