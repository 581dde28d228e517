"""The container's files, held against the code; building it takes a network."""

import re
from pathlib import Path

import yaml

from router.variables import variables
from service.settings import ServeSettings, ServiceSettings

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))


def test_every_file_that_is_copied_exists_and_is_let_in() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE):
        for name in line.split()[:-1]:
            assert (ROOT / name).exists(), name
            assert f"!{name}" in ignored, name


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
