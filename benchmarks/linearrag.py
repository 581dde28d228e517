"""Runs the public reference implementation of LinearRAG on our datasets and models.

It runs a checkout that you provide, in an interpreter with its dependencies (igraph, openai, httpx,
pandas, tqdm, torch, sentence-transformers, spaCy and its pipeline). It is not imported here; only
its `index` and `retrieve` run, with its default configuration.

It gets passages as "title newline text" in the order of the file, and links neighbours in that
order. Public multi-hop corpora have the evidence of one question side by side, so results in file
order say little about another corpus. --shuffle breaks the order, --no-neighbours omits those
links. Times are of the processor: on one thread, what an otherwise idle machine would need.
"""

import argparse
import json
import os
import random
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import harness
from benchmarks.harness import BenchmarkError, Table
from wye.backends.sources import DocumentSource
from wye.featurizer.encoder import DEFAULT_ENCODER, locate_model
from wye.featurizer.spacy.pipeline import DEFAULT_PIPELINE
from wye.training.data import Dataset, read_dataset
from wye.training.measures import ALL_EVIDENCE, MEASURES, Run, score

DRIVER = Path(__file__).with_name("linearrag_driver.py")
SHOWN = ("R@5", ALL_EVIDENCE, "Success@1")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add options for the dataset and the reference."""
    parser.add_argument("dataset", nargs="?", type=Path, default=harness.DEMO, help="BEIR folder")
    parser.add_argument("--checkout", type=Path, required=True, help="checkout of the reference")
    parser.add_argument("--python", required=True, help="interpreter with its dependencies")
    parser.add_argument("--encoder", type=Path, help="folder of the encoder; default: ours")
    parser.add_argument("--pipeline", default=DEFAULT_PIPELINE, help="spaCy package")
    parser.add_argument("--threads", type=int, default=1, help="threads of its matrix products")
    parser.add_argument("--shuffle", action="store_true", help="shuffle the passages, with --seed")
    parser.add_argument("--no-neighbours", action="store_true", help="omit links in file order")
    parser.add_argument("--limit", type=int, help="ask only the first N questions")


def run(args: argparse.Namespace) -> None:
    """Index, ask the questions of every split, and print the tables."""
    splits = sorted(path.stem for path in (args.dataset / "qrels").glob("*.tsv"))
    datasets = [read_dataset(args.dataset, split) for split in splits]
    texts = {question.id: question.text for data in datasets for question in data.questions}
    ids = list(texts)[: args.limit]
    passages = list(DocumentSource(args.dataset).passages())
    if args.shuffle:
        random.Random(args.seed).shuffle(passages)
    harness.print_header(
        "Reference LinearRAG",
        seed=args.seed if args.shuffle else None,
        data=f"{args.dataset.resolve().name}, {len(passages)} passages "
        f"{'shuffled' if args.shuffle else 'in the order of the file'}"
        f"{' without neighbour links' if args.no_neighbours else ''}, {len(ids)} questions",
    )
    result = ask_reference(
        args,
        [f"{passage.title}\n{passage.text}" for passage in passages],
        [texts[id_] for id_ in ids],
    )
    seconds = result["seconds"]
    parsing, encoding, total = (seconds[name] for name in ("parsing", "encoding", "total"))
    cells = [parsing, encoding, total - parsing - encoding, total]
    table = Table(["index, seconds", "parsing", "encoding", "other", "total"])
    table.row("whole corpus", *cells)
    table.row("per 1,000 passages", *(1000 * cell / len(passages) for cell in cells))
    print()
    table = Table(["question", "p50 ms", "p95 ms", "p99 ms"])
    table.row("milliseconds", *harness.percentiles(seconds["questions"]))
    print()
    rankings = zip(ids, result["rankings"], strict=True)
    print_quality(datasets, {id_: [passages[row].id for row in rows] for id_, rows in rankings})


def ask_reference(
    args: argparse.Namespace, passages: Sequence[str], questions: Sequence[str]
) -> dict[str, Any]:
    """Run the driver, and return the result of `linearrag_driver.run`.

    Raises:
        BenchmarkError: The driver failed; its output says why.
    """
    pools = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    # It orders results by sets, so the hash seed is fixed; no network and no progress bars.
    environment = {"PYTHONHASHSEED": "0", "HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1"}
    environment |= dict.fromkeys(pools, str(args.threads))
    with tempfile.TemporaryDirectory(prefix="wye-bench-") as work:
        job, result = Path(work, "job.json"), Path(work, "result.json")
        content = {
            "checkout": str(args.checkout.resolve()),
            "work": work,
            "encoder": str(args.encoder or locate_model(DEFAULT_ENCODER)),
            "pipeline": args.pipeline,
            "passages": passages,
            "questions": questions,
            "neighbours": not args.no_neighbours,
        }
        job.write_text(json.dumps(content))
        command = [args.python, str(DRIVER), str(job), str(result)]
        done = subprocess.run(command, cwd=work, env={**os.environ, **environment}, check=False)
        if done.returncode:
            raise BenchmarkError(f"The reference ended with {done.returncode}; see above.")
        results: dict[str, Any] = json.loads(result.read_text())
        return results


def print_quality(datasets: Sequence[Dataset], run: Run) -> None:
    """Print means over the questions asked, by split and over all."""
    table = Table(["split", "questions", *SHOWN])
    judged = {
        data.split: {id_: gold for id_, gold in data.judgements.items() if id_ in run}
        for data in datasets
    }
    judged["all"] = {id_: gold for part in judged.values() for id_, gold in part.items()}
    columns = [MEASURES.index(name) for name in SHOWN]
    for split, judgements in judged.items():
        if judgements:
            means = score(judgements, run).mean(axis=0)[columns].tolist()
            table.row(split, len(judgements), *means)
