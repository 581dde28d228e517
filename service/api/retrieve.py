"""`/v1/retrieve`: passages for a question."""

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from operator import is_
from typing import Any, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from wye.backends.trigraph.explanation import Explanation
from wye.backends.types import Ranking
from wye.router.policy import FORCED
from wye.router.types import ChainStep, Change, Contribution, Decision, FusedHit, Route
from wye.service.api.common import SearchRequest, params_of
from wye.service.http.auth import READ
from wye.service.search import SearchResult
from wye.service.service import Served

_is_none = partial(is_, None)
_QUESTION = "Into which sea does the river beneath the Old Bridge of Mostar flow?"


class RetrieveRequest(SearchRequest):
    """A question to find passages for."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"question": _QUESTION},
                {"question": _QUESTION, "route": "graph", "k": 3, "explain": True},
                {
                    "question": "Which bridge was built first?",
                    "route": "dense",
                    "filter": {"type": "lt", "key": "year", "value": 1850},
                    "deadline_ms": 2000,
                },
            ]
        }
    )


class SourceValue(BaseModel):
    """The rank and score of a passage in one arm's list."""

    arm: str = Field(
        description=(
            "Name of the arm, such as `dense` or that of a remote arm. `steps` stands for all "
            "searches with names found by steps; the rank is the best in any of them."
        )
    )
    rank: int = Field(description="Rank in the arm's list, from 1.")
    score: float = Field(
        description=(
            "The arm's own score: a cosine, BM25, or a share of the walk's mass. Scores of two "
            "arms are not comparable; fusion by scores first brings them to a common scale."
        )
    )
    share: float | None = Field(
        default=None,
        description=(
            "What the list added to the passage's score, which is the sum of all shares. In fusion "
            "by scores, the default, it is the list's weight times the difference between the "
            "score, on a common scale, and the last score of the list. In fusion by ranks (`rrf`) "
            "it is weight / (rrf_k + rank). Null if nothing was fused."
        ),
    )


class PassageValue(BaseModel):
    """A passage that was found."""

    id: str
    rank: int = Field(description="Rank in the reply, from 1.")
    score: float = Field(description="Higher is better; comparable within one reply only.")
    relevance: float | None = Field(
        default=None,
        description=(
            "Probability that the passage is relevant, 0 to 1, comparable between replies and "
            "routes. Null if unknown: it was fitted for the default models and settings."
        ),
    )
    title: str
    text: str
    metadata: dict[str, Any]
    document: str = Field(
        description="Id of its document; equal to `id` if the passage is a whole document."
    )
    sources: list[SourceValue] = Field(description="The arms that found it, with their ranks.")


class RouteValue(BaseModel):
    """The route that a question took, and why."""

    path: Route = Field(description="The route that answered.")
    asked: Route = Field(description="The route that was requested.")
    reason: str = Field(
        description=(
            "What decided: `score`; `plan: …` if the question can be taken apart; `forced` if the "
            "request named the route; `unfamiliar: …` if the router learned from no question like "
            "it; `budget: …` for a limit on time or cost; `degraded: …` if something failed or was "
            "late."
        )
    )
    score: float | None = Field(
        default=None,
        description="Complexity of the question, from 0 to 1; null if it was not scored.",
    )
    summary: str = Field(
        default="", description="The reason in a sentence or two; with `explain` only."
    )
    simple: Route | None = Field(
        default=None,
        description="The route for scores up to `low`; null if the question was not scored.",
    )
    thresholds: dict[str, float] | None = Field(
        default=None,
        description=(
            "A question whose score is at most `low` takes the simple route, one with at least "
            "`high` the graph. One with a plan that is not surely simple goes in steps if the "
            "first passages are about a smaller share of what it needs than `steps`. These are the "
            "collection's thresholds at the time of scoring."
        ),
    )
    model: str = Field(default="", description="Name and version of the router's model.")
    contributions: list[Contribution] | None = Field(
        default=None, description="What each feature added to the logit; with `explain` only."
    )
    nearest_change: Change | None = Field(
        default=None,
        description="The smallest move of the score that changes the route; with `explain` only.",
    )
    without: list[str] | None = Field(
        default=None,
        exclude_if=_is_none,
        description=(
            "Features that the router lacked because this server has no index; omitted if it has "
            "one."
        ),
    )
    trees: list[str] | None = Field(
        default=None,
        description=(
            "Constituency trees in brackets, one for each sentence of a question that was scored; "
            "with `explain` only."
        ),
    )


class ArmHitValue(BaseModel):
    """A passage in one arm's list."""

    id: str
    title: str
    rank: int = Field(description="Rank in the arm's list, from 1.")
    score: float = Field(description="The arm's own score; comparable within its list only.")


class RemoteValue(BaseModel):
    """How a call of a remote arm went."""

    kind: str = Field(description="Kind of service, such as `http`.")
    state: Literal["closed", "open", "half-open"] = Field(
        description=(
            "State of its circuit breaker: `open` while it is not called after failures, "
            "`half-open` while a single call tests whether it has recovered."
        )
    )
    calls: int = Field(description="How many calls with a price were made for this question.")
    ms: float = Field(description="Milliseconds that the calls took, retries included.")
    spent: float = Field(description="What the calls cost.")


class MissingArm(BaseModel):
    """A remote arm that returned nothing."""

    arm: str
    reason: str = Field(description="The reason in words; `budget: …` if a limit kept an arm out.")


