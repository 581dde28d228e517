"""`wye index CORPUS --engine ray`: a Ray cluster reads, analyses, writes and builds the indices.

Ray Data reads the sources, with a task for each file. Their passages go, in the order of the
sources, to the process of the command, which chooses what is to be written. Actors analyse that and
write it as fragments of the dataset, which the process commits. Then tasks fill the columns that
Lance searches by, and lance-ray builds the indices.

Ray restarts tasks and actors after processes or nodes were lost. Every machine needs this version
of Wye, its models, and the sources and the index under the same paths, or in an object store.
"""

import json
import os
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, replace
from itertools import chain, cycle, islice
from pathlib import Path
from time import perf_counter
from typing import Any

import lance
import lance_ray
import pyarrow as pa
import ray
from ray.data import DataContext, Dataset, TaskPoolStrategy
from ray.exceptions import RayError
from ray.util import ActorPool
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as NodeAffinity

from wye.backends.dataset.build import (
    SCALAR_INDICES,
    VECTOR_INDEX,
    count,
    make_searchable,
    optimise,
    vector_lists,
    with_columns,
)
from wye.backends.dataset.counts import Counts
from wye.backends.documents import whole_documents
from wye.backends.files import canonical_json
from wye.backends.readers.records import BadLine, Ids, OnBad
from wye.backends.sources import DocumentSource
from wye.backends.store.index import PassageStore, Writer, has_columns, new_fragments
from wye.backends.store.ingest import (
    COMMIT_SECONDS,
    COMPACT_FROM,
    Changes,
    Ingest,
    IngestReport,
    to_batch,
)
from wye.backends.store.schema import to_passages
from wye.backends.types import Passage, Progress, Silent
from wye.featurizer.analyser import Analyser
from wye.router.session import Session
from wye.router.settings import Settings
from wye.service.errors import ServiceError
from wye.service.logs import LOG
from wye.service.terminal import folder_of

ROWS_PER_TASK = 64  # passages that a task returns at once
_READ = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in ("id", "document", "title", "text", "metadata")),
        pa.field("chunk", pa.int32()),
        pa.field("file", pa.string()),
        pa.field("bad", pa.string()),
    ]
)


def build(
    settings: Settings,
    files: Sequence[DocumentSource],
    options: Mapping[str, Any],
    on_bad: OnBad,
    *,
    address: str = "",
    actors: int | None = None,
    progress: Progress | None = None,
) -> IngestReport:
    """Bring the settings' index up to date with files, and have Lance index it.

    Args:
        files: Sources of one file each.
        options: Arguments of `DocumentSource.passages`, except `on_bad` and `on_note`.
        address: A running cluster; "" takes RAY_ADDRESS, or starts one on this machine.
        actors: Most processes that analyse; None for one per processor of the cluster.

    Raises:
        ServiceError: The cluster is not there, or fails.
        BackendError: The index cannot be written.
        ModelError: A model is missing or damaged.
    """
    start, progress = perf_counter(), progress or Silent()
    named = address or os.environ.get("RAY_ADDRESS") or "local"  # else Ray joins a dead cluster
    with _cluster(named), Session.create(settings, folder_of(settings)) as session:
        index, size = session.index, settings.ingest.batch_passages
        models = index.path, settings, session.analyser.fingerprint
        # They hold no processor: those of a lost node would wait for one that nobody gives back.
        actor: Any = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)(_Worker)
        nodes = _processors()
        workers = [
            actor.options(scheduling_strategy=NodeAffinity(node, soft=True)).remote(*models)
            for node in islice(cycle(nodes), actors or len(nodes))
        ]
        progress.start(None, "passages")
        try:
            with index.writer() as writer:
                run = _ClusterIngest(writer, session.analyser, progress, workers)
                try:
                    passages = Ids().first(_passages(_read(files, options), on_bad), on_bad)
                    for window in whole_documents(passages, size):
                        run.add(window)
                    run.finish()
                except KeyboardInterrupt:
                    run.store()
                    run.report = replace(run.report, interrupted=True)
        finally:
            progress.close()
            for worker in workers:
                ray.kill(worker)
        index = index.newest()
        analysed = perf_counter()
        if not run.report.interrupted:
            _make_searchable(index, settings, progress)
    seconds = {"cluster": analysed - start, "indices": perf_counter() - analysed}
    return replace(run.report, version=index.newest().version, seconds=seconds)


