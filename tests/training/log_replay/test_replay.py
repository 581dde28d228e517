import io
import math
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations_with_replacement
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from tests.training.made import HAND, logged, rated
from wye.router.policy import Policy, bands
from wye.router.settings import Settings, load_settings
from wye.router.types import Route, Thresholds
from wye.training.errors import FitError
from wye.training.log_replay.reading import ROUTES, DecisionLog, read_log
from wye.training.log_replay.replay import (
    changes,
    decide_again,
    effect,
    keeps,
    load,
    mean_times,
    notes,
    show_replay,
    within_bounds,
)
from wye.training.thresholds.solve import FUSION, GRAPH, SIMPLE, ThresholdObjective

D, F, G, S = (ROUTES.index(r) for r in (Route.DENSE, Route.FUSION, Route.GRAPH, Route.STEPS))
KNOWN = {Route.DENSE: 10.0, Route.FUSION: 30.0, Route.GRAPH: 20.0}
NOW = Policy(Thresholds(0.3, 0.7), latency_ms=KNOWN)


def requests(
    scores: list[float], routes: list[int], ms: list[float] | None = None, now: Policy = NOW
) -> DecisionLog:
    times = np.full((len(scores), len(ROUTES)), math.nan, np.float32)
    times[np.arange(len(scores)), routes] = ms or 10.0
    codes = np.array(routes, np.int8)
    router = replace(HAND, policy=now)
    return DecisionLog(router, "default", np.array(scores), codes, times, ("", ""), {}, {})


def test_scores_are_decided_as_thresholds_say() -> None:
    scores = np.random.default_rng(0).random(500).round(2)
    asked = requests(scores.tolist(), [D] * 500)
    for pair in (Thresholds(0.2, 0.8), Thresholds(0.5, 0.5), Thresholds(0, 1), Thresholds(1, 1)):
        codes = bands(scores, pair)
        expected = np.select([codes == SIMPLE, codes == FUSION, codes == GRAPH], [D, F, G])
        assert decide_again(asked, Policy(pair)).tolist() == expected.tolist()
    lexical = decide_again(asked, Policy(Thresholds(1, 1), Route.LEXICAL))
    assert {ROUTES[code] for code in lexical} <= {Route.LEXICAL, Route.GRAPH}


def test_what_went_in_steps_still_does_unless_thresholds_take_none_apart() -> None:
    asked = requests([0.1, 0.5, 0.9], [D, S, G])
    assert decide_again(asked, Policy(Thresholds(0.4, 0.8, 0.5))).tolist() == [D, S, G]
    assert decide_again(asked, Policy(Thresholds(0.4, 0.8))).tolist() == [D, F, G]


def test_what_was_served_is_what_was_measured() -> None:
    asked = requests([0.1, 0.2, 0.5, 0.9], [D, D, F, G], [10, 20, 40, 30])
    served = effect(asked, None)
    assert served.shares == {Route.DENSE: 0.5, Route.GRAPH: 0.25, Route.FUSION: 0.25}
    assert served.mean_ms == 25
    assert mean_times(asked) == {Route.DENSE: 15, Route.GRAPH: 30, Route.FUSION: 40}


def test_what_a_request_tells_of_another_route_is_taken_for_it() -> None:
    asked = requests([0.1, 0.5, 0.9], [D, F, F], [10, 40, 44])
    asked.times_ms[[1, 2], G] = 30, 34
    assert mean_times(asked)[Route.GRAPH] == 32
    assert effect(asked, Policy(Thresholds(0.2, 0.8))).mean_ms == pytest.approx((10 + 40 + 34) / 3)
    # Of the first nothing but dense is known: by graph it takes as long as the others do.
    assert effect(asked, Policy(Thresholds(0, 0))).mean_ms == 32


