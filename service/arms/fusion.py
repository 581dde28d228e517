"""What a remote arm found, as a list that can be fused."""

from backends.types import Passage, RankedHit, Ranking
from router.remote_fusion import RemoteList
from service.arms.arm import ArmCall, RemoteArm


def named(arm: RemoteArm, call: ArmCall) -> tuple[RemoteList, dict[str, Passage]]:
    """The list of an arm and its passages, under ids that are no other passage's.

    Where its ids are not those of the collection, they begin with the arm's name; where there is no
    index, those of the simple arm are.
    """
    config = arm.config
    prefix = "" if config.same_ids or arm.is_simple else f"{arm.name}:"
    hits = tuple(
        RankedHit(prefix + hit.id, hit.score, rank) for rank, hit in enumerate(call.hits, start=1)
    )
    passages = {
        prefix + hit.id: Passage(prefix + hit.id, hit.title, hit.text, hit.metadata)
        for hit in call.hits
    }
    ranking = Ranking(arm.name, hits, len(hits), call.note)
    return RemoteList(ranking, config.scores, config.weight), passages
