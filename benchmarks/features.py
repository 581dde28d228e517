"""Times a question from text to features, stage by stage, on one thread.

Questions are those of this repository, or of a file with one a line. "CPU p50" is processor time:
if it is far below the p50 of wall time, something else used the machine. `python -m
training.constituency` measures the quality of the trees.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import harness
from benchmarks.harness import Table
from featurizer.analyser import Analyser, AnalyserSettings
from featurizer.constituency.parser import locate, open_tree_parser
from featurizer.encoder import DTYPES, Encoder
from featurizer.registry import FEATURE_NAMES, schema_id, syntax_matrix
from featurizer.spacy_parser import SpacyParser
from router.settings import load_settings
from training.feature_reference import own_questions

BATCH = 32

Stages = dict[str, Callable[[Sequence[str]], object]]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add options for questions, rounds and the encoder's type."""
    parser.add_argument("--questions", type=Path, help="one per line; default: this repository's")
    parser.add_argument("--rounds", type=int, default=3, help="rounds (default 3)")
    parser.add_argument("--dtype", choices=DTYPES, default="auto", help="the encoder's type")


def run(given: argparse.Namespace) -> None:
    """Print the tables."""
    if given.questions:
        questions = harness.read_questions(given.questions)
    else:
        questions = [text for part in own_questions().values() for text in part]
    with threadpool_limits(1):
        print_times(questions, given.rounds, given.dtype)


def print_times(questions: Sequence[str], rounds: int, dtype: str) -> None:
    """Print milliseconds by stage, alone and in batches, and the models' seconds and megabytes."""
    settings = load_settings().analyser
    analyser, loading = load(settings, dtype)
    tokens = np.mean([len(s.tokens) for s in analyser.syntax.parse(questions)])
    harness.print_header(
        "Text to features, one thread",
        seed=None,
        data=f"{len(questions)} questions, {tokens:.1f} tokens each, {rounds} rounds, "
        f"{len(FEATURE_NAMES)} features, schema {schema_id(analyser.syntax_fingerprint)}, "
        f"encoder {analyser.encoder.dtype}",
    )
    stages = stages_of(analyser, questions)
    for batch in (1, BATCH):
        title = "ms a question, alone" if batch == 1 else f"ms a question, {batch} together"
        table = Table([title, "p50", "p95", "p99", "CPU p50"], width=30)
        for name, call in stages.items():
            table.row(name, *time_stage(call, questions, batch, rounds))
        print()
    table = Table(["loading", "seconds", "MB"], width=30)
    for name, seconds in loading.items():
        files = locate(settings.constituency) if name == "constituency model" else ()
        size = sum(file.stat().st_size for file in files) / 1e6
        table.row(name, seconds, size or np.nan)


def load(settings: AnalyserSettings, dtype: str) -> tuple[Analyser, dict[str, float]]:
    """An analyser that runs on one thread, and the seconds to load each model.

    spaCy is imported before, so that its import is not counted.

    Raises:
        ModelError: A model is missing or damaged.
    """
    import spacy  # noqa: F401, PLC0415

    seconds: dict[str, float] = {}
    start = perf_counter()
    trees = open_tree_parser(*locate(settings.constituency))
    seconds["constituency model"] = perf_counter() - start
    start = perf_counter()
    parser = SpacyParser(settings.pipeline)
    seconds["spaCy pipeline"] = perf_counter() - start
    start = perf_counter()
    encoder = Encoder(replace(settings.encoder, dtype=dtype, threads=1))
    seconds["encoder"] = perf_counter() - start
    return Analyser(settings, parser=parser, encoder=encoder, trees=trees), seconds


def stages_of(analyser: Analyser, questions: Sequence[str]) -> Stages:
    """Stage -> its work on a batch of questions; results of earlier stages are given."""
    parses = analyser.parser.parse_questions(questions, tokens=True)
    parsed = dict(zip(questions, parses, strict=True))
    built = dict(zip(questions, analyser.syntax.build(parses), strict=True))
    return {
        "spaCy": lambda texts: analyser.parser.parse_questions(texts, tokens=True),
        "tree": lambda texts: analyser.syntax.build([parsed[text] for text in texts]),
        "encoder": analyser.encoder.encode,
        "features": lambda texts: syntax_matrix([built[text] for text in texts]),
        "all of it": lambda texts: _all(analyser, texts),
    }


def _all(analyser: Analyser, texts: Sequence[str]) -> object:
    encoded = analyser.beside(lambda: analyser.encode_questions(texts))
    matrix = syntax_matrix(analyser.syntax_of(analyser.parse_questions(texts, tokens=True)))
    return encoded.result(), matrix


def time_stage(
    call: Callable[[Sequence[str]], object], questions: Sequence[str], batch: int, rounds: int
) -> tuple[float, float, float, float]:
    """p50, p95 and p99 of wall time and p50 of processor time, in milliseconds a question.

    Only whole batches count, unless there are too few questions for one.
    """
    last = max(len(questions) - batch, 0)
    groups = [questions[start : start + batch] for start in range(0, last + 1, batch)]
    for group in groups:
        call(group)
    seconds: list[float] = []
    cpu_seconds: list[float] = []
    for _ in range(rounds):
        for group in groups:
            start, cpu_start = perf_counter(), process_time()
            call(group)
            cpu_seconds.append((process_time() - cpu_start) / len(group))
            seconds.append((perf_counter() - start) / len(group))
    return (*harness.percentiles(seconds), harness.percentiles(cpu_seconds)[0])
