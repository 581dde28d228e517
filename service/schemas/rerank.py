"""Texts to be put in order, as Cohere, Jina and vLLM have them."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StrictBool

from service.schemas.common import DeadlineMs, Exact, QuestionText

MOST_TEXTS = 256
LONGEST_TEXT = 16_384

Text = Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT)]


class RerankText(BaseModel):
    """A text that may have a title."""

    text: Text
    title: Annotated[str, Field(max_length=LONGEST_TEXT)] = ""


class RerankRequest(BaseModel):
    """What rerankers are asked; fields of theirs that are not here are let be."""

    model: Annotated[
        str, Field(max_length=256, description="Any; `wye-hybrid` ranks, as the reply says.")
    ] = ""
    query: QuestionText
    documents: Annotated[
        list[Text | RerankText],
        Field(
            min_length=1,
            max_length=MOST_TEXTS,
            description="The encoder reads the beginning of each, BM25 all of it.",
        ),
    ]
    top_n: Annotated[
        Annotated[int, Field(ge=1), Exact] | None, Field(description="Results; all without it.")
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
    """One of the texts."""

    index: int = Field(description="Its place among `documents`, from 0.")
    relevance_score: float = Field(
        description=(
            "Probability that it is relevant, 0 to 1, and never more than that of the result "
            "before; where `calibrated` is false, its share of the best score."
        )
    )
    document: RerankText | None = Field(default=None, description="If it was asked for.")


class RerankUsage(BaseModel):
    """Words of the query and of the texts."""

    prompt_tokens: int
    total_tokens: int


class RerankReply(BaseModel):
    """The texts, best first."""

    id: str
    model: str
    results: list[RerankResult]
    usage: RerankUsage
    calibrated: bool = Field(
        description="Whether `relevance_score` is a probability, and compares between requests."
    )
