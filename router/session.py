"""An opened index with its models: the one place where settings become parts that work together."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from threading import Lock, RLock
from typing import Self

import numpy as np

from backends.coverage import WordCoverage
from backends.dense import DenseRetriever, encode
from backends.errors import IndexDamagedError
from backends.filters import Columns, parse_filter
from backends.lexical import LexicalRetriever
from backends.progress import Progress
from backends.store.derived import DerivedFiles
from backends.store.index import PassageStore
from backends.store.ingest import IngestReport, ingest
from backends.store.snapshot import Corpus, earlier_corpus, read_corpus
from backends.trigraph.graph import TriGraph, assemble
from backends.trigraph.push import LocalWalk
from backends.trigraph.retriever import TriGraphRetriever
from backends.types import Mask, Passage, Retriever, UInt8
from featurizer.analyser import Analyser, AnalyserSettings
from router.batch import FurtherArm
from router.errors import ModelFileError
from router.gateway import Gateway, decide_without_index
from router.model import RoutingModel
from router.model_files import load_router, read_policy
from router.policy import Policy
from router.query_performance import NAMES, schema_id
from router.relevance import RelevanceModel, fingerprint, load_relevance
from router.rerank import Reranker
from router.settings import RelevanceSettings, RoutingSettings, Settings
from router.steps import CorpusPassages
from router.types import Decision, Route

FURTHER_ARMS: Mapping[Route, Callable[[TriGraphRetriever], FurtherArm]] = {
    Route.CLUE: lambda graph: import_module("backends.clue").ClueRetriever(graph),
    Route.ZOOM: lambda graph: import_module("backends.zoom").ZoomRetriever(graph),
}
"""How an arm that is asked only where it is named is made of the graph; see `types.FURTHER`."""

_LEXICAL = "lexical"
_DENSE = "dense"
_GRAPH = "graph"
_WALK = "walk"


class ModelCache:
    """Analysers and routers in memory; whoever makes it closes it, once nothing is asked any more.

    They may be asked for in any thread. An analyser itself is used by one thread at a time, so all
    indexes that share one have to be searched in the same thread.
    """

    def __init__(self) -> None:
        self._loading = Lock()
        self._analysers: dict[AnalyserSettings, Analyser] = {}
        self._routers: dict[tuple[Path, str], RoutingModel] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def analyser(self, settings: AnalyserSettings) -> Analyser:
        """The analyser of these settings.

        Raises:
            ModelError: A model is missing or damaged.
        """
        with self._loading:
            if settings not in self._analysers:
                self._analysers[settings] = Analyser(settings)
            return self._analysers[settings]

    def router(self, folder: Path, schema: str) -> RoutingModel:
        """The router of a folder, with its own thresholds.

        Args:
            schema: Id of the features that it will be given; see `query_performance.schema_id`.

        Raises:
            ModelFileError: It is missing, damaged, or was trained on other features.
        """
        key = folder.resolve(), schema
        with self._loading:
            if key not in self._routers:
                self._routers[key] = load_router(folder, schema_id=schema, names=NAMES)
            return self._routers[key]

    def close(self) -> None:
        """End what the analysers started; each is closed once, however many indexes share it."""
        with self._loading:
            self._routers.clear()
            while self._analysers:
                self._analysers.popitem()[1].close()


class _KeptArms:
    """The arms of one version, as far as the disk has what they are made of."""

    def __init__(self, corpus: Corpus, files: DerivedFiles, settings: Settings) -> None:
        self.corpus = corpus
        self._files = files
        self._settings = settings

    @property
    def known_codes(self) -> UInt8 | None:
        arrays = self._files.read(_DENSE)
        return arrays["codes"] if arrays else None

    def write_codes(self, codes: UInt8) -> None:
        self._files.write(_DENSE, {"codes": codes})

    @property
    def known_lexical(self) -> LexicalRetriever | None:
        settings = self._settings.lexical
        arrays = self._files.read(_LEXICAL, settings)
        return LexicalRetriever.from_arrays(self.corpus.ids, arrays, settings) if arrays else None

    @property
    def known_graph(self) -> TriGraph | None:
        arrays = self._files.read(_GRAPH, self._settings.graph.assembly)
        return TriGraph.from_arrays(self.corpus, arrays) if arrays else None

    def known_walk(self, graph: TriGraph) -> LocalWalk | None:
        arrays = self._files.read(_WALK, self._settings.graph.assembly)
        return LocalWalk.from_arrays(graph.passages, arrays) if arrays else None

    def write_walk(self, walk: LocalWalk) -> None:
        self._files.write(_WALK, walk.to_arrays(), self._settings.graph.assembly)

    def write_lexical(self, arm: LexicalRetriever) -> None:
        self._files.write(_LEXICAL, arm.to_arrays(), self._settings.lexical)

    def write_graph(self, graph: TriGraph) -> None:
        self._files.write(_GRAPH, graph.to_arrays(), self._settings.graph.assembly)


def _earlier(index: PassageStore, settings: Settings) -> _KeptArms | None:
    """Those of an earlier version, if this one has none."""
    found = earlier_corpus(index)
    return _KeptArms(*found, settings) if found else None


class Snapshot:
    """Everything derived from one version; nothing of it changes when the index is written to."""

    def __init__(
        self, index: PassageStore, settings: Settings, before: "Snapshot | None" = None
    ) -> None:
        """Take the version that an index has in view.

        Args:
            before: An earlier version of the same index with the same settings, from which what
                both have is taken over; kept until `settle`.
        """
        self.version = index.version
        earlier = before or _earlier(index, settings)
        self.corpus: Corpus = read_corpus(index, earlier.corpus if earlier else None)
        self._kept = _KeptArms(self.corpus, index.derived, settings)
        self._settings = settings
        self._building = RLock()
        self._before: Snapshot | _KeptArms | None = (
            earlier if self.corpus.origin is not None else None
        )
        self._dense: DenseRetriever | None = None
        self._lexical: LexicalRetriever | None = None
        self._graph: TriGraphRetriever | None = None
        self._further: dict[Route, FurtherArm] = {}

    def __len__(self) -> int:
        """How many passages there are."""
        return len(self.corpus)

    def retriever(self, arm: Route) -> Retriever:
        """An arm by name; the first call builds it.

        Raises:
            ValueError: It is a mix of arms rather than one.
        """
        match arm:
            case Route.DENSE:
                return self.dense
            case Route.LEXICAL:
                return self.lexical
            case Route.GRAPH:
                return self.graph
        if arm in FURTHER_ARMS:
            return self.further(arm)
        raise ValueError(f"'{arm}' is not a single arm")

    @property
    def passages(self) -> CorpusPassages:
        """Names and sentences of passages, for steps."""
        return CorpusPassages(self.corpus)

    def texts(self, ids: Sequence[str]) -> list[tuple[str, str]]:
        """Title and text of passages, in the order asked for."""
        rows = self.corpus.rows(ids)
        return list(
            zip([self.corpus.titles[row] for row in rows], self.corpus.texts(rows), strict=True)
        )

    @property
    def dense(self) -> DenseRetriever:
        """The dense arm."""
        with self._building:
            if self._dense is None:
                corpus, settings = self.corpus, self._settings.dense
                codes = self._codes() if settings.compresses(len(corpus)) else None
                self._dense = DenseRetriever(corpus.ids, corpus.vectors, settings, codes)
            return self._dense

    @property
    def lexical(self) -> LexicalRetriever:
        """The lexical arm."""
        with self._building:
            if self._lexical is None:
                self._lexical = self._kept.known_lexical or self._build_lexical()
            return self._lexical

    @property
    def graph(self) -> TriGraphRetriever:
        """The graph arm."""
        with self._building:
            if self._graph is None:
                settings = self._settings.graph
                kept = self._kept.known_graph
                walk = self._kept.known_walk(kept) if kept else None
                # Building the lexical arm takes time and memory, so only where its scores count.
                lexical = self.lexical.score if settings.weighs_lexical else None
                graph = kept or self._build_graph()
                self._graph = TriGraphRetriever(self.corpus, settings, lexical, graph, walk)
                if walk is None and self._before is None and self._graph.local_walk:
                    self._kept.write_walk(self._graph.local_walk)
            return self._graph

    def further(self, arm: Route) -> FurtherArm:
        """An arm that is asked only where it is named; the first call builds it."""
        with self._building:
            if arm not in self._further:
                self._further[arm] = FURTHER_ARMS[arm](self.graph)
            return self._further[arm]

    def _codes(self) -> UInt8:
        if (kept := self._kept.known_codes) is not None:
            return kept
        before = self._before.known_codes if self._before else None
        if before is None:
            found = encode(self.corpus.vectors)
            self._kept.write_codes(found)
            return found
        new = encode(self.corpus.vectors[self.corpus.changed])
        return np.concatenate([before, new])[self.corpus.places_after(len(before))]

    def _build_lexical(self) -> LexicalRetriever:
        before = self._before.known_lexical if self._before else None
        if before is not None and before.is_worn:
            before = None
        rows = self.corpus.changed if before else None
        found = LexicalRetriever(
            self.corpus.ids,
            (f"{title}\n{text}" for title, text in self.corpus.iter_texts(rows)),
            self._settings.lexical,
            (before, self.corpus.places_after(len(before.ids))) if before else None,
        )
        if before is None:
            self._kept.write_lexical(found)
        return found

    def _build_graph(self) -> TriGraph:
        known = self._before.known_graph if self._before else None
        before = (self._before.corpus, known) if self._before and known else None
        found = assemble(self.corpus, self._settings.graph.assembly, before)
        if before is None:
            self._kept.write_graph(found)
        return found

    @property
    def known_codes(self) -> UInt8 | None:
        """Codes of the dense arm if there are any."""
        return self._dense.codes if self._dense else None

    @property
    def known_lexical(self) -> LexicalRetriever | None:
        """The lexical arm if it was built."""
        return self._lexical

    @property
    def known_graph(self) -> TriGraph | None:
        """The graph if it was built."""
        return self._graph.graph if self._graph else None

    def settle(self) -> None:
        """Let go of the version before, now that all arms are built."""
        self._before = None

    def allowed(self, filter_: object | None) -> Mask | None:
        """(n,) passages that a metadata filter lets through, in id order; None lets all through.

        Raises:
            FilterError: It is no filter, or about a key that no passage has.
        """
        if filter_ is None:
            return None
        parsed = parse_filter(filter_)
        with self._building:
            return self._columns.passing(parsed)

    def words_in(self, text: str, ids: Sequence[str]) -> tuple[WordCoverage, ...]:
        """The content words of a question among a few passages."""
        rows = self.corpus.rows(ids)
        return self.lexical.words_in(text, rows, [self.corpus.titles[row] for row in rows])

    @cached_property
    def _columns(self) -> Columns:
        return Columns(self.corpus.metadata)


class Session:
    """An opened index with its models; each part is made when it is first needed.

    A session sees one version of the index and one set of thresholds, whatever is written
    meanwhile: `reload` and `reload_thresholds` give a session of what is there now.

    Attributes:
        index: The version in view.
    """

    def __init__(
        self, settings: Settings, index: PassageStore, models: ModelCache | None = None
    ) -> None:
        """Put an index and its models together; `open` and `create` also find the index.

        Args:
            models: Shared with others, and closed by whoever made them; None for its own.
        """
        self.settings = settings
        self.index = index
        self._models = ModelCache() if models is None else models
        self._owns_models = models is None
        self._analyser: Analyser | None = None
        self._snapshot: Snapshot | None = None
        self._before: Snapshot | None = None
        self._own_router: RoutingModel | None = None  # with the thresholds that it came with
        self._router: RoutingModel | None = None

    @classmethod
    def open(cls, settings: Settings, folder: Path, models: ModelCache | None = None) -> Self:
        """A session of the newest version of an index.

        Raises:
            IndexNotFoundError: There is none.
            IndexMismatchError: Another schema version wrote it.
        """
        return cls(settings, PassageStore.open(folder), models)

    @classmethod
    def create(cls, settings: Settings, folder: Path) -> Self:
        """The same for an index that is made if there is none; loads the models of the settings.

        Raises:
            ModelError: A model is missing or damaged.
            IndexNotFoundError: The folder holds something else.
            IndexMismatchError: The index there was written with other models.
        """
        models = ModelCache()
        try:
            analyser = models.analyser(settings.analyser)
            index = PassageStore.create(folder, analyser.dimension, analyser.fingerprint)
        except BaseException:
            models.close()
            raise
        session = cls(settings, index, models)
        session._owns_models = True
        session._analyser = analyser
        return session

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def folder(self) -> Path:
        """Of the index."""
        return self.index.path

    @property
    def version(self) -> int:
        """Of the index, that is searched."""
        return self.snapshot.version

    @property
    def count(self) -> int:
        """How many passages that version has."""
        return len(self.snapshot)

    @property
    def fault(self) -> str:
        """Why the version in view is not what was committed last; "" where it is."""
        return self.index.fault

    def check_files(self) -> None:
        """Refuse a version in view that can no longer be read, as far as file lengths tell.

        Raises:
            IndexDamagedError: Names a file that is missing or cut short.
        """
        self.index.check_files()

    @property
    def analyser(self) -> Analyser:
        """The models, known to be those of the index.

        How passages were read and their sentences encoded does not bear on questions, so it
        follows the index.

        Raises:
            ModelError: A model is missing or damaged.
            IndexMismatchError: The index was written with other models.
        """
        if self._analyser is None:
            own, stored = self.settings.analyser, self.index.fingerprint
            analyser = self._models.analyser(
                replace(
                    own,
                    sentence_vectors=stored.get("sentence_vectors", own.sentence_vectors),
                    title_in_text=stored.get("title_in_text") == "true",
                )
            )
            self.index.check(analyser.fingerprint)
            self._analyser = analyser
        return self._analyser

    @property
    def snapshot(self) -> Snapshot:
        """What is derived from the version in view."""
        if self._snapshot is None:
            self._snapshot = Snapshot(self.index, self.settings, self._before)
            self._before = None
        return self._snapshot

    @property
    def gateway(self) -> Gateway:
        """What answers questions; a new one at each call, so that none keeps a version alive."""
        return Gateway(
            arms=lambda: self.snapshot,
            analyser=lambda: self.analyser,
            fusion=self.settings.fusion,
            model=lambda: self.router,
            relevance=self.relevance,
        )

    @property
    def reranker(self) -> Reranker:
        """What ranks texts that are not in the index, by the version in view."""
        lexical, fusion = self.snapshot.lexical, self.settings.fusion
        return Reranker(self.analyser, lexical, fusion, self.relevance)

    @property
    def relevance(self) -> RelevanceModel | None:
        """What judges rankings; None where what ships fits other models or other settings.

        Raises:
            ModelFileError: It is missing or damaged, or one's own was fitted for others.
        """
        own = self.settings.relevance
        made_with = fingerprint(self.index.fingerprint, self.settings)
        model = _relevance(own)
        if model.made_with == made_with:
            return model
        if own == RelevanceSettings():
            return None
        raise ModelFileError(
            f"'{own.model}' was fitted for other models, or other settings of the arms. Fit "
            "relevance anew with `wye train --relevance`, or leave WYE_RELEVANCE__MODEL out."
        )

    @property
    def router(self) -> RoutingModel:
        """What chooses routes, under the thresholds of the settings.

        Raises:
            ModelFileError: It is missing, damaged, or was trained on other features; or the
                thresholds are missing, damaged or another router's.
            ModelError: A model that features are made of is missing or damaged.
        """
        if self._router is None:
            if self._own_router is None:
                self._own_router = _own_router(self.settings, self.analyser, self._models)
            self._router = _under_thresholds(self._own_router, self.settings.router)
        return self._router

    @property
    def router_name(self) -> str:
        """Name and version of the router; "" as long as no question has needed it."""
        return self._router.name if self._router else ""

    @property
    def policy(self) -> Policy | None:
        """What becomes of scores; None as long as no question has needed the router."""
        return self._router.policy if self._router else None

    def build(self) -> None:
        """Build all arms now rather than when a question first needs one; asks the models nothing.

        An index without passages has none to build.
        """
        for arm in (Route.DENSE, Route.LEXICAL, Route.GRAPH) if self.count else ():
            self.snapshot.retriever(arm)
        self.snapshot.settle()

    def keep_derived(self) -> None:
        """Have the files of `backends.store.derived` on the disk before a question waits for them.

        There are none of a small index. Those of an earlier version do for one that differs little.
        """
        if self.index.derived.is_kept and earlier_corpus(self.index) is None:
            self.build()

    def passages(self, ids: Sequence[str]) -> dict[str, Passage]:
        """Id -> passage in the version that is searched, whatever was written since."""
        return {passage.id: passage for passage in self.snapshot.corpus.passages(ids)}

    def ingest(
        self, passages: Iterable[Passage], *, progress: Progress | None = None
    ) -> IngestReport:
        """Bring the index up to date with passages; see `backends.store.ingest.ingest`.

        The version in view stays as it is until `reload`. Of the report's seconds, what is analysed
        is told apart: "parse" (the wait for it, where several processes do it) and "encode".

        Raises:
            BackendError: The index cannot be written.
            ModelError: A model is missing or damaged.
        """
        own, before = self.settings.ingest, dict(self.analyser.seconds)
        report = ingest(
            PassageStore.open(self.folder),
            passages,
            self.analyser,
            batch_passages=own.batch_passages,
            entity_vectors=own.entity_vectors,
            progress=progress,
        )
        after, seconds = self.analyser.seconds, report.seconds
        parse, encode = (after[stage] - before[stage] for stage in ("parsing", "encoding"))
        told = {"read": seconds["read"], "parse": parse, "encode": encode}
        return replace(report, seconds={**told, "write": seconds["write"]})

    def reload(self) -> "Session | None":
        """A session of the newest version with the same models; None while this is the newest.

        This one stays as it is, so questions can go on here until the other has built its arms.

        Raises:
            IndexNotFoundError: The index was taken away.
            IndexMismatchError: It was made anew with other models.
            IndexDamagedError: What is left of it is older than the version in view.
        """
        if self.index.is_newest:
            return None
        newest = PassageStore.open(self.folder, self.index.fingerprint)
        if newest.fault and newest.version < self.index.version:
            raise IndexDamagedError(newest.fault)
        later = copy(self)
        later.index = newest
        later._snapshot, later._before = None, self._snapshot
        return later

    def reload_thresholds(self) -> "Session | None":
        """The same version under the thresholds that their file has now; None while it has these.

        This one stays as it is, so that a batch goes by the thresholds that it began with. If the
        file was unusable when the router was loaded, there are none until it becomes valid.

        Raises:
            ModelFileError: The file is missing or broken, or names another router.
        """
        if self._own_router is None:
            return None
        router = _under_thresholds(self._own_router, self.settings.router)
        if router.policy == self.policy:
            return None
        later = copy(self)
        later._router = router
        return later

    def close(self) -> None:
        """End what the models started."""
        if self._owns_models:
            self._models.close()


def open_router(settings: Settings, models: ModelCache) -> RoutingModel:
    """The router of the settings for work without an index.

    Raises:
        ModelFileError: It is missing, damaged, or was trained on other features; or the thresholds
            are missing, damaged or another router's.
        ModelError: A model that features are made of is missing or damaged.
    """
    own = _own_router(settings, models.analyser(settings.analyser), models)
    return _under_thresholds(own, settings.router)


def decide(
    questions: Sequence[str],
    settings: Settings,
    models: ModelCache,
    *,
    max_latency_ms: float | None = None,
    explain: bool = False,
    point: str = "",
) -> list[Decision]:
    """Which route each question takes, without an index; see `gateway.decide_without_index`.

    Raises:
        ModelFileError: The router is missing, damaged, or looks at the corpus as well.
        ModelError: A model is missing or damaged.
        QuestionError: A question is empty.
        PolicyError: A latency that no route can be held to.
    """
    return decide_without_index(
        questions,
        models.analyser(settings.analyser),
        open_router(settings, models),
        max_latency_ms=max_latency_ms,
        explain=explain,
        point=point,
    )


@cache
def _relevance(settings: RelevanceSettings) -> RelevanceModel:
    return load_relevance(settings.folder())


def _own_router(settings: Settings, analyser: Analyser, models: ModelCache) -> RoutingModel:
    return models.router(settings.router.folder(), schema_id(analyser.syntax_fingerprint))


def _under_thresholds(model: RoutingModel, settings: RoutingSettings) -> RoutingModel:
    """The same router under the thresholds of the settings, as their file is at this moment."""
    if not settings.thresholds:
        return model
    return model.with_policy(read_policy(Path(settings.thresholds), model.name))
