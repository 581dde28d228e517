"""`wye tune --from-log`, without an index."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.training.made import logged
from wye.router.model_files import read_policy
from wye.router.types import Thresholds
from wye.service.cli import run

Write = Callable[..., Path]
Wye = Callable[..., tuple[int, str, str]]


@pytest.fixture
def router(tmp_path: Path, handmade_router: Callable[[Path, str, float], Path]) -> Path:
    return handmade_router(tmp_path / "models", "words", 8)


@pytest.fixture
def log(write_log: Write) -> Path:
    """Forty requests: up to 0.4 lexical in 10 ms, then fusion in 40 ms, from 0.6 on graph in 20."""
    ms = {"lexical": 10, "fusion": 40, "graph": 20}
    scores = [n / 40 for n in range(40)]
    routes = ["graph" if s >= 0.6 else "lexical" if s <= 0.4 else "fusion" for s in scores]
    return write_log(
        *(
            logged(str(n), score, route, ms=ms[route], model="handmade/v1")
            for n, (score, route) in enumerate(zip(scores, routes, strict=True))
        )
    )


@pytest.fixture
def wye(capsys: pytest.CaptureFixture[str], router: Path, log: Path) -> Wye:
    """Tune from the log; exit code, what was printed, and messages."""

    def call(*more: str | Path) -> tuple[int, str, str]:
        own = ["tune", "--from-log", log, "--router", router, *more]
        code = run([str(argument) for argument in own])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def test_a_log_says_what_thresholds_would_make_of_it(wye: Wye, tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    code, out, err = wye()
    assert (code, err) == (0, "")
    assert "40 decisions by handmade/v1" in out
    flat = " ".join(out.split())
    assert "proposed" not in flat
    assert "share of fusion 17.5%" in flat
    assert "Wrote" not in out
    assert sorted(tmp_path.iterdir()) == before


def test_a_bound_is_kept_with_the_fewest_changes(wye: Wye, tmp_path: Path) -> None:
    path = tmp_path / "new.json"
    code, out, _ = wye("--max-latency-ms", "15", "--out", path)
    assert code == 0
    assert "now proposed" in " ".join(out.split())
    assert "No answer was judged" in " ".join(out.split())
    assert out.endswith(
        f"Wrote {path}. Review it, then use it with WYE_ROUTER__THRESHOLDS={path}\n"
    )
    notes = json.loads(path.read_text(encoding="utf-8"))["notes"]
    assert notes["expected mean_ms"] <= 15
    assert notes["max_mean_ms"] == 15
    assert read_policy(path).thresholds != Thresholds(0.4, 0.6)


def test_a_proposal_is_written_where_a_file_is_named(wye: Wye, tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    code, out, _ = wye("--max-graph-share", "0.3")
    assert (code, "Nothing is written; --out FILE writes" in out) == (0, True)
    code, out, _ = wye("--max-graph-share", "0.9", "--out", tmp_path / "new.json")
    assert (code, "The present thresholds keep the bounds" in out) == (0, True)
    assert sorted(tmp_path.iterdir()) == before


def test_mistakes_are_one_sentence(
    wye: Wye, log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    for more, says in (
        (["--out", "x.json"], "There is nothing to write: set --max-latency-ms or"),
        ([log.name], "Give datasets or --from-log, not both."),
        (["--from-log", tmp_path / "missing"], "cannot be read"),
        (
            ["--collection", "wiki"],
            "The log has questions to the collections default (40); name one with --collection.",
        ),
        (["--router", "router-en/v1"], "was decided by router router-en/v1 (decided by another"),
        (["--max-latency-ms", "1"], "even the fastest route takes 10.0 ms on average"),
    ):
        code, _, err = wye(*more)
        assert (code, err.startswith("Error: "), says in err) == (2, True, True), err
    assert run(["tune", "--from-log", str(empty)]) == 2
    assert "No question was answered in" in capsys.readouterr().err
    assert run(["tune", "town", "--collection", "x"]) == 2
    assert "needs a request log; give one with --from-log." in capsys.readouterr().err
    assert run(["tune"]) == 2
    assert "Tune on what? Name datasets" in capsys.readouterr().err
