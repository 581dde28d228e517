from pathlib import Path

import pytest

from backends.build import ingest
from backends.types import Passage
from router.container import Container, Ingestion
from router.inventory import take_inventory
from router.removal import Removal, matching, remove
from router.settings import load_settings
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
