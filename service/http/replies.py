"""What was found, as replies over HTTP."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from backends.types import Ranking
from router.policy import FORCED
from router.types import Decision, FusedHit, Route
from service.answers.answering import GeneratedAnswer
from service.batching import Entry
from service.render import plain
from service.schemas.answer import AnswerValue, Citation
from service.schemas.explain import ArmHitValue, ExplanationValue
from service.schemas.retrieve import (
    ArmValue,
    IndexValue,
    PassageValue,
    RetrieveReply,
    RouteValue,
    SourceValue,
)
from service.search import QueuedQuestion, SearchParams, SearchResult

HEADERS = (
    "x-wye-route",
    "x-wye-score",
    "x-wye-collection",
    "x-wye-index-version",
    "x-wye-degraded",
    "server-timing",
)
"""What `headers` may set."""


@dataclass(frozen=True, slots=True)
class Answered:
    """One question with its answer and the time that took.

    Attributes:
        ask: How it was asked.
        found: The answer.
        entry: When it waited and began.
        total: Seconds from queueing to the answer.
        seconds: By stage, waiting first.
    """

    ask: SearchParams
    found: SearchResult
    entry: Entry[QueuedQuestion]
    total: float
    seconds: Mapping[str, float] = field(init=False)

    def __post_init__(self) -> None:
        stages = {
            "queue": max(0.0, self.entry.started - self.entry.entered),
            **self.found.reply.seconds,
            "fetching": self.found.fetching,
        }
        object.__setattr__(self, "seconds", stages)

    @property
    def degraded(self) -> str:
        """Why this is not what was asked for, or ""."""
        return self.found.degraded or self.found.reply.ranking.degraded


def retrieve_reply(answered: Answered) -> RetrieveReply:
    """One answer in full."""
    found, reply = answered.found, answered.found.reply
    return RetrieveReply(
        request_id=answered.entry.item.request_id,
        question=reply.question,
        passages=passages(found),
        route=route_value(answered),
        arms={name: _arm(ranking, found, answered.ask) for name, ranking in reply.arms.items()},
        timings_ms=timings(answered),
        batch=answered.entry.size,
        index=IndexValue(collection=answered.ask.collection, version=reply.version),
        degraded=answered.degraded,
        explanation=(
            None
            if reply.explanation is None
            else ExplanationValue.model_validate(plain(reply.explanation))
        ),
    )


def _arm(ranking: Ranking, found: SearchResult, ask: SearchParams) -> ArmValue:
    value = ArmValue(
        candidates=ranking.candidates, returned=len(ranking.hits), degraded=ranking.degraded
    )
    if ask.explain:
        value.hits = [
            ArmHitValue(
                id=hit.id, title=found.passages[hit.id].title, rank=hit.rank, score=hit.score
            )
            for hit in ranking.hits[: ask.k]
        ]
    return value


def passages(found: SearchResult) -> list[PassageValue]:
    """The passages of an answer, best first."""
    values = []
    for hit in found.reply.ranking.hits:
        passage = found.passages[hit.id]
        sources = (
            [
                SourceValue(arm=s.retriever, rank=s.rank, score=s.score, share=s.share)
                for s in hit.sources
            ]
            if isinstance(hit, FusedHit)
            else [
                SourceValue(arm=str(found.reply.ranking.retriever), rank=hit.rank, score=hit.score)
            ]
        )
        values.append(
            PassageValue(
                id=hit.id,
                rank=hit.rank,
                score=hit.score,
                title=passage.title,
                text=passage.text,
                metadata=dict(passage.metadata),
                document=passage.document,
                sources=sources,
            )
        )
    return values


def route_value(answered: Answered) -> RouteValue:
    """Which way a question took; a route that the request forced has no decision."""
    reply = answered.found.reply
    if reply.decision is None:
        value = RouteValue(path=reply.route, asked=answered.ask.route, reason=FORCED)
    else:
        value = decided(reply.decision, asked=answered.ask.route, explain=answered.ask.explain)
    if answered.found.degraded:
        value.reason = answered.found.degraded
    return value


def decided(decision: Decision, *, asked: Route, explain: bool) -> RouteValue:
    """A decision of the router."""
    contributions = [plain(part) for part in decision.contributions] if explain else None
    return RouteValue.model_validate(
        {
            "path": decision.route,
            "asked": asked,
            "reason": decision.reason,
            "score": decision.score,
            "thresholds": plain(decision.thresholds),
            "model": decision.model,
            "contributions": contributions,
            "nearest_change": plain(decision.nearest_change),
            "trees": list(decision.trees) if explain else None,
        }
    )


def answer_value(written: GeneratedAnswer, passages: Sequence[PassageValue]) -> AnswerValue:
    """An answer that has been written to its end."""
    return AnswerValue(
        answer=written.text,
        citations=[
            Citation(index=number, id=passage.id, title=passage.title, document=passage.document)
            for number, passage in written.cited(passages)
        ],
        generator=written.generator,
        note=written.note or written.error,
        finish_reason="error" if written.error else written.ending.reason,
        usage=dict(written.ending.usage),
    )


def timings(answered: Answered) -> dict[str, float]:
    """Milliseconds by stage, and in all."""
    stages = {name: round(1000 * spent, 3) for name, spent in answered.seconds.items()}
    return {**stages, "total": round(1000 * answered.total, 3)}


def headers(answered: Answered) -> dict[str, str]:
    """The facts that proxies and logs can use without reading a body."""
    reply = answered.found.reply
    found = {
        "x-wye-route": str(reply.route),
        "x-wye-collection": answered.ask.collection,
        "x-wye-index-version": str(reply.version),
        "server-timing": ", ".join(
            f"{stage};dur={spent:.1f}" for stage, spent in timings(answered).items()
        ),
    }
    if reply.decision is not None and reply.decision.score is not None:
        found["x-wye-score"] = f"{reply.decision.score:.4f}"
    if answered.degraded:
        line = " ".join(answered.degraded.split())
        found["x-wye-degraded"] = line.encode("ascii", "replace").decode()[:200]
    return found
