"""An opened index with its models: here the settings become parts that work together."""

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import asdict, replace
from functools import cache, cached_property
from pathlib import Path
from threading import Lock
from typing import Self, cast

from wye.backends.errors import IndexDamagedError
from wye.backends.store.index import PassageStore, has_columns
from wye.backends.store.ingest import IngestReport, ingest
from wye.backends.types import Passage, Progress
from wye.featurizer.analyser import Analyser, AnalyserSettings, SentenceVectors
from wye.featurizer.registry import TREE_FEATURES, syntax_matrix
from wye.router.batch import plan_of
from wye.router.dataset import DatasetSnapshot, build_indices, searches_dataset
from wye.router.errors import ModelFileError
from wye.router.evidence import COLUMNS, schema_id, without_corpus
from wye.router.explain import with_explanation
from wye.router.gateway import JUST_DECIDE, Gateway, check
from wye.router.model_files import load_router, with_thresholds
from wye.router.policy import Policy, RoutingModel
from wye.router.relevance import RelevanceModel
from wye.router.relevance_files import fingerprint, load_relevance
from wye.router.rerank import Reranker
from wye.router.settings import RelevanceSettings, RoutingSettings, Settings
from wye.router.snapshot import Snapshot
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
        """The analyser of these settings; a `ModelError` if a model is missing or damaged."""
        with self._loading:
            if settings not in self._analysers:
                self._analysers[settings] = Analyser(settings)
            return self._analysers[settings]

    def router(self, settings: RoutingSettings, analyser: Analyser) -> RoutingModel:
        """The router with the thresholds in its folder; a `ModelFileError` if it does not fit."""
        key = settings.folder().resolve(), schema_id(analyser.syntax_fingerprint)
        with self._loading:
            if key not in self._routers:
                self._routers[key] = load_router(key[0], schema_id=key[1], names=COLUMNS)
            return self._routers[key]

    def close(self) -> None:
        """Close every analyser."""
        with self._loading:
            self._routers.clear()
            while self._analysers:
                self._analysers.popitem()[1].close()


class IndexModels:
    """The models of an index, each loaded when it is first needed.

    They hold for all versions of the index, since other models cannot write to it.
    """

    def __init__(self, settings: Settings, index: PassageStore, cache: ModelCache) -> None:
        self._settings, self.index, self._cache = settings, index, cache

    @cached_property
    def analyser(self) -> Analyser:
        """The analyser of the index, by whose settings it was written, and whose models it checks.

        A `ModelError` if one is missing or damaged, an `IndexMismatchError` if the index has
        others.
        """
        settings, stored = self._settings.analyser, self.index.fingerprint
        vectors = cast("SentenceVectors", stored.get("sentence_vectors", settings.sentence_vectors))
        titled = stored.get("title_in_text") == "true"
        settings = replace(settings, sentence_vectors=vectors, title_in_text=titled)
        analyser = self._cache.analyser(settings)
        self.index.check(analyser.fingerprint)
        return analyser

    @cached_property
    def folder_router(self) -> RoutingModel:
        """The router with the thresholds in its own folder; raises as `router`."""
        return self._cache.router(self._settings.router, self.analyser)

    @cached_property
    def router(self) -> RoutingModel:
        """The router with the settings' thresholds; a `ModelFileError` or a `ModelError`."""
        return with_thresholds(self.folder_router, self._settings.router.thresholds)

    @property
    def loaded_router(self) -> RoutingModel | None:
        """The router; None until a question needs it."""
        return vars(self).get("router")

    @cached_property
    def relevance(self) -> RelevanceModel | None:
        """The model of relevance; None if the shipped one was fitted for other models or settings.

        A `ModelFileError` if it is missing or damaged, or is set by the user and does not fit.
        """
        settings = self._settings.relevance
        model = _relevance(settings)
        if model.made_with == fingerprint(self.index.fingerprint, self._settings):
            return model
        if settings == RelevanceSettings():
            return None
        raise ModelFileError(
            f"'{settings.model}' was fitted for other models, or other settings of the arms. Fit "
            "relevance again with `wye train --relevance`, or leave WYE_RELEVANCE__MODEL out."
        )

    def with_present_thresholds(self) -> "IndexModels | None":
        """These models with the thresholds now in their file; None if they are the present ones.

        If the file could not be used when the router was loaded, there are none until it can be. A
        `ModelFileError` if it cannot be used.
        """
        if not self._settings.router.thresholds or "folder_router" not in vars(self):
            return None
        router = with_thresholds(self.folder_router, self._settings.router.thresholds)
        if self.loaded_router and self.loaded_router.policy == router.policy:
            return None
        later = copy(self)
        later.router = router
        return later


