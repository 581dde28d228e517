from pathlib import Path

from router.types import Route
from service.http.keys import Scope, new_key
from tests.live import until
from tests.service.fakes import Library, Serve

RIVER = {"question": "What river is it?", "route": "dense"}


def test_it_is_healthy_before_it_is_ready(serve: Serve, library: Library) -> None:
    library.seconds = {Route.DENSE: 0.3}
    client = serve(library, ready=False)
    assert client.get("/health").json()["status"] == "ok"
    assert client.get("/ready").status_code == 503
    early = client.post("/v1/retrieve", json=RIVER)
    assert (early.status_code, early.json()["type"]) == (503, "urn:wye:problem:loading")
    assert early.headers["retry-after"] == "1"
    until(lambda: client.get("/ready").status_code == 200)
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


def test_what_cannot_be_loaded_says_why(serve: Serve, library: Library) -> None:
    library.failing = {Route.GRAPH}
    client = serve(library, ready=False)
    until(lambda: "the arm is broken" in client.get("/ready").text)
    (facts,) = client.get("/ready").json()["collections"]
    assert facts == {"collection": "default", "ready": False, "error": "the arm is broken"}
    assert client.get("/ready").status_code == 503
    assert client.get("/health").status_code == 200
    assert "the arm is broken" in client.post("/v1/retrieve", json=RIVER).json()["detail"]


def test_a_line_of_the_keys_file_that_cannot_be_read_is_told(
    serve: Serve, library: Library, tmp_path: Path
) -> None:
    path = tmp_path / "keys.txt"
    (boss, boss_key), (ada, ada_key) = (new_key(name, [Scope.READ]) for name in ("boss", "ada"))
    path.write_text(f"{boss_key}\n{ada_key}\n", encoding="utf-8")
    client = serve(library, keys_file=path)
    headers = {"x-api-key": ada}
    assert client.get("/v1/stats", headers=headers).json()["keys_error"] == ""
    assert "keys" not in client.get("/ready", headers=headers).json()
    path.write_text(f"{ada_key}\ngarbage\n", encoding="utf-8")
    until(lambda: client.get("/v1/stats", headers={"x-api-key": boss}).status_code == 401)
    for path_ in ("/ready", "/health"):
        said = client.get(path_, headers=headers).json()["keys"]
        assert said.startswith("Line 2 of the keys file is no hashed API key")
        assert "keys" not in client.get(path_).json()
    assert client.get("/v1/stats", headers=headers).json()["keys_error"] == said
