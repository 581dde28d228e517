"""Kill a writer at many moments, and check that the index never notices.

`python -m benchmarks.crash --moments 50` runs each operation in a process of its own, kills it
with SIGKILL at moments spread evenly over the operation's duration, and then checks that

- the index opens at a version that an undisturbed run passes through, and no other;
- every surface that this version mentions has its vector;
- running the operation again completes, with the content that an undisturbed run ends with.
"""

import argparse
import hashlib
import json
import platform
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
from backends.store.index import Index
from backends.store.ingest import ingest
from backends.store.snapshot import Corpus, read_corpus
from backends.types import Passage
from backends.words import title_names
from benchmarks.hashing import HashAnalyser

WINDOW = 6
DELAY = 0.002
DOCUMENTS = 24
CHUNKS = 3
_PATIENCE = 60.0
_RETRIES = 6

Operation = Callable[[Path, float, timedelta], None]


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
    index = Index.open(folder)
    with index.writer() as writer:
        for document in range(0, DOCUMENTS, 2):
            writer.delete([f"d{document}#{chunk}" for chunk in range(CHUNKS)])
            time.sleep(delay)
        writer.compact(keep)


OPERATIONS: dict[str, Operation] = {"ingest": first_ingest, "upsert": upsert, "delete": delete}


class Bench:
    """One operation with all that its trials share."""

    def __init__(self, operation: str, folder: Path) -> None:
        """Make the index to start from, and learn what an undisturbed run does.

        Args:
            operation: A key of `OPERATIONS`.
            folder: For scratch; must exist.
        """
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
        """Kill one run.

        Args:
            moment: When, as a fraction of the operation's duration.
        """
        for _ in range(_RETRIES):
            folder = self._restart()
            landed = self._kill(folder, moment * self.duration)
            if landed:
                break
            moment *= 0.8  # this run was quicker than the one that was timed
        state, cached = self._inspect(folder)
        OPERATIONS[self.operation](folder, 0.0, timedelta(0))
        completed = _digest(read_corpus(Index.open(folder))) == self._states[-1]
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
            corpus = read_corpus(Index.open(folder))
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
    index = Index.create(folder, analyser.dimension, analyser.fingerprint)
    ingest(index, passages, analyser, batch_passages=WINDOW, entity_vectors=True)
    with index.writer() as writer:
        writer.compact(keep)


def _newest_version(folder: Path) -> int:
    """Number of the newest version; 0 where there is no index."""
    return Index.open(folder).version if folder.exists() else 0


def _digests(folder: Path, since: int) -> list[str]:
    """What each version from one on holds."""
    index = Index.open(folder)
    versions = [version.number for version in index.versions() if version.number >= since]
    dataset = index.snapshot()
    return [_digest(read_corpus(Index(folder, dataset.checkout_version(n)))) for n in versions]


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
    """The process to be killed; it says when it begins and when it has ended."""
    command = [sys.executable, "-m", "benchmarks.crash", "--work", operation, str(folder)]
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


def _work(operation: str, folder: Path) -> None:
    """Be the process that is killed."""
    print("begin", flush=True)
    OPERATIONS[operation](folder, DELAY, timedelta(0))
    print("end", flush=True)


def _print_table(moments: int) -> bool:
    """Run all trials; returns whether every one survived."""
    print(f"{moments} kills of each operation; {platform.platform()}, Python", end=" ")
    print(f"{platform.python_version()}; {len(edition(0))} passages, windows of {WINDOW}")
    print(f"{'operation':<10}{'seconds':>8}{'states':>8}{'landed':>8}{'seen':>6}", end="")
    print(f"{'whole':>7}{'cached':>8}{'completed':>11}")
    survived = True
    for operation in OPERATIONS:
        with tempfile.TemporaryDirectory() as folder:
            bench = Bench(operation, Path(folder))
            trials = [bench.trial((i + 0.5) / moments) for i in range(moments)]
        whole = [trial.state for trial in trials if trial.state is not None]
        print(f"{operation:<10}{bench.duration:>8.2f}{bench.commits:>8}", end="")
        print(f"{sum(trial.landed for trial in trials):>8}{len(set(whole)):>6}", end="")
        print(f"{len(whole):>7}{sum(trial.cached for trial in trials):>8}", end="")
        print(f"{sum(trial.completed for trial in trials):>11}", flush=True)
        survived &= all(trial.survived for trial in trials)
    return survived


def main() -> None:
    """Run the benchmark, or be its victim."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--moments", type=int, default=50, help="kills of each operation")
    parser.add_argument("--work", nargs=2, metavar=("OPERATION", "FOLDER"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        _work(arguments.work[0], Path(arguments.work[1]))
    elif not _print_table(arguments.moments):
        sys.exit("Some kills did harm, or did not land; see the table")


if __name__ == "__main__":
    main()
