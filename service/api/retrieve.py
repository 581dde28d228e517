"""`/v1/retrieve`, `/v1/route` and `/v1/features`: passages for a question, and its route.

Also the fields that other requests share with these.
"""

from dataclasses import asdict, fields, replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, JsonValue, StrictBool

from wye.backends.filters import as_json, parse_filter
from wye.backends.text import is_blank
from wye.backends.types import Ranking
from wye.featurizer.registry import FEATURES
from wye.router.errors import QuestionError
from wye.router.evidence import COLUMNS, MEANINGS
from wye.router.explain import Group, group_of
from wye.router.policy import FORCED
from wye.router.types import Decision, Route, route_named
from wye.service.api import replies
from wye.service.collections import SearchParams, SearchResult
from wye.service.http.edge import READ, Strict
from wye.service.http.openapi import Described
from wye.service.service import Served, request_id_of
from wye.service.settings import LONGEST_QUESTION

MOST_PASSAGES = 100
ROUTES = frozenset(route.value for route in Route)
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


Exact = BeforeValidator(_exact)  # accepts a number of JSON only: no string and no boolean


def _check_words(text: str) -> str:
    if is_blank(text):
        raise ValueError("ask with at least one word")
    return text


def _check_filter(value: object) -> object:
    """Check a filter here, so that a bad one is refused before the request waits in a queue."""
    filter_ = None if value is None else as_json(value)
    if filter_ is not None:
        parse_filter(filter_)
    return filter_


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
_OPTIONS = {field.name for field in fields(SearchParams)} - {"route", "collection"}


class DecisionFields(Strict):
    """What limits the router's choice."""

    filter: Filter = None
    explain: StrictBool = False
    deadline_ms: DeadlineMs = None

    def params(self, collection: str, route: Route) -> SearchParams:
        """The search parameters of the request."""
        options = {name: getattr(self, name) for name in _OPTIONS & type(self).model_fields.keys()}
        return SearchParams(route, collection=collection, **options)


class SearchFields(DecisionFields):
    """Which passages to find, and how."""

    k: Passages = 5
    max_cost: Annotated[float | None, Field(ge=0), Exact] = None
    """Most that calls of remote arms may cost for this question, in the currency of their prices.
    An arm that would cost more is not called, and `missing` says so."""
    min_relevance: Annotated[float, Field(ge=0, le=1), Exact] = 0.0
    """Leaves out passages whose `relevance` is lower, so fewer than `k` may be returned. The reply
    is 422 if relevance is unknown."""
    duplicates: Literal["", "fold", "keep"] = ""
    """`keep` leaves near-duplicates in place; empty for what the settings say."""
    min_version: Annotated[int, Field(ge=0), Exact] = 0
    """Searches this version of the index or a later one, such as the `index_version` of the reply
    to a write, whichever server answers. If it is not there within two seconds, the reply is 503
    `not-searched-yet`."""


class SearchRequest(SearchFields):
    """A question and how to find passages for it."""

    question: QuestionText
    route: Annotated[Route, BeforeValidator(_parse_route)] = Route.AUTO
    """How to search. `auto` scores the question and decides. `dense`, `lexical`, `graph`, `clue`
    and `zoom` are single arms. `hybrid` fuses dense and lexical, and `fusion` the arms in the
    settings. `steps` runs fusion for a question and for its parts, one after another."""
    collection: CollectionName = None
    explain: StrictBool = False
    """Also return why the question took its route (`route.summary`), what each feature added to the
    score (`route.contributions`), the question's syntax (`route.trees`), what each arm would have
    returned (`arms.*.hits`), how the graph came to its ranking (`explanation`) and which names
    replaced phrases (`steps`). This takes a few more milliseconds."""


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
    response_description="Passages and how they were found.",
)
async def retrieve(
    body: RetrieveRequest, request: Request, service: Served
) -> replies.RetrieveReply:
    r"""Finds passages by the requested route, or by the one that suits the question's score.

    Questions that arrive together are processed as one batch, without waiting for more to come. If
    the queue is too long to answer in time, the reply is 503 at once, with `Retry-After`.

    ```bash
    curl http://127.0.0.1:8000/v1/retrieve -H 'content-type: application/json' -d \
      '{"question": "Into which sea does the river beneath the Old Bridge of Mostar flow?"}'
    ```
    """
    params = body.params(service.collection(body.collection).name, body.route)
    return retrieve_reply(await service.search(request, params, body.question, body.deadline_ms))


OTHER_SETTINGS = (
    "Relevance was fitted for the default models and settings of the arms, and for the routes that "
    "they are part of. `wye train --relevance` fits it to yours."
)
NO_RELEVANCE = (
    "Remote arms found some of these passages, or all. Relevance was fitted for the scores and "
    "ranks of the arms of an index, and says nothing about theirs."
)


