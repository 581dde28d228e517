"""Relevance models on disk: one file of JSON, checked when it is read."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from wye.backends.files import canonical_json
from wye.router.errors import ModelFileError
from wye.router.relevance import (
    ANSWER_EVIDENCE,
    FEW,
    PASSAGE_EVIDENCE,
    Curve,
    CurveSum,
    RelevanceModel,
)
from wye.router.settings import Settings
from wye.router.types import USUAL, Route

FORMAT = 6
RELEVANCE = "relevance.json"  # name of a model's file
_PARTS = {"passages": PASSAGE_EVIDENCE, "answers": ANSWER_EVIDENCE}


def load_relevance(folder: Path) -> RelevanceModel:
    """Load the model in a folder; a `ModelFileError` if it is missing or damaged."""
    path = folder / RELEVANCE
    try:
        content = json.loads(path.read_text("utf-8"))
        if content["format"] != FORMAT:
            raise ModelFileError(
                f"{path} has format {content['format']}; this build reads {FORMAT}. Fit it again."
            )
        curves = (_read(content[part], names) for part, names in _PARTS.items())
        model = RelevanceModel(int(content["depth"]), str(content["made_with"]), *curves)
        routes = {FEW, *(str(route) for route in USUAL if route != Route.AUTO)}
        if missing := routes - (model.passages.keys() & model.answers.keys()):
            raise ValueError(f"no curves for {', '.join(sorted(missing))}")
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror}.") from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ModelFileError(f"{path} is damaged: {error!r}. Fit or install it again.") from error
    return model


def relevance_json(model: RelevanceModel) -> str:
    """The content of a model's file."""
    content = {
        "format": FORMAT,
        "depth": model.depth,
        "made_with": model.made_with,
        "passages": {route: _curves_json(curves) for route, curves in model.passages.items()},
        "answers": {route: _curves_json(curves) for route, curves in model.answers.items()},
    }
    return canonical_json(content, indent=1) + "\n"


def _read(content: Mapping[str, Any], names: Sequence[str]) -> dict[str, CurveSum]:
    """Read what `_curves_json` made, by route."""
    sums = {}
    for route, fields in content.items():
        curves = {}
        for name in names:
            knots, values, unknown = fields["curves"][name]
            curves[name] = Curve(np.array(knots, float), np.array(values, float), float(unknown))
        sums[route] = CurveSum(float(fields["bias"]), curves)
    return sums


def _curves_json(curves: CurveSum) -> dict[str, object]:
    """The bias, and each curve as its knots, values and what it adds where evidence is missing."""
    parts = {
        name: [curve.knots.tolist(), curve.values.tolist(), curve.unknown]
        for name, curve in curves.curves.items()
    }
    return {"bias": curves.bias, "curves": parts}


def fingerprint(index: Mapping[str, str], settings: Settings) -> str:
    """Digest of what scores depend on: the index's models and the settings of the arms."""
    parts = [asdict(part) for part in (settings.lexical, settings.graph, settings.fusion)]
    content = canonical_json([dict(index), *parts])
    return hashlib.sha256(content.encode()).hexdigest()[:16]
