"""Writes to a collection: passages are analysed between questions and committed in turn."""

import asyncio
import random
import threading
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain, islice
from time import monotonic, perf_counter, time
from typing import Any, TypeVar

from wye.backends.documents import CHUNK_WORDS, chunk_passage
from wye.backends.errors import IndexLockedError, SourceError
from wye.backends.filters import parse_filter
from wye.backends.store.documents import Removal, matching, remove
from wye.backends.store.index import PassageStore
from wye.backends.store.ingest import IngestReport, ingest
from wye.backends.types import AnalysedPassage, Float32, Passage
from wye.featurizer.analyser import Analyser
from wye.featurizer.types import Steps
from wye.service.batching import Batcher, Room, unless_gone
from wye.service.collections import Collection
from wye.service.http.metrics import Metrics
from wye.service.http.problems import Problem, closing, not_writable, reason_of
from wye.service.ingest.jobs import PASSAGES, Job, JobStore
from wye.service.settings import DocumentSettings, ServiceSettings

T = TypeVar("T")

LONGEST_ID = 512
# Seconds between two attempts at the lock, and after a change, for other writers.
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.005, 0.025
# No step of an analysis begins later in a slice; steps are short, see `Analyser.analyse_in_steps`.
_SLICE_SECONDS = 0.1
_USUAL_RATE = 10.0  # passages a second that a job is expected to write before it has begun
_GROUP = 8  # passages that are analysed together, so that the encoder's batches are full


def cut(
    documents: Iterable[Passage], words: int | None, settings: DocumentSettings
) -> Iterator[Passage]:
    """Cut documents into passages; a `Problem` 422 if one is too long, comes twice or is unfit."""
    ids: set[str] = set()
    try:
        for document in documents:
            if len(document.id) > LONGEST_ID:
                raise _bad_document(document, f"has an id of more than {LONGEST_ID} characters")
            if document.id in ids:
                raise _bad_document(document, "occurs twice in the request; send it once")
            ids.add(document.id)
            if len(document.text) > settings.characters:
                raise _bad_document(
                    document,
                    f"has {len(document.text):,} characters, but the limit is "
                    f"{settings.characters:,}; split it",
                )
            yield from chunk_passage(document, words or CHUNK_WORDS)
    except SourceError as error:
        raise Problem(422, "bad-document", f"A document cannot be stored: {error}.") from error


def _bad_document(document: Passage, reason: str) -> Problem:
    return Problem(422, "bad-document", f"Document '{document.id:.80}' {reason}.")


class StoppedError(Exception):
    """The work was told to stop."""


@dataclass(frozen=True, slots=True)
class WriteResult:
    """Ids of documents that were stored at once, and the report of storing them."""

    documents: tuple[str, ...]
    report: IngestReport


