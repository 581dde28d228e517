"""A version of an index: derived files, versions on a base, and what is taken over from before."""

import hashlib
import random
import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock

import wye.backends.store.corpus
import wye.backends.store.derived
import wye.backends.store.index
import wye.router.snapshot
from tests.hashing import HashAnalyser
from tests.router.conftest import add
from tests.stored import fetch
from wye.backends.dense import DenseSettings
from wye.backends.lexical import LexicalSettings
from wye.backends.store.derived import LAYOUT, DerivedFiles
from wye.backends.store.index import PassageStore
from wye.backends.store.ingest import ingest
from wye.backends.trigraph.graph import assemble
from wye.backends.trigraph.settings import AssemblySettings
from wye.backends.types import Passage, Query
from wye.router.session import Session
from wye.router.settings import Settings, load_settings
from wye.router.snapshot import LOCK, Snapshot, derive, start_deriving
from wye.router.types import Ask, Route

pytestmark = pytest.mark.usefixtures("fake_models")


@pytest.fixture(autouse=True)
def as_nice_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is derived in the tests' own process leaves its priority alone."""
    monkeypatch.setattr("os.nice", lambda _: 0)


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
def persisted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of what is derived are kept of the smallest index."""
    monkeypatch.setattr(wye.backends.store.index, "DERIVED_FROM", 0)


def answers(snapshot: Snapshot) -> list[object]:
    """All that the arms say to some questions, to the last bit."""
    vectors = HASHES.encode_surfaces(PEOPLE)
    questions = [Query(f"Who met {n}?", v) for n, v in zip(PEOPLE, vectors, strict=True)]
    graph = snapshot.graph.batch(questions)
    places = range(len(questions))
    walks = graph.search(places, 5)
    result: list[object] = [*of_texts(snapshot), *walks, *graph.seeds(places)]
    result += [graph.explain(position, walks[position]) for position in places]
    result += graph.names_in(places, [snapshot.ids] * len(places))
    return [*result, snapshot.graph.graph.display_names.all()]


def of_texts(snapshot: Snapshot) -> list[object]:
    """As `answers`, without the graph, which may have a tail and then differs."""
    vectors = HASHES.encode_surfaces(PEOPLE)
    questions = [Query(f"Who met {n}?", v) for n, v in zip(PEOPLE, vectors, strict=True)]
    arms = snapshot.dense, snapshot.lexical
    result: list[object] = [arm.search(questions, 5) for arm in arms]
    texts = [query.text for query in questions]
    corpus, ids = snapshot.corpus, snapshot.ids
    result += snapshot.words_in(texts, [ids[:5]] * len(texts))
    result += [corpus.passages(ids), snapshot.texts(ids), len(snapshot)]
    sentences = [np.flatnonzero(corpus.sentence_passage == row) for row in corpus.by_id]
    return [*result, corpus.sentence_texts(np.concatenate(sentences))]


def files_in(folder: Path) -> list[Path]:
    return sorted((folder / "derived").rglob("*.arrays"))


COMPRESSED = Settings(dense=DenseSettings(kind="compressed"))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("local", [False, True])
def test_a_version_made_after_others_answers_as_one_made_from_nothing(
    tmp_path: Path, persisted: None, monkeypatch: pytest.MonkeyPatch, *, seed: int, local: bool
) -> None:
    """Whatever was added, replaced, deleted, merged, reopened and derived on the way."""
    monkeypatch.setattr(wye.backends.store.corpus, "_MOST", 0.5)
    chance, settings = random.Random(seed), COMPRESSED if local else Settings()
    index = twenty(tmp_path / "index", chance)
    before: Snapshot | None = None
    layered = 0
    for step in range(8):
        snapshot = Snapshot.open(index.newest(), settings, before)
        layered += snapshot.base is not snapshot
        shutil.copytree(index.path, tmp_path / "alone")
        shutil.rmtree(tmp_path / "alone" / "derived")
        alone = Snapshot.open(PassageStore.open(tmp_path / "alone"), settings)
        assert alone.base is alone
        compared = answers if snapshot.base is snapshot else of_texts
        assert compared(snapshot) == compared(alone)
        shutil.rmtree(tmp_path / "alone")
        before = chance.choice([snapshot, snapshot, None])
        if chance.random() < 0.2:
            Snapshot.derive(index.newest(), settings)
        stored = snapshot.ids
        changed = [replace(one, title="Grace") for one in fetch(index, chance.sample(stored, 1))]
        new = [passage(100 * step + more, chance) for more in range(chance.randint(0, 3))]
        ingest(index, [*new, *changed], HASHES)
        with index.writer() as writer:
            writer.delete(chance.sample(stored, chance.randint(0, 2)))
            if chance.random() < 0.3:
                writer.compact(keep=timedelta(0))
        index = index.newest()
    assert layered > 3


def test_a_graph_with_a_tail_finds_what_was_written_and_is_derived_in_a_quiet_time(
    tmp_path: Path, persisted: None
) -> None:
    index = twenty(tmp_path, random.Random(5))
    before = Snapshot.open(index.newest(), Settings())
    before.graph.search([], 1)
    ingest(index, [Passage("new", "Zoltan", "Zoltan met Ada in Szeged.")], HASHES)
    with index.writer() as writer:
        writer.delete(["p3"])
    index = index.newest()
    after = Snapshot.open(index.newest(), Settings(), before)
    (vector,) = HASHES.encode_surfaces(["Zoltan"])
    (ranking,) = after.graph.search([Query("Whom did Zoltan meet?", vector)], 30)
    assert ranking.hits[0].id == "new"
    assert "p3" not in [hit.id for hit in ranking.hits]
    assert after.graph.graph.keys.find("zoltan") >= len(before.graph.graph)
    assert (after.due(), after.due(59), after.due(61)) == (0, 0, 2)
    Snapshot.derive(index.newest(), Settings())
    derived = Snapshot.open(index.newest(), Settings(), after)
    alone = Snapshot.open(index.newest(), Settings())
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
    persisted: None,
    *,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    settings: Settings,
    parts: list[str],
    listed: int,
) -> None:
    monkeypatch.setattr(wye.backends.store.corpus, "LISTED", listed)
    index = twenty(tmp_path, random.Random(3))
    built = answers(Snapshot.open(index.newest(), settings))
    files = files_in(tmp_path)
    assert [file.name.partition("-")[0] for file in files] == parts
    times = [file.stat().st_mtime_ns for file in files]
    mapped = Snapshot.open(index.newest(), settings)
    assert not np.asarray(mapped.corpus.vectors).flags.writeable
    assert isinstance(mapped.corpus.ids, list) == bool(listed)
    assert answers(mapped) == built
    assert [file.stat().st_mtime_ns for file in files] == times
    for file in files:
        whole = file.read_bytes()
        file.write_bytes(whole[:-100] + bytes(byte ^ 1 for byte in whole[-100:]))
        assert answers(Snapshot.open(index.newest(), settings)) == built
        assert file.read_bytes() == whole
    assert caplog.text.count("is rebuilt") == len(files)


LAYOUTS = {22: "45299175a8d4883bbf2392d5f391342f"}
"""Digest of what is kept of an index, by the layout; another digest needs another layout."""


def test_a_change_of_what_is_kept_raises_the_layout(tmp_path: Path, persisted: None) -> None:
    index = twenty(tmp_path, random.Random(3))
    answers(Snapshot.open(index.newest(), COMPRESSED))
    assembly = COMPRESSED.graph.assembly
    parts = {"passages": None, "lexical": COMPRESSED.lexical, "graph": assembly}
    digest = hashlib.blake2b(digest_size=16)
    for part, own in parts.items():
        arrays = (files := index.newest().derived) and files.read(part, own)
        assert arrays
        for name, array in sorted(arrays.items()):
            if name == "fragments":  # has names that nobody gives twice
                continue
            # The last bit of a weight may depend on the processor.
            content = b"" if array.dtype.kind == "f" else array.tobytes()
            digest.update(f"{part} {name} {array.dtype.str} {array.shape}".encode() + content)
    assert digest.hexdigest() == LAYOUTS[LAYOUT]


def test_other_settings_have_files_of_their_own(tmp_path: Path, persisted: None) -> None:
    index = twenty(tmp_path, random.Random(3))
    plain, weighted = Settings(), Settings(lexical=LexicalSettings(k1=2.0))
    expected = answers(Snapshot.open(index.newest(), weighted))
    assert answers(Snapshot.open(index.newest(), plain)) != expected
    assert len(files_in(tmp_path)) == 4  # the graph is the same
    assert answers(Snapshot.open(index.newest(), weighted)) == expected


@pytest.mark.parametrize("written", [["p3", "p99"], [f"p{number}" for number in range(100, 130)]])
def test_files_of_the_version_before_serve_unless_most_passages_are_new(
    tmp_path: Path, persisted: None, written: list[str]
) -> None:
    chance = random.Random(4)
    index = twenty(tmp_path, chance)
    first = answers(Snapshot.open(index.newest(), Settings()))
    before = files_in(tmp_path)
    ingest(index, [replace(passage(int(x[1:]), chance), title="Grace") for x in written], HASHES)
    index = index.newest()
    after = Snapshot.open(index.newest(), Settings())
    is_small = len(written) < 20
    assert [part.ids for part in (after.corpus.parts or ())[1:]] == [written] * is_small
    result = answers(after)
    assert result != first
    assert len(files_in(tmp_path)) == len(before)
    assert {*files_in(tmp_path)} & {*before} == ({*before} if is_small else set())
    assert answers(Snapshot.open(index.newest(), Settings())) == result
    shutil.rmtree(tmp_path / "derived")
    assert answers(Snapshot.open(index.newest(), Settings())) == result


def test_a_version_of_which_others_kept_files_is_mapped(tmp_path: Path, persisted: None) -> None:
    chance = random.Random(6)
    index = twenty(tmp_path, chance)
    before = Snapshot.open(index.newest(), Settings())
    answers(before)
    shutil.rmtree(tmp_path / "derived")
    ingest(index, [passage(99, chance)], HASHES)
    index = index.newest()
    expected = answers(Snapshot.open(index.newest(), Settings()))
    later = Snapshot.open(index.newest(), Settings(), before)
    assert not np.asarray(later.corpus.vectors).flags.writeable
    assert answers(later) == expected
    for file in files_in(tmp_path):
        if "passages" not in file.name:
            file.unlink()
    assert answers(Snapshot.open(index.newest(), Settings(), before)) == expected


def test_a_base_outlives_its_version(tmp_path: Path, persisted: None) -> None:
    chance = random.Random(8)
    index = twenty(tmp_path, chance)
    answers(Snapshot.open(index.newest(), Settings()))
    base = files_in(tmp_path)
    for gone in ("p1", "p2"):
        with index.writer() as writer:
            writer.delete([gone])
            writer.compact(keep=timedelta(0))
    index = index.newest()
    assert 2 not in index.versions()
    later = Snapshot.open(index.newest(), Settings())
    assert (later.base.version, files_in(tmp_path)) == (2, base)
    shutil.copytree(tmp_path, tmp_path.with_name("alone"), ignore=lambda *_: ["derived"])
    alone = Snapshot.open(PassageStore.open(tmp_path.with_name("alone")), Settings())
    assert of_texts(later) == of_texts(alone)
    for file in base:
        file.unlink() if "graph" in file.name else None
    blank = Snapshot.open(index.newest(), Settings())
    assert blank.graph.batch([]).seeds([]) == []
    assert answers(blank)[:8] == answers(later)[:8]
    assert len(files_in(tmp_path)) == len(base) - 1, "it would lack what the gone passages mention"
    Snapshot.derive(index.newest(), Settings())
    assert {*files_in(tmp_path)}.isdisjoint(base)
    assert answers(Snapshot.open(index.newest(), Settings())) == answers(alone)


def test_a_session_moves_over_to_a_base_that_was_derived_meanwhile(
    folder: Path, persisted: None, monkeypatch: pytest.MonkeyPatch
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
    tmp_path: Path, persisted: None, monkeypatch: pytest.MonkeyPatch, whole: int
) -> None:
    """Its process was killed; dense codes, the graph and BM25 come before passages."""
    chance = random.Random(whole)
    index = twenty(tmp_path, chance)
    before = Snapshot.open(index.newest(), COMPRESSED)
    answers(before)
    ingest(index, [passage(99, chance)], HASHES)
    index = index.newest()
    expected = answers(Snapshot.open(index.newest(), COMPRESSED, before))
    written: list[str] = []

    def write(files: DerivedFiles, part: str, *given: object) -> None:
        if len(written) == whole:
            raise KeyboardInterrupt
        written.append(part)
        original(files, part, *given)  # type: ignore[arg-type]

    original = DerivedFiles.write
    monkeypatch.setattr(DerivedFiles, "write", write)
    with pytest.raises(KeyboardInterrupt):
        Snapshot.derive(index.newest(), COMPRESSED)
    monkeypatch.setattr(DerivedFiles, "write", original)
    assert "passages" not in written
    for earlier in (before, None):
        later = Snapshot.open(index.newest(), COMPRESSED, earlier)
        assert later.base.version == before.version
        assert answers(later) == expected
    Snapshot.derive(index.newest(), COMPRESSED)
    assert Snapshot.open(index.newest(), COMPRESSED, before).base.version == index.newest().version
    files = index.newest().derived
    assert {file.parent for file in files_in(tmp_path)} == {files and files.folder}


def test_one_process_derives_at_a_time(folder: Path, persisted: None) -> None:
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
    answers(Snapshot.open(index.newest(), Settings()))
    monkeypatch.setattr(wye.backends.store.index, "DERIVED_FROM", 0)
    index = PassageStore.open(index.path)
    index.fault = "It is damaged."
    answers(Snapshot.open(index, Settings()))
    assert not files_in(tmp_path)
