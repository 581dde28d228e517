"""Request logs made by hand."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from router.model_files import Stated
from router.policy import Policy
from router.request_log import FEEDBACK, RETRIEVAL
from router.types import Thresholds

MODEL = "hand/v1"
Line = dict[str, Any]


def line(
    request_id: str = "1",
    score: float | None = 0.5,
    route: str = "fusion",
    *,
    ms: float = 20.0,
    low: float = 0.4,
    high: float = 0.6,
    model: str = MODEL,
    reason: str = "score",
    **changes: Any,  # noqa: ANN401 - as many types as a line has
) -> Line:
    """An answered question as the service logs it; no score, no decision."""
    decision = {
        "route": route,
        "score": score,
        "logit": 0.0,
        "thresholds": {"low": low, "high": high},
        "reason": reason,
        "model": model,
    }
    return {
        "kind": RETRIEVAL,
        "request_id": request_id,
        "time": "2026-11-10T08:00:00.000+00:00",
        "question": f"question {request_id}?",
        "collection": "default",
        "asked": "auto",
        "route": route,
        "k": 5,
        "filter": None,
        "max_latency_ms": None,
        "decision": None if score is None else decision,
        "passages": ["a", "b"],
        "index_version": 3,
        "degraded": "",
        "seconds": {"queue": 0.004, "parsing": 0.001, route: ms / 1000 - 0.001, "total": 0.05},
        **changes,
    }


def feedback(request_id: str = "1", *passages: str, rating: str = "good", **changes: Any) -> Line:  # noqa: ANN401
    return {
        "kind": FEEDBACK,
        "request_id": request_id,
        "time": "2026-11-10T09:00:00.000+00:00",
        "rating": rating,
        "passages": list(passages),
        "comment": "",
        **changes,
    }


@pytest.fixture(scope="session")
def asked() -> Callable[..., Line]:
    """Make a line of an answered question."""
    return line


@pytest.fixture(scope="session")
def said() -> Callable[..., Line]:
    """Make a line of feedback."""
    return feedback


@pytest.fixture(scope="session")
def hand() -> Stated:
    """The router that decided, unless a line says otherwise."""
    return Stated(MODEL, Policy(Thresholds(0.4, 0.6)), asks_corpus=False)


@pytest.fixture
def write_log(tmp_path: Path) -> Callable[..., Path]:
    """Write lines, which may be text that is none, to a file."""

    def write(*lines: Line | str, name: str = "log.jsonl") -> Path:
        path = tmp_path / name
        texts = (one if isinstance(one, str) else json.dumps(one) + "\n" for one in lines)
        path.write_text("".join(texts), encoding="utf-8")
        return path

    return write
