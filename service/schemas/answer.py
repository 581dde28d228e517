"""`/v1/answer`."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from router.relevance import ABSTAIN_BELOW
from service.schemas.common import AbstainBelow, Exact, SearchRequest
from service.schemas.retrieve import RetrieveReply

_QUESTION = "Who designed the bridge that crosses the Neretva in Mostar?"


class Turn(BaseModel):
    """What was said before."""

    role: Literal["user", "assistant"]
    content: Annotated[str, Field(max_length=16_384)]


class AnswerRequest(SearchRequest):
    """A question to be answered from passages."""

    stream: bool = Field(
        default=False,
        strict=True,
        description=(
            "Send server-sent events: `retrieval` with the passages, a `delta` for each piece of "
            "text, and `done` with the whole answer, or `error`."
        ),
    )
    abstain_below: AbstainBelow = ABSTAIN_BELOW
    history: Annotated[
        list[Turn],
        Field(max_length=50, description="Earlier turns of the conversation, oldest first."),
    ] = Field(default_factory=list)
    max_tokens: Annotated[
        int | None,
        Field(ge=1, le=32_768, description="Of the answer, for a language model."),
        Exact,
    ] = None

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"question": _QUESTION}, {"question": _QUESTION, "k": 3, "stream": True}]
        }
    )


class CitedSentence(BaseModel):
    """A sentence of a passage that an answer is made of."""

    text: str = Field(description="As the passage has it.")
    start: int = Field(description="Character offset in the passage's text, from 0.")
    end: int = Field(description="Behind its last character.")


class Citation(BaseModel):
    """A passage that the answer names by number."""

    index: int = Field(description="As in [1]; from 1, in the order of the passages.")
    id: str
    title: str
    document: str
    sentences: list[CitedSentence] = Field(
        default_factory=list, description="That are quoted; none from a language model."
    )


class Segment(BaseModel):
    """A part of the answer, and the passages that it is from."""

    text: str = Field(description="Without the numbers that stand behind it in `answer`.")
    passages: list[int] = Field(
        default_factory=list, description="Their numbers, as `index` in `citations`; or none."
    )


class AnswerValue(BaseModel):
    """An answer and where it comes from."""

    answer: str = Field(
        description=(
            "Numbers in square brackets name passages of `retrieval`. What a quoted source has in "
            "such brackets itself stands as [ 5 ]. `segments` say the same without brackets."
        )
    )
    short_answer: str = Field(
        default="",
        description=(
            "The answer in a few words, without a language model: a name, a date, a number, yes, "
            "no. Empty where none stands out, and where a language model answered."
        ),
    )
    segments: list[Segment] = Field(description="The answer in parts, in order.")
    citations: list[Citation]
    generator: str = Field(
        description="Name of the language model, or `extractive` for sentences of the passages."
    )
    note: str = Field(
        default="", description="Why the answer is not a language model's; empty when it is."
    )
    finish_reason: str = Field(description="`stop`, `length`, or `error` when it broke off.")
    usage: dict[str, int] = Field(
        default_factory=dict, description="Tokens, as the language model's endpoint counts them."
    )


class AnswerReply(AnswerValue):
    """An answer with the retrieval behind it."""

    retrieval: RetrieveReply