def _make_searchable(index: PassageStore, settings: Settings, progress: Progress) -> None:
    """Have Lance index what is not indexed yet, on the cluster where that is everything."""
    if has_columns(index.snapshot().schema):
        optimise(index)
    else:
        recipe = settings.lexical, settings.graph.assembly
        make_searchable(index, *recipe, over=_over, build=_build_indices, progress=progress)


def _over(task: Callable[[Any], Any], items: Iterable[object]) -> Iterator[Any]:
    """As `map`, with a task of the cluster for each item."""
    remote: Any = ray.remote(_run)
    waiting: deque[Any] = deque()
    for item in items:
        waiting.append(remote.remote(task, item))
        if len(waiting) > 2 * len(_processors()):
            yield ray.get(waiting.popleft())
    yield from map(ray.get, waiting)


def _run(task: Callable[[Any], Any], item: object) -> object:
    return task(item)


def _build_indices(dataset: lance.LanceDataset) -> None:
    """As `build_indices`, by lance-ray, with a part of each index on each processor."""
    for column, kind, options in SCALAR_INDICES:
        if kind == "LABEL_LIST":  # lance-ray 0.5 cannot; labels of filters are few
            dataset.create_scalar_index(column, kind, **options)
            continue
        every = {**options, "column": column, "index_type": kind}
        _on_living_nodes(lance_ray.create_scalar_index, dataset.uri, **every)
    if lists := vector_lists(dataset):
        options = {"metric": "dot", "num_partitions": lists}
        _on_living_nodes(lance_ray.create_index, dataset.uri, "vector", VECTOR_INDEX, **options)


def _on_living_nodes(create: Callable[..., object], *args: str, **options: object) -> None:
    """Call a function of lance-ray, again if Ray placed its pool on a node that was just dying."""
    try:
        create(*args, **options, num_workers=len(_processors()))
    except RayError as error:
        LOG.warning("An index is built again, since Ray failed: %s", error)
        create(*args, **options, num_workers=len(_processors()))  # fewer, where a node is gone


@contextmanager
def _cluster(address: str) -> Iterator[None]:
    """Connect to a cluster, or raise a `ServiceError`; this process' connection is left open."""
    try:
        if is_ours := not ray.is_initialized():
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # sends usage data otherwise
            try:
                ray.init(address, log_to_driver=False, logging_level="error")
            except Exception as error:  # on a busy machine, Ray raises just that
                raise ConnectionError(f"It did not start: {error}") from error
        yield
    except (RayError, ConnectionError) as error:
        why = str(error).strip().splitlines()[-1:]
        raise ServiceError(
            f"The Ray cluster gave up: {' '.join(why)} What was committed is kept; run the same "
            "command again to continue."
        ) from error
    finally:
        if is_ours:
            ray.shutdown()


