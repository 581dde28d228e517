"""What remote arms found, put together with what our own did."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from backends.types import Passage, RankedHit, Ranking, Source
from router.fusion import fuse
from service.arms.arm import ArmCall, RemoteArm

OURS = "local"


def named(arm: RemoteArm, call: ArmCall) -> tuple[Ranking, dict[str, Passage]]:
    """The list of an arm and its passages, under ids that are no other passage's.

    Where its ids are not those of the collection, they begin with the arm's name.
    """
    prefix = "" if arm.config.same_ids else f"{arm.name}:"
    hits = tuple(
        RankedHit(prefix + hit.id, hit.score, rank) for rank, hit in enumerate(call.hits, start=1)
    )
    passages = {
        prefix + hit.id: Passage(prefix + hit.id, hit.title, hit.text, hit.metadata)
        for hit in call.hits
    }
    return Ranking(arm.name, hits, len(hits), call.note), passages


def together(
    ours: Ranking, lists: Sequence[Ranking], weights: Mapping[str, float], k: int
) -> Ranking:
    """Reciprocal rank fusion of our own ranking and of remote lists.

    Scores of others mean what nobody here knows, so ranks are what can be added. Of what our
    ranking gives to a passage, each of our lists that had it is said to have given its part.

    Args:
        ours: Fused or of a single arm; weighs 1.
        lists: Of remote arms.
        weights: Of these, by name.
        k: Most hits to return.
    """
    own = replace(ours, retriever=OURS)
    ranking = fuse([own, *lists], [1.0, *(weights[one.retriever] for one in lists)], k=k)
    known = {hit.id: hit for hit in ours.hits}
    return replace(
        ranking,
        hits=tuple(
            hit._replace(sources=_parted(hit.sources, known.get(hit.id), ours.retriever))
            for hit in ranking.hits
        ),
        degraded="",
    )


def _parted(sources: Sequence[Source], own: RankedHit | None, name: str) -> tuple[Source, ...]:
    """The same, with our own lists in the place of their ranking."""
    found: list[Source] = []
    for source in sources:
        if source.retriever != OURS or own is None:
            found.append(source)
        elif not own.sources:
            found.append(replace(source, retriever=name))
        else:
            total = math.fsum(one.share for one in own.sources)
            found += [
                replace(
                    one,
                    share=source.share * (one.share / total if total else 1 / len(own.sources)),
                )
                for one in own.sources
            ]
    return tuple(sorted(found))
