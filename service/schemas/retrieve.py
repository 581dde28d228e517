"""`/v1/retrieve` and `/v1/route`."""

from functools import partial
from operator import is_
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from backends.trigraph.explanation import Explanation
from router.explain import Group
from router.types import ChainStep, Change, Contribution, Route
from service.schemas.common import (
    CollectionName,
    DeadlineMs,
    Filter,
    MaxLatencyMs,
    OperatingPoint,
    QuestionText,
    SearchRequest,
    Strict,
)

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
    """Which arm had a passage, and where."""

    arm: str = Field(
        description=(
            "dense, lexical or graph, or the name of a remote arm; steps for what searches with "
            "names put in gave, at the best rank in one of them."
        )
    )
    rank: int = Field(description="In that arm's list, from 1.")
    score: float = Field(
        description=(
            "The arm's own: a cosine, BM25, or a share of the walk's mass. Those of two arms are "
            "not comparable; fusion by scores first puts them on scales that are."
        )
    )
    share: float | None = Field(
        default=None,
        description=(
            "What the list added to the passage's score, which is the sum of all shares. Fused by "
            "scores, as by default: the list's weight times how far the score, on a common scale, "
            "is above the last of its list. Fused by ranks (`rrf`): weight / (rrf_k + rank). Null "
            "where nothing was fused."
        ),
    )


class PassageValue(BaseModel):
    """A passage that was found."""

    id: str
    rank: int = Field(description="From 1.")
    score: float = Field(description="Higher is better; comparable within one reply only.")
    relevance: float | None = Field(
        default=None,
        description=(
            "Probability that the passage is relevant, 0 to 1, comparable between replies and "
            "routes. Null where none is known: it was fitted for the default models and settings."
        ),
    )
    title: str
    text: str
    metadata: dict[str, Any]
    document: str = Field(description="The document that it is a part of; its own id if whole.")
    sources: list[SourceValue] = Field(description="Which arm had it at which rank.")


class RouteValue(BaseModel):
    """Which way a question took, and why."""

    path: Route = Field(description="That answered.")
    asked: Route = Field(description="That was asked for.")
    reason: str = Field(
        description=(
            "`score` when the score decided, `plan: …` when the question can be taken apart, "
            "`forced` when the request did, `budget: …` when a limit on time or cost did, "
            "`degraded: …` when something failed or was late."
        )
    )
    score: float | None = Field(
        default=None, description="Complexity of the question, from 0 to 1; null when not scored."
    )
    summary: str = Field(default="", description="Why, in a sentence or two; with `explain` only.")
    simple: Route | None = Field(
        default=None, description="The route of scores up to `low`; null when not scored."
    )
    thresholds: dict[str, float] | None = Field(
        default=None,
        description=(
            "Up to `low` a question takes the simple route, from `high` on the graph; above `low` "
            "one with a plan goes in steps where a smaller share of its names than `steps` head "
            "the first passages. They are the collection's, as they were when it was scored."
        ),
    )
    model: str = Field(default="", description="Name and version of the router's model.")
    contributions: list[Contribution] | None = Field(
        default=None, description="What each feature added to the logit; with `explain` only."
    )
    nearest_change: Change | None = Field(
        default=None, description="The smallest move of the score that changes the route."
    )
    without: list[str] | None = Field(
        default=None,
        exclude_if=_is_none,
        description=(
            "Features that the router went without, since there is no index here; left out where "
            "there is one."
        ),
    )
    trees: list[str] | None = Field(
        default=None,
        description=(
            "Constituency trees in brackets, one for each sentence of the question, where it was "
            "scored; with `explain` only."
        ),
    )


class ArmHitValue(BaseModel):
    """A place in one arm's own list."""

    id: str
    title: str
    rank: int = Field(description="From 1.")
    score: float = Field(description="The arm's own; comparable within its list only.")


