import pytest

from router.errors import SettingsError
from router.settings import load_settings as load_routers
from service.errors import ServiceError
from service.settings import ServeSettings, load_settings


def test_the_services_slices_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WYE_SERVE__PORT", "1234")
    monkeypatch.setenv("WYE_SERVE__INDEXES", "a=x,b=y")
    monkeypatch.setenv("WYE_GENERATOR__URL", "http://localhost:1/v1")
    monkeypatch.setenv("WYE_GENERATOR__MODEL", "tiny")
    monkeypatch.setenv("WYE_GENERATOR__KEY", "sk-secret")
    monkeypatch.setenv("WYE_DENSE__KIND", "hnsw")
    settings = load_settings()
    assert (settings.serve.port, settings.serve.indexes) == (1234, ("a=x", "b=y"))
    assert settings.generator.key.get_secret_value() == "sk-secret"
    assert settings.dense.kind == "hnsw"
    assert "sk-secret" not in repr(settings)


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("WYE_SERVE__PROT", "1", "did you mean WYE_SERVE__PORT"),
        ("WYE_SERV__PORT", "1", "no such setting"),
        ("WYE_GENERATOR_URL", "x", "did you mean WYE_GENERATOR__URL"),
        ("WYE_SERVE__PORT", "http", "WYE_SERVE__PORT is 'http'"),
        ("WYE_SERVE__WORKERS", "0", "use 1 or more"),
        ("WYE_SERVE__QUEUE", "0", "use 1 or more"),
        ("WYE_SERVE__LONGEST_DEADLINE_MS", "10", "use 5000 or more"),
        ("WYE_SERVE__REFRESH_SECONDS", "0", "above 0"),
        ("WYE_SERVE__LOGS", "xml", "WYE_SERVE__LOGS is 'xml'"),
        ("WYE_GENERATOR__URL", "localhost:1", "begin it with http"),
        ("WYE_GENERATOR__URL", "http://x/v1", "name one in WYE_GENERATOR__MODEL"),
        ("WYE_GENERATOR__RETRIES", "-1", "use 0 or more"),
        ("WYE_GENERATOR__TIMEOUT_SECONDS", "0", "above 0"),
    ],
)
def test_mistakes_name_the_variable(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, says: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises((SettingsError, ServiceError), match=says):
        load_settings()


def test_those_below_leave_the_services_variables_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WYE_SERVE__PORT", "1234")
    assert load_routers().index is None
    monkeypatch.setenv("WYE_SERVED__PORT", "1234")
    with pytest.raises(SettingsError, match="WYE_SERVED__PORT is set"):
        load_routers()


@pytest.mark.parametrize(
    ("host", "is_loopback"),
    [
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.1.2", False),
        ("example.org", False),
        ("", False),
    ],
)
def test_who_can_reach_it(host: str, is_loopback: bool) -> None:
    assert ServeSettings(host=host).is_loopback is is_loopback
