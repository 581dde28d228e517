"""The public reference implementation of LinearRAG on a dataset of ours, with models of ours.

`python -m benchmarks.rival_linearrag DATASET --checkout DIR --python PATH` runs a checkout that
you provide, in an interpreter that has what it needs (igraph, openai, httpx, pandas, tqdm, torch,
sentence-transformers, spaCy and its pipeline). Nothing of it is imported here, and only its
`index` and `retrieve` run, with the defaults of its configuration.

Passages are given to it as "title newline text" in the order of the file. It links neighbours in
that order, and public multi-hop corpora, as published, hold the evidence of one question side by
side: what it finds then says little about a corpus of one's own. `--shuffle SEED` breaks the
order, `--no-neighbours` leaves those links out. Processor seconds are printed beside wall seconds:
on one thread they are what an otherwise idle machine would need.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backends.documents import read_passages
from backends.types import Passage
from benchmarks import report
from featurizer.encoder import DEFAULT_ENCODER, locate_model
from featurizer.spacy_parser import DEFAULT_PIPELINE
from training.data.dataset import Dataset, read_dataset
from training.evaluation.measures import ALL_EVIDENCE, MEASURES, score

DRIVER = Path(__file__).with_name("rival_driver.py")
SHOWN = ("R@5", ALL_EVIDENCE, "Success@1")


@dataclass(frozen=True, slots=True)
class Rival:
    """Where the reference runs.

    Attributes:
        checkout: Folder with its `src`.
        python: An interpreter with its dependencies.
        encoder: A folder in sentence-transformers' format.
        pipeline: Name of a spaCy package.
        threads: For its matrix products.
        neighbours: Whether it links passages that follow each other in the file.
    """

    checkout: Path
    python: str
    encoder: Path
    pipeline: str
    threads: int = 1
    neighbours: bool = True

    def run(self, passages: Sequence[Passage], questions: Sequence[str]) -> dict[str, Any]:
        """What `rival_driver.run` returns.

        Raises:
            SystemExit: It failed; its output says why.
        """
        with tempfile.TemporaryDirectory() as work:
            job, result = Path(work, "job.json"), Path(work, "result.json")
            content = {
                "checkout": str(self.checkout.resolve()),
                "work": work,
                "encoder": str(self.encoder),
                "pipeline": self.pipeline,
                "passages": [f"{passage.title}\n{passage.text}" for passage in passages],
                "questions": list(questions),
                "neighbours": self.neighbours,
            }
            job.write_text(json.dumps(content))
            command = [self.python, str(DRIVER), str(job), str(result)]
            done = subprocess.run(command, cwd=work, env=self._environment(), check=False)
            if done.returncode:
                sys.exit(f"The reference failed with exit code {done.returncode}; see above.")
            found: dict[str, Any] = json.loads(result.read_text())
            return found

    def _environment(self) -> dict[str, str]:
        """One hash seed, since it orders results by sets; no network; no progress bars."""
        threads = str(self.threads)
        settings = {"PYTHONHASHSEED": "0", "HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1"}
        pools = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
        return {**os.environ, **settings, **dict.fromkeys(pools, threads)}


def main(argv: Sequence[str] | None = None) -> None:
    """Print the tables, and write the result."""
    arguments = _parser().parse_args(argv)
    datasets = [read_dataset(arguments.dataset, split) for split in _splits(arguments.dataset)]
    texts = {question.id: question.text for data in datasets for question in data.questions}
    ids = list(texts)[: arguments.limit]
    passages = list(read_passages(arguments.dataset))
    order = "file order"
    if arguments.shuffle is not None:
        random.Random(arguments.shuffle).shuffle(passages)
        order = f"shuffled with {arguments.shuffle}"
    if not arguments.neighbours:
        order += " without neighbour links"
    data = f"{datasets[0].name}, {len(passages)} passages in {order}, {len(ids)} questions"
    report.print_header("Reference LinearRAG", seed=arguments.shuffle, data=data)

    rival = Rival(
        arguments.checkout,
        arguments.python,
        arguments.encoder or locate_model(DEFAULT_ENCODER),
        arguments.pipeline,
        arguments.threads,
        arguments.neighbours,
    )
    result = rival.run(passages, [texts[id_] for id_ in ids])
    run = {
        id_: [passages[place].id for place in found]
        for id_, found in zip(ids, result.pop("found"), strict=True)
    }
    result["header"] = report.header(seed=arguments.shuffle, data=data)
    result["passages"] = len(passages)
    result["threads"] = rival.threads
    result["measures"] = _measures(datasets, run)
    result["run"] = run
    _print(result)
    if arguments.output:
        arguments.output.write_text(json.dumps(result, indent=1))


def _splits(folder: Path) -> list[str]:
    return sorted(path.stem for path in (folder / "qrels").glob("*.tsv"))


def _measures(
    datasets: Sequence[Dataset], run: dict[str, list[str]]
) -> dict[str, dict[str, float]]:
    """Means over the questions that were asked, by split and over all."""
    judged = {
        data.split: {id_: gold for id_, gold in data.judgements.items() if id_ in run}
        for data in datasets
    }
    judged["all"] = {id_: gold for part in judged.values() for id_, gold in part.items()}
    found = {}
    for split, judgements in judged.items():
        if judgements:
            means = score(judgements, run).mean(axis=0).tolist()
            by_name = dict(zip(MEASURES, means, strict=True))
            found[split] = {"questions": len(judgements)} | {name: by_name[name] for name in SHOWN}
    return found


def _print(result: dict[str, Any]) -> None:
    thousands = result["passages"] / 1000
    table = report.Table(["index, seconds", "parsing", "encoding", "other", "total"], width=32)
    for clock in ("seconds", "cpu_seconds"):
        parsing, encoding, total = (result[clock][n] for n in ("parsing", "encoding", "total"))
        name = "wall" if clock == "seconds" else "processor"
        cells = [parsing, encoding, total - parsing - encoding, total]
        table.row(f"{name}, whole corpus", *cells)
        table.row(f"{name}, per 1,000 passages", *(cell / thousands for cell in cells))
    print()
    table = report.Table(["question, milliseconds", "p50", "p95", "p99"])
    table.row("wall", *report.percentiles(result["question_seconds"]))
    table.row("processor", *report.percentiles(result["question_cpu_seconds"]))
    print()
    table = report.Table(["split", "questions", *SHOWN])
    for split, means in result["measures"].items():
        table.row(split, *means.values())


def _parser() -> argparse.ArgumentParser:
    parser = report.parser(__doc__)
    parser.add_argument("dataset", type=Path, help="a folder in BEIR's layout")
    parser.add_argument("--checkout", type=Path, required=True, help="of the reference's source")
    parser.add_argument("--python", required=True, help="an interpreter with its dependencies")
    parser.add_argument("--encoder", type=Path, help="a folder; ours when left out")
    parser.add_argument("--pipeline", default=DEFAULT_PIPELINE, help="a spaCy package")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--shuffle", type=int, metavar="SEED", help="passages, not in file order")
    parser.add_argument(
        "--neighbours",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="its links between passages that follow each other in the file",
    )
    parser.add_argument("--limit", type=int, help="ask only that many questions")
    parser.add_argument("--output", type=Path, help="write everything there as JSON")
    return parser


if __name__ == "__main__":
    main()
