import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from wye.backends.types import Float64
from wye.router.errors import ModelFileError
from wye.router.model_files import (
    TrainedRouter,
    load_router,
    read_policy,
    read_title,
    save_policy,
    save_router,
    versions,
)
from wye.router.policy import Policy, RoutingModel
from wye.router.scorer import Scorer
from wye.router.types import Route, Thresholds

NAMES = tuple(f"f{column}" for column in range(10))
SAVED_POLICY = Policy(Thresholds(1 / 3, 2 / 3), Route.LEXICAL)


@pytest.fixture
def draft(scorer: Scorer) -> TrainedRouter:
    return TrainedRouter(
        scorer, SAVED_POLICY, "5c4e", "# A card\n", {"questions": 12}, {"why": "a test"}
    )


@pytest.fixture
def folder(draft: TrainedRouter, tmp_path: Path) -> Path:
    return save_router(tmp_path, "tiny", draft)


def read(folder: Path) -> RoutingModel:
    return load_router(folder, schema_id="5c4e", names=NAMES)


def test_other_features_are_refused(folder: Path) -> None:
    with pytest.raises(ModelFileError, match=r"'tiny/v1'.*5c4e.*41aa.*wye train"):
        load_router(folder, schema_id="41aa", names=NAMES)


FILES = ["CARD.md", "manifest.json", "thresholds.json", "weights.safetensors"]


@pytest.mark.parametrize("file", FILES)
def test_an_edited_file_is_refused_and_a_missing_one_named(folder: Path, file: str) -> None:
    path = folder / file
    if file != "manifest.json":  # which has a digest of itself
        path.write_bytes(path.read_bytes() + b" ")
        with pytest.raises(ModelFileError, match=rf"{file}.*checksum.*never edited"):
            read(folder)
    path.unlink()
    with pytest.raises(ModelFileError, match=f"{file}.*cannot be read"):
        read(folder)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"temperature": 1.0}, "its digest differs"),
        ({"format": 2}, "has format 2; this build"),
        *((content, r"manifest\.json") for content in (b"", b"\xff", b"[]", b"{")),
    ],
)
def test_another_manifest_or_none_is_refused(
    folder: Path, change: dict[str, float] | bytes, says: str
) -> None:
    path = folder / "manifest.json"
    if isinstance(change, dict):
        change = json.dumps({**json.loads(path.read_bytes()), **change}).encode()
    path.write_bytes(change)
    with pytest.raises(ModelFileError, match=says):
        read(folder)


def test_a_thresholds_file_is_read_by_itself(folder: Path, tmp_path: Path) -> None:
    assert read_policy(folder / "thresholds.json") == SAVED_POLICY
    path = tmp_path / "mine.json"
    path.write_text('{"low": 0.1, "high": 0.5, "simple": "lexical", "latency_ms": {"graph": 9}}')
    assert read_policy(path) == Policy(Thresholds(0.1, 0.5), Route.LEXICAL)


def test_name_and_version_are_read_without_the_other_files(folder: Path) -> None:
    (folder / "weights.safetensors").unlink()
    assert read_title(folder) == "tiny/v1"
    with pytest.raises(ModelFileError, match="cannot be read"):
        read_title(folder / "missing")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"low": 0.9}, "low <= high"),
        ({"low": None}, "not a thresholds file"),
        ({"simple": "graph"}, "not run the graph"),
        ({"simple": "sparse"}, "sparse"),
        ({"steps": "many"}, "many"),
        ({"steps": []}, "not a thresholds file"),
    ],
)
def test_a_thresholds_file_that_makes_no_sense_is_refused(
    tmp_path: Path, change: dict[str, object], said: str
) -> None:
    path = tmp_path / "mine.json"
    save_policy(path, SAVED_POLICY, {})
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**content, **change}), encoding="utf-8")
    with pytest.raises(ModelFileError, match=said):
        read_policy(path)


