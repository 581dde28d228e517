"""Against a stand-in for the checkout, with the two calls and the attributes that are used."""

import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from tests.training.made import write_dataset

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
    return write_dataset(
        tmp_path / "rivers",
        [(f"p{i}", f"River {i}.", "Long.") for i in range(20)],
        [(f"q{i}", f"River {i}.") for i in range(4)],
        {"dev": ["q0\tp0\t1", "q1\tp1\t1", "q1\tp2\t1"], "test": ["q2\tp2\t1", "q3\tp3\t1"]},
    )


@pytest.mark.parametrize("more", [[], ["--shuffle", "--seed", "3"], ["--no-neighbours"]])
def test_found_places_become_ids_whatever_the_order(
    checkout: Path, dataset: Path, capfd: pytest.CaptureFixture[str], more: list[str]
) -> None:
    options = ["--checkout", checkout, "--python", sys.executable, "--encoder", dataset]
    assert main(["linearrag", str(dataset), *map(str, options), *more]) == 0
    rows = [line.split() for line in capfd.readouterr().out.splitlines()]
    assert ["dev", "2", "0.750", "0.500", "1.000"] in rows
    assert ["all", "4", "0.875", "0.750", "1.000"] in rows
    cells = next(row for row in rows if row[:2] == ["whole", "corpus"])[2:]
    parsing, encoding, other, total = map(float, cells)
    assert total == pytest.approx(parsing + encoding + other, abs=0.002)
    assert min(parsing, encoding) >= 0


def test_a_reference_that_fails_is_reported(
    checkout: Path, dataset: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (checkout / "src/LinearRAG.py").write_text("raise SystemExit(3)")
    options = ["--checkout", checkout, "--python", sys.executable, "--encoder", dataset]
    assert main(["linearrag", str(dataset), *map(str, options)]) == 2
    assert "The reference ended with 3" in capfd.readouterr().err
