"""Models by what they were loaded from: equal ones are loaded once for all of a process."""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from threading import Lock, RLock
from typing import Any

from backends.dense import DenseRetriever
from backends.filters import Columns, parse_filter
from backends.lexical import LexicalRetriever
from backends.store.index import Index
from backends.store.snapshot import Corpus, read_corpus
from backends.trigraph.retriever import TriGraphRetriever
from backends.types import Mask, Passage, Retriever
from featurizer.analyser import Analyser, AnalyserSettings
from router.adapters import Passages, Questions
from router.gateway import Gateway, decide_without_index
from router.model import RoutingModel
from router.model_files import load, read_policy
from router.policy import Policy
from router.query_performance import NAMES, schema_id
from router.settings import RoutingSettings, Settings
from router.types import Decision, Route


class ModelCache:
    """Analysers and routers in memory; whoever makes it closes it, once nothing is asked any more.

    They may be asked for in any thread. An analyser itself is used by one thread at a time, so all
    indexes that share one have to be searched in the same thread.
    """

    def __init__(self) -> None:
        self._loading = Lock()
        self._analysers: dict[AnalyserSettings, Analyser] = {}
        self._routers: dict[tuple[Path, str], RoutingModel] = {}

    def analyser(
        self, settings: AnalyserSettings, make: Callable[[AnalyserSettings], Analyser]
    ) -> Analyser:
        """The analyser of these settings.

        Args:
            settings: Which models, and how they are used.
            make: Loads it, where nobody did yet.

        Raises:
            ModelError: A model is missing or damaged.
        """
        with self._loading:
            if settings not in self._analysers:
                self._analysers[settings] = make(settings)
            return self._analysers[settings]

    def router(self, folder: Path, schema: str) -> RoutingModel:
        """The router of a folder, with its own thresholds.

        Args:
            folder: Of its version.
            schema: Of the features that it will be given; see `router.query_performance.schema_id`.

        Raises:
            ModelFileError: It is missing, damaged, or was trained on other features.
        """
        key = folder.resolve(), schema
        with self._loading:
            if key not in self._routers:
                self._routers[key] = load(folder, schema_id=schema, names=NAMES)
            return self._routers[key]

    def close(self) -> None:
        """End what the analysers started; each is closed once, however many indexes share it."""
        with self._loading:
            self._routers.clear()
            while self._analysers:
                self._analysers.popitem()[1].close()


def without_own_thresholds(
    settings: RoutingSettings, analyser: Analyser, models: ModelCache
) -> RoutingModel:
    """The router of the settings with its own thresholds.

    Args:
        settings: Name it.
        analyser: What the features are made of that it will be given.
        models: May have it already.

    Raises:
        ModelFileError: It is missing, damaged, or was trained on other features.
        ModelError: The constituency model is missing or damaged.
    """
    return models.router(settings.folder(), schema_id(analyser.syntax_fingerprint))


def with_thresholds(model: RoutingModel, settings: RoutingSettings) -> RoutingModel:
    """The same router under the thresholds of the settings, as their file is at this moment.

    Args:
        model: With its own thresholds.
        settings: May name a file of others.

    Raises:
        ModelFileError: The file is missing or broken, or names another router.
    """
    if not settings.thresholds:
        return model
    return model.with_policy(read_policy(Path(settings.thresholds), model.name))


