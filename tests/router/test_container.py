from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from backends.store.documents import Removal, matching, remove, take_inventory
from backends.store.ingest import ingest
from backends.types import Passage
from router.errors import ModelFileError
from router.model_files import policy_to_json, read_policy, save_policy
from router.policy import Policy
from router.query_performance import NAMES
from router.session import Deciding, Ingestion, ModelCache, Session, load_router
from router.settings import RoutingSettings, Settings, load_settings
from router.types import Route, Thresholds

pytestmark = pytest.mark.usefixtures("fake_models")


def passage(id_: str, text: str = "Ada met Babbage.") -> Passage:
    return Passage(id_, id_.upper(), text, {"odd": int(id_[1:]) % 2 == 1}, document=f"d{id_[1]}")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "index"
    target = Ingestion(load_settings(), place)
    ingest(target.index, [passage(f"p{n}") for n in range(4)], target.passages)
    target.close()
    return place


def add(folder: Path, *passages: Passage) -> None:
    target = Ingestion(load_settings(), folder)
    ingest(target.index, passages, target.passages)


def found(container: Session) -> set[str]:
    (reply,) = container.gateway.search(["Ada"], Route.DENSE, 99)
    return {hit.id for hit in reply.ranking.hits}


def test_a_version_stays_when_there_is_a_newer_one(folder: Path) -> None:
    container = Session(load_settings(), folder)
    assert len(found(container)) == 4
    add(folder, passage("p4"))
    assert len(found(container)) == 4
    later = container.successor()
    assert later is not None
    assert len(found(later)) == 5
    assert len(found(container)) == 4
    assert later.successor() is None


def test_dense_builds_neither_the_graph_nor_the_words(folder: Path) -> None:
    container = Session(load_settings(), folder)
    found(container)
    assert "dense" in vars(container.snapshot)
    assert not {"graph", "lexical"} & {*vars(container.snapshot)}


def test_words_load_no_models(folder: Path) -> None:
    container = Session(load_settings(), folder)
    container.gateway.search(["Ada"], Route.LEXICAL, 1)
    assert "analyser" not in vars(container)
    container.close()


def test_the_index_says_how_its_sentences_were_encoded(folder: Path) -> None:
    """So an index can be searched with another preset than it was written with."""
    container = Session(load_settings(preset="published"), folder)
    assert len(found(container)) == 4


def test_fusion_is_no_single_arm(folder: Path) -> None:
    with pytest.raises(ValueError, match="not a single arm"):
        Session(load_settings(), folder).snapshot.retriever(Route.FUSION)


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
    alone, container = Deciding(settings), Session(settings, folder)
    found = alone.decide([SHORT, LONG], explain=True)
    assert [decision.route for decision in found] == [Route.LEXICAL, Route.GRAPH]
    assert found == container.gateway.decide([SHORT, LONG], explain=True)
    assert found == [alone.decide([text], explain=True)[0] for text in (SHORT, LONG)]
    alone.close()
    container.close()


def test_a_router_of_the_corpus_decides_with_an_index_alone(
    folder: Path, routed: Callable[..., Settings]
) -> None:
    settings = routed("seed_count")
    with pytest.raises(ModelFileError, match="Name the index"):
        Deciding(settings).decide([SHORT])
    found = Session(settings, folder).gateway.decide([SHORT, "why?"])
    assert found[0].score != found[1].score


