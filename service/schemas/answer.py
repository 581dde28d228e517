"""`/v1/answer`."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from wye.router.relevance import ABSTAIN_BELOW
from wye.service.schemas.common import AbstainBelow, Exact, SearchRequest
from wye.service.schemas.retrieve import RetrieveReply

_QUESTION = "Who designed the bridge that crosses the Neretva in Mostar?"


class Turn(BaseModel):
    """An earlier turn of the conversation."""

    role: Literal["user", "assistant"]
    content: Annotated[str, Field(max_length=16_384)]


class AnswerRequest(SearchRequest):
    """A question to be answered from passages."""

    stream: bool = Field(
        default=False,
        strict=True,
        description=(
            "Send server-sent events: `retrieval` with the passages, a `delta` for each piece of "
            "text, `error` if the language model breaks off, and `done` with the whole answer."
        ),
    )
    abstain_below: AbstainBelow = ABSTAIN_BELOW
    history: Annotated[
        list[Turn],
        Field(max_length=50, description="Earlier turns of the conversation, oldest first."),
    ] = Field(default_factory=list)
    max_tokens: Annotated[
        int | None,
        Field(ge=1, le=32_768, description="Longest answer of a language model, in tokens."),
        Exact,
    ] = None

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"question": _QUESTION}, {"question": _QUESTION, "k": 3, "stream": True}]
        }
    )


class CitedSentence(BaseModel):
    """A sentence of a passage that the answer quotes."""

    text: str = Field(description="The sentence, verbatim.")
    start: int = Field(description="Character offset in the passage's text, from 0.")
    end: int = Field(description="Character offset after its last character.")


class Citation(BaseModel):
    """A passage that the answer cites by number."""

    index: int = Field(description="Its number, as in [1]; from 1, in the order of the passages.")
    id: str
    title: str
    document: str
    sentences: list[CitedSentence] = Field(
        default_factory=list,
        description="The sentences that are quoted; empty if a language model answered.",
    )


class Segment(BaseModel):
    """A part of the answer, and the passages that it cites."""

    text: str = Field(description="The text, without the numbers that follow it in `answer`.")
    passages: list[int] = Field(
        default_factory=list,
        description="Numbers of the cited passages, as `index` in `citations`; may be empty.",
    )


class AnswerValue(BaseModel):
    """An answer and its sources."""

    answer: str = Field(
        description=(
            "The answer; a number in square brackets cites a passage of `retrieval`. If a quoted "
            "source itself has a number in such brackets, it appears as [ 5 ]. `segments` hold the "
            "same without brackets."
        )
    )
    segments: list[Segment] = Field(description="The answer in parts, in order.")
    citations: list[Citation]
    generator: str = Field(
        description="Name of the language model, or `extractive` if sentences are quoted."
    )
    note: str = Field(default="", description="Why no language model answered; empty if one did.")
    finish_reason: str = Field(
        description="`stop`; `length` if the answer was cut off; `error` if it broke off."
    )
    usage: dict[str, int] = Field(
        default_factory=dict, description="Tokens as counted by the language model's endpoint."
    )


class AnswerReply(AnswerValue):
    """An answer and the retrieval that it is based on."""

    retrieval: RetrieveReply
