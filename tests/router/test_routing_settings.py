from pathlib import Path

import pytest

from router.errors import ModelFileError
from router.settings import DEFAULT_ROUTER, MODELS, RoutingSettings, load_settings


def test_a_router_is_a_folder_or_one_of_the_repositorys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MODELS.is_dir()
    (tmp_path / "models" / "mine" / "v2").mkdir(parents=True)
    given = tmp_path / "models" / "mine" / "v2"
    assert RoutingSettings(str(given)).folder() == given
    monkeypatch.setattr("router.settings.MODELS", tmp_path / "models")
    assert RoutingSettings("mine/v2").folder() == given


def test_a_router_that_is_not_there_is_named_with_what_to_do() -> None:
    with pytest.raises(ModelFileError, match=r"There is no router 'mine/v9'.*WYE_ROUTER__MODEL"):
        RoutingSettings("mine/v9").folder()


def test_router_and_thresholds_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_settings().router == RoutingSettings(DEFAULT_ROUTER, "")
    monkeypatch.setenv("WYE_ROUTER__MODEL", "mine/v2")
    monkeypatch.setenv("WYE_ROUTER__THRESHOLDS", "reviewed.json")
    assert load_settings().router == RoutingSettings("mine/v2", "reviewed.json")