@dataclass(eq=False)
class CollectionWriter:
    """Makes all changes of this process to one index."""

    collection: Collection  # need not be loaded
    settings: ServiceSettings
    models: Batcher[Any, Any, Any]
    written: Callable[[], None]  # called after commits
    threads: Executor
    metrics: Metrics
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _stopping: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._limits = limits = self.settings.documents
        full = (
            f"{limits.changes} changes wait for '{self.collection.name}', which is the limit. Try "
            "again, or send many documents in one request."
        )
        self._changes = Room(limits.changes, full, retry_after=1)
        self.metrics.unfinished(self.collection.name, ())  # so that they are listed

    @cached_property
    def jobs(self) -> JobStore:
        """The jobs of the collection; a `Problem` 503 while it is not loaded."""
        return JobStore(self.collection.session.folder, self.collection.name)

    async def store(
        self, passages: Iterator[Passage], departure: Callable[[], Awaitable[object]]
    ) -> WriteResult | Job:
        """Store documents in one commit, or make a job of many; another thread reads `passages`.

        Either is on the disk when this returns. If `departure` ends before the analysis, since the
        client left, nothing is stored.

        Raises:
            Problem: 422 if a document cannot be stored, and then none is; 409 if a job writes one
                of them, 499 if the client left, 503 if too many changes or jobs wait.
            IndexLockedError: Another process did not stop writing in time.
        """
        limit = self._limits.direct_passages
        first = await self.off_loop(lambda: list(islice(passages, limit + 1)))
        if not first:
            sentence = "There is no document in the request; send at least one."
            raise Problem(422, "no-documents", sentence)
        if len(first) > limit:
            return await self._submit(chain(first, passages))
        documents = tuple(dict.fromkeys(passage.document for passage in first))
        async with self._change("write"):
            analysis = self.analyse(first, self._stopping.is_set)
            index, analyser = await unless_gone(departure(), analysis)
            check = partial(self._refuse_documents_of_jobs, documents)
            report = await self.commit(index, first, analyser, check, self._limits.wait_seconds)
        self.metrics.documents.labels(self.collection.name, "direct").inc(len(documents))
        return WriteResult(documents, report)

    async def delete(self, removal: Removal) -> tuple[list[str], int]:
        """Delete passages in one commit; their ids, ascending, and a version that has none of them.

        Raises:
            Problem: 409 if a job writes one of them, 503 if too many changes wait.
            FilterError: The filter is malformed.
            IndexLockedError: Another process did not stop writing in time.
        """

        def work() -> tuple[list[str], int]:
            chunks = (id_.rpartition("#")[0] for id_ in removal.ids)
            documents = {*removal.documents, *removal.ids, *chunks}
            self._refuse_documents_of_jobs(documents, removal.filter)
            return remove(self.collection.session.folder, removal)

        async with self._change("delete"):
            ids, version = await self._in_turn(work, self._limits.wait_seconds)
        self.metrics.passages.labels(self.collection.name, "deleted").inc(len(ids))
        return ids, version

    async def matching(self, removal: Removal) -> tuple[list[str], int]:
        """Ids that `delete` would delete and the version they are in; nothing is changed."""
        return await self.off_loop(lambda: matching(self.collection.session.folder, removal))

    async def analyse(
        self, passages: Sequence[Passage], is_stopped: Callable[[], bool]
    ) -> "tuple[PassageStore, InterleavedAnalyser]":
        """Analyse the passages that are new, or have another title or text, or a `StoppedError`.

        The version that is searched tells which, and analysis under the writer's lock the rest.
        Returns the index as it is now, and an analyser that keeps the results.
        """
        session = self.collection.session
        pins = session.analyser.fingerprint
        index = await self.off_loop(lambda: PassageStore.open(session.folder, pins))
        analyser = InterleavedAnalyser(session.analyser, self.models, is_stopped=is_stopped)
        stored = await self.off_loop(lambda: session.snapshot.passages([p.id for p in passages]))
        texts = {id_: (passage.title, passage.text) for id_, passage in stored.items()}
        new = [each for each in passages if texts.get(each.id) != (each.title, each.text)]
        await analyser.prepare(new)
        return index, analyser

    async def commit(
        self,
        index: PassageStore,
        passages: Sequence[Passage],
        analyser: "InterleavedAnalyser",
        check: Callable[[], None],
        patience: float | None,
    ) -> IngestReport:
        """Write passages, analysed by `analyse`, in one commit when it is their turn.

        Args:
            check: Called in their turn; an error of it keeps them from being written.
            patience: Seconds to wait for another process that is writing before an
                `IndexLockedError`; None for a job, which asks again.
        """

        def work() -> IngestReport:
            check()
            count, vectors = len(passages), self.settings.ingest.entity_vectors
            return ingest(index, passages, analyser, batch_passages=count, entity_vectors=vectors)

        report = await self._in_turn(work, patience)
        for change in ("added", "updated", "unchanged", "removed"):
            self.metrics.passages.labels(self.collection.name, change).inc(getattr(report, change))
        return report

    def reason_of(self, error: Exception) -> str:
        """An error's reason for readers, with the collection's name instead of its folder."""
        return reason_of(error, self.collection.session.folder, self.collection.name)

    async def off_loop(self, work: Callable[[], T]) -> T:
        """Run blocking work, such as on the disk, in another thread."""
        return await asyncio.get_running_loop().run_in_executor(self.threads, work)

    def stop(self) -> None:
        """End the present work at its next slice."""
        self._stopping.set()

    async def _submit(self, passages: Iterable[Passage]) -> Job:

        def work() -> Job:
            if len(self.jobs.unfinished()) >= self._limits.jobs:
                raise Problem(
                    503,
                    "too-many-jobs",
                    f"{self._limits.jobs} jobs wait for '{self.collection.name}', which is the "
                    "limit. Try again when some have ended; /v1/jobs lists them.",
                    retry_after=10,
                )
            return self.jobs.submit(passages)

        try:
            job = await self.off_loop(work)
        except OSError as error:
            raise self._unwritable(error) from error
        self.metrics.documents.labels(self.collection.name, "job").inc(job.documents)
        return job

    @asynccontextmanager
    async def _change(self, kind: str) -> AsyncIterator[None]:
        """Count as a waiting change, a "write" or a "delete"; a `Problem` 503 if they are many."""
        name, started = self.collection.name, perf_counter()
        try:
            with self._changes.reserve():
                yield
                self.metrics.change_seconds.labels(name, kind).observe(perf_counter() - started)
        except OSError as error:
            raise self._unwritable(error) from error
        except StoppedError:
            raise closing() from None

    async def _in_turn(self, work: Callable[[], T], patience: float | None) -> T:
        """Run a change when it is its turn and no other process writes; see `commit`."""
        async with self._turn:
            until = monotonic() + (patience or 0.0)
            while True:
                try:
                    result = await self.off_loop(work)
                    break
                except IndexLockedError:
                    if monotonic() >= until:
                        raise
                await asyncio.sleep(random.uniform(_SHORTEST_PAUSE, _LONGEST_PAUSE))
            self.written()
            await asyncio.sleep(random.uniform(_SHORTEST_PAUSE, _LONGEST_PAUSE))
            return result

    def _refuse_documents_of_jobs(
        self, documents: Iterable[str], filter_: object | None = None
    ) -> None:
        """Refuse a change that an unfinished job would undo."""
        folder = self.jobs.folder
        if not folder.exists() or all(each.suffix != f".{PASSAGES}" for each in folder.iterdir()):
            return  # only an unfinished job has passages
        parsed = None if filter_ is None else parse_filter(filter_)
        if match := self.jobs.writing(documents, parsed):
            job, document = match
            count, rate = job.passages - job.done, job.rate(time()) or _USUAL_RATE
            raise Problem(
                409,
                "job-under-way",
                f"Job {job.id} will write document '{document:.80}', and has {count:,} passages "
                "left. Send this again after the seconds in Retry-After; or end the job with "
                f"DELETE /v1/jobs/{job.id}, which keeps what it has written, and resend now.",
                retry_after=count / rate,
            )

    def _unwritable(self, error: OSError) -> Problem:
        return not_writable(f"The index of '{self.collection.name}' cannot be written here", error)


