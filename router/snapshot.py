"""Everything derived from one version of an index: the arms that a question needs of it."""

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from itertools import chain, islice
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import RLock, Thread

import numpy as np
from filelock import FileLock, Timeout

from wye.backends.dense import DenseRetriever
from wye.backends.errors import BackendError
from wye.backends.filters import Columns, parse_filter
from wye.backends.lexical import LexicalRetriever, searched_text
from wye.backends.numerics import products_of
from wye.backends.store.corpus import Corpus, read_corpus, read_whole, stored_corpus
from wye.backends.store.derived import FOLDER, DerivedFiles, most_changes, seconds_before_base
from wye.backends.store.index import PassageStore
from wye.backends.trigraph.graph import FilteredGraph, TriGraph, assemble
from wye.backends.trigraph.hops import Hop, second_hops
from wye.backends.trigraph.question import InMemory
from wye.backends.trigraph.retriever import TriGraphRetriever
from wye.backends.trigraph.tail import with_late
from wye.backends.types import (
    Arrays,
    Float32,
    Int64,
    Mask,
    Passage,
    Query,
    Ranking,
    Retriever,
    RowHits,
    TextScorer,
    WordCoverage,
)
from wye.featurizer.imports import HelperProcess, end_with_parent
from wye.router.settings import Settings
from wye.router.types import ARMS, Route

_PAPERS = "wye.backends.papers"
FURTHER_ARMS: Mapping[Route, str] = {Route.CLUE: "ClueRetriever", Route.ZOOM: "ZoomRetriever"}
"""Class of each further arm, in the module and with the settings of its name: `types.FURTHER`."""

LOCK = ".lock"
log = logging.getLogger(__name__)


