"""Against a stand-in for the checkout, with the two calls and the attributes that are used."""

import json
import sys
from pathlib import Path

import pytest

from benchmarks import rival_linearrag

ENCODER = """
class SentenceTransformer:
    def __init__(self, folder, device):
        assert device == "cpu"

    def encode(self, texts):
        return [[1.0]] * len(texts)
"""
CONFIG = """
from dataclasses import dataclass

@dataclass
class LinearRAGConfig:
    dataset_name: str
    embedding_model: object
    spacy_model: str
    working_dir: str
    damping: float = 0.5
"""
REFERENCE = """
import os

class Parser:
    def batch_ner(self, passages):
        return len(passages)

class LinearRAG:
    def __init__(self, global_config):
        self.config = global_config
        self.spacy_ner = Parser()

    def index(self, passages):
        assert os.environ["OMP_NUM_THREADS"] == "1"
        self.passages = passages
        self.spacy_ner.batch_ner(passages)
        self.config.embedding_model.encode(passages)

    def retrieve(self, questions):
        answers = []
        for question in questions:
            assert question["answer"] == ""
            shared = [p for p in self.passages if question["question"] in p]
            answers.append({"sorted_passage": shared[:5]})
        return answers
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    (folder / "src").mkdir(parents=True)
    (folder / "sentence_transformers.py").write_text(ENCODER)
    (folder / "src/config.py").write_text(CONFIG)
    (folder / "src/LinearRAG.py").write_text(REFERENCE)
    return folder


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    folder = tmp_path / "rivers"
    (folder / "qrels").mkdir(parents=True)
    rows = [{"_id": f"p{i}", "title": f"River {i}.", "text": "Long."} for i in range(20)]
    (folder / "corpus.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    asked = [{"_id": f"q{i}", "text": f"River {i}."} for i in range(4)]
    (folder / "queries.jsonl").write_text("\n".join(json.dumps(row) for row in asked))
    (folder / "qrels/dev.tsv").write_text("q0\tp0\t1\nq1\tp1\t1\nq1\tp2\t1\n")
    (folder / "qrels/test.tsv").write_text("q2\tp2\t1\nq3\tp3\t1\n")
    return folder


@pytest.mark.parametrize("more", [[], ["--shuffle", "3"]])
def test_found_places_become_ids_whatever_the_order(
    checkout: Path,
    dataset: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    more: list[str],
) -> None:
    output = tmp_path / "rival.json"
    options = ["--checkout", checkout, "--python", sys.executable, "--encoder", tmp_path]
    rival_linearrag.main([str(dataset), *map(str, options), "--output", str(output), *more])
    result = json.loads(output.read_text())
    assert result["run"] == {"q0": ["p0"], "q1": ["p1"], "q2": ["p2"], "q3": ["p3"]}
    assert result["measures"]["dev"] == {
        "questions": 2,
        "R@5": 0.75,
        "all-evidence@5": 0.5,
        "Success@1": 1.0,
    }
    assert result["measures"]["all"]["questions"] == 4
    assert result["settings"] == {"damping": 0.5}
    assert result["passages"] == 20
    assert len(result["question_seconds"]) == 4
    for clock in ("seconds", "cpu_seconds"):
        stages = result[clock]
        assert stages["total"] >= stages["parsing"] + stages["encoding"] >= 0
    assert "per 1,000 passages" in capfd.readouterr().out


def test_a_reference_that_fails_is_reported(checkout: Path, dataset: Path, tmp_path: Path) -> None:
    (checkout / "src/LinearRAG.py").write_text("raise SystemExit(3)")
    options = ["--checkout", checkout, "--python", sys.executable, "--encoder", tmp_path]
    with pytest.raises(SystemExit, match="exit code 3"):
        rival_linearrag.main([str(dataset), *map(str, options)])
