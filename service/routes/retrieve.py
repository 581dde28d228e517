"""Passages for a question, its route, and the features of routers."""

from fastapi import APIRouter, Request, Response

from wye.featurizer.registry import FEATURES
from wye.router.explain import group_of
from wye.router.passage_evidence import PASSAGE_MEANINGS, PASSAGE_NAMES, WITHOUT
from wye.router.query_performance import MEANINGS, NAMES
from wye.router.types import Route
from wye.service.http.auth import READ
from wye.service.http.problems import request_id_of
from wye.service.http.replies import headers, retrieve_reply, route_value
from wye.service.schemas.chat import WyeOptions
from wye.service.schemas.common import SearchRequest
from wye.service.schemas.retrieve import (
    FeatureList,
    FeatureValue,
    RetrieveReply,
    RetrieveRequest,
    RouteReply,
    RouteRequest,
)
from wye.service.search import SearchParams
from wye.service.service import Served

router = APIRouter(prefix="/v1", tags=["retrieval"], dependencies=READ)


@router.post(
    "/retrieve",
    summary="Find passages for a question",
    operation_id="retrieve",
    response_description="Passages and how they were found.",
)
async def retrieve(
    wanted: RetrieveRequest, request: Request, response: Response, service: Served
) -> RetrieveReply:
    r"""Finds passages by the requested route, or by the one that suits the question's score.

    Questions that arrive together are processed as one batch, without waiting for more to come. If
    the queue is too long to answer in time, the reply is 503 at once, with `Retry-After`.

    ```bash
    curl http://127.0.0.1:8000/v1/retrieve -H 'content-type: application/json' -d \
      '{"question": "Into which sea does the river beneath the Old Bridge of Mostar flow?"}'
    ```
    """
    params = params_of(service.collection(wanted.collection).name, wanted.route, wanted)
    (result,) = await service.search(request, params, [wanted.question], wanted.deadline_ms)
    reply = retrieve_reply(result)
    response.headers.update(headers(reply))
    return reply


@router.post("/route", summary="Say which route a question would take", operation_id="route")
async def route(
    wanted: RouteRequest, request: Request, response: Response, service: Served
) -> RouteReply:
    """Scores a question and returns the route that it would take, but no passages."""
    name = service.collection(wanted.collection).name
    params = SearchParams(
        name,
        Route.AUTO,
        1,
        wanted.filter,
        wanted.explain,
        wanted.max_latency_ms,
        point=wanted.point,
        only_route=True,
    )
    decision = await service.decide(request, params, wanted.question, wanted.deadline_ms)
    response.headers["x-wye-route"] = str(decision.route)
    return RouteReply(
        request_id=request_id_of(request.scope),
        question=wanted.question,
        route=route_value(
            decision,
            path=decision.route,
            asked=Route.AUTO,
            explain=wanted.explain,
            without=() if service.collection(name).has_index else WITHOUT,
        ),
    )


@router.get("/features", summary="List the router's features", operation_id="list_features")
async def features() -> FeatureList:
    """Lists the features in `contributions`: of the question, and of what the corpus has for it."""
    meanings = {
        **{feature.name: feature.doc for feature in FEATURES},
        **MEANINGS,
        **PASSAGE_MEANINGS,
    }
    return FeatureList(
        data=[
            FeatureValue(name=name, group=group_of(name), meaning=meanings[name])
            for name in (*NAMES, *PASSAGE_NAMES)
        ]
    )


def params_of(collection: str, route: Route, wanted: SearchRequest | WyeOptions) -> SearchParams:
    """The search parameters of a request."""
    return SearchParams(
        collection,
        route,
        wanted.k,
        wanted.filter,
        wanted.explain,
        wanted.max_latency_ms,
        wanted.min_relevance,
        point=wanted.point,
        max_cost=wanted.max_cost,
    )
