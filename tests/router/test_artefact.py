import json
from pathlib import Path

import pytest

from router.errors import ModelFileError
from router.model_files import (
    Draft,
    Stated,
    load,
    read_policy,
    read_stated,
    save,
    save_policy,
    title_of,
    to_text,
)
from router.policy import Policy
from router.scorer import Scorer
from router.types import Route, Thresholds

NAMES = tuple(f"f{column}" for column in range(10))


@pytest.fixture
def folder(scorer: Scorer, tmp_path: Path) -> Path:
    draft = Draft(scorer, Policy(Thresholds(0.2, 0.8)), "5c4e", "# A card\n", {}, {})
    return save(tmp_path, "tiny", draft)


def read(folder: Path) -> None:
    load(folder, schema_id="5c4e", names=NAMES)


def test_other_features_are_refused(folder: Path) -> None:
    with pytest.raises(ModelFileError, match=r"'tiny/v1'.*5c4e.*41aa.*wye train"):
        load(folder, schema_id="41aa", names=NAMES)
    with pytest.raises(ModelFileError, match=r"'tiny/v1'.*does not compute f9"):
        load(folder, schema_id="5c4e", names=NAMES[:-1])


@pytest.mark.parametrize("file", ["weights.safetensors", "thresholds.json", "CARD.md"])
def test_an_edited_file_is_refused(folder: Path, file: str) -> None:
    path = folder / file
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(ModelFileError, match=rf"{file}.*checksum.*never edited"):
        read(folder)


def test_an_edited_manifest_is_refused(folder: Path) -> None:
    path = folder / "manifest.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    content["temperature"] = 1.0
    path.write_text(to_text(content), encoding="utf-8")
    with pytest.raises(ModelFileError, match="its digest differs"):
        read(folder)


def test_another_format_is_refused(folder: Path) -> None:
    path = folder / "manifest.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(to_text({**content, "format": 2}), encoding="utf-8")
    with pytest.raises(ModelFileError, match="has format 2; this build reads 1"):
        read(folder)


@pytest.mark.parametrize(
    "file", ["manifest.json", "weights.safetensors", "thresholds.json", "CARD.md"]
)
def test_a_missing_file_is_named(folder: Path, file: str) -> None:
    (folder / file).unlink()
    with pytest.raises(ModelFileError, match=f"{file}.*cannot be read"):
        read(folder)


@pytest.mark.parametrize("content", [b"", b"\xff", b"[]", b"{"])
def test_a_manifest_that_is_none_is_refused(folder: Path, content: bytes) -> None:
    (folder / "manifest.json").write_bytes(content)
    with pytest.raises(ModelFileError, match=r"manifest\.json"):
        read(folder)


def test_a_reviewed_thresholds_file_is_read_by_itself(folder: Path, tmp_path: Path) -> None:
    assert read_policy(folder / "thresholds.json") == Policy(Thresholds(0.2, 0.8))
    path = tmp_path / "mine.json"
    path.write_text(
        '{"low": 0.1, "high": 0.5, "simple": "lexical", "latency_ms": {"graph": 9}}',
        encoding="utf-8",
    )
    assert read_policy(path) == Policy(Thresholds(0.1, 0.5), Route.LEXICAL, {Route.GRAPH: 9.0})


def test_name_and_policy_are_read_without_the_weights(folder: Path) -> None:
    (folder / "weights.safetensors").unlink()
    assert read_stated(folder) == Stated("tiny/v1", Policy(Thresholds(0.2, 0.8)), False)
    (folder / "thresholds.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ModelFileError, match="its checksum differs"):
        read_stated(folder)
    with pytest.raises(ModelFileError, match="cannot be read"):
        read_stated(folder / "missing")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"low": 0.9}, "low <= high"),
        ({"low": None}, "no thresholds file"),
        ({"simple": "graph"}, "no graph"),
        ({"simple": "sparse"}, "sparse"),
        ({"latency_ms": {"graph": "fast"}}, "fast"),
        ({"latency_ms": []}, "no thresholds file"),
    ],
)
def test_a_thresholds_file_that_makes_no_sense_is_refused(
    folder: Path, tmp_path: Path, change: dict[str, object], said: str
) -> None:
    content = json.loads((folder / "thresholds.json").read_text(encoding="utf-8"))
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({**content, **change}), encoding="utf-8")
    with pytest.raises(ModelFileError, match=said):
        read_policy(path)


def test_thresholds_are_for_one_router_or_nobody_said(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    save_policy(path, Policy(Thresholds(0.1, 0.5)), {})
    assert read_policy(path, "a/v1") == read_policy(path, "b/v2") == read_policy(path)
    mine = Policy(Thresholds(0.1, 0.5), router="a/v1")
    save_policy(path, mine, {})
    assert read_policy(path, "a/v1") == read_policy(path) == mine
    with pytest.raises(ModelFileError, match=r"router 'a/v1', but 'b/v2' decides.*wye tune"):
        read_policy(path, "b/v2")


def test_a_title_is_read_without_the_weights(folder: Path, tmp_path: Path) -> None:
    (folder / "weights.safetensors").unlink()
    assert title_of(folder) == "tiny/v1"
    with pytest.raises(ModelFileError, match="cannot be read"):
        title_of(tmp_path / "nowhere")
