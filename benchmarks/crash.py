"""Kill a writer a thousand times, and check that the index never notices.

Each run of an operation is a process that is killed with SIGKILL: half of them at a random moment,
half before or after a sync of a file, which makes something durable. Then

- the index opens, without repair, at a version that an undisturbed run also has: no row of another
  document is touched, and nothing that was acknowledged is lost;
- an acknowledged upload is a job that the next server resumes and ends;
- every surface that is mentioned has its vector;
- the operation can be run again, and ends with the content of an undisturbed run.
"""

import argparse
import hashlib
import json
import multiprocessing
import os
import random
import shutil
import signal
import tempfile
import time
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import count, groupby
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from starlette.testclient import TestClient

from benchmarks import harness
from benchmarks.harness import Table
from wye.backends.errors import IndexNotFoundError
from wye.backends.store.corpus import Corpus, read_corpus
from wye.backends.store.index import PassageStore
from wye.backends.store.ingest import ingest
from wye.backends.text import title_names
from wye.backends.types import Float32, Passage, Silent
from wye.featurizer.analyser import AnalyserSettings
from wye.featurizer.types import PassageAnalysis, SentenceAnalysis, Steps
from wye.router.session import Session
from wye.service.app import build
from wye.service.ingest.jobs import JobStore
from wye.service.logs import LOG
from wye.service.settings import DocumentSettings, ServeSettings, ServiceSettings

WINDOW = 6
DELAY = 0.002
DOCUMENTS = 24
CHUNKS = 3
_RETRIES = 8
_PATIENCE = 60.0
# The process that is forked has no threads.
warnings.filterwarnings("ignore", "lance is not fork-safe")
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload([__name__])

Ack = Callable[[str], None]
"""Called with each acknowledgement: "done", or "accepted", which a later "done" follows."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the number of kills."""
    parser.add_argument("--kills", type=int, default=1000, help="kills over all operations")


