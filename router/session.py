"""An opened index with its models: the one place where settings become parts that work together."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from threading import Lock, RLock
from typing import Self

from backends.coverage import WordCoverage
from backends.dense import DenseRetriever
from backends.errors import IndexDamagedError
from backends.filters import Columns, LayeredColumns, parse_filter
from backends.lexical import LayeredLexicalRetriever, LexicalRetriever
from backends.progress import Progress
from backends.refined import refine
from backends.store.derived import DerivedFiles, most_on_top
from backends.store.documents import stored_files, waits
from backends.store.extracted import ExtractedStore, Kind
from backends.store.index import PassageStore
from backends.store.ingest import IngestReport, ingest
from backends.store.snapshot import Corpus, kept_corpus, read_corpus, read_whole
from backends.trigraph.graph import TriGraph, assemble
from backends.trigraph.overlay import overlay
from backends.trigraph.push import LocalWalk
from backends.trigraph.retriever import TriGraphRetriever
from backends.types import Mask, Passage, Retriever, TextScorer
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
from router.types import ARMS, Decision, Route

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


class Snapshot:
    """Everything derived from one version; nothing of it changes when the index is written to.

    A version that differs little from a base is layered: what the arms of the base have is shared
    by all versions on top of it.
    """

    _extracted: ExtractedStore | None = None

    def __init__(
        self, index: PassageStore, settings: Settings, before: "Snapshot | None" = None
    ) -> None:
        """Take the version that an index has in view.

        Args:
            before: An earlier version of the same index with the same settings, whose base is used.
        """
        base = before.base if before else None
        below = before.corpus if before else None
        if below is not None and below.two is not None:
            below = below.two.base
        files = _later_files(index, settings, base) if base else index.derived.latest()
        if files is not None and (kept := kept_corpus(index, files)) is not None:
            base, below = Snapshot.of(kept, files, settings), kept
        self._begin(read_corpus(index, below), index.derived, settings, base)
        self._extracted = ExtractedStore(index.path, index.fingerprint)

    @classmethod
    def of(cls, corpus: Corpus, files: DerivedFiles, settings: Settings) -> Self:
        """Of a corpus that is not layered."""
        self = cls.__new__(cls)
        self._begin(corpus, files, settings, None)
        return self

    @classmethod
    def derive(cls, index: PassageStore, settings: Settings) -> None:
        """Derive everything from the version in view, and keep it for later ones."""
        corpus, keep = read_whole(index)
        for arm in ARMS:  # each by itself: it finds on the disk what it needs of the others
            cls.of(corpus, index.derived, settings).retriever(arm)
        keep()  # last: whoever finds the passages finds all

    def _begin(
        self, corpus: Corpus, files: DerivedFiles, settings: Settings, base: "Snapshot | None"
    ) -> None:
        self.corpus, self._files, self._settings = corpus, files, settings
        self.version = corpus.version
        self._base = base if corpus.two else None
        self._building = RLock()
        self._dense: DenseRetriever | None = None
        self._lexical: LexicalRetriever | None = None
        self._graph: TriGraphRetriever | None = None
        self._assembled: tuple[TriGraph, LocalWalk | None] | None = None
        self._further: dict[Route, FurtherArm] = {}

    @property
    def on_top(self) -> int:
        """Passages that were added since the base, or are gone."""
        two = self.corpus.two
        return len(two.passages.added) + len(two.passages.gone) if two else 0

    @property
    def outgrown(self) -> int:
        """The same where they are so many that a later base is due."""
        return self.on_top if self.on_top > most_on_top(len(self)) else 0

    @property
    def base(self) -> "Snapshot":
        """The version that later ones are put on top of."""
        return self._base or self

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
                base = self._base.dense if self._base else None
                ids, vectors, settings = self.corpus.ids, self.corpus.vectors, self._settings.dense
                kept = None if base else self._files.read(_DENSE)
                codes = kept["codes"] if kept else None
                self._dense = DenseRetriever(ids, vectors, settings, codes, base)
                if codes is None and self._dense.codes is not None:
                    self._files.write(_DENSE, {"codes": self._dense.codes})
            return self._dense

    @property
    def lexical(self) -> LexicalRetriever:
        """The lexical arm."""
        with self._building:
            if self._lexical is None:
                two, base = self.corpus.two, self._base
                self._lexical = (
                    LayeredLexicalRetriever(
                        self.corpus.ids, two.passages, base.lexical, _texts(two.added)
                    )
                    if two and base
                    else self._own_lexical()
                )
            return self._lexical

    @property
    def graph(self) -> TriGraphRetriever:
        """The graph arm; of extracted facts where it goes by facts and there are some."""
        with self._building:
            if self._graph is None and self._settings.graph.activation == "facts":
                self._graph = self._refined("facts")
            if self._graph is None:
                # Building the lexical arm takes time and memory, so only where its scores count.
                lexical = self.lexical.score if self._settings.graph.weighs_lexical else None
                graph, walk = self.assembled or self._assemble()
                settings = self._settings.graph
                self._graph = TriGraphRetriever(
                    self.corpus,
                    settings,
                    lexical,
                    graph,
                    walk,
                    near=self.dense.scores,
                    scorer=self._scorer,
                )
                local = self._graph.local_walk
                if walk is None and self._base is None and local is not None:
                    self._files.write(_WALK, local.to_arrays(), settings.assembly)
                self._assembled = graph, local
            return self._graph

    @property
    def assembled(self) -> tuple[TriGraph, LocalWalk | None] | None:
        """The graph and its local walk, as far as they were made or kept."""
        with self._building:
            settings = self._settings.graph.assembly
            if self._assembled is None and self._base is None:
                arrays = self._files.read(_GRAPH, settings)
                if arrays is not None:
                    graph = TriGraph.from_arrays(self.corpus, arrays)
                    walk = self._files.read(_WALK, settings)
                    local = LocalWalk.from_arrays(graph.passages, walk) if walk else None
                    self._assembled = graph, local
            return self._assembled

    def further(self, arm: Route) -> FurtherArm:
        """An arm that is asked only where it is named; the first call builds it."""
        with self._building:
            if arm not in self._further:
                refined = self._refined("units") if arm is Route.CLUE else None
                self._further[arm] = FURTHER_ARMS[arm](refined or self.graph)
            return self._further[arm]

    def _refined(self, kind: Kind) -> TriGraphRetriever | None:
        """The graph arm over what a language model extracted; None where there is nothing."""
        corpus = refine(self.corpus, self._extracted, kind) if self._extracted else None
        if corpus is None:
            return None
        settings = self._settings.graph
        if kind == "units":
            settings = replace(settings, activation="bridging")
        lexical = self.lexical.score if settings.weighs_lexical else None
        return TriGraphRetriever(corpus, settings, lexical, scorer=self._scorer)

    @cached_property
    def _scorer(self) -> TextScorer | None:
        own = self._settings.reranker
        return import_module("router.text_scorer").open_scorer(own) if own.model else None

    def _own_lexical(self) -> LexicalRetriever:
        settings = self._settings.lexical
        if arrays := self._files.read(_LEXICAL, settings):
            return LexicalRetriever.from_arrays(self.corpus.ids, arrays, settings)
        found = LexicalRetriever(self.corpus.ids, _texts(self.corpus), settings)
        self._files.write(_LEXICAL, found.to_arrays(), settings)
        return found

    def _assemble(self) -> tuple[TriGraph, LocalWalk | None]:
        """The graph, laid over that of the base where there is one."""
        settings, known = self._settings.graph.assembly, self._base and self._base.assembled
        if self.corpus.two and known:
            laid = overlay(self.corpus.two, *known, settings)
            if laid is not None:
                return laid
        if self._base:
            return assemble(self.corpus, settings), None
        graph = assemble(self.corpus, settings, self._files.room())
        self._files.write(_GRAPH, graph.to_arrays(), settings)
        return self.assembled or (graph, None)  # mapped, where it was kept

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
        if self._base and self.corpus.two:
            two = self.corpus.two
            return LayeredColumns(two.passages, self._base._columns, Columns(two.added.metadata))
        return Columns(self.corpus.metadata)


def _later_files(index: PassageStore, settings: Settings, base: Snapshot) -> DerivedFiles | None:
    """Of a version after a base that all is kept of which takes long to derive."""
    files = index.derived.latest()
    if files is None or files.version <= base.version:
        return None
    has_all = files.has(_LEXICAL, settings.lexical) and files.has(_GRAPH, settings.graph.assembly)
    return files if has_all else None


def _texts(corpus: Corpus) -> Iterator[str]:
    """What the lexical arm matches of each passage."""
    return (f"{title}\n{text}" for title, text in corpus.iter_texts())


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
        self._later_base = 0  # version of the last later base that was moved to, or tried
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

    def files(self) -> Mapping[str, object] | None:
        """See `stored_files` and `waits` of the store; None where there is no index here.

        Raises:
            IndexDamagedError: It cannot be read.
        """
        waiting = waits(self.index, self.snapshot.on_top)
        return {**stored_files(self.index), "waits": waiting}

    def lost(self) -> Mapping[str, str]:
        """Parts of the index that were left out since this was last asked, and why."""
        return {}

    def build(self) -> None:
        """Build all arms now rather than when a question first needs one; asks the models nothing.

        An index without passages has none to build.
        """
        for arm in ARMS if self.count else ():
            self.snapshot.retriever(arm)

    @property
    def outgrown(self) -> int:
        """See `Snapshot.outgrown`, of the version in view."""
        return self.snapshot.outgrown

    def keep_derived(self) -> None:
        """Have the files of `backends.store.derived` on the disk before a question waits for them.

        There are none of a small index. Those of an earlier version do for one that differs little.
        """
        if not self.index.derived.is_kept:
            return
        if self.snapshot.corpus.two is None:
            self.build()
        elif self.outgrown:
            Snapshot.derive(self.index, self.settings)

    def passages(self, ids: Sequence[str]) -> dict[str, Passage]:
        """Id -> passage in the version that is searched, whatever was written since."""
        return {passage.id: passage for passage in self.snapshot.corpus.passages(ids)}

    def ingest(
        self, passages: Iterable[Passage], *, progress: Progress | None = None
    ) -> IngestReport:
        """Bring the index up to date with passages; see `backends.store.ingest.ingest`.

        The version in view stays as it is until `reload`. Of the report's seconds, what is analysed
        is told apart: "parse" (the wait for it, where other processes do it) and "encode".

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

        It may be of the same version, on top of a base that was derived meanwhile. This one stays
        as it is, so questions can go on here until the other has built its arms.

        Raises:
            IndexNotFoundError: The index was taken away.
            IndexMismatchError: It was made anew with other models.
            IndexDamagedError: What is left of it is older than the version in view.
        """
        newest = self.index
        if not newest.is_newest:
            newest = PassageStore.open(self.folder, newest.fingerprint)
            if newest.fault and newest.version < self.index.version:
                raise IndexDamagedError(newest.fault)
        base = self._snapshot.base if self._snapshot else None
        files = _later_files(newest, self.settings, base) if base else None
        later_base = files.version if files else 0
        # One that cannot be read is not tried again.
        if newest is self.index and later_base <= self._later_base:
            return None
        later = copy(self)
        later.index = newest
        later._later_base = later_base
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
