import re
import subprocess
from pathlib import Path

import pytest

from wye.router.errors import SettingsError
from wye.router.settings import ELSEWHERE, KEY, Settings, variables
from wye.router.settings import load_settings as load_routers
from wye.service.errors import ServiceError
from wye.service.settings import ServiceSettings, index_folders, load_settings

ROOT = Path(__file__).resolve().parents[2]
TEXTS = {".py", ".md", ".yaml", ".toml", ".js", ".html", ".ipynb", ".sh", ".yml"}


def test_the_services_slices_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WYE_SERVE__PORT", "1234")
    monkeypatch.setenv("WYE_SERVE__INDEXES", "a=x,b=y")
    monkeypatch.setenv("WYE_GENERATOR__URL", "http://localhost:1/v1")
    monkeypatch.setenv("WYE_GENERATOR__MODEL", "tiny")
    monkeypatch.setenv("WYE_GENERATOR__KEY", "sk-secret")
    monkeypatch.setenv("WYE_DENSE__KIND", "compressed")
    settings = load_settings()
    assert (settings.serve.port, settings.serve.indexes) == (1234, ("a=x", "b=y"))
    assert settings.generator.key.get_secret_value() == "sk-secret"
    assert settings.dense.kind == "compressed"
    assert "sk-secret" not in repr(settings)


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("WYE_SERVE__PROT", "1", "Did you mean WYE_SERVE__PORT"),
        ("WYE_SERV__PORT", "1", "no such setting"),
        ("WYE_GENERATOR_URL", "x", "Did you mean WYE_GENERATOR__URL"),
        ("WYE_SERVE__PORT", "http", "WYE_SERVE__PORT is 'http'"),
        ("WYE_SERVE__WORKERS", "2", "WYE_SERVE__WORKERS is set, but there is no such setting"),
        ("WYE_SERVE__QUEUE", "0", "use 1 or more"),
        ("WYE_SERVE__DEADLINE_MS", "60001", "use 60000 or less"),
        ("WYE_SERVE__PORT", "70000", "WYE_SERVE__PORT is '70000'; use 65535 or less"),
        ("WYE_DOCUMENTS__READ_MEMORY_MB", "8", "WYE_DOCUMENTS__READ_MEMORY_MB is '8'; use 256"),
        ("WYE_DOCUMENTS__PAGES", "8", "there is no such setting"),
        ("WYE_SERVE__REFRESH_SECONDS", "0", "above 0"),
        ("WYE_SERVE__LOGS", "xml", "WYE_SERVE__LOGS is 'xml'"),
        ("WYE_GENERATOR__URL", "localhost:1", "begin it with http"),
        ("WYE_GENERATOR__URL", "http://x/v1", "name one in WYE_GENERATOR__MODEL"),
        ("WYE_GENERATOR__MAX_TOKENS", "-1", "use 0 or more"),
        ("WYE_GENERATOR__TIMEOUT_SECONDS", "0", "above 0"),
    ],
)
def test_mistakes_name_the_variable(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, says: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(SettingsError, match=says):
        load_settings()


def test_every_variable_that_is_named_is_one() -> None:
    """In the code and in every document."""
    known = {variable.name for variable in variables(ServiceSettings)} | {KEY}
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, encoding="utf-8", check=True
    ).stdout.split()
    named: dict[str, set[str]] = {}
    for name in tracked:
        is_text = Path(name).suffix in TEXTS or name in ("Dockerfile", "Makefile")
        if not is_text or name.startswith(("tests/", "CHANGELOG")):
            continue
        for routing in re.findall(r"\bWYE_[A-Z0-9_]+", (ROOT / name).read_text(encoding="utf-8")):
            if not routing.endswith("_"):  # a prefix
                named.setdefault(routing, set()).add(name)
    assert {routing: files for routing, files in named.items() if routing not in known} == {}


def test_those_below_leave_the_services_variables_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {*ELSEWHERE} == {*ServiceSettings.model_fields} - {*Settings.model_fields}
    assert all(variable.doc for variable in variables(ServiceSettings))
    monkeypatch.setenv("WYE_SERVE__PORT", "1234")
    assert load_routers().index is None
    monkeypatch.setenv("WYE_SERVED__PORT", "1234")
    with pytest.raises(SettingsError, match="WYE_SERVED__PORT is set"):
        load_routers()


def test_folders_are_named_or_the_default() -> None:
    assert index_folders(["a=/x", "b=/y=z"], None) == {"a": Path("/x"), "b": Path("/y=z")}
    assert index_folders(["/x"], Path("/other")) == {"default": Path("/x")}
    assert index_folders([], Path("/other")) == {"default": Path("/other")}


@pytest.mark.parametrize(
    ("named", "says"),
    [
        ([], "Serve what"),
        (["a b=/x"], "cannot be called 'a b'"),
        (["../a=/x"], "cannot be called"),
        (["=/x"], "cannot be called ''"),
        (["a="], "has no folder"),
        (["/x", "/y"], "Two collections are called 'default'"),
    ],
)
def test_folders_that_make_no_sense(named: list[str], says: str) -> None:
    with pytest.raises(ServiceError, match=says):
        index_folders(named, None)
