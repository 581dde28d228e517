"""What the requests of several addresses share: fields with their limits, and documents."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Self

from fastapi import Request
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ModelWrapValidatorHandler,
    StrictBool,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from wye.backends.errors import suggestion
from wye.backends.filters import parse_filter
from wye.backends.text import is_blank
from wye.router.errors import QuestionError
from wye.router.relevance import ABSTAIN_BELOW
from wye.router.removed import FIELDS
from wye.router.types import Route, route_named
from wye.service.http.problems import Problem
from wye.service.search import SearchParams

LONGEST_QUESTION = 4_096
_MOST_FIELDS = 64
MOST_PASSAGES = 100
ROUTES = frozenset(route.value for route in Route)
DEFAULT_ROUTE = Route.AUTO


class Strict(BaseModel):
    """A request that refuses unknown fields, since they are most often misspelt."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    @model_validator(mode="wrap")
    @classmethod
    def _suggest_fields(cls, value: object, validate: ModelWrapValidatorHandler[Self]) -> Self:
        # Each unknown field would be an error of its own, and a body may have thousands.
        if isinstance(value, Mapping) and len(value) > _MOST_FIELDS:
            raise ValueError(f"there are {len(value):,} fields, most of them unknown")
        try:
            return validate(value)
        except ValidationError as error:
            faults = [_with_suggestion(fault, cls.model_fields) for fault in error.errors()]
            raise ValidationError.from_exception_data(cls.__name__, faults) from None


def _with_suggestion(fault: ErrorDetails, fields: Iterable[str]) -> InitErrorDetails:
    """The same fault; for an unknown field it suggests the fields that may have been meant."""
    message = fault["msg"]
    if fault["type"] == "extra_forbidden" and len(fault["loc"]) == 1:
        name, listing = str(fault["loc"][0]), f" The fields are {', '.join(fields)}."
        hint = " " + FIELDS[name] if name in FIELDS else suggestion(name, fields) or listing
        message = f"There is no such field.{hint}"
    kind = PydanticCustomError(fault["type"], message)
    return InitErrorDetails(type=kind, loc=fault["loc"], input=fault["input"])


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
    if value is not None:
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
    BeforeValidator(_check_filter),
    Field(
        description=(
            "A metadata filter as in OpenAI's vector stores: a comparison with `type` (eq, ne, gt, "
            "gte, lt, lte, in, nin), `key` and `value`, or `and`/`or` with `filters`. Every arm "
            "applies it exactly: a passage that it keeps out is neither returned nor used to find "
            "another."
        ),
        examples=[{"type": "gte", "key": "year", "value": 1850}],
    ),
]
CollectionName = Annotated[
    str | None,
    Field(
        min_length=1,
        max_length=64,
        description="Name of a collection; default: the first. `GET /v1/vector_stores` lists them.",
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
AbstainBelow = Annotated[
    float,
    Field(
        ge=0,
        le=1,
        description=(
            "If `answerability` is lower, the reply says that the collection probably has no "
            "answer, and no language model is called. With 0, or if answerability is unknown, the "
            "question is always answered."
        ),
    ),
    Exact,
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


class SearchRequest(Strict):
    """A question and how to find passages for it."""

    question: QuestionText
    route: RouteChoice = DEFAULT_ROUTE
    k: Passages = 5
    filter: Filter = None
    collection: CollectionName = None
    explain: bool = Field(
        default=False,
        strict=True,
        description=(
            "Also return why the question took its route (`route.summary`), what each feature "
            "added to the score (`route.contributions`), the question's syntax (`route.trees`), "
            "what each arm would have returned (`arms.*.hits`), how the graph came to its ranking "
            "(`explanation`) and which names replaced phrases (`steps`). This takes a few more "
            "milliseconds."
        ),
    )
    min_relevance: MinRelevance = 0.0
    max_latency_ms: MaxLatencyMs = None
    max_cost: MaxCost = None
    point: OperatingPoint = ""
    deadline_ms: DeadlineMs = None


class WyeOptions(Strict):
    """Options beyond OpenAI's protocol; its Python client sends `extra_body={"wye": {...}}`."""

    k: Passages = 5
    filter: Filter = None
    explain: StrictBool = False
    max_latency_ms: MaxLatencyMs = None
    max_cost: MaxCost = None
    min_relevance: MinRelevance = 0.0
    abstain_below: AbstainBelow = ABSTAIN_BELOW
    point: OperatingPoint = ""
    deadline_ms: DeadlineMs = None


def params_of(collection: str, route: Route, options: SearchRequest | WyeOptions) -> SearchParams:
    """The search parameters of a request."""
    return SearchParams(
        route,
        options.k,
        options.filter,
        options.explain,
        options.max_latency_ms,
        options.min_relevance,
        options.point,
        max_cost=options.max_cost,
        collection=collection,
    )


MOST_DOCUMENTS = 10_000
DocumentId = Annotated[
    str,
    Field(
        min_length=1,
        max_length=512,
        description="Unique in its collection. Storing a document under a known id replaces it.",
    ),
]
MetadataField = Annotated[
    dict[str, Any],
    Field(
        default_factory=dict,
        max_length=64,
        description=(
            "Values to filter by, copied to every passage of the document: strings, numbers, "
            "booleans, null, or lists of at most 256 of them. At most 16 kB as JSON."
        ),
    ),
]
Text = Annotated[
    str,
    Field(
        min_length=1,
        description="The text; cut between sentences into passages of up to `chunk_words` words.",
    ),
]
ChunkWords = Annotated[
    int | None, Field(ge=20, le=2_000, description="Longest passage, in words. Default: 200.")
]
_STARI_MOST: dict[str, JsonValue] = {
    "title": "Stari Most",
    "text": "The Old Bridge spans the Neretva in Mostar.",
}
_TOWER_BRIDGE: dict[str, JsonValue] = {
    "title": "Tower Bridge",
    "text": "Tower Bridge crosses the Thames in London.",
    "metadata": {"year": 1894, "kinds": ["bascule", "suspension"]},
}


class DocumentBody(Strict):
    """A document without its id."""

    title: Annotated[str, Field(max_length=1_024)] = ""
    text: Text
    metadata: MetadataField

    model_config = ConfigDict(json_schema_extra={"examples": [_STARI_MOST, _TOWER_BRIDGE]})


class DocumentValue(DocumentBody):
    """A document to store."""

    id: DocumentId

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"id": "mostar", **_STARI_MOST}, {"id": "tower", **_TOWER_BRIDGE}]
        }
    )


