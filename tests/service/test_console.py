from pathlib import Path

from fastapi import FastAPI
from starlette.testclient import TestClient

from service.console import mount


def test_files_are_served_where_nothing_else_is(tmp_path: Path) -> None:
    folder = tmp_path / "ui"
    folder.mkdir()
    (folder / "index.html").write_text("<p>hello", encoding="utf-8")
    (folder / "style.css").write_text("p {}", encoding="utf-8")
    (tmp_path / "secret.txt").write_text("no", encoding="utf-8")
    app = FastAPI()
    app.add_api_route("/v1/thing", lambda: {"a": 1})
    mount(app, folder)
    client = TestClient(app)
    assert client.get("/").text == "<p>hello"
    assert client.get("/style.css").headers["content-type"].startswith("text/css")
    assert client.get("/v1/thing").json() == {"a": 1}
    for path in ("/nope.js", "/../secret.txt", "/%2e%2e/secret.txt", "/..%2fsecret.txt"):
        assert client.get(path).status_code == 404


def test_without_files_there_is_no_console(tmp_path: Path) -> None:
    app = FastAPI()
    mount(app, tmp_path)
    assert TestClient(app).get("/").status_code == 404
