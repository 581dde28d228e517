"""JSON that is the same bytes for the same content, wherever it is printed or written."""

import hashlib
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from backends.files import canonical_json, write_atomically
from router.errors import FeatureError, ModelFileError, PolicyError
from router.model import RoutingModel
from router.policy import Policy
from router.query_performance import asks_corpus
from router.scorer import KINDS, Floats, Member, Scorer, Standard, columns_of
from router.types import Route, Thresholds

DIGITS = 6


def stable_json(content: object, *, indent: int | None = 2) -> str:
    """Sorted keys, numbers of at most 6 decimals, text as it is.

    Args:
        content: Mappings, sequences, text, numbers, truth values and None.
        indent: Blanks per level, or None for one line.
    """
    return json.dumps(_rounded(content), sort_keys=True, indent=indent, ensure_ascii=False)


def _rounded(value: object) -> object:
    if isinstance(value, float):
        return round(value, DIGITS)
    if isinstance(value, Mapping):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    return value


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
            raise ModelFileError(
                f"The manifest of '{self.name}' has {count} features, {len(self.mean)} means, "
                f"{len(self.scale)} scales and {len(self.members)} members, which do not fit."
            )
        if not (min(self.scale) > 0 and self.temperature > 0 and self.clip > 0):
            raise ModelFileError(
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
            ModelFileError: Another format, a file that was edited, or no manifest at all.
        """
        content = _object(text, where)
        found = content.get("format")
        if found != FORMAT:
            raise ModelFileError(
                f"'{where}' has format {found!r}; this build reads {FORMAT}. "
                "Use the build that wrote it, or retrain with `wye train`."
            )
        if content.pop("digest", None) != _digest(content):
            raise ModelFileError(
                f"'{where}' is not what was written: its digest differs. A version is never "
                "edited; restore the file, or retrain with `wye train`."
            )
        try:
            lists = ("features", "mean", "scale", "members")
            return cls(**content | {name: tuple(content[name]) for name in lists})
        except (KeyError, TypeError) as error:
            raise ModelFileError(f"'{where}' is no manifest of a router: {error}.") from None


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
        ModelFileError: It is none, or its thresholds are out of order.
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
        raise ModelFileError(
            f"'{where}' is no thresholds file: {error} is missing or of another kind."
        ) from None
    except (ValueError, PolicyError) as error:
        raise ModelFileError(f"'{where}' cannot be used: {error}") from None


def to_text(content: Mapping[str, Any]) -> str:
    """JSON with numbers to their last bit, the same bytes for the same content."""
    return canonical_json(content, indent=2) + "\n"


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(to_text(content).encode()).hexdigest()


def _object(text: str | bytes, where: str) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except ValueError as error:
        raise ModelFileError(f"'{where}' is not JSON ({error}); restore the file.") from None
    if not isinstance(content, dict):
        raise ModelFileError(f"'{where}' holds no JSON object; restore the file.")
    return content


# Router models as folders of plain files, checked before they are used.
#
# models/<name>/<version>/manifest.json, weights.safetensors, thresholds.json, CARD.md


MANIFEST = "manifest.json"
WEIGHTS = "weights.safetensors"
THRESHOLDS = "thresholds.json"
CARD = "CARD.md"

VERSION = re.compile(r"v([1-9]\d*)")


def load(folder: Path, *, schema_id: str, names: Sequence[str]) -> RoutingModel:
    """Read a version, having checked all of it.

    Args:
        folder: Of the version.
        schema_id: Of the features that this build computes.
        names: Of these features, in the order of the columns.

    Raises:
        ModelFileError: A file is missing, is not what was written, or was made for other features.
    """
    manifest = Manifest.from_json(_read(folder / MANIFEST), str(folder / MANIFEST))
    title = _title(manifest)
    content = {file: _checked(folder / file, manifest) for file in (WEIGHTS, THRESHOLDS, CARD)}
    if manifest.schema_id != schema_id:
        raise ModelFileError(
            f"Router '{title}' was trained with feature schema {manifest.schema_id}; this build "
            f"computes {schema_id}. Retrain with `wye train`, or point --router at a matching one."
        )
    try:
        columns = columns_of(manifest.features, names)
    except FeatureError as error:
        raise ModelFileError(f"Router '{title}' cannot be used: {error}") from None
    scorer = Scorer(
        names=manifest.features,
        columns=columns,
        width=len(names),
        standard=Standard(np.array(manifest.mean), np.array(manifest.scale), manifest.clip),
        members=_members(content[WEIGHTS], manifest, folder / WEIGHTS),
        temperature=manifest.temperature,
        bias=manifest.bias,
    )
    policy = policy_from_json(content[THRESHOLDS], str(folder / THRESHOLDS))
    return RoutingModel(title, scorer, policy, folder)


@dataclass(frozen=True, slots=True)
class Stated:
    """What a version says of itself, for whoever has its scores already and asks for no other.

    Attributes:
        name: Name and version, "name/v1".
        policy: What becomes of scores.
        asks_corpus: Whether it looks at what the corpus says, so that the dense arm and the
            graph's seeds are asked before it decides.
    """

    name: str
    policy: Policy
    asks_corpus: bool


def read_stated(folder: Path) -> Stated:
    """Read a version without what scores.

    Args:
        folder: Of the version.

    Raises:
        ModelFileError: A file is missing, or is not what was written.
    """
    manifest = Manifest.from_json(_read(folder / MANIFEST), str(folder / MANIFEST))
    thresholds = folder / THRESHOLDS
    return Stated(
        f"{manifest.name}/{manifest.version}",
        policy_from_json(_checked(thresholds, manifest), str(thresholds)),
        asks_corpus(manifest.features),
    )


def versions(models: Path, name: str) -> list[int]:
    """Numbers of the versions of a model, rising; empty when there is none."""
    found = (VERSION.fullmatch(folder.name) for folder in (models / name).glob("v*"))
    return sorted(int(match[1]) for match in found if match)


def title_of(folder: Path) -> str:
    """Name and version of the router in a folder, "name/v1"; only its manifest is read.

    Raises:
        ModelFileError: The manifest is missing, or is none.
    """
    return _title(Manifest.from_json(_read(folder / MANIFEST), str(folder / MANIFEST)))


def read_policy(path: Path, router: str = "") -> Policy:
    """Read a thresholds file that was reviewed, to be used instead of a model's own.

    Args:
        path: Of the file.
        router: Name and version of the router that is to use it; empty for any.

    Raises:
        ModelFileError: It is missing, is none, or names another router.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ModelFileError(
            f"'{path}' cannot be read ({error.strerror}); name a thresholds file, as `wye tune` "
            "writes it."
        ) from None
    policy = policy_from_json(data, str(path))
    if router and policy.router and policy.router != router:
        raise ModelFileError(
            f"'{path}' has thresholds for the router '{policy.router}', but '{router}' decides. "
            f"Use that router, or make others with `wye tune --router {router}`."
        )
    return policy


def _title(manifest: Manifest) -> str:
    return f"{manifest.name}/{manifest.version}"


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ModelFileError(
            f"'{path}' cannot be read ({error.strerror}); name the folder of a router's version, "
            "such as models/NAME/v1, with all of its files."
        ) from None


def _checked(path: Path, manifest: Manifest) -> bytes:
    data = _read(path)
    if sha256(data) != manifest.files.get(path.name):
        raise ModelFileError(
            f"'{path}' is not what was written: its checksum differs from the manifest's. "
            "A version is never edited; restore the file, or retrain with `wye train`."
        )
    return data


def _members(data: bytes, manifest: Manifest, path: Path) -> tuple[Member, ...]:
    unknown = sorted(set(manifest.members) - KINDS.keys())
    if unknown:
        raise ModelFileError(
            f"'{path}' has members of kind {', '.join(unknown)}; this build runs "
            f"{', '.join(KINDS)}. Use the build that wrote it, or retrain with `wye train`."
        )
    try:
        tensors = load_tensors(data)
        members = tuple(
            KINDS[kind](_of_member(tensors, f"members.{place}."))
            for place, kind in enumerate(manifest.members)
        )
    except (SafetensorError, KeyError, ValueError) as error:
        raise ModelFileError(
            f"'{path}' does not hold the weights of its manifest ({error}); retrain."
        ) from None
    if any(member.width != len(manifest.features) for member in members):
        raise ModelFileError(f"'{path}' holds weights for another number of features; retrain.")
    return members


def _of_member(tensors: Mapping[str, Floats], prefix: str) -> dict[str, Floats]:
    return {
        name.removeprefix(prefix): values
        for name, values in tensors.items()
        if name.startswith(prefix)
    }


def sha256(data: bytes) -> str:
    """Checksum as the manifest has it."""
    return hashlib.sha256(data).hexdigest()


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class Draft:
    """A trained router that is to be written.

    Attributes:
        scorer: Trained and calibrated.
        policy: What becomes of its scores.
        schema_id: Of the features that it was trained on.
        card: The text of CARD.md.
        training: What it was trained on and how, as JSON.
        notes: How the thresholds were found, as JSON.
    """

    scorer: Scorer
    policy: Policy
    schema_id: str
    card: str
    training: Mapping[str, Any]
    notes: Mapping[str, Any]


def save(models: Path, name: str, draft: Draft, version: str | None = None) -> Path:
    """Write a new version of a model. Nobody sees a part of it, and no version is written twice.

    Args:
        models: Folder of all models.
        name: Of the model.
        draft: What to write.
        version: "v1" and so on; None takes the one after the last.

    Returns:
        The folder of the version.

    Raises:
        ModelFileError: The version is there already, or a name that cannot be a folder.
    """
    if not _NAME.fullmatch(name):
        raise ModelFileError(
            f"A model cannot be called '{name}'; use letters, digits, '.', '_', '-'."
        )
    if version is not None and not VERSION.fullmatch(version):
        raise ModelFileError(f"A version cannot be called '{version}'; use v1, v2, and so on.")
    home = models / name
    home.mkdir(parents=True, exist_ok=True)
    while True:
        chosen = version or f"v{max(versions(models, name), default=0) + 1}"
        target = home / chosen
        if not target.exists() and _written(target, draft, name):
            return target
        if version is not None:
            raise ModelFileError(
                f"'{target}' is there already and is never overwritten; "
                "leave the version out to write the next one."
            )


def save_policy(path: Path, policy: Policy, notes: Mapping[str, Any]) -> None:
    """Write a thresholds file; who reads it meanwhile has the older one or this one, whole.

    Args:
        path: Of the file; an older one is replaced.
        policy: To write.
        notes: How it was found, for whoever reviews it.
    """
    target = path.resolve()  # what a link leads to is replaced, not the link
    target.parent.mkdir(parents=True, exist_ok=True)
    with write_atomically(target) as file:
        file.write(policy_to_json(policy, notes).encode())


def _written(target: Path, draft: Draft, name: str) -> bool:
    """Whether the version could be written; not when another process was faster."""
    scorer = draft.scorer
    tensors = {
        f"members.{place}.{tensor}": np.ascontiguousarray(values)
        for place, member in enumerate(scorer.members)
        for tensor, values in member.tensors.items()
    }
    content = {
        WEIGHTS: save_tensors(tensors),
        THRESHOLDS: policy_to_json(draft.policy, draft.notes).encode(),
        CARD: draft.card.encode(),
    }
    manifest = Manifest(
        format=FORMAT,
        name=name,
        version=target.name,
        schema_id=draft.schema_id,
        features=scorer.names,
        mean=tuple(scorer.standard.mean.tolist()),
        scale=tuple(scorer.standard.scale.tolist()),
        clip=scorer.standard.clip,
        temperature=scorer.temperature,
        bias=scorer.bias,
        members=tuple(member.kind for member in scorer.members),
        files={file: sha256(data) for file, data in content.items()},
        training=draft.training,
    )
    content[MANIFEST] = manifest.to_json().encode()
    # Beside the target, since a rename is atomic on one file system only.
    made = Path(mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        for file, data in content.items():
            with write_atomically(made / file) as stream:
                stream.write(data)
        made.chmod(0o755)
        # A folder with files in it is never replaced by a rename.
        made.rename(target)
    except OSError:
        shutil.rmtree(made)
        if target.exists():
            return False
        raise
    return True
