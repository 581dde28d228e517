"""`/v1/route` and `/v1/features`: which route a question would take, and by what."""

from dataclasses import replace

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field, StrictBool

from wye.featurizer.registry import FEATURES
from wye.router.evidence import COLUMNS, MEANINGS
from wye.router.explain import Group, group_of
from wye.router.types import Route
from wye.service.api.replies import RouteValue
from wye.service.api.retrieve import (
    CollectionName,
    DecisionFields,
    QuestionText,
    examples,
    route_value,
)
from wye.service.http.edge import READ
from wye.service.service import Served, request_id_of

_QUESTION = "Into which sea does the river beneath the Old Bridge of Mostar flow?"


class RouteRequest(DecisionFields):
    """A question to be scored but not answered."""

    question: QuestionText
    collection: CollectionName = None
    explain: StrictBool = False
    """Also return what each feature adds to the score."""

    model_config = examples({"question": _QUESTION}, {"question": _QUESTION, "explain": True})


class FeatureValue(BaseModel):
    """A feature that a router can use."""

    name: str = Field(description="Name of the feature, as in `route.contributions`.")
    group: Group = Field(
        description="What it is about: names in the question, the first passages, or syntax."
    )
    meaning: str


class FeatureList(BaseModel):
    """All features."""

    data: list[FeatureValue]


class RouteReply(BaseModel):
    """The route that a question would take."""

    request_id: str
    question: str
    route: RouteValue


router = APIRouter(prefix="/v1", tags=["retrieval"], dependencies=READ)


@router.post("/route", summary="Say which route a question would take", operation_id="route")
async def route(
    body: RouteRequest, request: Request, response: Response, service: Served
) -> RouteReply:
    """Scores a question and returns the route that it would take, but no passages.

    Without an index the reply is 409: there, only what was found decides.
    """
    name = service.collection(body.collection).name
    params = replace(body.params(name, Route.AUTO), k=1)
    decision = await service.decide(request, params, body.question, body.deadline_ms)
    response.headers["x-wye-route"] = str(decision.route)
    return RouteReply(
        request_id=request_id_of(request),
        question=body.question,
        route=route_value(decision, decision.route, params),
    )


@router.get("/features", summary="List the router's features", operation_id="list_features")
async def features() -> FeatureList:
    """Lists the features in `contributions`: of the question, and of what the corpus has for it."""
    meanings = {**{feature.name: feature.doc for feature in FEATURES}, **MEANINGS}
    return FeatureList(
        data=[
            FeatureValue(name=name, group=group_of(name), meaning=meanings[name])
            for name in COLUMNS
        ]
    )
