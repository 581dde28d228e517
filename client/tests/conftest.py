"""A server of the demo corpus, by the command that the variable WYE names."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

DEMO = Path(__file__).parents[2] / "service" / "demo" / "corpus.jsonl"
PATIENCE = 300.0


@pytest.fixture(scope="session")
def url(tmp_path_factory: pytest.TempPathFactory, unused_port: int) -> Iterator[str]:
    index = tmp_path_factory.mktemp("demo") / "index"
    wye = os.environ["WYE"]
    subprocess.run([wye, "index", DEMO, "--index", index], check=True, capture_output=True)
    address = f"http://127.0.0.1:{unused_port}"
    server = subprocess.Popen([wye, "serve", "--index", index, "--port", str(unused_port)])
    try:
        end = time.monotonic() + PATIENCE
        while not _is_ready(address):
            assert server.poll() is None
            assert time.monotonic() < end
            time.sleep(0.1)
        yield address
    finally:
        server.terminate()
        server.wait(PATIENCE)


@pytest.fixture(scope="session")
def unused_port() -> int:

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def _is_ready(address: str) -> bool:
    try:
        return httpx2.get(f"{address}/ready").status_code == 200
    except httpx2.TransportError:
        return False
