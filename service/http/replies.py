"""Results of searches and answers as replies over HTTP."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

from fastapi.sse import EventSourceResponse

from wye.backends.types import Metadata, Ranking
from wye.router.policy import FORCED
from wye.router.types import Decision, FusedHit, Route
from wye.service.answers.answer import GeneratedAnswer
from wye.service.schemas.answer import AnswerValue, Citation, CitedSentence
from wye.service.schemas.retrieve import (
    ArmHitValue,
    ArmValue,
    IndexValue,
    MissingArm,
    PassageValue,
    RemoteValue,
    RetrieveReply,
    RouteValue,
    SourceValue,
)
from wye.service.search import SearchResult

OF_OTHERS = (
    "Remote arms found some of these passages, or all. Relevance was fitted for the scores and "
    "ranks of the arms of an index, and says nothing about theirs."
)
HEADERS = (
    "x-wye-route",
    "x-wye-score",
    "x-wye-collection",
    "x-wye-index-version",
    "x-wye-degraded",
    "server-timing",
)
"""The headers that `headers` may set."""


def retrieve_reply(result: SearchResult) -> RetrieveReply:
    """The reply of `/v1/retrieve`, which other replies are made from."""
    params, reply, remote = result.params, result.reply, result.remote
    return RetrieveReply(
        request_id=result.entry.item.request_id,
        question=reply.question,
        passages=_passages(result),
        answerability=reply.answerability,
        relevance_note=OF_OTHERS if remote and remote.answered and not reply.relevance else None,
        route=route_value(
            reply.decision,
            path=reply.route,
            asked=params.route,
            explain=params.explain,
            fallback=result.fallback,
            without=remote.without if remote else (),
        ),
        arms={
            name: _arm_value(result, name)
            for name in dict.fromkeys([*reply.arms, *(remote.calls if remote else ())])
        },
        timings_ms={
            stage: round(1000 * spent, 3)
            for stage, spent in {**result.seconds, "total": result.total}.items()
        },
        batch=result.entry.size,
        index=IndexValue(collection=params.collection, version=reply.version),
        degraded=result.degraded,
        missing=[MissingArm(arm=name, reason=why) for name, why in result.missing.items()]
        if result.missing is not None
        else None,
        spent=remote.spent if remote else None,
        saved=remote.saved if remote else None,
        explanation=reply.explanation,
        steps=reply.chain if params.explain and reply.route == Route.STEPS else None,
    )


def _arm_value(result: SearchResult, name: str) -> ArmValue:
    """What an arm contributed; for a remote arm, also how its call went."""
    params, passages = result.params, result.passages
    ranking = result.reply.arms.get(name, Ranking(name, ()))
    call = result.remote.calls.get(name) if result.remote else None
    hits = [
        ArmHitValue(id=hit.id, title=passages[hit.id].title, rank=hit.rank, score=hit.score)
        for hit in (ranking.hits[: params.k] if params.explain else ())
    ]
    return ArmValue(
        candidates=ranking.candidates,
        returned=len(ranking.hits),
        note=call.note or call.reason if call else ranking.degraded,
        hits=hits if params.explain else None,
        remote=RemoteValue(
            kind=call.kind,
            state=call.state.value,
            calls=call.calls,
            ms=round(1000 * call.seconds, 3),
            spent=call.spent,
        )
        if call
        else None,
    )


def _passages(result: SearchResult) -> list[PassageValue]:
    """The passages of a result, best first."""
    ranking, relevance = result.reply.ranking, result.reply.relevance
    values = []
    for place, hit in enumerate(ranking.hits):
        passage = result.passages[hit.id]
        sources = (
            [
                SourceValue(arm=s.retriever, rank=s.rank, score=s.score, share=s.share)
                for s in hit.sources
            ]
            if isinstance(hit, FusedHit)
            else [SourceValue(arm=str(ranking.retriever), rank=hit.rank, score=hit.score)]
        )
        values.append(
            PassageValue(
                id=hit.id,
                rank=hit.rank,
                score=hit.score,
                relevance=relevance[place] if relevance else None,
                title=passage.title,
                text=passage.text,
                metadata=dict(passage.metadata),
                document=passage.document,
                sources=sources,
            )
        )
    return values


def route_value(
    decision: Decision | None,
    *,
    path: Route,
    asked: Route,
    explain: bool,
    fallback: str = "",
    without: Sequence[str] = (),
) -> RouteValue:
    """The route that a question took, and why.

    Args:
        decision: None if the request named the route.
        path: The route that answered.
        asked: The route that was requested.
        fallback: Why dense search answered instead, or "".
        without: Names of features that the router lacked.
    """
    if decision is None:
        said = (fallback or f"Route {asked} was asked for.") if explain else ""
        return RouteValue(path=path, asked=asked, reason=fallback or FORCED, summary=said)
    return RouteValue(
        path=path,
        asked=asked,
        reason=fallback or decision.reason,
        score=decision.score,
        thresholds=None if decision.thresholds is None else asdict(decision.thresholds),
        summary=decision.summary,
        simple=decision.simple,
        model=decision.model,
        contributions=list(decision.contributions) if explain else None,
        nearest_change=decision.nearest_change,
        trees=list(decision.trees) if explain else None,
        without=list(without) or None,
    )


def answer_value(answer: GeneratedAnswer, passages: Sequence[PassageValue]) -> AnswerValue:
    """A finished answer as a reply."""
    return AnswerValue(
        answer=answer.text,
        segments=answer.segments,
        citations=[
            Citation(
                index=number,
                id=passage.id,
                title=passage.title,
                document=passage.document,
                sentences=_sentences(answer, number, passage.text),
            )
            for number, passage in answer.cited(passages)
        ],
        generator=answer.generator,
        note=answer.note or answer.error,
        finish_reason="error" if answer.error else answer.finish_reason,
        usage=answer.usage,
    )


def _sentences(answer: GeneratedAnswer, number: int, text: str) -> list[CitedSentence]:
    """The sentences of a passage that an answer quotes, in the order of the answer."""
    spans = (
        (quote.text, text.find(quote.text)) for quote in answer.quotes if quote.number == number
    )
    return [CitedSentence(text=said, start=at, end=at + len(said)) for said, at in spans]


def attributes_of(metadata: Metadata) -> dict[str, str | float | bool]:
    """Metadata as OpenAI's attributes: a list becomes one text, separated by commas."""
    found: dict[str, str | float | bool] = {}
    for key, value in metadata.items():
        if isinstance(value, str | int | float | bool):
            found[key] = value
        elif value is not None:
            found[key] = ", ".join(str(part) for part in value)
    return found


