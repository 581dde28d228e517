import math

import numpy as np
import pytest

from router.errors import PolicyError
from router.policy import Policy
from router.types import Route, Thresholds
from training.thresholds.outcomes import FUSION, GRAPH, SIMPLE, taken
from training.traffic.redecide import as_served, effect, flips, redecide, times_of
from training.traffic.requests import Requests
from training.traffic.stages import ROUTES

D, F, G = (ROUTES.index(route) for route in (Route.DENSE, Route.FUSION, Route.GRAPH))
KNOWN = {Route.DENSE: 10.0, Route.FUSION: 30.0, Route.GRAPH: 20.0}


def requests(
    scores: list[float],
    routes: list[int],
    ms: list[float] | None = None,
    budgets: list[float] | None = None,
) -> Requests:
    n = len(scores)
    worked = np.array(ms or [10.0] * n)
    times = np.full((n, len(ROUTES)), math.nan, np.float32)
    times[np.arange(n), routes] = worked
    return Requests(
        np.array(scores),
        np.array(routes, np.int8),
        times,
        worked + 5,
        np.array(budgets or [math.nan] * n),
    )


def test_scores_are_decided_as_thresholds_say() -> None:
    scores = np.random.default_rng(0).random(500).round(2)
    asked = requests(scores.tolist(), [D] * 500)
    for pair in (Thresholds(0.2, 0.8), Thresholds(0.5, 0.5), Thresholds(0, 1), Thresholds(1, 1)):
        codes = taken(scores, pair)
        expected = np.select([codes == SIMPLE, codes == FUSION, codes == GRAPH], [D, F, G])
        assert redecide(asked, Policy(pair)).tolist() == expected.tolist()
    lexical = redecide(asked, Policy(Thresholds(1, 1), Route.LEXICAL))
    assert {ROUTES[code] for code in lexical} <= {Route.LEXICAL, Route.GRAPH}


def test_a_request_keeps_its_budget() -> None:
    asked = requests([0.5, 0.5, 0.9, 0.5], [F] * 4, budgets=[math.nan, 25, 15, 40])
    policy = Policy(Thresholds(0.4, 0.8), latency_ms=KNOWN)
    assert redecide(asked, policy).tolist() == [F, D, D, F]
    with pytest.raises(PolicyError, match="No latency is known"):
        redecide(asked, Policy(Thresholds(0.4, 0.8)))


def test_what_was_served_is_what_was_measured() -> None:
    asked = requests([0.1, 0.2, 0.5, 0.9], [D, D, F, G], [10, 20, 40, 30])
    served = as_served(asked)
    assert served.policy is None
    assert served.shares == {Route.DENSE: 0.5, Route.GRAPH: 0.25, Route.FUSION: 0.25}
    assert (served.mean_ms, served.p50_ms, served.p95_ms) == (25, 20, 40)
    found = times_of(asked)
    assert [*found] == [Route.DENSE, Route.GRAPH, Route.FUSION]
    dense = found[Route.DENSE]
    assert (dense.count, dense.known) == (2, 2)
    assert (dense.mean_ms, dense.p50_ms, dense.p95_ms) == (15, 10, 20)
    assert (dense.waited_p50_ms, dense.waited_p95_ms) == (15, 25)


def test_what_a_request_tells_of_another_route_is_taken_for_it() -> None:
    asked = requests([0.1, 0.5, 0.9], [D, F, F], [10, 40, 44])
    asked.times_ms[1, [D, G]] = 12, 30
    asked.times_ms[2, [D, G]] = 16, 34
    graph = times_of(asked)[Route.GRAPH]
    assert (graph.count, graph.known, graph.mean_ms) == (0, 2, 32)
    assert math.isnan(graph.waited_p50_ms)
    found = effect(asked, Policy(Thresholds(0.6, 0.8)))
    assert found.mean_ms == pytest.approx((10 + 12 + 34) / 3)
    assert (found.p50_ms, found.p95_ms) == (12, 34)
    # Of the first nothing but dense is known: by graph it takes 30 or 34.
    found = effect(asked, Policy(Thresholds(0, 0)))
    assert (found.mean_ms, found.unknown) == (32, ())


def test_requests_that_tell_nothing_last_as_others_by_their_new_route() -> None:
    asked = requests([0.1, 0.2, 0.5, 0.9], [D, D, F, G], [10, 20, 40, 30])
    cheap = effect(asked, Policy(Thresholds(0.5, 0.8)))
    assert cheap.shares == {Route.DENSE: 0.75, Route.GRAPH: 0.25}
    assert cheap.mean_ms == pytest.approx((3 * 15 + 30) / 4)
    assert (cheap.p50_ms, cheap.p95_ms, cheap.unknown) == (20, 30, ())


def test_a_route_of_which_nothing_is_told_has_no_known_latency() -> None:
    asked = requests([0.1, 0.9], [D, F], [10, 20])
    found = effect(asked, Policy(Thresholds(0.5, 0.8)))
    assert found.unknown == (Route.GRAPH,)
    assert math.isnan(found.mean_ms)
    assert math.isnan(found.p95_ms)


def test_changes_are_counted_by_where_they_lead() -> None:
    before, after = np.array([D, D, F, G], np.int8), np.array([F, F, F, D], np.int8)
    assert flips(before, after) == {
        (Route.DENSE, Route.FUSION): 2,
        (Route.GRAPH, Route.DENSE): 1,
    }
    assert flips(before, before) == {}
