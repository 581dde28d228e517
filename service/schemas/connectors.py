"""What other programs send and expect: Dify's external knowledge, Open WebUI's web search."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from backends.errors import FilterError
from backends.filters import parse_filter
from service.schemas.common import LONGEST_QUESTION, MOST_PASSAGES, Exact, Passages

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


class RetrievalSetting(BaseModel):
    """How many records Dify wants, and how good."""

    top_k: Passages = 5
    score_threshold: Annotated[float, Field(ge=0, le=1), Exact] = 0.0


class DifyCondition(BaseModel):
    """One comparison of a record's metadata."""

    name: str | list[str]
    comparison_operator: str
    value: Any = None

    def filter(self) -> dict[str, Any]:
        """As a filter of ours.

        Raises:
            FilterError: It has no equal; to leave it out would let more through.
        """
        names = [self.name] if isinstance(self.name, str) else self.name
        if len(names) != 1:
            raise FilterError("A condition is of one name here; send one for each.")
        kind = _COMPARISONS.get(self.comparison_operator)
        if kind is None:
            raise FilterError(
                f"There is no comparison '{self.comparison_operator:.40}' here; there are "
                f"{', '.join(_COMPARISONS)}.",
            )
        return {"type": kind, "key": names[0], "value": self.value}


class MetadataCondition(BaseModel):
    """Comparisons of a record's metadata, all of which have to hold, or any."""

    logical_operator: Literal["and", "or"] = "and"
    conditions: Annotated[list[DifyCondition], Field(max_length=64)] = Field(default_factory=list)


class DifyRequest(BaseModel):
    """What Dify asks of external knowledge; fields that a later version adds are let be."""

    knowledge_id: Annotated[str, Field(description="Name of a collection.", max_length=64)]
    query: Annotated[
        str,
        Field(max_length=LONGEST_QUESTION, description="Empty where Dify tries the connection."),
    ]
    retrieval_setting: RetrievalSetting = Field(default_factory=RetrievalSetting)
    metadata_condition: MetadataCondition | None = None

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "knowledge_id": "default",
                    "query": "Who designed the Iron Bridge?",
                    "retrieval_setting": {"top_k": 3, "score_threshold": 0.2},
                },
                {
                    "knowledge_id": "default",
                    "query": "Which bridge was built first?",
                    "retrieval_setting": {"top_k": 3, "score_threshold": 0.0},
                    "metadata_condition": {
                        "conditions": [
                            {"name": "year", "comparison_operator": "<", "value": 1850},
                        ]
                    },
                },
            ]
        }
    )

    def filter(self) -> dict[str, Any] | None:
        """Of metadata, as ours; None lets all through.

        Raises:
            FilterError: It has no equal, or is not well formed.
        """
        condition = self.metadata_condition
        if condition is None or not condition.conditions:
            return None
        parts = [each.filter() for each in condition.conditions]
        found = {"type": condition.logical_operator, "filters": parts}
        parse_filter(found)
        return found


class DifyRecord(BaseModel):
    """A passage."""

    content: str
    score: float = Field(
        description=(
            "Probability that it is relevant, 0 to 1; where none is known, the score as a share of "
            "the best passage's."
        )
    )
    title: str
    metadata: dict[str, Any]


class DifyReply(BaseModel):
    """Passages, best first."""

    records: list[DifyRecord]


class WebSearchRequest(BaseModel):
    """What Open WebUI asks of an external search engine."""

    query: Annotated[str, Field(min_length=1, max_length=LONGEST_QUESTION)]
    count: Annotated[int, Field(ge=1, le=MOST_PASSAGES), Exact] = 5

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"query": "Who designed the Iron Bridge?"},
                {"query": "Which bridge was built first?", "count": 3},
            ]
        }
    )


class WebSearchResult(BaseModel):
    """A passage."""

    link: str = Field(description="`url` of its metadata, else `wye:` and the document's id.")
    title: str
    snippet: str
