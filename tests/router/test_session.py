import hashlib
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from filelock import FileLock

import wye.backends.store.corpus
import wye.backends.store.derived
import wye.backends.store.index
import wye.router.snapshot
from tests.hashing import HashAnalyser
from tests.stored import fetch
from wye.backends.dense import DenseSettings
from wye.backends.errors import IndexDamagedError
from wye.backends.lexical import LexicalSettings
from wye.backends.store.corpus import Corpus
from wye.backends.store.derived import LAYOUT, DerivedFiles
from wye.backends.store.index import PassageStore
from wye.backends.store.ingest import ingest
from wye.backends.trigraph.graph import assemble
from wye.backends.trigraph.settings import AssemblySettings
from wye.backends.types import Passage, Query
from wye.featurizer.analyser import Analyser, AnalyserSettings, open_syntax_parser
from wye.router.deriving import LOCK, derive, start_deriving
from wye.router.errors import ModelFileError
from wye.router.evidence import COLUMNS
from wye.router.model_files import read_policy, save_policy
from wye.router.policy import Policy
from wye.router.session import ModelCache, Session, decide_without_index, open_router
from wye.router.settings import RoutingSettings, Settings, load_settings
from wye.router.snapshot import Snapshot
from wye.router.types import ARMS, FURTHER, Ask, Route, Thresholds

pytestmark = pytest.mark.usefixtures("fake_models")

Router = Callable[[Path, str, float], Path]
SHORT, LONG = (
    "Who met Ada?",
    "Which of the two engines that Babbage built did Ada describe in 1843?",
)


def add(folder: Path, *ids: str) -> None:
    with Session.create(load_settings(), folder) as target:
        rows = [Passage(id_, id_.upper(), "Ada met Babbage.") for id_ in ids]
        ingest(target.index, rows, target.analyser)