class RemoteValue(BaseModel):
    """How a remote arm was asked."""

    kind: str = Field(description="Of service that it is, such as `lightrag`.")
    state: Literal["closed", "open", "half-open"] = Field(
        description=(
            "Of its circuit breaker: `open` while it is left alone after failures, `half-open` "
            "when a single call tries whether it is back."
        )
    )
    calls: int = Field(description="Made for this question, as far as they cost anything.")
    ms: float = Field(description="That it took, further tries included.")
    spent: float = Field(description="What its calls cost.")
    cached: bool = Field(description="Whether it is what it answered to the same a while ago.")


class MissingArm(BaseModel):
    """A remote arm that the route wanted, and that gave nothing."""

    arm: str
    reason: str = Field(description="In words; `budget: …` where a limit kept it out.")


class ArmValue(BaseModel):
    """What one arm brought in."""

    candidates: int = Field(description="Passages it could have returned, after filters.")
    returned: int
    note: str = Field(
        default="",
        description="What the arm had to do without; no fault where other arms were asked as well.",
    )
    hits: list[ArmHitValue] | None = Field(
        default=None, description="The arm's own first `k`, best first; with `explain` only."
    )
    remote: RemoteValue | None = Field(
        default=None,
        exclude_if=_is_none,
        description="How it was asked; left out for an arm of this server.",
    )


class IndexValue(BaseModel):
    """What was searched."""

    collection: str
    version: int = Field(description="Grows with every write.")


class RetrieveReply(BaseModel):
    """Passages, with everything it takes to see how they were found."""

    request_id: str = Field(description="Name it in feedback, and when something is wrong.")
    question: str
    passages: list[PassageValue] = Field(description="Best first.")
    answerability: float | None = Field(
        default=None,
        description=(
            "Probability that the collection has an answer, 0 to 1; null where none is known, and "
            "where nothing was found."
        ),
    )
    relevance_note: str | None = Field(
        default=None,
        exclude_if=_is_none,
        description="Why nothing is known of the relevance of these passages; else left out.",
    )
    route: RouteValue
    arms: dict[str, ArmValue] = Field(description="The arms that were run.")
    timings_ms: dict[str, float] = Field(
        description=(
            "Milliseconds by stage. `queue` is waiting; questions that were worked on together "
            "carry equal shares of their batch's time; `total` is what really passed."
        )
    )
    batch: int = Field(description="Questions that were worked on together.")
    index: IndexValue
    degraded: str = Field(
        default="", description="Why this is not what was asked for; empty when it is."
    )
    missing: list[MissingArm] | None = Field(
        default=None,
        exclude_if=_is_none,
        description=(
            "Remote arms that the route wanted and that gave nothing; left out, as are `spent` and "
            "`saved`, where the route has no remote arm."
        ),
    )
    spent: float | None = Field(
        default=None, exclude_if=_is_none, description="What calls of remote arms cost."
    )
    saved: float | None = Field(
        default=None,
        exclude_if=_is_none,
        description="What calls would have cost that the router did without.",
    )
    explanation: Explanation | None = Field(
        default=None, description="How the graph arm came to its ranking; with `explain` only."
    )
    steps: tuple[ChainStep, ...] | None = Field(
        default=None,
        description=(
            "Phrases of the question that were resolved first, from the inside out, with the names "
            "found for them; of the route `steps`, with `explain` only."
        ),
    )


class RouteRequest(Strict):
    """A question to be scored, but not answered."""

    question: QuestionText
    filter: Filter = None
    collection: CollectionName = None
    explain: bool = Field(
        default=False, strict=True, description="Also say what each feature adds to the score."
    )
    max_latency_ms: MaxLatencyMs = None
    point: OperatingPoint = ""
    deadline_ms: DeadlineMs = None

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"question": _QUESTION}, {"question": _QUESTION, "explain": True}]
        }
    )


class FeatureValue(BaseModel):
    """One of the numbers that a router can look at."""

    name: str = Field(description="As in `route.contributions`.")
    group: Group = Field(
        description="What it is about: what the question names, what is near it, how it is built."
    )
    meaning: str


class FeatureList(BaseModel):
    """All of them."""

    data: list[FeatureValue]


class RouteReply(BaseModel):
    """Which route a question would take."""

    request_id: str
    question: str
    route: RouteValue
