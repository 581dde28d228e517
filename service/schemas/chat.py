"""The supported part of OpenAI's chat protocol."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StrictBool

from wye.router.relevance import ABSTAIN_BELOW
from wye.service.schemas.common import (
    AbstainBelow,
    DeadlineMs,
    Exact,
    Filter,
    MaxCost,
    MaxLatencyMs,
    MinRelevance,
    OperatingPoint,
    Passages,
    Strict,
)

MOST_MESSAGES = 512
LONGEST_MESSAGE = 400_000
# Clients send the longest reply that their model could write.
MOST_TOKENS = 1_048_576

_CONVERSATION: dict[str, JsonValue] = {
    "model": "wye-auto",
    "messages": [
        {"role": "system", "content": "You are a patient guide to bridges."},
        {"role": "user", "content": "Which bridge is in Mostar?"},
        {"role": "assistant", "content": "Stari Most, the Old Bridge [1]."},
        {"role": "user", "content": "Which river does the Old Bridge of Mostar cross?"},
    ],
}


class ContentPart(BaseModel):
    """A part of a message; only text is read."""

    model_config = ConfigDict(extra="allow")

    type: Annotated[str, Field(max_length=64)]
    text: Annotated[str | None, Field(max_length=LONGEST_MESSAGE)] = None


class ChatMessage(BaseModel):
    """One message of the conversation."""

    model_config = ConfigDict(extra="allow")

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: (
        Annotated[str, Field(max_length=LONGEST_MESSAGE)]
        | Annotated[list[ContentPart], Field(max_length=64)]
        | None
    ) = None

    @property
    def text(self) -> str:
        """The text of the message, its parts joined by line breaks."""
        if isinstance(self.content, list):
            return "\n".join(part.text for part in self.content if part.text)
        return self.content or ""


class StreamOptions(BaseModel):
    """What a stream contains besides the answer."""

    include_usage: StrictBool = False


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


class ChatRequest(BaseModel):
    """A conversation. Fields of OpenAI's protocol that are not listed are ignored."""

    model_config = ConfigDict(
        extra="allow",
        allow_inf_nan=False,
        json_schema_extra={"examples": [_CONVERSATION, {**_CONVERSATION, "stream": True}]},
    )

    model: str = Field(
        max_length=200,
        description="`wye-ROUTE`, or `wye-ROUTE:COLLECTION` for any but the first collection.",
    )
    messages: Annotated[
        list[ChatMessage], Field(min_length=1, max_length=MOST_MESSAGES, fail_fast=True)
    ]
    stream: StrictBool | None = False
    stream_options: StreamOptions | None = None
    n: Annotated[
        int | None, Field(ge=1, le=1, description="Only one answer is available."), Exact
    ] = None
    temperature: Annotated[float | None, Field(ge=0, le=2), Exact] = None
    top_p: Annotated[float | None, Field(ge=0, le=1), Exact] = None
    max_tokens: Annotated[int | None, Field(ge=1, le=MOST_TOKENS), Exact] = None
    max_completion_tokens: Annotated[int | None, Field(ge=1, le=MOST_TOKENS), Exact] = None
    stop: (
        Annotated[str, Field(max_length=200)] | Annotated[list[str], Field(max_length=4)] | None
    ) = None
    seed: Annotated[int | None, Field(ge=-(2**63), le=2**63 - 1), Exact] = None
    frequency_penalty: Annotated[float | None, Field(ge=-2, le=2), Exact] = None
    presence_penalty: Annotated[float | None, Field(ge=-2, le=2), Exact] = None
    wye: WyeOptions = Field(default_factory=WyeOptions)

    def sampling(self) -> dict[str, Any]:
        """The options that are passed to a language model."""
        names = (
            "temperature top_p max_tokens max_completion_tokens stop seed frequency_penalty "
            "presence_penalty"
        )
        return self.model_dump(include={*names.split()}, exclude_none=True)
