"""Models by what they were loaded from: equal ones are loaded once for all of a process."""

from collections.abc import Callable
from pathlib import Path
from threading import Lock

from featurizer.analyse import Analyser, AnalyserSettings
from router.artefact import load
from router.features import NAMES
from router.model import RoutingModel


class SharedModels:
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
            schema: Of the features that it will be given; see `router.features.schema_id`.

        Raises:
            ArtefactError: It is missing, damaged, or was trained on other features.
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
