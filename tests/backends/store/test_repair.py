"""Whatever happens to the files of an index: it is told, and what can be saved is saved."""

import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import lance
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import wye.backends.store.index
import wye.backends.store.schema
from tests.backends.store.conftest import ANALYSER, new_index
from wye.backends import errors
from wye.backends.inventory import take_inventory
from wye.backends.store.corpus import read_corpus
from wye.backends.store.documents import Removal, list_documents, remove
from wye.backends.store.index import PassageStore
from wye.backends.store.ingest import ingest
from wye.backends.store.repair import Repair, repair
from wye.backends.store.schema import LENGTH_COLUMN
from wye.backends.store.versions import PASSAGES, RECORD, manifest_name, read_record
from wye.backends.types import Passage


def store(folder: Path, *ids: str, text: str = "Anna met Bob.") -> int:
    index = PassageStore.open(folder)
    passages = [Passage(id_, "", f"{text} In {id_}.") for id_ in ids]
    return ingest(index, passages, ANALYSER, entity_vectors=True).version


def stored(folder: Path) -> dict[str, str]:
    found = list_documents(folder).documents
    return {document.id: document.passages[0].text for document in found}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "index"
    new_index(folder)
    store(folder, "a", "b", "c")
    store(folder, "d", "e")
    store(folder, "a", text="Anna left Bob.")
    remove(folder, Removal(documents=("b",)))
    return folder


@pytest.fixture
def index(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "index")


def newest_manifest(folder: Path) -> Path:
    return folder / PASSAGES / manifest_name(read_record(folder).version)


def newest_data(folder: Path) -> Path:
    return max((folder / PASSAGES / "data").iterdir(), key=lambda path: path.stat().st_mtime_ns)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def test_an_index_that_is_sound_needs_no_repair(index: Path) -> None:
    before = {path: path.read_bytes() for path in index.rglob("*") if path.is_file()}
    for dry_run in (True, False):
        found = repair(index, dry_run=dry_run)
        assert (found.damage, found.lost, found.aside, found.is_all) == ((), (), (), True)
    assert {p: p.read_bytes() for p in index.rglob("*") if p.is_file()} == before
    PassageStore.open(index).check_content()


@pytest.mark.parametrize("damage", [Path.unlink, cut, flip], ids=["gone", "cut", "flipped"])
@pytest.mark.parametrize("has_record", [True, False])
def test_a_newest_manifest_that_is_not_whole_is_no_silent_step_back(
    index: Path, damage: Callable[[Path], None], has_record: bool
) -> None:
    newest = read_record(index).version
    damage(newest_manifest(index))
    if not has_record:  # by an earlier Wye
        if damage is flip:
            pytest.skip("nobody knows what it was")
        (index / PASSAGES / RECORD).unlink()
    store_ = PassageStore.open(index)
    assert store_.version == newest - 1
    assert f"version {newest - 1} is used instead of {newest}" in store_.fault
    assert "wye repair" in store_.fault
    assert take_inventory(index)["fault"] == store_.fault
    with pytest.raises(errors.IndexDamagedError, match="wye repair"):
        store(index, "x")
    with pytest.raises(errors.IndexDamagedError):
        PassageStore.open(index).check_content()
    would = repair(index, dry_run=True)
    assert PassageStore.open(index).fault == store_.fault
    done = repair(index, dry_run=False)
    assert (done.version, done.lost, done.is_all) == (newest - 1, (), False)
    assert (would.damage, would.version) == (done.damage, done.version)
    mended = PassageStore.open(index)
    assert (mended.fault, mended.version > newest) == ("", True)
    assert "b" in stored(index)
    assert store(index, "x") == mended.version + 1
    assert repair(index, dry_run=True).damage == ()


@pytest.mark.parametrize("damage", [Path.unlink, cut, flip], ids=["gone", "cut", "flipped"])
def test_a_damaged_file_costs_what_it_held(index: Path, damage: Callable[[Path], None]) -> None:
    """The newest version is without "b" and has "a" anew, in the file that is damaged."""
    damage(newest_data(index))
    if damage is not flip:
        assert PassageStore.open(index).fault
    with pytest.raises(errors.IndexDamagedError, match="data/"):
        PassageStore.open(index).check_content()
    done = repair(index, dry_run=False)
    aside = {path.name for path in done.folder.rglob("*") if path.is_file()}
    assert {Path(name).name for name in done.aside} == aside
    now = stored(index)
    assert set(now) >= {"c", "d", "e"}
    assert now.get("a", "").startswith("Anna met") or "a" in done.lost or not done.is_all
    assert repair(index, dry_run=True).damage == ()
    store(index, "b", "f")
    assert len(read_corpus(PassageStore.open(index)).ids) == len(stored(index))


