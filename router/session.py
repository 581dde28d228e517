"""An opened index with its models: here the settings become parts that work together."""

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path
from threading import Lock
from typing import Self

from wye.backends.errors import IndexDamagedError
from wye.backends.store.index import PassageStore
from wye.backends.store.ingest import IngestReport, ingest
from wye.backends.store.schema import has_columns
from wye.backends.types import Passage, Progress
from wye.featurizer.analyser import Analyser, AnalyserSettings
from wye.featurizer.registry import TREE_FEATURES, syntax_matrix
from wye.router.batch import plan_of
from wye.router.dataset import DatasetSnapshot, build_indices, searches_dataset
from wye.router.errors import ModelFileError
from wye.router.evidence import COLUMNS, schema_id, without_corpus
from wye.router.explain import in_words
from wye.router.gateway import JUST_DECIDE, Gateway, check
from wye.router.model_files import load_router, read_policy
from wye.router.policy import Policy, RoutingModel
from wye.router.relevance import RelevanceModel, fingerprint, load_relevance
from wye.router.rerank import Reranker
from wye.router.settings import RelevanceSettings, RoutingSettings, Settings
from wye.router.snapshot import Snapshot, later_files
from wye.router.types import Ask, Decision, Route


class ModelCache:
    """Keeps analysers and routers in memory. Its maker closes it after the last question.

    The cache itself is thread-safe. An analyser may be used by one thread at a time, so all indexes
    that share one have to be searched in the same thread.
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
        """The router in a folder, with its own thresholds.

        Args:
            schema: Id of the features that it will be given; see `evidence.schema_id`.

        Raises:
            ModelFileError: The router is missing, damaged, or was trained on other features.
        """
        key = folder.resolve(), schema
        with self._loading:
            if key not in self._routers:
                self._routers[key] = load_router(folder, schema_id=schema, names=COLUMNS)
            return self._routers[key]

    def close(self) -> None:
        """Close every analyser."""
        with self._loading:
            self._routers.clear()
            while self._analysers:
                self._analysers.popitem()[1].close()


class Session:
    """An opened index with its models; each part is made when it is first needed.

    A session keeps one version of the index and one set of thresholds, even if others are written.
    `reload` and `reload_thresholds` return a session of the newest.

    Attributes:
        index: The version in view.
    """

    def __init__(
        self, settings: Settings, index: PassageStore, models: ModelCache | None = None
    ) -> None:
        """Put an index and its models together; `open` and `create` also find the index.

        Args:
            models: A cache shared with other sessions, which its maker closes; None for its own.
        """
        self.settings = settings
        self.index = index
        self._models = ModelCache() if models is None else models
        self._owns_models = models is None
        self._analyser: Analyser | None = None
        self._snapshot: Snapshot | None = None
        self._before: Snapshot | None = None
        self._later_base = 0  # version of the newest base that was adopted or tried
        self._folder_router: RoutingModel | None = None  # with the thresholds from its own folder
        self._router: RoutingModel | None = None

    @classmethod
    def open(cls, settings: Settings, folder: Path, models: ModelCache | None = None) -> Self:
        """Open the newest version of an index.

        Raises:
            IndexNotFoundError: There is no index.
            IndexMismatchError: Another schema version wrote it.
        """
        return cls(settings, PassageStore.open(folder), models)

    @classmethod
    def create(cls, settings: Settings, folder: Path) -> Self:
        """Open an index, or create it if there is none; loads the models of the settings.

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
        """Folder of the index."""
        return self.index.path

    @property
    def version(self) -> int:
        """Version of the index that is searched."""
        return self.snapshot.version

    @property
    def count(self) -> int:
        """Number of passages in that version."""
        return len(self.snapshot)

    @property
    def analyser(self) -> Analyser:
        """The analyser, checked against the index.

        Settings of how passages are analysed do not affect questions, so the index's are used.

        Raises:
            ModelError: A model is missing or damaged.
            IndexMismatchError: The index was written with other models.
        """
        if self._analyser is None:
            settings, stored = self.settings.analyser, self.index.fingerprint
            analyser = self._models.analyser(
                replace(
                    settings,
                    sentence_vectors=stored.get("sentence_vectors", settings.sentence_vectors),
                    title_in_text=stored.get("title_in_text") == "true",
                )
            )
            self.index.check(analyser.fingerprint)
            self._analyser = analyser
        return self._analyser

    @property
    def snapshot(self) -> Snapshot:
        """Everything derived from the version in view."""
        if self._snapshot is None:
            if self._searches_dataset:
                self._snapshot = DatasetSnapshot(self.index, self.settings)
            else:
                self._snapshot = Snapshot(self.index, self.settings, self._before)
            self._before = None
        return self._snapshot

    @property
    def _searches_dataset(self) -> bool:
        """Whether Lance searches the version; see `dataset.searches_dataset`."""
        index, engine = self.index, self.settings.engine
        can = engine == "dataset" or index.is_remote or has_columns(index.snapshot().schema)
        return can and searches_dataset(index, self.settings)

    @property
    def gateway(self) -> Gateway:
        """The gateway that answers questions; made anew, so that none keeps a version alive."""
        return self.gateway_with(self.relevance)

    def gateway_with(self, relevance: RelevanceModel | None) -> Gateway:
        """The gateway with another model of relevance, which need not be one that fits."""
        return Gateway(
            arms=lambda: self.snapshot,
            open_analyser=lambda: self.analyser,
            fusion=self.settings.fusion,
            model=lambda: self.router,
            relevance_model=relevance,
            duplicates=self.settings.duplicates,
            route=Route(self.settings.router.route),
        )

    @property
    def reranker(self) -> Reranker:
        """Ranks texts that are not in the index, with word statistics of the version in view."""
        lexical, fusion = self.snapshot.lexical, self.settings.fusion
        return Reranker(self.analyser, lexical, fusion, self.relevance)

    @property
    def relevance(self) -> RelevanceModel | None:
        """The model of relevance; None if the shipped one was fitted for other models or settings.

        Raises:
            ModelFileError: The model is missing or damaged, or is the user's own and was fitted for
                other models or settings.
        """
        settings = self.settings.relevance
        model = _relevance(settings)
        if model.made_with == self._made_with:
            return model
        if settings == RelevanceSettings():
            return None
        raise ModelFileError(
            f"'{settings.model}' was fitted for other models, or other settings of the arms. Fit "
            "relevance again with `wye train --relevance`, or leave WYE_RELEVANCE__MODEL out."
        )

    @cached_property
    def _made_with(self) -> str:
        """What relevance must be fitted for; cached, as it takes longer than a lexical search."""
        return fingerprint(self.index.fingerprint, self.settings)

    @property
    def router(self) -> RoutingModel:
        """The router, with the thresholds of the settings.

        Raises:
            ModelFileError: The router is missing, damaged, or was trained on other features; or the
                thresholds file is missing, damaged or another router's.
            ModelError: A model that features are made of is missing or damaged.
        """
        if self._router is None:
            if self._folder_router is None:
                self._folder_router = _load_router(self.settings, self.analyser, self._models)
            self._router = _under_thresholds(self._folder_router, self.settings.router)
        return self._router

    @property
    def router_name(self) -> str:
        """Name and version of the router; "" until a question needs it."""
        return self._router.name if self._router else ""

    @property
    def policy(self) -> Policy | None:
        """The router's policy; None until a question needs the router."""
        return self._router.policy if self._router else None

    def build(self) -> None:
        """Build all arms now rather than for the first question that needs them. Runs no model."""
        self.snapshot.build()

    def keep_derived(self) -> None:
        """Write the files of `wye.backends.store.derived` before a question has to wait for them.

        A small index has none. A version that differs little uses those of an earlier one.
        """
        if self._searches_dataset or not self.index.derived.is_persistent:
            return
        if self.snapshot.corpus.two is None:
            self.build()
        elif self.snapshot.due():
            Snapshot.derive(self.index, self.settings)

    def build_indices(self, *, again: bool = False, progress: Progress | None = None) -> int:
        """Have Lance index the newest version; see `dataset.build_indices`. Runs no model."""
        index = PassageStore.open(self.folder)
        return build_indices(index, self.settings, again=again, progress=progress)

    def passages(self, ids: Sequence[str]) -> dict[str, Passage]:
        """Id -> passage, as of the version that is searched."""
        return {passage.id: passage for passage in self.snapshot.corpus.passages(ids)}

    def ingest(
        self, passages: Iterable[Passage], *, progress: Progress | None = None
    ) -> IngestReport:
        """Bring the index up to date with passages; see `wye.backends.store.ingest.ingest`.

        The version in view stays the same until `reload`. The report's seconds split analysis into
        "parse" (the wait for it, where other processes parse) and "encode".

        Raises:
            BackendError: The index cannot be written.
            ModelError: A model is missing or damaged.
        """
        settings, before = self.settings.ingest, dict(self.analyser.seconds)
        report = ingest(
            PassageStore.open(self.folder),
            passages,
            self.analyser,
            batch_passages=settings.batch_passages,
            entity_vectors=settings.entity_vectors,
            progress=progress,
        )
        after, seconds = self.analyser.seconds, report.seconds
        parse, encode = (after[stage] - before[stage] for stage in ("parsing", "encoding"))
        stages = {"read": seconds["read"], "parse": parse, "encode": encode}
        return replace(report, seconds={**stages, "write": seconds["write"]})

    def reload(self) -> "Session | None":
        """A session of the newest version with the same models; None if this is the newest.

        It may have the same version on a base that was derived since. This session does not change,
        so it can answer questions until the other has built its arms.

        Raises:
            IndexNotFoundError: The index is gone.
            IndexMismatchError: The index was created again with other models.
            IndexDamagedError: The newest version that can be read is older than that in view.
        """
        newest = self.index
        if not newest.is_newest:
            newest = PassageStore.open(self.folder, newest.fingerprint)
            if newest.fault and newest.version < self.index.version:
                raise IndexDamagedError(newest.fault)
        is_derived = self._snapshot is not None and not isinstance(self._snapshot, DatasetSnapshot)
        base = self._snapshot.base if self._snapshot and is_derived else None
        files = later_files(newest, self.settings, base) if base else None
        later_base = files.version if files else 0
        # A base that could not be read is not tried again.
        if newest is self.index and later_base <= self._later_base:
            return None
        later = copy(self)
        later.index = newest
        later._later_base = later_base
        later._snapshot, later._before = None, self._snapshot if is_derived else None
        return later

    def reload_thresholds(self) -> "Session | None":
        """A session with the thresholds now in their file; None if they are the present ones.

        This session does not change, so a batch keeps the thresholds that it began with. If the
        file could not be used when the router was loaded, there are none until it becomes valid.

        Raises:
            ModelFileError: The file is missing or damaged, or names another router.
        """
        if self._folder_router is None:
            return None
        router = _under_thresholds(self._folder_router, self.settings.router)
        if router.policy == self.policy:
            return None
        later = copy(self)
        later._router = router
        return later

    def close(self) -> None:
        """Close the models, unless they are shared."""
        if self._owns_models:
            self._models.close()


