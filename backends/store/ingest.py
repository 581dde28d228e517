"""Ingests passages window by window, one commit or more each; unchanged ones are not analysed."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain, groupby
from time import perf_counter
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from wye.backends.dataset.build import fill
from wye.backends.documents import whole_documents
from wye.backends.errors import SourceError
from wye.backends.files import canonical_json
from wye.backends.store.index import PassageStore, Writer, any_of, has_columns
from wye.backends.store.schema import (
    ANALYSIS_COLUMNS,
    LENGTH_COLUMN,
    NAMES,
    STATEMENTS,
    StoredAnalysis,
    StoredSentence,
    columns_of,
    to_analyses,
    to_passages,
)
from wye.backends.text import title_names
from wye.backends.types import (
    AnalysedPassage,
    IndexedPassage,
    Passage,
    PassageAnalyser,
    Progress,
    Silent,
)

WINDOW = 2_048
# After so long, analysed passages are committed even if their window has not ended.
COMMIT_SECONDS = 30.0
COMPACT_FROM = 32  # each window adds a fragment. So many of about one size are merged.
_WINDOW_OF_STATEMENTS = 32  # passages whose statements are analysed together


@dataclass(frozen=True, slots=True)
class IngestReport:
    """The result of an ingest; all changes it counts are committed."""

    added: int = 0  # number of passages with a new id
    updated: int = 0  # number of passages that had changed, if only in metadata
    unchanged: int = 0  # number of passages that were stored already
    removed: int = 0  # number of stored chunks that their document no longer has
    repeated: int = 0  # number of passages whose document occurred earlier in the ingest
    interrupted: bool = False  # whether Ctrl-C ended it early; another run does the rest
    version: int = 0  # the index version after it
    seconds: Mapping[str, float] = field(default_factory=dict)  # wall time by stage: read, write


def ingest(
    index: PassageStore,
    passages: Iterable[Passage],
    analyser: PassageAnalyser,
    *,
    batch_passages: int = WINDOW,
    entity_vectors: bool = False,
    progress: Progress | None = None,
) -> IngestReport:
    """Bring an index up to date with a stream of passages.

    Each window ends with a commit, and a long one has one every `COMMIT_SECONDS`. An ingest that
    was killed keeps what was committed, and the next run skips it. After Ctrl-C, all analysed
    passages are stored too. A stored document that occurs in the stream loses the chunks it no
    longer has; others are left alone. Memory holds one window and all ids so far.

    Args:
        passages: Chunks of a document should be consecutive; otherwise the late ones are deleted
            and written again. Of two documents with one id the first counts.
        batch_passages: Passages per window; more if a document ends later.
        entity_vectors: Also store a vector of each name that a written passage has.

    Raises:
        IndexMismatchError: The index is pinned to another analyser.
        IndexLockedError: Another writer holds the lock.
        SourceError: A passage has an id of another document's, or the index is too old for what is
            to be stored; earlier windows are stored.
    """
    index.check(analyser.fingerprint)
    progress = progress or Silent()
    progress.start(None, "passages")
    try:
        with index.writer() as writer:
            run = Ingest(writer, analyser, progress, entity_vectors=entity_vectors)
            windows = whole_documents(passages, batch_passages)
            try:
                while window := run.read(windows):
                    run.add(window)
            except KeyboardInterrupt:  # commits are atomic, so there is nothing to undo
                run.commit(is_repeated=True)
                run.report = replace(run.report, interrupted=True)
    finally:
        progress.close()
    return replace(run.report, version=writer.version, seconds=dict(run.seconds))


class Changes(NamedTuple):
    """What is to be written of a window."""

    fresh: Sequence[Passage]
    changes: Mapping[str, str]  # id of each -> "added", "updated" or, written again, "unchanged"
    stale: Sequence[str]  # ids to be deleted
    lengths: Mapping[str, int]  # document -> its number of chunks


class Ingest:
    """The state of a running ingest, such as the ids so far."""

    def __init__(
        self, writer: Writer, analyser: PassageAnalyser, progress: Progress, *, entity_vectors: bool
    ) -> None:
        self.report = IngestReport()
        self.seconds = {"read": 0.0, "write": 0.0}
        self._writer = writer
        self._analyser = analyser
        self._progress = progress
        self._analysed: list[tuple[Passage, AnalysedPassage, str]] = []  # with what is counted
        self._lengths: Mapping[str, int] = {}  # documents of the window -> their numbers of chunks
        self._committed = perf_counter()
        self._entity_vectors = entity_vectors
        self._document_of_id: dict[str, str] = {}  # id -> document
        self._begun: set[str] = set()  # documents whose first chunk was seen
        if entity_vectors:
            self.require(NAMES)

    @contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        """Count the wall time of the block towards a stage."""
        start = perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] += perf_counter() - start

    def read(self, windows: Iterator[Sequence[Passage]]) -> Sequence[Passage]:
        """The next window; none if there are no more."""
        with self._timed("read"):
            return next(windows, ())

    def choose(self, window: Sequence[Passage]) -> "Changes":
        """What is to be written of a window; passages that are stored already are counted."""
        new = list(self._first(window))
        with self._timed("write"):
            stored = self._look_up(new)
        hashes = {id_: hash_ for ids in stored.values() for id_, hash_ in ids.items()}
        stale = [id_ for id_ in hashes if id_ not in self._document_of_id]
        lengths = _lengths(new)
        # Each chunk states how many there are: all are written again if that changes.
        resized = {id_ for id_, n in lengths.items() if len(stored[id_]) not in (0, n)}
        fresh: list[Passage] = []
        changes: dict[str, str] = {}
        for passage in new:
            is_same = hashes.get(passage.id) == content_hash(passage)
            if not is_same or passage.document in resized:
                fresh.append(passage)
                is_new = passage.id not in hashes
                changes[passage.id] = "unchanged" if is_same else "added" if is_new else "updated"
        self.count(unchanged=len(new) - len(fresh), repeated=len(window) - len(new))
        self._progress.advance(len(window) - len(fresh))
        return Changes(fresh, changes, stale, lengths)

    def add(self, window: Sequence[Passage]) -> None:
        """Analyse and store a window."""
        fresh, changes, stale, self._lengths = self.choose(window)
        with self._timed("write"):
            analyses = self._known([each for each in fresh if changes[each.id] != "added"])
        for passage in fresh:
            if isinstance(passage, IndexedPassage) and passage.is_of(self._analyser.fingerprint):
                analyses.setdefault(passage.id, passage.analysis)
        analysed = self._analyse([passage for passage in fresh if passage.id not in analyses])
        for passage in fresh:
            analysis = analyses[passage.id] if passage.id in analyses else next(analysed)
            self._analysed.append((passage, analysis, changes[passage.id]))
            self._progress.advance(1)
            if perf_counter() - self._committed > COMMIT_SECONDS:
                self.commit()
        self.commit(stale)
        with self._timed("write"):
            self._writer.merge_small(COMPACT_FROM)

    def _known(self, stored: Sequence[Passage]) -> dict[str, AnalysedPassage]:
        """Id -> analysis in this index, for stored passages of which only the metadata changed."""
        if not stored:
            return {}
        dataset, passages = self._writer.dataset, {passage.id: passage for passage in stored}
        columns = [*columns_of(dataset.schema), *ANALYSIS_COLUMNS]
        with self._writer.index.reading():
            rows = dataset.to_table(columns=columns, filter=any_of("id", passages))
            pairs = zip(to_passages(rows), to_analyses(rows), strict=True)
            same = ((p, each) for p, each in pairs if p.analysed == passages[p.id].analysed)
            return {before.id: analysis for before, analysis in same}

    def _analyse(self, lacking: Sequence[Passage]) -> Iterator[AnalysedPassage]:
        if any(passage.statements for passage in lacking):
            self.require(STATEMENTS)
        for has_statements, group in groupby(lacking, lambda passage: bool(passage.statements)):
            passages = [*group]
            if not has_statements:
                yield from self._analyser.analyse(passages)
                continue
            for start in range(0, len(passages), _WINDOW_OF_STATEMENTS):
                window = passages[start : start + _WINDOW_OF_STATEMENTS]
                yield from _with_statements(window, self._analyser)

    def require(self, column: str) -> None:
        """Check that the index has a column, or raise a `SourceError`."""
        if column not in self._writer.dataset.schema.names:
            raise SourceError(
                f"This index was made before passages had {column}. Copy it with "
                "`wye index OLD --index NEW`, and use the new one."
            )

    def commit(self, stale: Sequence[str] = (), *, is_repeated: bool = False) -> None:
        """Write analysed passages, maybe once more, and delete stale ids, in one commit."""
        passages = [passage for passage, _, _ in self._analysed]
        analysed = [analysis for _, analysis, _ in self._analysed]
        changes = {passage.id: change for passage, _, change in self._analysed}
        replaced = [id_ for id_, change in changes.items() if is_repeated or change != "added"]
        schema = self._writer.dataset.schema
        encoder = self._analyser if self._entity_vectors else None
        rows = to_batch(passages, analysed, schema, self._lengths, encoder)
        with self._timed("write"):
            if has_columns(schema) and (passages or stale):
                rows = fill(self._writer, rows, [*replaced, *stale])
            removed = self._writer.upsert(rows, stale, replaced)
        # The writer's counts would be wrong after Ctrl-C, when some may have been written already.
        self.count(**Counter(changes.values()), removed=removed)
        self._analysed = []
        self._committed = perf_counter()

    def count(self, **more: int) -> None:
        """Add to the numbers of the report."""
        counts = {name: getattr(self.report, name) + count for name, count in more.items()}
        self.report = replace(self.report, **counts)

    def _first(self, window: Iterable[Passage]) -> Iterator[Passage]:
        """Yield passages of new documents, and their late chunks; skip repeated documents."""
        for document, chunks in groupby(window, key=lambda passage: passage.document):
            for passage in chunks:
                owner = self._document_of_id.get(passage.id, document)
                if owner != document:
                    raise _id_conflict(passage, owner)
                is_known = passage.id in self._document_of_id
                if is_known or (passage.chunk == 0 and document in self._begun):
                    break  # the rest is of the same repeated document
                self._document_of_id[passage.id] = document
                if passage.chunk == 0:
                    self._begun.add(document)
                yield passage

    def _look_up(self, passages: Sequence[Passage]) -> dict[str, dict[str, str]]:
        """Document of the passages -> stored id -> content hash."""
        owners = {passage.id: passage for passage in passages}
        stored: dict[str, dict[str, str]] = {passage.document: {} for passage in passages}
        condition = f"{any_of('document', stored)} OR {any_of('id', owners)}"
        columns = ["id", "document", "content_hash"]
        with self._writer.index.reading():
            rows = self._writer.dataset.to_table(columns=columns, filter=condition)
        for id_, document, hash_ in zip(*rows.to_pydict().values(), strict=True):
            if id_ in owners and owners[id_].document != document:
                raise _id_conflict(owners[id_], document)
            stored[document][id_] = hash_
        return stored


def _with_statements(
    passages: Sequence[Passage], analyser: PassageAnalyser
) -> Iterator[AnalysedPassage]:
    """Analyse passages with their statements in place of sentences.

    A triple mentions its head and its tail; of other statements, those without a mention are left
    out, as sentences are.
    """
    statements = [(each.id, claim) for each in passages for claim in each.statements]
    texts = [
        Passage(f"{id_} {number}", "", claim if isinstance(claim, str) else " ".join(claim))
        for number, (id_, claim) in enumerate(statements)
    ]
    parts = iter(zip(texts, list(analyser.analyse(texts)), strict=True))
    for passage, whole in zip(passages, list(analyser.analyse(passages)), strict=True):
        sentences = []
        for statement, (text, analysis) in zip(passage.statements, parts, strict=False):
            of_text = chain.from_iterable(each.entities for each in analysis.sentences)
            entities = tuple(of_text) if isinstance(statement, str) else statement[::2]
            phrases = tuple(chain.from_iterable(each.phrases for each in analysis.sentences))
            if entities or phrases:
                sentences.append(StoredSentence(text.text, entities, phrases, analysis.vector))
        yield StoredAnalysis(whole.vector, sentences)


def _id_conflict(passage: Passage, owner: str) -> SourceError:
    return SourceError(
        f"Passage {passage.id!r} of document {passage.document!r} has the id of a passage of "
        f"document {owner!r}. Give it another id, or delete that document first."
    )


def _lengths(passages: Iterable[Passage]) -> dict[str, int]:
    """Document -> its number of chunks; without those of which not all chunks follow each other."""
    lengths: dict[str, int] = {}
    for document, chunks in groupby(passages, key=lambda passage: passage.document):
        numbers = [passage.chunk for passage in chunks]
        is_all = document not in lengths and numbers == [*range(len(numbers))]
        lengths[document] = len(numbers) if is_all else 0
    return {document: length for document, length in lengths.items() if length}


def content_hash(passage: Passage) -> str:
    """128-bit hash in hex of everything that a row is computed from; equal hashes need no work."""
    text = passage.document, passage.chunk, passage.title, passage.text
    fields = [*text, canonical_json(dict(passage.metadata)), *passage.statements]
    return hashlib.blake2b(canonical_json(fields).encode(), digest_size=16).hexdigest()


def to_batch(
    passages: Sequence[Passage],
    analysed: Sequence[AnalysedPassage],
    schema: pa.Schema,
    lengths: Mapping[str, int] | None = None,
    encoder: PassageAnalyser | None = None,
) -> pa.RecordBatch:
    """Rows for n passages and their n analyses, in order; columns of no value are null.

    `lengths` is document -> its number of chunks; an encoder adds a vector of each name.
    """
    pairs = [*zip(passages, analysed, strict=True)]
    rows: list[dict[str, object]] = [
        {
            "id": passage.id,
            "document": passage.document,
            "chunk": passage.chunk,
            "title": passage.title,
            "text": passage.text,
            "metadata": canonical_json(dict(passage.metadata)),
            "content_hash": content_hash(passage),
            "vector": analysis.vector.astype(np.float16),
            "sentences": [
                {
                    "text": sentence.text,
                    "vector": sentence.vector.astype(np.float16),
                    "entities": sentence.entities,
                    "phrases": sentence.phrases,
                }
                for sentence in analysis.sentences
            ],
            LENGTH_COLUMN: (lengths or {}).get(passage.document),
            STATEMENTS: json.dumps(passage.statements) if passage.statements else None,
        }
        for passage, analysis in pairs
    ]
    if encoder is not None and NAMES in schema.names:
        names = [_names_of(passage, analysis) for passage, analysis in pairs]
        distinct = [*dict.fromkeys(chain.from_iterable(names))]
        vectors = dict(zip(distinct, encoder.encode_surfaces(distinct), strict=True))
        for row, of_row in zip(rows, names, strict=True):
            row[NAMES] = [{"name": x, "vector": vectors[x].astype(np.float16)} for x in of_row]
    return pa.RecordBatch.from_pylist(rows, schema)


def _names_of(passage: Passage, analysis: AnalysedPassage) -> list[str]:
    """The distinct names that a passage mentions or has as title, in order."""
    mentioned = (sentence.entities for sentence in analysis.sentences)
    return [*dict.fromkeys(chain(title_names(passage.title), *mentioned))]
