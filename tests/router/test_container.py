from collections.abc import Callable
from pathlib import Path

import pytest

from backends.build import ingest
from backends.types import Passage
from router.artefact import read_policy
from router.container import Container, Deciding, Ingestion, load_router
from router.errors import ArtefactError
from router.features import NAMES
from router.inventory import take_inventory
from router.manifest import policy_to_json
from router.policy import Policy, Thresholds
from router.removal import Removal, matching, remove
from router.routing_settings import RoutingSettings
from router.settings import Settings, load_settings
from router.types import Route

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


def found(container: Container) -> set[str]:
    (reply,) = container.gateway.search(["Ada"], Route.DENSE, 99)
    return {hit.id for hit in reply.ranking.hits}


def test_a_version_stays_until_it_is_refreshed(folder: Path) -> None:
    container = Container(load_settings(), folder)
    assert len(found(container)) == 4
    add(folder, passage("p4"))
    assert len(found(container)) == 4
    assert container.refresh()
    assert len(found(container)) == 5
    assert not container.refresh()


def test_dense_builds_neither_the_graph_nor_the_words(folder: Path) -> None:
    container = Container(load_settings(), folder)
    found(container)
    assert "dense" in vars(container.snapshot)
    assert not {"graph", "lexical"} & {*vars(container.snapshot)}


def test_words_load_no_models(folder: Path) -> None:
    container = Container(load_settings(), folder)
    container.gateway.search(["Ada"], Route.LEXICAL, 1)
    assert "analyser" not in vars(container)
    container.close()


def test_the_index_says_how_its_sentences_were_encoded(folder: Path) -> None:
    """So an index can be searched with another preset than it was written with."""
    container = Container(load_settings(preset="published"), folder)
    assert len(found(container)) == 4


def test_fusion_is_no_single_arm(folder: Path) -> None:
    with pytest.raises(ValueError, match="not a single arm"):
        Container(load_settings(), folder).snapshot.retriever(Route.FUSION)


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
    assert matching(folder, wanted) == ids
    assert take_inventory(folder) == before
    assert remove(folder, wanted) == ids
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
    monkeypatch.setattr("router.container.Analyser", reading_analyser)

    def settings(feature: str, thresholds: str = "") -> Settings:
        folder = handmade_router(tmp_path / "models", feature, 8.0)
        return load_settings(router=RoutingSettings(str(folder), thresholds))

    return settings


def test_a_router_of_the_question_decides_alike_with_and_without_an_index(
    folder: Path, routed: Callable[..., Settings]
) -> None:
    settings = routed("words")
    alone, container = Deciding(settings), Container(settings, folder)
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
    with pytest.raises(ArtefactError, match="Name the index"):
        Deciding(settings).decide([SHORT])
    found = Container(settings, folder).gateway.decide([SHORT, "why?"])
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
    with pytest.raises(ArtefactError, match="cannot be read"):
        load_router(routed("words", str(tmp_path / "missing.json")), analyser)
    file.write_text("{}", encoding="utf-8")
    with pytest.raises(ArtefactError, match=r"reviewed\.json"):
        load_router(reviewed, analyser)


def test_a_router_of_other_features_is_refused(routed: Callable[..., Settings]) -> None:
    settings = routed(NAMES[0])

    class Other:
        @property
        def syntax_fingerprint(self) -> dict[str, str]:
            return {"pipeline": "another"}

    with pytest.raises(ArtefactError, match="was trained with feature schema"):
        load_router(settings, Other())  # type: ignore[arg-type]
