"""The two JSON files of a router model, to and from what they mean."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from router.errors import ArtefactError, PolicyError
from router.policy import Policy
from router.types import Route, Thresholds

FORMAT = 1
"""Of the folder; raised when an older build could misread a newer model."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What `manifest.json` says.

    Attributes:
        format: `FORMAT` of the build that wrote it.
        name: Of the model.
        version: Of the model, "v1" and so on.
        schema_id: Of the features that it was trained on.
        features: Those that it looks at, in order.
        mean: Their means in training.
        scale: Their standard deviations in training.
        clip: Bound of z-scores.
        temperature: Of the calibration.
        bias: Of the calibration.
        members: Kind of each network.
        files: SHA-256 of each other file of the folder.
        training: What it was trained on and how, in words and numbers.
    """

    format: int
    name: str
    version: str
    schema_id: str
    features: tuple[str, ...]
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    clip: float
    temperature: float
    bias: float
    members: tuple[str, ...]
    files: Mapping[str, str]
    training: Mapping[str, Any]

    def __post_init__(self) -> None:
        count = len(self.features)
        if not count or not self.members or {len(self.mean), len(self.scale)} != {count}:
            raise ArtefactError(
                f"The manifest of '{self.name}' has {count} features, {len(self.mean)} means, "
                f"{len(self.scale)} scales and {len(self.members)} members, which do not fit."
            )
        if not (min(self.scale) > 0 and self.temperature > 0 and self.clip > 0):
            raise ArtefactError(
                f"The manifest of '{self.name}' has a scale, a temperature or a clip "
                "that is not above 0."
            )

    def to_json(self) -> str:
        """The file's text, with a digest of the rest of it."""
        content = asdict(self)
        return to_text({**content, "digest": _digest(content)})

    @classmethod
    def from_json(cls, text: str | bytes, where: str) -> "Manifest":
        """Read the file's text.

        Args:
            text: Of the file.
            where: The file, for messages.

        Raises:
            ArtefactError: Another format, a file that was edited, or no manifest at all.
        """
        content = _object(text, where)
        found = content.get("format")
        if found != FORMAT:
            raise ArtefactError(
                f"'{where}' has format {found!r}; this build reads {FORMAT}. "
                "Use the build that wrote it, or retrain with `wye train`."
            )
        if content.pop("digest", None) != _digest(content):
            raise ArtefactError(
                f"'{where}' is not what was written: its digest differs. A version is never "
                "edited; restore the file, or retrain with `wye train`."
            )
        try:
            lists = ("features", "mean", "scale", "members")
            return cls(**content | {name: tuple(content[name]) for name in lists})
        except (KeyError, TypeError) as error:
            raise ArtefactError(f"'{where}' is no manifest of a router: {error}.") from None


def policy_to_json(policy: Policy, notes: Mapping[str, Any]) -> str:
    """A thresholds file, which names its router where the policy does.

    Args:
        policy: To write.
        notes: How it was found, for whoever reviews it; reading ignores them.
    """
    return to_text(
        {
            **({"router": policy.router} if policy.router else {}),
            "low": policy.thresholds.low,
            "high": policy.thresholds.high,
            "simple": str(policy.simple),
            "latency_ms": {str(route): ms for route, ms in policy.latency_ms.items()},
            "notes": notes,
        }
    )


def policy_from_json(text: str | bytes, where: str) -> Policy:
    """Read a thresholds file.

    Raises:
        ArtefactError: It is none, or its thresholds are out of order.
    """
    content = _object(text, where)
    try:
        return Policy(
            Thresholds(float(content["low"]), float(content["high"])),
            Route(content["simple"]),
            {Route(name): float(ms) for name, ms in content["latency_ms"].items()},
            str(content.get("router") or ""),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ArtefactError(
            f"'{where}' is no thresholds file: {error} is missing or of another kind."
        ) from None
    except (ValueError, PolicyError) as error:
        raise ArtefactError(f"'{where}' cannot be used: {error}") from None


def to_text(content: Mapping[str, Any]) -> str:
    """JSON with numbers to their last bit, the same bytes for the same content."""
    text = json.dumps(content, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False)
    return text + "\n"


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(to_text(content).encode()).hexdigest()


def _object(text: str | bytes, where: str) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except ValueError as error:
        raise ArtefactError(f"'{where}' is not JSON ({error}); restore the file.") from None
    if not isinstance(content, dict):
        raise ArtefactError(f"'{where}' holds no JSON object; restore the file.")
    return content
