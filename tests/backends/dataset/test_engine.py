"""A dataset that Lance searches against the same passages in memory, without models."""

import shutil
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep

import lance
import numpy as np
import pytest
from starlette.testclient import TestClient

from tests.backends.dataset.sessions import (
    FUSED,
    NEW,
    QUESTIONS,
    all_ids,
    counts,
    ids,
    opened,
    reply_to,
)
from tests.live import inside
from wye.backends.dataset.arms import Matches, Searches
from wye.backends.dataset.build import count
from wye.backends.dataset.version import DatasetVersion
from wye.backends.errors import BackendError, FilterError, IndexLockedError, IndexMismatchError
from wye.backends.store.documents import list_documents
from wye.backends.store.index import PassageStore
from wye.backends.types import Metadata, Passage, Query
from wye.router.dataset import DatasetSnapshot
from wye.router.session import Session
from wye.router.settings import load_settings
from wye.router.types import ARMS, Ask, Route
from wye.service.app import build
from wye.service.cli import run
from wye.service.settings import ServeSettings, ServiceSettings

pytestmark = pytest.mark.usefixtures("fake_models")
UNKNOWN = np.zeros(0, np.float32)


def test_text_arms_rank_and_score_as_in_memory(prepared: Path) -> None:
    memory, dataset = opened(prepared, "memory"), opened(prepared)
    for question in QUESTIONS:
        for arm, error in ((Route.DENSE, 5e-4), (Route.LEXICAL, 1e-6)):
            one, other = (reply_to(session, question, arm).ranking for session in (memory, dataset))
            assert other.scores == pytest.approx(one.scores, abs=error)
            if arm == Route.LEXICAL:
                assert one.ids() == other.ids()


@pytest.mark.parametrize("route", [Route.GRAPH, *FUSED])
def test_a_route_has_the_hits_of_memory(prepared: Path, route: Route) -> None:
    """The graph has some 150 of the 199 passages, so hits at the end of a list may differ."""
    memory, dataset = opened(prepared, "memory"), opened(prepared)
    shared = [
        len({*ids(memory, question, route)} & {*ids(dataset, question, route)}) / 5
        for question in QUESTIONS
    ]
    assert sum(shared) / len(shared) >= 0.85


def test_the_graph_of_a_question_lists_passages_by_id_wherever_they_are(tmp_path: Path) -> None:
    """Chunks are tied by their positions among them."""
    folder, texts = tmp_path / "index", ["Ada met Bo.", "Bo met Cy.", "Cy met Dee."]
    chunks = [Passage(f"d#{n}", "", text, {}, "d", n) for n, text in enumerate(texts)]
    with Session.create(load_settings(), folder) as target:
        target.ingest(chunks)
        target.ingest([Passage("a", "", "Ada met Eve.")])
        target.build_indices()
    graph = opened(folder).snapshot.graph
    vector = np.ones(graph.version.dimension, np.float32)  # type: ignore[attr-defined]
    batch = graph.batch([Query("Whom did Ada meet?", vector)])
    batch.search([0], 4)
    source, trace, _ = batch._walked[0]
    assert trace.passages.tolist() != sorted(trace.passages.tolist())
    assert source.ids(trace.passages) == ["a", "d#0", "d#1", "d#2"]
    assert source.consecutive(trace.passages).tolist() == [[1, 2], [2, 3]]


