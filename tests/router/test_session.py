import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.fakes import Router
from tests.router.conftest import add
from wye.featurizer.analyser import Analyser, AnalyserSettings, open_syntax_parser
from wye.router.errors import ModelFileError
from wye.router.model_files import read_policy, save_policy
from wye.router.policy import Policy
from wye.router.session import ModelCache, Session, decide_without_index, open_router
from wye.router.settings import RoutingSettings, Settings, load_settings
from wye.router.types import ARMS, FURTHER, Ask, Route, Thresholds

pytestmark = pytest.mark.usefixtures("fake_models")
SHORT = "Who met Ada?"
LONG = "Which of the two engines that Babbage built did Ada describe in 1843?"


def found(session: Session) -> int:
    (reply,) = session.gateway.search(["Ada"], Ask(Route.DENSE, 99))
    return len(reply.ranking.hits)


def test_a_version_stays_when_there_is_a_newer_one(folder: Path) -> None:
    session = Session.open(load_settings(), folder)
    assert found(session) == 4
    add(folder, "p4")
    assert found(session) == 4
    later = session.reload()
    assert later is not None
    assert (found(later), found(session)) == (5, 4)
    assert later.reload() is None


@pytest.mark.parametrize("route", [Route.DENSE, Route.LEXICAL])
def test_a_route_builds_its_arm_alone_and_words_load_no_models(folder: Path, route: Route) -> None:
    with Session.open(load_settings(), folder) as session:
        session.gateway.search(["Ada"], Ask(route, 1))
        built = [arm for arm in ARMS if vars(session.snapshot)[f"_{arm}"] is not None]
        assert built == [route]
        assert ("analyser" in vars(session.models)) == (route != Route.LEXICAL)


def test_a_further_arm_is_built_once_it_is_asked_and_never_before(folder: Path) -> None:
    with Session.open(load_settings(), folder) as session:
        session.build()
        assert vars(session.snapshot)["_further"] == {}
        for arm in FURTHER:
            (reply,) = session.gateway.search(["Who met Ada?"], Ask(arm, 2, explain=True))
            assert (reply.route, [*reply.arms]) == (arm, [str(arm)])
            assert reply.relevance == ()
            assert reply.explanation is None
        assert [*vars(session.snapshot)["_further"]] == [*FURTHER]


def test_further_arms_are_imported_where_they_are_named() -> None:
    arms = {"wye.backends.papers.clue", "wye.backends.papers.zoom"}
    code = f"import sys, wye.router.session; print({arms} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_the_index_says_how_its_sentences_were_encoded(folder: Path) -> None:
    """So an index can be searched with another preset than it was written with."""
    assert found(Session.open(load_settings(preset="linearrag"), folder)) == 4


def test_a_route_of_the_settings_is_taken_where_none_is_named(folder: Path) -> None:
    with Session.open(load_settings(preset="zoom-rag"), folder) as session:
        for asked, taken in ((Route.AUTO, Route.ZOOM), (Route.LEXICAL, Route.LEXICAL)):
            (reply,) = session.gateway.search(["Who met Ada?"], Ask(asked, 2))
            assert (reply.route, reply.decision) == (taken, None)
        (decision,) = session.gateway.decide(["Who met Ada?"])
        assert (decision.route, decision.score, decision.reason) == (Route.ZOOM, None, "forced")


@pytest.fixture
def routed(
    tmp_path: Path, handmade_router: Router, reading_models: None
) -> Callable[..., Settings]:
    def settings(feature: str, thresholds: Path | str = "") -> Settings:
        folder = handmade_router(tmp_path / "models", feature, 8.0)
        return load_settings(router=RoutingSettings(str(folder), str(thresholds)))

    return settings


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "thresholds.json"
    write(path, 0.4, 0.6)
    return path


def write(file: Path, low: float, high: float, router: str = "") -> Policy:
    policy = Policy(Thresholds(low, high), Route.LEXICAL, router=router)
    save_policy(file, policy, {})
    return policy


def test_a_router_of_the_question_decides_alike_with_and_without_an_index(
    folder: Path, routed: Callable[..., Settings]
) -> None:
    settings = routed("words")
    with ModelCache() as models, Session.open(settings, folder) as session:
        model, analyser = open_router(settings, models), models.analyser(settings.analyser)
        found = decide_without_index([SHORT, LONG], analyser, model, Ask(explain=True))
        assert [decision.route for decision in found] == [Route.LEXICAL, Route.GRAPH]
        assert found == session.gateway.decide([SHORT, LONG], Ask(explain=True))
        for text, decision in zip((SHORT, LONG), found, strict=True):
            assert decide_without_index([text], analyser, model, Ask(explain=True)) == [decision]


