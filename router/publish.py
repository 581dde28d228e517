"""Writes router models: a version at a time, whole or not at all, and never twice."""

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
from safetensors.numpy import save as save_tensors

from router.artefact import CARD, MANIFEST, THRESHOLDS, VERSION, WEIGHTS, sha256, versions
from router.errors import ArtefactError
from router.manifest import FORMAT, Manifest, policy_to_json
from router.policy import Policy
from router.scorer import Scorer

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
        ArtefactError: The version is there already, or a name that cannot be a folder.
    """
    if not _NAME.fullmatch(name):
        raise ArtefactError(
            f"A model cannot be called '{name}'; use letters, digits, '.', '_', '-'."
        )
    if version is not None and not VERSION.fullmatch(version):
        raise ArtefactError(f"A version cannot be called '{version}'; use v1, v2, and so on.")
    home = models / name
    home.mkdir(parents=True, exist_ok=True)
    while True:
        chosen = version or f"v{max(versions(models, name), default=0) + 1}"
        target = home / chosen
        if not target.exists() and _written(target, draft, name):
            return target
        if version is not None:
            raise ArtefactError(
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
    made = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        _write(made, policy_to_json(policy, notes).encode())
        made.replace(target)
    finally:
        made.unlink(missing_ok=True)


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
            _write(made / file, data)
        made.chmod(0o755)
        # A folder with files in it is never replaced by a rename.
        made.rename(target)
    except OSError:
        shutil.rmtree(made)
        if target.exists():
            return False
        raise
    return True


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