def test_what_is_whole_of_a_version_is_kept_where_the_last_whole_one_is_empty(index: Path) -> None:
    with PassageStore.open(index).writer() as writer:
        first = min(writer.dataset.get_fragments(), key=lambda each: int(each.fragment_id))
    [file] = first.metadata.files
    flip(index / PASSAGES / "data" / file.path)
    done = repair(index, dry_run=False)
    assert stored(index).keys() == {"a", "d", "e"}
    assert done.lost == ("c",)
    assert done.without == (first.fragment_id,)


def chunks(document: str, count: int, changed: int | None = None) -> list[Passage]:
    return [
        Passage(f"{document}#000{n}", "", f"Bob{n} met {n == changed}.", {}, document, n)
        for n in range(count)
    ]


def lose_last_write(folder: Path) -> None:
    """Damage the newest data file, and leave no version that does without it."""
    cut(newest_data(folder))
    for name in (folder / PASSAGES / "_versions").glob("*.manifest"):
        if name != newest_manifest(folder):
            name.unlink()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (chunks("a", 4), chunks("a", 4, changed=0)),
        (chunks("a", 4), chunks("a", 4, changed=1)),
        (chunks("a", 4), chunks("a", 4, changed=3)),
        (chunks("a", 4), chunks("a", 3, changed=2)),
        (chunks("a", 2), chunks("a", 4)),
    ],
    ids=["first", "middle", "last", "shorter", "longer"],
)
def test_documents_of_which_a_part_is_lost_are_not_kept_in_parts(
    tmp_path: Path, before: list[Passage], after: list[Passage]
) -> None:
    """What is damaged is the file with the chunks that changed."""
    folder = tmp_path / "index"
    others = [Passage("b", "", "B."), *chunks("c", 3)]
    ingest(new_index(folder), [*others, *before], ANALYSER, batch_passages=2)
    ingest(new_index(folder), [*others, *after], ANALYSER, batch_passages=2)
    lose_last_write(folder)
    would = repair(folder, dry_run=True)
    done = repair(folder, dry_run=False)
    assert ({*stored(folder)}, done.passages, done.is_all) == ({"b", "c"}, 4, False)
    assert done.lost == would.lost == ("a",)
    assert repair(folder, dry_run=True).damage == ()
    ingest(PassageStore.open(folder), [*others, *after], ANALYSER)
    assert len(list_documents(folder).documents) == 3