class Snapshot:
    """Everything derived from one version; nothing of it changes when the index is written to."""

    def __init__(self, index: Index, settings: Settings, before: "Snapshot | None" = None) -> None:
        """Take the version that an index has in view.

        Args:
            index: To read from.
            settings: Of the arms.
            before: An earlier version of the same index with the same settings, from which what
                both have is taken over; kept until `settle`.
        """
        self._settings = settings
        self._building = RLock()
        self._before = before
        self.version = index.version
        self.corpus: Corpus = read_corpus(index, before.corpus if before else None)

    def __len__(self) -> int:
        """How many passages there are."""
        return len(self.corpus)

    def retriever(self, arm: Route) -> Retriever:
        """An arm by name; the first call builds it.

        Raises:
            ValueError: It is a mix of arms rather than one.
        """
        arms: dict[Route, Callable[[], Retriever]] = {
            Route.DENSE: lambda: self.dense,
            Route.LEXICAL: lambda: self.lexical,
            Route.GRAPH: lambda: self.graph,
        }
        if arm not in arms:
            raise ValueError(f"'{arm}' is not a single arm")
        with self._building:
            return arms[arm]()

    @cached_property
    def dense(self) -> DenseRetriever:
        """The dense arm."""
        return DenseRetriever(self.corpus.ids, self.corpus.vectors, self._settings.dense)

    @cached_property
    def lexical(self) -> LexicalRetriever:
        """The lexical arm."""
        before = self._built("lexical")
        follows = isinstance(before, LexicalRetriever) and not before.is_worn
        rows = self.corpus.changed if follows else None
        return LexicalRetriever(
            self.corpus.ids,
            (f"{title}\n{text}" for title, text in self.corpus.iter_texts(rows)),
            self._settings.lexical,
            (before, self.corpus.places_after(len(before.ids))) if follows else None,
        )

    @cached_property
    def graph(self) -> TriGraphRetriever:
        """The graph arm."""
        settings = self._settings.graph
        # Building the lexical arm takes time and memory, so only where its scores count.
        wanted = settings.lexical_weight or settings.lexical_weight_titled
        return TriGraphRetriever(
            self.corpus,
            settings,
            self.lexical.scores if wanted else None,
            self._built("graph"),
        )

    def settle(self) -> None:
        """Let go of the version before, now that all arms are built."""
        self._before = None

    def _built(self, arm: str) -> Any:  # noqa: ANN401 - as many types as arms
        """An arm of the version before, if this one was read after it and the arm was built."""
        if self._before is None or self.corpus.origin is None:
            return None
        return self._before.__dict__.get(arm)

    def allowed(self, filter_: object | None) -> Mask | None:
        """(n,) passages that a metadata filter lets through, in id order; None lets all through.

        Raises:
            FilterError: It is no filter.
        """
        if filter_ is None:
            return None
        parsed = parse_filter(filter_)
        with self._building:
            return parsed.mask(self._columns)

    @cached_property
    def _columns(self) -> Columns:
        return Columns(self.corpus.metadata)


class Session:
    """An index with all that searching it takes; each part is made when first needed."""

    def __init__(self, settings: Settings, folder: Path, models: ModelCache | None = None) -> None:
        """Open an index.

        Args:
            settings: Each part gets its slice.
            folder: Of the index.
            models: Shared with others, and closed by whoever made them; None for its own.

        Raises:
            IndexNotFoundError: There is none.
            IndexMismatchError: Another schema version wrote it.
        """
        self.settings = settings
        self.index = Index.open(folder)
        self._models = ModelCache() if models is None else models
        self._owns_models = models is None

    @cached_property
    def analyser(self) -> Analyser:
        """The models, known to be those of the index.

        How passages were read and their sentences encoded does not bear on questions, so it
        follows the index.

        Raises:
            ModelError: A model is missing or damaged.
            IndexMismatchError: The index was written with other models.
        """
        own = self.settings.analyser
        stored = self.index.fingerprint
        wanted = replace(
            own,
            sentence_vectors=stored.get("sentence_vectors", own.sentence_vectors),
            title_in_text=stored.get("title_in_text") == "true",
        )
        analyser = self._models.analyser(wanted, Analyser)
        self.index.check(analyser.fingerprint)
        return analyser

    @property
    def folder(self) -> Path:
        """Of the index."""
        return self.index.path

    @cached_property
    def reader(self) -> Passages:
        """The same models, for passages that are to be added."""
        return Passages(self.analyser)

    @cached_property
    def snapshot(self) -> Snapshot:
        """The version in view."""
        return Snapshot(self.index, self.settings, self.__dict__.pop("before", None))

    @cached_property
    def gateway(self) -> Gateway:
        """What answers questions."""
        return Gateway(
            arms=lambda: self.snapshot,
            analyses=lambda: Questions(self.analyser),
            fusion=self.settings.fusion,
            model=lambda: self.router,
        )

    @property
    def version(self) -> int:
        """Of the index, that is searched."""
        return self.snapshot.version

    @property
    def count(self) -> int:
        """How many passages that version has."""
        return len(self.snapshot)

    def decide(
        self,
        questions: Sequence[str],
        *,
        max_latency_ms: float | None = None,
        explain: bool = False,
    ) -> list[Decision]:
        """What the gateway would decide; see `router.gateway.Gateway.decide`."""
        return self.gateway.decide(questions, max_latency_ms=max_latency_ms, explain=explain)

    @cached_property
    def router(self) -> RoutingModel:
        """What chooses routes, under the thresholds of the settings."""
        return with_thresholds(self._untuned, self.settings.router)

    @cached_property
    def _untuned(self) -> RoutingModel:
        return without_own_thresholds(self.settings.router, self.analyser, self._models)

    @property
    def router_name(self) -> str:
        """Name and version of the router; "" as long as no question has needed it."""
        return self.router.name if "router" in self.__dict__ else ""

    @property
    def policy(self) -> Policy | None:
        """What becomes of scores; None as long as no question has needed the router."""
        return self.router.policy if "router" in self.__dict__ else None

    def successor(self) -> "Session | None":
        """A container of the newest version with the same models; None while this is the newest.

        This one stays as it is, so questions can go on here until the other has built its arms.

        Raises:
            IndexNotFoundError: The index was taken away.
            IndexMismatchError: It was made anew with other models.
        """
        if self.index.is_newest:
            return None
        later = Session(self.settings, self.index.path, self._models)
        later.index.check(self.index.fingerprint)
        later._owns_models = self._owns_models
        for part in ("analyser", "_untuned", "router"):
            if part in self.__dict__:
                later.__dict__[part] = self.__dict__[part]
        if "snapshot" in self.__dict__:
            later.__dict__["before"] = self.snapshot
        return later

    def retuned(self) -> "Session | None":
        """The same version under the thresholds that their file has now; None while it has these.

        This one stays as it is, so that a batch goes by the thresholds that it began with. Where
        the file could not be used when the router was loaded, there are none until it can.

        Raises:
            ModelFileError: The file is missing or broken, or names another router.
        """
        if "_untuned" not in self.__dict__:
            return None
        router = with_thresholds(self._untuned, self.settings.router)
        if router.policy == self.policy:
            return None
        later = copy(self)
        later.__dict__.pop("gateway", None)  # it asks for this one's router
        later.__dict__["router"] = router
        return later

    def build(self) -> None:
        """Build all arms now rather than when a question first needs one; asks the models nothing.

        An index without passages has none to build.
        """
        for arm in (Route.DENSE, Route.LEXICAL, Route.GRAPH) if self.count else ():
            self.snapshot.retriever(arm)
        self.snapshot.settle()

    def passages(self, ids: Sequence[str]) -> dict[str, Passage]:
        """Id -> passage in the version that is searched, whatever was written since."""
        return {passage.id: passage for passage in self.snapshot.corpus.passages(ids)}

    def release(self) -> None:
        """Let go of the version and its arms at once, for whoever has a successor.

        They hang together in a circle, which would wait for the garbage collector otherwise.
        """
        for derived in ("gateway", "snapshot"):
            self.__dict__.pop(derived, None)

    def close(self) -> None:
        """End what the models started."""
        if self._owns_models:
            self._models.close()