def test_a_name_is_shown_as_it_is_spelt_most_often_wherever_that_is_stored(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    with Session.create(load_settings(), folder) as target:
        for part in (["Unesco", "Unesco", "UNESCO"], ["UNESCO", "UNESCO"]):
            texts = [f"They met {name} there." for name in part]
            target.ingest([Passage(f"{len(part)}-{n}", "", text) for n, text in enumerate(texts)])
        target.build_indices()
    rows = opened(folder).snapshot.graph.version.rows_of(["3-0", "2-0"])  # type: ignore[attr-defined]
    shown = [name.shown for row in rows for name in row.names if name.key == "unesco"]
    assert shown == ["UNESCO", "UNESCO"]


def test_names_of_a_question_are_those_of_memory(prepared: Path) -> None:
    for question in QUESTIONS:
        stats = []
        for engine in ("memory", "dataset"):
            arms = opened(prepared, engine).snapshot
            batch = arms.graph.batch([Query(question, UNKNOWN)])
            stats.append(({*batch.seeds([0])[0]}, batch.needs_parse(0), [*batch.names(0)]))
        assert stats[0] == stats[1]


def test_coverage_and_texts_are_those_of_memory(prepared: Path) -> None:
    question = QUESTIONS[0]
    memory, dataset = (opened(prepared, engine).snapshot for engine in ("memory", "dataset"))
    first = memory.lexical.search([Query(question, UNKNOWN)], 5)[0].ids()
    assert dataset.words_in([question], [first]) == memory.words_in([question], [first])
    assert dataset.texts(first * 2) == memory.texts(first * 2)  # of two questions in a batch
    assert dataset.corpus.passages(first) == memory.corpus.passages(first)
    covered = [
        arms.graph.batch([Query(question, UNKNOWN)]).names_in([0], [first])
        for arms in (memory, dataset)
    ]
    assert covered[0] == covered[1]


def test_what_a_filter_hides_is_not_returned_nor_counted(prepared: Path) -> None:
    session = opened(prepared)
    topics = {
        str(p.metadata["topic"]) for p in session.snapshot.passages(all_ids(prepared)).values()
    }
    topic = min(topics)
    filter_ = {"type": "eq", "key": "topic", "value": topic}
    other = {"type": "ne", "key": "topic", "value": topic}
    for route in (*ARMS, *FUSED):
        for question in QUESTIONS[:5]:
            for within, is_topic in ((filter_, True), (other, False)):
                hits = session.snapshot.passages(ids(session, question, route, filter=within))
                assert hits
                assert all((p.metadata["topic"] == topic) == is_topic for p in hits.values())
    arms = session.snapshot
    for question in QUESTIONS:
        memory = opened(prepared, "memory").snapshot
        query = [Query(question, UNKNOWN)]
        seeds = [one.graph.batch(query, one.allowed(filter_)).seeds([0]) for one in (arms, memory)]
        assert seeds[0] == seeds[1]


@pytest.mark.parametrize(
    "filter_",
    [
        {"type": "gte", "key": "year", "value": 1900},
        {"type": "lt", "key": "year", "value": 1900.5},
        {"type": "in", "key": "year", "value": [1, 1963, "1963"]},
        {"type": "nin", "key": "tags", "value": ["a", "b"]},
        {"type": "eq", "key": "tags", "value": "a"},
        {"type": "ne", "key": "year", "value": True},
        {"type": "in", "key": "year", "value": []},
        {
            "type": "or",
            "filters": [
                {"type": "eq", "key": "tags", "value": "b"},
                {
                    "type": "and",
                    "filters": [
                        {"type": "gt", "key": "year", "value": 10},
                        {"type": "ne", "key": "tags", "value": "c"},
                    ],
                },
            ],
        },
    ],
)
def test_filters_let_through_what_they_do_in_memory(tmp_path: Path, filter_: object) -> None:
    metadata: list[Metadata] = [
        {"year": 1963, "tags": ["a", "b"]},
        {"year": 1963.0},
        {"year": "1963", "tags": "c"},
        {"year": True, "tags": []},
        {"tags": None},
        {},
        {"year": [1, 1900.25], "tags": ["c", "a"]},
    ]
    folder = tmp_path / "index"
    with Session.create(load_settings(), folder) as target:
        target.ingest([Passage(f"p{n}", "", "A bridge.", m) for n, m in enumerate(metadata)])
        target.build_indices()
    memory, dataset = (opened(folder, engine) for engine in ("memory", "dataset"))
    hits = [
        sorted(session.gateway.search(["bridge"], Ask(Route.LEXICAL, 20, filter_))[0].ranking.ids())
        for session in (memory, dataset)
    ]
    assert hits[0] == hits[1]


def test_a_key_that_no_passage_has_is_refused(prepared: Path) -> None:
    with pytest.raises(FilterError, match="No passage has the key"):
        ids(opened(prepared), "bridge", Route.DENSE, filter={"type": "eq", "key": "x", "value": 1})


def test_steps_and_the_graph_are_explained(prepared: Path) -> None:
    session = opened(prepared)
    for question in QUESTIONS[:8]:
        reply = reply_to(session, question, Route.STEPS, explain=True)
        named = [name for step in reply.chain for name in step.candidates if name.row >= 0]
        titles = dict(session.snapshot.texts([name.passage for name in named]))
        assert all(name.name in name.sentence or name.name in titles for name in named)
        assert reply.explanation is not None
        assert len(reply.explanation.passages) >= 3


def test_further_arms_are_refused(prepared: Path) -> None:
    for route in (Route.CLUE, Route.ZOOM):
        with pytest.raises(BackendError, match="WYE_ENGINE=memory"):
            ids(opened(prepared), QUESTIONS[0], route)


def test_columns_for_other_settings_are_refused(prepared: Path) -> None:
    settings = load_settings(engine="dataset", lexical={"k1": 1.5})
    with pytest.raises(IndexMismatchError, match="other settings"):
        _ = Session.open(settings, prepared).snapshot


def test_auto_takes_the_dataset_of_a_large_index_alone(prepared: Path) -> None:
    for least, is_dataset in ((100, True), (300, False)):
        session = Session.open(load_settings(dataset_from=least), prepared)
        assert isinstance(session.snapshot, DatasetSnapshot) == is_dataset


def test_of_a_list_that_is_fused_the_first_rows_and_its_last_are_read() -> None:
    searches = Searches(lambda *_: Matches([], 0), most=10)
    proposed = range(120)
    assert [*searches.to_read(proposed, 100)] == [*range(50), 99]
    assert [*searches.to_read(proposed[:80], 100)] == [*range(50), 79]
    assert [*searches.to_read(proposed[:50], 100)] == [*range(50)]
    assert [*searches.to_read(proposed, 40)] == [*proposed]
    assert [*Searches(lambda *_: Matches([], 0), most=100).to_read(proposed, 100)] == [*proposed]


@pytest.mark.parametrize("route", [Route.DENSE, Route.HYBRID, Route.FUSION])
def test_a_reply_has_as_many_hits_as_are_wanted(prepared: Path, route: Route) -> None:
    session = opened(prepared)
    for k in (5, 40, 90, 150):
        (reply,) = session.gateway.search([QUESTIONS[0]], Ask(route, k))
        assert len(reply.ranking.hits) == k
        if route == Route.DENSE:
            scores = [*reply.ranking.scores]
            (memory,) = opened(prepared, "memory").gateway.search([QUESTIONS[0]], Ask(route, k))
            assert scores == pytest.approx([*memory.ranking.scores], abs=2e-3)


def test_the_cache_of_rows_is_bounded(prepared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wye.backends.dataset.version.CACHED_ROWS", 10)
    session = opened(prepared)
    before = [ids(session, question, Route.FUSION) for question in QUESTIONS[:3]]
    version = session.snapshot._version  # type: ignore[attr-defined]
    assert isinstance(version, DatasetVersion)
    assert len(version._rows) <= 10
    assert before == [ids(opened(prepared), question, Route.FUSION) for question in QUESTIONS[:3]]


def test_a_lost_table_of_words_is_damage(folder: Path) -> None:
    shutil.rmtree(folder / "words.lance")
    with pytest.raises(BackendError, match="is damaged"):
        _ = opened(folder).snapshot
    assert lance.dataset(folder / "passages.lance").count_rows() == 199


def test_two_servers_on_one_dataset_see_a_write_and_a_deletion(folder: Path) -> None:
    serve = ServeSettings(refresh_seconds=0.05)
    settings = ServiceSettings(engine="dataset", index=folder, serve=serve)
    with inside(build(settings)) as one, inside(build(settings)) as other:
        body = {"title": NEW.title, "text": NEW.text}
        reply = one.put("/v1/documents/zeppelin", json=body)
        assert reply.status_code == 201
        assert "zeppelin" in retrieved(other, min_version=reply.json()["index_version"])
        late = {"question": "Who?", "route": "lexical", "min_version": 10**6}
        refused = other.post("/v1/retrieve", json=late)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "not-searched-yet")
        assert "zeppelin" in within_two_seconds(other, lambda found: "zeppelin" in found)
        assert one.delete("/v1/documents/zeppelin").is_success
        assert "zeppelin" not in retrieved(one)
        assert "zeppelin" not in within_two_seconds(other, lambda found: "zeppelin" not in found)


def retrieved(client: TestClient, **options: object) -> list[str]:
    body = {"question": NEW.title, "route": "fusion", **options}
    return [hit["id"] for hit in client.post("/v1/retrieve", json=body).json()["passages"]]


def within_two_seconds(client: TestClient, holds: Callable[[list[str]], bool]) -> list[str]:
    end = monotonic() + 2
    while not holds(found := retrieved(client)) and monotonic() < end:
        sleep(0.02)
    return found


def test_an_index_without_columns_ends_a_command_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WYE_ENGINE", "dataset")
    with Session.create(load_settings(), tmp_path / "index") as target:
        target.ingest([NEW])
    before = sorted(path.name for path in tmp_path.rglob("*"))
    for name, message in (("index", "no columns"), ("nowhere", "no index at")):
        command = ["search", "Who?", "--route", "lexical", "--index", str(tmp_path / name)]
        assert run(command) == 2
        assert message in " ".join(capsys.readouterr().err.split())
    assert sorted(path.name for path in tmp_path.rglob("*")) == before


def test_an_object_store_is_read_in_place_and_followed(folder: Path, tmp_path: Path) -> None:
    """Lance's own store of local files stands for one of the cloud."""
    address = f"file-object-store://{folder}"
    reader, local = opened(Path(address), "auto"), opened(folder)
    for route in (*ARMS, *FUSED):
        assert ids(reader, QUESTIONS[1], route) == ids(local, QUESTIONS[1], route)
    assert reader.reload() is None
    local.ingest([NEW])
    later = reader.reload()
    assert later is not None
    assert "zeppelin" in ids(later, NEW.title, Route.LEXICAL)
    settings = ServiceSettings(index=Path(address), serve=ServeSettings(refresh_seconds=0.05))
    with inside(build(settings)) as client:
        assert retrieved(client)
        assert client.delete("/v1/documents/zeppelin").is_success
        assert "zeppelin" not in retrieved(client)
        body = {"text": NEW.text, "title": NEW.title}
        assert client.put("/v1/documents/zeppelin", json=body).status_code == 201
        assert "zeppelin" in within_two_seconds(client, lambda found: "zeppelin" in found)
        many = {"documents": [{"id": f"m{n}", "text": "A bridge."} for n in range(200)]}
        reply = client.post("/v1/documents", json=many)
        assert (reply.status_code, reply.json()["error"]["code"]) == (409, "read-only")
    with pytest.raises(BackendError, match="no index at file-object-store"):
        opened(Path(f"file-object-store://{tmp_path}/nowhere"))


def test_an_index_is_made_in_an_object_store_and_the_second_writer_is_told(tmp_path: Path) -> None:
    address = Path(f"file-object-store://{tmp_path}/new")
    with Session.create(load_settings(), address) as target:
        target.ingest([Passage(f"p{n}", "", f"Bridge {n} stands.") for n in range(3)])
        target.build_indices()
        target.ingest([NEW])
        later = target.reload()
        assert later is not None
        assert ids(later, NEW.title, Route.FUSION)[0] == "zeppelin"
    stores = [PassageStore.open(address) for _ in range(2)]
    with stores[0].writer() as first, stores[1].writer() as second:
        first.delete(["p0"])
        before = counts(tmp_path / "new")
        for write in (lambda: second.delete(["p1"]), lambda: count(second, ["p1"])):
            with pytest.raises(IndexLockedError, match="another process since"):
                write()
    assert sorted(all_ids(address)) == ["p1", "p2", "zeppelin"]
    assert counts(tmp_path / "new") == before
    shutil.rmtree(tmp_path / "new" / "passages.lance" / "data")
    with pytest.raises(BackendError, match="It is tried again"):
        list_documents(address)
