"""Runs the reference LinearRAG in its own interpreter and checkout; see `linearrag`.

It imports nothing of Wye, and calls only `index` and `retrieve`, which use no language model.
`python linearrag_driver.py JOB.json RESULT.json`.
"""

import importlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any


class CallTimer:
    """Adds up the processor seconds of the calls that it wraps."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def wrap(self, owner: Any, method: str) -> None:  # noqa: ANN401 - objects of the checkout
        """Count the time of an object's method from now on."""
        call: Callable[..., object] = getattr(owner, method)

        def counted(*args: object, **kwargs: object) -> object:
            start = time.process_time()
            try:
                return call(*args, **kwargs)
            finally:
                self.seconds += time.process_time() - start

        setattr(owner, method, counted)


class Clocked(list[dict[str, str]]):
    """Questions that note when each is read, to time a loop in code that is not ours."""

    def __init__(self, questions: list[str]) -> None:
        super().__init__({"question": text, "answer": ""} for text in questions)
        self._times: list[float] = []

    def __iter__(self) -> Iterator[dict[str, str]]:
        for question in super().__iter__():
            self._times.append(time.process_time())
            yield question
        self._times.append(time.process_time())

    @property
    def seconds(self) -> list[float]:
        """Processor seconds of each question."""
        return [end - start for start, end in pairwise(self._times)]


def run(job: dict[str, Any]) -> dict[str, Any]:
    """Index and retrieve with the default settings of the checkout's configuration.

    Args:
        job: checkout, work (a folder for its files), encoder (a folder), pipeline (a spaCy
            package), passages and questions (lists of texts), neighbours (whether it links
            consecutive passages of the file, as it does by default).

    Returns:
        seconds of parsing, encoding, total, and each of the questions, in processor time;
        rankings, for each question the positions in `passages`, best first.
    """
    sys.path.insert(0, job["checkout"])
    encoder = importlib.import_module("sentence_transformers").SentenceTransformer(
        job["encoder"], device="cpu"
    )
    config = importlib.import_module("src.config").LinearRAGConfig(
        dataset_name="bench",
        embedding_model=encoder,
        spacy_model=job["pipeline"],
        working_dir=job["work"],
    )
    reference = importlib.import_module("src.LinearRAG").LinearRAG(global_config=config)
    watches = {"parsing": CallTimer(), "encoding": CallTimer(), "total": CallTimer()}
    watches["parsing"].wrap(reference.spacy_ner, "batch_ner")
    watches["encoding"].wrap(encoder, "encode")
    watches["total"].wrap(reference, "index")
    if not job["neighbours"]:
        reference.add_adjacent_passage_edges = lambda: None
    reference.index([f"{row}:{text}" for row, text in enumerate(job["passages"])])
    seconds: dict[str, Any] = {name: watch.seconds for name, watch in watches.items()}
    questions = Clocked(job["questions"])
    answers = reference.retrieve(questions)
    return {
        "seconds": seconds | {"questions": questions.seconds},
        "rankings": [
            [int(text.partition(":")[0]) for text in answer["sorted_passage"]] for answer in answers
        ],
    }


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(run(json.loads(Path(sys.argv[1]).read_text()))))