class Deciding:
    """The router by itself, where it looks at nothing but the question."""

    def __init__(self, settings: Settings, models: ModelCache | None = None) -> None:
        """Load the models.

        Args:
            settings: Name the router and its thresholds.
            models: Shared with others, and closed by whoever made them; None for its own.

        Raises:
            ModelError: A model is missing or damaged.
            ModelFileError: The router is missing, damaged, or was trained on other features.
        """
        self._models = ModelCache() if models is None else models
        self._owns_models = models is None
        self.analyser = self._models.analyser(settings.analyser, Analyser)
        self.router = load_router(settings, self.analyser, self._models)

    def decide(
        self,
        questions: Sequence[str],
        *,
        max_latency_ms: float | None = None,
        explain: bool = False,
    ) -> list[Decision]:
        """What the gateway would decide; see `router.gateway.decide_without_index`."""
        asked = Questions(self.analyser)
        return decide_without_index(
            questions, asked, self.router, max_latency_ms=max_latency_ms, explain=explain
        )

    def close(self) -> None:
        """End what the models started."""
        if self._owns_models:
            self._models.close()


def load_router(
    settings: Settings, analyser: Analyser, models: ModelCache | None = None
) -> RoutingModel:
    """The router of the settings, known to look at the features that the models compute.

    Args:
        settings: Name it, and its thresholds if they are not its own.
        analyser: What features are made of.
        models: Shared with others, which may have loaded it already.

    Raises:
        ModelFileError: It is missing, damaged, or was trained on other features; or the thresholds
            are missing, damaged or another router's.
        ModelError: The constituency model is missing or damaged.
    """
    own = settings.router
    return with_thresholds(without_own_thresholds(own, analyser, models or ModelCache()), own)


class Ingestion:
    """An index to write to, with the models that fill it."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        """Load the models, and make the index if there is none.

        Args:
            settings: Of the analyser.
            folder: Of the index.

        Raises:
            ModelError: A model is missing or damaged.
            IndexNotFoundError: The folder holds something else.
            IndexMismatchError: The index there was written with other models.
        """
        self.analyser = Analyser(settings.analyser)
        self.passages = Passages(self.analyser)
        self.index = Index.create(folder, self.passages.dimension, self.passages.fingerprint)

    def close(self) -> None:
        """End what the models started."""
        self.analyser.close()
