from router.types import Route
from service.recent import (
    Recent,
    RouteTimes,
    Sample,
    degradations_of,
    percentile,
    routes_of,
    scores_of,
)


def sample(ms: float, route: Route = Route.DENSE, **changes: object) -> Sample:
    facts: dict[str, object] = {"score": None, "degraded": "", **changes}
    return Sample(0.0, "default", Route.AUTO, route, ms=ms, **facts)  # type: ignore[arg-type]


def test_the_oldest_are_forgotten() -> None:
    recent = Recent(2)
    for ms in (1, 2, 3):
        recent.add(sample(ms))
    assert [one.ms for one in recent.samples] == [2, 3]
    assert recent.total == 3


def test_percentiles_are_values_that_occurred() -> None:
    assert percentile([3, 1, 2], 0.5) == 2
    assert percentile([3, 1, 2, 4], 0.5) == 2
    assert percentile(list(range(1, 101)), 0.95) == 95
    assert percentile([7], 0.95) == percentile([7], 0) == 7


def test_routes_stand_in_their_order_with_shares() -> None:
    found = routes_of([sample(5, Route.GRAPH), sample(1), sample(3), sample(9, Route.GRAPH)])
    assert list(found) == [Route.DENSE, Route.GRAPH]
    assert found[Route.GRAPH] == RouteTimes(2, 0.5, 5, 9)
    assert routes_of([]) == {}


def test_scores_and_degradations() -> None:
    samples = [sample(1, score=0.25), sample(1, degraded="late"), sample(1, degraded="late")]
    assert scores_of(samples, "default") == [0.25]
    assert scores_of(samples, "other") == []
    assert degradations_of(samples) == {"late": 2}