def run(args: argparse.Namespace) -> int:
    """Kill every operation equally often; returns 1 if a kill did harm, or came too late."""
    each = -(-args.kills // len(OPERATIONS))
    harness.print_header(
        f"A writer killed {each * len(OPERATIONS)} times",
        seed=args.seed,
        data=f"{len(edition(0))} made-up passages, windows of {WINDOW}",
    )
    columns = ["operation", "seconds", "steps", "states", "kills", "landed", "seen"]
    table = Table([*columns, *CHECKS], width=10)
    survived, started = True, time.monotonic()
    chance = random.Random(args.seed)
    for operation in OPERATIONS:
        with tempfile.TemporaryDirectory() as scratch:
            bench = Bench(operation, Path(scratch))
            trials = [bench.trial(chance.random(), at_step=n % 2 == 1) for n in range(each)]
        seen = {trial.state for trial in trials} - {None}
        passed = [sum(each) for each in zip(*(trial.checks for trial in trials), strict=True)]
        landed = sum(trial.landed for trial in trials)
        counts = (bench.duration, bench.steps, len(bench.states), each, landed, len(seen))
        table.row(operation, *counts, *passed)
        harmed = [trial for trial in trials if not trial.survived]
        print(*(f"  {trial}\n" for trial in harmed[:3]), sep="", end="")
        survived &= not harmed
    print(f"\n{time.monotonic() - started:.0f} s. {'PASS' if survived else 'FAIL'}")
    return 0 if survived else 1


CHECKS = ("opened", "kept", "resumed", "cached", "completed")
"""Whether the index had a content of an undisturbed run; whether all that was acknowledged as done
was there, and the next server ended all that was accepted; whether every mentioned surface had its
vector; and whether the operation, run again, gave the content of an undisturbed run."""


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of one kill.

    Attributes:
        landed: Whether the kill came before the operation ended.
        state: Which of the contents of an undisturbed run the index had, by position; None if
            another, or if the index was missing.
        checks: Whether each of `CHECKS` was passed.
    """

    operation: str
    landed: bool
    state: int | None
    checks: tuple[bool, ...]

    @property
    def survived(self) -> bool:
        """Whether the kill landed and did no harm."""
        return self.landed and all(self.checks)


def _name(document: int) -> str:
    """Id of a document; some look like a chunk's of another."""
    return f"d{document}" if document % 4 else f"d{document + 1}#x"


def _ids(document: int) -> list[str]:
    """Ids of a document's chunks."""
    return [f"{_name(document)}#{chunk}" for chunk in range(CHUNKS)]


def edition(number: int) -> list[Passage]:
    """A corpus as first published, or revised: changed texts, more documents, fewer chunks."""
    passages = []
    for document in range(DOCUMENTS + 4 * number):
        chunks = CHUNKS - (number if document % 3 == 0 else 0)
        for chunk, id_ in enumerate(_ids(document)[:chunks]):
            revision = number if document % 2 else 0
            text = f"Anna{document} met Bob{chunk} in edition {revision}. They talked elsewhere."
            title = f"Title{revision} {document} (book)"
            passages.append(Passage(id_, title, text, {"n": chunk}, _name(document), chunk))
    return passages


def fill(
    passages: Sequence[Passage], folder: Path, delay: float, keep: timedelta, ack: Ack
) -> None:
    """Make the index of these passages, or update it to them, then tidy up."""
    analyser = StandIn(delay=delay)
    index = PassageStore.create(folder, analyser.dimension, analyser.fingerprint)
    progress = _Acknowledging(ack)
    ingest(index, passages, analyser, batch_passages=WINDOW, entity_vectors=True, progress=progress)
    with index.writer() as writer:
        writer.compact(keep)


def delete(
    folder: Path, delay: float, keep: timedelta, ack: Ack, *, ids: list[list[str]], every: int
) -> None:
    """Delete passages, some in each commit, and compact after `every` so many commits."""
    with PassageStore.open(folder).writer() as writer:
        for number, some in enumerate(ids, start=1):
            writer.delete(some)
            ack("done")
            if number % every == 0:
                writer.compact(keep)
            time.sleep(delay)


def job(folder: Path, delay: float, keep: timedelta, ack: Ack) -> None:  # noqa: ARG001
    """Upload, put and delete over HTTP, and upload again."""
    with _serving(folder, delay) as client:
        for revision in range(2):
            rows = (
                {"_id": f"up{n}{'#1' if n % 3 else ''}", "text": f"Anna{n} met Bob{revision}."}
                for n in range(12)
            )
            content = "\n".join(map(json.dumps, rows))
            kind = {"content-type": "application/x-ndjson"}
            sent = client.post("/v1/documents", content=content, headers=kind)
            assert sent.status_code == 202, sent.text
            ack("accepted")
            _settle(folder, client)
            ack("done")
            for n in range(3):
                text = f"Carl{n} is in revision {revision}."
                put = client.put(f"/v1/documents/put%23{n}", json={"text": text})
                assert put.is_success, put.text
                ack("done")
            deletion = client.delete(f"/v1/documents/{_name(revision).replace('#', '%23')}")
            assert deletion.status_code in (200, 404), deletion.text
            ack("done")


OPERATIONS: dict[str, Callable[[Path, float, timedelta, Ack], None]] = {
    "ingest": partial(fill, edition(0)),
    "upsert": partial(fill, edition(1)),
    "delete": partial(delete, ids=[_ids(n) for n in range(0, DOCUMENTS, 2)], every=12),
    "compact": partial(delete, ids=[_ids(n)[:1] for n in range(1, 13)], every=1),
    "job": job,
}


class StandIn:
    """Stands in for the models: random vectors, seeded by their text, and words as mentions."""

    has_parser = True
    dimension = 8
    fingerprint: ClassVar = {"encoder": "random-8"}
    syntax_fingerprint: ClassVar = {"tree": "none"}

    def __init__(self, _: AnalyserSettings | None = None, *, delay: float = 0.0) -> None:
        """Load nothing; sleep `delay` seconds for each passage."""
        self._delay = delay

    def analyse(self, passages: Sequence[Passage]) -> list[PassageAnalysis]:
        """Names are entities and long words are phrases."""
        analyses = []
        for passage in passages:
            time.sleep(self._delay)
            words = passage.text.replace(".", "").split()
            names = tuple(word for word in words if word.istitle())
            phrases = tuple(word for word in words if word.islower() and len(word) >= 7)
            vector, other = self.encode_surfaces([passage.title + passage.text, passage.text])
            sentence = SentenceAnalysis(passage.text, names, phrases, other)
            analyses.append(PassageAnalysis(vector, (sentence,)))
        return analyses

    def analyse_in_steps(self, passages: Sequence[Passage]) -> Steps[list[PassageAnalysis]]:
        """`analyse` in one step."""
        yield
        return self.analyse(passages)

    def encode_surfaces(self, surfaces: Sequence[str]) -> Float32:
        """(n, d) unit vectors, in order."""
        seeds = (zlib.crc32(surface.encode()) for surface in surfaces)
        drawn = [np.random.default_rng(seed).standard_normal(self.dimension) for seed in seeds]
        vectors = np.array(drawn, np.float32).reshape(-1, self.dimension)
        unit: Float32 = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit

    def encode_surfaces_in_steps(self, surfaces: Sequence[str]) -> Steps[Float32]:
        """`encode_surfaces` in one step."""
        yield
        return self.encode_surfaces(surfaces)

    def close(self) -> None:
        """Do nothing."""


class Bench:
    """One of `OPERATIONS`, with the state that its trials share.

    Attributes:
        duration: Seconds of a run.
        steps: Number of moments just before or after a durable step of a run.
        states: Digests of the contents that an undisturbed run passes through.
    """

    def __init__(self, operation: str, folder: Path) -> None:
        """Make the initial index in a folder, and record an undisturbed run."""
        self.operation = operation
        self._base = folder / "base"
        self._scratch = folder / "scratch"
        if operation != "ingest":
            OPERATIONS["ingest"](self._base, 0.0, timedelta(0), list[str]().append)
        words, _ = _run(operation, self._restart())
        if not words or not words[-1].startswith("end"):
            raise RuntimeError(f"{operation} did not end; see its errors above")
        steps, seconds = words[-1].split()[1:]
        self.steps, self.duration = int(steps), float(seconds)
        undisturbed = self._restart()
        before = _newest_version(undisturbed)
        acknowledged: list[tuple[str, int]] = []

        def ack(word: str) -> None:
            acknowledged.append((word, _newest_version(undisturbed)))

        OPERATIONS[operation](undisturbed, 0.0, timedelta(hours=1), ack)
        index = PassageStore.open(undisturbed)
        dataset = index.snapshot()
        digests = {
            n: _digest(read_corpus(PassageStore(undisturbed, dataset.checkout_version(n))))
            for n in index.versions()
            if n >= before
        }
        self.states = list(dict.fromkeys(digests.values()))
        if len(self.states) != len([*groupby(digests.values())]):
            raise RuntimeError(f"{operation} passes through the same content twice")
        positions = {version: self.states.index(digest) for version, digest in digests.items()}
        # The least state after so many acknowledgements: immediately, and once jobs have ended.
        self._at_once, self._in_the_end = [0], [0]
        for position, (word, version) in enumerate(acknowledged):
            late = word == "accepted"
            self._at_once.append(self._at_once[-1] if late else positions[version])
            self._in_the_end.append(positions[acknowledged[position + 1][1] if late else version])

    def trial(self, moment: float, *, at_step: bool = False) -> Trial:
        """Kill one run after a fraction of the operation's duration, or of its durable steps."""
        for _ in range(_RETRIES):
            folder = self._restart()
            if at_step:
                words, landed = _run(self.operation, folder, step=1 + int(moment * self.steps))
            else:
                words, landed = _run(self.operation, folder, after=moment * self.duration)
            if landed:
                break
            moment *= 0.8  # this run was faster than the timed one
        acknowledged = sum(word in ("done", "accepted") for word in words)
        state, cached = self._inspect(folder)
        has_acknowledged = state is None or state >= self._at_once[acknowledged]
        resumed = True
        if self.operation == "job":
            with _serving(folder, 0.0) as client:
                _settle(folder, client)
            later, _ = self._inspect(folder)
            resumed = later is not None and later >= self._in_the_end[acknowledged]
        OPERATIONS[self.operation](folder, 0.0, timedelta(0), list[str]().append)
        completed = _digest(read_corpus(PassageStore.open(folder))) == self.states[-1]
        checks = (state is not None, has_acknowledged, resumed, cached, completed)
        return Trial(self.operation, landed, state, checks)

    def _restart(self) -> Path:
        """A fresh copy of the initial index."""
        shutil.rmtree(self._scratch, ignore_errors=True)
        if self._base.exists():
            shutil.copytree(self._base, self._scratch)
        return self._scratch

    def _inspect(self, folder: Path) -> tuple[int | None, bool]:
        """The index's content, by position in an undisturbed run; whether vectors are complete."""
        try:
            corpus = read_corpus(PassageStore.open(folder))
        except IndexNotFoundError:
            # Only an index that is being created may be missing.
            return (0 if self.operation == "ingest" else None), True
        digest = _digest(corpus)
        state = self.states.index(digest) if digest in self.states else None
        if self.operation == "job":
            return state, True  # by default, a service keeps no such vectors
        titles = (surface for title in corpus.titles for surface in title_names(title))
        vectors = corpus.surface_vectors([*corpus.entities.names, *titles])
        return state, not np.isnan(vectors).any()


class _Acknowledging(Silent):
    """Takes progress, which is made when a window is committed, as acknowledgement."""

    def __init__(self, ack: Ack) -> None:
        self._ack = ack

    def advance(self, steps: int) -> None:  # noqa: ARG002
        self._ack("done")


@contextmanager
def _serving(folder: Path, delay: float) -> Iterator[TestClient]:
    """A client of a ready service over an index, in this process."""
    settings = ServiceSettings(
        serve=ServeSettings(refresh_seconds=0.02),
        documents=DocumentSettings(direct_passages=4, group_passages=4),
    )
    with (
        patch("wye.router.session.Analyser", partial(StandIn, delay=delay)),
        patch("wye.service.collections.Collection._warm_up"),  # nobody asks
        patch("wye.service.ingest.job_runner._PAUSE", 0.01),  # nobody waits for the lock
        patch.object(LOG, "disabled", True),  # it would warn that no router fits these models
        TestClient(
            build(settings, {"default": partial(Session.open, settings, folder)}),
            base_url="http://localhost",
        ) as client,
    ):
        _until(lambda: client.get("/ready").status_code == 200)
        yield client


def _settle(folder: Path, client: TestClient) -> None:
    """Wait until no job is left."""
    jobs = JobStore(folder, "default")
    _until(lambda: not jobs.unfinished())
    failed = [job for job in client.get("/v1/jobs").json()["data"] if job["state"] != "done"]
    assert not failed, failed


def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + _PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise RuntimeError("The service is not ready, or does not end its jobs")
        time.sleep(0.01)


def _newest_version(folder: Path) -> int:
    """Number of the newest version; 0 if there is no index."""
    return PassageStore.open(folder).version if folder.exists() else 0


def _digest(corpus: Corpus) -> str:
    """A hash of the content of an index version."""
    digest = hashlib.blake2b(digest_size=16)
    entities, phrases = corpus.entities, corpus.phrases
    plain = [corpus.ids, corpus.documents, [*corpus.metadata], list(corpus.iter_texts())]
    plain += [list(entities.names), list(phrases.names), list(corpus.iter_sentence_texts())]
    digest.update(json.dumps(plain).encode())
    arrays: list[NDArray[Any]] = [corpus.chunks, np.asarray(corpus.vectors)]
    arrays += [np.asarray(corpus.sentence_vectors), corpus.sentence_passage]
    arrays += [entities.sentence, entities.code, phrases.sentence, phrases.code]
    for array in arrays:
        digest.update(array.tobytes())
    return digest.hexdigest()


def _run(
    operation: str, folder: Path, step: int = 0, after: float | None = None
) -> tuple[list[str], bool]:
    """Run an operation in a process, and kill it at a step or after so many seconds.

    Returns:
        What it said, and whether the kill came before it ended.
    """
    heard, says = _PROCESSES.Pipe(duplex=False)
    process = _PROCESSES.Process(target=_perform, args=(operation, folder, step, says))
    process.start()
    says.close()
    assert heard.recv() == "begin"
    if after is not None:
        process.join(after)
        process.kill()
    words: list[str] = []
    with suppress(EOFError, ConnectionResetError):
        while True:
            words.append(heard.recv())
    process.join()
    heard.close()
    return words, process.exitcode == -signal.SIGKILL and not any(w[:3] == "end" for w in words)


def _perform(operation: str, folder: Path, step: int, says: Connection) -> None:
    """Run an operation in a process that is killed, or that kills itself at a step."""
    steps = count(1)
    last = [0]

    def durable() -> None:
        last[0] = next(steps)
        if last[0] == step:
            os.kill(os.getpid(), signal.SIGKILL)

    sync = os.fsync

    def counted(descriptor: int) -> None:
        durable()
        sync(descriptor)
        durable()

    os.fsync = counted  # type: ignore[assignment]
    says.send("begin")
    start = time.perf_counter()
    OPERATIONS[operation](folder, DELAY, timedelta(0), says.send)
    says.send(f"end {last[0]} {time.perf_counter() - start}")
