import json
import os
import subprocess
import sys
from pathlib import Path

from service.http.metrics import SHARED, Metrics

# What two workers do, each in a process of its own; the first is gone when the second is asked.
WORKER = """
import sys
from contextlib import ExitStack
from service.http.metrics import Metrics
from service.ingest.jobs import Job
metrics = Metrics()
metrics.routes.labels("c", "auto", "graph").inc()
metrics.stage_seconds.labels("queue").observe(0.5)
metrics.queue_depth.set(int(sys.argv[1]))
count = int(sys.argv[1])
metrics.documents.unfinished("c", [Job(str(n), "c", 1, 1, 0.0) for n in range(count)])
with ExitStack() as stack:
    for _ in range(count):
        stack.enter_context(metrics.documents.change("c", "write"))
    print(metrics.text().decode())
"""


def work(folder: Path, depth: int) -> list[str]:
    """Metrics as one of several workers tells them."""
    done = subprocess.run(
        [sys.executable, "-c", WORKER, str(depth)],
        env={**os.environ, SHARED: str(folder)},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    return done.stdout.splitlines()


def test_workers_tell_the_counts_of_all_and_the_queues_of_the_living(tmp_path: Path) -> None:
    work(tmp_path, 5)
    lines = work(tmp_path, 3)
    assert 'wye_routes_total{asked="auto",collection="c",route="graph"} 2.0' in lines
    assert 'wye_stage_seconds_sum{stage="queue"} 1.0' in lines
    assert "wye_queue_depth 3.0" in lines
    assert 'wye_changes_waiting{collection="c"} 3.0' in lines
    # All workers see the same jobs; who looked last knows best.
    assert 'wye_jobs{collection="c",state="queued"} 3.0' in lines


def test_apps_do_not_share_counts() -> None:
    first, second = Metrics(), Metrics()
    first.feedback.labels("good").inc()
    line = 'wye_feedback_total{rating="good"} 1.0'
    assert line in first.text().decode()
    assert line not in second.text().decode()
    assert json.dumps(first.content_type).startswith('"text/plain')
