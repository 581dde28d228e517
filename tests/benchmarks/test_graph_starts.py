"""The benchmarks of the graph arm start, on a corpus of a few passages and without models."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from backends.documents import read_passages
from backends.store.index import Index
from backends.store.ingest import ingest
from backends.trigraph.retriever import TriGraphSettings
from backends.types import Mention, Query
from benchmarks import ablation, scale, synthetic, trigraph
from benchmarks.hashing import HashAnalyser

RIVERS = ["Danube", "Rhine", "Elbe", "Oder", "Weser", "Main"]


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    folder = tmp_path / "rivers"
    (folder / "qrels").mkdir(parents=True)
    rows = [
        {"_id": name, "title": name, "text": f"The {name} is a river. It meets the {other} there."}
        for name, other in zip(RIVERS, RIVERS[1:] + RIVERS[:1], strict=True)
    ]
    (folder / "corpus.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    asked = [{"_id": f"q{n}", "text": f"Where is the {name}?"} for n, name in enumerate(RIVERS[:3])]
    (folder / "queries.jsonl").write_text("\n".join(json.dumps(row) for row in asked))
    judged = "".join(f"q{n}\t{name}\t1\n" for n, name in enumerate(RIVERS[:3]))
    (folder / "qrels/dev.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}")
    return folder


@pytest.fixture
def index(dataset: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "index"
    analyser = HashAnalyser()
    made = Index.create(folder, analyser.dimension, analyser.fingerprint)
    ingest(made, read_passages(dataset), analyser)
    return folder


def analyse(index: Path, texts: Sequence[str]) -> list[Query]:
    assert Index.open(index).count() == len(RIVERS)
    vectors = HashAnalyser().encode_surfaces(texts)
    names = [text.split()[-1].rstrip("?") for text in texts]
    return [
        Query(text, vector, (Mention(name, "entity", vector),))
        for text, vector, name in zip(texts, vectors, names, strict=True)
    ]


def test_latency(dataset: Path, index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trigraph.main([str(dataset), "--index", str(index), "--calls", "4"], analyse)
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line]
    assert [row[0] for row in rows if row[0].isdigit()] == ["1", "8", "32", "128"]
    assert all(float(row[2]) > 0 for row in rows if row[0].isdigit())
    assert [row[0] for row in rows if row[0] in ("walk", "all")] == ["walk", "all"]


def test_ablation(dataset: Path, index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ablation.main([str(dataset), "--index", str(index), "--resamples", "20"], analyse)
    printed = capsys.readouterr().out.splitlines()
    assert any(line.startswith("published: not measured. This index holds no") for line in printed)
    default = next(line for line in printed if line.startswith("default"))
    last = next(line for line in printed if line.startswith("+ noun phrases = default"))
    assert default.split()[1:13] == last.split()[-15:-3]
    assert default.split()[1] == "1.000"


def test_ablation_ends_at_the_defaults() -> None:
    *_, last = ablation.added()
    assert last.settings == TriGraphSettings()
    for variants in (ablation.without(), ablation.added()):
        settings = [variant.settings for variant in variants]
        assert len(set(settings)) == len(settings)


def test_scale(dataset: Path, index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpora = ["--corpus", str(dataset), str(index)] * 2
    made_up = ["--synthetic", "200", "--dimension", "8"]
    scale.main([*corpora, "--samples", "4", "9", *made_up], analyse)
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    sizes = [row[2] for row in rows if row[:2] == ["rivers,", "sample"]]
    sizes += [row[1] for row in rows if row[:1] == ["rivers"]]
    sizes += [row[3] for row in rows if row[:3] == ["all", "of", "these"]]
    assert sizes == ["4", "6", "6", "12"]
    assert rows[-1][0] == "200"


def test_made_up_entities_follow_the_power_law() -> None:
    drawn = synthetic.power_law(200_000, 1000, np.random.default_rng(0))
    counts = np.bincount(drawn, minlength=1000)
    assert counts.sum() == 200_000
    ratio = counts[0] / counts[15:17].mean()
    assert ratio == pytest.approx(16.5**synthetic.EXPONENT, rel=0.25)