def test_thresholds_are_for_one_router_or_nobody_said(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    save_policy(path, SAVED_POLICY, {})
    assert read_policy(path, "a/v1") == read_policy(path, "b/v2") == read_policy(path)
    mine = replace(SAVED_POLICY, router="a/v1")
    save_policy(path, mine, {})
    assert read_policy(path, "a/v1") == read_policy(path) == mine
    with pytest.raises(ModelFileError, match=r"'a/v1', not 'b/v2'.*the guide 'Route and tune'"):
        read_policy(path, "b/v2")


def test_what_was_written_is_what_is_read(
    scorer: Scorer, features: Float64, folder: Path, tmp_path: Path
) -> None:
    assert folder == tmp_path / "tiny" / "v1"
    model = read(folder)
    assert (model.name, model.folder, model.policy) == ("tiny/v1", folder, SAVED_POLICY)
    assert (model.scorer.scores(features) == scorer.scores(features)).all()
    for before, after in zip(scorer.members, model.scorer.members, strict=True):
        for name, values in before.tensors.items():
            assert after.tensors[name].dtype == values.dtype
            assert np.array_equal(after.tensors[name], values)
    shuffled = [9, 3, 0, 1, 2, 8, 7, 6, 5, 4]
    other = load_router(folder, schema_id="5c4e", names=[NAMES[place] for place in shuffled])
    assert (other.scorer.scores(features[:, shuffled]) == scorer.scores(features)).all()


def test_files_are_plain_and_the_same_bytes_each_time(draft: TrainedRouter, tmp_path: Path) -> None:
    one, other = (save_router(tmp_path / home, "tiny", draft) for home in "ab")
    assert sorted(path.name for path in one.iterdir()) == FILES
    for file in FILES:
        assert (one / file).read_bytes() == (other / file).read_bytes()
    manifest = json.loads((one / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["features"] == list(draft.scorer.names)
    assert manifest["training"] == {"questions": 12}
    assert json.loads((one / "thresholds.json").read_text())["notes"] == {"why": "a test"}


def test_versions_count_up_and_none_is_overwritten(draft: TrainedRouter, tmp_path: Path) -> None:
    assert versions(tmp_path, "tiny") == []
    assert [save_router(tmp_path, "tiny", draft).name for _ in range(3)] == ["v1", "v2", "v3"]
    (tmp_path / "tiny" / "v3").rename(tmp_path / "tiny" / "v12")
    manifest = tmp_path / "tiny" / "v12" / "manifest.json"
    before = manifest.stat().st_mtime_ns
    assert save_router(tmp_path, "tiny", draft).name == "v13"
    assert versions(tmp_path, "tiny") == [1, 2, 12, 13]
    assert manifest.stat().st_mtime_ns == before
    for name in ("../tiny", ""):
        with pytest.raises(ModelFileError, match="cannot be called"):
            save_router(tmp_path, name, draft)


def test_writers_at_one_time_take_different_versions(draft: TrainedRouter, tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        folders = [*pool.map(lambda _: save_router(tmp_path, "tiny", draft), range(8))]
    assert sorted(int(folder.name[1:]) for folder in folders) == list(range(1, 9))
    for folder in folders:
        read(folder)


def test_a_write_that_fails_leaves_nothing(
    draft: TrainedRouter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        save_router(tmp_path, "tiny", draft)
    assert list((tmp_path / "tiny").iterdir()) == []


def test_a_thresholds_file_is_replaced_whole(tmp_path: Path) -> None:
    path, link = tmp_path / "new" / "mine.json", tmp_path / "link.json"
    newer = replace(SAVED_POLICY, router="a/v1")
    save_policy(path, Policy(Thresholds(0.1, 0.2)), {"why": "a test"})
    link.symlink_to(path)
    with path.open(encoding="utf-8") as reading:
        save_policy(link, newer, {})
        assert '"low": 0.1' in reading.read()
    assert read_policy(path) == newer
    assert link.is_symlink()
    assert [each.name for each in path.parent.iterdir()] == ["mine.json"]