def test_requests_that_tell_nothing_last_as_others_by_their_new_route() -> None:
    asked = requests([0.1, 0.2, 0.5, 0.9], [D, D, F, G], [10, 20, 40, 30])
    cheap = effect(asked, Policy(Thresholds(0.5, 0.8)))
    assert cheap.shares == {Route.DENSE: 0.75, Route.GRAPH: 0.25}
    assert cheap.mean_ms == pytest.approx((3 * 15 + 30) / 4)


def test_a_route_of_which_nothing_is_told_has_no_known_latency() -> None:
    asked = requests([0.1, 0.9], [D, F], [10, 20])
    assert math.isnan(effect(asked, Policy(Thresholds(0.5, 0.8))).mean_ms)


def test_changes_are_counted_from_what_is_in_use() -> None:
    asked = requests([0.1, 0.2, 0.5, 0.9], [D, D, F, D])
    assert changes(asked, NOW) == 0
    assert changes(asked, None) == 1
    assert changes(asked, Policy(Thresholds(0, 1))) == 3


def served(
    n: int, seed: int, policy: Policy = NOW, *, ties: bool = False, told: bool = True
) -> DecisionLog:
    """Requests as a policy serves them."""
    draw = np.random.default_rng(seed)
    scores = draw.random(n).round(1 if ties else 6)
    asked = requests(scores.tolist(), [D] * n, now=policy)
    routes = decide_again(asked, policy)
    asked.times_ms[:] = math.nan
    for row, code in enumerate(routes.tolist()):
        # What fusion takes tells of the graph.
        for route in {code, G} if code == F and told else {code}:
            asked.times_ms[row, route] = KNOWN[ROUTES[route]] * draw.uniform(0.5, 1.5)
    return replace(asked, routes=routes)