@pytest.fixture(autouse=True)
def as_nice_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is derived in the tests' own process leaves its priority alone."""
    monkeypatch.setattr("os.nice", lambda _: 0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    add(tmp_path / "index", "p0", "p1", "p2", "p3")
    return tmp_path / "index"


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
def test_a_route_builds_its_own_arm_alone_and_words_load_no_models(
    folder: Path, route: Route
) -> None:
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
            assert reply.explanation is not None
            assert [note.id for note in reply.explanation.passages] == [
                hit.id for hit in reply.ranking.hits
            ]
            assert session.snapshot.retriever(arm) is session.snapshot.further(arm)
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


def test_settings_reach_the_further_arms(folder: Path) -> None:
    settings = load_settings(clue={"sets": 2}, zoom={"steps": 3})
    with Session.open(settings, folder) as session:
        clue, zoom = (session.snapshot.further(arm) for arm in FURTHER)
        assert (vars(clue)["settings"].sets, vars(zoom)["settings"].steps) == (2, 3)


def test_fusion_is_no_single_arm(folder: Path) -> None:
    with pytest.raises(ValueError, match="not a single arm"):
        Session.open(load_settings(), folder).snapshot.retriever(Route.FUSION)


HASHES = HashAnalyser()
PEOPLE = ["Anna", "Bob", "Carol", "Dave", "Eva", "Farid"]


def passage(number: int, chance: random.Random) -> Passage:
    first, second, third = chance.sample(PEOPLE, 3)
    return Passage(f"p{number}", first, f"{first} met {second}. {third} slept beneath mountains.")


def twenty(folder: Path, chance: random.Random) -> PassageStore:
    index = PassageStore.create(folder, HASHES.dimension, HASHES.fingerprint)
    ingest(index, [passage(number, chance) for number in range(20)], HASHES)
    return index


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of what is derived are kept of the smallest index."""
    monkeypatch.setattr(wye.backends.store.index, "KEPT_FROM", 0)


def answers(snapshot: Snapshot) -> list[object]:
    """All that the arms say to some questions, to the last bit."""
    vectors = HASHES.encode_surfaces(PEOPLE)
    questions = [Query(f"Who met {n}?", v) for n, v in zip(PEOPLE, vectors, strict=True)]
    graph = snapshot.graph.batch(questions)
    places = range(len(questions))
    walks = graph.search(places, 5)
    found: list[object] = [*of_texts(snapshot), *walks, *graph.seeds(places)]
    found += [graph.explain(place, walks[place]) for place in places]
    found += graph.names_in(places, [snapshot.corpus.ids] * len(places))
    return [*found, snapshot.graph.graph.display_names.all()]


def of_texts(snapshot: Snapshot) -> list[object]:
    """As `answers`, without the graph, which may have a tail and then differs."""
    vectors = HASHES.encode_surfaces(PEOPLE)
    questions = [Query(f"Who met {n}?", v) for n, v in zip(PEOPLE, vectors, strict=True)]
    arms = Route.DENSE, Route.LEXICAL
    found: list[object] = [snapshot.retriever(arm).search(questions, 5) for arm in arms]
    texts = [query.text for query in questions]
    found += snapshot.words_in(texts, [snapshot.corpus.ids[:5]] * len(texts))
    found += [snapshot.corpus.passages(snapshot.corpus.ids), [*snapshot.corpus.iter_texts()]]
    return [*found, [*snapshot.corpus.iter_sentence_texts()]]


def files_in(folder: Path) -> list[Path]:
    return sorted((folder / "derived").rglob("*.arrays"))


COMPRESSED = Settings(dense=DenseSettings(kind="compressed"))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("local", [False, True])
def test_a_version_made_after_others_answers_as_one_made_from_nothing(
    tmp_path: Path, kept: None, monkeypatch: pytest.MonkeyPatch, *, seed: int, local: bool
) -> None:
    """Whatever was added, replaced, deleted, merged, reopened and derived on the way."""
    monkeypatch.setattr(wye.backends.store.corpus, "_MOST", 0.5)
    chance, settings = random.Random(seed), COMPRESSED if local else Settings()
    index = twenty(tmp_path / "index", chance)
    before: Snapshot | None = None
    layered = 0
    for step in range(8):
        snapshot = Snapshot(index, settings, before)
        layered += snapshot.base is not snapshot
        shutil.copytree(index.path, tmp_path / "alone")
        shutil.rmtree(tmp_path / "alone" / "derived")
        alone = Snapshot(PassageStore.open(tmp_path / "alone"), settings)
        assert alone.base is alone
        compared = answers if snapshot.base is snapshot else of_texts
        assert compared(snapshot) == compared(alone)
        shutil.rmtree(tmp_path / "alone")
        before = chance.choice([snapshot, snapshot, None])
        if chance.random() < 0.2:
            Snapshot.derive(index, settings)
        stored = snapshot.corpus.ids
        changed = [replace(one, title="Grace") for one in fetch(index, chance.sample(stored, 1))]
        new = [passage(100 * step + more, chance) for more in range(chance.randint(0, 3))]
        ingest(index, [*new, *changed], HASHES)
        with index.writer() as writer:
            writer.delete(chance.sample(stored, chance.randint(0, 2)))
            if chance.random() < 0.3:
                writer.compact(keep=timedelta(0))
        index.refresh()
    assert layered > 3


def test_a_graph_with_a_tail_finds_what_was_written_and_is_derived_in_a_quiet_time(
    tmp_path: Path, kept: None
) -> None:
    index = twenty(tmp_path, random.Random(5))
    before = Snapshot(index, Settings())
    before.graph.search([], 1)
    ingest(index, [Passage("new", "Zoltan", "Zoltan met Ada in Szeged.")], HASHES)
    with index.writer() as writer:
        writer.delete(["p3"])
    index.refresh()
    after = Snapshot(index, Settings(), before)
    (vector,) = HASHES.encode_surfaces(["Zoltan"])
    (ranking,) = after.graph.search([Query("Whom did Zoltan meet?", vector)], 30)
    assert ranking.hits[0].id == "new"
    assert "p3" not in [hit.id for hit in ranking.hits]
    assert after.graph.graph.keys.find("zoltan") >= len(before.graph.graph)
    assert (after.due(), after.due(59), after.due(61)) == (0, 0, 2)
    Snapshot.derive(index, Settings())
    derived, alone = Snapshot(index, Settings(), after), Snapshot(index, Settings())
    assert derived.due(61) == 0
    assert answers(derived) == answers(alone)
    graph = derived.graph.graph
    assert [*graph.keys] == [*assemble(derived.corpus, AssemblySettings()).keys]


@pytest.mark.parametrize("listed", [0, 50_000])
@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        (Settings(), ["graph", "lexical", "passages.arrays"]),
        (COMPRESSED, ["dense.arrays", "graph", "lexical", "passages.arrays"]),
    ],
)
def test_what_is_mapped_answers_as_what_was_built(
    tmp_path: Path,
    kept: None,
    *,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    settings: Settings,
    parts: list[str],
    listed: int,
) -> None:
    monkeypatch.setattr(wye.backends.store.corpus, "LISTED", listed)
    index = twenty(tmp_path, random.Random(3))
    built = answers(Snapshot(index, settings))
    files = files_in(tmp_path)
    assert [file.name.partition("-")[0] for file in files] == parts
    times = [file.stat().st_mtime_ns for file in files]
    mapped = Snapshot(index, settings)
    assert not np.asarray(mapped.corpus.vectors).flags.writeable
    assert isinstance(mapped.corpus.ids, list) == bool(listed)
    assert answers(mapped) == built
    assert [file.stat().st_mtime_ns for file in files] == times
    for file in files:
        whole = file.read_bytes()
        file.write_bytes(whole[:-100] + bytes(byte ^ 1 for byte in whole[-100:]))
        assert answers(Snapshot(index, settings)) == built
        assert file.read_bytes() == whole
    assert caplog.text.count("is rebuilt") == len(files)


LAYOUTS = {8: "225d0ced8ed9ec48cfb4ce5d19e7b9f6"}
"""Digest of what is kept of an index, by the layout; another digest needs another layout."""


def test_a_change_of_what_is_kept_raises_the_layout(tmp_path: Path, kept: None) -> None:
    index = twenty(tmp_path, random.Random(3))
    answers(Snapshot(index, COMPRESSED))
    assembly = COMPRESSED.graph.assembly
    parts = {"passages": None, "lexical": COMPRESSED.lexical, "graph": assembly}
    digest = hashlib.blake2b(digest_size=16)
    for part, own in parts.items():
        arrays = index.derived.read(part, own)
        assert arrays
        for name, array in sorted(arrays.items()):
            # The last bit of a weight may depend on the processor.
            content = b"" if array.dtype.kind == "f" else array.tobytes()
            digest.update(f"{part} {name} {array.dtype.str} {array.shape}".encode() + content)
    assert digest.hexdigest() == LAYOUTS[LAYOUT]


def test_other_settings_have_files_of_their_own(tmp_path: Path, kept: None) -> None:
    index = twenty(tmp_path, random.Random(3))
    plain, weighted = Settings(), Settings(lexical=LexicalSettings(k1=2.0))
    expected = answers(Snapshot(index, weighted))
    assert answers(Snapshot(index, plain)) != expected
    assert len(files_in(tmp_path)) == 4  # the graph is the same
    assert answers(Snapshot(index, weighted)) == expected


def test_a_small_change_is_taken_up_from_the_files_of_the_version_before(
    tmp_path: Path, kept: None
) -> None:
    chance = random.Random(4)
    index = twenty(tmp_path, chance)
    answers(Snapshot(index, Settings()))
    before = files_in(tmp_path)
    ingest(index, [passage(99, chance), replace(passage(3, chance), title="Grace")], HASHES)
    index.refresh()
    after = Snapshot(index, Settings())
    assert after.corpus.two
    assert after.corpus.two.added.ids == ["p3", "p99"]
    found = answers(after)
    assert files_in(tmp_path) == before
    shutil.rmtree(tmp_path / "derived")
    assert answers(Snapshot(index, Settings())) == found


def test_most_passages_being_new_all_is_kept_anew(tmp_path: Path, kept: None) -> None:
    chance = random.Random(5)
    index = twenty(tmp_path, chance)
    first = answers(Snapshot(index, Settings()))
    before = files_in(tmp_path)
    ingest(index, [passage(number, chance) for number in range(100, 130)], HASHES)
    index.refresh()
    found = answers(Snapshot(index, Settings()))
    assert found != first
    assert {*files_in(tmp_path)}.isdisjoint(before)
    assert len(files_in(tmp_path)) == len(before)
    assert answers(Snapshot(index, Settings())) == found


def test_a_version_that_others_kept_files_of_is_mapped_by_who_follows(
    tmp_path: Path, kept: None
) -> None:
    chance = random.Random(6)
    index = twenty(tmp_path, chance)
    before = Snapshot(index, Settings())
    answers(before)
    shutil.rmtree(tmp_path / "derived")
    ingest(index, [passage(99, chance)], HASHES)
    index.refresh()
    expected = answers(Snapshot(index, Settings()))
    later = Snapshot(index, Settings(), before)
    assert not np.asarray(later.corpus.vectors).flags.writeable
    assert answers(later) == expected
    for file in files_in(tmp_path):
        if "passages" not in file.name:
            file.unlink()
    assert answers(Snapshot(index, Settings(), before)) == expected


def test_files_go_with_their_version_and_that_of_the_base_stays(tmp_path: Path, kept: None) -> None:
    chance = random.Random(8)
    index = twenty(tmp_path, chance)
    answers(Snapshot(index, Settings()))
    base = files_in(tmp_path)
    with index.writer() as writer:
        writer.delete(["p1"])
        writer.compact(keep=timedelta(0))
    assert files_in(tmp_path) == base
    assert PassageStore.open(tmp_path).checkout(2)
    index.refresh()
    later = Snapshot(index, Settings())
    assert later.base.version == 2
    found = answers(later)
    Snapshot.derive(index, Settings())
    assert {*files_in(tmp_path)}.isdisjoint(base)
    assert answers(Snapshot(index, Settings())) == found
    with index.writer() as writer:
        writer.delete(["p2"])
        writer.compact(keep=timedelta(0))
    with pytest.raises(IndexDamagedError):
        PassageStore.open(tmp_path).checkout(2)


def test_a_session_moves_over_to_a_base_that_was_derived_meanwhile(
    folder: Path, kept: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wye.backends.store.derived, "LEAST_OUTGROWN", 1)
    first = Session.open(load_settings(), folder)
    first.build()
    assert first.reload() is None
    assert not first.snapshot.due()
    with PassageStore.open(folder).writer() as writer:
        writer.delete(["p0"])
    add(folder, "p9")
    session = first.reload()
    assert session is not None
    session.build()
    assert session.snapshot.base is first.snapshot
    assert session.snapshot.due() == 2
    assert session.reload() is None
    process = start_deriving(folder, session.settings)
    process.kill()
    process.join()
    assert session.reload() is None, "what is not whole is no base"
    derive(folder, session.settings)
    later = session.reload()
    assert later is not None
    assert later.version == session.version == later.snapshot.base.version
    assert not later.snapshot.due()
    (ours,), (theirs,) = (
        each.gateway.search(["Who met Ada?"], Ask(Route.FUSION, 9)) for each in (later, session)
    )
    assert ours.ranking == theirs.ranking
    assert later.reload() is None


def test_a_base_that_cannot_be_made_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = twenty(tmp_path, random.Random(0))

    def full(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(Snapshot, "derive", full)
    (index.path / "derived").mkdir(exist_ok=True)
    derive(index.path, COMPRESSED)
    assert "no space left on device" in caplog.text


@pytest.mark.parametrize("whole", range(3))
def test_a_base_of_which_parts_are_missing_is_none(
    tmp_path: Path, kept: None, monkeypatch: pytest.MonkeyPatch, whole: int
) -> None:
    """Its process was killed; dense codes, the graph and BM25 come before passages."""
    chance = random.Random(whole)
    index = twenty(tmp_path, chance)
    before = Snapshot(index, COMPRESSED)
    answers(before)
    ingest(index, [passage(99, chance)], HASHES)
    index.refresh()
    expected = answers(Snapshot(index, COMPRESSED, before))
    written: list[str] = []

    def write(files: DerivedFiles, part: str, *given: object) -> None:
        if len(written) == whole:
            raise KeyboardInterrupt
        written.append(part)
        original(files, part, *given)  # type: ignore[arg-type]

    original = DerivedFiles.write
    monkeypatch.setattr(DerivedFiles, "write", write)
    with pytest.raises(KeyboardInterrupt):
        Snapshot.derive(index, COMPRESSED)
    monkeypatch.setattr(DerivedFiles, "write", original)
    assert "passages" not in written
    for earlier in (before, None):
        later = Snapshot(index, COMPRESSED, earlier)
        assert later.base.version == before.version
        assert answers(later) == expected
    Snapshot.derive(index, COMPRESSED)
    assert Snapshot(index, COMPRESSED, before).base.version == index.version
    assert {file.parent.name for file in files_in(tmp_path)} == {index.derived.folder.name}


def test_one_process_derives_at_a_time(folder: Path, kept: None) -> None:
    Session.open(load_settings(), folder).build()
    files = files_in(folder)
    add(folder, "p9")
    with FileLock(folder / "derived" / LOCK):
        derive(folder, load_settings())
    assert files_in(folder) == files
    derive(folder, load_settings())
    assert {*files_in(folder)}.isdisjoint(files)


def test_nothing_is_kept_of_a_small_index_nor_of_a_damaged_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = twenty(tmp_path, random.Random(9))
    answers(Snapshot(index, Settings()))
    monkeypatch.setattr(wye.backends.store.index, "KEPT_FROM", 0)
    index.fault = "It is damaged."
    answers(Snapshot(index, Settings()))
    assert not files_in(tmp_path)


def test_only_what_changed_is_read_again(tmp_path: Path, kept: None) -> None:
    chance = random.Random(1)
    index = twenty(tmp_path, chance)
    before = Snapshot(index, Settings())
    before.retriever(Route.GRAPH)
    ingest(index, [passage(99, chance)], HASHES)
    index.refresh()
    after = Snapshot(index, Settings(), before)
    read: list[str] = []

    def texts(corpus: Corpus) -> Iterator[tuple[str, str]]:
        read.extend(corpus.ids)
        return original(corpus)

    original = Corpus.iter_texts
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Corpus, "iter_texts", texts)
        after.retriever(Route.LEXICAL)
    assert read == ["p99"]


@pytest.fixture
def routed(
    tmp_path: Path, handmade_router: Router, reading_models: None
) -> Callable[..., Settings]:
    """Settings with a router that looks at one feature."""

    def settings(feature: str, thresholds: Path | str = "") -> Settings:
        folder = handmade_router(tmp_path / "models", feature, 8.0)
        return load_settings(router=RoutingSettings(str(folder), str(thresholds)))

    return settings


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Thresholds beside the index."""
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


def test_thresholds_that_cannot_be_used_are_refused(
    folder: Path, file: Path, routed: Callable[..., Settings]
) -> None:
    session = Session.open(routed("words", file), folder)
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
    folder: Path, file: Path, routed: Callable[..., Settings]
) -> None:
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


def test_a_router_of_other_features_is_refused(
    routed: Callable[..., Settings], fake_analyser: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = routed(COLUMNS[0])
    monkeypatch.setattr("wye.router.session.Analyser", fake_analyser)
    with pytest.raises(ModelFileError, match="was trained with feature schema"):
        open_router(settings, ModelCache())


class Counted(Analyser):
    """Loads nothing, and counts how often it is closed."""

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


def test_what_cannot_be_loaded_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(settings: AnalyserSettings) -> Analyser:
        raise OSError("the disk is gone")

    models = ModelCache()
    monkeypatch.setattr("wye.router.session.Analyser", broken)
    with pytest.raises(OSError, match="gone"):
        models.analyser(AnalyserSettings())
    monkeypatch.setattr("wye.router.session.Analyser", Counted)
    assert isinstance(models.analyser(AnalyserSettings()), Counted)


def test_a_router_is_loaded_once_for_equal_folders_and_schemas(
    tmp_path: Path, handmade_router: Router
) -> None:
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