def test_a_reviewed_thresholds_file_stands_in_for_the_routers_own(
    tmp_path: Path, routed: Callable[..., Settings], reading_analyser: type
) -> None:
    file = tmp_path / "reviewed.json"
    policy = Policy(Thresholds(1.0, 1.0), Route.HYBRID)
    file.write_text(policy_to_json(policy, {"why": "to be quick"}), encoding="utf-8")
    own, reviewed = routed("words"), routed("words", str(file))
    analyser = reading_analyser(own.analyser)
    before, after = load_router(own, analyser), load_router(reviewed, analyser)
    assert before.policy.thresholds == Thresholds(0.4, 0.6)
    assert after.policy == policy == read_policy(file)
    assert Deciding(reviewed).decide([LONG])[0].route == Route.HYBRID
    with pytest.raises(ModelFileError, match="cannot be read"):
        load_router(routed("words", str(tmp_path / "missing.json")), analyser)
    file.write_text("{}", encoding="utf-8")
    with pytest.raises(ModelFileError, match=r"reviewed\.json"):
        load_router(reviewed, analyser)


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
    container = Session(settings, folder)
    assert container.retuned() is None, "no question has needed the router"
    (before,) = container.gateway.search([LONG], Route.AUTO, 1)
    assert (before.route, container.router_name) == (Route.GRAPH, "handmade/v1")
    assert container.retuned() is None
    policy = write(file, 1.0, 1.0, "handmade/v1")
    later = container.retuned()
    assert later is not None
    assert (later.policy, later.snapshot, later.analyser) == (
        policy,
        container.snapshot,
        container.analyser,
    )
    assert later.retuned() is None
    (after,) = later.gateway.search([LONG], Route.AUTO, 1)
    assert after.decision is not None
    assert (after.route, after.decision.thresholds) == (Route.LEXICAL, policy.thresholds)
    container.release()
    (again,) = later.gateway.search([LONG], Route.AUTO, 1)
    assert again.ranking == after.ranking
    add(folder, passage("p4"))
    newest = later.successor()
    assert newest is not None
    assert (newest.policy, newest.count) == (policy, 5)
    container.close()


def test_a_container_whose_thresholds_were_replaced_leaves_its_batches_theirs(
    folder: Path, tmp_path: Path, routed: Callable[..., Settings]
) -> None:
    file = tmp_path / "thresholds.json"
    write(file, 0.4, 0.6)
    container = Session(routed("words", str(file)), folder)
    container.gateway.decide([LONG])
    write(file, 1.0, 1.0)
    assert container.retuned() is not None
    (decision,) = container.gateway.decide([LONG])
    assert decision.thresholds == Thresholds(0.4, 0.6)


def test_thresholds_that_cannot_be_used_are_refused(
    folder: Path, tmp_path: Path, routed: Callable[..., Settings]
) -> None:
    file = tmp_path / "thresholds.json"
    write(file, 0.4, 0.6, "handmade/v1")
    container = Session(routed("words", str(file)), folder)
    container.gateway.decide([LONG])
    write(file, 0.1, 0.2, "another/v7")
    with pytest.raises(ModelFileError, match="thresholds for the router 'another/v7'"):
        container.retuned()
    file.write_text('{"low": 0.', encoding="utf-8")
    with pytest.raises(ModelFileError, match="is not JSON"):
        container.retuned()
    file.unlink()
    with pytest.raises(ModelFileError, match="cannot be read"):
        container.retuned()
    assert container.policy is not None
    assert container.policy.thresholds == Thresholds(0.4, 0.6)


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
    first, second = (Session(own, folder, models) for own in (settings, reviewed))
    (decided,), (decided_otherwise,) = (each.gateway.decide([LONG]) for each in (first, second))
    assert first.analyser is second.analyser
    assert first.router.scorer is second.router.scorer
    assert decided.score == decided_otherwise.score
    assert (decided.route, decided_otherwise.route) == (Route.GRAPH, Route.LEXICAL)
    first.close()
    assert second.gateway.decide([LONG]) == [decided_otherwise]
    models.close()


def test_a_router_of_other_features_is_refused(routed: Callable[..., Settings]) -> None:
    settings = routed(NAMES[0])

    class Other:
        @property
        def syntax_fingerprint(self) -> dict[str, str]:
            return {"pipeline": "another"}

    with pytest.raises(ModelFileError, match="was trained with feature schema"):
        load_router(settings, Other())  # type: ignore[arg-type]