class Session:
    """An opened index with its models; each part is made when it is first needed.

    A session keeps one version of the index and one set of thresholds, even if others are written.
    `reload` and `reload_thresholds` return a session of the newest.
    """

    def __init__(
        self, settings: Settings, index: PassageStore, models: ModelCache | None = None
    ) -> None:
        """Put an index and its models together; `open` and `create` also find the index.

        Args:
            models: A cache shared with other sessions, which its maker closes; None for a new one.
        """
        self.settings = settings
        self.index = index
        self._cache = ModelCache() if models is None else models
        self._owns_cache = models is None
        self.models = IndexModels(settings, index, self._cache)
        self._before: Snapshot | None = None
        self._later_base = ""  # name of the newest base that was adopted or tried

    @classmethod
    def open(cls, settings: Settings, folder: Path, models: ModelCache | None = None) -> Self:
        """Open the newest version of an index; an `IndexNotFoundError` if there is none."""
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
        session._owns_cache = True
        session.models.analyser = analyser
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
        """The analyser, checked against the index."""
        return self.models.analyser

    @property
    def router_name(self) -> str:
        """Name and version of the router; "" until a question needs it."""
        router = self.models.loaded_router
        return router.name if router else ""

    @property
    def policy(self) -> Policy | None:
        """The router's policy; None until a question needs the router."""
        router = self.models.loaded_router
        return router.policy if router else None

    @cached_property
    def snapshot(self) -> Snapshot:
        """Everything derived from the version in view."""
        before, self._before = self._before, None
        if self._searches_dataset:
            return DatasetSnapshot(self.index, self.settings)
        return Snapshot.open(self.index, self.settings, before)

    @property
    def _searches_dataset(self) -> bool:
        """Whether Lance searches the version; see `dataset.searches_dataset`."""
        index, engine = self.index, self.settings.engine
        can = engine == "dataset" or index.is_remote or has_columns(index.snapshot().schema)
        return can and searches_dataset(index, self.settings)

    @cached_property
    def gateway(self) -> Gateway:
        """The gateway that answers questions."""
        settings, models = self.settings, self.models
        defaults = settings.duplicates, Route(settings.router.route)
        return Gateway(self.snapshot, models, settings.fusion, models.relevance, *defaults)

    @property
    def reranker(self) -> Reranker:
        """Ranks texts that are not in the index, with word statistics of the version in view."""
        lexical, fusion = self.snapshot.lexical, self.settings.fusion
        return Reranker(self.analyser, lexical, fusion, self.models.relevance)

    def build(self) -> None:
        """Build all arms now rather than for the first question that needs them. Runs no model."""
        self.snapshot.build()

    def keep_derived(self) -> None:
        """Write the files of `wye.backends.store.derived` before a question has to wait for them.

        A small index has none. A version that differs little uses those of an earlier one.
        """
        if self._searches_dataset or self.index.fault or not self.index.is_large:
            return
        if not self.snapshot.corpus.parts:
            self.build()
        elif self.snapshot.due():
            Snapshot.derive(self.index, self.settings)

    def build_indices(self, *, again: bool = False, progress: Progress | None = None) -> int:
        """Have Lance index the newest version; see `dataset.build_indices`. Runs no model."""
        index = PassageStore.open(self.folder)
        return build_indices(index, self.settings, again=again, progress=progress)

    def ingest(
        self, passages: Iterable[Passage], *, progress: Progress | None = None
    ) -> IngestReport:
        """Bring the index up to date with passages; see `wye.backends.store.ingest.ingest`.

        The version in view stays the same until `reload`. The report's seconds split analysis into
        "parse" (the wait for it, where other processes parse) and "encode".
        """
        index, options = PassageStore.open(self.folder), asdict(self.settings.ingest)
        before = dict(self.analyser.seconds)
        report = ingest(index, passages, self.analyser, progress=progress, **options)
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
        newest = self.index.newest()
        if newest.fault and newest.version < self.index.version:
            raise IndexDamagedError(newest.fault)
        snapshot = vars(self).get("snapshot")
        base = None if isinstance(snapshot, DatasetSnapshot) else snapshot
        files = None if base is None else base.base.later_files(newest)
        later_base = files.folder.name if files else self._later_base
        # A base that could not be read is not tried again.
        if newest is self.index and later_base == self._later_base:
            return None
        later = self._without("snapshot", "gateway")
        later.index = newest
        later.models = copy(self.models)
        later.models.index = newest  # so that the handle of the former version can be closed
        later._later_base, later._before = later_base, base
        return later

    def reload_thresholds(self) -> "Session | None":
        """A session with the thresholds now in their file, None if they are the present ones.

        This session does not change, so a batch keeps the thresholds that it began with. A
        `ModelFileError` if the file cannot be used.
        """
        models = self.models.with_present_thresholds()
        if models is None:
            return None
        later = self._without("gateway")
        later.models = models
        return later

    def _without(self, *parts: str) -> "Session":
        """A copy in which some parts are made anew."""
        later = copy(self)
        for part in parts:
            vars(later).pop(part, None)
        return later

    def close(self) -> None:
        """Close the models, unless they are shared."""
        if self._owns_cache:
            self._cache.close()


def open_router(settings: Settings, models: ModelCache) -> RoutingModel:
    """The router of the settings, for work without an index; raises as `Session.router`."""
    model = models.router(settings.router, models.analyser(settings.analyser))
    return with_thresholds(model, settings.router.thresholds)


def decide_without_index(
    questions: Sequence[str], analyser: Analyser, model: RoutingModel, ask: Ask = JUST_DECIDE
) -> list[Decision]:
    """Decide the route of each question, by a router that uses features of the question alone.

    A `QuestionError` if one is empty, a `ModelFileError` if the router uses signals of a corpus.
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
    decisions = model.decide(features, explain=ask.explain)
    if not ask.explain:
        return decisions
    return [
        with_explanation(decision, syntax.trees, plan_of(parse.text, parse), None)
        for decision, syntax, parse in zip(decisions, syntaxes, parses, strict=True)
    ]


@cache
def _relevance(settings: RelevanceSettings) -> RelevanceModel:
    return load_relevance(settings.folder())