def fewest(asked: DecisionLog, goal: ThresholdObjective) -> int | None:
    """Slow and obvious: try every pair of cuts."""
    levels = np.unique(asked.scores)
    cuts = [0.0, *((levels[1:] + levels[:-1]) / 2).tolist(), 1.0]
    found = [
        changes(asked, policy)
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
                within_bounds(asked, goal)
            continue
        policy = within_bounds(asked, goal)
        assert keeps(effect(asked, policy), goal)
        assert changes(asked, policy) == fewest(asked, goal)


def test_what_keeps_the_bounds_stays() -> None:
    asked = served(50, 1)
    assert within_bounds(asked, ThresholdObjective(max_mean_ms=100)) is NOW
    assert within_bounds(asked, ThresholdObjective()) is NOW


def test_a_threshold_that_need_not_move_does_not() -> None:
    asked = served(3000, 2)
    policy = within_bounds(asked, ThresholdObjective(max_graph_share=0.6))
    assert policy.thresholds.low > 0.3
    assert policy.thresholds.high == 0.7
    assert policy.latency_ms == NOW.latency_ms


def test_a_route_of_unknown_latency_gets_nothing() -> None:
    without_graph = Policy(Thresholds(0.3, 1))
    asked = served(200, 3, without_graph, told=False)
    goal = ThresholdObjective(max_mean_ms=20)
    policy = within_bounds(asked, goal)
    found = effect(asked, policy)
    assert keeps(found, goal)
    assert found.shares.keys() == {Route.DENSE, Route.FUSION}
    assert not keeps(effect(asked, Policy(Thresholds(0, 0))), goal)
    assert keeps(effect(asked, Policy(Thresholds(0, 0))), ThresholdObjective(max_graph_share=1))


def test_bounds_that_nothing_keeps() -> None:
    with pytest.raises(FitError, match="No thresholds keep the bounds"):
        within_bounds(served(50, 4), ThresholdObjective(max_mean_ms=1))


def test_scores_that_were_rounded_to_the_ends_are_taken() -> None:
    asked = served(50, 5)
    asked = replace(asked, scores=np.where(asked.scores > 0.7, 1.0, asked.scores))
    assert keeps(
        effect(asked, within_bounds(asked, ThresholdObjective(max_mean_ms=15))),
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
def log(write_log: Write, settings: Settings) -> DecisionLog:
    """Ten requests as lexical, fusion and graph answered them."""
    routes = ["lexical"] * 4 + ["fusion"] * 2 + ["graph"] * 4
    lines = [
        logged(str(n), n / 10 + 0.05, route, model="handmade/v1", ms={"lexical": 10}.get(route, 30))
        for n, route in enumerate(routes)
    ]
    return load([write_log(*lines, rated("2", "a"))], settings)


def test_what_serves_now_are_the_reviewed_thresholds(log: DecisionLog) -> None:
    assert log.router.name == "handmade/v1"
    now = log.router.policy
    assert now == Policy(Thresholds(0.5, 0.6), Route.LEXICAL, {Route.LEXICAL: 9.0})
    assert effect(log, None).shares[Route.FUSION] == 0.2
    assert effect(log, now).shares[Route.FUSION] == 0.1
    assert effect(log, Policy(Thresholds(0, 1), Route.LEXICAL)).shares == {Route.FUSION: 1.0}


def test_notes_say_what_log_thresholds_come_from_and_no_question(log: DecisionLog) -> None:
    assert notes(log, "a log") == {
        "from": "a log",
        "log": {
            "collection": "default",
            "router": "handmade/v1",
            "requests": 10,
            "questions with marked passages": 1,
            "period": ["2026-11-10 08:00+00:00"] * 2,
        },
        "instead_of": {"low": 0.5, "high": 0.6, "steps": 0.0},
    }


@pytest.fixture
def console() -> Console:
    return Console(width=130, file=io.StringIO(), record=True)


@pytest.fixture
def shown(write_log: Write) -> DecisionLog:
    lines = [logged(str(n), n / 20, "dense" if n <= 8 else "fusion", ms=n) for n in range(1, 20)]
    forced = logged("x", asked="graph", score=None)
    path = write_log(*lines, forced, rated("1", "a"), rated("lost", "a"))
    return read_log([path], replace(HAND, policy=Policy(Thresholds(0.4, 1.0))))


def rows(console: Console, start: str) -> list[str]:
    """Lines that begin so, with single spaces."""
    lines = (" ".join(line.split()) for line in console.export_text(clear=False).splitlines())
    return [line for line in lines if line.startswith(start)]


def test_what_was_read_is_told(console: Console, shown: DecisionLog) -> None:
    show_replay(console, shown)
    text = " ".join(console.export_text(clear=False).split())
    assert "19 decisions by hand/v1 for collection 'default', from 2026-11-10 08:00+00:00" in text
    assert "1 different questions with passages marked as answers" in text
    assert "left out: 1 route named by the caller" in text
    assert "left out: 1 feedback on an unknown request, or on that of another key" in text
    assert "Tenths of the scores end at 0.14, 0.23, 0.32," in text
    assert "by that route: dense 4.5 ms, graph 14.0 ms, fusion 14.0 ms." in text
    assert not rows(console, "share of lexical")


def test_thresholds_stand_side_by_side(console: Console, shown: DecisionLog) -> None:
    show_replay(console, shown, Policy(Thresholds(0.2, 1)))
    rules = (line.strip() for line in console.export_text(clear=False).split("\n"))
    assert max(len(rule) for rule in rules if rule.startswith("──")) < 80
    assert rows(console, "low") == ["low 0.400 0.200"]
    assert rows(console, "share of fusion") == ["share of fusion 57.9% 57.9% 78.9%"]
    assert rows(console, "mean ms") == ["mean ms 10.0 10.0 11.6"]
    assert rows(console, "another route") == ["another route than now 0 0 4"]


def test_a_time_that_no_request_tells_is_unknown(console: Console, write_log: Write) -> None:
    log = read_log([write_log(logged("1", 0.1, "dense"))], HAND)
    show_replay(console, log, Policy(Thresholds(0, 0)))
    assert rows(console, "mean ms") == ["mean ms 20.0 20.0 unknown"]
