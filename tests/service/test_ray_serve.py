"""Replicas of Ray Serve answer as one server, and one that is killed costs its open requests."""

import os
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import httpx2 as httpx
import pytest

from tests.live import until
from wye.backends.sources import DocumentSource
from wye.router.session import Session
from wye.router.settings import load_settings
from wye.service.errors import ServiceError

ray = pytest.importorskip("ray")
serve = pytest.importorskip("ray.serve")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
DEMO = Path(__file__).parents[2] / "service" / "demo"
QUESTION = {"question": "Who designed the Iron Bridge?", "route": "fusion"}
CLIENTS = 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served") / "index"
    with Session.create(load_settings(index=folder), folder) as session:
        session.ingest(DocumentSource(DEMO).passages())
        session.build_indices()
    return folder


@pytest.fixture
def url(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    from wye.service import ray_serve  # noqa: PLC0415 - it imports ray

    monkeypatch.setenv("WYE_ENGINE", "dataset")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    ray.init(num_cpus=2, log_to_driver=False, logging_level="error", include_dashboard=False)
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    arguments = {"index": str(folder), "host": "127.0.0.1", "replicas": "2", "processors": "0.5"}
    serve.run(ray_serve.app(arguments | {"most_replicas": "2"}))
    yield f"http://127.0.0.1:{port}/v1/retrieve"
    serve.shutdown()
    ray.shutdown()


def replicas() -> list[int]:
    return [
        int(path.parent.name)
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if path.exists() and b"ray::ServeReplica:default:wye" in path.read_bytes()
    ]


def test_replicas_answer_and_a_killed_one_costs_its_open_requests(url: str) -> None:
    until(lambda: len(replicas()) == 2)
    stopped, codes = Event(), list[int]()

    def load() -> None:
        with httpx.Client(timeout=60) as client:
            while not stopped.is_set():
                codes.append(client.post(url, json=QUESTION).status_code)

    with ThreadPoolExecutor(CLIENTS) as pool:
        clients = [pool.submit(load) for _ in range(CLIENTS)]
        until(lambda: len(codes) >= 20)
        os.kill(replicas()[0], signal.SIGKILL)
        killed = len(codes)
        until(lambda: len(codes) >= killed + 40)
        stopped.set()
        for client in clients:
            client.result()
    assert sum(code != 200 for code in codes) <= CLIENTS
    assert codes[-10:] == [200] * 10


def test_other_machines_need_a_key(folder: Path) -> None:
    from wye.service import ray_serve  # noqa: PLC0415 - it imports ray

    with pytest.raises(ServiceError, match="no API key"):
        ray_serve.app({"index": str(folder)})
