"""A version of an index that Lance searches, with the interface of one that is in memory."""

from collections.abc import Sequence
from copy import copy
from typing import NoReturn, Self, cast

import numpy as np

from wye.backends.dataset.arms import (
    DEPTH,
    DatasetDense,
    DatasetLexical,
    Narrowed,
    Numbers,
    narrowed,
)
from wye.backends.dataset.build import make_searchable, optimise, pins
from wye.backends.dataset.columns import Row
from wye.backends.dataset.graph import DatasetGraph
from wye.backends.dataset.question import InDataset
from wye.backends.dataset.version import DatasetVersion, require_columns
from wye.backends.errors import BackendError
from wye.backends.filters import parse_filter
from wye.backends.store.corpus import Corpus
from wye.backends.store.index import PassageStore, has_columns
from wye.backends.trigraph.hops import Hop, second_hops
from wye.backends.types import Float32, Int64, Mask, Passage, Progress, Query, Ranking, WordCoverage
from wye.router.settings import Settings
from wye.router.snapshot import Snapshot
from wye.router.types import Route


def searches_dataset(index: PassageStore, settings: Settings) -> bool:
    """Whether Lance searches an index, as in any object store; or an `IndexMismatchError`."""
    engine, schema = settings.engine, index.snapshot().schema
    if engine == "dataset" or index.is_remote:
        require_columns(index.path, schema)
        return True
    return engine == "auto" and has_columns(schema) and index.count() >= settings.dataset_from


def build_indices(
    index: PassageStore, settings: Settings, *, again: bool, progress: Progress | None = None
) -> int:
    """Have Lance index the version in view; returns the new version.

    Only rows that were written since are taken in, unless columns are made `again`, with the counts
    of now. An `IndexLockedError` if another process is writing, an `IndexMismatchError` if the
    columns are for other settings.
    """
    assembly = settings.graph.assembly
    if has_columns(index.snapshot().schema) and not again:
        DatasetVersion(index, pins(settings.lexical, assembly))
        return optimise(index)
    return make_searchable(index, settings.lexical, assembly, progress=progress)


