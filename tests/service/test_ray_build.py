"""A build on a local Ray cluster, an actor of which is killed, beside a local one."""

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from backends.progress import Silent
from backends.sources import DocumentSource, refuse
from backends.store.index import PassageStore
from router.session import Session
from router.settings import load_settings
from router.types import Route

ray = pytest.importorskip("ray")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
DEMO = Path(__file__).parents[2] / "service" / "demo"
QUESTIONS = ["Who designed the Iron Bridge?", "Which river does the old mill stand on?"]


def parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


class Killing(Silent):
    """Kills each process that analyses, once some passages are done."""

    def __init__(self) -> None:
        self.killed = 0

    def advance(self, by: int) -> None:
        if self.killed:
            return
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                is_actor = b"ray::MapWorker" in (folder / "cmdline").read_bytes()
                of_test = parent(parent(int(folder.name))) == os.getpid()  # its raylet's
            except OSError:
                continue
            if is_actor and of_test:
                os.kill(int(folder.name), signal.SIGKILL)
                self.killed += 1


def test_the_rows_and_rankings_are_those_of_a_local_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from service import ray_build  # noqa: PLC0415 - it imports ray

    monkeypatch.setattr(ray_build, "ROWS_PER_TASK", 16)
    there, here = (load_settings(index=tmp_path / name) for name in ("ray", "local"))
    there = there.model_copy(update={"ingest": replace(there.ingest, batch_passages=32)})
    killing = Killing()
    files = DocumentSource(DEMO).split()
    report = ray_build.build(there, files, {}, refuse, actors=2, progress=killing)
    assert (report.added, killing.killed > 0) == (199, True)
    with Session.create(here, tmp_path / "local") as local:
        local.ingest(DocumentSource(DEMO).passages())
    rows = [
        PassageStore.open(tmp_path / name).snapshot().to_table().sort_by("id").to_pylist()
        for name in ("ray", "local")
    ]
    assert rows[0] == rows[1]
    found = []
    for settings in (there, here):
        assert settings.index is not None
        with Session.open(settings, settings.index) as session:
            replies = session.gateway.search(QUESTIONS, Route.FUSION, 10)
            found.append([reply.ranking for reply in replies])
    assert found[0] == found[1]