@dataclass(eq=False)
class InterleavedAnalyser:
    """An analyser that works in slices between two batches of questions.

    The models are large and made for one thread, so ingest shares them: a question waits for at
    most one slice, which is as many steps of the analysis as begin within `_SLICE_SECONDS`. Between
    two slices, a `StoppedError` ends the work if it is to stop.
    """

    analyser: Analyser
    models: Batcher[Any, Any, Any]
    is_stopped: Callable[[], bool]  # called by other threads than the event loop's
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    _analyses: dict[str, AnalysedPassage] = field(default_factory=dict)

    @property
    def fingerprint(self) -> Mapping[str, str]:
        """Versions of the models, which stored rows depend on."""
        return self.analyser.fingerprint

    async def prepare(self, passages: Sequence[Passage]) -> None:
        """Analyse passages before the index is locked, in the event loop's thread."""
        missing = [passage for passage in passages if passage.id not in self._analyses]
        for start in range(0, len(missing), _GROUP):
            slice_ = missing[start : start + _GROUP]
            analyses = await self.take(self.analyser.analyse_in_steps(slice_))
            self._analyses.update(zip((passage.id for passage in slice_), analyses, strict=True))

    def analyse(self, passages: Sequence[Passage]) -> list[AnalysedPassage]:
        """One result per passage, in order; those that were not prepared are analysed now.

        Call it in a thread that is neither the models' nor the event loop's.
        """
        asyncio.run_coroutine_threadsafe(self.prepare(passages), self._loop).result()
        return [self._analyses[passage.id] for passage in passages]

    def encode_surfaces(self, surfaces: Sequence[str]) -> Float32:
        """(n, d) unit vectors of entity surfaces, in order; for the same threads as `analyse`."""
        slices = self.take(self.analyser.encode_surfaces_in_steps(surfaces))
        return asyncio.run_coroutine_threadsafe(slices, self._loop).result()

    def check(self) -> None:
        """Raise a `StoppedError` if the work is to stop."""
        if self.is_stopped():
            raise StoppedError

    async def take(self, steps: Steps[T], seconds: float | None = None) -> T:
        """Run steps of the models' work to the end and return their result.

        Steps that begin within so many seconds make one slice; None for the usual length.
        """
        results: list[T] = []

        def run_slice() -> None:
            until = perf_counter() + (_SLICE_SECONDS if seconds is None else seconds)
            try:
                next(steps)
                while perf_counter() < until:
                    next(steps)
            except StopIteration as end:
                results.append(end.value)

        while not results:
            await asyncio.to_thread(self.check)
            await self.models.call(run_slice)
        return results[0]
