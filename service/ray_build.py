"""`wye index CORPUS --engine ray`: a Ray cluster reads and analyses, and one process writes.

Ray Data reads the sources, with a task for each file, and an actor pool analyses what is not stored
yet. Rows return as Arrow batches, in the order of the sources, to the process of the command. It
alone opens the index, and writes with `wye.backends.store.ingest`, so rows, commits and resumption
are those of a local build.

Ray restarts tasks and actors after processes or nodes were lost. Every machine needs this version
of Wye, its models, and the sources under the same paths.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, replace
from typing import Any

import numpy as np
import pyarrow as pa
import ray
from numpy.typing import NDArray
from ray.data import ActorPoolStrategy, DataContext, Dataset, TaskPoolStrategy
from ray.exceptions import RayError

from wye.backends.readers.records import BadLine, Ids, OnBad
from wye.backends.sources import DocumentSource
from wye.backends.store.index import PassageStore
from wye.backends.store.ingest import IngestReport, ingest
from wye.backends.store.schema import (
    content_hash,
    metadata_json,
    passage_schema,
    to_analyses,
    to_batch,
    to_passages,
)
from wye.backends.store.versions import reading
from wye.backends.types import AnalysedPassage, Float32, Passage, PassageAnalyser, Progress
from wye.featurizer.analyser import Analyser, AnalyserSettings
from wye.featurizer.types import PassageAnalysis
from wye.router.session import Session
from wye.router.settings import Settings
from wye.service.commands.options import folder_of
from wye.service.errors import ServiceError

ROWS_PER_TASK = 64
"""Passages that an actor analyses at once; if it dies, so many are done again."""
_READ = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in ("id", "document", "title", "text", "metadata")),
        pa.field("chunk", pa.int32()),
        pa.field("file", pa.string()),
        pa.field("bad", pa.string()),
    ]
)
_HASH = "S16"


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
    """Bring the settings' index up to date with files; see `wye.backends.store.ingest.ingest`.

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
    ingest_settings = settings.ingest
    with _cluster(address), Session.create(settings, folder_of(settings)) as session:
        models = settings.analyser, session.analyser.fingerprint, _stored_hashes(session.index)
        rows = _analyse(_read(files, options), models, actors)
        source = _ClusterPassages(rows, session.analyser, on_bad, ingest_settings.batch_passages)
        report = ingest(
            session.index,
            source.passages(),
            source,
            batch_passages=ingest_settings.batch_passages,
            entity_vectors=ingest_settings.entity_vectors,
            progress=progress,
        )
        if not report.interrupted:
            session.keep_derived()
    seconds = report.seconds
    stages = {"cluster": seconds["read"] + seconds["analyse"], "write": seconds["write"]}
    return replace(report, seconds=stages)


