"""Requests and replies of Dify's external knowledge."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from wye.backends.errors import FilterError
from wye.backends.filters import parse_filter
from wye.service.schemas.common import LONGEST_QUESTION, Exact, Passages

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
    """How many records Dify wants, and their lowest score."""

    top_k: Passages = 5
    score_threshold: Annotated[float, Field(ge=0, le=1), Exact] = 0.0


class DifyCondition(BaseModel):
    """A comparison with one metadata key."""

    name: str | list[str]
    comparison_operator: str
    value: Any = None

    def filter(self) -> dict[str, Any]:
        """The condition as a metadata filter.

        Raises:
            FilterError: No filter is equal to it; leaving it out would let more passages through.
        """
        names = [self.name] if isinstance(self.name, str) else self.name
        if len(names) != 1:
            raise FilterError(
                "A condition can have only one name here; send one condition for each."
            )
        kind = _COMPARISONS.get(self.comparison_operator)
        if kind is None:
            raise FilterError(
                f"There is no comparison '{self.comparison_operator:.40}' here; use one of "
                f"{', '.join(_COMPARISONS)}.",
            )
        return {"type": kind, "key": names[0], "value": self.value}


class MetadataCondition(BaseModel):
    """Comparisons with metadata, of which all must hold (`and`) or any (`or`)."""

    logical_operator: Literal["and", "or"] = "and"
    conditions: Annotated[list[DifyCondition], Field(max_length=64)] = Field(default_factory=list)


class DifyRequest(BaseModel):
    """A request of Dify for external knowledge; unknown fields are ignored."""

    knowledge_id: Annotated[str, Field(description="Name of a collection.", max_length=64)]
    query: Annotated[
        str,
        Field(
            max_length=LONGEST_QUESTION,
            description="The question; empty when Dify tests the connection.",
        ),
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
        """The metadata condition as a filter; None if there is no condition.

        Raises:
            FilterError: No filter is equal to it, or it is not well formed.
        """
        condition = self.metadata_condition
        if condition is None or not condition.conditions:
            return None
        parts = [each.filter() for each in condition.conditions]
        found = {"type": condition.logical_operator, "filters": parts}
        parse_filter(found)
        return found


class DifyRecord(BaseModel):
    """A passage as a record of Dify."""

    content: str
    score: float = Field(
        description=(
            "Probability that the passage is relevant, 0 to 1; if unknown, its score as a share of "
            "the best passage's."
        )
    )
    title: str
    metadata: dict[str, Any]


class DifyReply(BaseModel):
    """Passages, best first."""

    records: list[DifyRecord]