class Snapshot:
    """Everything derived from one version of an index; later writes do not change it.

    A version that differs little from a base has that base: all versions on it share its arms.
    """

    def __init__(
        self,
        corpus: Corpus,
        files: DerivedFiles | None,
        settings: Settings,
        base: "Snapshot | None" = None,
    ) -> None:
        """Build no arm yet; `files` keep what is derived, and a late corpus needs its base."""
        self.corpus, self._files, self._settings = corpus, files, settings
        self.version = corpus.version
        self._base = base if corpus.parts else None
        self._building = RLock()
        self._dense: DenseRetriever | None = None
        self._lexical: LexicalRetriever | None = None
        self._graph: TriGraphRetriever | None = None
        self._assembled: TriGraph | None = None
        self._further: dict[Route, Retriever] = {}

    @classmethod
    def open(
        cls, index: PassageStore, settings: Settings, before: "Snapshot | None" = None
    ) -> "Snapshot":
        """The snapshot of the version that an index has in view, on the base of one before."""
        base = None if before is None else before.base
        files = index.newest_derived if base is None else base.later_files(index)
        if files is not None and (corpus := stored_corpus(index, files)) is not None:
            base = cls(corpus, files, settings)
        corpus = read_corpus(index, None if base is None else base.corpus)
        return cls(corpus, index.derived, settings, base)

    @classmethod
    def derive(cls, index: PassageStore, settings: Settings) -> None:
        """Derive everything from the version in view and write it to disk for later versions."""
        corpus, keep = read_whole(index)
        for arm in ARMS:  # a snapshot each, so that an arm maps what the others wrote
            getattr(cls(corpus, index.derived, settings), arm)
        keep()  # last: where the passages are there, so is all the rest

    def due(self, quiet: float = 0) -> int:
        """Passages changed since the base if a new one is due by then or a quiet time, else 0."""
        if not (self._files and self._files.is_persistent and self.corpus.parts):
            return 0
        count = len(self)
        changes = len(self.corpus.parts[1]) + len(self.corpus) - count
        is_due = changes > most_changes(count) or quiet > seconds_before_base(count)
        return changes if is_due else 0

    @property
    def base(self) -> "Snapshot":
        """The snapshot that later versions have as their base."""
        return self if self._base is None else self._base

    def later_files(self, index: PassageStore) -> DerivedFiles | None:
        """Derived files that came after this base, if its lexical and graph arms are on disk."""
        files, settings = index.newest_derived, self._settings
        if files is None or (self._files and files.folder == self._files.folder):
            return None
        assembly = settings.graph.assembly
        has_all = files.has(Route.LEXICAL, settings.lexical) and files.has(Route.GRAPH, assembly)
        return files if has_all else None

    def __len__(self) -> int:
        present = self.corpus.present
        return len(self.corpus) if present is None else int(present.sum())

    @property
    def ids(self) -> list[str]:
        """Ids of the passages, ascending."""
        return [self.corpus.ids[row] for row in self.corpus.by_id.tolist()]

    def names(self, id_: str, vector: Float32, sentences: int) -> list[tuple[str, int]]:
        """A passage's title, then the entities of its sentences nearest to a vector (d,).

        Each name comes with the row of its sentence, -1 for the title.
        """
        corpus = self.corpus
        (row,) = corpus.rows([id_])
        names = [(corpus.titles[row], -1)]
        rows = np.array(self._sentences([row])[0], np.int64)
        cosines = products_of(corpus.sentence_vectors, rows, vector)
        for sentence in rows[np.argsort(-cosines, kind="stable")][:sentences].tolist():
            names += [(name, sentence) for name in self._defined_in(row, sentence)]
            names += [(name, sentence) for name in corpus.entities.of(sentence)]
        return names

    def nearest(self, ids: Sequence[str], vector: Float32) -> list[float]:
        """The highest cosine of a sentence of each passage with a vector (d,); NaN without any."""
        corpus = self.corpus
        sentences = self._sentences(corpus.rows(ids))
        rows = np.array([*chain.from_iterable(sentences)], np.int64)
        cosines = iter(products_of(corpus.sentence_vectors, rows, vector).tolist())
        return [max(islice(cosines, len(each)), default=np.nan) for each in sentences]

    def _sentences(self, rows: Sequence[int]) -> list[range]:
        owners = self.corpus.sentence_passage
        passages = np.array(rows, owners.dtype)  # with another type, all owners would be copied
        starts, ends = (owners.searchsorted(passages, side).tolist() for side in ("left", "right"))
        return [*map(range, starts, ends)]

    def second_hops(
        self, question: str, vector: Float32, first: Sequence[str], *, allowed: Mask | None
    ) -> list[Hop]:
        """See `hops.second_hops`."""
        query, graph, lexical = Query(question, vector), self.graph.graph, self.lexical
        source = InMemory(self.corpus, graph, FilteredGraph(graph, allowed), query)

        def words(rows: Int64) -> Sequence[WordCoverage]:
            return lexical.words_in(question, rows.tolist(), ())

        return second_hops(source, words, query, first)

    def _defined_in(self, row: int, sentence: int) -> list[str]:
        """Names in a sentence that other passages define."""
        graph = self.graph.graph
        entities = graph.mentions.one(sentence).astype(np.int64)
        rows, titles = FilteredGraph(graph).titles(entities)
        titles[np.arange(len(entities)).repeat(titles)[rows == row]] = 0
        return [*map(graph.display_names.of, entities[titles > 0].tolist())]

    def for_batch(self, most: int) -> "Snapshot":
        """What answers one batch of questions, each with at most `most` hits."""
        del most
        return self

    def among(self, rows: Int64, allowed: Mask | None) -> Int64:
        """Those of some rows that a mask lets through."""
        return rows if allowed is None else rows[allowed[rows]]

    def mask(self, ids: Sequence[str], rows: Int64) -> Mask:
        """Mask (n,) of the passages whose ids are in these rows of a list."""
        corpus = self.corpus
        mask = np.zeros(len(corpus), bool)
        mask[rows if ids is corpus.ids else corpus.rows([ids[row] for row in rows])] = True
        return mask

    def passages(self, ids: Sequence[str]) -> dict[str, Passage]:
        """Id -> passage; unknown ids are left out."""
        return {passage.id: passage for passage in self.corpus.passages(ids)}

    def texts(self, ids: Sequence[str]) -> list[tuple[str, str]]:
        """Title and text of passages, in the order of the ids."""
        rows, titles = self.corpus.rows(ids), self.corpus.titles
        return [*zip([titles[row] for row in rows], self.corpus.texts(rows), strict=True)]

    def vectors(self, ranking: Ranking) -> Float32:
        """(n, d) vectors of a ranking's passages, in its order."""
        hits, corpus = ranking.hits, self.corpus
        if isinstance(hits, RowHits) and hits.ids is corpus.ids:
            return corpus.vectors[hits.rows]
        return corpus.vectors[np.array(corpus.rows(ranking.ids()), np.int64)]

    def _arrays(self, part: str, settings: object, make: Callable[[Path | None], Arrays]) -> Arrays:
        """Arrays of corpus and settings: those of files, or made with `DerivedFiles.with_room`."""
        if (files := self._files) is None:
            return make(None)
        if arrays := files.read(part, settings):
            return arrays
        files.write(part, arrays := files.with_room(make), settings)
        return files.read(part, settings) or arrays  # memory-mapped if written

    @property
    def dense(self) -> DenseRetriever:
        """The dense arm."""
        with self._building:
            if self._dense is None:
                corpus, base, files = self.corpus, self._base, self._files
                arrays = (files.read(Route.DENSE) if files and base is None else None) or {}
                self._dense = DenseRetriever(
                    corpus.ids,
                    corpus.vectors,
                    self._settings.dense,
                    arrays.get("codes"),
                    base=None if base is None else base.dense,
                    order=corpus.order,
                    present=corpus.present,
                )
                if files and not arrays and self._dense.codes is not None:
                    files.write(Route.DENSE, {"codes": self._dense.codes})
            return self._dense

    @property
    def lexical(self) -> LexicalRetriever:
        """The lexical arm."""
        corpus, base, settings = self.corpus, self._base, self._settings.lexical

        def make(_: Path | None) -> Arrays:
            return LexicalRetriever(corpus.ids, _texts(corpus), settings).to_arrays()

        with self._building:
            if self._lexical is None and corpus.parts and base is not None:
                texts, known = _texts(corpus.parts[1]), base.lexical
                self._lexical = LexicalRetriever(
                    corpus.ids, texts, settings, known, order=corpus.order, present=corpus.present
                )
            elif self._lexical is None:
                arrays = self._arrays(Route.LEXICAL, settings, make)
                self._lexical = LexicalRetriever.from_arrays(corpus.ids, arrays, settings)
            return self._lexical

    @property
    def graph(self) -> TriGraphRetriever:
        """The graph arm."""
        with self._building:
            if self._graph is None:
                # The lexical arm takes time and memory to build, so only if its scores count.
                lexical = self.lexical.score if self._settings.graph.weighs_lexical else None
                self._graph = TriGraphRetriever(
                    self.corpus,
                    self._settings.graph,
                    lexical,
                    self.assemble(),
                    near=self.dense.scores,
                    scorer=self._scorer,
                )
            return self._graph

    def build(self) -> None:
        """Derive now what the arms need, rather than for the first question; runs no model."""
        if len(self):
            _ = self.lexical
            # An arm that links by vector reads those of all names; few passages have no codes.
            _ = self.graph if self._settings.graph.seeds.nearest else self.assemble()
            _ = self._files and self._files.is_persistent and self.dense

    def further(self, arm: Route) -> Retriever:
        """An arm that is searched only where it is named; the first call builds it."""
        with self._building:
            if arm not in self._further:
                kind = getattr(import_module(f"{_PAPERS}.{arm}"), FURTHER_ARMS[arm])
                self._further[arm] = kind(self.graph, getattr(self._settings, arm))
            return self._further[arm]

    @cached_property
    def _scorer(self) -> TextScorer | None:
        settings = self._settings.reranker
        module = import_module("wye.router.text_scorer") if settings.model else None
        return module.EndpointScorer(settings.model, settings.name) if module else None

    def assemble(self) -> TriGraph:
        """The graph; that of a version with a base is the base's with late passages."""
        corpus, settings = self.corpus, self._settings.graph.assembly
        with self._building:
            if self._assembled is None and self._base is not None:
                self._assembled = with_late(corpus, self._base.assemble(), settings)
            elif self._assembled is None:
                arrays = self._arrays(
                    Route.GRAPH, settings, lambda room: assemble(corpus, settings, room).to_arrays()
                )
                self._assembled = TriGraph.from_arrays(corpus, arrays)
            return self._assembled

    def allowed(self, filter_: object | None) -> Mask | None:
        """Mask (n,) of the passages that a filter lets pass, None for all, or a `FilterError`."""
        if filter_ is None:
            return None
        parsed, present = parse_filter(filter_), self.corpus.present
        with self._building:
            mask = self.columns.passing(parsed)
            return mask if present is None else mask & present

    def words_in(
        self, texts: Sequence[str], ids: Sequence[Sequence[str]]
    ) -> list[tuple[WordCoverage, ...]]:
        """How some passages of each question cover its content words."""
        rows = [self.corpus.rows(passages) for passages in ids]
        titles = [[self.corpus.titles[row] for row in several] for several in rows]
        return [*map(self.lexical.words_in, texts, rows, titles)]

    @cached_property
    def columns(self) -> Columns:
        """The metadata of all passages, for filters."""
        if self.corpus.parts and self._base is not None:
            return Columns(self.corpus.parts[1].metadata, self._base.columns, self.corpus.present)
        return Columns(self.corpus.metadata)


def _texts(corpus: Corpus) -> Iterator[str]:
    """The text of each passage that the lexical arm matches."""
    pairs = zip(corpus.ids, corpus.iter_texts(), strict=True)
    return (searched_text(id_, title, text) for id_, (title, text) in pairs)


def start_deriving(folder: Path, settings: Settings) -> BaseProcess:
    """Start a process that derives everything from the newest version and writes it to the index.

    It has the lowest priority, and a lock lets only one such process run per index. If it is
    killed, the present base stays. Readers move to the new base once it is complete.
    """
    process = HelperProcess(target=derive, args=(folder, settings), daemon=True)
    process.start()
    return process


def derive(folder: Path, settings: Settings) -> None:
    """Body of the process; returns at once if another process holds the lock."""
    os.nice(19)
    Thread(target=end_with_parent, daemon=True).start()
    lock = FileLock(folder / FOLDER / LOCK, blocking=False, fallback_to_soft=False)
    try:
        with lock:
            Snapshot.derive(PassageStore.open(folder), settings)
    except Timeout:
        return  # another process is doing it
    except (BackendError, OSError) as error:
        log.warning(
            "The base of %s was not rebuilt, and the old one stays in use: %s.", folder, error
        )
