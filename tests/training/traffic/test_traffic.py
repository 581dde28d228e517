import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from router.errors import ModelFileError, PolicyError
from router.model_files import read_policy
from router.policy import Policy
from router.settings import Settings, load_settings
from router.types import Route, Thresholds
from training.errors import LogError
from training.thresholds.outcomes import ThresholdObjective
from training.traffic.traffic import Traffic

Make = Callable[..., dict[str, Any]]
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
def traffic(asked: Make, said: Make, write_log: Write, settings: Settings) -> Traffic:
    """Ten requests as lexical, fusion and graph answered them."""
    routes = ["lexical"] * 4 + ["fusion"] * 2 + ["graph"] * 4
    lines = [
        asked(str(n), n / 10 + 0.05, route, model="handmade/v1", ms={"lexical": 10}.get(route, 30))
        for n, route in enumerate(routes)
    ]
    return Traffic.load([write_log(*lines, said("2", "a"))], settings)


def test_what_serves_now_are_the_reviewed_thresholds(traffic: Traffic) -> None:
    assert traffic.log.model == "handmade/v1"
    assert traffic.now == Policy(Thresholds(0.5, 0.6), Route.LEXICAL, {Route.LEXICAL: 9.0})
    assert traffic.served.shares[Route.FUSION] == 0.2
    assert traffic.present.shares[Route.FUSION] == 0.1
    wide = traffic.effect(Policy(Thresholds(0, 1), Route.LEXICAL))
    assert wide.shares == {Route.FUSION: 1.0}


def test_candidates_are_files_or_numbers(traffic: Traffic, tmp_path: Path) -> None:
    assert traffic.candidate("0.1,0.9").thresholds == Thresholds(0.1, 0.9)
    assert traffic.candidate("0.1,0.9").simple == Route.LEXICAL
    assert traffic.candidate(str(tmp_path / "reviewed.json")) == traffic.now
    with pytest.raises(LogError, match=r"'0.1,high' are no thresholds; give a file, or"):
        traffic.candidate("0.1,high")
    with pytest.raises(PolicyError, match="low <= high"):
        traffic.candidate("0.9,0.1")
    with pytest.raises(ModelFileError, match="cannot be read"):
        traffic.candidate("missing.json")


def test_a_thresholds_file_says_what_log_it_comes_from_and_no_question(
    traffic: Traffic, tmp_path: Path
) -> None:
    policy = traffic.within(ThresholdObjective(max_graph_share=0.3))
    path = tmp_path / "deep" / "new.json"
    traffic.save(path, policy, {"max_graph_share": 0.3})
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
    assert notes["instead_of"] == {"low": 0.5, "high": 0.6}
    assert notes["max_graph_share"] == 0.3
    assert notes["expected mean_ms"] == pytest.approx(0.7 * 10 + 0.3 * 30)
    assert "question 1?" not in path.read_text(encoding="utf-8")
