"""Kill a writer at many moments, and check that the index never notices.

Each operation runs in a process of its own, and is killed with SIGKILL at moments spread evenly
over its duration. Then

- the index opens at a version that an undisturbed run passes through, and no other;
- every surface that this version mentions has its vector;
- running the operation again completes, with the content that an undisturbed run ends with.
"""

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.errors import IndexNotFoundError
from backends.store.index import PassageStore
from backends.store.ingest import ingest
from backends.store.snapshot import Corpus, read_corpus
from backends.types import Passage
from backends.words import title_names
from benchmarks import harness
from benchmarks.harness import Table
from benchmarks.hashing import HashAnalyser

WINDOW = 6
DELAY = 0.002
DOCUMENTS = 24
CHUNKS = 3
_RETRIES = 6


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add how often."""
    parser.add_argument("--moments", type=int, default=50, help="kills of each operation")


def run(given: argparse.Namespace) -> int:
    """Kill every operation at every moment; returns 1 where one did harm, or did not land."""
    harness.print_header(
        f"A writer killed at {given.moments} moments of each operation",
        seed=None,
        data=f"{len(edition(0))} made-up passages, windows of {WINDOW}",
    )
    columns = ["operation", "seconds", "states", "landed", "seen", "whole", "cached", "completed"]
    table = Table(columns, width=10)
    survived = True
    for operation in OPERATIONS:
        with tempfile.TemporaryDirectory() as scratch:
            bench = Bench(operation, Path(scratch))
            trials = [bench.trial((i + 0.5) / given.moments) for i in range(given.moments)]
        whole = [trial.state for trial in trials if trial.state is not None]
        harm = [sum(trial.cached for trial in trials), sum(trial.completed for trial in trials)]
        landed = sum(trial.landed for trial in trials)
        counts = [bench.commits, landed, len(set(whole)), len(whole), *harm]
        table.row(operation, bench.duration, *counts)
        survived &= all(trial.survived for trial in trials)
    return 0 if survived else 1


@dataclass(frozen=True, slots=True)
class Trial:
    """What one kill did.

    Attributes:
        operation: What was running.
        landed: Whether the kill came before the operation had ended.
        state: How many of the operation's commits had been made; None if the index was in a state
            that no undisturbed run passes through.
        cached: Whether every surface mentioned had its vector.
        completed: Whether running it again gave the content of an undisturbed run.
    """

    operation: str
    landed: bool
    state: int | None
    cached: bool
    completed: bool

    @property
    def survived(self) -> bool:
        """Whether the kill did land, and did no harm."""
        return self.landed and self.state is not None and self.cached and self.completed


def edition(number: int) -> list[Passage]:
    """A corpus as first published, or as later revised: some texts new, some chunks gone."""
    passages = []
    for document in range(DOCUMENTS + 4 * number):
        chunks = CHUNKS - (number if document % 3 == 0 else 0)
        for chunk in range(chunks):
            revision = number if document % 2 else 0
            text = f"Anna{document} met Bob{chunk} in edition {revision}. They talked elsewhere."
            id_ = f"d{document}#{chunk}"
            name = f"Title{revision} {document} (book)"
            passages.append(Passage(id_, name, text, {"n": chunk}, f"d{document}", chunk))
    return passages


def first_ingest(folder: Path, delay: float, keep: timedelta) -> None:
    """Create the index and fill it."""
    _ingest(edition(0), folder, delay, keep)


def upsert(folder: Path, delay: float, keep: timedelta) -> None:
    """Bring a filled index up to the revised corpus."""
    _ingest(edition(1), folder, delay, keep)


def delete(folder: Path, delay: float, keep: timedelta) -> None:
    """Delete documents one by one."""
    index = PassageStore.open(folder)
    with index.writer() as writer:
        for document in range(0, DOCUMENTS, 2):
            writer.delete([f"d{document}#{chunk}" for chunk in range(CHUNKS)])
            time.sleep(delay)
        writer.compact(keep)


OPERATIONS: dict[str, Callable[[Path, float, timedelta], None]] = {
    "ingest": first_ingest,
    "upsert": upsert,
    "delete": delete,
}


class Bench:
    """One of `OPERATIONS` with all that its trials share."""

    def __init__(self, operation: str, folder: Path) -> None:
        """Make the index to start from, below a folder, and learn what an undisturbed run does."""
        self.operation = operation
        self._base = folder / "base"
        self._scratch = folder / "scratch"
        if operation != "ingest":
            first_ingest(self._base, 0.0, timedelta(0))
        undisturbed = self._restart()
        before = _newest_version(undisturbed)
        OPERATIONS[operation](undisturbed, 0.0, timedelta(hours=1))
        self._states = _digests(undisturbed, since=before)
        self.duration = self._time()

    @property
    def commits(self) -> int:
        """How many states with different content an undisturbed run passes through."""
        return len(set(self._states))

    def trial(self, moment: float) -> Trial:
        """Kill one run at a fraction of the operation's duration."""
        for _ in range(_RETRIES):
            folder = self._restart()
            landed = self._kill(folder, moment * self.duration)
            if landed:
                break
            moment *= 0.8  # this run was quicker than the one that was timed
        state, cached = self._inspect(folder)
        OPERATIONS[self.operation](folder, 0.0, timedelta(0))
        completed = _digest(read_corpus(PassageStore.open(folder))) == self._states[-1]
        return Trial(self.operation, landed, state, cached, completed)

    def _restart(self) -> Path:
        """A fresh copy of the index to start from."""
        shutil.rmtree(self._scratch, ignore_errors=True)
        if self._base.exists():
            shutil.copytree(self._base, self._scratch)
        return self._scratch

    def _time(self) -> float:
        """Seconds that an undisturbed run takes, in a process like those to be killed."""
        with _start(self.operation, self._restart()) as process:
            start = _wait(process, "begin")
            return _wait(process, "end") - start

    def _kill(self, folder: Path, after: float) -> bool:
        """Run, kill after so many seconds, and say whether that came before the end."""
        with _start(self.operation, folder) as process:
            start = _wait(process, "begin")
            time.sleep(max(0.0, start + after - time.perf_counter()))
            process.kill()
            assert process.stdout is not None
            return "end" not in process.stdout.read()

    def _inspect(self, folder: Path) -> tuple[int | None, bool]:
        """How many commits an index has seen, and whether its surfaces all have vectors."""
        try:
            corpus = read_corpus(PassageStore.open(folder))
        except IndexNotFoundError:
            # Right only for an index that was being created; nothing else may make one vanish.
            return (0 if self.operation == "ingest" else None), True
        digest = _digest(corpus)
        state = self._states.index(digest) if digest in self._states else None
        titles = (surface for title in corpus.titles for surface in title_names(title))
        vectors = corpus.surface_vectors([*corpus.entities.names, *titles])
        return state, not np.isnan(vectors).any()


