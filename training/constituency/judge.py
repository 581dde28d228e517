"""What a finished model is worth: bracket F1 by the parser that serves, time and size."""

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from featurizer.constituency.decoder import Decoder
from featurizer.constituency.stanza_checkpoint import read_checkpoint
from featurizer.constituency.tree import Tree
from training.constituency.brackets import BracketScore, score
from training.constituency.corpus import with_predicted_tags
from training.constituency.tagging import Tagger
from training.constituency.treebank import is_question, read_trees, retag

MODEL, VECTORS = "model.pt", "vectors.pt"


@dataclass(frozen=True, slots=True)
class Judgement:
    """Figures of one model.

    Attributes:
        scores: By name of the set of trees.
        load_seconds: Reading both files and preparing the weights.
        question_ms: Median time of a held-out question of 6 to 14 words.
        megabytes: Of both files, in 10^6 bytes.
        epoch: Whose weights these are.
    """

    scores: dict[str, BracketScore]
    load_seconds: float
    question_ms: float
    megabytes: float
    epoch: int


def judge(model: Path, data: Path, tagger: Tagger) -> Judgement:
    """Measure a model on the treebank's dev and test splits and on held-out questions.

    Args:
        model: Folder with both files.
        data: Folder with `dev.mrg`, `test.mrg` and `questions-eval.mrg`.
        tagger: Gives the tags that the parser sees; the gold tags decide what punctuation is.

    Raises:
        TrainingError: A treebank is missing.
    """
    started = time.perf_counter()
    decoder = Decoder(read_checkpoint(model / MODEL, model / VECTORS))
    load_seconds = time.perf_counter() - started
    test = read_trees(data / "test.mrg")
    questions = read_trees(data / "questions-eval.mrg")
    sets = {
        "dev": read_trees(data / "dev.mrg"),
        "test": test,
        "test, questions": [tree for tree in test if is_question(tree)],
        "held-out questions": questions,
    }
    files = [model / MODEL, model / VECTORS]
    return Judgement(
        {name: bracket_score(decoder, trees, tagger) for name, trees in sets.items()},
        load_seconds,
        question_milliseconds(decoder, questions, tagger),
        sum(file.stat().st_size for file in files) / 1e6,
        torch.load(model / MODEL, map_location="cpu", weights_only=True)["best_epoch"],
    )


def bracket_score(decoder: Decoder, gold: Sequence[Tree], tagger: Tagger) -> BracketScore:
    """Score of the decoder's trees over the tagger's tags."""
    tagged = with_predicted_tags(gold, tagger)
    return score(
        (retag(decoder.parse(seen.tagged_words()), [tag for _, tag in tree.tagged_words()]), tree)
        for seen, tree in zip(tagged, gold, strict=True)
    )


def question_milliseconds(decoder: Decoder, questions: Sequence[Tree], tagger: Tagger) -> float:
    """Median time to parse a question of ordinary length, tags given."""
    ordinary = [tree for tree in questions if 6 <= len(tree.words()) <= 14]
    times = []
    for tree in with_predicted_tags(ordinary, tagger):
        words = tree.tagged_words()
        started = time.perf_counter()
        decoder.parse(words)
        times.append(1000 * (time.perf_counter() - started))
    return statistics.median(times)