def _read(files: Sequence[DocumentSource], options: Mapping[str, Any]) -> Dataset:
    """Rows of the passages and the bad lines of all files, in order."""
    context = DataContext.get_current()
    context.execution_options.preserve_order = True  # the first document with an id wins
    context.enable_progress_bars = context.print_on_execution_start = False
    numbers, workers = [{"file": number} for number in range(len(files))], len(_processors())
    blocks = ray.data.from_items(numbers, override_num_blocks=min(len(files), 16 * workers))
    return blocks.map_batches(
        _rows_of,
        fn_args=(list(files), dict(options)),
        batch_size=1,
        batch_format="pyarrow",
        num_cpus=0,  # an actor may hold the only processor
        compute=TaskPoolStrategy(size=max(1, workers // 2)),
    )


def _processors() -> list[str]:
    """The node of each processor of the cluster."""
    counts = {n["NodeID"]: int(n["Resources"].get("CPU", 0)) for n in ray.nodes() if n["Alive"]}
    return [node for node, count in counts.items() for _ in range(count)] or [*counts]


def _rows_of(
    numbers: pa.Table, files: Sequence[DocumentSource], options: Mapping[str, Any]
) -> Iterator[pa.Table]:
    """In a task: the passages of files as rows, with bad lines as rows of their own."""
    rows: list[dict[str, object]] = []

    def note(bad: BadLine) -> None:
        rows.append(_row(Passage("", "", ""), bad=json.dumps(astuple(bad))))

    for number in numbers["file"].to_pylist():
        for passage in files[number].passages(**options, on_bad=note):
            if passage.statements:
                why = f"{passage.id!r:.80} has statements; index it without --engine ray"
                note(BadLine(files[number].shown, None, why))
                continue
            rows.append(_row(passage, files[number].shown))
            if len(rows) >= ROWS_PER_TASK:
                yield pa.Table.from_pylist(rows, _READ)
                rows.clear()
    yield pa.Table.from_pylist(rows, _READ)


def _row(p: Passage, file: str = "", bad: str = "") -> dict[str, object]:
    values = p.id, p.document, p.title, p.text, canonical_json(dict(p.metadata)), p.chunk
    return dict(zip(_READ.names, (*values, file, bad), strict=True))


def _passages(rows: Dataset, on_bad: OnBad) -> Iterator[tuple[str, Passage]]:
    """File and passage of each row, in the order of the sources."""
    for block in rows.iter_batches(batch_size=None, batch_format="pyarrow"):
        columns = (block[name].to_pylist() for name in ("file", "bad"))
        for passage, file, bad in zip(to_passages(block), *columns, strict=True):
            if bad:
                on_bad(BadLine(*json.loads(bad)))
            else:
                yield file, passage


class _Worker:
    """An actor with models, which writes fragments."""

    def __init__(self, folder: Path, settings: Settings, fingerprint: Mapping[str, str]) -> None:
        analyser = settings.analyser
        single = replace(analyser, processes=1, encoder=replace(analyser.encoder, threads=1))
        self._analyser, self._index = Analyser(single), PassageStore.open(folder)
        self._encoder = self._analyser if settings.ingest.entity_vectors else None
        if self._analyser.fingerprint != fingerprint:
            raise RuntimeError("a machine of the cluster has other models than this machine")

    def write(
        self, passages: Sequence[Passage], lengths: Mapping[str, int]
    ) -> tuple[list[lance.FragmentMetadata], Counts]:
        """Write passages to files that no version names yet; also counts their words."""
        if not passages:
            return [], Counts()
        dataset, analysed = self._index.snapshot(), [*self._analyser.analyse(passages)]
        rows = to_batch(passages, analysed, dataset.schema, lengths, self._encoder)
        counts = Counts()
        if has_columns(dataset.schema):
            rows, counts = with_columns(self._index, rows)
        return new_fragments(rows, dataset), counts


class _ClusterIngest(Ingest):
    """An ingest whose windows are analysed and written by actors, each by one of them."""

    def __init__(
        self, writer: Writer, analyser: Analyser, progress: Progress, workers: Sequence[Any]
    ) -> None:
        super().__init__(writer, analyser, progress, entity_vectors=False)
        self._pool, self._most = ActorPool([*workers]), 2 * len(workers)
        self._waiting: deque[Changes] = deque()
        self._written: list[tuple[Changes, list[lance.FragmentMetadata], Counts]] = []

    def add(self, window: Sequence[Passage]) -> None:
        """Have a window written, once an actor has time for it."""
        choice = self.choose(window)
        if choice.fresh or choice.stale:
            self._waiting.append(choice)
            self._pool.submit(
                lambda actor, work: actor.write.remote(work.fresh, work.lengths), choice
            )
        if len(self._waiting) > self._most:
            self._take()

    def finish(self) -> None:
        """Wait for all windows, and commit them."""
        while self._waiting:
            self._take()
        self.store()
        self._writer.merge_small(COMPACT_FROM)

    def _take(self) -> None:
        fragments, counts = self._pool.get_next()
        choice = self._waiting.popleft()
        self._written.append((choice, fragments, counts))
        self._progress.advance(len(choice.fresh))
        if perf_counter() - self._committed > COMMIT_SECONDS:
            self.store()

    def store(self) -> None:
        """Commit the windows that are written, whole ones only."""
        written, self._written = self._written, []
        changes: dict[str, str] = {}
        for choice, _, _ in written:
            changes.update(choice.changes)
        stale = {*chain.from_iterable(choice.stale for choice, _, _ in written)}
        former = [*stale, *(id_ for id_, change in changes.items() if change != "added")]
        if has_columns(self._writer.dataset.schema):
            count(self._writer, former, Counts.sum(counts for _, _, counts in written))
        fragments = [*chain.from_iterable(new for _, new, _ in written)]
        if fragments or former:
            removed = self._writer.replace(fragments, former)
            self.count(**Counter(changes.values()), removed=len(removed & stale))
        self._committed = perf_counter()
