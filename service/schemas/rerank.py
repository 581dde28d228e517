"""Requests and replies of a reranker, as Cohere, Jina and vLLM define them."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StrictBool

from wye.service.schemas.common import DeadlineMs, Exact, QuestionText

MOST_TEXTS = 256
LONGEST_TEXT = 16_384

Text = Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT)]


class RerankText(BaseModel):
    """A text with an optional title."""

    text: Text
    title: Annotated[str, Field(max_length=LONGEST_TEXT)] = ""


class RerankRequest(BaseModel):
    """A request to a reranker; unknown fields are ignored."""

    model: Annotated[
        str, Field(max_length=256, description="Any name; `wye-hybrid` is used in any case.")
    ] = ""
    query: QuestionText
    documents: Annotated[
        list[Text | RerankText],
        Field(
            min_length=1,
            max_length=MOST_TEXTS,
            description="Texts to rank. The encoder reads the beginning of each, BM25 all of it.",
        ),
    ]
    top_n: Annotated[
        Annotated[int, Field(ge=1), Exact] | None,
        Field(description="How many results to return; default: all."),
    ] = None
    return_documents: StrictBool = False
    deadline_ms: DeadlineMs = None

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "model": "wye-hybrid",
                    "query": "Which bridge was built first?",
                    "documents": [
                        "Tower Bridge crosses the Thames.",
                        "The Old Bridge was finished in 1566.",
                    ],
                },
                {
                    "query": "Who designed the Iron Bridge?",
                    "documents": [{"text": "It was cast at Coalbrookdale."}, "Ada met Babbage."],
                    "top_n": 1,
                    "return_documents": True,
                },
            ]
        }
    )


class RerankResult(BaseModel):
    """A ranked text."""

    index: int = Field(description="Position of the text in `documents`, from 0.")
    relevance_score: float = Field(
        description=(
            "Probability that the text is relevant, 0 to 1, never higher than that of the result "
            "before it. If `calibrated` is false, its share of the best score."
        )
    )
    document: RerankText | None = Field(
        default=None, description="The text; only with `return_documents`."
    )


class RerankUsage(BaseModel):
    """Number of words in the query and the texts; both fields are equal."""

    prompt_tokens: int
    total_tokens: int


class RerankReply(BaseModel):
    """The texts, best first."""

    id: str
    model: str
    results: list[RerankResult]
    usage: RerankUsage
    calibrated: bool = Field(
        description="Whether `relevance_score` is a probability, comparable between requests."
    )