class DatasetSnapshot(Snapshot):
    """A version that Lance searches. Nothing of it is in memory but a bounded cache of rows."""

    def __init__(self, index: PassageStore, settings: Settings) -> None:
        """Take the version that an index has in view, or raise an `IndexMismatchError`."""
        self._settings = settings
        self._version = DatasetVersion(index, pins(settings.lexical, settings.graph.assembly))
        self.version = index.version
        self._base = None
        self._begin_batch(DEPTH)

    def _begin_batch(self, most: int) -> None:
        version, settings = self._version, self._settings
        self._passages = _Passages(version)
        self.corpus = cast("Corpus", self._passages)
        self._dataset_dense = DatasetDense(version, most)
        numbers = self._passages.numbers
        self._dataset_lexical = DatasetLexical(version, settings.lexical, numbers, most)
        arms = self._dataset_dense, self._dataset_lexical
        self._dataset_graph = DatasetGraph(version, settings.graph, *arms)

    def for_batch(self, most: int) -> Self:
        """The same version with the memory of a new batch of questions."""
        later = copy(self)
        later._begin_batch(most)
        return later

    def build(self) -> None:
        """Nothing is derived."""

    def due(self, quiet: float = 0) -> int:
        """Nothing is derived."""
        del quiet
        return 0

    def __len__(self) -> int:
        return self._version.count

    @property
    def dense(self) -> DatasetDense:
        """The dense arm."""
        return self._dataset_dense

    @property
    def lexical(self) -> DatasetLexical:
        """The lexical arm."""
        return self._dataset_lexical

    @property
    def graph(self) -> DatasetGraph:
        """The graph arm."""
        return self._dataset_graph

    def further(self, arm: Route) -> NoReturn:
        """Refused: further arms need the whole corpus in memory."""
        raise BackendError(
            f"The arm '{arm}' needs the whole corpus in memory. Set WYE_ENGINE=memory for it, or "
            "take another route."
        )

    def allowed(self, filter_: object | None) -> Mask | None:
        """A metadata filter as Lance applies it, None if all pass, or a `FilterError`."""
        if filter_ is None:
            return None
        predicate = self._version.predicate(parse_filter(filter_))
        return cast("Mask", Narrowed(predicate))  # it goes where a mask goes

    def mask(self, ids: Sequence[str], rows: Int64) -> Mask:
        """What narrows a search to the passages whose ids are in these rows of a list."""
        chosen = tuple(ids[row] for row in rows.tolist())
        return cast("Mask", Narrowed(ids=chosen))

    def among(self, rows: Int64, allowed: Mask | None) -> Int64:
        """Those of some numbers whose passages a filter lets through."""
        predicate = narrowed(allowed).predicate
        if predicate is None or not len(rows):
            return rows
        ids = [self._passages.ids[row] for row in rows.tolist()]
        return np.sort(self._passages.numbers.of(self._version.addresses(ids, predicate)))

    def names(self, id_: str, vector: Float32, sentences: int) -> list[tuple[str, int]]:
        """A passage's title, then the entities of its sentences nearest to a vector (d,)."""
        (row,) = self._version.rows_of([id_])
        names, cosines = [(row.title, -1)], row.sentences.astype(np.float32) @ vector
        for nearest in np.argsort(-cosines, kind="stable")[:sentences].tolist():
            number = self._passages.sentence(row.address, nearest)
            names += [(name, number) for name in (*_defined_in(row, nearest), *row.tagged(nearest))]
        return names

    def nearest(self, ids: Sequence[str], vector: Float32) -> list[float]:
        """The highest cosine of a sentence of each passage with a vector (d,); NaN without any."""
        rows = {row.id: row for row in self._version.rows_of(ids)}
        cosines = (rows[id_].sentences.astype(np.float32) @ vector for id_ in ids if id_ in rows)
        return [float(max(each, default=np.nan)) for each in cosines]

    def second_hops(
        self, question: str, vector: Float32, first: Sequence[str], *, allowed: Mask | None
    ) -> list[Hop]:
        """See `hops.second_hops`."""
        self.lexical.learn([question])
        query = Query(question, vector)
        source = InDataset(self._dataset_graph, query, narrowed(allowed))
        return [
            hop._replace(sentence=self._passages.sentence(*source.address(hop.sentence)))
            for hop in second_hops(source, source.words, query, first)
        ]

    def words_in(
        self, texts: Sequence[str], ids: Sequence[Sequence[str]]
    ) -> list[tuple[WordCoverage, ...]]:
        """How some passages of each question cover its content words."""
        self.lexical.learn(texts)
        covered = []
        for text, hits in zip(texts, ids, strict=True):
            rows = self._version.rows_of(hits)
            position = {row.id: n for n, row in enumerate(rows)}
            known = [position[id_] for id_ in hits if id_ in position]
            lexical, titles = self._dataset_graph.lexical_of(rows), [rows[n].title for n in known]
            covered.append(lexical.words_in(text, known, titles))
        return covered

    def texts(self, ids: Sequence[str]) -> list[tuple[str, str]]:
        """Title and text of passages, in the order asked for."""
        return [(passage.title, passage.text) for passage in self._version.passages(ids)]

    def vectors(self, ranking: Ranking) -> Float32:
        """(n, d) vectors of a ranking's passages, in its order."""
        ids = ranking.ids()
        rows = {row.id: row.vector for row in self._version.rows_of(ids)}
        return np.array([rows[id_] for id_ in ids], np.float32)


def _defined_in(row: Row, sentence: int) -> list[str]:
    """Names in a sentence of a passage that other passages define, by key."""
    mentioned = row.mentions[row.mentions[:, 0] == sentence, 1].tolist()
    names = [row.name(position) for position in mentioned if position not in row.titles]
    return [name.shown for name in sorted(names) if name.titles]


class _Passages:
    """What is asked of a corpus; rows of passages and sentences are numbers of the batch."""

    def __init__(self, version: DatasetVersion) -> None:
        self._version, self.numbers = version, Numbers()
        self._sentences: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return self._version.count

    @property
    def ids(self) -> Sequence[str]:
        """Ids by number."""
        return self.numbers.texts

    def rows(self, ids: Sequence[str]) -> list[int]:
        """Numbers of passages."""
        numbers: list[int] = self.numbers.of(ids).tolist()
        return numbers

    def passages(self, ids: Sequence[str]) -> list[Passage]:
        """Passages by id, in the given order; unknown ids are left out."""
        return self._version.passages(ids)

    def sentence(self, address: int, position: int) -> int:
        """A number for a sentence, by the address of its row and its position there."""
        self._sentences.append((address, position))
        return len(self._sentences) - 1

    def sentence_texts(self, numbers: Sequence[int]) -> list[str]:
        """Texts of sentences by number."""
        return self._version.sentences([self._sentences[number] for number in numbers])
