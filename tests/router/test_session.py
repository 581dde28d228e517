from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from backends.store.documents import Removal, matching, remove, take_inventory
from backends.store.ingest import ingest
from backends.types import Passage
from featurizer.analyser import Analyser, AnalyserSettings
from featurizer.constituency.parser import open_syntax_parser
from router.errors import ModelFileError
from router.model_files import read_policy, save_policy
from router.policy import Policy
from router.query_performance import NAMES, schema_id
from router.session import ModelCache, Session, decide, open_router
from router.settings import RoutingSettings, Settings, load_settings
from router.types import Route, Thresholds

pytestmark = pytest.mark.usefixtures("fake_models")


def passage(id_: str, text: str = "Ada met Babbage.") -> Passage:
    return Passage(id_, id_.upper(), text, {"odd": int(id_[1:]) % 2 == 1}, document=f"d{id_[1]}")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "index"
    target = Session.create(load_settings(), place)
    ingest(target.index, [passage(f"p{n}") for n in range(4)], target.analyser)
    target.close()
    return place


def add(folder: Path, *passages: Passage) -> None:
    target = Session.create(load_settings(), folder)
    ingest(target.index, passages, target.analyser)


def found(session: Session) -> set[str]:
    (reply,) = session.gateway.search(["Ada"], Route.DENSE, 99)
    return {hit.id for hit in reply.ranking.hits}


def test_a_version_stays_when_there_is_a_newer_one(folder: Path) -> None:
    session = Session.open(load_settings(), folder)
    assert len(found(session)) == 4
    add(folder, passage("p4"))
    assert len(found(session)) == 4
    later = session.reload()
    assert later is not None
    assert len(found(later)) == 5
    assert len(found(session)) == 4
    assert later.reload() is None


def test_dense_builds_neither_the_graph_nor_the_words(folder: Path) -> None:
    session = Session.open(load_settings(), folder)
    found(session)
    built = [vars(session.snapshot)[f"_{arm}"] is not None for arm in ("dense", "lexical", "graph")]
    assert built == [True, False, False]


def test_words_load_no_models(folder: Path) -> None:
    session = Session.open(load_settings(), folder)
    session.gateway.search(["Ada"], Route.LEXICAL, 1)
    assert vars(session)["_analyser"] is None
    session.close()


def test_the_index_says_how_its_sentences_were_encoded(folder: Path) -> None:
    """So an index can be searched with another preset than it was written with."""
    session = Session.open(load_settings(preset="published"), folder)
    assert len(found(session)) == 4


def test_fusion_is_no_single_arm(folder: Path) -> None:
    with pytest.raises(ValueError, match="not a single arm"):
        Session.open(load_settings(), folder).snapshot.retriever(Route.FUSION)


@pytest.mark.parametrize(
    ("wanted", "ids"),
    [
        (Removal(ids=("p1", "p9")), ["p1"]),
        (Removal(documents=("d2",)), ["p2"]),
        (Removal(filter={"type": "eq", "key": "odd", "value": True}), ["p1", "p3"]),
        (Removal(ids=("p1",), documents=("d1", "d0")), ["p0", "p1"]),
        (Removal(), []),
    ],
)
def test_a_removal_deletes_what_it_says_it_would(
    folder: Path, wanted: Removal, ids: list[str]
) -> None:
    before = take_inventory(folder)
    assert matching(folder, wanted)[0] == ids
    assert take_inventory(folder) == before
    assert remove(folder, wanted)[0] == ids
    assert take_inventory(folder)["passages"] == 4 - len(ids)


def test_an_inventory_counts(folder: Path) -> None:
    found = take_inventory(folder)
    assert (found["passages"], found["documents"], found["sentences"]) == (4, 4, 4)
    assert found["entity mentions"] == 8
    assert found["dimension"] == 8


SHORT, LONG = (
    "Who met Ada?",
    "Which of the two engines that Babbage built did Ada describe in 1843?",
)
Router = Callable[[Path, str, float], Path]


@pytest.fixture
def routed(
    tmp_path: Path,
    handmade_router: Router,
    reading_analyser: type,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., Settings]:
    """Settings with a router that looks at one feature."""
    monkeypatch.setattr("router.session.Analyser", reading_analyser)

    def settings(feature: str, thresholds: str = "") -> Settings:
        folder = handmade_router(tmp_path / "models", feature, 8.0)
        return load_settings(router=RoutingSettings(str(folder), thresholds))

    return settings


