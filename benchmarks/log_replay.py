"""How long `wye tune --from-log` takes on a long request log, and how much memory.

The log is made up: scores, routes and times are drawn at random, a third of the questions come
again, and one request in a hundred has feedback.
"""

import argparse
import resource
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from benchmarks import harness
from benchmarks.harness import WYE, Table, timed
from router.model_files import RouterInfo, read_info
from router.policy import decide
from router.request_log import FEEDBACK, RETRIEVAL, RequestLog
from router.settings import RoutingSettings
from router.types import Route

_STAGES = {
    "parsing": 6.0,
    "encoding": 6.0,
    "features": 1.0,
    "seeds": 0.5,
    "dense": 0.5,
    "routing": 0.5,
    "graph": 8.0,
    "lexical": 0.5,
    "fusing": 1.0,
    "fetching": 0.3,
}
"""Mean milliseconds."""
_OF_FUSION = frozenset({"lexical", "fusing"})


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the length of the log, and what to solve for."""
    parser.add_argument("--lines", type=int, default=1_000_000, help="requests in the log")
    parser.add_argument("--max-latency-ms", type=float, default=18.0, help="to solve for")


def run(given: argparse.Namespace) -> int:
    """Write a log, and run the command on it; returns its exit code."""
    data = f"{given.lines:,} made-up requests"
    harness.print_header("wye tune --from-log", seed=given.seed, data=data)
    router = read_info(RoutingSettings().folder())
    with tempfile.TemporaryDirectory(prefix="wye-bench-") as folder:
        path = Path(folder) / "requests.jsonl"
        writing = timed(lambda: write(path, given.lines, router, seed=given.seed))
        command = [*WYE, "tune", "--from-log", str(path)]
        command += ["--max-latency-ms", str(given.max_latency_ms)]
        codes: list[int] = []
        seconds = timed(lambda: codes.append(subprocess.run(command, check=False).returncode))
        size = path.stat().st_size
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    table = Table(["what", "seconds", "MB"], width=32)
    table.row("writing the log", writing, size / 1e6)
    table.row("wye tune --from-log, peak memory", seconds, peak)
    return codes[0]


def write(path: Path, lines: int, router: RouterInfo, *, seed: int = 0) -> None:
    """Write a log of so many requests as the service does, with a router's decisions."""
    policy = router.policy
    draw = np.random.default_rng(seed)
    journal = RequestLog(path)
    pair = {"low": policy.thresholds.low, "high": policy.thresholds.high}
    for at in range(lines):
        score = float(draw.beta(1.2, 2.0))
        route = decide(score, policy.thresholds, simple=policy.simple).route
        stages = {
            stage: float(draw.gamma(4.0, ms / 4000))
            for stage, ms in _STAGES.items()
            if (stage not in _OF_FUSION or route == Route.FUSION)
            and (stage != "graph" or route != policy.simple)
        }
        shown = [f"passage-{n}" for n in draw.integers(20_000, size=5).tolist()]
        number = int(draw.integers(at)) if at and draw.random() < 1 / 3 else at
        journal.write(
            RETRIEVAL,
            f"{at:024x}",
            {
                "question": f"Where did the river of question {number} begin, and who lived there?",
                "collection": "default",
                "asked": "auto",
                "route": str(route),
                "k": 5,
                "filter": None,
                "max_latency_ms": None,
                "decision": {
                    "route": str(route),
                    "score": score,
                    "logit": float(np.log(score / (1 - score))),
                    "thresholds": pair,
                    "reason": "score",
                    "model": router.name,
                    "contributions": [],
                    "nearest_change": None,
                    "trees": [],
                },
                "passages": shown,
                "index_version": 3,
                "degraded": "",
                "seconds": {
                    "queue": 0.0004,
                    **stages,
                    "total": sum(stages.values()) + 0.0004,
                },
            },
        )
        if draw.random() < 0.01:
            said = {"rating": "good", "passages": shown[:1], "comment": ""}
            journal.write(FEEDBACK, f"{at:024x}", said)
    journal.close()
