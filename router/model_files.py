"""Routers on disk: folders of plain files, written atomically, never changed, checked when read.

models/<name>/<version>/ holds manifest.json, weights.safetensors, thresholds.json and CARD.md. The
manifest has the checksums of the others and a digest of itself. A thresholds file may also be
elsewhere, to be reviewed and used instead of a router's own.
"""

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
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from wye.backends.files import canonical_json, write_atomically
from wye.router.errors import ModelFileError, PolicyError
from wye.router.policy import Policy, RoutingModel
from wye.router.scorer import AttentionMlp, Familiarity, Scorer, Standard
from wye.router.types import Route, Thresholds

FORMAT = 1  # format of the folder; incremented when an older build could misread a newer router

MANIFEST = "manifest.json"
WEIGHTS = "weights.safetensors"
THRESHOLDS = "thresholds.json"
CARD = "CARD.md"
PRECISION, LIMIT = "familiarity.precision", "familiarity.limit"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_MEMBER = re.compile(r"members\.(\d+)\.(.+)")
_VERSION = re.compile(r"v([1-9]\d*)")


@dataclass(frozen=True, slots=True)
class TrainedRouter:
    """A router to be written."""

    scorer: Scorer
    policy: Policy
    schema_id: str  # schema id of the features that it was trained on
    card: str  # the text of CARD.md
    training: Mapping[str, Any]  # what it was trained on and how, as JSON
    notes: Mapping[str, Any]  # how the thresholds were found, as JSON


def load_router(folder: Path, *, schema_id: str, names: Sequence[str]) -> RoutingModel:
    """Read a router after checking all of its files against the schema and names of features here.

    A `ModelFileError` if a file is missing or was changed, or the router needs other features.
    """
    manifest = _read_manifest(folder)
    title, features = _title(manifest), tuple(manifest["features"])
    content = {file: _checked(folder / file, manifest) for file in (WEIGHTS, THRESHOLDS, CARD)}
    if manifest["schema_id"] != schema_id:
        raise ModelFileError(
            f"Router '{title}' was trained with feature schema {manifest['schema_id']}; this "
            f"build computes {schema_id}. Retrain with `wye train`, or set WYE_ROUTER__MODEL "
            "to a matching one."
        )
    column_of = {name: column for column, name in enumerate(names)}
    members, familiarity = _networks(content[WEIGHTS], len(manifest["members"]))
    mean, scale = np.array(manifest["mean"]), np.array(manifest["scale"])
    scorer = Scorer(
        names=features,
        columns=np.array([column_of[name] for name in features], np.int64),
        standard=Standard(mean, scale, manifest["clip"]),
        members=members,
        temperature=manifest["temperature"],
        bias=manifest["bias"],
        familiarity=familiarity,
    )
    policy = _parse_policy(content[THRESHOLDS], folder / THRESHOLDS)
    return RoutingModel(title, scorer, policy, folder)


def read_title(folder: Path) -> str:
    """Name and version of a router, "name/v1", by its manifest alone, or a `ModelFileError`."""
    return _title(_read_manifest(folder))


def _title(manifest: Mapping[str, Any]) -> str:
    return f"{manifest['name']}/{manifest['version']}"


def require_name(name: str) -> None:
    """Raise a `ModelFileError` for a name that no router can have."""
    if not _NAME.fullmatch(name):
        raise ModelFileError(
            f"A model cannot be called '{name}'; use letters, digits, '.', '_', '-'."
        )


def save_router(models: Path, name: str, router: TrainedRouter) -> Path:
    """Write the next version of a router, such as the folder "v1", atomically; others stay."""
    require_name(name)
    home = models / name
    home.mkdir(parents=True, exist_ok=True)
    while True:
        target = home / f"v{max(versions(models, name), default=0) + 1}"
        if not target.exists() and _written(target, _files_of(router, name, target.name)):
            return target


def versions(models: Path, name: str) -> list[int]:
    """Numbers of a router's versions, ascending; empty if there are none."""
    matches = (_VERSION.fullmatch(folder.name) for folder in (models / name).glob("v*"))
    return sorted(int(match[1]) for match in matches if match)


def read_policy(path: Path, router: str = "") -> Policy:
    """Read a thresholds file for a router, "" for any, or raise a `ModelFileError`."""
    policy = _parse_policy(_read(path, "give a thresholds.json, as a router's folder has"), path)
    if router and policy.router and policy.router != router:
        raise ModelFileError(
            f"'{path}' has thresholds for the router '{policy.router}', not '{router}'. Use that "
            f"router, or solve others for it as the guide 'Route and tune' does."
        )
    return policy


def with_thresholds(model: RoutingModel, path: str) -> RoutingModel:
    """A router with the thresholds of a file; as it is for ""."""
    return model.with_policy(read_policy(Path(path), model.name)) if path else model


def save_policy(path: Path, policy: Policy, notes: Mapping[str, Any]) -> None:
    """Write a thresholds file atomically, with notes on how they were found, for the reviewer."""
    target = path.resolve()  # replaces a link's target, not the link
    target.parent.mkdir(parents=True, exist_ok=True)
    with write_atomically(target) as file:
        file.write(_policy_text(policy, notes))


