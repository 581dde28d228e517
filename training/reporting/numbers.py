"""A report as JSON: every number that it prints, and what plots are drawn from."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from training.reporting.contents import RouterReport
from training.reporting.evaluated import Evaluated
from training.reporting.scores import calibrations, histograms


def numbers(report: RouterReport, found: Evaluated | None) -> dict[str, Any]:
    """All numbers of a report; one that is not defined is null."""
    fitted, stable = report.fitted, report.stability
    trained = fitted.trained
    content = {
        "title": report.title,
        "command": report.command,
        "versions": report.versions,
        "seconds": report.seconds,
        "choices": fitted.choices,
        "data": report.tallies,
        "scorer": {
            "kind": trained.recipe.kind,
            "recipe": trained.recipe,
            "comparison": fitted.comparison,
            "dev_auc": trained.dev_auc,
            "features": [
                {"name": name, "information": information, "importance": importance}
                for name, information, importance in zip(
                    trained.selection.names,
                    trained.selection.information.tolist(),
                    report.importances.tolist(),
                    strict=True,
                )
            ],
            "constants": trained.selection.constants,
            "duplicates": trained.selection.duplicates,
        },
        "calibration": calibrations(report),
        "scores": histograms(report),
        "thresholds": {
            "simple": fitted.policy.simple,
            "latency_ms": fitted.policy.latency_ms,
            "by_simple_route": fitted.solutions,
            "stability": {
                field.name: getattr(stable, field.name)
                for field in fields(stable)
                if field.name != "draws"
            },
        },
        "front": report.front,
        "evaluation": found,
        "transfer_untried": report.untried,
        "near_duplicates": len(report.near_duplicates),
        "stages_ms": report.stages,
    }
    result: dict[str, Any] = plain(content)
    return result


def plain(value: object) -> Any:  # noqa: ANN401 - JSON has no other type
    """Dataclasses, arrays and mappings as what JSON knows."""
    if is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