def open_router(settings: Settings, models: ModelCache) -> RoutingModel:
    """The router of the settings, for work without an index; raises as `Session.router`."""
    model = _load_router(settings, models.analyser(settings.analyser), models)
    return _under_thresholds(model, settings.router)


def decide_without_index(
    questions: Sequence[str], analyser: Analyser, model: RoutingModel, ask: Ask = JUST_DECIDE
) -> list[Decision]:
    """Decide the route of each question, by a router that uses features of the question alone.

    Raises:
        QuestionError: A question is empty, or there is no such operating point.
        ModelFileError: The router also uses signals of a corpus.
        PolicyError: No route can meet the latency.
    """
    check(questions)
    if model.asks_corpus:
        raise ModelFileError(
            "This router also needs the corpus. Name its index with --index DIR or WYE_INDEX."
        )
    parses = analyser.parse_questions(questions, tokens=True)
    trees = ask.explain or not TREE_FEATURES.isdisjoint(model.needs)
    syntaxes = analyser.syntax_of(parses, trees=trees)
    features = without_corpus(syntax_matrix(syntaxes, model.needs))
    decisions = model.at(ask.point).decide(
        features, max_latency_ms=ask.max_latency_ms, explain=ask.explain
    )
    if not ask.explain:
        return decisions
    return [
        in_words(decision, syntax.trees, plan_of(parse.text, parse), None)
        for decision, syntax, parse in zip(decisions, syntaxes, parses, strict=True)
    ]


@cache
def _relevance(settings: RelevanceSettings) -> RelevanceModel:
    return load_relevance(settings.folder())


def _load_router(settings: Settings, analyser: Analyser, models: ModelCache) -> RoutingModel:
    return models.router(settings.router.folder(), schema_id(analyser.syntax_fingerprint))


def _under_thresholds(model: RoutingModel, settings: RoutingSettings) -> RoutingModel:
    """The router with the thresholds that the settings' file has now; its own without a file."""
    if not settings.thresholds:
        return model
    return model.with_policy(read_policy(Path(settings.thresholds), model.name))
