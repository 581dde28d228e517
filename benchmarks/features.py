"""How long a question takes from text to features, stage by stage, on one thread.

`python -m benchmarks features [--questions FILE] [--dtype bfloat16]`. Questions are those of
this repository, or one a line of FILE. "CPU p50" is processor time: where it is far below the p50
of the wall time, something else was using the machine. A gate is what a figure must not exceed.
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import report
from featurizer.analyser import Analyser, AnalyserSettings
from featurizer.constituency.parser import TreeParser, locate, open_tree_parser
from featurizer.encoder import DTYPES, Encoder, EncoderSettings
from featurizer.errors import FeaturizerError
from featurizer.registry import FEATURE_NAMES, feature_matrix, schema_id, syntax_matrix
from featurizer.spacy_parser import SpacyParser
from router.settings import load_settings
from training.errors import TrainingError
from training.feature_reference import own_questions

BATCH = 32
ALL = "all of it"
# Milliseconds a question, from the design: at the median, at p99, and in batches.
GATES: dict[str, tuple[float, float, float]] = {
    "tree": (3, np.nan, np.nan),
    "features": (1, np.nan, 1),
    ALL: (18, 40, 5),
}
LOAD_SECONDS, MEGABYTES = 1.0, 20.0

Stages = dict[str, Callable[[Sequence[str]], object]]


def main(argv: Sequence[str] | None = None) -> int:
    """Print the tables.

    Returns:
        0, or 2 for a model or a file that is not there. A gate that is missed is only marked.
    """
    options = report.parser(__doc__)
    options.add_argument("--questions", type=Path, help="one a line; default: this repository's")
    options.add_argument("--rounds", type=int, default=3, help="times each is asked (default 3)")
    options.add_argument("--dtype", choices=DTYPES, default="auto", help="of the encoder")
    given = options.parse_args(argv)
    try:
        questions = _questions(given.questions)
        with threadpool_limits(1):
            _print(questions, given.rounds, given.dtype)
    except (FeaturizerError, TrainingError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _questions(file: Path | None) -> list[str]:
    if file is None:
        return [text for part in own_questions().values() for text in part]
    found = [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
    if not any(found):
        raise TrainingError(f"There is no question in {file}; write one a line.")
    return [line for line in found if line]


def _print(questions: Sequence[str], rounds: int, dtype: str) -> None:
    settings = load_settings().analyser
    analyser, loading = load(settings, dtype)
    tokens = np.mean([len(s.tokens) for s in analyser.syntax.parse(questions)])
    report.print_header(
        "Text to features, one thread",
        seed=None,
        data=f"{len(questions)} questions, {tokens:.1f} tokens each, {rounds} rounds, "
        f"{len(FEATURE_NAMES)} features, schema {schema_id(analyser.syntax_fingerprint)}, "
        f"encoder {analyser.encoder.dtype}",
    )
    stages = stages_of(analyser, questions)
    for batch in (1, BATCH):
        title = "ms a question, alone" if batch == 1 else f"ms a question, {batch} together"
        table = report.Table([title, "p50", "p95", "p99", "CPU p50", "gate"], width=30)
        for name, call in stages.items():
            p50, p95, p99, cpu = time_stage(call, questions, batch, rounds)
            table.row(name, p50, p95, p99, cpu, verdict(name, p50, p99, batch))
        print()
    table = report.Table(["loading", "seconds", "MB", "gate"], width=30)
    for name, seconds in loading.items():
        size = np.nan
        gate = "-"
        if name == "constituency model":
            size = sum(file.stat().st_size for file in locate(settings.constituency)) / 1e6
            gate = _mark(seconds, LOAD_SECONDS, "s ") + _mark(size, MEGABYTES, ", MB ")
        table.row(name, seconds, size, gate)


def load(settings: AnalyserSettings, dtype: str) -> tuple[Analyser, dict[str, float]]:
    """An analyser that runs on one thread, and the seconds that each of its models took.

    PyTorch and spaCy are imported before; their imports are no model's time.

    Raises:
        ModelError: One is missing or damaged.
    """
    import spacy  # noqa: F401, PLC0415
    import torch  # noqa: F401, PLC0415

    seconds: dict[str, float] = {}
    encoder_settings = EncoderSettings(
        model=settings.encoder.model,
        dtype=dtype,
        threads=1,
        question_prefix=settings.encoder.question_prefix,
    )
    start = perf_counter()
    trees: TreeParser = open_tree_parser(*locate(settings.constituency))
    seconds["constituency model"] = perf_counter() - start
    start = perf_counter()
    parser = SpacyParser(settings.pipeline)
    seconds["spaCy pipeline"] = perf_counter() - start
    start = perf_counter()
    encoder = Encoder(encoder_settings)
    seconds["encoder"] = perf_counter() - start
    return Analyser(settings, parser=parser, encoder=encoder, trees=trees), seconds


def stages_of(analyser: Analyser, questions: Sequence[str]) -> Stages:
    """Stage -> what is done with a batch of questions, given what comes before it."""
    parses = analyser.parser.parse_questions(questions, tokens=True)
    parsed = dict(zip(questions, parses, strict=True))
    built = dict(zip(questions, analyser.syntax.build(parses), strict=True))
    return {
        "spaCy": lambda texts: analyser.parser.parse_questions(texts, tokens=True),
        "tree": lambda texts: analyser.syntax.build([parsed[text] for text in texts]),
        "encoder": analyser.encoder.encode,
        "features": lambda texts: syntax_matrix([built[text] for text in texts]),
        ALL: lambda texts: feature_matrix(analyser.questions(texts, syntax=True)),
    }


def time_stage(
    call: Callable[[Sequence[str]], object], questions: Sequence[str], batch: int, rounds: int
) -> tuple[float, float, float, float]:
    """p50, p95, p99 of the wall time and p50 of the processor time, milliseconds a question.

    Whole batches only, unless there are too few questions for one.
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
    return (*report.percentiles(seconds), report.percentiles(cpu_seconds)[0])


def verdict(name: str, p50: float, p99: float, batch: int) -> str:
    """The gates of a stage, each marked as held or missed; "-" where there is none."""
    if name not in GATES:
        return "-"
    median, tail, together = GATES[name]
    if batch > 1:
        return _mark(p50, together) or "-"
    return _mark(p50, median, "p50 ") + _mark(p99, tail, ", p99 ")


def _mark(value: float, gate: float, name: str = "") -> str:
    if np.isnan(gate):
        return ""
    return f"{name}<={gate:g} {'ok' if value <= gate else 'MISSED'}"


if __name__ == "__main__":
    sys.exit(main())