def link_of(metadata: Mapping[str, Any], document: str) -> str:
    """The `url` in a document's metadata, or else a `wye:` name, which cannot be opened."""
    given = metadata.get("url")
    if isinstance(given, str) and given.startswith(("https://", "http://")):
        return given
    return f"wye:{quote(document, safe='')}"


def headers(retrieval: RetrieveReply) -> dict[str, str]:
    """Headers with facts that proxies and logs can use without reading the body."""
    found = {
        "x-wye-route": str(retrieval.route.path),
        "x-wye-collection": retrieval.index.collection,
        "x-wye-index-version": str(retrieval.index.version),
        "server-timing": ", ".join(
            f"{stage};dur={spent:.1f}" for stage, spent in retrieval.timings_ms.items()
        ),
    }
    if retrieval.route.score is not None:
        found["x-wye-score"] = f"{retrieval.route.score:.4f}"
    if retrieval.degraded:
        line = " ".join(retrieval.degraded.split())
        found["x-wye-degraded"] = line.encode("ascii", "replace").decode()[:200]
    return found


def event_stream(events: AsyncIterator[bytes], headers: Mapping[str, str]) -> EventSourceResponse:
    """A reply that sends events as they come, and stops them when the client disconnects."""
    # These headers keep proxies from buffering the stream.
    direct = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return EventSourceResponse(events, headers={**headers, **direct})
