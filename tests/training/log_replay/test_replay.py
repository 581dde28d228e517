import json
import math
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations_with_replacement
from pathlib import Path

import numpy as np
import pytest

from router.errors import ModelFileError, PolicyError
from router.model_files import read_policy
from router.policy import Policy, bands
from router.settings import Settings, load_settings
from router.types import Route, Thresholds
from tests.training.made import logged, rated
from training.errors import FitError, LogError
from training.log_replay.reading import ROUTES, Requests
from training.log_replay.replay import (
    LogReplay,
    changes,
    decide_again,
    effect,
    keeps,
    times_of,
    within_bounds,
)
from training.thresholds.outcomes import FUSION, GRAPH, SIMPLE, ThresholdObjective

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
        codes = bands(scores, pair)
        expected = np.select([codes == SIMPLE, codes == FUSION, codes == GRAPH], [D, F, G])
        assert decide_again(asked, Policy(pair)).tolist() == expected.tolist()
    lexical = decide_again(asked, Policy(Thresholds(1, 1), Route.LEXICAL))
    assert {ROUTES[code] for code in lexical} <= {Route.LEXICAL, Route.GRAPH}


def test_a_request_keeps_its_budget() -> None:
    asked = requests([0.5, 0.5, 0.9, 0.5], [F] * 4, budgets=[math.nan, 25, 15, 40])
    policy = Policy(Thresholds(0.4, 0.8), latency_ms=KNOWN)
    assert decide_again(asked, policy).tolist() == [F, D, D, F]
    with pytest.raises(PolicyError, match="The latency is unknown"):
        decide_again(asked, Policy(Thresholds(0.4, 0.8)))


def test_what_was_served_is_what_was_measured() -> None:
    asked = requests([0.1, 0.2, 0.5, 0.9], [D, D, F, G], [10, 20, 40, 30])
    served = effect(asked, None)
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
    asked = requests([0.1, 0.2, 0.5, 0.9], [D, D, F, G])
    served, fusion = effect(asked, None), effect(asked, Policy(Thresholds(0, 1)))
    assert changes(served, fusion) == {
        (Route.DENSE, Route.FUSION): 2,
        (Route.GRAPH, Route.FUSION): 1,
    }
    assert changes(served, served) == {}


NOW = Policy(Thresholds(0.3, 0.7), latency_ms=KNOWN)


def served(
    n: int,
    seed: int,
    policy: Policy = NOW,
    *,
    budget: float = math.nan,
    ties: bool = False,
    told: bool = True,
) -> Requests:
    """Requests as a policy serves them, a third of them with a budget of their own."""
    draw = np.random.default_rng(seed)
    scores = draw.random(n).round(1 if ties else 6)
    budgets = np.where(draw.random(n) < 1 / 3, budget, math.nan)
    times = np.full((n, len(ROUTES)), math.nan, np.float32)
    asked = Requests(scores, np.zeros(n, np.int8), times, np.zeros(n), budgets)
    routes = decide_again(asked, policy)
    for row, code in enumerate(routes.tolist()):
        # What fusion takes tells of the others.
        for route in KNOWN if ROUTES[code] == Route.FUSION and told else [ROUTES[code]]:
            times[row, ROUTES.index(route)] = KNOWN[route] * draw.uniform(0.5, 1.5)
    return replace(asked, routes=routes)


def moved(asked: Requests, policy: Policy) -> int:
    return int((effect(asked, policy).routes != effect(asked, NOW).routes).sum())


def fewest(asked: Requests, goal: ThresholdObjective) -> int | None:
    """Slow and obvious: try every pair of cuts."""
    levels = np.unique(asked.scores)
    cuts = [0.0, *((levels[1:] + levels[:-1]) / 2).tolist(), 1.0]
    found = [
        moved(asked, policy)
        for low, high in combinations_with_replacement(cuts, 2)
        for policy in [replace(NOW, thresholds=Thresholds(low, high))]
        if keeps(effect(asked, policy), goal)
    ]
    return min(found, default=None)


@pytest.mark.parametrize(
    "goal",
    [
        ThresholdObjective(max_mean_ms=17),
        ThresholdObjective(max_mean_ms=12),
        ThresholdObjective(max_graph_share=0.5),
        ThresholdObjective(max_graph_share=0.0),
        ThresholdObjective(max_mean_ms=18, max_graph_share=0.6),
    ],
)
@pytest.mark.parametrize("ties", [False, True])
def test_no_other_pair_keeps_the_bounds_with_fewer_changes(
    goal: ThresholdObjective, ties: bool
) -> None:
    for seed in range(3):
        asked = served(30, seed, ties=ties)
        if fewest(asked, goal) is None:
            with pytest.raises(FitError, match="No thresholds keep the bounds"):
                within_bounds(asked, NOW, goal)
            continue
        policy = within_bounds(asked, NOW, goal)
        assert keeps(effect(asked, policy), goal)
        assert moved(asked, policy) == fewest(asked, goal)


def test_what_keeps_the_bounds_stays() -> None:
    asked = served(50, 1)
    assert within_bounds(asked, NOW, ThresholdObjective(max_mean_ms=100)) is NOW
    assert within_bounds(asked, NOW, ThresholdObjective()) is NOW


def test_a_threshold_that_need_not_move_does_not() -> None:
    asked = served(3000, 2)
    policy = within_bounds(asked, NOW, ThresholdObjective(max_graph_share=0.6))
    assert policy.thresholds.low > 0.3
    assert policy.thresholds.high == 0.7
    assert policy.latency_ms == NOW.latency_ms


