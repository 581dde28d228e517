"""Dify's external knowledge."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field, JsonValue

from wye.backends.errors import FilterError
from wye.backends.filters import parse_filter
from wye.backends.text import is_blank
from wye.router.types import Route
from wye.service.api.replies import shares_of_one
from wye.service.api.retrieve import Exact, Passages, examples, retrieve_reply
from wye.service.collections import SearchParams
from wye.service.http.edge import READ
from wye.service.http.openapi import Described
from wye.service.service import Served
from wye.service.settings import LONGEST_QUESTION

_COMPARISONS = {
    "is": "eq",
    "is not": "ne",
    "=": "eq",
    "≠": "ne",
    ">": "gt",
    "<": "lt",
    "≥": "gte",
    "≤": "lte",
    "before": "lt",
    "after": "gt",
    "in": "in",
    "not in": "nin",
}


_BODY: dict[str, JsonValue] = {"knowledge_id": "default", "query": "Who designed the Iron Bridge?"}
_EARLY: dict[str, JsonValue] = {"name": "year", "comparison_operator": "<", "value": 1850}


class RetrievalSetting(BaseModel):
    """How many records Dify wants, and their lowest score."""

    top_k: Passages = 5
    score_threshold: Annotated[float, Field(ge=0, le=1), Exact] = 0.0


class DifyCondition(BaseModel):
    """A comparison with one metadata key."""

    name: str | list[str]
    comparison_operator: str
    value: Any = None

    def filter(self) -> dict[str, Any]:
        """The condition as a filter; a `FilterError` if no filter is equal to it."""
        names = [self.name] if isinstance(self.name, str) else self.name
        if len(names) != 1:
            raise FilterError(
                "A condition can have only one name here; send one condition for each."
            )
        kind = _COMPARISONS.get(self.comparison_operator)
        if kind is None:
            raise FilterError(
                f"There is no comparison '{self.comparison_operator:.40}' here; use one of "
                f"{', '.join(_COMPARISONS)}."
            )
        return {"type": kind, "key": names[0], "value": self.value}


class MetadataCondition(BaseModel):
    """Comparisons with metadata, of which all must hold (`and`) or any (`or`)."""

    logical_operator: Literal["and", "or"] = "and"
    conditions: Annotated[list[DifyCondition], Field(max_length=64)] = Field(default_factory=list)


class DifyRequest(Described):
    """A request of Dify for external knowledge; unknown fields are ignored."""

    knowledge_id: Annotated[str, Field(max_length=64)]
    """Name of a collection."""
    query: Annotated[str, Field(max_length=LONGEST_QUESTION)]
    """The question; empty when Dify tests the connection."""
    retrieval_setting: RetrievalSetting = Field(default_factory=RetrievalSetting)
    metadata_condition: MetadataCondition | None = None

    model_config = examples(
        {**_BODY, "retrieval_setting": {"top_k": 3, "score_threshold": 0.2}},
        {
            **_BODY,
            "query": "Which bridge was built first?",
            "retrieval_setting": {"top_k": 3, "score_threshold": 0.0},
            "metadata_condition": {"conditions": [_EARLY]},
        },
    )

    def filter(self) -> dict[str, Any] | None:
        """All conditions as a filter, or None; a `FilterError` if none is equal to them."""
        condition = self.metadata_condition
        if condition is None or not condition.conditions:
            return None
        filters = [each.filter() for each in condition.conditions]
        combined = {"type": condition.logical_operator, "filters": filters}
        parse_filter(combined)
        return combined


router = APIRouter(prefix="/v1", tags=["connectors"], dependencies=READ)


@router.post("/dify/retrieval", summary="Dify's external knowledge")
async def dify_retrieval(body: DifyRequest, request: Request, service: Served) -> dict[str, Any]:
    """Returns passages as Dify's records. In Dify, enter the address of the server and `/v1/dify`.

    `score_threshold` is a lower bound on relevance, so it means the same for every question. A
    bound above 0 is refused if relevance is unknown; the score is then a share of the best one.
    """
    filter_ = body.filter()
    name = service.collection(body.knowledge_id).name
    if is_blank(body.query):
        return {"records": []}
    setting = body.retrieval_setting
    params = SearchParams(
        Route.AUTO, setting.top_k, filter_, min_relevance=setting.score_threshold, collection=name
    )
    reply = retrieve_reply(await service.search(request, params, body.query, None))
    records = [
        {
            "content": passage.text,
            "score": score,
            "title": passage.title,
            "metadata": {**passage.metadata, "document_id": passage.document},
        }
        for passage, score in zip(reply.passages, shares_of_one(reply.passages), strict=True)
    ]
    return {"records": records}