def retrieve_reply(result: SearchResult) -> replies.RetrieveReply:
    """The reply of `/v1/retrieve`, which other replies are made from."""
    params, reply, remote = result.params, result.reply, result.remote
    arms = dict.fromkeys([*reply.arms, *(remote.calls if remote else ())])
    seconds = {**result.seconds, "total": result.total}
    explained = params.explain and reply.route == Route.STEPS
    arms_facts: dict[str, Any] = {}
    if reply.ranking.hits and not reply.relevance:
        has_theirs = remote is not None and remote.answered
        arms_facts["relevance_note"] = NO_RELEVANCE if has_theirs else OTHER_SETTINGS
    if remote:
        missing = [replies.MissingArm(arm=name, reason=why) for name, why in remote.missing.items()]
        arms_facts |= {"missing": missing, "spent": remote.spent, "saved": remote.saved}
    return replies.RetrieveReply(
        request_id=result.entry.item.request_id,
        question=reply.question,
        passages=_passages(result),
        answerability=reply.answerability,
        searched=reply.searched,
        folded=sum(map(len, reply.duplicates.values())),
        route=route_value(reply.decision, reply.route, params, result.fallback),
        arms={name: _arm_value(result, name) for name in arms},
        timings_ms={stage: round(1000 * each, 3) for stage, each in seconds.items()},
        batch=result.entry.size,
        index=replies.IndexValue(collection=params.collection, version=reply.version),
        degraded=result.degraded,
        explanation=reply.explanation,
        steps=reply.chain if explained else None,
        **arms_facts,
    )


def _arm_value(result: SearchResult, name: str) -> replies.ArmValue:
    """What an arm contributed; for a remote arm, also how its call went."""
    ranking = result.reply.arms.get(name, Ranking(name, ()))
    call = result.remote.calls.get(name) if result.remote else None
    value = replies.ArmValue(
        candidates=ranking.candidates, returned=len(ranking.hits), note=ranking.degraded
    )
    if result.params.explain:
        value.hits = [
            replies.ArmHitValue(
                id=hit.id, title=result.passages[hit.id].title, rank=hit.rank, score=hit.score
            )
            for hit in ranking.hits[: result.params.k]
        ]
    if call:
        value.note = call.note or call.reason
        ms = round(1000 * call.seconds, 3)
        value.remote = replies.RemoteValue(
            kind=call.kind, state=call.state.value, calls=call.calls, ms=ms, spent=call.spent
        )
    return value


def _passages(result: SearchResult) -> list[replies.PassageValue]:
    reply = result.reply
    ranking = reply.ranking
    relevance = reply.relevance or [None] * len(ranking.hits)
    values = []
    for hit, probability in zip(ranking.hits, relevance, strict=True):
        passage = result.passages[hit.id]
        sources = hit.sources or [(str(ranking.retriever), hit.rank, hit.score, None)]
        values.append(
            replies.PassageValue(
                id=hit.id,
                rank=hit.rank,
                score=hit.score,
                relevance=probability,
                title=passage.title,
                text=passage.text,
                metadata=dict(passage.metadata),
                document=passage.document,
                duplicates=[*reply.duplicates.get(hit.id, ())],
                sources=[
                    replies.SourceValue(arm=arm, rank=rank, score=score, share=share)
                    for arm, rank, score, share in sources
                ],
            )
        )
    return values


def route_value(
    decision: Decision | None, path: Route, params: SearchParams, fallback: str = ""
) -> replies.RouteValue:
    """The route that a question took, and why.

    `decision` is None if the request named the route, and `fallback` says why dense search answered
    instead, or "".
    """
    if decision is None:
        summary = (fallback or f"Route {params.route} was asked for.") if params.explain else ""
        reason = fallback or FORCED
        return replies.RouteValue(path=path, asked=params.route, reason=reason, summary=summary)
    return replies.RouteValue(
        path=path,
        asked=params.route,
        reason=fallback or decision.reason,
        score=decision.score,
        thresholds=None if decision.thresholds is None else asdict(decision.thresholds),
        summary=decision.summary,
        simple=decision.simple,
        model=decision.model,
        contributions=list(decision.contributions) if params.explain else None,
        trees=list(decision.trees) if params.explain else None,
    )


class RouteRequest(DecisionFields):
    """A question to be scored but not answered."""

    question: QuestionText
    collection: CollectionName = None
    explain: StrictBool = False
    """Also return what each feature adds to the score."""

    model_config = examples({"question": _QUESTION}, {"question": _QUESTION, "explain": True})


class FeatureValue(Described):
    """A feature that a router can use."""

    name: str
    """Name of the feature, as in `route.contributions`."""
    group: Group
    """What it is about: names in the question, the first passages, or syntax."""
    meaning: str


class FeatureList(Described):
    """All features."""

    data: list[FeatureValue]


class RouteReply(Described):
    """The route that a question would take."""

    request_id: str
    question: str
    route: replies.RouteValue


@router.post("/route", summary="Say which route a question would take")
async def route(body: RouteRequest, request: Request, service: Served) -> RouteReply:
    """Scores a question and returns the route that it would take, but no passages."""
    params = replace(body.params(service.collection(body.collection).name, Route.AUTO), k=1)
    decision = await service.decide(request, params, body.question, body.deadline_ms)
    value = route_value(decision, decision.route, params)
    return RouteReply(request_id=request_id_of(request), question=body.question, route=value)


@router.get("/features", summary="List the router's features")
async def list_features() -> FeatureList:
    """Lists the features in `contributions`: of the question, and of what the corpus has for it."""
    meanings = {**{feature.name: feature.doc for feature in FEATURES}, **MEANINGS}
    data = [FeatureValue(name=n, group=group_of(n), meaning=meanings[n]) for n in COLUMNS]
    return FeatureList(data=data)
