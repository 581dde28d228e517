"""The supported part of OpenAI's responses."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StrictBool

from service.schemas.chat import (
    LONGEST_MESSAGE,
    MOST_MESSAGES,
    MOST_TOKENS,
    Content,
    ModelName,
    WyeOptions,
    text_of,
)
from service.schemas.common import Exact, Filter
from service.schemas.vector_stores import RankingOptions

MOST_TOOLS = 16
SEARCH = "file_search"
RESULTS = "file_search_call.results"
"""The value of `include` that asks for the passages."""

_ASKED: dict[str, JsonValue] = {
    "model": "wye-auto",
    "input": "Which river does the Old Bridge of Mostar cross?",
}


class InputItem(BaseModel):
    """A message; items of other types are ignored."""

    model_config = ConfigDict(extra="allow")

    type: Annotated[str | None, Field(max_length=64)] = None
    role: Literal["user", "assistant", "system", "developer"] | None = None
    content: Content = None

    @property
    def text(self) -> str:
        """The text of the message, its parts joined by line breaks."""
        return text_of(self.content)


class Tool(BaseModel):
    """A tool; only `file_search` is supported."""

    model_config = ConfigDict(extra="allow")

    type: Annotated[str, Field(max_length=64)] = SEARCH
    vector_store_ids: Annotated[list[str], Field(max_length=MOST_TOOLS)] = Field(
        default_factory=list, description="One collection by name; default: that of `model`."
    )
    max_num_results: Annotated[int | None, Field(ge=1, le=50), Exact] = None
    filters: Filter = None
    ranking_options: RankingOptions | None = None


class ResponseRequest(BaseModel):
    """A question. Fields of OpenAI's protocol that are not listed are ignored."""

    model_config = ConfigDict(
        extra="allow",
        allow_inf_nan=False,
        json_schema_extra={
            "examples": [
                _ASKED,
                {
                    **_ASKED,
                    "tools": [
                        {
                            "type": SEARCH,
                            "vector_store_ids": ["default"],
                            "max_num_results": 3,
                            "filters": {"type": "lt", "key": "year", "value": 1900},
                        }
                    ],
                    "include": [RESULTS],
                },
            ]
        },
    )

    model: ModelName
    input: (
        Annotated[str, Field(min_length=1, max_length=LONGEST_MESSAGE)]
        | Annotated[list[InputItem], Field(min_length=1, max_length=MOST_MESSAGES)]
    )
    instructions: Annotated[str | None, Field(max_length=LONGEST_MESSAGE)] = None
    tools: Annotated[list[Tool], Field(max_length=MOST_TOOLS)] = Field(default_factory=list)
    include: Annotated[list[str] | None, Field(max_length=MOST_TOOLS)] = None
    stream: StrictBool | None = False
    previous_response_id: str | None = Field(
        default=None,
        description="Refused, since no conversation is stored; send the turns as `input`.",
    )
    max_output_tokens: Annotated[int | None, Field(ge=1, le=MOST_TOKENS), Exact] = None
    temperature: Annotated[float | None, Field(ge=0, le=2), Exact] = None
    top_p: Annotated[float | None, Field(ge=0, le=1), Exact] = None
    metadata: dict[str, Any] | None = None
    wye: WyeOptions = Field(default_factory=WyeOptions)

    def sampling(self) -> dict[str, Any]:
        """The options that are passed to a language model."""
        given = {
            "max_tokens": self.max_output_tokens,
            "temperature": self.temperature,
            "top_p": self.top_p,
        }
        return {name: value for name, value in given.items() if value is not None}