@contextmanager
def _cluster(address: str) -> Iterator[None]:
    """Connect to a cluster; an existing connection of this process is used and left open.

    Raises:
        ServiceError: There is no cluster at the address, or it fails during the work.
    """
    is_ours = not ray.is_initialized()
    try:
        if is_ours:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # sends usage data otherwise
            ray.init(address or None, log_to_driver=False, logging_level="error")
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
    numbers = [{"file": number} for number in range(len(files))]
    blocks = ray.data.from_items(numbers, override_num_blocks=min(len(files), 16 * _processors()))
    return blocks.map_batches(
        _rows_of,
        fn_args=(list(files), dict(options)),
        batch_size=1,
        batch_format="pyarrow",
        num_cpus=0,  # an actor may hold the only processor
        compute=TaskPoolStrategy(size=max(1, _processors() // 2)),
    )


def _analyse(rows: Dataset, models: tuple[Any, ...], actors: int | None) -> Dataset:
    """Analyse rows of passages; the result has the index's columns."""
    settings, fingerprint, hashes = models
    return rows.repartition(target_num_rows_per_block=ROWS_PER_TASK).map_batches(
        _Analyse,
        fn_constructor_args=(settings, fingerprint, hashes),
        batch_size=ROWS_PER_TASK,
        batch_format="pyarrow",
        num_cpus=1,
        compute=ActorPoolStrategy(min_size=1, max_size=actors or _processors()),
    )


def _processors() -> int:
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


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
    values = p.id, p.document, p.title, p.text, metadata_json(p.metadata), p.chunk
    return dict(zip(_READ.names, (*values, file, bad), strict=True))


class _Analyse:
    """An actor with models, which turns rows of passages into rows of an index."""

    def __init__(
        self,
        settings: AnalyserSettings,
        fingerprint: Mapping[str, str],
        hashes: NDArray[np.bytes_],
    ) -> None:
        single = replace(settings, processes=1, encoder=replace(settings.encoder, threads=1))
        self._analyser = Analyser(single)
        if self._analyser.fingerprint != fingerprint:
            raise RuntimeError("a machine of the cluster has other models than this machine")
        self._hashes = hashes
        self._schema = passage_schema(self._analyser.dimension, fingerprint)

    def __call__(self, rows: pa.Table) -> pa.Table:
        passages = to_passages(rows)
        good = [row for row, bad in enumerate(rows["bad"].to_pylist()) if not bad]
        hashes = _hash_array([content_hash(passages[row]) for row in good])
        new = [row for row, item in zip(good, hashes, strict=True) if not self._has(item)]
        nothing = PassageAnalysis(np.zeros(self._analyser.dimension, np.float32), ())
        analysed = [nothing] * len(passages)
        analyses = self._analyser.analyse([passages[row] for row in new])
        for row, item in zip(new, analyses, strict=True):
            analysed[row] = item
        table = pa.Table.from_batches([to_batch(passages, analysed, self._schema)])
        is_new = np.isin(np.arange(len(passages)), new)
        for name in ("file", "bad"):
            table = table.append_column(name, rows[name])
        return table.append_column("is_new", pa.array(is_new))

    def _has(self, hash_: np.bytes_) -> bool:
        row = int(np.searchsorted(self._hashes, hash_))
        return row < len(self._hashes) and self._hashes[row] == hash_


class _ClusterPassages:
    """Adapts the cluster's rows to `ingest`, as its passages and their analyser.

    A passage that was stored when the build began but is not any more was analysed by no actor, so
    it is analysed here.
    """

    def __init__(self, rows: Dataset, local: PassageAnalyser, on_bad: OnBad, window: int) -> None:
        self._rows = rows
        self._local = local
        self._on_bad = on_bad
        self._window = window
        self._ready: dict[tuple[str, str], AnalysedPassage] = {}

    @property
    def fingerprint(self) -> Mapping[str, str]:
        return self._local.fingerprint

    def passages(self) -> Iterator[Passage]:
        """All passages, in the order of the sources; of documents with one id the first."""
        return Ids().first(self._with_files(), self._on_bad)

    def _with_files(self) -> Iterator[tuple[str, Passage]]:
        for rows in self._rows.iter_batches(batch_size=None, batch_format="pyarrow"):
            columns = (rows[name].to_pylist() for name in ("file", "bad", "is_new", "content_hash"))
            for passage, analysis, file, bad, is_new, hash_ in zip(
                to_passages(rows), to_analyses(rows), *columns, strict=True
            ):
                if bad:
                    self._on_bad(BadLine(*json.loads(bad)))
                    continue
                if is_new:
                    self._ready[passage.id, hash_] = analysis
                    if len(self._ready) > self._window:  # drop the oldest; its window skipped it
                        del self._ready[next(iter(self._ready))]
                yield file, passage

    def analyse(self, passages: Sequence[Passage]) -> Iterable[AnalysedPassage]:
        for passage in passages:
            analysis = self._ready.pop((passage.id, content_hash(passage)), None)
            yield analysis if analysis is not None else next(iter(self._local.analyse([passage])))

    def encode_surfaces(self, surfaces: Sequence[str]) -> Float32:
        return self._local.encode_surfaces(surfaces)


def _stored_hashes(index: PassageStore) -> NDArray[np.bytes_]:
    """Content hashes of the current version, ascending."""
    with reading(index.path):
        column = index.snapshot().to_table(columns=["content_hash"])["content_hash"]
    return np.sort(_hash_array(column.to_pylist()))


def _hash_array(hashes: Sequence[str]) -> NDArray[np.bytes_]:
    return np.frombuffer(b"".join(map(bytes.fromhex, hashes)), _HASH)