@pytest.mark.parametrize("budget", [25, 15, 5])
def test_bounds_hold_with_the_requests_own_budgets(budget: float) -> None:
    goal = ThresholdObjective(max_mean_ms=15, max_graph_share=0.4)
    for seed in range(5):
        asked = served(60, seed, budget=budget)
        assert keeps(effect(asked, within_bounds(asked, NOW, goal)), goal)


def test_a_route_of_unknown_latency_gets_nothing() -> None:
    without_graph = Policy(Thresholds(0.3, 1))
    asked = served(200, 3, without_graph, told=False)
    goal = ThresholdObjective(max_mean_ms=20)
    policy = within_bounds(asked, without_graph, goal)
    found = effect(asked, policy)
    assert keeps(found, goal)
    assert found.unknown == ()
    assert found.shares.keys() == {Route.DENSE, Route.FUSION}
    assert not keeps(effect(asked, Policy(Thresholds(0, 0))), goal)
    assert keeps(effect(asked, Policy(Thresholds(0, 0))), ThresholdObjective(max_graph_share=1))


def test_bounds_that_nothing_keeps() -> None:
    with pytest.raises(FitError, match="No thresholds keep the bounds"):
        within_bounds(served(50, 4), NOW, ThresholdObjective(max_mean_ms=1))


def test_scores_that_were_rounded_to_the_ends_are_taken() -> None:
    asked = served(50, 5)
    asked = replace(asked, scores=np.where(asked.scores > 0.7, 1.0, asked.scores))
    assert keeps(
        effect(asked, within_bounds(asked, NOW, ThresholdObjective(max_mean_ms=15))),
        ThresholdObjective(max_mean_ms=15),
    )


Write = Callable[..., Path]


@pytest.fixture
def settings(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    handmade_router: Callable[[Path, str, float], Path],
) -> Settings:
    """Of a router with other thresholds than its own."""
    reviewed = tmp_path / "reviewed.json"
    reviewed.write_text(
        '{"low": 0.5, "high": 0.6, "simple": "lexical", "latency_ms": {"lexical": 9}}',
        encoding="utf-8",
    )
    monkeypatch.setenv("WYE_ROUTER__MODEL", str(handmade_router(tmp_path / "models", "words", 8)))
    monkeypatch.setenv("WYE_ROUTER__THRESHOLDS", str(reviewed))
    return load_settings()


@pytest.fixture
def replay(write_log: Write, settings: Settings) -> LogReplay:
    """Ten requests as lexical, fusion and graph answered them."""
    routes = ["lexical"] * 4 + ["fusion"] * 2 + ["graph"] * 4
    lines = [
        logged(str(n), n / 10 + 0.05, route, model="handmade/v1", ms={"lexical": 10}.get(route, 30))
        for n, route in enumerate(routes)
    ]
    return LogReplay.load([write_log(*lines, rated("2", "a"))], settings)


def test_what_serves_now_are_the_reviewed_thresholds(replay: LogReplay) -> None:
    assert replay.log.model == "handmade/v1"
    assert replay.now == Policy(Thresholds(0.5, 0.6), Route.LEXICAL, {Route.LEXICAL: 9.0})
    assert replay.served.shares[Route.FUSION] == 0.2
    assert replay.present.shares[Route.FUSION] == 0.1
    wide = replay.effect(Policy(Thresholds(0, 1), Route.LEXICAL))
    assert wide.shares == {Route.FUSION: 1.0}


def test_candidates_are_files_or_numbers(replay: LogReplay, tmp_path: Path) -> None:
    assert replay.candidate("0.1,0.9").thresholds == Thresholds(0.1, 0.9)
    assert replay.candidate("0.1,0.9").simple == Route.LEXICAL
    assert replay.candidate(str(tmp_path / "reviewed.json")) == replay.now
    with pytest.raises(
        LogError, match=r"'0.1,high' is neither a thresholds file nor two numbers; give a file, or"
    ):
        replay.candidate("0.1,high")
    with pytest.raises(PolicyError, match="low <= high"):
        replay.candidate("0.9,0.1")
    with pytest.raises(ModelFileError, match="cannot be read"):
        replay.candidate("missing.json")


def test_a_thresholds_file_says_what_log_it_comes_from_and_no_question(
    replay: LogReplay, tmp_path: Path
) -> None:
    policy = within_bounds(replay.log.requests, replay.now, ThresholdObjective(max_graph_share=0.3))
    path = tmp_path / "deep" / "new.json"
    replay.save(path, policy, {"max_graph_share": 0.3})
    assert read_policy(path) == replace(policy, router="handmade/v1")
    notes = json.loads(path.read_text(encoding="utf-8"))["notes"]
    assert notes["from"] == "a request log; no answer was judged"
    assert notes["log"] == {
        "collection": "default",
        "router": "handmade/v1",
        "requests": 10,
        "questions": 10,
        "questions with marked passages": 1,
        "first": "2026-11-10T08:00:00+00:00",
        "last": "2026-11-10T08:00:00+00:00",
        "index versions": [3, 3],
    }
    assert notes["requests that change route"] == 2
    assert notes["instead_of"] == {"low": 0.5, "high": 0.6, "steps": 0.0}
    assert notes["max_graph_share"] == 0.3
    assert notes["expected mean_ms"] == pytest.approx(0.7 * 10 + 0.3 * 30)
    assert "question 1?" not in path.read_text(encoding="utf-8")