class DocumentsRequest(Strict):
    """One document, or several as `documents`."""

    documents: Annotated[
        list[DocumentValue] | None,
        Field(min_length=1, max_length=MOST_DOCUMENTS, fail_fast=True),
    ] = None
    id: DocumentId | None = None
    title: Annotated[str, Field(max_length=1_024)] = ""
    text: Text | None = None
    metadata: MetadataField
    collection: CollectionName = None
    chunk_words: Annotated[ChunkWords, Exact] = None

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"id": "mostar", **_STARI_MOST, "metadata": {"year": 1566}},
                {
                    "documents": [
                        {"id": "tower", "text": "Tower Bridge crosses the Thames in London."},
                        {"id": "thames", "text": "The Thames flows through London."},
                    ],
                    "chunk_words": 120,
                },
            ]
        }
    )

    @model_validator(mode="after")
    def _one_or_many(self) -> Self:
        single = (self.id, self.text)
        if self.documents is None and None in single:
            raise ValueError("send `id` and `text` of a document, or `documents`")
        if self.documents is not None and single != (None, None):
            raise ValueError("send either `documents` or one document's `id` and `text`, not both")
        return self

    def values(self) -> list[DocumentValue]:
        """The documents of the request, one or several."""
        document = {
            "id": self.id,
            "title": self.title,
            "text": self.text,
            "metadata": self.metadata,
        }
        return self.documents or [DocumentValue.model_validate(document)]


class RecentQuestion(BaseModel):
    """One of the last questions."""

    time: float = Field(description="Time of the answer, in seconds since 1970.")
    question: str
    collection: str
    asked: Route
    route: Route
    score: float | None
    ms: float
    degraded: str = Field(description="Kind of degradation; empty if there was none.")


async def refuse_unknown(request: Request) -> None:
    """A dependency that refuses (422) unknown query parameters: ignored, they could do harm."""
    names = [field.alias for field in request.scope["route"].dependant.query_params]
    for name in request.query_params:
        if name not in names:
            text = f" The parameters are {', '.join(names)}." if names else " There is none here."
            hint = " " + FIELDS[name] if name in FIELDS else suggestion(name, names) or text
            message, path = f"There is no such parameter.{hint}", f"query.{name:.60}"
            errors = [{"at": path, "says": message}]
            raise Problem(422, "validation", f"{path}: {message}", errors=errors)