def test_an_index_without_numbers_of_chunks_is_written_and_repaired_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as commits before this column made: a gap tells that a document is not whole."""
    folder = tmp_path / "index"
    with monkeypatch.context() as patch:
        full = wye.backends.store.schema.passage_schema(ANALYSER.dimension, ANALYSER.fingerprint)
        former = full.remove(full.get_field_index(LENGTH_COLUMN))
        patch.setattr(wye.backends.store.index, "passage_schema", lambda *_: former)
        new_index(folder)
    others = [Passage("b", "", "B.")]
    ingest(new_index(folder), [*others, *chunks("a", 4)], ANALYSER)
    assert LENGTH_COLUMN not in PassageStore.open(folder).snapshot().schema.names
    report = ingest(new_index(folder), [*others, *chunks("a", 4, changed=1)], ANALYSER)
    assert (report.updated, report.unchanged) == (1, 4)
    lose_last_write(folder)
    assert repair(folder, dry_run=False).lost == ("a",)
    assert stored(folder).keys() == {"b"}


def test_a_commit_that_a_power_cut_tore_is_passed_over_and_cleared_away(index: Path) -> None:
    """Nobody was told of it: it is neither written down, nor a fault."""
    newest = read_record(index).version
    torn = index / PASSAGES / manifest_name(newest + 1)
    torn.write_bytes(newest_manifest(index).read_bytes()[:100])
    before = stored(index)
    opened = PassageStore.open(index)
    assert (opened.version, opened.fault, opened.is_newest) == (newest, "", True)
    assert store(index, "x") == newest + 1
    assert stored(index).keys() == {*before, "x"}
    assert [path.name for path in (index / "damaged").rglob("*.manifest")] == [torn.name]


def test_an_index_without_any_version_left_is_not_made_anew(index: Path) -> None:
    for path in (index / PASSAGES / "_versions").glob("*.manifest"):
        path.unlink()
    for attempt in (PassageStore.open, new_index, take_inventory):
        with pytest.raises(errors.IndexDamagedError, match="is missing, and none is whole"):
            attempt(index)
    with pytest.raises(errors.IndexDamagedError, match=r"Nothing in .* can be recovered"):
        repair(index, dry_run=True)


def test_a_reader_keeps_what_it_has_and_follows_a_repair(index: Path) -> None:
    reader = PassageStore.open(index)
    before = reader.version
    newest_manifest(index).unlink()
    assert not reader.is_newest
    assert reader.version == before
    repair(index, dry_run=False)
    assert reader.newest().version > before


def test_the_files_of_the_version_in_view_are_checked(index: Path) -> None:
    reader = PassageStore.open(index)
    reader.check_files()
    store(index, "x")
    newest_data(index).unlink()
    reader.check_files()
    store_ = PassageStore.open(index)
    assert "is missing" in store_.fault
    repair(index, dry_run=False)
    store(index, "y")
    reader = reader.newest()
    reader.check_files()
    newest_data(index).unlink()
    with pytest.raises(errors.IndexDamagedError, match=r"data/.* is missing"):
        reader.check_files()


def test_a_repair_waits_for_nobody_and_needs_an_index(index: Path, tmp_path: Path) -> None:
    with PassageStore.open(index).writer(), pytest.raises(errors.IndexLockedError):
        repair(index, dry_run=True)
    for nothing in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(errors.IndexNotFoundError):
            repair(nothing, dry_run=True)


def test_a_schema_that_lance_cannot_read_is_a_damaged_manifest(index: Path) -> None:
    """Lance opens such a version, and panics once it is asked for the schema."""
    versions = (index / PASSAGES / "_versions").glob("*.manifest")
    kept = max(versions, key=lambda path: path.stat().st_mtime_ns)
    content = kept.read_bytes()
    assert b"fixed_size_list:halffloat" in content
    kept.write_bytes(content.replace(b"fixed_size_list:halffloat", b"fixed_size_list\x1ahalffloat"))
    (index / PASSAGES / RECORD).unlink()  # whose digest of the manifest would tell
    assert PassageStore.open(index).fault
    assert repair(index, dry_run=False).damage
    store(index, "x")


damages = st.lists(
    st.tuples(
        st.integers(0, 1 << 20),
        st.sampled_from(["delete", "truncate", "flip", "zero", "garbage"]),
        st.floats(0, 1, exclude_max=True),
    ),
    min_size=1,
    max_size=3,
)


def hurt(folder: Path, damage: tuple[int, str, float]) -> None:
    which, how, where = damage
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    path = files[which % len(files)]
    content = bytearray(path.read_bytes())
    place = int(where * len(content))
    match how:
        case "delete":
            path.unlink()
            return
        case "truncate":
            content = content[:place]
        case "flip" if content:
            content[place] ^= 1 << (which % 8)
        case "zero":
            content[place : place + 64] = bytes(len(content[place : place + 64]))
        case "garbage":
            content = bytearray(b"\xff" * 40)
    path.write_bytes(content)


# The same damage in every run: some of it makes Lance abort the process that reads unchecked files.
@settings(max_examples=60, derandomize=True, suppress_health_check=list(HealthCheck))
@given(damages)
def test_whatever_is_damaged_is_told_in_a_sentence_and_never_served_for_whole(
    made: Path, tmp_path_factory: pytest.TempPathFactory, damage: list[tuple[int, str, float]]
) -> None:
    folder = shutil.copytree(made, tmp_path_factory.mktemp("hurt") / "index")
    whole = stored(made)
    for each in damage:
        hurt(folder, each)
    # Without the record of commits, a file that is gone or another may never have been there.
    is_recorded = (folder / PASSAGES / RECORD).exists()

    def attempt(work: Callable[[], object]) -> object:
        with suppress(errors.BackendError):
            return work()
        return None

    def content() -> dict[str, str] | None:
        opened = PassageStore.open(folder)
        opened.check_content()
        read_corpus(opened).surface_vectors(["Anna"])
        return stored(folder)

    assert attempt(content) in (None, whole) or not is_recorded
    attempt(lambda: take_inventory(folder))
    attempt(lambda: store(folder, "x"))
    found = attempt(lambda: repair(folder, dry_run=False))
    if isinstance(found, Repair):
        PassageStore.open(folder).check_content()
        store(folder, "y")
        now = stored(folder)
        assert len(read_corpus(PassageStore.open(folder)).ids) == len(now)
        if is_recorded and (not found.damage or (found.is_all and not found.lost)):
            assert {id_: now.get(id_) for id_ in whole} == whole
        assert repair(folder, dry_run=True).damage == ()


def test_the_record_says_what_lies_on_the_disk(index: Path) -> None:
    stated = json.loads((index / PASSAGES / RECORD).read_bytes())
    assert stated["version"] == lance.dataset(index / PASSAGES).version
    with PassageStore.open(index).writer() as writer:
        writer.compact()
    there = {
        path.relative_to(index / PASSAGES).as_posix()
        for name in ("data", "_deletions", "_versions")
        for path in (index / PASSAGES / name).glob("*")
        if path.suffix != ".json"
    }
    assert read_record(index).digests.keys() <= there


def test_changed_bytes_are_found_by_whoever_reads_all(index: Path) -> None:
    data = next((index / PASSAGES / "data").iterdir())
    content = data.read_bytes()
    data.write_bytes(content[:-200] + bytes([content[-200] ^ 1]) + content[-199:])
    with pytest.raises(errors.IndexDamagedError, match="has changed since it was committed"):
        read_corpus(PassageStore.open(index))