def _policy_text(policy: Policy, notes: Mapping[str, Any]) -> bytes:
    router = {"router": policy.router} if policy.router else {}
    thresholds = asdict(policy.thresholds)
    return _text({**router, **thresholds, "simple": str(policy.simple), "notes": notes})


def _parse_policy(data: bytes, path: Path) -> Policy:
    content = _parse(data, path)
    try:
        several = content["low"], content["high"], content.get("steps", 0)
        router = str(content.get("router") or "")
        return Policy(Thresholds(*map(float, several)), Route(content["simple"]), router)
    except (KeyError, TypeError, AttributeError) as error:
        raise ModelFileError(
            f"'{path}' is not a thresholds file: {error} is missing or has the wrong type."
        ) from None
    except (ValueError, PolicyError) as error:
        raise ModelFileError(f"'{path}' cannot be used: {error}") from None


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    content = _parse(_read(path), path)
    if content.get("format") != FORMAT:
        raise ModelFileError(
            f"'{path}' has format {content.get('format')!r}; this build reads {FORMAT}. "
            "Use the build that wrote it, or retrain with `wye train`."
        )
    if content.pop("digest", None) != _sha256(_text(content)):
        raise _changed(path, "its digest differs")
    return content


def _checked(path: Path, manifest: Mapping[str, Any]) -> bytes:
    data = _read(path)
    if _sha256(data) != manifest["files"].get(path.name):
        raise _changed(path, "its checksum differs from the manifest's")
    return data


def _changed(path: Path, difference: str) -> ModelFileError:
    return ModelFileError(
        f"'{path}' has changed since it was written: {difference}. A version is never edited; "
        "restore the file, or retrain with `wye train`."
    )


_ADVICE = "name the folder of a router's version, such as models/NAME/v1, with all of its files"


def _read(path: Path, advice: str = _ADVICE) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ModelFileError(f"'{path}' cannot be read ({error.strerror}); {advice}.") from None


def _parse(data: bytes, path: Path) -> dict[str, Any]:
    try:
        content = json.loads(data)
    except ValueError as error:
        raise ModelFileError(f"'{path}' is not JSON ({error}); restore the file.") from None
    if not isinstance(content, dict):
        raise ModelFileError(f"'{path}' is not a JSON object; restore the file.")
    return content


def _networks(data: bytes, count: int) -> tuple[tuple[AttentionMlp, ...], Familiarity | None]:
    # Checksums say that the weights are those that were written with this manifest.
    tensors = load_tensors(data)
    of_members: list[dict[str, Any]] = [{} for _ in range(count)]
    for name, values in tensors.items():
        if match := _MEMBER.fullmatch(name):
            of_members[int(match[1])][match[2]] = values
    members = tuple(map(AttentionMlp, of_members))
    if PRECISION not in tensors:
        return members, None
    return members, Familiarity(tensors[PRECISION], float(tensors[LIMIT][0]))


def _files_of(router: TrainedRouter, name: str, version: str) -> dict[str, bytes]:
    scorer = router.scorer
    tensors = {
        f"members.{index}.{tensor}": np.ascontiguousarray(values)
        for index, member in enumerate(scorer.members)
        for tensor, values in member.tensors.items()
    }
    if scorer.familiarity is not None:
        tensors[PRECISION] = np.ascontiguousarray(scorer.familiarity.precision)
        tensors[LIMIT] = np.array([scorer.familiarity.limit])
    files = {
        WEIGHTS: save_tensors(tensors),
        THRESHOLDS: _policy_text(router.policy, router.notes),
        CARD: router.card.encode(),
    }
    manifest = {
        "format": FORMAT,
        "name": name,
        "version": version,
        "schema_id": router.schema_id,
        # In the order of the network's inputs, as are their means and deviations in training.
        "features": scorer.names,
        "mean": scorer.standard.mean.tolist(),
        "scale": scorer.standard.scale.tolist(),
        "clip": scorer.standard.clip,
        "temperature": scorer.temperature,
        "bias": scorer.bias,
        "members": [member.kind for member in scorer.members],
        "files": {file: _sha256(data) for file, data in files.items()},
        "training": router.training,
    }
    return {**files, MANIFEST: _text({**manifest, "digest": _sha256(_text(manifest))})}


def _written(target: Path, files: Mapping[str, bytes]) -> bool:
    """Write a version; False if another process was faster."""
    # Next to the target, since a rename is atomic only within a file system.
    unfinished = Path(mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        for name, data in files.items():
            with write_atomically(unfinished / name) as file:
                file.write(data)
        unfinished.chmod(0o755)
        # A rename never replaces a folder that has files in it.
        unfinished.rename(target)
    except OSError:
        shutil.rmtree(unfinished)
        if target.exists():
            return False
        raise
    return True


def _text(content: Mapping[str, Any]) -> bytes:
    return (canonical_json(content, indent=2) + "\n").encode()


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
