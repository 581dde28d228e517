"""Builds on Ray clusters beside a local one: actors, a node and the build itself are killed."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import fs, parquet

from wye.backends.readers.records import refuse
from wye.backends.sources import DocumentSource
from wye.backends.store.index import PassageStore
from wye.backends.types import Silent
from wye.router.session import Session
from wye.router.settings import Settings, load_settings
from wye.router.types import Ask, Route

ray = pytest.importorskip("ray")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
DEMO = Path(__file__).parents[2] / "service" / "demo"
QUESTIONS = ["Who designed the Iron Bridge?", "Which river does the old mill stand on?"]
BUILD = """
import json, sys
from dataclasses import replace
from wye.backends.sources import DocumentSource, refuse
from wye.router.settings import load_settings
from wye.service import ray_build

index, source, address = sys.argv[1:]
ray_build.ROWS_PER_TASK = 16
ray_build.COMMIT_SECONDS = 0.0
settings = load_settings(index=index)
settings = settings.model_copy(update={"ingest": replace(settings.ingest, batch_passages=32)})
files = DocumentSource(source).split()
report = ray_build.build(settings, files, {}, refuse, address=address)
print(json.dumps([report.added, report.unchanged]))
"""
Row = Mapping[str, object]


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("local") / "index"
    with Session.create(small(load_settings(index=folder)), folder) as session:
        session.ingest(DocumentSource(DEMO).passages())
        session.build_indices()
    return folder


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from wye.service import ray_build  # noqa: PLC0415 - it imports ray

    monkeypatch.setattr(ray_build, "ROWS_PER_TASK", 16)


@pytest.fixture
def there(tmp_path: Path) -> Settings:
    return small(load_settings(index=tmp_path / "ray"))


def small(settings: Settings) -> Settings:
    """Settings with several fragments for 199 passages."""
    return settings.model_copy(update={"ingest": replace(settings.ingest, batch_passages=32)})


class Once(Silent):
    """Does something once some passages are done."""

    def __init__(self, act: Callable[[], object]) -> None:
        self.act = act
        self.found: object = None

    def advance(self, by: int) -> None:
        self.found = self.found or self.act()


def build(settings: Settings, source: str | Path = DEMO, **options: Any) -> int:  # noqa: ANN401
    from wye.service import ray_build  # noqa: PLC0415 - it imports ray

    files = DocumentSource(source).split()
    return ray_build.build(settings, files, {}, refuse, **options).added


def rows(folder: Path) -> list[Row]:
    table: list[Row] = PassageStore.open(folder).snapshot().to_table().sort_by("id").to_pylist()
    return table


def rankings(folder: Path) -> list[object]:
    with Session.open(load_settings(engine="dataset"), folder) as session:
        replies = session.gateway.search(QUESTIONS, Ask(Route.FUSION, 10))
        return [reply.ranking for reply in replies]


def parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def kill_actors() -> int:
    """Kill each process of this test's cluster that analyses."""
    killed = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            is_actor = b"ray::_Worker" in (folder / "cmdline").read_bytes()
            of_test = parent(parent(int(folder.name))) == os.getpid()  # its raylet's
        except OSError:
            continue
        if is_actor and of_test:
            os.kill(int(folder.name), signal.SIGKILL)
            killed += 1
    return killed


def test_actors_that_are_killed_change_nothing(local: Path, there: Settings) -> None:
    killing = Once(kill_actors)
    assert build(there, actors=2, progress=killing) == 199
    assert killing.found
    assert there.index is not None
    assert rows(there.index) == rows(local)
    assert rankings(there.index) == rankings(local)


def test_a_document_with_anothers_id_is_named_with_both(there: Settings, tmp_path: Path) -> None:
    from wye.service import ray_build  # noqa: PLC0415 - it imports ray

    one, other = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    for path in (one, other):
        path.write_text('{"_id": "7", "text": "The old mill stands on the Isar."}\n')
    files = [DocumentSource(path) for path in (one, other)]
    bad: list[str] = []
    report = ray_build.build(there, files, {}, lambda line: bad.append(str(line)), actors=1)
    assert (report.added, report.repeated) == (1, 0)
    assert [each.partition(";")[0] for each in bad] == [f"{other}: id '7' is in {one} as well"]


@pytest.fixture
def cluster() -> Iterator[Any]:
    """A cluster of two nodes, of which one has no more than the head."""
    from ray.cluster_utils import Cluster  # noqa: PLC0415

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    made.workers = [made.add_node(num_cpus=1)]
    made.wait_for_nodes()
    yield made
    ray.shutdown()
    made.shutdown()


def test_a_node_that_is_lost_changes_nothing(local: Path, there: Settings, cluster: Any) -> None:  # noqa: ANN401
    def lose_a_node() -> bool:
        cluster.remove_node(cluster.workers.pop(), allow_graceful=False)
        return True

    losing = Once(lose_a_node)
    assert build(there, address=cluster.address, progress=losing) == 199
    assert losing.found
    assert there.index is not None
    assert rows(there.index) == rows(local)


def test_the_build_is_killed_and_run_again(local: Path, there: Settings, cluster: Any) -> None:  # noqa: ANN401
    assert there.index is not None
    command = [sys.executable, "-c", BUILD, str(there.index), str(DEMO), cluster.address]
    first = subprocess.Popen(command)
    patience = time.monotonic() + 300
    while first.poll() is None and time.monotonic() < patience and stored(there.index) < 32:
        time.sleep(0.05)
    first.kill()
    first.wait()
    saved = stored(there.index)
    assert 32 <= saved < 199
    second = subprocess.run(command, check=True, capture_output=True)
    assert json.loads(second.stdout) == [199 - saved, saved]
    assert rows(there.index) == rows(local)


def stored(folder: Path) -> int:
    """Passages of an index that may not be there yet."""
    versions = folder / "passages.lance" / "_versions"
    return PassageStore.open(folder).count() if any(versions.glob("*.manifest")) else 0


def test_rows_of_parquet_in_an_object_store(
    local: Path, there: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    moto = pytest.importorskip("moto.server")
    for name, value in {"ACCESS_KEY_ID": "a", "SECRET_ACCESS_KEY": "b"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    server = moto.ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        query = f"endpoint_override={host}:{port}&scheme=http&region=us-east-1"
        store, _ = fs.FileSystem.from_uri(f"s3://demo?{query}&allow_bucket_creation=true")
        store.create_dir("demo")
        documents = [json.loads(line) for line in (DEMO / "corpus.jsonl").open(encoding="utf-8")]
        for part in range(3):
            table = pa.Table.from_pylist(documents[part::3])
            parquet.write_table(table, f"demo/in/{part}.parquet", filesystem=store)
        assert build(there, f"s3://demo/in?{query}", actors=1) == 199
    finally:
        server.stop()
    assert there.index is not None
    assert rows(there.index) == rows(local)