def _ingest(passages: list[Passage], folder: Path, delay: float, keep: timedelta) -> None:
    """Ingest, then tidy up."""
    analyser = HashAnalyser(delay=delay)
    index = PassageStore.create(folder, analyser.dimension, analyser.fingerprint)
    ingest(index, passages, analyser, batch_passages=WINDOW, entity_vectors=True)
    with index.writer() as writer:
        writer.compact(keep)


def _newest_version(folder: Path) -> int:
    """Number of the newest version; 0 where there is no index."""
    return PassageStore.open(folder).version if folder.exists() else 0


def _digests(folder: Path, since: int) -> list[str]:
    """What each version from one on holds."""
    index = PassageStore.open(folder)
    versions = [version.number for version in index.versions() if version.number >= since]
    dataset = index.snapshot()
    return [
        _digest(read_corpus(PassageStore(folder, dataset.checkout_version(n)))) for n in versions
    ]


def _digest(corpus: Corpus) -> str:
    """A hash of all that an index version holds."""
    digest = hashlib.blake2b(digest_size=16)
    entities, phrases = corpus.entities, corpus.phrases
    plain = [corpus.ids, corpus.documents, corpus.metadata, list(corpus.iter_texts())]
    plain += [entities.names, phrases.names, list(corpus.iter_sentence_texts())]
    digest.update(json.dumps(plain).encode())
    arrays: list[NDArray[Any]] = [corpus.chunks, corpus.vectors]
    arrays += [corpus.sentence_vectors, corpus.sentence_passage]
    arrays += [entities.sentence, entities.code, phrases.sentence, phrases.code]
    for array in arrays:
        digest.update(array.tobytes())
    return digest.hexdigest()


def _start(operation: str, folder: Path) -> subprocess.Popen[str]:
    """The process to be killed; it says "begin", and "end" when it has ended."""
    command = [sys.executable, "-m", "benchmarks.crash", operation, str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _wait(process: subprocess.Popen[str], word: str) -> float:
    """The moment at which a process says a word."""
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    if line != word:
        raise RuntimeError(
            f"The worker was to say {word!r} and said {line!r}; see its errors above"
        )
    return time.perf_counter()


if __name__ == "__main__":  # the process to be killed
    print("begin", flush=True)
    OPERATIONS[sys.argv[1]](Path(sys.argv[2]), DELAY, timedelta(0))
    print("end", flush=True)
