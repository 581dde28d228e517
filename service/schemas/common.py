"""Fields that several requests have, with their limits."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from backends.errors import suggestion
from backends.filters import parse_filter
from router.errors import QuestionError
from router.types import Route, route_named

LONGEST_QUESTION = 4_096
_MOST_FIELDS = 64
MOST_PASSAGES = 100

ROUTES = frozenset(route.value for route in Route)
DEFAULT_ROUTE = Route.AUTO


class Strict(BaseModel):
    """A request in which a misspelt field is an error, not ignored."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    @model_validator(mode="wrap")
    @classmethod
    def _say_what_was_meant(cls, value: object, validate: ModelWrapValidatorHandler[Self]) -> Self:
        # Each unknown field is an error of its own, and a body may have thousands.
        if isinstance(value, Mapping) and len(value) > _MOST_FIELDS:
            raise ValueError(f"there are {len(value):,} fields, and most are unknown")
        try:
            return validate(value)
        except ValidationError as error:
            faults = [_meant(fault, cls.model_fields) for fault in error.errors()]
            raise ValidationError.from_exception_data(cls.__name__, faults) from None


def _meant(fault: ErrorDetails, fields: Iterable[str]) -> InitErrorDetails:
    """The same fault; a field that is not known with those that it may have been meant for."""
    said = fault["msg"]
    if fault["type"] == "extra_forbidden" and len(fault["loc"]) == 1:
        known = f"There are {', '.join(fields)}."
        said = f"There is no such field.{suggestion(str(fault['loc'][0]), fields) or ' ' + known}"
    kind = PydanticCustomError(fault["type"], said)
    return InitErrorDetails(type=kind, loc=fault["loc"], input=fault["input"])


def _a_route(value: object) -> object:
    try:
        return route_named(value) if isinstance(value, str) else value
    except QuestionError as error:
        raise ValueError(str(error)) from None


def _exact(value: object) -> object:
    """Neither "5" nor true is a number, though Python would make one of it."""
    if isinstance(value, str | bool):
        raise ValueError("send a number, without quotes")  # noqa: TRY004 - pydantic's word
    return value


Exact = BeforeValidator(_exact)
"""Of a number in JSON."""


def _some_words(text: str) -> str:
    if not text.strip():
        raise ValueError("ask with at least one word")
    return text


def _a_filter(value: object) -> object:
    """Checked here, so that a bad filter is refused before it waits for anything."""
    if value is not None:
        parse_filter(value)
    return value


QuestionText = Annotated[
    str,
    Field(min_length=1, max_length=LONGEST_QUESTION, description="What to ask, in plain words."),
    AfterValidator(_some_words),
]
Passages = Annotated[
    int,
    Field(
        ge=1,
        le=MOST_PASSAGES,
        description="Passages wanted; fewer come back where there are no more.",
    ),
    Exact,
]
Filter = Annotated[
    dict[str, Any] | None,
    BeforeValidator(_a_filter),
    Field(
        description=(
            "A metadata filter as in OpenAI's vector stores: a comparison with `type` (eq, ne, gt, "
            "gte, lt, lte, in, nin), `key` and `value`, or `and`/`or` with `filters`. It holds "
            "exactly, in every arm: a passage that it keeps out is neither returned nor used to "
            "find another."
        ),
        examples=[{"type": "gte", "key": "year", "value": 1850}],
    ),
]
CollectionName = Annotated[
    str | None,
    Field(
        min_length=1,
        max_length=64,
        description="Which collection; without it the first. `GET /v1/vector_stores` lists them.",
    ),
]
DeadlineMs = Annotated[
    int | None,
    Field(
        ge=1,
        le=3_600_000,
        description=(
            "Time for finding passages, in milliseconds. When the route asked for would take "
            "longer, dense search answers instead and the reply says `degraded`; `steps` takes no "
            "further one after half of the time, and says so there; when nothing is found in time, "
            "the reply is 504."
        ),
    ),
    Exact,
]
RouteChoice = Annotated[
    Route,
    BeforeValidator(_a_route),
    Field(
        description=(
            "Which way to search: `auto` scores the question and decides; `dense`, `lexical` and "
            "`graph` are single arms; `hybrid` is dense and lexical, `fusion` as the settings say; "
            "`steps` is fusion for a question and, one after another, for its parts."
        )
    ),
]
MaxLatencyMs = Annotated[
    float | None,
    Field(
        gt=0,
        le=3_600_000,
        description=(
            "Most time for an answer where the router chooses: it takes a cheaper route when the "
            "one that the score asks for usually takes longer, and `route.reason` says `budget`. "
            "The route `steps` takes no further one after it, and `degraded` says so."
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
            "prices; one that costs more is not asked, and `missing` says so."
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
            "Leave out passages whose `relevance` is less, so that fewer than `k` may come back; "
            "422 where no relevance is known."
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
            "Say that the collection probably has no answer, and ask no language model, where "
            "`answerability` is less; 0 answers always, and so does any where none is known."
        ),
    ),
    Exact,
]
OperatingPoint = Annotated[
    str,
    Field(
        max_length=40,
        description=(
            "Which of the router's pairs of thresholds `auto` goes by: `quality`, `balanced` or "
            "`fast`; empty for the pair in use."
        ),
    ),
]


class SearchRequest(Strict):
    """A question, and how to find passages for it."""

    question: QuestionText
    route: RouteChoice = DEFAULT_ROUTE
    k: Passages = 5
    filter: Filter = None
    collection: CollectionName = None
    explain: bool = Field(
        default=False,
        strict=True,
        description=(
            "Also say why it took its route (`route.summary`), what pushed the score "
            "(`route.contributions`), how the question is built "
            "(`route.trees`), what each arm would have returned (`arms.*.hits`), how the graph "
            "came to its ranking (`explanation`) and what names were put in (`steps`); takes a few "
            "milliseconds more."
        ),
    )
    min_relevance: MinRelevance = 0.0
    max_latency_ms: MaxLatencyMs = None
    max_cost: MaxCost = None
    point: OperatingPoint = ""
    deadline_ms: DeadlineMs = None
