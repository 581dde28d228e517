"""A router with its own thresholds, and under those that settings name instead."""

from pathlib import Path

from featurizer.analyse import Analyser
from router.artefact import read_policy
from router.features import schema_id
from router.model import RoutingModel
from router.routing_settings import RoutingSettings
from router.shared import SharedModels


def untuned(settings: RoutingSettings, analyser: Analyser, models: SharedModels) -> RoutingModel:
    """The router of the settings with its own thresholds.

    Args:
        settings: Name it.
        analyser: What the features are made of that it will be given.
        models: May have it already.

    Raises:
        ArtefactError: It is missing, damaged, or was trained on other features.
        ModelError: The constituency model is missing or damaged.
    """
    return models.router(settings.folder(), schema_id(analyser.syntax_fingerprint))


def tuned(model: RoutingModel, settings: RoutingSettings) -> RoutingModel:
    """The same router under the thresholds of the settings, as their file is at this moment.

    Args:
        model: With its own thresholds.
        settings: May name a file of others.

    Raises:
        ArtefactError: The file is missing or broken, or names another router.
    """
    if not settings.thresholds:
        return model
    return model.with_policy(read_policy(Path(settings.thresholds), model.name))
