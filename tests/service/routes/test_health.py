import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from starlette.testclient import TestClient

from router.types import Route

if TYPE_CHECKING:
    from tests.service.conftest import Library

Serve = Callable[..., TestClient]
RIVER = {"question": "What river is it?", "route": "dense"}


def test_it_is_healthy_before_it_is_ready(serve: Serve, library: "Library") -> None:
    library.seconds = {Route.DENSE: 0.3}
    client = serve(library, ready=False)
    assert client.get("/health").json()["status"] == "ok"
    assert client.get("/ready").status_code == 503
    early = client.post("/v1/retrieve", json=RIVER)
    assert (early.status_code, early.json()["type"]) == (503, "urn:wye:problem:loading")
    assert early.headers["retry-after"] == "1"
    give_up = time.monotonic() + 10
    while client.get("/ready").status_code != 200 and time.monotonic() < give_up:
        time.sleep(0.01)
    assert client.get("/ready").json() == {
        "status": "ready",
        "collections": [
            {
                "collection": "default",
                "ready": True,
                "index_version": 1,
                "passages": 3,
                "router": "words/v1",
                "thresholds": {"low": 0.4, "high": 0.7},
            }
        ],
    }


def test_what_cannot_be_loaded_says_why(serve: Serve, library: "Library") -> None:
    library.failing = {Route.GRAPH}
    client = serve(library, ready=False)
    give_up = time.monotonic() + 10
    while time.monotonic() < give_up:
        (facts,) = client.get("/ready").json()["collections"]
        if "error" in facts:
            break
        time.sleep(0.01)
    assert facts == {"collection": "default", "ready": False, "error": "the arm is broken"}
    assert client.get("/ready").status_code == 503
    assert client.get("/health").status_code == 200
    assert "the arm is broken" in client.post("/v1/retrieve", json=RIVER).json()["detail"]