def test_a_router_of_the_question_decides_alike_with_and_without_an_index(
    folder: Path, routed: Callable[..., Settings]
) -> None:
    settings = routed("words")
    with ModelCache() as models, Session.open(settings, folder) as session:
        found = decide([SHORT, LONG], settings, models, explain=True)
        assert [decision.route for decision in found] == [Route.LEXICAL, Route.GRAPH]
        assert found == session.gateway.decide([SHORT, LONG], explain=True)
        for text, decision in zip((SHORT, LONG), found, strict=True):
            assert decide([text], settings, models, explain=True) == [decision]


def test_a_router_of_the_corpus_decides_with_an_index_alone(
    folder: Path, routed: Callable[..., Settings]
) -> None:
    settings = routed("seed_count")
    with pytest.raises(ModelFileError, match="Name the index"):
        decide([SHORT], settings, ModelCache())
    found = Session.open(settings, folder).gateway.decide([SHORT, "why?"])
    assert found[0].score != found[1].score


def test_a_reviewed_thresholds_file_stands_in_for_the_routers_own(
    tmp_path: Path, routed: Callable[..., Settings]
) -> None:
    file = tmp_path / "reviewed.json"
    policy = Policy(Thresholds(1.0, 1.0), Route.HYBRID)
    save_policy(file, policy, {"why": "to be quick"})
    own, reviewed = routed("words"), routed("words", str(file))
    models = ModelCache()
    before, after = open_router(own, models), open_router(reviewed, models)
    assert before.policy.thresholds == Thresholds(0.4, 0.6)
    assert after.policy == policy == read_policy(file)
    assert decide([LONG], reviewed, models)[0].route == Route.HYBRID
    with pytest.raises(ModelFileError, match="cannot be read"):
        open_router(routed("words", str(tmp_path / "missing.json")), models)
    file.write_text("{}", encoding="utf-8")
    with pytest.raises(ModelFileError, match=r"reviewed\.json"):
        open_router(reviewed, models)


def write(file: Path, low: float, high: float, router: str = "") -> Policy:
    policy = Policy(Thresholds(low, high), Route.LEXICAL, router=router)
    save_policy(file, policy, {})
    return policy


def test_thresholds_that_were_replaced_are_taken_over_by_the_next_container(
    folder: Path, tmp_path: Path, routed: Callable[..., Settings]
) -> None:
    file = tmp_path / "thresholds.json"
    write(file, 0.4, 0.6)
    settings = routed("words", str(file))
    session = Session.open(settings, folder)
    assert session.reload_thresholds() is None, "no question has needed the router"
    (before,) = session.gateway.search([LONG], Route.AUTO, 1)
    assert (before.route, session.router_name) == (Route.GRAPH, "handmade/v1")
    assert session.reload_thresholds() is None
    policy = write(file, 1.0, 1.0, "handmade/v1")
    later = session.reload_thresholds()
    assert later is not None
    assert (later.policy, later.snapshot, later.analyser) == (
        policy,
        session.snapshot,
        session.analyser,
    )
    assert later.reload_thresholds() is None
    (after,) = later.gateway.search([LONG], Route.AUTO, 1)
    assert after.decision is not None
    assert (after.route, after.decision.thresholds) == (Route.LEXICAL, policy.thresholds)
    del session
    (again,) = later.gateway.search([LONG], Route.AUTO, 1)
    assert again.ranking == after.ranking
    add(folder, passage("p4"))
    newest = later.reload()
    assert newest is not None
    assert (newest.policy, newest.count) == (policy, 5)
    newest.close()


def test_a_container_whose_thresholds_were_replaced_leaves_its_batches_theirs(
    folder: Path, tmp_path: Path, routed: Callable[..., Settings]
) -> None:
    file = tmp_path / "thresholds.json"
    write(file, 0.4, 0.6)
    session = Session.open(routed("words", str(file)), folder)
    session.gateway.decide([LONG])
    write(file, 1.0, 1.0)
    assert session.reload_thresholds() is not None
    (decision,) = session.gateway.decide([LONG])
    assert decision.thresholds == Thresholds(0.4, 0.6)


