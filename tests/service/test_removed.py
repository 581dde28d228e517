"""A name that is gone is answered with one sentence that says what replaces it."""

from collections.abc import Callable

import pytest
from starlette.testclient import TestClient

from tests.service.fakes import Library, Serve
from wye.router import removed
from wye.router.settings import variables
from wye.service.arms.file import KINDS
from wye.service.cli import build
from wye.service.settings import ServiceSettings

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of names that never were."""
    monkeypatch.setattr(removed, "COMMANDS", {"rank": "Run `wye search`.", "search -q --old": "O."})
    monkeypatch.setattr(removed, "SETTINGS", {"WYE_SERVE__RANKS": "Set WYE_DENSE__KIND."})
    monkeypatch.setattr(removed, "ADDRESSES", {"/v1/rank": "S.", "/v1/a/*/ranks": "S."})
    monkeypatch.setitem(removed.FIELDS, "ranks", "Send k.")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("rank What? --k 3", "Error: `wye rank` was removed. Run `wye search`.\n"),
        ("search What? --old=1 -q x", "Error: `wye search -q --old` was removed. O.\n"),
    ],
)
def test_commands_and_options(wye: Run, line: str, says: str) -> None:
    assert wye(*line.split()) == (2, "", says)


def test_a_command_is_removed_only_by_its_own_name() -> None:
    for line in ("search rank", "search --old", "ranks", "--help", ""):
        assert removed.command(line.split()) == ""


@pytest.mark.parametrize("name", ["WYE_SERVE__RANKS", "WYE_SERVE__RANKS__MOST"])
def test_settings(monkeypatch: pytest.MonkeyPatch, wye: Run, name: str) -> None:
    monkeypatch.setenv(name, "1")
    for line in ("info --index x", "serve --index x"):
        code, out, error = wye(*line.split())
        assert (code, out) == (2, "")
        assert (
            error == f"Error: {name} is set. WYE_SERVE__RANKS was removed. Set WYE_DENSE__KIND.\n"
        )


def test_addresses_and_fields(serve: Serve, library: Library) -> None:
    client = serve(library)
    paths = {"/v1/rank": "/v1/rank", "/v1/rank/7": "/v1/rank", "/v1/a/b/ranks/7": "/v1/a/*/ranks"}
    for path, name in paths.items():
        reply = client.post(path, json={})
        assert (reply.status_code, reply.json()["type"]) == (410, "urn:wye:problem:removed")
        assert reply.json()["detail"] == f"{name} was removed. S."
    assert client.get("/v1/ranking").status_code == 404
    reply = client.post("/v1/retrieve", json={"question": "What?", "ranks": 1})
    assert reply.status_code == 422
    assert reply.json()["errors"] == [
        {"at": "body.ranks", "says": "There is no such field. Send k."}
    ]
    reply = client.get("/v1/documents", params={"ranks": 1})
    assert (reply.status_code, "Send k." in reply.json()["detail"]) == (422, True)


def test_nothing_is_removed_that_is_there(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    tables = (
        removed.COMMANDS,
        removed.SETTINGS,
        removed.ADDRESSES,
        removed.FIELDS,
        removed.KINDS,
    )
    assert all(sentence.endswith(".") for table in tables for sentence in table.values())
    commands = build(["a command of an extension"])[0].registered_commands
    assert not {info.callback.__name__ for info in commands if info.callback} & {*removed.COMMANDS}
    assert not any(removed.setting(variable.name) for variable in variables(ServiceSettings))
    assert not {*KINDS} & {*removed.KINDS}
    assert not any(map(removed.address, client.get("/openapi.json").json()["paths"]))
