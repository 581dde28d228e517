"""The container's files, held against the code; building it takes a network."""

import re
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx2 as httpx
import pytest
import yaml

from tests.docs.examples import parse
from tests.live import FAKED, PATIENCE, Live, until
from wye.router.settings import variables
from wye.service.cli import run
from wye.service.settings import ServeSettings, ServiceSettings

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))


def copies() -> list[str]:
    return re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE)


def test_every_file_that_is_copied_exists_and_is_let_in() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    for line in copies():
        for name in line.split()[:-1]:
            assert (ROOT / name).exists(), name
            assert f"!{name}" in ignored, name


def test_all_that_a_server_can_import_is_copied() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["tool"]["setuptools"]["packages"]["find"]["where"] == ["src"]
    copied = {Path(name).stem for name in " ".join(copies()).split()}
    assert {link.name for link in (ROOT / "src" / "wye").iterdir() if link.is_symlink()} <= copied
    assert "src" in copied
    assert "benchmarks" not in copied


def test_every_variable_is_a_setting() -> None:
    known = {variable.name for variable in variables(ServiceSettings)}
    compose = (ROOT / "compose.yaml").read_text(encoding="utf-8")
    named = {*re.findall(r"WYE_[A-Z_]+", DOCKERFILE + compose)}
    assert named
    assert named <= known


def test_it_runs_as_nobody_special_and_says_whether_it_is_ready() -> None:
    last = DOCKERFILE.rpartition("FROM ")[2]
    assert re.search(r"^USER wye$", last, re.MULTILINE)
    assert f"EXPOSE {ServeSettings().port}" in last
    assert f"http://127.0.0.1:{ServeSettings().port}/ready" in last


def test_it_is_given_time_to_finish_and_reached_from_this_machine_only() -> None:
    service = COMPOSE["services"]["wye"]
    assert int(service["stop_grace_period"].rstrip("s")) > ServeSettings().shutdown_seconds
    assert [port.split(":")[0] for port in service["ports"]] == ["127.0.0.1"]
    assert service["read_only"] is True


def environment() -> dict[str, str]:
    (block,) = re.findall(r"^ENV ((?:.+\\\n)*.+)$", DOCKERFILE.rpartition("FROM ")[2], re.MULTILINE)
    pairs = dict(pair.split("=", 1) for pair in shlex.split(block.replace("\\\n", " ")))
    return {**pairs, **COMPOSE["services"]["wye"].get("environment", {})}


def first_commands(text: str) -> list[list[str]]:
    """The commands of `wye` that a file's comments run in a container, in order."""
    lines = re.findall(r"^#   (docker (?:compose )?run .*)$", text, re.MULTILINE)
    given = [words[words.index("wye") :] for words in map(shlex.split, lines)]
    return [words for words in given if len(words) > 1]


def test_it_may_write_to_its_volume_and_to_nothing_else() -> None:
    service = COMPOSE["services"]["wye"]
    (mount,) = service["volumes"]
    volume, place = mount.split(":")
    assert volume in COMPOSE["volumes"]
    assert f"install --directory --owner=wye --group=wye {place}" in DOCKERFILE
    own = environment()
    assert own["WYE_SERVE__INDEXES"].startswith(f"default={place}/")
    assert own["WYE_SERVE__KEYS_FILE"].startswith(f"{place}/")
    assert (service["read_only"], service["tmpfs"]) == (True, ["/tmp:size=320m"])


def test_its_commands_parse() -> None:
    for text in (DOCKERFILE, (ROOT / "compose.yaml").read_text(encoding="utf-8")):
        commands = first_commands(text)
        assert [words[1] for words in commands] == ["index", "keys"]
        for words in commands:
            parse(words)


SENT = {"id": "mostar", "text": "The Old Bridge is in Mostar."}


@dataclass(frozen=True, slots=True)
class Shipped:
    """Servers as the compose file starts them, over one folder."""

    settings: dict[str, str]
    key: dict[str, str]
    servers: list[Live] = field(default_factory=list)

    def start(self) -> Live:
        command = re.findall(r"^CMD \[(.*)\]$", DOCKERFILE, re.MULTILINE)
        words = [shlex.split(command[-1])[0]]
        self.servers.append(Live(words, self.settings, program=FAKED))
        return self.servers[-1]

    def found(self, server: Live) -> list[str]:
        question = {"question": "Old Bridge", "route": "lexical"}
        url = f"{server.url}/v1/retrieve"
        reply = httpx.post(url, json=question, headers=self.key, timeout=PATIENCE)
        return [passage["id"] for passage in reply.raise_for_status().json()["passages"]]


@pytest.fixture
def shipped(
    tmp_path: Path, fake_models: None, capsys: pytest.CaptureFixture[str]
) -> Iterator[Shipped]:
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "tower.txt").write_text("Tower Bridge is in London.", encoding="utf-8")
    (tmp_path / "data").mkdir()

    def here(word: str) -> str:
        return re.sub(r"(?<![\w/])/(data|corpus)\b", rf"{tmp_path}/\1", word)

    for words in first_commands((ROOT / "compose.yaml").read_text(encoding="utf-8")):
        assert run([here(word) for word in words[1:]]) == 0
    key = {"authorization": f"Bearer {capsys.readouterr().out.splitlines()[-1]}"}
    own = {name: here(value) for name, value in environment().items() if name.startswith("WYE_")}
    servers = Shipped({**own, "WYE_SERVE__PORT": "0"}, key)
    yield servers
    for server in servers.servers:
        server.kill()


def test_readers_follow_writes_and_one_that_is_killed_is_not_missed(shipped: Shipped) -> None:
    writer, first, second = shipped.start(), shipped.start(), shipped.start()
    url = f"{writer.url}/v1/documents"
    assert httpx.post(url, json={"documents": [SENT]}, timeout=PATIENCE).status_code == 401
    httpx.post(
        url, json={"documents": [SENT]}, headers=shipped.key, timeout=PATIENCE
    ).raise_for_status()
    for reader in (first, second):
        until(lambda: "mostar" in shipped.found(reader))  # noqa: B023
    first.kill()
    httpx.delete(f"{url}/mostar", headers=shipped.key, timeout=PATIENCE).raise_for_status()
    assert "mostar" not in shipped.found(writer)
    until(lambda: "mostar" not in shipped.found(second))
    assert [server.stop() for server in (second, writer)] == [0, 0]


def test_readers_are_the_same_server_and_cannot_write() -> None:
    service, reader = (COMPOSE["services"][name] for name in ("wye", "reader"))
    own = {"profiles", "ports", "volumes"}
    assert {name: reader[name] for name in reader.keys() - own} == {
        name: service[name] for name in service.keys() - own
    }
    assert reader["volumes"] == [f"{mount}:ro" for mount in service["volumes"]]
    assert all(port.startswith("127.0.0.1:") for port in reader["ports"])