def test_thresholds_that_cannot_be_used_are_refused(
    folder: Path, tmp_path: Path, routed: Callable[..., Settings]
) -> None:
    file = tmp_path / "thresholds.json"
    write(file, 0.4, 0.6, "handmade/v1")
    session = Session.open(routed("words", str(file)), folder)
    session.gateway.decide([LONG])
    write(file, 0.1, 0.2, "another/v7")
    with pytest.raises(ModelFileError, match="thresholds for the router 'another/v7'"):
        session.reload_thresholds()
    file.write_text('{"low": 0.', encoding="utf-8")
    with pytest.raises(ModelFileError, match="is not JSON"):
        session.reload_thresholds()
    file.unlink()
    with pytest.raises(ModelFileError, match="cannot be read"):
        session.reload_thresholds()
    assert session.policy is not None
    assert session.policy.thresholds == Thresholds(0.4, 0.6)


def test_indexes_share_their_models(
    folder: Path, tmp_path: Path, routed: Callable[..., Settings]
) -> None:
    file = tmp_path / "thresholds.json"
    write(file, 1.0, 1.0)
    settings = routed("words")
    reviewed = settings.model_copy(
        update={"router": replace(settings.router, thresholds=str(file))}
    )
    models = ModelCache()
    first, second = (Session.open(own, folder, models) for own in (settings, reviewed))
    (decided,), (decided_otherwise,) = (each.gateway.decide([LONG]) for each in (first, second))
    assert first.analyser is second.analyser
    assert first.router.scorer is second.router.scorer
    assert decided.score == decided_otherwise.score
    assert (decided.route, decided_otherwise.route) == (Route.GRAPH, Route.LEXICAL)
    first.close()
    assert second.gateway.decide([LONG]) == [decided_otherwise]
    models.close()


def test_a_router_of_other_features_is_refused(
    routed: Callable[..., Settings], fake_analyser: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = routed(NAMES[0])

    monkeypatch.setattr("router.session.Analyser", fake_analyser)
    with pytest.raises(ModelFileError, match="was trained with feature schema"):
        open_router(settings, ModelCache())


class Counted(Analyser):
    """Loads nothing, and counts how often it is closed."""

    def __init__(self, settings: AnalyserSettings) -> None:
        self.settings = settings
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Counted]:
    """Every analyser that is loaded."""
    found: list[Counted] = []

    def make(settings: AnalyserSettings) -> Counted:
        found.append(Counted(settings))
        return found[-1]

    monkeypatch.setattr("router.session.Analyser", make)
    return found


def test_equal_settings_are_loaded_once(made: list[Counted]) -> None:
    models = ModelCache()
    first = models.analyser(AnalyserSettings())
    assert models.analyser(replace(AnalyserSettings())) is first
    assert models.analyser(AnalyserSettings(title_in_text=True)) is not first
    assert len(made) == 2


def test_what_is_shared_is_closed_once(made: list[Counted]) -> None:
    with ModelCache() as models:
        for title_in_text in (False, True, False):
            models.analyser(AnalyserSettings(title_in_text=title_in_text))
    models.close()
    assert [each.closed for each in made] == [1, 1]


def test_what_cannot_be_loaded_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(settings: AnalyserSettings) -> Analyser:
        raise OSError("the disk is gone")

    models = ModelCache()
    monkeypatch.setattr("router.session.Analyser", broken)
    with pytest.raises(OSError, match="gone"):
        models.analyser(AnalyserSettings())
    monkeypatch.setattr("router.session.Analyser", Counted)
    assert isinstance(models.analyser(AnalyserSettings()), Counted)


def test_a_router_is_loaded_once_for_equal_folders_and_schemas(
    tmp_path: Path, handmade_router: Callable[[Path, str, float], Path]
) -> None:
    folder = handmade_router(tmp_path / "models", "words", 1.0)
    other = handmade_router(tmp_path / "models", "words", 2.0)
    own = AnalyserSettings()
    schema = schema_id(open_syntax_parser(own.pipeline, own.constituency).fingerprint)
    models = ModelCache()
    first = models.router(folder, schema)
    assert models.router(folder.parent / "." / folder.name, schema) is first
    assert models.router(other, schema) is not first
    with pytest.raises(ModelFileError, match="was trained with feature schema"):
        models.router(folder, "another")
