import json
import re
import tomllib
from pathlib import Path

from fastapi import FastAPI
from starlette.testclient import TestClient

from service.app import CONSOLE, mount_console
from service.commands.demo import COLLECTION


def test_files_are_served_where_nothing_else_is(tmp_path: Path) -> None:
    folder = tmp_path / "ui"
    folder.mkdir()
    (folder / "index.html").write_text("<p>hello", encoding="utf-8")
    (folder / "style.css").write_text("p {}", encoding="utf-8")
    (tmp_path / "secret.txt").write_text("no", encoding="utf-8")
    app = FastAPI()
    app.add_api_route("/v1/thing", lambda: {"a": 1})
    mount_console(app, folder)
    client = TestClient(app)
    assert client.get("/").text == "<p>hello"
    assert client.get("/style.css").headers["content-type"].startswith("text/css")
    assert client.get("/v1/thing").json() == {"a": 1}
    for path in ("/nope.js", "/../secret.txt", "/%2e%2e/secret.txt", "/..%2fsecret.txt"):
        assert client.get(path).status_code == 404


def test_without_files_there_is_no_console(tmp_path: Path) -> None:
    app = FastAPI()
    mount_console(app, tmp_path)
    assert TestClient(app).get("/").status_code == 404


ROOT = Path(__file__).parents[2]


def files_of_the_console() -> list[Path]:
    return sorted(path for path in CONSOLE.rglob("*") if path.is_file())


def test_every_file_of_the_console_is_shipped() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = project["tool"]["setuptools"]["package-data"]["service"]
    shipped = {path for pattern in patterns for path in (ROOT / "service").glob(pattern)}
    assert len(files_of_the_console()) > 20
    assert {*files_of_the_console()} <= shipped


def test_the_console_fetches_nothing_from_elsewhere() -> None:
    for path in files_of_the_console():
        addresses = re.findall(r"https?://[^\"'\s)]+", path.read_text(encoding="utf-8"))
        assert {*addresses} <= {"http://www.w3.org/2000/svg"}, path


def test_the_consoles_examples_are_training_questions_of_the_demo() -> None:
    script = (CONSOLE / "js" / "examples.js").read_text(encoding="utf-8")
    shown = re.findall(r'^  "(.+)",$', script, re.MULTILINE)
    demo = ROOT / "service" / "demo"
    judged = (demo / "qrels" / "train.tsv").read_text(encoding="utf-8").splitlines()[1:]
    training = {line.split("\t")[0] for line in judged}
    rows = map(json.loads, (demo / "queries.jsonl").read_text(encoding="utf-8").splitlines())
    assert len(shown) >= 5
    assert {*shown} <= {row["text"] for row in rows if row["_id"] in training}
    assert f'DEMO = "{COLLECTION}"' in script


def test_browsers_ask_for_each_file_anew(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<p>hello", encoding="utf-8")
    app = FastAPI()
    mount_console(app, tmp_path)
    assert TestClient(app).get("/").headers["cache-control"] == "no-cache"