def test_a_thresholds_file_stands_in_for_the_routers_own(
    file: Path, routed: Callable[..., Settings]
) -> None:
    policy = Policy(Thresholds(1.0, 1.0), Route.HYBRID)
    save_policy(file, policy, {"why": "to be quick"})
    reviewed, models = routed("words", file), ModelCache()
    assert open_router(routed("words"), models).policy.thresholds == Thresholds(0.4, 0.6)
    assert open_router(reviewed, models).policy == policy == read_policy(file)
    analyser = models.analyser(reviewed.analyser)
    (decision,) = decide_without_index([LONG], analyser, open_router(reviewed, models))
    assert decision.route == Route.HYBRID
    with pytest.raises(ModelFileError, match="cannot be read"):
        open_router(routed("words", file.with_name("missing.json")), models)
    file.write_text("{}", encoding="utf-8")
    with pytest.raises(ModelFileError, match=r"thresholds\.json"):
        open_router(reviewed, models)


def test_replaced_thresholds_are_taken_over_by_the_next_session_and_by_no_other(
    folder: Path, file: Path, routed: Callable[..., Settings]
) -> None:
    session = Session.open(routed("words", file), folder)
    assert session.reload_thresholds() is None, "no question has needed the router"
    (before,) = session.gateway.search([LONG], Ask(Route.AUTO, 1))
    assert (before.route, session.router_name) == (Route.GRAPH, "handmade/v1")
    assert session.reload_thresholds() is None
    policy = write(file, 1.0, 1.0, "handmade/v1")
    later = session.reload_thresholds()
    assert later is not None
    assert later.policy == policy
    assert (later.snapshot, later.analyser) == (session.snapshot, session.analyser)
    assert later.reload_thresholds() is None
    (decision,) = session.gateway.decide([LONG])
    assert decision.thresholds == Thresholds(0.4, 0.6)
    (after,) = later.gateway.search([LONG], Ask(Route.AUTO, 1))
    assert after.decision is not None
    assert (after.route, after.decision.thresholds) == (Route.LEXICAL, policy.thresholds)
    del session
    (again,) = later.gateway.search([LONG], Ask(Route.AUTO, 1))
    assert again.ranking == after.ranking
    add(folder, "p4")
    newest = later.reload()
    assert newest is not None
    assert (newest.policy, newest.count) == (policy, 5)
    newest.close()


def test_indexes_share_models(folder: Path, file: Path, routed: Callable[..., Settings]) -> None:
    write(file, 1.0, 1.0)
    settings = routed("words")
    router = replace(settings.router, thresholds=str(file))
    models = ModelCache()
    first = Session.open(settings, folder, models)
    second = Session.open(settings.model_copy(update={"router": router}), folder, models)
    (decided,), (decided_otherwise,) = (each.gateway.decide([LONG]) for each in (first, second))
    assert first.analyser is second.analyser
    assert first.models.router.scorer is second.models.router.scorer
    assert decided.score == decided_otherwise.score
    assert (decided.route, decided_otherwise.route) == (Route.GRAPH, Route.LEXICAL)
    first.close()
    assert second.gateway.decide([LONG]) == [decided_otherwise]
    models.close()


class Counted(Analyser):
    def __init__(self, settings: AnalyserSettings) -> None:
        self.settings = settings
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


def test_equal_settings_are_loaded_once_and_closed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wye.router.session.Analyser", Counted)
    with ModelCache() as models:
        first = models.analyser(AnalyserSettings())
        assert models.analyser(replace(AnalyserSettings())) is first
        other = models.analyser(AnalyserSettings(title_in_text=True))
        assert other is not first
    models.close()
    assert [vars(each)["closed"] for each in (first, other)] == [1, 1]


def test_a_session_closes_the_models_that_it_made_and_no_others(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[ModelCache] = []

    def close(cache: ModelCache) -> None:
        closed.append(cache)

    monkeypatch.setattr(ModelCache, "close", close)
    shared = ModelCache()
    own = Session.create(load_settings(), tmp_path / "new"), Session.open(load_settings(), folder)
    for session in (*own, Session.open(load_settings(), folder, shared)):
        session.close()
    assert [session._cache for session in own] == closed
    assert shared not in closed


def test_what_cannot_be_loaded_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(settings: AnalyserSettings) -> Analyser:
        raise OSError("the disk is gone")

    models = ModelCache()
    monkeypatch.setattr("wye.router.session.Analyser", broken)
    with pytest.raises(OSError, match="gone"):
        models.analyser(AnalyserSettings())
    monkeypatch.setattr("wye.router.session.Analyser", Counted)
    assert isinstance(models.analyser(AnalyserSettings()), Counted)


def test_equal_folders_and_schemas_load_one_router(tmp_path: Path, handmade_router: Router) -> None:
    folder, other = (handmade_router(tmp_path / "models", "words", offset) for offset in (1.0, 2.0))
    parser = open_syntax_parser(AnalyserSettings()).fingerprint
    analyser = cast("Analyser", SimpleNamespace(syntax_fingerprint=parser))
    models = ModelCache()
    first = models.router(RoutingSettings(str(folder)), analyser)
    same = RoutingSettings(str(folder.parent / "." / folder.name))
    assert models.router(same, analyser) is first
    assert models.router(RoutingSettings(str(other)), analyser) is not first
    another = cast("Analyser", SimpleNamespace(syntax_fingerprint={"parser": "another"}))
    with pytest.raises(ModelFileError, match="was trained with feature schema"):
        models.router(RoutingSettings(str(folder)), another)
