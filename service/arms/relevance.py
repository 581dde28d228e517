"""Probabilities of relevance for answers with remote arms, from models fitted for them."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from router.errors import RouterError
from router.relevance import (
    REMOTE_RELEVANCE,
    RelevanceModel,
    likely,
    load_relevance,
    made_with_arms,
)
from router.remote_arms import ArmFacts
from router.settings import Settings
from service.arms.arm import RemoteArm
from service.arms.file import relevance_folders
from service.arms.types import ArmConfig
from service.errors import ServiceError
from service.search import SearchParams, SearchResult

UNKNOWN = "degraded: the relevance of these passages is unknown, and min_relevance is given"
# Keys of an arm's table that do not affect its answers.
_MANNERS = {*ArmConfig.model_fields, "price_per_token", "tokens"} - {"kind"}


def arm_facts(arm: RemoteArm) -> ArmFacts:
    """Facts about an arm, known without asking it."""
    own = arm.config
    told = {key: value for key, value in own.model_dump(mode="json").items() if key not in _MANNERS}
    content = json.dumps(told, sort_keys=True).encode()
    return ArmFacts(
        arm.name,
        own.role,
        hashlib.blake2b(content, digest_size=16).hexdigest(),
        own.price,
        own.depth,
        own.scores,
        own.weight,
        arm.prefix,
    )


def read_relevance(
    path: Path | None,
    arms: Mapping[str, Sequence[RemoteArm]],
    settings: Settings,
    indexes: Sequence[str],
) -> dict[str, RelevanceModel]:
    """Read the relevance models that the arms file names, by collection.

    Args:
        arms: The result of `read_arms`.
        indexes: Names of the collections that have an index.

    Raises:
        ServiceError: A model cannot be read, or was fitted for other arms.
    """
    made_with = {
        made_with_arms([arm_facts(arm) for arm in own], settings, has_index=name in indexes): name
        for name, own in arms.items()
    }
    found = {}
    for folder in relevance_folders(path):
        try:
            model = load_relevance(folder, REMOTE_RELEVANCE)
        except RouterError as error:
            raise ServiceError(f"{path}: relevance: {error}") from None
        if model.made_with not in made_with:
            raise ServiceError(
                f"{path}: relevance: {folder} was fitted for other arms, or other settings of "
                "them. Fit it again with `wye train --relevance --arms`, or leave it out."
            )
        found[made_with[model.made_with]] = model
    return found


def judged(
    result: SearchResult, params: SearchParams, model: RelevanceModel | None
) -> SearchResult:
    """Add probabilities to an answer if they are known, then apply `k` and `min_relevance`.

    Args:
        result: An answer that may have too many hits, or hits that are not relevant enough.
        params: The original parameters.
    """
    reply, remote = result.reply, result.remote
    if model is not None and remote is not None and remote.way and params.k <= model.depth:
        texts = [
            (one.title, one.text) for hit in reply.ranking.hits for one in [result.passages[hit.id]]
        ]
        found = model.judge_lists(
            reply.question, remote.way, reply.ranking, texts, filtered=params.filter is not None
        )
        reply = replace(reply, relevance=found.relevance, answerability=found.answerability)
    ranking, relevance = reply.ranking, reply.relevance
    if relevance or not ranking.hits:
        ranking, relevance = likely(ranking, relevance, params.min_relevance, params.k)
    elif params.min_relevance > 0:
        ranking = replace(ranking, hits=())
        remote = None if remote is None else replace(remote, is_unjudged=True)
    else:
        ranking = replace(ranking, hits=ranking.hits[: params.k])
    reply = replace(reply, ranking=ranking, relevance=relevance)
    return replace(result, params=params, reply=reply, remote=remote)
