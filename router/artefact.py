"""Router models as folders of plain files, checked before they are used.

models/<name>/<version>/manifest.json, weights.safetensors, thresholds.json, CARD.md
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors

from router.errors import ArtefactError, FeatureError
from router.features import asks_corpus
from router.layers import Floats
from router.manifest import Manifest, policy_from_json
from router.model import RoutingModel
from router.policy import Policy
from router.scorer import KINDS, Member, Scorer, Standard, columns_of

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
        ArtefactError: A file is missing, is not what was written, or was made for other features.
    """
    manifest = Manifest.from_json(_read(folder / MANIFEST), str(folder / MANIFEST))
    title = _title(manifest)
    content = {file: _checked(folder / file, manifest) for file in (WEIGHTS, THRESHOLDS, CARD)}
    if manifest.schema_id != schema_id:
        raise ArtefactError(
            f"Router '{title}' was trained with feature schema {manifest.schema_id}; this build "
            f"computes {schema_id}. Retrain with `wye train`, or point --router at a matching one."
        )
    try:
        columns = columns_of(manifest.features, names)
    except FeatureError as error:
        raise ArtefactError(f"Router '{title}' cannot be used: {error}") from None
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
        ArtefactError: A file is missing, or is not what was written.
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
        ArtefactError: The manifest is missing, or is none.
    """
    return _title(Manifest.from_json(_read(folder / MANIFEST), str(folder / MANIFEST)))


def read_policy(path: Path, router: str = "") -> Policy:
    """Read a thresholds file that was reviewed, to be used instead of a model's own.

    Args:
        path: Of the file.
        router: Name and version of the router that is to use it; empty for any.

    Raises:
        ArtefactError: It is missing, is none, or names another router.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ArtefactError(
            f"'{path}' cannot be read ({error.strerror}); name a thresholds file, as `wye tune` "
            "writes it."
        ) from None
    policy = policy_from_json(data, str(path))
    if router and policy.router and policy.router != router:
        raise ArtefactError(
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
        raise ArtefactError(
            f"'{path}' cannot be read ({error.strerror}); name the folder of a router's version, "
            "such as models/NAME/v1, with all of its files."
        ) from None


def _checked(path: Path, manifest: Manifest) -> bytes:
    data = _read(path)
    if sha256(data) != manifest.files.get(path.name):
        raise ArtefactError(
            f"'{path}' is not what was written: its checksum differs from the manifest's. "
            "A version is never edited; restore the file, or retrain with `wye train`."
        )
    return data


def _members(data: bytes, manifest: Manifest, path: Path) -> tuple[Member, ...]:
    unknown = sorted(set(manifest.members) - KINDS.keys())
    if unknown:
        raise ArtefactError(
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
        raise ArtefactError(
            f"'{path}' does not hold the weights of its manifest ({error}); retrain."
        ) from None
    if any(member.width != len(manifest.features) for member in members):
        raise ArtefactError(f"'{path}' holds weights for another number of features; retrain.")
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
