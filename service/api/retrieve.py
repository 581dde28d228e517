"""`/v1/retrieve`: passages for a question; and the fields that other requests share with it."""

from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request, Response
from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    StrictBool,
)

from wye.backends.filters import as_json, parse_filter
from wye.backends.text import is_blank
from wye.backends.types import Ranking
from wye.router.errors import QuestionError
from wye.router.policy import FORCED
from wye.router.types import Decision, FusedHit, Route, route_named
from wye.service.api.replies import (
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
from wye.service.http.edge import READ, Strict
from wye.service.search import SearchParams, SearchResult
from wye.service.service import Served
from wye.service.settings import LONGEST_QUESTION

MOST_PASSAGES = 100
ROUTES = frozenset(route.value for route in Route)
DEFAULT_ROUTE = Route.AUTO
_QUESTION = "Into which sea does the river beneath the Old Bridge of Mostar flow?"


def examples(*values: JsonValue) -> ConfigDict:
    """The configuration of a request whose schema has examples."""
    return ConfigDict(json_schema_extra={"examples": list(values)})


def _parse_route(value: object) -> object:
    if not isinstance(value, str) or value in ROUTES:
        return value
    try:
        return route_named(value)
    except QuestionError as error:
        raise ValueError(str(error)) from None


def _exact(value: object) -> object:
    """Refuse "5" and true, which pydantic would convert to numbers."""
    if isinstance(value, str | bool):
        raise ValueError("send a number, without quotes")  # noqa: TRY004 - pydantic's word
    return value


Exact = BeforeValidator(_exact)
"""Accepts a number of JSON only: no string and no boolean."""


def _check_words(text: str) -> str:
    if is_blank(text):
        raise ValueError("ask with at least one word")
    return text


def _check_filter(value: object) -> object:
    """Check a filter here, so that a bad one is refused before the request waits in a queue."""
    if value is None:
        return None
    value = as_json(value)
    parse_filter(value)
    return value


QuestionText = Annotated[
    str,
    Field(min_length=1, max_length=LONGEST_QUESTION, description="What to ask, in plain words."),
    AfterValidator(_check_words),
]
Passages = Annotated[
    int,
    Field(
        ge=1,
        le=MOST_PASSAGES,
        description="How many passages to return; fewer if no more are found.",
    ),
    Exact,
]
Filter = Annotated[
    dict[str, Any] | None,
    BeforeValidator(_check_filter, json_schema_input_type=dict[str, Any] | str | None),
    Field(
        description=(
            "A metadata filter as in OpenAI's vector stores: a comparison with `type` (eq, ne, gt, "
            "gte, lt, lte, in, nin), `key` and `value`, or `and`/`or` with `filters`; or as text, "
            "`year>=1850 and topic=bridges`. Every arm applies it exactly: a passage that it keeps "
            "out is neither returned nor used to find another."
        ),
        examples=[{"type": "gte", "key": "year", "value": 1850}, "year>=1850"],
    ),
]
CollectionName = Annotated[
    str | None,
    Field(
        min_length=1,
        max_length=64,
        description="Name of a collection, needed where there are several. `GET /v1/vector_stores` "
        "lists them.",
    ),
]
DeadlineMs = Annotated[
    int | None,
    Field(
        ge=1,
        le=3_600_000,
        description=(
            "Time for finding passages, in milliseconds. If the requested route would take longer, "
            "dense search answers instead, and `degraded` says so. The route `steps` starts no "
            "further step after half of the time, and `degraded` says so. If nothing is found in "
            "time, the reply is 504."
        ),
    ),
    Exact,
]
RouteChoice = Annotated[
    Route,
    BeforeValidator(_parse_route),
    Field(
        description=(
            "How to search. `auto` scores the question and decides. `dense`, `lexical`, `graph`, "
            "`clue` and `zoom` are single arms. `hybrid` fuses dense and lexical, and `fusion` the "
            "arms in the settings. `steps` runs fusion for a question and for its parts, one after "
            "another."
        )
    ),
]
MaxLatencyMs = Annotated[
    float | None,
    Field(
        gt=0,
        le=3_600_000,
        description=(
            "Time limit, in milliseconds, for the router's choice: if the route that the score "
            "asks for usually takes longer, it takes a cheaper one, and `route.reason` says "
            "`budget`. The route `steps` starts no further step after this time, and `degraded` "
            "says so."
        ),
    ),
    Exact,
]
MaxCost = Annotated[
    float | None,
    Field(
        ge=0,
        description=(
            "Most that calls of remote arms may cost for this question, in the currency of their "
            "prices. An arm that would cost more is not called, and `missing` says so."
        ),
    ),
    Exact,
]
MinRelevance = Annotated[
    float,
    Field(
        ge=0,
        le=1,
        description=(
            "Leaves out passages whose `relevance` is lower, so fewer than `k` may be returned. "
            "The reply is 422 if relevance is unknown."
        ),
    ),
    Exact,
]
MinVersion = Annotated[
    int,
    Field(
        ge=0,
        description=(
            "Searches this version of the index or a later one, such as the `index_version` of "
            "the reply to a write, whichever server answers. If it is not there within two "
            "seconds, the reply is 503 `not-searched-yet`; without an index it is 409."
        ),
    ),
    Exact,
]
NearDuplicates = Annotated[
    Literal["", "fold", "keep"],
    Field(description="`keep` leaves near-duplicates in place; empty for what the settings say."),
]
OperatingPoint = Annotated[
    str,
    Field(
        max_length=40,
        description=(
            "Thresholds for `auto`, by operating point: `quality`, `balanced` or `fast`; empty for "
            "those in use."
        ),
    ),
]


class SearchFields(Strict):
    """Which passages to find, and how."""

    k: Passages = 5
    filter: Filter = None
    explain: StrictBool = False
    max_latency_ms: MaxLatencyMs = None
    max_cost: MaxCost = None
    min_relevance: MinRelevance = 0.0
    point: OperatingPoint = ""
    deadline_ms: DeadlineMs = None
    duplicates: NearDuplicates = ""
    min_version: MinVersion = 0

    def params(self, collection: str, route: Route) -> SearchParams:
        """The search parameters of the request."""
        names = SearchFields.model_fields.keys() - {"deadline_ms"}
        options = {name: getattr(self, name) for name in names}
        return SearchParams(route, collection=collection, **options)


class SearchRequest(SearchFields):
    """A question and how to find passages for it."""

    question: QuestionText
    route: RouteChoice = DEFAULT_ROUTE
    collection: CollectionName = None
    explain: StrictBool = Field(
        default=False,
        description=(
            "Also return why the question took its route (`route.summary`), what each feature "
            "added to the score (`route.contributions`), the question's syntax (`route.trees`), "
            "what each arm would have returned (`arms.*.hits`), how the graph came to its ranking "
            "(`explanation`) and which names replaced phrases (`steps`). This takes a few more "
            "milliseconds."
        ),
    )


class RetrieveRequest(SearchRequest):
    """A question to find passages for."""

    model_config = examples(
        {"question": _QUESTION},
        {"question": _QUESTION, "route": "graph", "k": 3, "explain": True},
        {
            "question": "Which bridge was built first?",
            "route": "dense",
            "filter": {"type": "lt", "key": "year", "value": 1850},
            "deadline_ms": 2000,
        },
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
    params = body.params(service.collection(body.collection).name, body.route)
    (result,) = await service.search(request, params, [body.question], body.deadline_ms)
    reply = retrieve_reply(result)
    response.headers.update(headers(reply))
    return reply


NO_RELEVANCE = (
    "Remote arms found some of these passages, or all. Relevance was fitted for the scores and "
    "ranks of the arms of an index, and says nothing about theirs."
)


def retrieve_reply(result: SearchResult) -> RetrieveReply:
    """The reply of `/v1/retrieve`, which other replies are made from."""
    params, reply, remote = result.params, result.reply, result.remote
    return RetrieveReply(
        request_id=result.entry.item.request_id,
        question=reply.question,
        passages=_passages(result),
        answerability=reply.answerability,
        folded=sum(map(len, reply.duplicates.values())),
        relevance_note=NO_RELEVANCE if remote and remote.answered and not reply.relevance else None,
        route=route_value(
            reply.decision,
            path=reply.route,
            requested=params.route,
            explain=params.explain,
            fallback=result.fallback,
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
                duplicates=[*result.reply.duplicates.get(hit.id, ())],
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
) -> RouteValue:
    """The route that a question took, and why.

    Args:
        decision: None if the request named the route.
        path: The route that answered.
        requested: The route that the request named.
        fallback: Why dense search answered instead, or "".
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