class ArmValue(BaseModel):
    """What one arm contributed."""

    candidates: int = Field(description="How many passages it could have returned, after filters.")
    returned: int
    note: str = Field(
        default="",
        description="What the arm lacked; not a fault if other arms were searched as well.",
    )
    hits: list[ArmHitValue] | None = Field(
        default=None, description="The arm's first `k` hits, best first; with `explain` only."
    )
    remote: RemoteValue | None = Field(
        default=None,
        exclude_if=_is_none,
        description="How the call of a remote arm went; omitted for the server's own arms.",
    )


class IndexValue(BaseModel):
    """The collection and version that were searched."""

    collection: str
    version: int = Field(description="Version of the index; it grows with every write.")


class RetrieveReply(BaseModel):
    """Passages and how they were found."""

    request_id: str = Field(description="Id to give in feedback and when you report a problem.")
    question: str
    passages: list[PassageValue] = Field(description="The passages, best first.")
    answerability: float | None = Field(
        default=None,
        description=(
            "Probability that the collection has an answer, 0 to 1; null if unknown or if nothing "
            "was found."
        ),
    )
    relevance_note: str | None = Field(
        default=None,
        exclude_if=_is_none,
        description="Why the relevance of these passages is unknown; omitted otherwise.",
    )
    route: RouteValue
    arms: dict[str, ArmValue] = Field(description="The arms that were searched, by name.")
    timings_ms: dict[str, float] = Field(
        description=(
            "Milliseconds by stage. `queue` is the time spent waiting. Questions of one batch get "
            "equal shares of its time. `total` is the time that really passed."
        )
    )
    batch: int = Field(description="Number of questions in the batch.")
    index: IndexValue
    degraded: str = Field(
        default="", description="Why this is not what was asked for; empty if it is."
    )
    missing: list[MissingArm] | None = Field(
        default=None,
        exclude_if=_is_none,
        description=(
            "Remote arms that the route wanted and that returned nothing. Omitted if the route has "
            "no remote arm, and so are `spent` and `saved`."
        ),
    )
    spent: float | None = Field(
        default=None, exclude_if=_is_none, description="What this question's remote calls cost."
    )
    saved: float | None = Field(
        default=None,
        exclude_if=_is_none,
        description="What the calls that the router avoided would have cost.",
    )
    explanation: Explanation | None = Field(
        default=None, description="How the graph arm came to its ranking; with `explain` only."
    )
    steps: tuple[ChainStep, ...] | None = Field(
        default=None,
        description=(
            "Phrases of the question that were resolved first, innermost first, with the names "
            "found for them; only for the route `steps` with `explain`."
        ),
    )


router = APIRouter(prefix="/v1", tags=["retrieval"], dependencies=READ)


@router.post(
    "/retrieve",
    summary="Find passages for a question",
    operation_id="retrieve",
    response_description="Passages and how they were found.",
)
async def retrieve(
    body: RetrieveRequest, request: Request, response: Response, service: Served
) -> RetrieveReply:
    r"""Finds passages by the requested route, or by the one that suits the question's score.

    Questions that arrive together are processed as one batch, without waiting for more to come. If
    the queue is too long to answer in time, the reply is 503 at once, with `Retry-After`.

    ```bash
    curl http://127.0.0.1:8000/v1/retrieve -H 'content-type: application/json' -d \
      '{"question": "Into which sea does the river beneath the Old Bridge of Mostar flow?"}'
    ```
    """
    params = params_of(service.collection(body.collection).name, body.route, body)
    (result,) = await service.search(request, params, [body.question], body.deadline_ms)
    reply = retrieve_reply(result)
    response.headers.update(headers(reply))
    return reply


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
            requested=params.route,
            explain=params.explain,
            fallback=result.fallback,
            without=remote.without if remote else (),
        ),
        arms={
            name: _arm_value(result, name)
            for name in dict.fromkeys([*reply.arms, *(remote.calls if remote else ())])
        },
        timings_ms={
            stage: round(1000 * seconds, 3)
            for stage, seconds in {**result.seconds, "total": result.total}.items()
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
    for position, hit in enumerate(ranking.hits):
        passage = result.passages[hit.id]
        sources = (
            [
                SourceValue(
                    arm=source.retriever, rank=source.rank, score=source.score, share=source.share
                )
                for source in hit.sources
            ]
            if isinstance(hit, FusedHit)
            else [SourceValue(arm=str(ranking.retriever), rank=hit.rank, score=hit.score)]
        )
        values.append(
            PassageValue(
                id=hit.id,
                rank=hit.rank,
                score=hit.score,
                relevance=relevance[position] if relevance else None,
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
    requested: Route,
    explain: bool,
    fallback: str = "",
    without: Sequence[str] = (),
) -> RouteValue:
    """The route that a question took, and why.

    Args:
        decision: None if the request named the route.
        path: The route that answered.
        requested: The route that the request named.
        fallback: Why dense search answered instead, or "".
        without: Names of features that the router lacked.
    """
    if decision is None:
        summary = (fallback or f"Route {requested} was asked for.") if explain else ""
        return RouteValue(path=path, asked=requested, reason=fallback or FORCED, summary=summary)
    return RouteValue(
        path=path,
        asked=requested,
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


def headers(retrieval: RetrieveReply) -> dict[str, str]:
    """Headers with facts that proxies and logs can use without reading the body."""
    values = {
        "x-wye-route": str(retrieval.route.path),
        "x-wye-collection": retrieval.index.collection,
        "x-wye-index-version": str(retrieval.index.version),
        "server-timing": ", ".join(
            f"{stage};dur={ms:.1f}" for stage, ms in retrieval.timings_ms.items()
        ),
    }
    if retrieval.route.score is not None:
        values["x-wye-score"] = f"{retrieval.route.score:.4f}"
    if retrieval.degraded:
        line = " ".join(retrieval.degraded.split())
        values["x-wye-degraded"] = line.encode("ascii", "replace").decode()[:200]
    return values
